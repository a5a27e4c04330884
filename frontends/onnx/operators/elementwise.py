"""Imports elementwise operators."""

from __future__ import annotations

import operator as python
from collections.abc import Callable, Sequence
from functools import partial, reduce, wraps
from inspect import Parameter, Signature, signature
from typing import Any

import ml_dtypes
import numpy as np
from xdsl.dialects import math

from xdsl_spirv.dialects.schedule.symbolic_sizes import (
    SymbolicSize,
    UnknownSizeError,
    greater,
    lesser,
    surely_below,
)
from xdsl_spirv.frontends.onnx import formats
from xdsl_spirv.frontends.onnx.nodes import Nodes, element_numbered
from xdsl_spirv.frontends.onnx.operators.quantized_blocks import floats_of
from xdsl_spirv.frontends.onnx.portions import check_whole, round_size, truncate_size
from xdsl_spirv.frontends.onnx.registry import operator
from xdsl_spirv.frontends.onnx.scalars import Number, Scalars
from xdsl_spirv.frontends.onnx.values import BOOL, F32, F64, I32, I64, U32, U64, Element, Tensor

Body = Callable[..., Number]


def _declare(
    names: str, body: Body, since: int = 1, element: Element | None = None, fold: Any = None
) -> None:
    """
    Registers operators (names separated by spaces) from the opset `since` on, given by their body.

    `element` is the result's type (by default that of the operands). Keyword parameters of the body
    are attributes of the operators.
    """

    def function(b: Nodes, *tensors: Tensor, **attributes: Any) -> Tensor:
        return b.elementwise(partial(body, **attributes), *tensors, element=element)

    b, tensors, _ = signature(function).parameters.values()
    function.__signature__ = Signature([b, tensors, *attributes_of(body)])
    operator(*names.split(), since=since, fold=fold)(function)


def attributes_of(body: Body) -> list[Parameter]:
    """Returns the parameters of a body that are attributes of its operator."""
    return [p for p in signature(body).parameters.values() if p.kind is Parameter.KEYWORD_ONLY]


def _declare_chain(name: str, body: Body, fold: Any = None) -> None:
    """Registers an operator that combines any number of operands from first to last."""

    @operator(name, fold=fold)
    def function(b: Nodes, *tensors: Tensor) -> Tensor:
        return combine(b, body, tensors)

    del function


def combine(b: Nodes, body: Body, tensors: Sequence[Tensor]) -> Tensor:
    """Combines tensors elementwise from first to last."""
    return reduce(lambda x, y: b.elementwise(body, x, y), tensors)


def _math(op: Any) -> Body:
    return lambda s, x: s.unary(op, x)


def rounded_once(body: Body) -> Body:
    """Returns a body that computes narrow floats in f32, and rounds only the result."""

    @wraps(body)
    def of_wide(s: Scalars, *numbers: Number, **attributes: Any) -> Number:
        element = numbers[-1].element
        if not element.is_float or element.bits >= F32.bits:
            return body(s, *numbers, **attributes)
        wide = (number.to(F32) for number in numbers)
        return body(s, *wide, **attributes).to(element)

    return of_wide


