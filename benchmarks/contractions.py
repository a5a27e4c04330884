"""
Times contractions on a Vulkan device, and PyTorch's on the same device.

    python benchmarks/contractions.py --target nvidia-h200 -o benchmarks/results/h200.json

Each case is compiled with the default schedule and with every schedule that `--variants` lists for
the case. Inputs are random. Results must lie within the bound of docs/numerics.md. The device
warms up for 150 ms. Each time is the median of single dispatches by GPU timestamps. Packing a
weight is timed separately. PyTorch is timed by CUDA events. Without PyTorch, numpy computes the
reference.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from device_runs import CUDA, WARM_UP, Job, parser_of, run_jobs, torch, torch_median
from xdsl.passes import PassPipeline
from xdsl.universe import Universe

from xdsl_spirv.compiler.compiler import compile_module
from xdsl_spirv.runtime.modules import context, parse_text

DTYPES = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "s8": np.int8,
    "u8": np.uint8,
    "s32": np.int32,
}


def mlir_type(name: str) -> str:
    return "i" + name[1:] if name[0] in "su" else name


@dataclass(frozen=True)
class Case:
    """A contraction with indexing maps in einsum notation over named loops."""

    name: str
    types: tuple[str, str, str]
    sizes: dict[str, int]
    a: str
    b: str
    out: str
    windows: tuple[tuple[str, str], ...] = ()
    """Pairs of an output loop and a window loop whose sum indexes a dimension of A."""

    def _dims(self, operand: str) -> list[tuple[str, ...]]:
        """Returns the loops that index each dimension of `a`, `b` or `out`."""
        pairs = dict(self.windows) if operand == "a" else {}
        loops: str = getattr(self, operand)
        return [(loop, pairs[loop]) if loop in pairs else (loop,) for loop in loops]

    def shape(self, operand: str) -> tuple[int, ...]:
        return tuple(sum(self.sizes[loop] - 1 for loop in dim) + 1 for dim in self._dims(operand))

    @property
    def flops(self) -> int:
        return 2 * math.prod(self.sizes.values())

    @property
    def is_dense(self) -> bool:
        """True if a loop is summed and indexes both A and B. False for a depthwise convolution."""
        return any(loop not in self.out for loop in self.a if loop in self.b)

    @property
    def depth(self) -> int:
        return math.prod(size for loop, size in self.sizes.items() if loop not in self.out)

    def text(self, schedule: str | None = None) -> str:
        """Returns the case as an MLIR function on tensors, with the schedule attribute if given."""
        loops = ", ".join(self.sizes)

        def map_of(operand: str) -> str:
            dims = ", ".join(" + ".join(dim) for dim in self._dims(operand))
            return f"affine_map<({loops}) -> ({dims})>"

        def tensor(operand: str, type: str) -> str:
            return f"tensor<{'x'.join([*map(str, self.shape(operand)), mlir_type(type)])}>"

        a, b, result = self.types
        iterators = ", ".join(
            f'"{"parallel" if loop in self.out else "reduction"}"' for loop in self.sizes
        )
        floating = not result.startswith("s")
        to = mlir_type(result)
        lines: list[str] = []
        factors: list[str] = []
        for value, name in (("%x", a), ("%y", b)):
            if mlir_type(name) == to:
                factors.append(value)
                continue
            extend = "arith.extf" if floating else f"arith.ext{name[0]}i"
            lines.append(f"{value}e = {extend} {value} : {mlir_type(name)} to {to}")
            factors.append(f"{value}e")
        kind = "f" if floating else "i"
        body = "\n    ".join(
            [
                *lines,
                f"%p = arith.mul{kind} {', '.join(factors)} : {to}",
                f"%s = arith.add{kind} %acc, %p : {to}",
                f"linalg.yield %s : {to}",
            ]
        )
        types = tensor("a", a), tensor("b", b), tensor("out", result)
        maps = ", ".join(map(map_of, ("a", "b", "out")))
        attrs = f" attrs = {{schedule = {schedule}}}" if schedule else ""
        return f"""func.func @main(%A: {types[0]}, %B: {types[1]}) -> {types[2]} {{
  %zero = arith.constant {"0.0" if floating else "0"} : {to}
  %e = tensor.empty() : {types[2]}
  %f = linalg.fill ins(%zero : {to}) outs(%e : {types[2]}) -> {types[2]}
  %r = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{iterators}]}}
      ins(%A, %B : {types[0]}, {types[1]}) outs(%f : {types[2]}){attrs} {{
  ^bb0(%x: {mlir_type(a)}, %y: {mlir_type(b)}, %acc: {to}):
    {body}
  }} -> {types[2]}
  func.return %r : {types[2]}
}}
"""

    def inputs(self) -> dict[str, Any]:
        """Returns random operands. For f16 results they are small integers with exact sums."""
        generator = np.random.default_rng(1)

        def values(operand: str, type: str) -> Any:
            shape, dtype = self.shape(operand), DTYPES[type]
            if type in ("s8", "u8"):
                low, high = (-128, 128) if type == "s8" else (0, 256)
                return generator.integers(low, high, shape).astype(dtype)
            if self.types[2] == "f16":
                return generator.integers(-1, 2, shape).astype(dtype)
            return generator.standard_normal(shape, np.float32).astype(dtype)

        return {"A": values("a", self.types[0]), "B": values("b", self.types[1])}


def matmul(size: int | tuple[int, int, int], types: tuple[str, str, str], bt: bool = False) -> Case:
    m, n, k = (size, size, size) if isinstance(size, int) else size
    name = f"matmul {m}x{n}x{k} {types[0]} -> {types[2]}{' B transposed' if bt else ''}"
    return Case(name, types, {"m": m, "n": n, "k": k}, "mk", "nk" if bt else "kn", "mn")


def convolution(batch: int, types: tuple[str, str, str]) -> Case:
    sizes = {"i": batch, "y": 56, "x": 56, "f": 256, "r": 3, "s": 3, "c": 256}
    name = f"conv 3x3 58x58x256 -> 256 batch {batch} {types[0]} -> {types[2]}"
    return Case(name, types, sizes, "iyxc", "rscf", "iyxf", (("y", "r"), ("x", "s")))


def depthwise(
    batch: int, types: tuple[str, str, str], extent: int = 56, channels: int = 256
) -> Case:
    sizes = {"i": batch, "y": extent, "x": extent, "c": channels, "r": 3, "s": 3}
    shape = f"{extent + 2}x{extent + 2}x{channels}"
    name = f"depthwise 3x3 {shape} batch {batch} {types[0]} -> {types[2]}"
    return Case(name, types, sizes, "iyxc", "rsc", "iyxc", (("y", "r"), ("x", "s")))


F16, F32, BF16 = ("f16", "f16", "f16"), ("f16", "f16", "f32"), ("bf16", "bf16", "f32")
S8, MIXED = ("s8", "s8", "s32"), ("u8", "s8", "s32")

TRANSFORMERS = [
    *((197, 3072, 768), (197, 768, 3072), (197, 768, 768)),
    *((1500, 2048, 512), (1500, 512, 2048), (1500, 512, 512)),
    *((2048, 1280, 1280), (2048, 10240, 1280), (2048, 1280, 5120)),
]
"""Products of ViT-B/16, of Whisper-base's encoder and of a block of SDXL's UNet."""


def small() -> list[Case]:
    matmuls = [matmul((40, 36, 50), types) for types in (F16, F32, S8, MIXED)]
    return matmuls + [depthwise(2, types, 8, 24) for types in (F16, S8)]


def cases() -> list[Case]:
    listed = [matmul(n, types) for types in (F16, F32, BF16) for n in (1024, 2048, 4096, 8192)]
    listed += [matmul(n, types) for types in (F16, F32, BF16) for n in (1000, 4095)]
    listed += [matmul(n, S8, bt) for bt in (False, True) for n in (1024, 2048, 4096, 8192)]
    listed += [matmul(4096, MIXED, True), matmul(4096, ("f32",) * 3)]
    listed += [convolution(n, types) for types in (F32, S8) for n in (1, 32)]
    listed += [depthwise(n, types) for types in (F16, F32, S8) for n in (1, 32)]
    listed += [matmul((256, 256, 16384), types) for types in (F32, S8)]
    listed += [matmul(sizes, F32) for sizes in ((512, 3584, 18944), *TRANSFORMERS)]
    return listed


def compiled(case: Case, target: str, schedule: str | None) -> Any:
    ctx = context()
    module = parse_text(case.text(schedule), case.name, ctx)
    if schedule is not None:
        passes = Universe.get_multiverse().all_passes
        PassPipeline.parse_spec(passes, "linalg-to-contraction,form-dispatches").apply(ctx, module)
    return compile_module(module, target)


def reference(case: Case, inputs: dict[str, Any]) -> tuple[Any, Any]:
    """Returns the result (exact for integers) and the sum of the magnitudes of the products."""
    a, b = inputs["A"], inputs["B"]
    integer = case.types[2] == "s32"
    if CUDA:
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        kind = torch.float64 if integer else torch.float32
        x, y = (torch.from_numpy(v.astype(np.float32)).cuda().to(kind) for v in (a, b))
        pair = [_torch_product(case, p, q) for p, q in ((x, y), (x.abs(), y.abs()))]
        return tuple(v.double().cpu().numpy() for v in pair)  # type: ignore[return-value]
    x, y = a.astype(np.float64), b.astype(np.float64)
    return _numpy_product(case, x, y), _numpy_product(case, abs(x), abs(y))


def _numpy_product(case: Case, a: Any, b: Any) -> Any:
    if not case.windows:
        return np.einsum(f"{case.a},{case.b}->{case.out}", a, b, optimize=True)
    windows = np.lib.stride_tricks.sliding_window_view(a, (3, 3), (1, 2))
    return np.einsum(f"iyxcrs,{case.b}->{case.out}", windows, b, optimize=True)


def _torch_product(case: Case, a: Any, b: Any) -> Any:
    if case.windows:
        return _torch_convolution(case, a, b)().permute(0, 2, 3, 1)
    return a @ (b.T if case.b == "nk" else b)


def _torch_convolution(case: Case, a: Any, b: Any) -> Callable[[], Any]:
    nhwc = torch.channels_last
    x = a.permute(0, 3, 1, 2).contiguous(memory_format=nhwc)
    w = (b.permute(3, 2, 0, 1) if case.is_dense else b.permute(2, 0, 1)[:, None]).contiguous(
        memory_format=nhwc
    )
    groups = 1 if case.is_dense else x.shape[1]
    return lambda: torch.nn.functional.conv2d(x, w, groups=groups)


def within(case: Case, result: Any, inputs: dict[str, Any]) -> bool:
    exact, magnitude = reference(case, inputs)
    error = np.abs(result.astype(np.float64) - exact)
    if case.types[2] in ("s32", "f16"):
        return bool(np.all(error == 0))
    return bool(np.all(error <= (2 * case.depth + 2) * 2.0**-23 * magnitude + 1e-30))


def torch_ms(case: Case, inputs: dict[str, Any]) -> float | None:
    if not CUDA:
        return None
    kinds = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "s8": torch.int8}
    kind = kinds.get(case.types[0])
    if kind is None or case.types[1] not in kinds:
        return None
    a, b = (torch.from_numpy(v.astype(np.float32)).cuda().to(kind) for v in inputs.values())
    run: Callable[[], Any]
    if case.windows:
        if kind is torch.int8:
            return None
        run = _torch_convolution(case, a, b)
    elif kind is torch.int8:
        other = b.T if case.b == "nk" else b
        run = lambda: torch._int_mm(a, other)  # noqa: E731
    else:
        other = b.T if case.b == "nk" else b
        run = lambda: a @ other  # noqa: E731
    try:
        run()
    except RuntimeError:
        return None
    return torch_median(torch, run)


def measure(device: Any, case: Case, target: str, schedule: str | None, inputs: Any) -> Any:
    record: dict[str, Any] = {"case": case.name, "schedule": schedule or "default"}
    try:
        begin = time.perf_counter()
        program = compiled(case, target, schedule)
        record["compile_s"] = round(time.perf_counter() - begin, 3)
        (result,) = device.execute(program, inputs).values()
        record["ok"] = within(case, result, inputs)
        times = device.times(program, 15, WARM_UP)
    except Exception as error:
        record["error"] = f"{type(error).__name__}: {error}"[:300]
        return record
    names = [dispatch.entry_point for dispatch in program.manifest.dispatches]
    packing = [t for t, name in zip(times, names, strict=True) if name.startswith("pack_")]
    own = [t for t, name in zip(times, names, strict=True) if not name.startswith("pack_")]
    if packing:
        record["pack_ms"] = round(sum(t.median for t in packing) / 1e6, 5)
    total = sum(t.median for t in own)
    record["dispatches"] = len(own)
    record["ms"] = round(total / 1e6, 5)
    record["best_ms"] = round(sum(min(t.nanoseconds) for t in own) / 1e6, 5)
    record["tflops"] = round(case.flops / total / 1e3, 2)
    return record


def main(arguments: list[str] | None = None) -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--variants", type=Path, help='JSON: {"case name": ["#schedule...", ...]}')
    options = parser.parse_args(arguments)
    variants = json.loads(options.variants.read_text()) if options.variants else None
    chosen = [case for case in (small if options.small else cases)() if options.only in case.name]
    if variants is not None:
        chosen = [case for case in chosen if case.name in variants]

    def jobs() -> Iterator[Job]:
        for case in chosen:
            inputs = case.inputs()
            yield Job(
                lambda device, schedule, case=case, inputs=inputs: measure(
                    device, case, options.target, schedule, inputs
                ),
                lambda case=case, inputs=inputs: None if variants else torch_ms(case, inputs),
                case.flops,
                [None] if variants is None else variants[case.name],
            )

    return run_jobs(options, jobs(), (__doc__ or "").strip().splitlines()[0], torch)


if __name__ == "__main__":
    sys.exit(main())
