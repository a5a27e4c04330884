"""
Times products and convolutions on a Vulkan device, and PyTorch's under CUDA graphs.

    python benchmarks/ceiling.py --target nvidia-h200 -o benchmarks/results/h200-ceiling.json
    .lavapipe/run python benchmarks/ceiling.py --target lavapipe --small

The cases are 24 products and 13 convolutions of ResNet-50. Operands are uniform in [-1, 1), or in
the full range of 8-bit integers. B is a weight: packing B is not timed, packing A is. Where an
application would not have the weights in a cache, a program multiplies by several matrices that
are together larger than any cache. `--variants` ({"case": ["#schedule...", ...]}) adds schedules
to the default; `variants-h200.json` has 39. A case of the variants may be another matmul (`matmul
1000x1024x1024 f16 -> f32 as f16`). `4 parts #schedule...` splits the product along K. `--also
FILE` also compiles all cases for another target file (a copy with `keep_loops`, for example).
`--pause` waits before each timing, to show the effect of an idle clock.

Every result is compared with PyTorch (or numpy) in binary32; results of 8-bit operands are
compared with the exact result in binary64. PyTorch's time is a twelfth of a graph of twelve
products. `us`, `pack_us` and `ratio` are times of single dispatches between timestamps, including
3 us of launch time. `following_us` and `following_ratio` are a twelfth of one submission of twelve
products, each waiting for its predecessor.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from contractions import BF16, DTYPES, F16, F32, S8, Case, depthwise, mlir_type
from device_runs import CUDA, WARM_UP, graph_us, parser_of, torch
from xdsl.passes import PassPipeline
from xdsl.universe import Universe

from xdsl_spirv.compiler.compiler import compile_module
from xdsl_spirv.runtime.modules import context, parse_text
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.runtime.vulkan import open_isolated

CACHE = 100_000_000
"""Bytes of weights that exceed the device's caches."""

RUNS = 15

COPIES = 12
"""Number of products in a CUDA graph of PyTorch. They share the launch time of the graph."""


@dataclass(frozen=True)
class Product:
    """`count` contractions of one input with different weights. Results have the type `stored`."""

    case: Case
    stored: str
    count: int = 1
    is_weight: bool = True
    apart: str = ""
    """Suffix of the name that distinguishes cases with equal sizes and types."""

    def __str__(self) -> str:
        stored = f" as {self.stored}" if self.stored != self.case.types[2] else ""
        return f"{self.case.name}{stored}{self.apart}"

    @property
    def weights(self) -> list[str]:
        return [f"B{number}" for number in range(self.count)]

    def text(self, schedule: str | None) -> str:
        """Returns the MLIR of a function that computes the products in sequence."""
        lines = self.case.text(schedule).splitlines()
        a, b, out = (tensor_of(self.case, name) for name in ("a", "b", "out"))
        to = f"{out.rpartition('x')[0]}x{mlir_type(self.stored)}>"
        body: list[str] = []
        for number in range(self.count):
            own = "\n".join(lines[1:-2])
            for name in ("%zero", "%e ", "%e:", "%f", "%r", "%B"):
                own = own.replace(name, f"{name[:2]}{number}_{name[1:]}")
            body.append(own)
            if to != out:
                body.append(_rounded(number, self.case, out, to))
        last = "h" if to != out else "r"
        results = ", ".join(
            f"%h{number}" if last == "h" else f"%r{number}_r" for number in range(self.count)
        )
        arguments = ", ".join([f"%A: {a}", *(f"%B{number}_B: {b}" for number in range(self.count))])
        types = ", ".join([to] * self.count)
        text = "\n".join(body)
        return (
            f"func.func @main({arguments}) -> ({types}) {{\n{text}\nreturn {results} : {types}\n}}"
        )


def tensor_of(case: Case, operand: str) -> str:
    type = case.types[("a", "b", "out").index(operand)]
    return f"tensor<{'x'.join([*map(str, case.shape(operand)), mlir_type(type)])}>"


