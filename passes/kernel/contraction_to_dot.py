"""
Scheduled contractions by packed dot products: four 8-bit products in each instruction.

The schedule's instruction is `dot MxNxK`; see `collective` for the code around it. Operands lie in
Workgroup memory as words of four elements along K, whichever way they lie in global memory. The
instruction's exact sum fits 32 bits. A plain addition adds it and wraps, as the source's
multiply-adds do; instructions that also add saturate, so they are not used.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from xdsl.dialects import arith
from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.passes.kernel import KernelPass
from xdsl_spirv.passes.kernel.collective import write_contraction
from xdsl_spirv.passes.kernel.contraction_to_fma import InvocationCore
from xdsl_spirv.passes.kernel.elements import components_of

PACKED_4X8 = spv.PackedVectorFormat.PackedVectorFormat4x8Bit


class DotCore(InvocationCore):
    """Computes an invocation's m x n results, row by row, each in its own accumulator."""

    def factors_of(self, value: SSAValue, name: str) -> list[SSAValue]:
        """Lists the words of a vector."""
        return components_of(self.builder, value)

    def multiply_add(self, x: SSAValue, y: SSAValue, total: SSAValue) -> SSAValue:
        """Adds four products; each factor is extended by its type's signedness."""
        signs = "".join(name[0] for name in self.plan.contraction.types[:2])
        if signs == "us":
            x, y = y, x
        kind = {"ss": spv.SDotOp, "uu": spv.UDotOp}.get(signs, spv.SUDotOp)
        return self.builder.add(arith.AddiOp(total, self.builder.add(kind(x, y, i32, PACKED_4X8))))


@dataclass(frozen=True)
class ContractionToDotPass(KernelPass):
    """Writes out every kernel whose schedule says `dot`: invocations multiply words of bytes."""

    name = "contraction-to-dot"
    codes = {"dot": partial(write_contraction, DotCore)}
