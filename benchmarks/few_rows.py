"""
Measures the bandwidth of products of few rows on a Vulkan device, and of a copy.

    python benchmarks/few_rows.py --target nvidia-h200 -o benchmarks/results/h200-few-rows.json
    .lavapipe/run python benchmarks/few_rows.py --target lavapipe --small

A program multiplies the rows in sequence by several matrices of equal sizes, which are together
larger than any cache. Weights are f16 with f16 rows, or packed in a GGUF format with f32 rows.
`share` is the bytes of weights per second, relative to the bandwidth (bytes read and written) of
the fastest copy: our kernel's, or PyTorch's. The script times the default schedule and each
schedule of `--schedules`, a file with `["#schedule.rows<...>", ...]`. `--sweep` adds many
schedules for one row. 64 columns of every result are compared with numpy in binary64.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import ceil, prod
from pathlib import Path
from typing import Any

import numpy as np
from device_runs import CUDA, WARM_UP, parser_of, torch, torch_median
from packed_weights import numbers
from xdsl.context import Context
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region
from xdsl.parser import Parser

from xdsl_spirv.compiler.compiler import compile_module
from xdsl_spirv.dialects.schedule import Schedule
from xdsl_spirv.frontends.blocks import FORMATS, dequantize
from xdsl_spirv.frontends.onnx.building import TensorBuilder
from xdsl_spirv.frontends.onnx.values import F16, F32, Element, Tensor
from xdsl_spirv.runtime.modules import parse_text
from xdsl_spirv.runtime.vulkan import open_isolated

CHECKED = 64
UNIT = 32
"""Number of 4-bit elements in the largest load."""
UNITS_OF_DEVICE = 132
"""Number of compute units of an H200, for which `--sweep` makes schedules."""
TOLERANCE = 2e-3
"""Tolerance relative to the sum of the products' magnitudes. No sum is in f16."""


