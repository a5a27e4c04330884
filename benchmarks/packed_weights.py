"""
Times products of many rows by packed weights on a Vulkan device, and by f16 weights.

    python benchmarks/packed_weights.py --target nvidia-h200 -o benchmarks/results/h200-packed.json
    .lavapipe/run python benchmarks/packed_weights.py --target lavapipe --small

A program multiplies the rows in sequence by several matrices of equal sizes, which are together
larger than any cache. Weights are f16, or packed in a GGUF format and dequantized to f16 in the
kernel. Rows are f16, sums f32. All programs are compiled before the first is timed. 64 columns of
every result are compared with numpy in binary64.

- `--schedules` adds schedules to the default: `["#schedule.contraction<...>", ...]`, or `few` for
  some good ones. `2 parts` before a schedule splits the product along K.
- `--variants` runs only the cases and schedules of a file `{"case": [...]}`
  (`variants-packed-h200.json`: 18 schedules for few and many rows).
- XDSL_SPIRV_CACHE=FOLDER stores the driver's pipeline cache. Its zstd frames contain machine code
  that `nvdisasm -b SM90` reads.

`us` is the time of a product, `pack_us` the time to pack f16 weights into fragments,
`following_us` the time of a product that waits for its predecessor, as in PyTorch's graph.
"""

from __future__ import annotations

import datetime
import json
import os
import re
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from device_runs import CUDA, WARM_UP, graph_us, parser_of, torch
from xdsl.dialects.builtin import DYNAMIC_INDEX, FunctionType, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Block, Region

from xdsl_spirv.compiler.compiler import compile_module
from xdsl_spirv.dialects.schedule.symbolic_sizes import Extent, Size, symbol
from xdsl_spirv.frontends.blocks import FORMATS, dequantize
from xdsl_spirv.frontends.onnx.building import TensorBuilder
from xdsl_spirv.frontends.onnx.values import F16, F32, Tensor
from xdsl_spirv.passes.schedule.linalg_to_contraction import LinalgToContractionPass
from xdsl_spirv.passes.schedule.split_reductions import SplitReductionsPass
from xdsl_spirv.passes.schedule.tuned import parse_schedule
from xdsl_spirv.runtime.modules import context
from xdsl_spirv.runtime.vulkan.device import open_device

CACHED = 96 << 20
"""Bytes of weights that exceed every cache."""

CHECKED = 64
TOLERANCE = 4e-3
"""Tolerance relative to the sum of the products' magnitudes. Weights are rounded to f16."""

TILES = (
    "[128, 256, 32], subgroups = [2, 4]",
    "[128, 256, 64], subgroups = [2, 4]",
    "[256, 128, 32], subgroups = [4, 2]",
    "[128, 128, 32], subgroups = [2, 2]",
    "[128, 128, 64], subgroups = [2, 2]",
    "[64, 256, 64], subgroups = [1, 4]",
)
FEW = [
    f"#schedule.contraction<workgroup_tile = {tile}, instruction = coopmat 16x16x16, "
    "a = staged<padding = 8, vector = 8>, b = staged<padding = 8, vector = 8>, "
    f"{stages}raster = rows<8>>"
    for tile in TILES
    for stages in ("", "stages = 2, ")
]


@dataclass(frozen=True)
class Case:
    """A product of sizes rows x n x k by `count` matrices in `format` (f16 if empty)."""

    rows: int
    n: int
    k: int
    format: str
    count: int
    open: bool = False
    """True if the program accepts any number of rows."""

    def __str__(self) -> str:
        return f"{self.rows}x{self.n}x{self.k} {self.format}{' of any rows' if self.open else ''}"

    def planes(self, rng: np.random.Generator) -> dict[str, Any]:
        if self.format not in FORMATS:
            return {"w": rng.normal(size=(self.n, self.k)).astype(np.float16)}
        format = FORMATS[self.format]
        arrays: dict[str, Any] = {}
        for name, plane in format.planes.items():
            shape = self.n, self.k // format.size, *format.sizes(name)
            if plane.element.is_float:
                arrays[name] = rng.uniform(0.01, 0.02, shape).astype(np.float16)
            else:
                arrays[name] = rng.integers(0, 256, shape, np.uint8).view(plane.element.dtype)
        return arrays

    def module(self, planes: dict[str, Any], schedule: str | None) -> ModuleOp:
        entry = Block()
        b = TensorBuilder(entry)
        given = TensorType(F16.type, [DYNAMIC_INDEX if self.open else self.rows, self.k])
        argument = entry.insert_arg(given, 0)
        rows: Size = symbol(Extent(argument, 0, "rows")) if self.open else self.rows
        x = Tensor(F16, [rows, self.k], argument)
        results: list[Any] = []
        for _ in range(self.count):
            tensors = {name: Tensor.of(array) for name, array in planes.items()}
            for t in tensors.values():
                t.value = entry.insert_arg(t.type, len(entry.args))
            weights = tensors.get("w") or dequantize(b, FORMATS[self.format], tensors, F16)
            product = b.contract(x, [0, 2], weights, [1, 2], [rows, self.n], 3, F32)
            value = b.value(product)
            assert isinstance(value.owner, GenericOp)
            if schedule:
                value.owner.attributes["schedule"] = parse_schedule(schedule)
            results.append(value)
        entry.add_op(ReturnOp(*results))
        type = FunctionType.from_lists([a.type for a in entry.args], [v.type for v in results])
        return ModuleOp([FuncOp("main", type, Region(entry))])