def _rounded(number: int, case: Case, out: str, to: str) -> str:
    loops = ", ".join(case.out)
    kinds = ", ".join(['"parallel"'] * len(case.out))
    one = f"affine_map<({loops}) -> ({loops})>"
    element, narrow = mlir_type(case.types[2]), to.rpartition("x")[2][:-1]
    return f"""  %n{number} = tensor.empty() : {to}
  %h{number} = linalg.generic {{indexing_maps = [{one}, {one}], iterator_types = [{kinds}]}}
      ins(%r{number}_r : {out}) outs(%n{number} : {to}) {{
  ^bb0(%wide: {element}, %unused: {narrow}):
    %narrow = arith.truncf %wide : {element} to {narrow}
    linalg.yield %narrow : {narrow}
  }} -> {to}"""


def matmul(m: int, n: int, k: int, types: Any = F32, stored: str = "", count: int = 1) -> Product:
    turned = types == S8
    name = f"matmul {m}x{n}x{k} {types[0]} -> {types[2]}"
    sizes = {"m": m, "n": n, "k": k}
    case = Case(name, types, sizes, "mk", "nk" if turned else "kn", "mn")
    return Product(case, stored or types[2], count)


def rows(m: int, n: int, k: int) -> Product:
    """Returns products of few rows by several weight matrices, together larger than the caches."""
    return matmul(m, n, k, F32, "f16", math.ceil(CACHE / (2 * n * k)))


def batched(batch: int, m: int, n: int, k: int) -> Product:
    name = f"batch_matmul {batch}x{m}x{n}x{k} f16 -> f32"
    sizes = {"i": batch, "m": m, "n": n, "k": k}
    return Product(Case(name, F32, sizes, "imk", "ikn", "imn"), "f16", 1, False)


def convolution(batch: int, extent: int, channels: int, types: Any = F32) -> Product:
    sizes = {"i": batch, "y": extent, "x": extent, "f": channels, "r": 3, "s": 3, "c": channels}
    name = f"conv 3x3 {batch}x{extent}x{extent}x{channels} {types[0]} -> {types[2]}"
    case = Case(name, types, sizes, "iyxc", "rscf", "iyxf", (("y", "r"), ("x", "s")))
    return Product(case, "f16" if types == F32 else types[2])


def products() -> list[Product]:
    square = [matmul(4096, 4096, 4096, types) for types in (F16, F32, BF16, S8)]
    square += [matmul(4096, 4096, 4096, F32, "f16"), matmul(8192, 8192, 8192, S8)]
    square += [matmul(2048, 2048, 2048, F32, "f16")]
    small = [matmul(1024, 1024, 1024), matmul(1024, 1024, 1024, S8), matmul(512, 512, 512)]
    few = [rows(m, 4096, 4096) for m in (1, 8, 16, 32, 128)] + [rows(16, 14336, 4096)]
    bert = [(4096, 1536, 384), (4096, 384, 1536), (4096, 384, 384)]
    long = [matmul(*sizes, F32, "f16") for sizes in ((8192, 1024, 1024), *bert)]
    odd = [matmul(1000, 1000, 1000), matmul(4095, 4095, 4095)]
    return [
        *square,
        *small,
        *few,
        *long,
        batched(64, 512, 512, 64),
        batched(64, 512, 64, 512),
        *odd,
    ]


def convolutions() -> list[Product]:
    three = [convolution(32, *sizes) for sizes in ((56, 64), (28, 128), (14, 256), (7, 512))]
    three += [convolution(batch, 56, 256) for batch in (1, 32)]
    places = ((100352, 64, 256), (25088, 128, 512), (6272, 256, 1024))
    one = [matmul(m, *nk, F32, "f16") for m, n, k in places for nk in ((n, k), (k, n))]
    return [*three, *one, Product(depthwise(32, F16), "f16")]


def few() -> list[Product]:
    """Returns products with different numbers of rows and sizes of K."""
    square = [rows(m, 4096, 4096) for m in (1, 2, 4, 8, 16)]
    return square + [rows(m, *nk) for nk in ((14336, 4096), (4096, 14336)) for m in (1, 8)]


