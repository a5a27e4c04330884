"""
Reorders the code of a K step in kernels that unpack B from packed planes, for timing only.

`packed_weights.py --order ahead` unpacks the fragments of the next columns before the current ones
are multiplied. `spread` puts the unpacking between the matrix instructions. `unordered` stages A
in memory order, in vectors of 16 bytes: its results are wrong, and its time shows the cost of
permuting A to B's order. No order has been run on a GPU, and none is available as a schedule.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import Operation, SSAValue

from xdsl_spirv.dialects.spirv.cooperative_matrix import CooperativeMatrixMulAddOp
from xdsl_spirv.passes.kernel.contraction_to_cooperative_matrix import CooperativeCore
from xdsl_spirv.passes.kernel.staging import Operand
from xdsl_spirv.passes.kernel.unpacked import UnitFragments
from xdsl_spirv.passes.schedule import plan as planning

ORDERS = ("usual", "ahead", "spread", "unordered")

usual: Any = CooperativeCore.multiply
staged: Any = planning.staged_tile


def apply(order: str) -> None:
    """Makes the compiler emit kernels in this order from now on."""
    CooperativeCore.multiply = usual
    planning.staged_tile = staged
    if order in ("ahead", "spread"):
        CooperativeCore.multiply = _ahead(order == "spread")
    elif order == "unordered":
        planning.staged_tile = lambda *given: staged(*given[:-1], None)


def _ahead(spread: bool) -> Any:
    def multiply(
        self: CooperativeCore, a: Operand, b: Operand, carried: Sequence[SSAValue]
    ) -> Sequence[SSAValue]:
        if not isinstance(b, UnitFragments):
            return usual(self, a, b, carried)
        results = list(carried)
        _, _, k = self.plan.schedule.instruction.sizes
        count_m, count_n, _ = self.plan.schedule.fragments
        type_a, type_b, _ = self.types
        block = self.builder.scopes[-1].place.block

        places = [(step, number) for step in range(self.steps) for number in range(count_n)]
        rows = a.fragments(count_m, 0, type_a)
        following = b.fragment(0, 0, type_b)
        for at, (step, number) in enumerate(places):
            present, own, last = following, rows, block.last_op
            if at + 1 < len(places):
                later, column = places[at + 1]
                if later != step:
                    rows = a.fragments(count_m, later * k, type_a)
                following = b.fragment(column, later * k, type_b)
            between = _behind(last) if spread else []
            for i, row in enumerate(own):
                place = i * count_n + number
                op = CooperativeMatrixMulAddOp(row, present, results[place], None)
                results[place] = op.results[0]
                if not between:
                    self.builder.insert(op)
                    continue
                before = between[max(0, len(between) * (i + 1) // len(own) - 1)]
                while isinstance(before.next_op, CooperativeMatrixMulAddOp):
                    before = before.next_op
                block.insert_op_after(op, before)
        return results

    return multiply


def _behind(op: Operation | None) -> list[Operation]:
    ops: list[Operation] = []
    while op is not None and op.next_op is not None:
        op = op.next_op
        ops.append(op)
    return ops
