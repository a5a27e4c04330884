"""
Converts operations of `arith` on scalars and vectors in a kernel to `spirv`.

If `arith` defines a result that Vulkan leaves undefined, the operation becomes a sequence of
instructions: the remainder of negative integers, a minimum with a NaN, ordered comparisons without
OpenCL. Results that `arith` calls poison (a division by 0, a float outside of a 32-bit integer's
range) stay undefined. A float outside of the 64-bit range becomes the nearest 64-bit integer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import BFloat16Type, UnitAttr, f32, i1, i32
from xdsl.ir import Attribute, Operation, SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.scalars.values import (
    Values,
    element_of,
    is_small,
    like,
    narrow,
    wide,
    width_of,
)
from xdsl_spirv.passes.spirv.kernel_code import Compute, KernelCode
from xdsl_spirv.upstream.scalar_extensions import IndexCastUIOp

Sequence = Callable[..., SSAValue]
"""
A function compute(values, *operands) that writes instructions and returns the result. `values`
knows the result's type.
"""


def _is_bool(type: Attribute) -> bool:
    return element_of(type) == i1


def sequence(compute: Sequence) -> Compute:
    """Returns the conversion of an operation by `compute`, which writes the instructions."""

    def convert(code: KernelCode, op: Operation) -> SSAValue:
        return compute(Values(code, code.type(op.results[0].type, op)), *code.operands(op))

    return convert


def one_to_one(kind: type[Operation]) -> Compute:
    """Returns the conversion to one instruction with the same operands."""
    return sequence(lambda v, *operands: v.op(kind, *operands))


def by_kind(boolean: type[Operation] | Sequence, integer: type[Operation] | Sequence) -> Compute:
    """Returns a conversion to one instruction for Booleans and another for integers."""

    def compute(v: Values, *operands: SSAValue) -> SSAValue:
        kind = boolean if _is_bool(v.type) else integer
        return v.op(kind, *operands) if isinstance(kind, type) else kind(v, *operands)

    return sequence(compute)


def first(v: Values, a: SSAValue, b: SSAValue) -> SSAValue:
    """
    Returns `a`: the quotient of one-bit values, or a one-bit value shifted by 0. The result for any
    other divisor or shift is poison.
    """
    return a


def zero(v: Values, a: SSAValue, b: SSAValue) -> SSAValue:
    """Returns 0, which is the remainder for one-bit values."""
    return v.number(0)


def on_floats(compute: Sequence) -> Compute:
    """Returns the conversion that applies `compute` to floats; bfloat16 is computed in binary32."""

    def convert(v: Values, *operands: SSAValue) -> SSAValue:
        if not isinstance(element_of(v.type), BFloat16Type):
            return compute(v, *operands)
        singles = [wide(v.code, operand, v.type) for operand in operands]
        return narrow(v.code, compute(v.as_type(f32), *singles), v.type)

    return sequence(convert)


# Floats


def minimum(v: Values, a: SSAValue, b: SSAValue) -> SSAValue:
    """Returns the smaller operand, or NaN if an operand is NaN."""
    return v.select(v.either(v.less(a, b), v.is_nan(a)), a, b)


def maximum(v: Values, a: SSAValue, b: SSAValue) -> SSAValue:
    return v.select(v.either(v.less(b, a), v.is_nan(a)), a, b)


# Comparisons

_INTEGER_COMPARISONS: tuple[type[Operation], ...] = (
    spv.IEqualOp,
    spv.INotEqualOp,
    spv.SLessThanOp,
    spv.SLessThanEqualOp,
    spv.SGreaterThanOp,
    spv.SGreaterThanEqualOp,
    spv.ULessThanOp,
    spv.ULessThanEqualOp,
    spv.UGreaterThanOp,
    spv.UGreaterThanEqualOp,
)
"""Instructions by the predicate of arith.cmpi."""

_FLOAT_COMPARISONS: dict[int, type[Operation]] = {
    1: spv.FOrdEqualOp,
    2: spv.FOrdGreaterThanOp,
    3: spv.FOrdGreaterThanEqualOp,
    4: spv.FOrdLessThanOp,
    5: spv.FOrdLessThanEqualOp,
    6: spv.FOrdNotEqualOp,
    8: spv.FUnordEqualOp,
    9: spv.FUnordGreaterThanOp,
    10: spv.FUnordGreaterThanEqualOp,
    11: spv.FUnordLessThanOp,
    12: spv.FUnordLessThanEqualOp,
    13: spv.FUnordNotEqualOp,
}
"""
Instructions by arith.cmpf's predicate. 0 and 15 are constants; 7 and 14 test for NaN.
"""


def compare_integers(code: KernelCode, op: arith.CmpiOp) -> SSAValue:
    """Compares integers. Booleans count as 0 and 1, or as 0 and -1 in signed comparisons."""
    predicate = op.predicate.value.data
    a, b = code.operands(op)
    type = code.type(op.operands[0].type, op)
    v = Values(code, type)
    if _is_bool(type):
        if predicate < 2:
            kind = spv.LogicalEqualOp if predicate == 0 else spv.LogicalNotEqualOp
            return v.test(kind, a, b)
        v = v.as_type(i32)
        true, false = v.number(-1 if predicate < 6 else 1), v.number(0)
        a, b = v.select(a, true, false), v.select(b, true, false)
    return v.test(_INTEGER_COMPARISONS[predicate], a, b)


def compare_floats(code: KernelCode, op: arith.CmpfOp) -> SSAValue:
    predicate = op.predicate.value.data
    type = op.operands[0].type
    a, b = code.operands(op)
    if isinstance(element_of(type), BFloat16Type):
        a, b, type = wide(code, a, type), wide(code, b, type), like(type, f32)
    v = Values(code, type)
    boolean = v.as_type(i1)
    if predicate in (0, 15):
        result = boolean.number(predicate == 15)
    elif predicate in (7, 14):
        result = v.either(v.is_nan(a), v.is_nan(b))
        if predicate == 7:
            result = boolean.op(spv.LogicalNotOp, result)
    else:
        result = v.test(_FLOAT_COMPARISONS[predicate], a, b)
    return result


# Conversions


def _choice(v: Values, x: SSAValue, sign: bool) -> SSAValue:
    """Converts a Boolean to 0 or 1; to 0 or -1 if `sign`."""
    return v.select(x, v.number(-1 if sign else 1), v.number(0))


def resize(v: Values, x: SSAValue, sign: bool) -> SSAValue:
    """Truncates or extends an integer. Converts a Boolean to 0 or 1; to 0 or -1 if `sign`."""
    if x.type == v.type:
        return x
    if _is_bool(x.type):
        return _choice(v, x, sign)
    if _is_bool(v.type):
        whole = Values(v.code, x.type)
        low = whole.op(spv.BitwiseAndOp, x, whole.number(1))
        return whole.test(spv.INotEqualOp, low, whole.number(0))
    return v.op(spv.SConvertOp if sign else spv.UConvertOp, x)


def integer_to_float(v: Values, x: SSAValue, sign: bool) -> SSAValue:
    """Converts an integer to a float; f16 and bf16 are computed in binary32."""
    if _is_bool(x.type):
        return _choice(v, x, sign)
    if width_of(x.type) < 32:
        x = resize(Values(v.code, like(x.type, i32)), x, sign)
    single = v.as_type(f32) if is_small(v.type) else v
    kind = spv.ConvertSToFOp if sign else spv.ConvertUToFOp
    return narrow(v.code, single.op(kind, x), v.type)


def float_to_integer(v: Values, x: SSAValue, sign: bool) -> SSAValue:
    """Converts a float toward zero; conversions to 64 bits saturate."""
    x = wide(v.code, x, x.type)
    if width_of(v.type) < 32:
        return resize(v, v.as_type(i32).op(spv.ConvertFToSOp, x), True)
    whole = v.op(spv.ConvertFToSOp if sign else spv.ConvertFToUOp, x)
    return whole if width_of(v.type) == 32 else _saturate_integer(v, x, whole, sign)


def _saturate_integer(v: Values, x: SSAValue, whole: SSAValue, sign: bool) -> SSAValue:
    """
    Saturates a conversion to 64 bits: a float out of range gives the nearest integer, NaN gives 0.

    ONNX casts are defined in this way (docs/numerics.md).
    """
    floats = Values(v.code, x.type)
    low, end = (floats.number(n) for n in ((-(2.0**63), 2.0**63) if sign else (0.0, 2.0**64)))
    least, most = (v.number(n) for n in ((-(1 << 63), (1 << 63) - 1) if sign else (0, -1)))
    below = v.select(floats.test(spv.FOrdLessThanOp, x, low), least, v.number(0))
    inside = v.select(floats.test(spv.FOrdGreaterThanEqualOp, x, low), whole, below)
    return v.select(floats.test(spv.FOrdGreaterThanEqualOp, x, end), most, inside)


def by_sign(compute: Callable[[Values, SSAValue, bool], SSAValue], sign: bool) -> Compute:
    return sequence(lambda v, x: compute(v, x, sign))


def bitcast(v: Values, x: SSAValue) -> SSAValue:
    return x if x.type == v.type else v.op(spv.BitcastOp, x)


LARGEST_FRACTION = 2.0**23
"""Magnitude at and above which all binary32 values are integers."""


NO_CONTRACTION = "no_contraction"
"""The attribute that becomes the decoration NoContraction."""


def keep_uncontracted(compute: Sequence) -> Compute:
    """
    Returns the conversion of a sum or product; forbids contraction if the result is later rounded.

    Vulkan allows a product and a sum to be contracted and rounded once. If quantization then
    rounds the result to an integer, the result may lie midway between two integers, and its last
    bit matters.
    """
    plain = on_floats(compute)

    def convert(code: KernelCode, op: Operation) -> SSAValue:
        value = plain(code, op)
        if is_quantized(op.results[0]) and isinstance(value.owner, Operation):
            value.owner.attributes[NO_CONTRACTION] = UnitAttr()
        return value

    return convert


def is_quantized(value: SSAValue) -> bool:
    """True if a value, or a value computed from it in the same block, is rounded to an integer."""
    waiting, seen = [value], {value}
    while waiting:
        for use in waiting.pop().uses:
            if isinstance(use.operation, math.RoundEvenOp):
                return True
            if not use.operation.name.startswith(("arith.", "math.")):
                continue
            new = [result for result in use.operation.results if result not in seen]
            seen.update(new)
            waiting += new
    return False


def divide_floats(code: KernelCode, op: Operation) -> SSAValue:
    """
    Writes a quotient. Rounds the quotient correctly if it is later rounded to an integer.

    Vulkan allows an error of 2.5 units in the last place. Quantized values often lie midway
    between two integers, where such an error changes the integer. So a fused multiply-add computes
    the error of the device's quotient, and the error is subtracted.
    """
    rounded = any(isinstance(use.operation, math.RoundEvenOp) for use in op.results[0].uses)
    plain = on_floats(Values.div)
    if not rounded or code.device.exact_division or op.results[0].type != f32:
        return plain(code, op)
    a, b = code.operands(op)
    v = Values(code, f32)
    quotient = v.div(a, b)
    rest = v.fma(v.negated(quotient), b, a)
    # Without NoContraction a fused multiply-add may be rounded twice.
    cast(Operation, rest.owner).attributes[NO_CONTRACTION] = UnitAttr()
    corrected = v.add(quotient, v.div(rest, b))
    # An infinite quotient has no defined remainder, so it is not corrected.
    small = v.less(v.magnitude(quotient), v.number(LARGEST_FRACTION))
    return v.select(small, corrected, quotient)


HANDLERS: dict[type[Operation], Compute] = {
    # Modulo 2, sums and differences are the exclusive or.
    arith.AddiOp: by_kind(spv.LogicalNotEqualOp, spv.IAddOp),
    arith.SubiOp: by_kind(spv.LogicalNotEqualOp, spv.ISubOp),
    arith.MuliOp: by_kind(spv.LogicalAndOp, spv.IMulOp),
    arith.DivSIOp: by_kind(first, spv.SDivOp),
    arith.DivUIOp: by_kind(first, spv.UDivOp),
    arith.RemUIOp: by_kind(zero, spv.UModOp),
    arith.AddfOp: keep_uncontracted(Values.add),
    arith.SubfOp: keep_uncontracted(Values.sub),
    arith.MulfOp: keep_uncontracted(Values.mul),
    arith.DivfOp: divide_floats,
    arith.NegfOp: on_floats(Values.negated),
    arith.MinimumfOp: on_floats(minimum),
    arith.MaximumfOp: on_floats(maximum),
    arith.CmpiOp: compare_integers,
    arith.CmpfOp: compare_floats,
    arith.SelectOp: one_to_one(spv.SelectOp),
    arith.ExtFOp: one_to_one(spv.FConvertOp),
    arith.TruncFOp: one_to_one(spv.FConvertOp),
    arith.ExtSIOp: by_sign(resize, True),
    arith.ExtUIOp: by_sign(resize, False),
    arith.TruncIOp: by_sign(resize, False),
    arith.IndexCastOp: by_sign(resize, True),
    IndexCastUIOp: by_sign(resize, False),
    arith.SIToFPOp: by_sign(integer_to_float, True),
    arith.UIToFPOp: by_sign(integer_to_float, False),
    arith.FPToSIOp: by_sign(float_to_integer, True),
    arith.FPToUIOp: by_sign(float_to_integer, False),
    arith.BitcastOp: sequence(bitcast),
}
