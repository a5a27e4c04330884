"""
Products of few rows on a Vulkan device, in GPU time: bytes a second, beside a copy in the same run.

    python benchmarks/few_rows.py --target nvidia-h200 -o benchmarks/results/h200-few-rows.json
    .lavapipe/run python benchmarks/few_rows.py --target lavapipe --small

A program multiplies the rows by several matrices of the same sizes, one after the other, which are
together larger than any cache. Weights are f16, or packed by blocks of 32: a byte for two numbers
of 4 bits, a scale and a minimum in f16 (as GGUF's Q4_1 holds them). `share` is the bytes of the
weights a second as part of what the fastest copy moves, reads and writes counted: a kernel of ours,
and PyTorch's where there is one. Measured are the default schedule, where there are more rows than
one what is chosen without it, and each of `--schedules`: `["#schedule.rows<...>", ...]`; with
`--sweep` many more for one row.
64 columns of every result are compared with numpy in binary64.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from device_runs import CUDA, WARM_UP, parser_of, torch, torch_median

from xdsl_spirv.compiler.compiler import compile_module
from xdsl_spirv.passes.schedule.paths import UNLIMITED, Limits
from xdsl_spirv.runtime.modules import parse_text
from xdsl_spirv.runtime.vulkan import open_isolated

BLOCK = 32
CHECKED = 64
TOLERANCE = 2e-3
"""Of a result, relative to the sum of its products' sizes: f16 is never summed in."""

ROWS_BARRED = Limits((), ("rows=*",))


