"""
Kernels that move vectors or tiles, or whose lanes compute adjacent results, give numpy's results.

The cases are the benchmark's large moves at small sizes, so schedules are given explicitly.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from xdsl.dialects import gpu

import xdsl_spirv.targets
from xdsl_spirv.compiler import compile_module
from xdsl_spirv.dialects.schedule import SCHEDULE, DispatchOp, LoopsAttr
from xdsl_spirv.dialects.spirv.structure import EntryPointOp
from xdsl_spirv.dialects.spirv.structure import ModuleOp as SPIRVModuleOp
from xdsl_spirv.interpreter import Options, interpret
from xdsl_spirv.interpreter.checks.report import Checks
from xdsl_spirv.passes.graph.form_dispatches import FormDispatchesPass
from xdsl_spirv.passes.kernel.outline_dispatches import OutlineDispatchesPass
from xdsl_spirv.passes.loops.to_invocations import LoopsToInvocationsPass
from xdsl_spirv.passes.schedule.assign_schedule import AssignSchedulePass
from xdsl_spirv.passes.spirv.kernel_to_spirv import KernelToSPIRVPass
from xdsl_spirv.passes.spirv.update_vce import UpdateVCEPass
from xdsl_spirv.runtime import run
from xdsl_spirv.runtime.modules import context, parse_text, text_of
from xdsl_spirv.serialization.encode.encoder import encode
from xdsl_spirv.testing.dispatches import Dispatch
from xdsl_spirv.tools import khronos

if TYPE_CHECKING:
    from tests.conftest import RunOnLavapipe

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "benchmarks"))
f: Any = import_module("families")

SIZES = (4, *(pytest.param(size, marks=pytest.mark.long) for size in (16, 64)))


@pytest.fixture
def target_with(tmp_path: Path) -> Callable[[int], str]:
    """Returns a function that writes lavapipe's file with another subgroup size."""

    def made(size: int) -> str:
        data = json.loads((Path(xdsl_spirv.targets.__file__).parent / "lavapipe.json").read_text())
        data["subgroup_size"] = {"default": size, "min": size, "max": size}
        data["cooperative_matrix"] = []
        data["schedules"] = []
        path = tmp_path / "target.json"
        path.write_text(json.dumps(data))
        return str(path)

    return made


def lowered(case: Any, target: str, schedule: LoopsAttr | None, to_spirv: bool = True) -> Any:
    ctx = context()
    module = parse_text(case.module(), ctx=ctx)
    FormDispatchesPass().apply(ctx, module)
    AssignSchedulePass(target).apply(ctx, module)
    (dispatch,) = (op for op in module.walk() if isinstance(op, DispatchOp))
    if schedule is not None:
        dispatch.attributes[SCHEDULE] = schedule
    OutlineDispatchesPass().apply(ctx, module)
    LoopsToInvocationsPass().apply(ctx, module)
    if to_spirv:
        KernelToSPIRVPass().apply(ctx, module)
        UpdateVCEPass().apply(ctx, module)
    return module


VECTORS: list[tuple[Any, LoopsAttr, int]] = [
    (f.softmax((5, 96), "f16"), LoopsAttr(32, 2, 8, reduce="subgroup"), 8),
    (f.softmax((3, 200), "f16"), LoopsAttr(96, 2, 8, reduce="workgroup"), 8),
    (f.softmax((3, 1000), "f32"), LoopsAttr(32, 3, 4, reduce="workgroup"), 4),
    (f.layer_norm((5, 48), "f16"), LoopsAttr(32, 2, 8, reduce="subgroup"), 8),
    (f.layer_norm((5, 50), "f32"), LoopsAttr(32, 2, 4, reduce="subgroup"), 1),
    (f.summed((3, 1024), "f16", 1), LoopsAttr(256, 2, 8, reduce="workgroup"), 8),
    (f.summed((1030, 40), "f16", 0), LoopsAttr(128, 3, 4, 4, reduce="workgroup"), 4),
    (f.summed((260, 36), "f32", 0), LoopsAttr(64, 2, 4, 8, reduce="workgroup"), 4),
    (f.summed((256, 33), "f32", 0), LoopsAttr(256, 2, 4, 2, reduce="workgroup"), 1),
    (f.transposed((33, 65), "f16", (1, 0)), LoopsAttr(256, 2, tile=64), 1),
    (f.transposed((64, 32), "f32", (1, 0)), LoopsAttr(256, 2, tile=32), 1),
    (f.transposed((2, 8, 5, 5), "f32", (0, 2, 3, 1)), LoopsAttr(64, 3, tile=8), 1),
    (f.transposed((33, 7), "f32", (1, 0)), LoopsAttr(64, 9, tile=16), 1),
    (f.added((6, 40), "f16"), LoopsAttr(32, 2, 8), 8),
    (f.added((6, 36), "f16"), LoopsAttr(32, 2, 4), 4),
]
"""Kernel, schedule, and number of elements in a vector of the first argument."""


