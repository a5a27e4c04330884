"""Paths are refused by sizes, types and the user's limits, and decisions are recorded in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.utils.exceptions import DiagnosticException

from xdsl_spirv.dialects.schedule import CONSIDERED, ConsideredAttr, DispatchOp
from xdsl_spirv.passes.analysis.contraction import Contraction
from xdsl_spirv.passes.schedule.paths import (
    FMA,
    ROWS,
    UNLIMITED,
    Decisions,
    Limits,
    considered_before,
    no_few_rows,
    no_matrices,
    no_window,
    note_before_schedules,
    why_rows,
)
from xdsl_spirv.runtime.modules import parse_text
from xdsl_spirv.targets import Target, load

if TYPE_CHECKING:
    from tests.passes.conftest import PlanProduct

LAVAPIPE, H200, MALI = load("lavapipe"), load("nvidia-h200"), load("arm-mali")
OPERATIONS = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %first = arith.negf %x : tensor<4xf32>
  %second = arith.negf %first : tensor<4xf32>
  %third = schedule.dispatch(%second) : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%y: tensor<4xf32>):
    %inner = arith.negf %y : tensor<4xf32>
    schedule.yield %inner : tensor<4xf32>
  }
  func.return %third : tensor<4xf32>
}
"""


def read_operations() -> list[Operation]:
    """Returns `first`, `second`, `third` and `inner`."""
    (function,) = parse_text(OPERATIONS).body.block.ops
    assert isinstance(function, FuncOp)
    first, second, third, _ = function.body.block.ops
    assert isinstance(third, DispatchOp)
    inner = third.regions[0].block.first_op
    assert inner is not None
    return [first, second, third, inner]


def contraction(plan_product: PlanProduct, name: str) -> Contraction:
    rest = "a = staged<>, b = staged<>"
    return plan_product(name, "4, 2, 8", "1, 1", rest, "fma 1x1x1").contraction


def limit_rows(target: Target, few: int, much: int, few_for_matrices: int = 0) -> Target:
    rows = replace(target.model.rows, few=few, much=much, few_for_matrices=few_for_matrices)
    return replace(target, model=replace(target.model, rows=rows))


def test_few_rows_are_at_most_the_limit_and_much_fewer_than_the_rest(plan_product: PlanProduct):
    """The result has 48 x 32 elements."""
    product = contraction(plan_product, "matrices")
    assert no_few_rows(product, limit_rows(MALI, 32, 1)) == ""
    assert "the result has 32 rows, but this path supports at most 31 on arm-mali" in (
        no_few_rows(product, limit_rows(MALI, 31, 1))
    )
    assert no_few_rows(product, limit_rows(MALI, 32, 2)) == (
        "with 32 x 48 results, no operand is much larger than the other"
    )
    # Matrices compute more rows unless the rates of the target are measured.
    rated = limit_rows(H200, 32, 1)
    assert rated.measured_copy is not None
    assert no_few_rows(product, rated) == ""
    unrated = replace(rated, measured_copy=None)
    assert "at most 0" in no_few_rows(product, unrated)
    assert no_few_rows(product, limit_rows(unrated, 0, 1, 32)) == ""


def test_a_cpu_computes_any_rows_without_matrices(plan_product: PlanProduct):
    cpu = limit_rows(LAVAPIPE, 1, 100)
    # The target has matrices of f16, but not of f32.
    assert no_few_rows(contraction(plan_product, "batches"), cpu) == ""
    assert "at most 1" in no_few_rows(contraction(plan_product, "matrices"), cpu)


def test_the_reason_for_rows_depends_on_their_number(plan_product: PlanProduct):
    product = contraction(plan_product, "matrices")
    assert why_rows(product, limit_rows(LAVAPIPE, 32, 1)).startswith("the result has few rows")
    assert why_rows(product, limit_rows(LAVAPIPE, 31, 1)).startswith("on a CPU each lane")


def test_types_without_matrices_are_named_with_those_that_have_some(plan_product: PlanProduct):
    assert no_matrices(contraction(plan_product, "matrices"), LAVAPIPE) == ""
    assert no_matrices(contraction(plan_product, "batches"), LAVAPIPE) == (
        "CM-29: lavapipe has no cooperative matrices of f32 x f32 -> f32; it has "
        "f16 x f16 -> f16, f16 x f16 -> f32, s8 x s8 -> s32, u8 x u8 -> u32"
    )
    assert no_matrices(contraction(plan_product, "batches"), MALI).endswith("it has none")


