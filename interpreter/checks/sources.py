"""Lists the operand values that make an instruction's result undefined."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects import arith
from xdsl.ir import Operation
from xdsl.traits import ConstantLike

from xdsl_spirv.dialects.spirv import (
    arithmetic,
    bit,
    composite,
    conversion,
    glsl,
    glsl_forms,
    logic,
)
from xdsl_spirv.dialects.spirv.constraints import is_integer, width_of
from xdsl_spirv.dialects.spirv.folding import components_of
from xdsl_spirv.dialects.spirv.rules import element_of
from xdsl_spirv.interpreter.checks.report import OF_INTEGERS
from xdsl_spirv.interpreter.context import Context
from xdsl_spirv.interpreter.determinants import determinant
from xdsl_spirv.interpreter.forms import CooperativeMatrix, Plain
from xdsl_spirv.interpreter.numbers import F64, Array, unsigned

Test: TypeAlias = Callable[..., Array]
"""A function of the operands' values. Returns a mask of the components with undefined results."""


@dataclass(frozen=True)
class Source:
    """A condition under which an instruction's result is undefined."""

    rule: str
    message: str
    make: Callable[[Any, Context], Test | None]


def _always(test: Test) -> Callable[[Any, Context], Test]:
    return lambda op, context: test


def _wide_shift(a: Array, b: Array) -> Array:
    return unsigned(b) >= a.dtype.itemsize * 8


def _zero_divisor(a: Array, b: Array) -> Array:
    return b == 0


def _overflowing_quotient(a: Array, b: Array) -> Array:
    return (a == np.iinfo(a.dtype).min) & (b == -1)


def _field(base: Array, *rest: Array) -> Array:
    offset, count = (x.astype(np.int64) & 0xFFFFFFFF for x in rest[-2:])
    outside = offset + count > base.dtype.itemsize * 8
    return outside.reshape(outside.shape + (1,) * (base.ndim - outside.ndim))


def _outside_integer(sign: bool) -> Callable[[Any, Context], Test]:
    def make(op: Operation, context: Context) -> Test:
        form = context.form(op.results[0].type)
        assert isinstance(form, Plain | CooperativeMatrix)
        bits = form.dtype.itemsize * 8
        low = -(2.0 ** (bits - 1)) if sign else 0.0
        high = 2.0 ** (bits - 1 if sign else bits)

        def test(a: Array) -> Array:
            whole = np.trunc(a.astype(F64))
            return ~((whole >= low) & (whole < high))

        return test

    return make


def _undefined_component(op: composite.VectorShuffleOp, context: Context) -> Test | None:
    numbers = np.array([component.value.data for component in op.components])
    undefined = (numbers < 0) | (numbers == 0xFFFFFFFF)
    if not undefined.any():
        return None
    return lambda a, b: undefined.reshape(1, 1, 1, -1)


def _wraps(op: Operation, context: Context) -> Test | None:
    """
    Returns a test for overflow. Returns None for an operation without NoSignedWrap and
    NoUnsignedWrap.
    """
    signed_too = "no_signed_wrap" in op.attributes
    unsigned_too = "no_unsigned_wrap" in op.attributes
    ufunc = _WRAPPING[type(op)]
    if not signed_too and not unsigned_too:
        return None

    def test(*operands: Array) -> Array:
        overflows: Any = False
        for wanted, sign in ((signed_too, True), (unsigned_too, False)):
            if wanted:
                parts = [x if sign else unsigned(x) for x in operands]
                exact = ufunc(*[part.astype(object) for part in parts])
                limits = np.iinfo(parts[0].dtype)
                overflows = overflows | ((exact < limits.min) | (exact > limits.max)).astype(bool)
        return overflows

    return test


_WRAPPING: dict[type[Operation], Callable[..., Any]] = {
    arithmetic.IAddOp: np.add,
    arithmetic.ISubOp: np.subtract,
    arithmetic.IMulOp: np.multiply,
    arithmetic.SNegateOp: np.negative,
    bit.ShiftLeftLogicalOp: lambda a, b: a * 2**b,
}

