"""
Computes products of f32 by bf16 matrices, if the user allows it.

    %r = linalg.matmul %a, %b    ->    %x = high, high and low part of %a : tensor<3x...xbf16>
                                       %y = high, low and high part of %b : tensor<3x...xbf16>
                                       %r = sum over the three and over k of %x * %y

The high part of a number is the nearest bf16, the low part the nearest bf16 of the remainder. The
product of two low parts is omitted, so the relative error of a product is at most 3 * 2^-16 (f32:
2^-24, TF32: 2^-10). Sums stay in f32. Infinite numbers, and numbers beyond bf16's range, give NaN.
XLA calls this algorithm BF16_BF16_F32_X3.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith, linalg
from xdsl.dialects.builtin import IndexType, ModuleOp, bf16, f32
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.rewriter import Rewriter

from xdsl_spirv.dialects.schedule.symbolic_sizes import typical
from xdsl_spirv.passes import refuse
from xdsl_spirv.passes.analysis.contraction import as_contraction
from xdsl_spirv.passes.analysis.linalg_code import BodyCode, Code, make_generic, product_body
from xdsl_spirv.passes.analysis.sizes import extents
from xdsl_spirv.passes.analysis.target import TargetPass
from xdsl_spirv.passes.schedule.paths import BF16X3, note_before_schedules

PARTS = 3
"""Number of bf16 products that replace one f32 product."""
LEAST = 16
"""Smallest numbers of rows and columns of the result for which the pass splits a product."""
TYPES = ("bf16", "bf16", "f32")


@dataclass(frozen=True)
class SplitProductsPass(TargetPass):
    """Replaces products of f32 by three products of bf16 parts."""

    name = "split-products"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = self.find_target(op)
        if target is not None and not target.properties_for(TYPES):
            refuse(
                self.name,
                op,
                f"{target.name} has no cooperative matrices of bf16 x bf16 -> f32: leave out "
                f"`--allow {BF16X3}`",
            )
        for product in [o for o in op.walk() if isinstance(o, LinalgStructuredOperation)]:
            _split(product)


def _split(op: LinalgStructuredOperation) -> None:
    """Replaces a product of f32 by a product of bf16 parts, summed by an outer loop of K."""
    contraction = as_contraction(op)
    if contraction is None:
        return
    sizes = (contraction.m, contraction.n)
    if contraction.types != ("f32",) * 3 or min(map(typical, sizes)) < LEAST:
        return
    code, place, count = Code(op), contraction.groups[3].start, len(contraction.sizes)
    loops = [AffineExpr.dimension(n + (n >= place)) for n in range(count)]
    part = AffineExpr.dimension(place)

    def move_loops(map: AffineMap, *first: AffineExpr) -> AffineMap:
        results = (e.replace_dims_and_symbols(loops, []) for e in map.results)
        return AffineMap(count + 1, 0, (*first, *results))

    a, b, out = contraction.maps
    product = make_generic(
        [_parts(code, contraction.a, low=2), _parts(code, contraction.b, low=1)],
        contraction.init,
        [move_loops(a, part), move_loops(b, part), move_loops(out)],
        product_body([bf16, bf16, f32], (False, False)),
        like=op,
    )
    note_before_schedules(product, BF16X3, f"three products of bf16 parts: --allow {BF16X3}", True)
    Rewriter.replace_op(op, product)


def _parts(code: Code, value: SSAValue, low: int) -> SSAValue:
    """Emits the rounded element at two of three indices, and its rounding error at index `low`."""
    sizes, body = extents(value), BodyCode()
    whole = AffineMap.identity(len(sizes) + 1)
    x = body.read(value, AffineMap(len(sizes) + 1, 0, whole.results[1:]))
    high = body.add(arith.TruncFOp(x, bf16))
    rest = body.add(arith.SubfOp(x, body.add(arith.ExtFOp(high, f32))))
    missing = body.add(arith.TruncFOp(rest, bf16))
    number, wanted = body.add(linalg.ops.IndexOp(0)), body.constant(low, IndexType())
    is_low = body.add(arith.CmpiOp(number, wanted, "eq"))
    part = body.add(arith.SelectOp(is_low, missing, high))
    return body.write(code, code.empty([PARTS, *sizes], bf16), whole, lambda _: part).results[0]