@dataclass(frozen=True)
class Case:
    """rows x n x k, `count` matrices of weights."""

    rows: int
    n: int
    k: int
    format: str
    count: int

    def __str__(self) -> str:
        return f"{self.rows}x{self.n}x{self.k} {self.format}"

    @property
    def weight_bytes(self) -> int:
        """Bytes of one matrix."""
        return self.n * self.k * (16 if self.format == "f16" else 5) // 8

    @property
    def x(self) -> str:
        inner = f"{self.k}" if self.format == "f16" else f"{self.k // BLOCK}x2x16"
        return f"tensor<{self.rows}x{inner}x{'f16' if self.format == 'f16' else 'f32'}>"

    @property
    def planes(self) -> list[str]:
        """The types of what a matrix lies in."""
        if self.format == "f16":
            return [f"tensor<{self.n}x{self.k}xf16>"]
        blocks = f"{self.n}x{self.k // BLOCK}"
        return [f"tensor<{blocks}x16xi8>", f"tensor<{blocks}xf16>", f"tensor<{blocks}xf16>"]

    @property
    def out(self) -> str:
        return f"tensor<{self.rows}x{self.n}xf32>"

    def text(self, schedule: str | None) -> str:
        planes = self.planes
        arguments = [f"%x: {self.x}"]
        arguments += [f"%w{i}p{j}: {t}" for i in range(self.count) for j, t in enumerate(planes)]
        products = "\n".join(self._product(i, schedule) for i in range(self.count))
        results = ", ".join(f"%r{i}" for i in range(self.count))
        types = ", ".join([self.out] * self.count)
        return f"""func.func @main({", ".join(arguments)}) -> ({types}) {{
        {products}
        return {results} : {types}
        }}"""

    def _product(self, i: int, schedule: str | None) -> str:
        given = ", ".join(f"%w{i}p{j}" for j in range(len(self.planes)))
        types = ", ".join(self.planes)
        inner = ", ".join(f"%p{j}: {t}" for j, t in enumerate(self.planes))
        half = self.format == "f16"
        k, weights = ("k", "%p0") if half else ("b, h, j", "%w")
        element = "f16" if half else "f32"
        w = self.planes[0] if half else f"tensor<{self.n}x{self.k // BLOCK}x2x16xf32>"
        maps = [
            f"affine_map<(m, n, {k}) -> ({places})>" for places in (f"m, {k}", f"n, {k}", "m, n")
        ]
        kinds = ", ".join(['"parallel"'] * 2 + ['"reduction"'] * (1 if half else 3))
        wide = [f"%{v}w = arith.extf %{v} : f16 to f32" for v in "gh"] if half else []
        x, y = ("%gw", "%hw") if half else ("%g", "%h")
        attribute = f"attrs = {{schedule = {schedule}}}" if schedule else ""
        newline = "\n"
        return f"""%r{i} = schedule.dispatch(%x, {given}) : ({self.x}, {types}) -> {self.out} {{
        ^bb0(%a: {self.x}, {inner}):
          {"" if half else self._unpacked(w)}
          %z = arith.constant 0.0 : f32
          %e = tensor.empty() : {self.out}
          %f = linalg.fill ins(%z : f32) outs(%e : {self.out}) -> {self.out}
          %o = linalg.generic {{indexing_maps = [{", ".join(maps)}], iterator_types = [{kinds}]}}
            ins(%a, {weights} : {self.x}, {w}) outs(%f : {self.out}) {attribute} {{
          ^bb2(%g: {element}, %h: {element}, %sum: f32):
            {newline.join(wide)}
            %product = arith.mulf {x}, {y} : f32
            %total = arith.addf %sum, %product : f32
            linalg.yield %total : f32
          }} -> {self.out}
          schedule.yield %o : {self.out}
        }}"""

    def _unpacked(self, w: str) -> str:
        q, d, m = self.planes
        places = ("n, b, j", "n, b", "n, b", "n, b, h, j")
        maps = ", ".join(f"affine_map<(n, b, h, j) -> ({p})>" for p in places)
        kinds = ", ".join(['"parallel"'] * 4)
        return f"""%room = tensor.empty() : {w}
          %w = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}}
            ins(%p0, %p1, %p2 : {q}, {d}, {m}) outs(%room : {w}) {{
          ^bb1(%byte: i8, %scale: f16, %least: f16, %unused: f32):
            %half = linalg.index 2 : index
            %i = arith.index_cast %half : index to i8
            %four = arith.constant 4 : i8
            %mask = arith.constant 15 : i8
            %shift = arith.muli %i, %four : i8
            %shifted = arith.shrui %byte, %shift : i8
            %bits = arith.andi %shifted, %mask : i8
            %number = arith.uitofp %bits : i8 to f32
            %s = arith.extf %scale : f16 to f32
            %t = arith.extf %least : f16 to f32
            %u = arith.mulf %number, %s : f32
            %v = arith.addf %u, %t : f32
            linalg.yield %v : f32
          }} -> {w}"""

    def inputs(self, rng: np.random.Generator) -> list[Any]:
        """The rows, and the planes of one matrix: all matrices are equal, not the same."""
        x = rng.normal(size=(self.rows, self.k)).astype(np.float16)
        if self.format == "f16":
            return [x, _repeated(rng.normal(size=1 << 20).astype(np.float16), (self.n, self.k))]
        blocks = (self.n, self.k // BLOCK)
        q = _repeated(rng.integers(0, 256, 1 << 20, dtype=np.uint8), (*blocks, 16)).view(np.int8)
        d, m = (rng.uniform(0.01, 0.02, blocks).astype(np.float16) for _ in range(2))
        return [x.astype(np.float32).reshape(self.rows, -1, 2, 16), q, d, -8 * m]

    def right(self, inputs: list[Any], results: list[Any], rng: np.random.Generator) -> bool:
        x, *planes = inputs
        rows = x.reshape(self.rows, -1).astype(np.float64)
        columns = rng.integers(0, self.n, CHECKED)
        if self.format == "f16":
            w = planes[0][columns].astype(np.float64)
        else:
            q, d, m = (plane[columns] for plane in planes)
            bits = np.stack([q.view(np.uint8) & 15, q.view(np.uint8) >> 4], 2)
            w = bits * d.astype(np.float64)[..., None, None] + m[..., None, None]
            w = w.reshape(CHECKED, -1)
        exact, allowed = rows @ w.T, TOLERANCE * (abs(rows) @ abs(w).T)
        return all((abs(result[:, columns] - exact) <= allowed).all() for result in results)


def swept(case: Case) -> Iterator[str]:
    """Schedules for one row and subgroups of 32, to find the best by measuring."""
    wide = (16,) if case.format == "f16" else (16, 8, 4)
    for bytes, columns, steps, along in product(wide, (4, 8), (1, 2, 4), (1, 4)):
        if case.rows == 1 and 16 <= bytes * columns * steps // 4 <= 32:
            yield (
                f"#schedule.rows<rows = 1, columns = {columns}, lanes = 32, steps = {steps}, "
                f"bytes = {bytes}, subgroups = [{along}, {4 // along}]>"
            )


def _repeated(values: Any, shape: tuple[int, ...]) -> Any:
    return np.resize(values[: values.size - 3], shape)


def cases(small: bool) -> Iterator[Case]:
    sizes = ((64, 256),) if small else ((14336, 4096), (4096, 14336), (4096, 4096))
    for n, k in sizes:
        for format in ("f16", "q4_1"):
            count = 3 if small else max(4, 400_000_000 // Case(1, n, k, format, 1).weight_bytes)
            for rows in (1, 2, 4, 8, 16) if n < k or small or n == 14336 else (1,):
                yield Case(rows, n, k, format, count)


def copied(device: Any, target: str, small: bool) -> float:
    """Bytes a second that a kernel of ours moves, both ways counted, over four buffers."""
    size = 1 << (16 if small else 25)
    type = f"tensor<{size}xf32>"
    bodies = "\n".join(
        f"""%e{i} = tensor.empty() : {type}
        %r{i} = linalg.generic {{indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
          iterator_types = ["parallel"]}} ins(%x{i} : {type}) outs(%e{i} : {type}) {{
        ^bb0(%p: f32, %o: f32):
          %y = arith.negf %p : f32
          linalg.yield %y : f32
        }} -> {type}"""
        for i in range(4)
    )
    arguments = ", ".join(f"%x{i}: {type}" for i in range(4))
    program = compile_module(
        parse_text(
            f"""func.func @main({arguments}) -> ({", ".join([type] * 4)}) {{
        {bodies}
        return {", ".join(f"%r{i}" for i in range(4))} : {", ".join([type] * 4)}
        }}"""
        ),
        target,
    )
    x = np.ones(size, np.float32)
    device.execute(program, {buffer.name: x for buffer in program.manifest.inputs})
    times = device.times(program, 15, WARM_UP)
    return 4 * 2 * 4 * size / sum(t.median for t in times) * 1e9


def copied_by_torch() -> float:
    """The same by PyTorch's copy; 0 without it."""
    if not CUDA:
        return 0.0
    source = torch.empty(1 << 28, dtype=torch.float32, device="cuda")
    target = torch.empty_like(source)
    return 2 * 4 * source.numel() / torch_median(torch, lambda: target.copy_(source)) * 1e3


def measure(
    device: Any, case: Case, target: str, schedule: str | None, limits: Limits, copy: float
) -> dict[str, Any]:
    record: dict[str, Any] = {"case": str(case), "schedule": schedule or "default"}
    if limits:
        record["schedule"] = "no rows"
    try:
        program = compile_module(parse_text(case.text(schedule)), target, limits=limits)
        record["paths"] = sorted({layer.path for layer in program.layers})
        record["chosen"] = sorted({layer.schedule for layer in program.layers})
        x, *planes = case.inputs(np.random.default_rng(1))
        names = [buffer.name for buffer in program.manifest.inputs]
        inputs = dict(zip(names, [x, *planes * case.count], strict=True))
        results = list(device.execute(program, inputs).values())
        record["ok"] = case.right([x, *planes], results, np.random.default_rng(2))
        times = device.times(program, 15, WARM_UP)
    except Exception as error:
        record["error"] = f"{type(error).__name__}: {error}"[:300]
        return record
    nanoseconds = sum(t.median for t in times) / case.count
    record["us"] = round(nanoseconds / 1e3, 2)
    record["gigabytes_a_second"] = round(case.weight_bytes / nanoseconds, 1)
    record["share"] = round(case.weight_bytes / nanoseconds * 1e9 / copy, 3)
    return record


def main(arguments: list[str] | None = None) -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--sweep", action="store_true", help="many schedules for one row")
    parser.add_argument("--schedules", type=Path, help='JSON: ["#schedule.rows<...>", ...]')
    options = parser.parse_args(arguments)
    schedules: list[str] = json.loads(options.schedules.read_text()) if options.schedules else []
    begin = time.monotonic()
    device: Any = open_isolated(options.device)
    ours, theirs = copied(device, options.target, options.small), copied_by_torch()
    copy = max(ours, theirs)
    records: list[dict[str, Any]] = [
        {
            "copy_gigabytes_a_second": round(ours / 1e9, 1),
            "torch": round(theirs / 1e9, 1),
            "ok": True,
        }
    ]
    print(json.dumps(records[0]), flush=True)
    for case in cases(options.small):
        if options.only not in str(case):
            continue
        against = [(None, ROWS_BARRED)] * (case.rows > 1 and case.format == "f16")
        tried = [*schedules, *(swept(case) if options.sweep else ())]
        given = [(schedule, UNLIMITED) for schedule in tried]
        for schedule, limits in ((None, UNLIMITED), *against, *given):
            if time.monotonic() - begin > options.seconds:
                break
            record = measure(device, case, options.target, schedule, limits, copy)
            records.append(record)
            print(json.dumps(record), flush=True)
            if "error" in record:
                device.close()
                device = open_isolated(options.device)
        if options.output is not None:
            document = {"what": "few rows", "target": options.target, "records": records}
            options.output.write_text(json.dumps(document, indent=1))
    device.close()
    return 0 if all(record.get("ok") for record in records) else 1


if __name__ == "__main__":
    sys.exit(main())
