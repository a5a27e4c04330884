"""
Times small, few-row and batched products on a Vulkan device, and PyTorch's under CUDA graphs.

    python benchmarks/small_products.py --target nvidia-h200 -o benchmarks/results/h200-small.json
    .lavapipe/run python benchmarks/small_products.py --target lavapipe --small

A program multiplies its rows in sequence by several matrices of equal sizes. If an application
would read the weights from memory, the matrices are together larger than the cache. Weights are
packed once. Inputs are random. Every product is timed by GPU timestamps after a warm-up, and
compared with PyTorch or numpy in binary32. PyTorch's graph has the same products; `graph_us` is
the time of one product. The script times the default schedule and each of `--variants` ({"case":
["#schedule...", ...]}).
"""

from __future__ import annotations

import json
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from device_runs import CUDA, WARM_UP, graph_us, parser_of, torch

from xdsl_spirv.compiler.compiler import compile_module
from xdsl_spirv.runtime.modules import parse_text
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.runtime.vulkan import open_isolated

COUNT = 3
"""Number of products in a program: their 4096 x 4096 weights exceed every cache."""


@dataclass(frozen=True)
class Case:
    """`batch` products m x n x k of f16 with f32 sums. `is_weight` is True if B is a weight."""

    m: int
    n: int
    k: int
    result: str = "f32"
    batch: int = 1
    is_weight: bool = True

    def __str__(self) -> str:
        batch = f"{self.batch} x " if self.batch > 1 else ""
        kind = "weights" if self.is_weight else "inputs"
        return f"{batch}{self.m}x{self.n}x{self.k} f16 -> {self.result}, {kind}"

    @property
    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        batch = (self.batch,) if self.batch > 1 else ()
        return (*batch, self.m, self.k), (*batch, self.k, self.n), (*batch, self.m, self.n)

    @property
    def weights(self) -> list[str]:
        return [f"w{number}" for number in range(COUNT)]

    def text(self, schedule: str | None) -> str:
        x, w, out = (
            f"tensor<{'x'.join(map(str, shape))}x{type}>"
            for shape, type in zip(self.shapes, ("f16", "f16", self.result), strict=True)
        )
        arguments = ", ".join([f"%x: {x}", *(f"%{name}: {w}" for name in self.weights)])
        products = "\n".join(self._product(number, x, w, out, schedule) for number in range(COUNT))
        results = ", ".join(f"%r{number}" for number in range(COUNT))
        types = ", ".join([out] * COUNT)
        return f"func.func @main({arguments}) -> ({types}) {{\n{products}\n" + (
            f"return {results} : {types}\n}}"
        )

    def _product(self, number: int, x: str, w: str, out: str, schedule: str | None) -> str:
        batch, b = ("b, ", '"parallel", ') if self.batch > 1 else ("", "")
        maps = ", ".join(
            f"affine_map<({batch}m, n, k) -> ({batch}{dims})>" for dims in ("m, k", "k, n", "m, n")
        )
        attribute = f"attrs = {{schedule = {schedule}}}" if schedule else ""
        sums = out.replace("f16>", "f32>")
        return f"""%r{number} = schedule.dispatch(%x, %w{number}) : ({x}, {w}) -> {out} {{
        ^bb0(%a: {x}, %c: {w}):
          %z = arith.constant 0.0 : f32
          %e = tensor.empty() : {sums}
          %f = linalg.fill ins(%z : f32) outs(%e : {sums}) -> {sums}
          %o = linalg.generic {{indexing_maps = [{maps}],
            iterator_types = [{b}"parallel", "parallel", "reduction"]}}
            ins(%a, %c : {x}, {w}) outs(%f : {sums}) {attribute} {{
          ^bb2(%g: f16, %h: f16, %sum: f32):
            %gw = arith.extf %g : f16 to f32
            %hw = arith.extf %h : f16 to f32
            %product = arith.mulf %gw, %hw : f32
            %total = arith.addf %sum, %product : f32
            linalg.yield %total : f32
          }} -> {sums}
          {self._narrowed(sums, out)}
          schedule.yield {"%o" if sums == out else "%n"} : {out}
        }}"""

    def _narrowed(self, sums: str, out: str) -> str:
        if sums == out:
            return ""
        rank = len(self.shapes[2])
        dims = ", ".join("ijk"[:rank])
        same = f"affine_map<({dims}) -> ({dims})>"
        kinds = ", ".join(['"parallel"'] * rank)
        return f"""%r = tensor.empty() : {out}
          %n = linalg.generic {{indexing_maps = [{same}, {same}], iterator_types = [{kinds}]}}
            ins(%o : {sums}) outs(%r : {out}) {{
          ^bb3(%p: f32, %q: f16):
            %t = arith.truncf %p : f32 to f16
            linalg.yield %t : f16
          }} -> {out}"""


