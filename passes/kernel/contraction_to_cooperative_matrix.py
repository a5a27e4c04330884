"""
Scheduled contractions by cooperative matrices: a subgroup multiplies fragments together.

The schedule's instruction is `coopmat MxNxK`. See `collective` for the code around it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.passes.emit.emitter import Condition
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel import KernelPass
from xdsl_spirv.passes.kernel.collective import Operand, write_contraction, write_pack
from xdsl_spirv.passes.kernel.fragments import FragmentTile
from xdsl_spirv.passes.kernel.matrix_values import matrix_type, multiply_matrices
from xdsl_spirv.passes.kernel.result_tile import Place
from xdsl_spirv.passes.schedule.plan import Plan

if TYPE_CHECKING:
    from xdsl_spirv.passes.kernel.slices import SliceSums

SIGNED = (
    spv.CooperativeMatrixOperands.MatrixASignedComponentsKHR,
    spv.CooperativeMatrixOperands.MatrixBSignedComponentsKHR,
    spv.CooperativeMatrixOperands.MatrixCSignedComponentsKHR
    | spv.CooperativeMatrixOperands.MatrixResultSignedComponentsKHR,
)


class CooperativeCore:
    """Computes a subgroup's fragments of the result, row by row."""

    def __init__(self, builder: KernelEmitter, plan: Plan, place: Place):
        self.builder, self.plan, self.place = builder, plan, place
        m, n, k = plan.schedule.instruction.sizes
        a, b, result = plan.contraction.element_types
        shapes = ("A", m, k, a), ("B", k, n, b), ("Acc", m, n, result)
        self.types = [matrix_type(*shape) for shape in shapes]
        self.tile = FragmentTile(builder, plan, place, self.types[2])
        self.init: SSAValue | None = None
        self.slices: SliceSums | None = None
        if plan.schedule.slices > 1:
            from xdsl_spirv.passes.kernel.slices import SliceSums

            reused = self.tile.reuses_sums
            self.slices = SliceSums(builder, plan, place, self.types[2], reused)
            if reused:
                # A single fragment never takes a tile's place.
                self.tile.scratch = self.slices.memory

    def begin(self, init: SSAValue | None) -> Sequence[SSAValue]:
        self.init = init if init is None else self.tile.flat(init)
        if self.init is None or self.slices is not None:
            return self.tile.zeros()
        return self.tile.load(self.init)

    def end(self, totals: Sequence[SSAValue], operands: Sequence[Operand]) -> None:
        if self.slices is None:
            self.tile.store(totals)
        else:
            self.slices.enter(operands)
            self.slices.add(totals, self._finish)

    def _finish(self, numbers: Sequence[int], sums: Sequence[SSAValue], mine: Condition) -> None:
        """Add the initial values to the sums of the slices of K, and store them."""
        assert self.slices is not None
        totals = sums
        if self.init is not None:
            begun = self.tile.load(self.init, numbers)
            totals = [self.slices.plus(*pair) for pair in zip(sums, begun, strict=True)]
        self.tile.store(totals, numbers, mine)

    def multiply(self, a: Operand, b: Operand, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
        """Writes the MulAdds of one K tile."""
        for step in range(self.steps):
            carried = self._multiply_step(*self._load_step(a, b, step), carried)
        return carried

    def load(self, a: Operand, b: Operand) -> Sequence[SSAValue]:
        """Loads a K tile's fragments: for each instruction along K first A's, then B's."""
        loaded = [self._load_step(a, b, step) for step in range(self.steps)]
        return [fragment for rows, columns in loaded for fragment in (*rows, *columns)]

    def multiply_fragments(
        self, fragments: Sequence[SSAValue], carried: Sequence[SSAValue]
    ) -> Sequence[SSAValue]:
        """Writes the MulAdds of one K tile whose fragments are loaded."""
        count_m, count_n, _ = self.plan.schedule.fragments
        for first in range(0, len(fragments), count_m + count_n):
            middle = first + count_m
            rows, columns = fragments[first:middle], fragments[middle : middle + count_n]
            carried = self._multiply_step(rows, columns, carried)
        return carried

    @property
    def steps(self) -> int:
        """Instructions along K in a K tile."""
        return self.plan.schedule.fragments[2]

    def _load_step(
        self, a: Operand, b: Operand, step: int
    ) -> tuple[Sequence[SSAValue], Sequence[SSAValue]]:
        _, _, k = self.plan.schedule.instruction.sizes
        count_m, count_n, _ = self.plan.schedule.fragments
        type_a, type_b, _ = self.types
        rows = a.fragments(count_m, step * k, type_a)
        return rows, b.fragments(count_n, step * k, type_b)

    def _multiply_step(
        self, rows: Sequence[SSAValue], columns: Sequence[SSAValue], totals: Sequence[SSAValue]
    ) -> Sequence[SSAValue]:
        """Returns the accumulators after the MulAdds of one instruction along K."""
        flags = spv.CooperativeMatrixOperands(0)
        for name, flag in zip(self.plan.contraction.types, SIGNED, strict=True):
            flags |= flag if name.startswith("s") else 0
        return multiply_matrices(self.builder, rows, columns, totals, flags or None)


@dataclass(frozen=True)
class ContractionToCooperativeMatrixPass(KernelPass):
    """Writes out every kernel whose schedule says `coopmat`: subgroups multiply fragments."""

    name = "contraction-to-cooperative-matrix"
    codes = {"coopmat": partial(write_contraction, CooperativeCore), "pack": write_pack}