SHIFT = Source("UNDEF-03", "a shift by the operand's width or more", _always(_wide_shift))
ZERO = Source("UNDEF-04", "a division by zero", _always(_zero_divisor))
QUOTIENT = Source(
    "UNDEF-05", "the most negative integer divided by -1", _always(_overflowing_quotient)
)


def _negative(op: Operation, context: Context) -> Test | None:
    """
    Returns a test for negative operands. Returns None for OpenCL, where the result is defined.
    """
    if "OpenCL" in str(context.module.properties.get("memory_model", "")):
        return None
    return lambda a, b: (a < 0) | (b < 0)


NEGATIVE = Source(
    "UNDEF-13",
    "a signed remainder of a negative operand (undefined without maintenance8)",
    _negative,
)
FIELD = Source("UNDEF-10", "a bit field that reaches beyond its operand", _always(_field))
RANGE = "a float outside the integer's range, or NaN"


def _domain(message: str, test: Test) -> Source:
    return Source("UNDEF-09", message, _always(test))


def _length_is_zero(a: Array) -> Array:
    if a.ndim == 3:
        return a == 0
    return (a == 0).all(axis=-1, keepdims=True)


def _pow(x: Array, y: Array) -> Array:
    return (x < 0) | ((x == 0) & (y <= 0))


def _nan(*operands: Array) -> Array:
    is_nan = np.isnan(operands[0])
    for operand in operands[1:]:
        is_nan = is_nan | np.isnan(operand)
    return is_nan


def _too_large(x: Array, exponent: Array) -> Array:
    scaled = np.ldexp(x.astype(F64), np.clip(exponent, -1 << 14, 1 << 14).astype(np.int32))
    return np.isfinite(x) & (np.abs(scaled) > float(np.finfo(x.dtype).max))


def _crossed_bounds(compare: Callable[[Array, Array], Array]) -> Test:
    return lambda x, low, high: compare(low, high)