@dataclass(frozen=True)
class Case:
    """A product of sizes rows x n x k with `count` different weight matrices."""

    rows: int
    n: int
    k: int
    format: str
    count: int = 1

    def __str__(self) -> str:
        return f"{self.rows}x{self.n}x{self.k} {self.format}"

    @property
    def planes(self) -> dict[str, tuple[Element, tuple[int, ...]]]:
        """Element type and shape of each plane in which a matrix is packed."""
        if self.format == "f16":
            return {"w": (F16, (self.n, self.k))}
        format = FORMATS[self.format]
        return {
            name: (plane.element, (self.n, self.k // format.size, *format.sizes(name)))
            for name, plane in format.planes.items()
        }

    @property
    def weight_bytes(self) -> int:
        """Size of one matrix in bytes."""
        return sum(prod(sizes) * element.dtype.itemsize for element, sizes in self.planes.values())

    def module(self, schedule: str | None) -> ModuleOp:
        entry = Block()
        b = TensorBuilder(entry)
        x = Tensor(F16 if self.format == "f16" else F32, [self.rows, self.k])
        x.value = entry.insert_arg(x.type, 0)
        results: list[Any] = []
        for _ in range(self.count):
            tensors = {name: Tensor(*plane) for name, plane in self.planes.items()}
            for t in tensors.values():
                t.value = entry.insert_arg(t.type, len(entry.args))
            weights = tensors.get("w") or dequantize(b, FORMATS[self.format], tensors, F32)
            product = b.contract(x, [0, 2], weights, [1, 2], [self.rows, self.n], 3, F32)
            results.append(b.value(product))
            if schedule:
                results[-1].owner.attributes["schedule"] = parsed(schedule)
        entry.add_op(ReturnOp(*results))
        type = FunctionType.from_lists([a.type for a in entry.args], [v.type for v in results])
        return ModuleOp([FuncOp("main", type, Region(entry))])

    def inputs(self, rng: np.random.Generator) -> tuple[Any, dict[str, Any]]:
        """Returns the rows and the planes of one matrix. Every matrix is a copy of these planes."""
        x = rng.normal(size=(self.rows, self.k)).astype(np.float16)
        arrays: dict[str, Any] = {}
        for name, (element, sizes) in self.planes.items():
            if name == "w":
                values = rng.normal(size=1 << 20).astype(np.float16)
            elif element.is_float:
                values = rng.uniform(0.01, 0.02, 1 << 20).astype(np.float16)
                values = -8 * values if name == "m" else values
            else:
                values = rng.integers(0, 256, 1 << 20, np.uint8).view(element.dtype)
            arrays[name] = _repeated(values, sizes)
        return x if self.format == "f16" else x.astype(np.float32), arrays

    def right(self, x: Any, planes: Any, results: list[Any], rng: np.random.Generator) -> bool:
        columns, rows = rng.integers(0, self.n, CHECKED), x.astype(np.float64)
        w = numbers(self.format, planes, columns)
        exact, allowed = rows @ w.T, TOLERANCE * (abs(rows) @ abs(w).T)
        return all((abs(result[:, columns] - exact) <= allowed).all() for result in results)


def parsed(schedule: str) -> Attribute:
    context = Context()
    context.load_dialect(Schedule)
    return Parser(context, schedule).parse_attribute()


def swept(case: Case) -> Iterator[str]:
    """Yields schedules for one row and subgroups of 32 invocations."""
    wide = (16,) if case.format == "f16" else (16, 8, 4)
    for bytes, columns, steps, along in product(wide, (4, 8), (1, 2, 4), (1, 4)):
        if case.rows == 1 and 16 <= bytes * columns * steps // 4 <= 32:
            yield (
                f"#schedule.rows<rows = 1, columns = {columns}, lanes = 32, steps = {steps}, "
                f"bytes = {bytes}, subgroups = [{along}, {4 // along}]>"
            )
    if case.rows == 1 and case.format != "f16":
        yield from digits_shared(case)


def digits_shared(case: Case) -> Iterator[str]:
    """Yields schedules whose subgroups share the conversion of a row to 8-bit parts."""
    along = ceil(case.k / UNIT / 32)
    for across, columns, ahead in product((2, 4, 8), (1, 2, 4), (1, 2)):
        workgroups = UNITS_OF_DEVICE * (32 // (along * across))
        groups = ceil(case.n / (workgroups * across * columns)) if workgroups else 0
        if groups > ahead:
            yield (
                f"#schedule.rows<rows = 1, columns = {columns}, lanes = 32, steps = 1, "
                f"groups = {groups}, ahead = {ahead}, digits = 3, subgroups = [{along}, {across}]>"
            )


def _repeated(values: Any, shape: tuple[int, ...]) -> Any:
    return np.resize(values[: values.size - 3], shape)


def cases(small: bool) -> Iterator[Case]:
    sizes = ((64, 256),) if small else ((14336, 4096), (4096, 14336), (4096, 4096))
    for n, k in sizes:
        for format in ("f16", "Q4_1", "Q4_0", "Q8_0", "Q4_K", "Q6_K"):
            one = Case(1, n, k, format)
            count = 3 if small else max(4, 200_000_000 // one.weight_bytes)
            for rows in (1, 2, 4, 8, 16) if format in ("f16", "Q4_1") else (1,):
                yield replace(one, rows=rows, count=count)


def copied(device: Any, target: str, small: bool) -> float:
    """Returns the bandwidth (reads plus writes) of our copy kernel in bytes per second."""
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
    """Returns the bandwidth of PyTorch's copy in bytes per second, or 0 without PyTorch."""
    if not CUDA:
        return 0.0
    source = torch.empty(1 << 28, dtype=torch.float32, device="cuda")
    target = torch.empty_like(source)
    return 2 * 4 * source.numel() / torch_median(torch, lambda: target.copy_(source)) * 1e3


def measure(
    device: Any, case: Case, target: str, schedule: str | None, copy: float
) -> dict[str, Any]:
    record: dict[str, Any] = {"case": str(case), "schedule": schedule or "default"}
    try:
        program = compile_module(case.module(schedule), target)
        record["paths"] = sorted({layer.path for layer in program.layers})
        record["chosen"] = sorted({layer.schedule for layer in program.layers})
        x, planes = case.inputs(np.random.default_rng(1))
        given = [a.view(np.int8) if a.dtype == np.uint8 else a for a in planes.values()]
        names = [buffer.name for buffer in program.manifest.inputs]
        inputs = dict(zip(names, [x, *given * case.count], strict=True))
        results = list(device.execute(program, inputs).values())
        record["ok"] = case.right(x, planes, results, np.random.default_rng(2))
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
        tried = [*schedules, *(swept(case) if options.sweep else ())]
        for schedule in (None, *tried):
            if time.monotonic() - begin > options.seconds:
                break
            record = measure(device, case, options.target, schedule, copy)
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
