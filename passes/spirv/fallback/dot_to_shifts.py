"""
`spirv-dot-to-shifts`: rewrites integer dot products as extensions, multiplications and additions.

    SDot a, b : packed   ->  sum over i of (signed byte i of a) * (signed byte i of b)

Bit-field extracts take the bytes of a packed scalar; SConvert and UConvert extend the components
of a vector. The sum is computed in 32 bits, or in 64 bits if the result has 64 bits and the exact
sum might not fit in 32. Both widths hold the low bits of the exact sum (DOT-15); a narrower result
is truncated. A saturating form adds the truncated sum to the accumulator and clamps the result
(DOT-16).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerType, VectorType, i32
from xdsl.dialects.builtin import ModuleOp as BuiltinModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from xdsl_spirv.dialects import spv
from xdsl_spirv.passes import rewrite_once
from xdsl_spirv.passes.emit.spirv import SpirvEmitter
from xdsl_spirv.passes.spirv.fallback.function_emitter import ModuleEmitter
from xdsl_spirv.passes.spirv.fallback.integers import clamp, saturating_add

NAME = "spirv-dot-to-shifts"
BYTES = 4
"""Number of components of a packed scalar."""


@dataclass(frozen=True)
class DotToShiftsPass(ModulePass):
    """Rewrites every integer dot product as shifts, conversions, multiplications and additions."""

    name = NAME

    def apply(self, ctx: Context, op: BuiltinModuleOp) -> None:
        for module in op.walk():
            if isinstance(module, spv.ModuleOp):
                rewrite_once(module, DotToShifts(ModuleEmitter(module)))


@dataclass
class DotToShifts(RewritePattern):
    """
    Multiplies and adds the components of a dot product's vectors one by one.

        SDot %a, %b : (i32, i32) -> i32  ->  byte(%a, 0) * byte(%b, 0) + ... + byte(%a, 3) * ...
    """

    codes: ModuleEmitter
    concerns: Callable[[Operation], bool] = lambda op: True
    """Returns True for the dot products to rewrite; by default, for all."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: spv.IntegerDotOperation, rewriter: PatternRewriter) -> None:
        if self.concerns(op):
            rewriter.replace(op, [], [lower_dot_product(op, self.codes.before(op))])


def lower_dot_product(op: spv.IntegerDotOperation, code: SpirvEmitter) -> SSAValue:
    """Computes the result of a dot product without the instruction."""
    result = spv.width_of(op.result.type)
    signs = (
        op.SIGNEDNESS is not spv.DotSignedness.UNSIGNED,
        op.SIGNEDNESS is spv.DotSignedness.SIGNED,
    )
    wide = _working_width(op, result)
    pairs = zip(
        _components(code, op.vector_1, wide, sign=signs[0]),
        _components(code, op.vector_2, wide, sign=signs[1]),
        strict=True,
    )
    products = (code.add(spv.IMulOp(a, b)) for a, b in pairs)
    total = reduce(lambda a, b: code.add(spv.IAddOp(a, b)), products)
    if isinstance(op, spv.DotAccumulateOperation):
        total = _accumulate(code, total, op.accumulator, result, sign=signs[0])
    total = code.resized(total, result, sign=signs[0])
    return code.same_bits(total, op.result.type)


def _working_width(op: spv.IntegerDotOperation, result: int) -> int:
    vector = op.vector_1.type
    count = spv.component_count(vector) if isinstance(vector, VectorType) else BYTES
    width = spv.width_of(spv.element_of(vector)) if isinstance(vector, VectorType) else 8
    exact = 2 * width + (count - 1).bit_length()
    return 64 if result == 64 and exact > 31 else 32


def _components(code: SpirvEmitter, vector: SSAValue, wide: int, *, sign: bool) -> list[SSAValue]:
    if isinstance(vector.type, VectorType):
        extended = code.resized(vector, wide, sign=sign)
        return [code.component(extended, i) for i in range(spv.component_count(vector.type))]
    packed = code.same_bits(vector, i32)
    return [code.resized(_byte(code, packed, i, sign=sign), wide, sign=sign) for i in range(BYTES)]


def _byte(code: SpirvEmitter, packed: SSAValue, number: int, *, sign: bool) -> SSAValue:
    """Extracts byte `number`, counted from the least significant (DOT-14), extended to 32 bits."""
    if number == BYTES - 1:
        shift = spv.ShiftRightArithmeticOp if sign else spv.ShiftRightLogicalOp
        return code.add(shift(packed, code.number(8 * number)))
    if number == 0 and not sign:
        return code.add(spv.BitwiseAndOp(packed, code.number(0xFF)))
    extract = spv.BitFieldSExtractOp if sign else spv.BitFieldUExtractOp
    operands = [packed, code.number(8 * number), code.number(8)]
    return code.add(extract.create(operands=operands, result_types=[i32]))


def _accumulate(
    code: SpirvEmitter, total: SSAValue, accumulator: SSAValue, result: int, *, sign: bool
) -> SSAValue:
    if result >= 32:
        addend = code.same_bits(accumulator, IntegerType(result))
        return saturating_add(code, code.resized(total, result, sign=sign), addend, sign=sign)
    cut = code.resized(code.resized(total, result, sign=sign), 32, sign=sign)
    addend = code.resized(accumulator, 32, sign=sign)
    return clamp(code, code.add(spv.IAddOp(cut, addend)), result, sign=sign)