SOURCES: dict[type[Operation], tuple[Source, ...]] = {
    arith.ShLIOp: (SHIFT,),
    arith.ShRUIOp: (SHIFT,),
    arith.ShRSIOp: (SHIFT,),
    arith.DivSIOp: (ZERO, QUOTIENT),
    arith.DivUIOp: (ZERO,),
    arith.RemSIOp: (ZERO, QUOTIENT),
    arith.RemUIOp: (ZERO,),
    arith.FloorDivSIOp: (ZERO, QUOTIENT),
    arith.CeilDivSIOp: (ZERO, QUOTIENT),
    arith.CeilDivUIOp: (ZERO,),
    arith.FPToSIOp: (Source("UNDEF-06", RANGE, _outside_integer(True)),),
    arith.FPToUIOp: (Source("UNDEF-06", RANGE, _outside_integer(False)),),
    bit.ShiftLeftLogicalOp: (SHIFT,),
    bit.ShiftRightLogicalOp: (SHIFT,),
    bit.ShiftRightArithmeticOp: (SHIFT,),
    bit.BitFieldInsertOp: (FIELD,),
    bit.BitFieldSExtractOp: (FIELD,),
    bit.BitFieldUExtractOp: (FIELD,),
    arithmetic.SDivOp: (ZERO, QUOTIENT),
    arithmetic.SRemOp: (NEGATIVE, ZERO, QUOTIENT),
    arithmetic.SModOp: (NEGATIVE, ZERO, QUOTIENT),
    arithmetic.UDivOp: (ZERO,),
    arithmetic.UModOp: (ZERO,),
    arithmetic.FRemOp: (ZERO,),
    arithmetic.FModOp: (ZERO,),
    conversion.ConvertFToSOp: (Source("UNDEF-06", RANGE, _outside_integer(True)),),
    conversion.ConvertFToUOp: (Source("UNDEF-06", RANGE, _outside_integer(False)),),
    composite.VectorShuffleOp: (
        Source("UNDEF-02", "a component that the shuffle leaves undefined", _undefined_component),
    ),
    glsl.GLSqrtOp: (_domain("the square root of a negative number", lambda a: a < 0),),
    glsl.GLInverseSqrtOp: (
        _domain("the inverse square root of a number that is not positive", lambda a: a <= 0),
    ),
    glsl.GLLogOp: (_domain("the logarithm of a number that is not positive", lambda a: a <= 0),),
    glsl.GLLog2Op: (_domain("the logarithm of a number that is not positive", lambda a: a <= 0),),
    glsl.GLPowOp: (
        _domain("a power of a negative base, or of 0 with an exponent of at most 0", _pow),
    ),
    glsl.GLAsinOp: (_domain("asin outside [-1, 1]", lambda a: np.abs(a) > 1),),
    glsl.GLAcosOp: (_domain("acos outside [-1, 1]", lambda a: np.abs(a) > 1),),
    glsl.GLAcoshOp: (_domain("acosh below 1", lambda a: a < 1),),
    glsl.GLAtanhOp: (_domain("atanh outside (-1, 1)", lambda a: np.abs(a) >= 1),),
    glsl.GLAtan2Op: (_domain("atan2(0, 0)", lambda a, b: (a == 0) & (b == 0)),),
    glsl.GLNormalizeOp: (_domain("the direction of a vector of length 0", _length_is_zero),),
    glsl.GLFMinOp: (_domain("the minimum of a NaN", _nan),),
    glsl.GLFMaxOp: (_domain("the maximum of a NaN", _nan),),
    glsl.GLFClampOp: (
        _domain("a clamp whose lower limit is above the upper", _crossed_bounds(np.greater)),
    ),
    glsl.GLNClampOp: (
        _domain("a clamp whose lower limit is above the upper", _crossed_bounds(np.greater)),
    ),
    glsl.GLSClampOp: (
        _domain("a clamp whose lower limit is above the upper", _crossed_bounds(np.greater)),
    ),
    glsl.GLUClampOp: (
        _domain(
            "a clamp whose lower limit is above the upper",
            lambda x, low, high: unsigned(low) > unsigned(high),
        ),
    ),
    glsl.GLSmoothStepOp: (
        _domain("a smooth step whose first edge is not below the second", lambda a, b, x: a >= b),
    ),
    glsl_forms.GLLdexpOp: (_domain("a product beyond the type's range", _too_large),),
    glsl_forms.GLMatrixInverseOp: (
        _domain(
            "the inverse of a singular matrix",
            lambda a: (determinant(a) == 0)[..., None, None],
        ),
    ),
}
"""Maps an instruction to conditions under which a component of its result is undefined."""


def sources_of(op: Operation) -> tuple[Source, ...]:
    """Returns the conditions under which an operation's result is undefined."""
    sources = SOURCES.get(type(op), ())
    if type(op) in _WRAPPING:
        sources = (
            *sources,
            Source(
                "UNDEF-11",
                "an overflow, although the instruction is decorated as never overflowing",
                _wraps,
            ),
        )
    return sources


BOUNDING = (logic.SelectOp, *(glsl.GLFClampOp, glsl.GLNClampOp, glsl.GLFMinOp, glsl.GLNMinOp))
"""Operations that a program may use to limit a float to the range of an integer type."""


def depends_on_data(op: Operation) -> bool:
    """True if the contents of buffers can make an operation's integer result undefined."""
    rules = [source.rule for source in sources_of(op) if source.rule in OF_INTEGERS]
    if not rules or not is_integer(element_of(op.results[0].type)):
        return False
    if isinstance(op, conversion.ConvertFToSOp | conversion.ConvertFToUOp):
        return not isinstance(op.operand.owner, BOUNDING)
    if type(op) not in SOURCES:
        return bool({"no_signed_wrap", "no_unsigned_wrap"} & set(op.attributes))
    amounts: list[list[int]] = []
    for operand in op.operands[1:][-2:]:
        constants = components_of(ConstantLike.get_constant_value(operand))
        if constants is None:
            return True
        amounts.append([number.value.data for number in constants])
    if "UNDEF-04" in rules:
        return min(amounts[0]) <= 0
    return sum(map(max, amounts)) >= width_of(element_of(op.results[0].type))
