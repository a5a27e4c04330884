"""
Lowers contractions to cooperative matrices: each subgroup multiplies fragments.

The schedule's instruction is `coopmat MxNxK`. See `collective` for the surrounding code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel import KernelPass
from xdsl_spirv.passes.kernel.collective import write_contraction, write_pack
from xdsl_spirv.passes.kernel.fragments import FragmentTile
from xdsl_spirv.passes.kernel.k_loop import FragmentCore, Operand
from xdsl_spirv.passes.kernel.matrix_values import matrix_type, multiply_matrices
from xdsl_spirv.passes.kernel.result_tile import Place
from xdsl_spirv.passes.schedule.plan import Plan

if TYPE_CHECKING:
    from xdsl_spirv.passes.kernel.slices import SliceSums


class CooperativeCore(FragmentCore):
    """Multiplies a subgroup's fragments; the accumulators are ordered row by row."""

    def __init__(self, builder: KernelEmitter, plan: Plan, place: Place):
        self.builder, self.plan, self.place = builder, plan, place
        m, n, k = plan.schedule.instruction.sizes
        a, b, result = plan.contraction.element_types
        shapes = ("A", m, k, a), ("B", k, n, b), ("Acc", m, n, result)
        self.types = [matrix_type(*shape) for shape in shapes]
        self.tile = FragmentTile(builder, plan, place, self.types[2])
        self.slices: SliceSums | None = None
        if plan.schedule.slices > 1:
            from xdsl_spirv.passes.kernel.slices import SliceSums

            reused = self.tile.reuses_sums
            self.slices = SliceSums(builder, plan, place, self.types[2], reused)
            if reused:
                # The sums of a single fragment never overwrite an operand's tile.
                self.tile.scratch = self.slices.memory

    def begin(self) -> Sequence[SSAValue]:
        return self.tile.zeros()

    def end(self, totals: Sequence[SSAValue], operands: Sequence[Operand]) -> None:
        if self.slices is None:
            self.tile.store(totals)
        else:
            self.slices.enter(operands)
            self.slices.add(totals, self.tile.store)

    def load(self, a: Operand, b: Operand) -> Iterator[Sequence[SSAValue]]:
        m, n, steps = self.plan.schedule.fragments
        _, _, k = self.plan.schedule.instruction.sizes
        type_a, type_b, _ = self.types
        for step in range(steps):
            rows = a.fragments(m, step * k, type_a)
            yield [*rows, *b.fragments(n, step * k, type_b)]

    def multiply_fragments(
        self, loaded: Iterable[Sequence[SSAValue]], carried: Sequence[SSAValue]
    ) -> Sequence[SSAValue]:
        m, types = self.plan.schedule.fragments[0], self.plan.contraction.types
        for step in loaded:
            carried = multiply_matrices(self.builder, step[:m], step[m:], carried, types)
        return carried


@dataclass(frozen=True)
class ContractionToCooperativeMatrixPass(KernelPass):
    """Writes the kernels whose schedule names the instruction `coopmat`, and packing kernels."""

    name = "contraction-to-cooperative-matrix"
    codes = {"coopmat": partial(write_contraction, CooperativeCore), "pack": write_pack}