def cached() -> list[Product]:
    """Returns products of few rows by one matrix that stays in the cache."""
    sizes = [(m, 4096, 4096) for m in (1, 16, 32, 128)]
    return [replace(matmul(*s, F32, "f16"), apart=", cached weights") for s in sizes]


def given() -> list[Product]:
    """Returns products of two inputs. Both operands are packed in every run."""
    sizes = [(n, types) for n in (4095, 4096) for types in (F16, F32)]
    return [
        replace(matmul(n, n, n, types), is_weight=False, apart=", both inputs")
        for n, types in sizes
    ]


def extra() -> list[Product]:
    """Returns matmuls of sizes that other projects report, and of odd sizes for comparison."""
    candidates = [matmul(32768, 512, 64, F32, "f16")]
    candidates += [matmul(n, n, n, t) for n in (2048, 8192) for t in (F16, F32, BF16)]
    candidates += [matmul(n, n, n, t) for n in (1000, 1024, 4095) for t in (F16, F32, BF16)]
    candidates += [matmul(2048, 2048, 2048, S8), matmul(4095, 4095, 4095, S8)]
    return [product for product in candidates if str(product) not in map(str, products())]


def small() -> list[Product]:
    matmuls = [matmul(40, 48, 72, types, "", 2) for types in (F16, F32, S8)]
    return [*matmuls, batched(3, 32, 40, 24), convolution(2, 8, 16)]


def named(name: str) -> Product:
    """Finds a case in all groups, or parses the name of a matmul. Raises `ValueError` otherwise."""
    for group in GROUPS.values():
        for product in group():
            if str(product) == name:
                return product
    parts = re.fullmatch(r"matmul (\d+)x(\d+)x(\d+) (\w+) -> (\w+)(?: as (\w+))?", name)
    types = {f"{t[0]} -> {t[2]}": t for t in (F16, F32, BF16, S8)}
    if parts is None or (kind := types.get(f"{parts[4]} -> {parts[5]}")) is None:
        raise ValueError(f"{name!r} is unknown: use a case's name, or a matmul of known types")
    return matmul(int(parts[1]), int(parts[2]), int(parts[3]), kind, parts[6] or "")


def compiled(product: Product, target: str, schedule: str | None) -> Program | str:
    """
    Returns the program of a product with a schedule, without weight values, or the error message.
    """
    case = product.case
    zero = np.broadcast_to(np.zeros((), DTYPES[case.types[1]]), case.shape("b"))
    weights = dict.fromkeys((f"B{n}_B" for n in range(product.count)), zero)
    try:
        ctx = context()
        cut = re.fullmatch(r"(\d+) parts ?(.*)", schedule or "")
        module = parse_text(product.text(None if cut else schedule), str(product), ctx)
        if cut is not None:
            from packed_weights import cut_along_k

            cut_along_k(module, int(cut[1]), cut[2])
        elif schedule is not None:
            passes = Universe.get_multiverse().all_passes
            before = PassPipeline.parse_spec(passes, "linalg-to-contraction,form-dispatches")
            before.apply(ctx, module)
        program = compile_module(module, target, weights=weights if product.is_weight else None)
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:600]
    program.weights.clear()
    return program