def cases(small: bool) -> list[Case]:
    if small:
        return [Case(16, 64, 256), Case(24, 40, 72, "f16"), Case(32, 64, 32, "f16", 3, False)]
    few = [
        Case(m, n, k)
        for n, k in ((4096, 4096), (14336, 4096), (4096, 14336))
        for m in (1, 8, 16, 32, 64, 128)
    ]
    square = [
        Case(s, s, s, r, 1, w) for s in (512, 1024) for r in ("f32", "f16") for w in (False, True)
    ]
    batched = [Case(512, 512, 64, "f16", 64, False), Case(512, 64, 512, "f16", 64, False)]
    bert = [Case(4096, *nk, "f16") for nk in ((384, 384), (1152, 384), (1536, 384), (384, 1536))]
    tiny = [Case(64, *nk, "f16") for nk in ((384, 384), (1152, 384), (1536, 384), (384, 1536))]
    return [*few, *square, *batched, *bert, *tiny, Case(8192, 1024, 1024, "f16")]


def compiled(case: Case, target: str, schedule: str | None) -> Program | str:
    """
    Returns the program of a case with a schedule, without weight values, or the error message.
    """
    zero = np.broadcast_to(np.float16(0), case.shapes[1])
    weights = dict.fromkeys(case.weights, zero) if case.is_weight else None
    try:
        program = compile_module(parse_text(case.text(schedule)), target, weights=weights)
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:300]
    program.weights.clear()
    return program


class Data:
    """A case's operands and its expected first product."""

    def __init__(self, case: Case):
        rng = np.random.default_rng(1)
        shapes = case.shapes
        self.x = rng.standard_normal(shapes[0], np.float32).astype(np.float16)
        self.weights = [
            rng.standard_normal(shapes[1], np.float32).astype(np.float16)
            for _ in range(min(2, COUNT))
        ]
        self.weights += [self.weights[0]] * (COUNT - len(self.weights))
        if CUDA:
            torch.backends.cuda.matmul.allow_tf32 = False
            x, w = (torch.from_numpy(v).cuda().float() for v in (self.x, self.weights[0]))
            self.exact = (x @ w).cpu().numpy()
        else:
            self.exact = self.x.astype(np.float32) @ self.weights[0].astype(np.float32)
        step = 2.0**-10 if case.result == "f16" else 2.0**-23 * case.k
        self.allowed = step * float(np.abs(self.exact).max())
        self.graph_us = _graph_us(case, self) if CUDA else None

    def right(self, result: Any) -> bool:
        return bool(np.abs(result.astype(np.float32) - self.exact).max() <= self.allowed)


def _graph_us(case: Case, data: Data) -> float:
    x = torch.from_numpy(data.x).cuda()
    # One matrix would stay in the cache, so PyTorch gets copies.
    weights = [torch.from_numpy(w).cuda().clone() for w in data.weights]
    out = [x @ w for w in weights]
    microseconds = graph_us(
        lambda: [torch.matmul(x, w, out=o) for w, o in zip(weights, out, strict=True)], COUNT
    )
    return round(microseconds, 2)


def measure(device: Any, case: Case, data: Data, program: Program, name: str) -> dict[str, Any]:
    record: dict[str, Any] = {"case": str(case), "schedule": name, "graph_us": data.graph_us}
    chosen = sorted({layer.schedule for layer in program.layers if layer.schedule})
    record["chosen"] = chosen
    inputs = {"x": data.x}
    named = dict(zip(case.weights, data.weights, strict=True))
    if case.is_weight:
        program.weights.update(named)
    else:
        inputs |= named
    try:
        result = next(iter(device.execute(program, inputs).values()))
        record["ok"] = data.right(result)
        times = device.times(program, 15, WARM_UP)
    except Exception as error:
        return record | {"error": f"{type(error).__name__}: {error}"[:300]}
    finally:
        program.weights.clear()
    dispatches = program.manifest.dispatches
    every = [t.median for t, d in zip(times, dispatches, strict=True) if not d.once]
    record["dispatches"] = len(every) / COUNT
    record["us"] = round(sum(every) / COUNT / 1e3, 2)
    return record


def main(arguments: list[str] | None = None) -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--variants", type=Path, help='JSON: {"case": ["#schedule...", ...]}')
    options = parser.parse_args(arguments)
    begin = time.monotonic()
    variants = json.loads(options.variants.read_text()) if options.variants else {}
    chosen = [case for case in cases(options.small) if options.only in str(case)]
    if variants:
        chosen = [case for case in chosen if str(case) in variants]
    device: Any = open_isolated(options.device)
    records: list[dict[str, Any]] = []
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        jobs = {
            (case, schedule): pool.submit(compiled, case, options.target, schedule)
            for case in chosen
            for schedule in (None, *variants.get(str(case), ()))
        }
        data: Data | None = None
        last: Case | None = None
        for (case, schedule), job in jobs.items():
            if time.monotonic() - begin > options.seconds:
                break
            if data is None or case != last:
                data, last = Data(case), case
            program = job.result()
            name = schedule or "default"
            if isinstance(program, str):
                record = {"case": str(case), "schedule": name, "error": program}
            else:
                record = measure(device, case, data, program, name)
            records.append(record)
            print(json.dumps(record), flush=True)
            if "error" in record and not isinstance(program, str):
                device.close()
                device = open_isolated(options.device)
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
