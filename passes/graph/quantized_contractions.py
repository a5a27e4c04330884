"""
Rewrites sums of products of quantized numbers as integer contractions with corrections.

    sum of (a - za) * (b - zb)
        ->  sum of a * b  -  zb * (sum of a)  -  za * (sum of b)  +  K * za * zb

Both sides are equal modulo 2^N for any zero points, scalar or per channel. The first sum is a
contraction for matrix instructions. The sums of one operand are reductions, evaluated at compile
time if the operand is constant. The correction is elementwise. A zero point of 0 costs nothing. A
padding with the zero point counts as part of its operand.

Contractions of dequantized numbers, s * (q - z) in floats, become the same sums times both scales,
if the sums fit in 32 bits (`dequantized`). `zero_point_sums` rewrites the operations.
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
    """Rewrites contractions of quantized numbers as contractions of the stored integers."""

    name = "linalg-quantized-to-contraction"

    dequantized: bool = True
    """Also rewrites float contractions of dequantized operands; only the result is then rounded."""

    same_signs: bool = False
    """If the operands are bytes of different signedness, makes both signed or both unsigned."""

    target: str = ""
    """
    A device name or a target file. For a device that multiplies only bytes of equal signedness,
    the pass makes the signedness equal, if that needs no additional sum of an operand.
    """

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = load_target(self.target, op, self.name) if self.target else None
        values = (value for inner in op.walk() for value in inner.operands)
        if not any(isinstance(element(value.type), IntegerType) for value in values):
            return
        signs = same_sign(target, self.same_signs)
        for candidate in [o for o in op.walk() if isinstance(o, LinalgStructuredOperation)]:
            rewrite(candidate, self.dequantized, signs)