class Data:
    """The operands, the expected first result and PyTorch's time."""

    def __init__(self, product: Product):
        case = self.case = product.case
        generator = np.random.default_rng(1)

        def values(operand: str, type: str) -> Any:
            shape, dtype = case.shape(operand), DTYPES[type]
            if type == "s8":
                return generator.integers(-128, 128, shape, np.int8)
            return generator.uniform(-1, 1, shape).astype(np.float32).astype(dtype)

        self.a, b = values("a", case.types[0]), values("b", case.types[1])
        self.b = [b] + [b.copy() if product.count > 1 else b] * (product.count - 1)
        self.exact = self._exact()
        bits = {"f16": 2.0**-12, "f32": 2.0**-20, "s32": 0.0}
        self.allowed = bits[case.types[2]] * case.depth
        if product.stored == "f16":
            self.allowed += 2.0**-10 * float(abs(self.exact).max())
        self.graph_us = _graph_us(product, self) if CUDA else None

    def _exact(self) -> Any:
        case, whole = self.case, self.case.types[2] == "s32"
        if CUDA:
            torch.backends.cuda.matmul.allow_tf32 = False
            torch.backends.cudnn.allow_tf32 = False
            kind = torch.float64 if whole else torch.float32
            a, b = (
                torch.from_numpy(v.astype(np.float32)).cuda().to(kind) for v in (self.a, self.b[0])
            )
            return _run_of(case, a, b)()
        a, b = (v.astype(np.float64) for v in (self.a, self.b[0]))
        if not case.windows:
            return np.einsum(f"{case.a},{case.b}->{case.out}", a, b, optimize=True)
        windows = np.lib.stride_tricks.sliding_window_view(a, (3, 3), (1, 2))
        return np.einsum(f"iyxcrs,{case.b}->{case.out}", windows, b, optimize=True)

    def right(self, result: Any) -> bool:
        if CUDA:
            computed = torch.from_numpy(
                result.astype(np.float32) if result.dtype.kind == "V" else result
            )
            exact = self.exact
            if self.case.windows:
                exact = exact.permute(0, 2, 3, 1)
            return bool((computed.cuda().to(exact.dtype) - exact).abs().max() <= self.allowed)
        return bool(np.abs(result.astype(np.float64) - self.exact).max() <= self.allowed)


def _run_of(case: Case, a: Any, b: Any, out: Any = None) -> Callable[[], Any]:
    if not case.windows:
        b = b.T if case.b == "nk" else b
        return lambda: torch.matmul(a, b, out=out)
    nhwc = torch.channels_last
    x = a.permute(0, 3, 1, 2).contiguous(memory_format=nhwc)
    w = b.permute(3, 2, 0, 1) if case.is_dense else b.permute(2, 0, 1)[:, None]
    w = w.contiguous(memory_format=nhwc)
    groups = 1 if case.is_dense else x.shape[1]
    return lambda: torch.nn.functional.conv2d(x, w, groups=groups)