def numbers(format: str, planes: dict[str, Any], rows: Any) -> Any:
    """Returns some rows of packed weights in binary64."""
    from xdsl_spirv.interpreter import reference

    if "w" in planes:
        return planes["w"][rows].astype(np.float64)
    entry = Block()
    b = TensorBuilder(entry)
    arrays = {name: array[rows] for name, array in planes.items()}
    tensors = {name: Tensor.of(array) for name, array in arrays.items()}
    for t in tensors.values():
        t.value = entry.insert_arg(t.type, len(entry.args))
    result = b.value(dequantize(b, FORMATS[format], tensors, F32))
    entry.add_op(ReturnOp(result))
    type = FunctionType.from_lists([a.type for a in entry.args], [result.type])
    module = ModuleOp([FuncOp("main", type, Region(entry))])
    return reference(module, list(arrays.values()))[0].astype(np.float64)


def cut_along_k(module: ModuleOp, parts: int, schedule: str) -> None:
    """Splits every contraction along K into parts, with the given schedule if not empty."""
    LinalgToContractionPass().apply(context(), module)
    SplitReductionsPass(parts=parts).apply(context(), module)
    reduction = IteratorTypeAttr.reduction()
    for op in module.walk():
        if isinstance(op, GenericOp) and len(op.inputs) == 2 and schedule:
            if reduction in op.get_iterator_types():
                op.attributes["schedule"] = parse_schedule(schedule)


@cache
def drawn(n: int, k: int, format: str) -> dict[str, Any]:
    """Returns random planes of packed weights."""
    return Case(0, n, k, format, 1).planes(np.random.default_rng(1))


def compiled(case: Case, schedule: str | None, target: str) -> Any:
    """Returns the program of a case with a schedule, or the error message."""
    planes = drawn(case.n, case.k, case.format)
    try:
        if schedule is None or not (cut := re.fullmatch(r"(\d+) parts ?(.*)", schedule)):
            return compile_module(case.module(planes, schedule), target)
        module = case.module(planes, None)
        cut_along_k(module, int(cut[1]), cut[2])
        return compile_module(module, target)
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:300]


