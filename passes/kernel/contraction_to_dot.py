"""
Lowers contractions to packed dot products: each instruction multiplies four pairs of 8-bit
integers.

The schedule's instruction is `dot MxNxK`; see `collective` for the surrounding code. Workgroup
memory holds the operands as words of four elements along K, independent of their layout in global
memory. The exact 32-bit dot product is accumulated by a separate addition, which wraps like the
source's multiply-adds. Accumulating dot instructions would saturate.
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
    """Computes an invocation's m x n results, row by row, with one accumulator for each result."""

    def factors_of(self, value: SSAValue, name: str) -> list[SSAValue]:
        """Splits a vector into 32-bit words."""
        return components_of(self.builder, value)

    def multiply_add(self, x: SSAValue, y: SSAValue, total: SSAValue) -> SSAValue:
        """Adds the dot product of two words of four bytes to `total`."""
        signs = "".join(name[0] for name in self.plan.contraction.types[:2])
        if signs == "us":
            x, y = y, x
        kind = {"ss": spv.SDotOp, "uu": spv.UDotOp}.get(signs, spv.SUDotOp)
        return self.builder.add(arith.AddiOp(total, self.builder.add(kind(x, y, i32, PACKED_4X8))))


@dataclass(frozen=True)
class ContractionToDotPass(KernelPass):
    """Writes the kernels whose schedule names the instruction `dot`."""

    name = "contraction-to-dot"
    codes = {"dot": partial(write_contraction, DotCore)}