def test_windows_need_a_batch_and_few_filters(plan_product: PlanProduct):
    def limit(most: int) -> Target:
        window = replace(MALI.model.window, most_filters=most)
        return replace(MALI, model=replace(MALI.model, window=window))

    batches = contraction(plan_product, "batches")
    assert no_window(batches, limit(6)) == ""
    assert no_window(batches, limit(5)) == (
        "6 rows for each batch fill tiles: windows are faster up to 5 rows"
    )
    assert "no batch of channels" in no_window(contraction(plan_product, "matrices"), limit(100))


@pytest.mark.parametrize("text", ["fma", "fma=", "=layer", "loops=layer", ""])
def test_limits_need_a_path_and_a_pattern(text: str):
    message = "names no layers for a path: write"
    with pytest.raises(DiagnosticException, match=message):
        Limits(only=("rows=a", text))
    with pytest.raises(DiagnosticException, match=message):
        Limits(barred=(text,))


def test_another_arithmetic_is_refused():
    assert Limits(allowed="bf16x3").allowed == "bf16x3"
    with pytest.raises(DiagnosticException, match="unknown arithmetic 'tf32'"):
        Limits(allowed="tf32")


@pytest.mark.parametrize(
    ("only", "barred", "forbidden"),
    [
        ((), (), ""),
        (("fma=first",), (), "second third"),
        (("fma=*ir*",), (), "second"),
        (("fma=first", "fma=second"), (), "third"),
        (("rows=first",), (), ""),
        ((), ("fma=first",), "first"),
        ((), ("fma=f*", "fma=s?cond"), "first second"),
        ((), ("rows=*",), ""),
        (("fma=first", "fma=second"), ("fma=second",), "second third"),
    ],
)
def test_limits_forbid_a_path_for_matching_layers(
    only: Sequence[str], barred: Sequence[str], forbidden: str
):
    limits = Limits(tuple(only), tuple(barred))
    *operations, inner = read_operations()
    refused = [op for op in operations if limits.against(FMA, op)]
    assert [op.results[0].name_hint for op in refused] == forbidden.split()
    # The layer of an operation in a dispatch is that of the dispatch.
    assert (limits.against(FMA, inner) is None) == (limits.against(FMA, operations[2]) is None)
    assert bool(limits) == bool(only or barred)


def test_the_reason_repeats_the_options_of_the_path():
    first, second, *_ = read_operations()
    limits = Limits(("fma=first", "fma=other", "rows=first"), ("fma=first",))
    assert limits.against(FMA, second) == "barred: --only fma=first,other"
    assert limits.against(FMA, first) == "barred: --except fma=first"
    assert limits.unmet(["first", "third"]) == ["other"]
    assert limits.unmet(["o-t-h-e-r"]) == ["first", "other", "first", "first"]


def test_decisions_follow_earlier_notes_and_are_not_repeated():
    first, second, *_ = read_operations()
    note_before_schedules(first, "layout", "as it is", taken=True)
    note_before_schedules(first, "pack", "not worth it")
    earlier = [ConsideredAttr("layout", True, "as it is"), ConsideredAttr("pack", False, "not worth it")]  # fmt: skip # noqa: E501
    assert considered_before(first) == earlier
    assert considered_before(second) == []
    decisions = Decisions()
    for _ in range(2):
        decisions.note(first, ROWS, "too many")
    decisions.note(first, FMA, "the rest", taken=True)
    decisions.repeat(second, first)
    assert CONSIDERED not in second.attributes
    decisions.write()
    own = [ConsideredAttr(ROWS, False, "too many"), ConsideredAttr(FMA, True, "the rest")]
    assert considered_before(first) == considered_before(second) == [*earlier, *own]


def test_a_forbidden_path_is_recorded_with_its_reason():
    first, second, *_ = read_operations()
    decisions = Decisions(Limits(barred=("fma=first",)))
    assert decisions.bars(first, FMA)
    assert not decisions.bars(first, ROWS)
    assert not decisions.bars(second, FMA)
    assert not Decisions(UNLIMITED).bars(first, FMA)
    decisions.write()
    assert considered_before(first) == [ConsideredAttr(FMA, False, "barred: --except fma=first")]
    assert considered_before(second) == []
