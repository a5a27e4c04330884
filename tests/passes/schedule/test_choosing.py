"""
A refused schedule's error names the most similar schedule of the same kind that fits.

Covers: schedule/assign_schedule.
"""

from __future__ import annotations

import re

import pytest
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.ops import FillOp
from xdsl.utils.exceptions import DiagnosticException

from xdsl_spirv.dialects.schedule import SCHEDULE, ContractionAttr
from xdsl_spirv.passes.analysis.contraction import contraction_of
from xdsl_spirv.passes.schedule.assign_schedule import AssignSchedulePass, choose, find_nearest
from xdsl_spirv.passes.schedule.paths import COOPERATIVE_MATRIX, Decisions
from xdsl_spirv.runtime.modules import context, parse_text
from xdsl_spirv.targets import load

PRODUCT = """
func.func @main(%a: tensor<1x512xf32>, %b: tensor<512x64xf32>) -> tensor<1x64xf32> {{
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x64xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<1x64xf32>) -> tensor<1x64xf32>
  %r = linalg.matmul {schedule} ins(%a, %b : tensor<1x512xf32>, tensor<512x64xf32>)
                     outs(%f : tensor<1x64xf32>) -> tensor<1x64xf32>
  func.return %r : tensor<1x64xf32>
}}
"""
ROWS = (
    "#schedule.rows<rows = 1, columns = 1, lanes = {}, steps = 1, bytes = 16, subgroups = [1, 1]>"
)


def test_rows_that_do_not_fit_are_refused_with_the_nearest_that_fit() -> None:
    ctx = context()
    given = f"{{schedule = {ROWS.format(5)}}}"
    with pytest.raises(DiagnosticException, match="lanes = 5 does not divide") as refused:
        AssignSchedulePass("lavapipe").apply(
            ctx, parse_text(PRODUCT.format(schedule=given), ctx=ctx)
        )
    nearest = re.search(
        r"the nearest schedule that fits is (#schedule.rows<.*>)", str(refused.value)
    )
    assert nearest is not None, refused
    module = parse_text(PRODUCT.format(schedule=f"{{schedule = {nearest[1]}}}"), ctx=ctx)
    AssignSchedulePass("lavapipe").apply(ctx, module)
    (product,) = (op for op in module.walk() if SCHEDULE in op.attributes)
    assert str(product.attributes[SCHEDULE]) == nearest[1]


@pytest.mark.parametrize("target", ["lavapipe", "nvidia-h200", "amd-rdna3"])
@pytest.mark.parametrize("path", ["rows", "fma"])
def test_a_chosen_schedule_is_nearest_to_itself(path: str, target: str) -> None:
    module = parse_text(PRODUCT.format(schedule=""), ctx=context())
    (product,) = (
        op
        for op in module.walk()
        if isinstance(op, LinalgStructuredOperation) and not isinstance(op, FillOp)
    )
    contraction, device = contraction_of(product), load(target)
    chosen = choose(contraction, device, Decisions(), (path,))
    assert chosen.path == path
    assert find_nearest(contraction, chosen.schedule, device) == chosen.schedule


@pytest.mark.parametrize(
    ("m", "n", "raster"), [("?", 4096, "columns"), ("?", 64, "rows"), (512, 4096, "rows")]
)
def test_workgroups_of_a_dynamic_size_walk_the_dimension_with_fewer_tiles(
    m: str | int, n: int, raster: str
) -> None:
    text = f"""
    func.func @main(%a: tensor<{m}x512xf16>, %b: tensor<512x{n}xf16>, %out: tensor<{m}x{n}xf32>)
        -> tensor<{m}x{n}xf32> {{
      %z = arith.constant 0.0 : f32
      %f = linalg.fill ins(%z : f32) outs(%out : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
      %r = linalg.matmul ins(%a, %b : tensor<{m}x512xf16>, tensor<512x{n}xf16>)
                         outs(%f : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
      func.return %r : tensor<{m}x{n}xf32>
    }}"""
    module = parse_text(text, ctx=context())
    (product,) = (
        op
        for op in module.walk()
        if isinstance(op, LinalgStructuredOperation) and not isinstance(op, FillOp)
    )
    paths = (COOPERATIVE_MATRIX,)
    chosen = choose(contraction_of(product), load("nvidia-h200"), Decisions(), paths)
    assert isinstance(chosen.schedule, ContractionAttr)
    assert chosen.schedule.raster.data == raster
