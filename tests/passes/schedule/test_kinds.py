"""Each kind of kernel has a module that makes its plans. Plans that do not fit are refused."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

import pytest
from xdsl.dialects.builtin import UnitAttr
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation

from xdsl_spirv.passes.schedule.kinds import (
    KINDS,
    KernelPlan,
    ScheduleDoesNotFit,
    check,
    kind_of,
    plan_of,
)
from xdsl_spirv.runtime.modules import parse_text
from xdsl_spirv.targets import Target, load

LAVAPIPE = load("lavapipe")
PRODUCTS = """
#given = #schedule.contraction<workgroup_tile = [8, 8, 8], subgroups = [1, 1],
  instruction = coopmat 8x8x8, a = staged<>, b = staged<>>
func.func @f(%a: tensor<8x8xf16>, %c: tensor<8x8xf32>) {
  linalg.matmul {schedule = #given} ins(%a, %a : tensor<8x8xf16>, tensor<8x8xf16>)
    outs(%c : tensor<8x8xf32>) -> tensor<8x8xf32>
  linalg.matmul ins(%a, %a : tensor<8x8xf16>, tensor<8x8xf16>)
    outs(%c : tensor<8x8xf32>) -> tensor<8x8xf32>
  linalg.matmul {schedule = "coopmat"} ins(%a, %a : tensor<8x8xf16>, tensor<8x8xf16>)
    outs(%c : tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}
"""


@dataclass
class Given(KernelPlan):
    """A plan of a given size."""

    grid: tuple[int, int, int] = (1, 1, 1)  # pyright: ignore
    invocations: int = 8  # pyright: ignore
    workgroup_bytes: int = 0  # pyright: ignore
    kernel_name: str = "given"  # pyright: ignore
    target: Target = field(default=LAVAPIPE)


def operations() -> list[LinalgStructuredOperation]:
    """Returns three products: with a schedule, without one, and with a string instead of one."""
    return [op for op in parse_text(PRODUCTS).walk() if isinstance(op, LinalgStructuredOperation)]


def test_a_plan_that_fits_the_target_has_no_problems():
    check(Given())
    assert list(Given(invocations=LAVAPIPE.max_invocations).problems()) == []
    assert Given().seconds == LAVAPIPE.model.dispatch_seconds


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"invocations": 2048}, "256 subgroups of 8 are 2048 invocations, but lavapipe allows"),
        ({"workgroup_bytes": 99999}, "Workgroup memory of 99999 bytes exceeds lavapipe's 32768"),
        ({"grid": (1, 1 << 20, 1)}, "1048576 workgroups in y, but lavapipe allows 65535"),
    ],
)
def test_a_launch_beyond_the_targets_limits_is_refused(given: dict[str, Any], problem: str):
    with pytest.raises(ScheduleDoesNotFit, match=problem):
        check(replace(Given(), **given))


def test_a_scheduled_product_is_planned_by_its_kind():
    scheduled, _, _ = operations()
    assert kind_of(scheduled) == "coopmat"
    plan = plan_of(scheduled, LAVAPIPE)
    assert plan.grid == (1, 1, 1)
    assert plan.kernel_name == "matmul_8x8x8"


def test_an_operation_without_a_schedule_of_its_kind_is_refused():
    _, plain, wrong = operations()
    assert kind_of(plain) is None
    with pytest.raises(
        ScheduleDoesNotFit, match="the operation has no schedule: run assign-schedule"
    ):
        plan_of(plain, LAVAPIPE)
    wrong.attributes["schedule"] = UnitAttr()
    with pytest.raises(ScheduleDoesNotFit, match=r"linalg\.matmul cannot have the schedule unit"):
        plan_of(wrong, LAVAPIPE)


@pytest.mark.parametrize("name", KINDS)
def test_functions_named_by_a_kind_exist(name: str):
    kind = KINDS[name]
    for place in (kind.planner, kind.candidates, kind.excluded, kind.judge):
        if place:
            module, function = place.split(":")
            imported = import_module(f"xdsl_spirv.passes.schedule.{module}")
            assert callable(getattr(imported, function)), place