def _graph_us(product: Product, data: Data) -> float | None:
    """Returns the microseconds of one product in a CUDA graph of all products."""
    case = product.case
    kinds = {"f16": torch.float16, "bf16": torch.bfloat16, "s8": torch.int8}
    kind = kinds[case.types[0]]

    def moved(array: Any) -> Any:
        if kind is torch.int8:
            return torch.from_numpy(array).cuda()
        return torch.from_numpy(array.astype(np.float32)).cuda().to(kind)

    a, weights = moved(data.a), [moved(b) for b in data.b]
    if kind is torch.int8:
        if case.windows:
            return None
        runs: list[Callable[[], Any]] = [lambda w=w: torch._int_mm(a, w.T) for w in weights]
    elif product.stored == "f32" and not case.windows:
        runs = [lambda w=w: torch.mm(a, w, out_dtype=torch.float32) for w in weights]
    else:
        runs = [_run_of(case, a, w) for w in weights]

    repeated = max(1, COPIES // len(runs))

    def run() -> None:
        for _ in range(repeated):
            for one in runs:
                one()

    return round(graph_us(run) / len(runs) / repeated, 2)


def measure(device: Any, product: Product, data: Data, program: Program, name: str) -> Any:
    record: dict[str, Any] = {"case": str(product), "schedule": name, "graph_us": data.graph_us}
    record["chosen"] = sorted({layer.schedule for layer in program.layers if layer.schedule})
    inputs = {"A": data.a}
    named = {f"B{number}_B": b for number, b in enumerate(data.b)}
    if product.is_weight:
        weights = [buffer for buffer in program.manifest.buffers if buffer.kind == "weight"]
        # A weight of a product that is split along K has another shape.
        values = [named[weight.name.removesuffix(".folded")] for weight in weights]
        shaped = [v.reshape(w.shape) for v, w in zip(values, weights, strict=True)]
        program.weights.update(zip((w.name for w in weights), shaped, strict=True))
    else:
        inputs |= named
    try:
        result = next(iter(device.execute(program, inputs).values()))
        record["ok"] = data.right(result)
        times = device.times(program, RUNS, WARM_UP)
        runs = max(1, COPIES // product.count)
        whole = np.median(device.times_of_runs(program, runs, RUNS)) / runs
    except Exception as error:
        return record | {"error": f"{type(error).__name__}: {error}"[:400]}
    finally:
        program.weights.clear()
    record["following_us"] = round(float(whole) / product.count / 1e3, 2)
    timed = list(zip(times, program.manifest.dispatches, strict=True))
    own = [t.median for t, d in timed if not d.once and not d.entry_point.startswith("pack_")]
    packing = [t.median for t, d in timed if not d.once and d.entry_point.startswith("pack_")]
    record["us"] = round(sum(own) / product.count / 1e3, 2)
    record["pack_us"] = round(sum(packing) / product.count / 1e3, 2)
    record["dispatches"] = (len(own) + len(packing)) / product.count
    record["tflops"] = round(product.case.flops * product.count / sum(own) / 1e3, 1)
    if data.graph_us:
        record["ratio"] = round(data.graph_us / (record["us"] + record["pack_us"]), 3)
        record["following_ratio"] = round(data.graph_us / record["following_us"], 3)
    return record


GROUPS = {
    "products": products,
    "convolutions": convolutions,
    "few": few,
    "cached": cached,
    "given": given,
    "extra": extra,
    "small": small,
}


def main(arguments: list[str] | None = None) -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--variants", type=Path, help='JSON: {"case": ["#schedule...", ...]}')
    parser.add_argument("--beside", type=Path, help="variants beside the defaults of all cases")
    parser.add_argument("--groups", default="products,convolutions")
    parser.add_argument("--also", nargs="*", default=[], help="target files, measured beside")
    parser.add_argument("--pause", type=float, default=0, help="seconds before a case's timing")
    options = parser.parse_args(arguments)
    begin = time.monotonic()
    variants = json.loads(options.variants.read_text()) if options.variants else {}
    beside = json.loads(options.beside.read_text()) if options.beside else {}
    groups = "small" if options.small else options.groups
    chosen = [candidate for group in groups.split(",") for candidate in GROUPS[group]()]
    if variants:
        chosen = [named(name) for name in variants]
    chosen = [candidate for candidate in chosen if options.only in str(candidate)]
    device: Any = open_isolated(options.device)
    records: list[dict[str, Any]] = []
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        jobs = [
            (product, schedule, target, pool.submit(compiled, product, target, schedule))
            for product in chosen
            for schedule in (None, *(variants or beside).get(str(product), ()))
            for target in (options.target, *options.also)
        ]
        data: Data | None = None
        last: Product | None = None
        for product, schedule, target, job in jobs:
            if time.monotonic() - begin > options.seconds:
                break
            try:
                if data is None or product != last:
                    data, last = Data(product), product
                    time.sleep(options.pause)
            except Exception as error:
                print(json.dumps({"case": str(product), "error": f"{error}"[:300]}), flush=True)
                last = None
                continue
            program = job.result()
            name = schedule or "default"
            if isinstance(program, str):
                record = {"case": str(product), "schedule": name, "error": program}
            else:
                record = measure(device, product, data, program, name)
            if target != options.target:
                record["target"] = Path(target).stem
            records.append(record)
            print(json.dumps(record), flush=True)
            if "error" in record and not isinstance(program, str):
                device.close()
                device = open_isolated(options.device)
    for name in ("ratio", "following_ratio"):
        own = [r for r in records if r["schedule"] == "default" and "target" not in r]
        ratios = [r[name] for r in own if r.get(name)]
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            print(f"geometric mean of {len(ratios)}, {name}: {mean:.3f}", flush=True)
    if options.output is not None:
        document = {
            "what": (__doc__ or "").strip().splitlines()[0],
            "date": time.strftime("%Y-%m-%d"),
            "target": options.target,
            "device": device.info.name,
            "torch": getattr(torch, "__version__", None),
            "records": records,
        }
        options.output.write_text(json.dumps(document, indent=1))
    device.close()
    return 0 if all(record.get("ok") for record in records) else 1


if __name__ == "__main__":
    sys.exit(main())
