"""
Rewrites sums of products of quantized numbers as integer contractions with corrections.

    sum of (a - za) * (b - zb)
        ->  sum of a * b  -  zb * (sum of a)  -  za * (sum of b)  +  K * za * zb

Modulo 2^N both sides are the same number, whatever the zero points are: scalars, or numbers of each
channel. The first sum is a contraction that the matrix units take; the sums of one operand are
reductions, computed here where the operand is a constant; the correction is elementwise. A zero
point that is 0 costs nothing. A padding with the zero point is part of its operand.

Contractions of dequantized numbers, s * (q - z) in floats, are the same sums times s of each
operand, if the sums fit in 32 bits: see `dequantized`. `zero_point_sums` rewrites the operations.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerType, ModuleOp
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.passes import ModulePass

from xdsl_spirv.passes.analysis.ranges import element
from xdsl_spirv.passes.analysis.target import load_target
from xdsl_spirv.passes.graph.zero_point_sums import rewrite, same_sign


@dataclass(frozen=True)
class QuantizedContractionsPass(ModulePass):
    """Rewrites contractions of quantized numbers to contractions of the stored integers."""

    name = "linalg-quantized-to-contraction"

    dequantized: bool = True
    """Also rewrites contractions of floats that were just dequantized; the sum is rounded once."""

    same_signs: bool = False
    """If the operands are bytes of different signedness, makes both signed or both unsigned."""

    target: str = ""
    """
    A known device's name or a target file. If the device multiplies only bytes of equal
    signedness, the pass makes the signedness equal unless that needs another sum of an operand.
    """

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = load_target(self.target, op, self.name) if self.target else None
        values = (value for inner in op.walk() for value in inner.operands)
        if not any(isinstance(element(value.type), IntegerType) for value in values):
            return
        signs = same_sign(target, self.same_signs)
        for candidate in [o for o in op.walk() if isinstance(o, LinalgStructuredOperation)]:
            rewrite(candidate, self.dequantized, signs)