def _divide_sizes(x: Any, y: Any) -> Any:
    """Divides sizes with rounding toward zero, if at most one of them may be negative."""
    if isinstance(x, int) and isinstance(y, int):
        return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
    return -(-x // y) if surely_below(x, 1) else x // y


def _is_below(x: Any, y: Any) -> bool:
    """True if x < y. Raises `UnknownSizeError` if the result depends on dynamic sizes."""
    if surely_below(x, y) or surely_below(y, x + 1):
        return surely_below(x, y)
    raise UnknownSizeError(f"the import needs the result of {x} < {y}, known only at run time")


def _rest(x: Any, y: Any) -> Any:
    """
    Returns the remainder of sizes, with the sign of the divisor.

    If only the divisor is dynamic, a run checks that -divisor <= dividend < divisor.
    """
    if isinstance(y, SymbolicSize) and not isinstance(x, SymbolicSize):
        return x if x >= 0 else x + y
    return x - x // y * y


def _of_each(function: Any) -> Any:
    """Returns a fold function that applies a function of two sizes elementwise."""
    fold = np.frompyfunc(function, 2, 1)
    return lambda *arrays, **attributes: reduce(fold, arrays)


def _is_equal(x: Any, y: Any) -> bool:
    """True if sizes are equal. Raises `UnknownSizeError` if the result depends on dynamic sizes."""
    x, y = (size if isinstance(size, SymbolicSize) else int(size) for size in (x, y))
    if x == y:
        return True
    if surely_below(x, y) or surely_below(y, x):
        return False
    raise UnknownSizeError(f"the import needs the result of {x} == {y}, known only at run time")


def _but_minus_one(s: Scalars, y: Number) -> Number:
    """Replaces a divisor of -1 by 1, because dividing the least integer by -1 overflows."""
    return s.select(y.equals(-1), 1, y) if _can_overflow(y) else y


def _can_overflow(y: Number) -> bool:
    """True for signed integers of at most 32 bits; 64-bit dividends are assumed to be small."""
    return y.element.is_signed and y.element.bits <= 32


def remainder(s: Scalars, x: Number, y: Number) -> Number:
    """Returns the remainder of a division that rounds toward zero, without overflow for -1."""
    return x % _but_minus_one(s, y)


def quotient(s: Scalars, x: Number, y: Number) -> Number:
    """Returns x / y rounded toward zero. The least integer divided by -1 is the least integer."""
    if not _can_overflow(y):
        return x / y
    return s.select(y.equals(-1), -x, x / _but_minus_one(s, y))


_declare("Add", lambda s, x, y: x + y, fold=python.add)
_declare("Sub", lambda s, x, y: x - y, fold=python.sub)
_declare("Mul", lambda s, x, y: x * y, fold=python.mul)
_declare("Div", quotient, fold=_of_each(_divide_sizes))
_declare("Neg", lambda s, x: -x, fold=python.neg)
_declare("Abs", lambda s, x: s.absolute(x))
_declare("Reciprocal", lambda s, x: 1 / x)
_declare("Ceil", _math(math.CeilOp), fold=np.frompyfunc(lambda x: round_size(x, up=True), 1, 1))
_declare("Floor", _math(math.FloorOp), fold=np.frompyfunc(round_size, 1, 1))
_declare("Round", _math(math.RoundEvenOp), fold=np.frompyfunc(check_whole, 1, 1))
for _name in (
    *("Exp", "Log", "Sqrt", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Tanh"),
    *("Asinh", "Acosh", "Atanh"),
):
    _declare(_name, _math(getattr(math, f"{_name}Op")))
_declare(
    "Erf", lambda s, x: s.unary(math.ErfOp, x if x.element.is_float else x.to(F32)).to(x.element)
)
_declare("Relu", lambda s, x: s.maximum(x, 0))
for _name, _compare, _fold in (
    ("Equal", lambda s, x, y: x.equals(y), _is_equal),
    ("Less", lambda s, x, y: x < y, _is_below),
    ("LessOrEqual", lambda s, x, y: x <= y, lambda x, y: _is_below(x, y + 1)),
    ("Greater", lambda s, x, y: x > y, lambda x, y: _is_below(y, x)),
    ("GreaterOrEqual", lambda s, x, y: x >= y, lambda x, y: _is_below(y, x + 1)),
):
    _declare(_name, _compare, element=BOOL, fold=_of_each(_fold))
_declare("And BitwiseAnd", lambda s, x, y: x & y)
_declare("Or BitwiseOr", lambda s, x, y: x | y)
_declare("Xor BitwiseXor", lambda s, x, y: x ^ y)
_declare("Not BitwiseNot", lambda s, x: ~x)
_declare("BitShift", lambda s, x, y, *, direction: x << y if direction == "LEFT" else x >> y)
_declare("IsNaN", lambda s, x: s.is_nan(x), element=BOOL)
_declare("Where", lambda s, c, x, y: s.select(c, x, y), fold=np.where)
_declare_chain("Max", lambda s, x, y: s.maximum(x, y), _of_each(greater))
_declare_chain("Min", lambda s, x, y: s.minimum(x, y), _of_each(lesser))
_declare_chain("Sum", lambda s, x, y: x + y)


def sign(s: Scalars, x: Number) -> Number:
    """Returns -1, 0 or 1; -0 and NaN are returned unchanged."""
    positive = s.select(x > 0, 1, x)
    is_signed = x.element.is_float or x.element.is_signed
    return s.select(x < 0, -1, positive) if is_signed else positive


def _is_inf(s: Scalars, x: Number, *, detect_negative: int = 1, detect_positive: int = 1) -> Number:
    infinite = s.is_infinite(x)
    if not detect_negative:
        infinite = infinite & (x > 0)
    return infinite if detect_positive else infinite & (x < 0)


_declare("Sign", sign)
_declare("IsInf", _is_inf, element=BOOL)


# Activations


def _softplus(s: Scalars, x: Number) -> Number:
    """Computes log(1 + e^x) without overflow."""
    return s.maximum(x, 0) + s.unary(math.Log1pOp, s.exp(-s.absolute(x)))


def _shrink(s: Scalars, x: Number, *, bias: float = 0.0, lambd: float = 0.5) -> Number:
    """Moves elements toward zero by `bias`. Integers are computed in f32 and truncated."""
    wide = x if x.element.is_float else x.to(F32)
    result = s.select(wide < -lambd, wide + bias, s.select(wide > lambd, wide - bias, 0))
    return result.to(x.element)


def _expm1(s: Scalars, x: Number) -> Number:
    return s.unary(math.ExpM1Op, x)


ALPHA, GAMMA = 1.67326319217681884765625, 1.05070102214813232421875
ACTIVATIONS: dict[str, Body] = {
    "Sigmoid": lambda s, x: 1 / (1 + s.exp(-x)),
    "LeakyRelu": lambda s, x, *, alpha=0.01: s.select(x < 0, x * alpha, x),
    "ThresholdedRelu": lambda s, x, *, alpha=1.0: s.select(x > alpha, x, 0),
    "HardSigmoid": lambda s, x, *, alpha=0.2, beta=0.5: s.maximum(
        s.minimum(x * alpha + beta, 1), 0
    ),
    "Elu": lambda s, x, *, alpha=1.0: s.select(x < 0, _expm1(s, x) * alpha, x),
    "Softsign": lambda s, x: x / (1 + s.absolute(x)),
    "Softplus": _softplus,
}
"""Bodies of the activations that recurrent networks use, too."""

for _name, _body in {
    **ACTIVATIONS,
    "Celu": lambda s, x, *, alpha=1.0: s.select(x < 0, _expm1(s, x / alpha) * alpha, x),
    "Selu": lambda s, x, *, alpha=ALPHA, gamma=GAMMA: (
        s.select(x > 0, x, _expm1(s, x) * alpha) * gamma
    ),
    "HardSwish": lambda s, x: x * s.maximum(s.minimum(x * (1 / 6) + 0.5, 1), 0),
    "Mish": lambda s, x: x * s.unary(math.TanhOp, _softplus(s, x)),
    "Shrink": _shrink,
}.items():
    _declare(_name, rounded_once(_body))


@operator("PRelu")
def prelu(b: Nodes, x: Tensor, slope: Tensor, /) -> Tensor:
    return b.elementwise(lambda s, slope, x: s.select(x < 0, x * slope, x), slope, x)


def gelu_by_tanh(s: Scalars, x: Number) -> Number:
    """Approximates GELU."""
    inner = (x + x * x * x * 0.044715) * (2 / np.pi) ** 0.5
    return x * 0.5 * (1 + s.unary(math.TanhOp, inner))


@operator("Gelu")
def gelu(b: Nodes, x: Tensor, /, *, approximate: str = "none") -> Tensor:
    def exact(s: Scalars, x: Number) -> Number:
        return x * 0.5 * (1 + s.unary(math.ErfOp, x * 0.5**0.5))

    if approximate not in ("none", "tanh"):
        b.refuse(f"approximate is {approximate!r}, which is not supported", "use 'none' or 'tanh'")
    return b.elementwise(rounded_once(gelu_by_tanh if approximate == "tanh" else exact), x)


@operator("Mean")
def mean(b: Nodes, *tensors: Tensor) -> Tensor:
    total = combine(b, lambda s, x, y: x + y, tensors)
    return b.elementwise(lambda s, x: x / len(tensors), total)


@operator("Pow")
def power(b: Nodes, x: Tensor, y: Tensor, /) -> Tensor:
    """Computes powers in the type of the base. Exponents 1, 2 and 3 become products."""
    exponent = y.numbers
    if exponent is not None and exponent.size == 1 and exponent.item() in (1.0, 2.0, 3.0):
        sizes_as = b.expand(x, y.sizes) if len(y.sizes) > x.rank else x
        return b.elementwise(
            {1: lambda s, x: x, 2: lambda s, x: x * x, 3: rounded_once(lambda s, x: x * x * x)}[
                int(exponent.item())
            ],
            sizes_as,
        )

    def of_floats(s: Scalars, y: Number, x: Number) -> Number:
        wide = F32 if x.element.bits < 32 else x.element
        return s.binary(math.PowFOp, math.PowFOp, x.to(wide), y.to(wide)).to(x.element)

    def of_integers(s: Scalars, y: Number, x: Number) -> Number:
        """Computes integer powers; results of fractional exponents are truncated."""
        whole = whole_power(s, x, y.to(I64) if y.element.is_float else y)
        if not y.element.is_float:
            return whole
        power = of_floats(s, y, x.to(y.element)).to(x.element)
        return s.select(y.equals(s.unary(math.FloorOp, y)), whole, power)

    return b.elementwise(of_floats if x.element.is_float else of_integers, y, x)


def whole_power(s: Scalars, x: Number, y: Number) -> Number:
    """
    Computes x^y of integers by squaring, modulo 2^N; a negative exponent gives 0 for |x| > 1.

    An exponent beyond 63 is replaced by 62 or 63 of equal parity. The result is then exact only
    for the bases -1, 0 and 1.
    """
    count = s.select(y > 63, (y & 1) + 62, s.maximum(y, 0)).to(x.element)
    result, square = s.number(1, x.element), x
    for bit in range(6):
        has = (count & (1 << bit)).differs(0)
        result = s.select(has, result * square, result)
        square = square * square
    if not y.element.is_signed:
        return result
    odd = s.select((y & 1).differs(0), x, s.number(1, x.element))
    fraction = s.select(x.equals(1) | x.equals(-1), odd, 0)
    return s.select(y < 0, fraction, result)


def _modulo(s: Scalars, x: Number, y: Number, *, fmod: int = 0) -> Number:
    """Returns the remainder with the sign of the divisor, or of the dividend if `fmod` is set."""
    rest = remainder(s, x, y)
    if x.element.is_float and not fmod:
        zero = s.select(y < 0, s.number(-0.0, x.element), 0.0)
        signed = s.select((rest < 0) ^ (y < 0), rest + y, rest)
        return s.select(rest.equals(0), zero, signed)
    if fmod or not x.element.is_signed:
        return rest
    return s.select(rest.differs(0) & ((rest ^ y) < 0), rest + y, rest)


_declare("Mod", _modulo, fold=_of_each(_rest))


@operator("Clip")
def clip(b: Nodes, x: Tensor, min: Tensor | None = None, max: Tensor | None = None, /) -> Tensor:
    """Clamps to bounds. NaN stays NaN; `max` wins if `min` is larger."""
    if x.element.is_float:
        limits = ml_dtypes.finfo(x.element.dtype)
        min = min or Tensor.of(np.array(limits.min, x.element.dtype))
        max = max or Tensor.of(np.array(limits.max, x.element.dtype))
    if min is not None:
        x = b.elementwise(lambda s, low, x: s.maximum(x, low), b.convert(min, x.element), x)
    if max is not None:
        x = b.elementwise(lambda s, high, x: s.minimum(x, high), b.convert(max, x.element), x)
    return x


def _cast_fold(x: Any, *, to: int, **attributes: Any) -> Any:
    """Casts sizes. Raises `UnknownSizeError` for types with less than 32 bits."""
    element = element_numbered(to)
    if element not in (I32, I64, U32, U64, F32, F64):
        raise UnknownSizeError(f"a dynamic size cannot be cast to {element}")
    return x if element.is_float else np.frompyfunc(truncate_size, 1, 1)(x)


@operator("Cast", fold=_cast_fold)
def cast(b: Nodes, x: Tensor, /, *, to: int, saturate: int = 1, round_mode: str = "up") -> Tensor:
    return converted(b, x, element_numbered(to), bool(saturate), round_mode)


def converted(b: Nodes, x: Tensor, element: Element, saturate: bool, round_mode: str) -> Tensor:
    """
    Converts a tensor to another element type. Numbers out of a narrow integer's range wrap.

    `saturate` and `round_mode` apply to narrow floats.
    """
    if element.is_float and (packed := floats_of(x, None, 0)) is not None:
        return packed.rows(b, element, transposed=True)
    if element.narrow and x.element != element:
        return b.elementwise(
            lambda s, x: formats.written(s, x, element, saturate, round_mode), x, element=element
        )
    if x.element.is_float and element.bits < 32 and not element.is_float and not element.is_bool:
        # As in C and onnxruntime.
        return b.elementwise(
            lambda s, x: saturate_integer(s, x, I32).to(element), x, element=element
        )
    if x.element.is_float and element in (I32, U32):
        return b.elementwise(lambda s, x: saturate_integer(s, x, element), x, element=element)
    return b.convert(x, element)


def saturate_integer(s: Scalars, x: Number, element: Element) -> Number:
    """
    Converts a float to an integer with truncation and saturation; NaN becomes 0.

    SPIR-V's conversion is undefined for numbers out of range.
    """
    limits = np.iinfo(element.dtype)
    x = x.to(F32) if x.element.bits < 32 else x
    low, end = float(limits.min), float(limits.max + 1)
    whole = s.select((x >= low) & (x < end), x, 0.0).to(element)
    return s.select(x >= end, limits.max, s.select(x < low, limits.min, whole))


@operator("CastLike")
def cast_like(
    b: Nodes, x: Tensor, like: Tensor, /, *, saturate: int = 1, round_mode: str = "up"
) -> Tensor:
    return converted(b, x, like.element, bool(saturate), round_mode)


@operator("Identity", fold=lambda x: x)
def identity(b: Nodes, x: Tensor, /) -> Tensor:
    return x


@operator("Dropout", since=12)
def dropout(
    b: Nodes,
    x: Tensor,
    ratio: Tensor | None = None,
    training_mode: Tensor | None = None,
    /,
    *,
    seed: int = 0,
) -> tuple[Tensor, Tensor]:
    """Returns the input unchanged. Dropout in training is refused unless the ratio is 0."""
    training = training_mode is not None and (
        training_mode.numbers is None or bool(training_mode.numbers.any())
    )
    keeps_all = ratio is not None and ratio.numbers is not None and not ratio.numbers.any()
    if training and not keeps_all:
        b.refuse(
            "the node drops elements at random, because training_mode is set",
            "export the model for inference",
        )
    return x, b.elementwise(lambda s, x: s.number(1, BOOL), x, element=BOOL)


def _declare_dropout(since: int, mask: Element | None) -> None:
    @operator("Dropout", since=since)
    def function(b: Nodes, x: Tensor, /, *, ratio: float = 0.5) -> tuple[Tensor, Tensor]:
        """Returns the input and, as in onnxruntime, a mask of zeros."""
        element = mask or x.element
        return x, b.elementwise(lambda s, x: s.number(0, element), x, element=element)

    del function


_declare_dropout(7, None)
_declare_dropout(10, BOOL)