@cache
def expected(case: Case) -> tuple[Any, ...]:
    """Returns the input, the checked columns' indices, their values and their tolerances."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(case.rows, case.k)).astype(np.float16)
    columns = rng.integers(0, case.n, CHECKED)
    w = numbers(case.format, drawn(case.n, case.k, case.format), columns)
    rows = x.astype(np.float64)
    return x, columns, rows @ w.T, TOLERANCE * (abs(rows) @ abs(w).T)


def measure(device: Any, case: Case, schedule: str | None, program: Any) -> dict[str, Any]:
    record: dict[str, Any] = {"case": str(case), "schedule": schedule or "default"}
    if isinstance(program, str):
        return record | {"error": program}
    planes = drawn(case.n, case.k, case.format)
    x, columns, exact, allowed = expected(case)
    try:
        record["chosen"] = sorted({layer.schedule for layer in program.layers})
        names = [buffer.name for buffer in program.manifest.inputs]
        given = [
            array.view(np.int8) if array.dtype == np.uint8 else array for array in planes.values()
        ]
        inputs = dict(zip(names, [x, *given * case.count], strict=True))
        program = program.function().at(inputs)
        results = device.execute(program, inputs)
        record["ok"] = all(
            bool((abs(result[:, columns] - exact) <= allowed).all()) for result in results.values()
        )
        times = device.times(program, 15, WARM_UP)
        following = np.median(device.times_of_runs(program, 2, 15)) / 2 / case.count
    except Exception as error:
        record["error"] = f"{type(error).__name__}: {error}"[:300]
        return record
    timed = list(zip(times, program.manifest.dispatches, strict=True))
    packing = [t.median for t, d in timed if d.entry_point.startswith("pack_")]
    nanoseconds = (sum(t.median for t in times) - sum(packing)) / case.count
    record["us"] = round(nanoseconds / 1e3, 2)
    record["pack_us"] = round(sum(packing) / case.count / 1e3, 2)
    record["following_us"] = round(float(following) / 1e3, 2)
    record["tflops"] = round(2e-3 * case.rows * case.n * case.k / nanoseconds, 1)
    return record


def by_torch(case: Case) -> dict[str, Any]:
    """Returns the record of PyTorch's products in f16, replayed from a CUDA graph."""
    x = torch.randn(case.rows, case.k, dtype=torch.float16, device="cuda")
    count = max(2, CACHED // (2 * case.n * case.k))
    weights = [
        torch.randn(case.n, case.k, dtype=torch.float16, device="cuda") for _ in range(count)
    ]

    def run() -> None:
        for w in weights:
            torch.nn.functional.linear(x, w)

    us = graph_us(run) / count
    tflops = round(2e-6 * case.rows * case.n * case.k / us, 1)
    return {"case": f"{case.rows}x{case.n}x{case.k} by torch", "us": round(us, 2), "tflops": tflops}


def cases(small: bool) -> list[Case]:
    """Returns all measured cases."""
    llama = ((14336, 4096), (28672, 4096), (4096, 14336), (6144, 4096), (4096, 4096))
    formats = ("f16", "Q4_1", "Q4_0", "Q5_1", "Q8_0", "Q4_K", "Q6_K")
    return [
        Case(rows, n, k, format, 2 if small else max(2, CACHED * 2 // (n * k)), open)
        for n, k in (((64, 256),) if small else llama)
        for format in formats
        for rows in ((48,) if small else (2048, 1024, 512, 256, 128, 64, 32, 16, 8))
        for open in (False, True)
        if not open or format in ("f16", "Q4_1")
    ]


def main(arguments: list[str] | None = None) -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--schedules", help="a JSON file, or few")
    parser.add_argument("--variants", type=Path, help='JSON: {"case": ["#schedule...", ...]}')
    options = parser.parse_args(arguments)
    schedules: list[str] = []
    if options.schedules:
        few = options.schedules == "few"
        schedules = FEW if few else json.loads(Path(options.schedules).read_text())
    variants = json.loads(options.variants.read_text()) if options.variants else None
    begin = time.monotonic()
    records: list[dict[str, Any]] = []
    chosen = [case for case in cases(options.small) if options.only in str(case)]
    if variants is not None:
        chosen = [case for name in variants for case in chosen if str(case) == name]
    tried = [
        (case, schedule)
        for case in chosen
        for schedule in (None, *(schedules if variants is None else variants[str(case)]))
    ]
    compile_one = partial(compiled, target=options.target)
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        programs = list(pool.map(compile_one, *zip(*tried, strict=True)))
    print(f"compiled {len(programs)} in {time.monotonic() - begin:.1f} s", flush=True)
    if CUDA:
        for case in {(case.rows, case.n, case.k): case for case in chosen}.values():
            records.append(by_torch(case))
            print(json.dumps(records[-1]), flush=True)
    device: Any = open_device(options.device)
    for (case, schedule), program in zip(tried, programs, strict=True):
        if time.monotonic() - begin > options.seconds:
            break
        records.append(measure(device, case, schedule, program))
        print(json.dumps(records[-1]), flush=True)
        if "error" in records[-1] and not isinstance(program, str):
            device.close()
            device = open_device(options.device)
    if options.output is not None:
        document = {
            "what": "packed weights",
            "target": options.target,
            "device": getattr(getattr(device, "info", None), "name", options.device),
            "date": datetime.date.today().isoformat(),
            "records": records,
        }
        options.output.write_text(json.dumps(document, indent=1))
    device.close()
    return 0 if all(record.get("ok", True) for record in records) else 1


if __name__ == "__main__":
    sys.exit(main())