@pytest.mark.parametrize(
    ("case", "schedule", "width"), VECTORS, ids=lambda c: getattr(c, "name", "")
)
def test_vectors_have_the_expected_sizes(case: Any, schedule: LoopsAttr, width: int):
    text = text_of(lowered(case, "lavapipe", schedule, False))
    type = case.arguments[0][1]
    moved = {8: "vector<4xi32>", 4: f"vector<4x{type}>", 1: type}[width]
    loads = re.findall(r"memref\.load .*: memref<\d+x([^,]+), #.*StorageBuffer>", text)
    assert moved in loads
    assert width == 1 or type not in loads


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("case", "schedule", "width"), VECTORS, ids=lambda c: getattr(c, "name", "")
)
def test_kernels_are_right_for_every_subgroup_size(
    case: Any,
    schedule: LoopsAttr,
    width: int,
    size: int,
    target_with: Callable[[int], str],
    spirv_val: str,
):
    workgroup = -(-schedule.workgroup.data // size) * size
    module = lowered(case, target_with(size), schedule.replace_values(workgroup=workgroup))
    inputs = case.inputs()
    options = Options(subgroup_size=size, checks=Checks.all(stop=True))
    (found,) = interpret(module, inputs, options=options)
    assert f.within(case, found, inputs), case.name
    (code,) = (op for op in module.walk() if isinstance(op, SPIRVModuleOp))
    assert khronos.spirv_val(encode(code)) == "", case.name


@pytest.mark.vulkan
def test_kernels_are_right_on_lavapipe(run_on_lavapipe: RunOnLavapipe):
    jobs: list[Dispatch] = []
    given: list[Any] = []
    for case, schedule, _ in VECTORS:
        module = lowered(case, "lavapipe", schedule)
        (code,) = (op for op in module.walk() if isinstance(op, SPIRVModuleOp))
        (entry,) = (op for op in code.walk() if isinstance(op, EntryPointOp))
        assert any(isinstance(op, gpu.LaunchFuncOp) for op in module.walk())
        inputs = case.inputs()
        shape, type = case.result
        buffers = [*inputs, np.zeros(shape, f.DTYPES[type])]
        numbered = {(0, n): buffer.copy() for n, buffer in enumerate(buffers)}
        name = entry.fn.string_value()
        grid = schedule.workgroups.data, 1, 1
        jobs.append(Dispatch(encode(code), name, grid, numbered, subgroup_size=8))
        given.append(inputs)
    run_on_lavapipe(jobs, 300)
    for (case, _, _), inputs, done in zip(VECTORS, given, jobs, strict=True):
        found = list(done.buffers.values())[-1].reshape(case.result[0])
        assert f.within(case, found, inputs), case.name


@pytest.mark.parametrize("target", ["nvidia-h200", "amd-rdna3", "arm-mali", "lavapipe"])
def test_every_size_has_a_schedule_that_lowers(target: str):
    for rows, columns in ((32, 8), (33, 9), (64, 4096), (4096, 100), (500, 1000)):
        for case in (
            f.summed((rows, columns), "f32", 0),
            f.summed((rows, columns), "f16", 0),
            f.transposed((rows, columns), "f16", (1, 0)),
            f.softmax((rows, columns), "f16"),
        ):
            lowered(case, target, None, False).verify()


TRANSPOSE = """
func.func @main(%x: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = tensor.dim %x, %c0 : tensor<?x?xf32>
  %n = tensor.dim %x, %c1 : tensor<?x?xf32>
  %e = tensor.empty(%n, %m) : tensor<?x?xf32>
  %r = linalg.generic {
    indexing_maps = [affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (i, j)>],
    iterator_types = ["parallel", "parallel"]
  } ins(%x : tensor<?x?xf32>) outs(%e : tensor<?x?xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<?x?xf32>
  func.return %r : tensor<?x?xf32>
}"""


def test_tiles_of_dynamic_sizes_are_right():
    """Small sizes launch fewer workgroups than the schedule states."""

    class Dynamic:
        def module(self) -> str:
            return TRANSPOSE

    module = lowered(Dynamic(), "lavapipe", LoopsAttr(64, 12, tile=16))
    for shape in ((5, 7), (40, 33), (1, 300)):
        given = np.random.default_rng(0).normal(size=shape).astype(np.float32)
        options = Options(subgroup_size=8, checks=Checks.all(stop=True))
        (found,) = interpret(module, [given], options=options)
        assert np.array_equal(found, given.T)


def test_a_launch_of_any_size_has_indices_of_32_bits():
    type = "tensor<?x?x?x?xf32>"
    text = f"""
func.func @main(%a: {type}, %b: {type}) -> {type} {{
  %r = linalg.generic {{indexing_maps = [affine_map<(i, j, k, l) -> (l, k, j, i)>,
      affine_map<(i, j, k, l) -> (i, j, k, l)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
      ins(%a : {type}) outs(%b : {type}) {{
  ^bb0(%x: f32, %y: f32):
    %s = arith.addf %x, %y : f32
    linalg.yield %s : f32
  }} -> {type}
  func.return %r : {type}
}}
"""
    program = compile_module(parse_text(text), "nvidia-h200")
    a = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(5, 4, 3, 2)
    checks = Checks.all()
    (found,) = run(program, {"a": a, "b": a.T}, checks=checks).values()
    assert np.array_equal(found, a.T + a.T)
    assert not checks.report, str(checks.report)
