"""
Scheduled contractions by packed dot products: four 8-bit products in each instruction.

The schedule's instruction is `dot MxNxK`; see `collective` for the code around it. Operands lie in
Workgroup memory as words of four elements along K, whichever way they lie in global memory. The
instruction's exact sum fits 32 bits and is added by a plain, wrapping addition, as the source's
multiply-adds wrap; the instructions that add by themselves saturate, which is another meaning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from xdsl.dialects import arith
from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.kernel import KernelPass
from xdsl_spirv.passes.kernel.collective import write_contraction
from xdsl_spirv.passes.kernel.contraction_to_fma import InvocationCore
from xdsl_spirv.passes.kernel.elements import components_of
from xdsl_spirv.passes.kernel.staging import TileInMemory

PACKED_4X8 = spv.PackedVectorFormat.PackedVectorFormat4x8Bit


class DotCore(InvocationCore):
    """Computes an invocation's m x n results, row by row, each in its own accumulator."""

    def _factors(self, number: int, operand: TileInMemory, step: Index) -> list[list[SSAValue]]:
        """Loads the invocation's words of A (0) or B (1), ordered by M or N, then K."""
        return [
            [word for vector in row for word in components_of(self.builder, vector)]
            for row in self._loaded(number, operand, step)
        ]

    def _products(
        self,
        rows: Sequence[Sequence[SSAValue]],
        columns: Sequence[Sequence[SSAValue]],
        totals: Sequence[SSAValue],
    ) -> list[SSAValue]:
        results = list(totals)
        for k in range(len(rows[0])):
            for i, row in enumerate(rows):
                for j, column in enumerate(columns):
                    at = i * self.n + j
                    product = self._dot(row[k], column[k])
                    results[at] = self.builder.add(arith.AddiOp(results[at], product))
        return results

    def _dot(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """Adds four products; each factor is extended by its type's signedness."""
        signs = "".join(name[0] for name in self.plan.contraction.types[:2])
        match signs:
            case "ss":
                dot = spv.SDotOp(a, b, i32, PACKED_4X8)
            case "uu":
                dot = spv.UDotOp(a, b, i32, PACKED_4X8)
            case "su":
                dot = spv.SUDotOp(a, b, i32, PACKED_4X8)
            case _:
                dot = spv.SUDotOp(b, a, i32, PACKED_4X8)
        return self.builder.add(dot)


@dataclass(frozen=True)
class ContractionToDotPass(KernelPass):
    """Writes out every kernel whose schedule says `dot`: invocations multiply words of bytes."""

    name = "contraction-to-dot"
    codes = {"dot": partial(write_contraction, DotCore)}
