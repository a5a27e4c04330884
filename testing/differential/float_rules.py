"""
Rules for operations on floats, with the error bounds of Vulkan's precision table.

In the comments, u is one ULP of the result's type. The table has entries for binary32 and binary16.
GLSL.std.450's transcendental functions do not exist for binary64. The table derives some entries
from other instructions. Comments give the formulas of these entries. The errors of the parts are
added to first order, and doubled to cover the second order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from xdsl_spirv.testing.differential.kernel import Kernel
from xdsl_spirv.testing.differential.legal import Bound, Legal, spacing
from xdsl_spirv.testing.differential.rules import RULES, Draw, Rule, bits_of, simple
from xdsl_spirv.testing.differential.types import DTYPES, FLOATS, Array, Type

LegalOf: TypeAlias = Callable[[Type], Legal]
SMALL = ("f16", "f32")


def ulps(number: float, why: str = "") -> LegalOf:
    """Returns the rule that a result may differ by `number` ULP from the exact one."""

    def legal(type: Type) -> Legal:
        dtype = type.dtype if type.is_float else DTYPES["f32"]
        return Legal(
            lambda r, *x: number * spacing(r, dtype), f"{number} ULP{f' ({why})' if why else ''}"
        )

    return legal


def by_type(binary16: Bound, binary32: Bound, why: str) -> LegalOf:
    """Returns the rule that the bound is `binary16` or `binary32`, depending on the type."""
    return lambda type: Legal(binary16 if type.scalar == "f16" else binary32, why)


def _ulp(type: str) -> Callable[[Array], Array]:
    return lambda value: spacing(value, DTYPES[type])


h, s = _ulp("f16"), _ulp("f32")


def uniform(low: float, high: float) -> Draw:
    return lambda generator, shape: generator.uniform(low, high, shape)


def _no_nan(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """
    Returns random numbers without NaN, infinities and zeros. Zeros are left out because the minimum
    of +0 and -0 may be either of them.
    """
    plain = generator.uniform(-8, 8, shape)
    whole = np.rint(plain) + np.where(plain < 0, -1, 1)
    return np.where(generator.random(shape) < 0.3, whole, plain)


def _quotient(type: Type) -> Legal:
    """Bounds a quotient by 2.5 ULP if the divisor and its reciprocal are normal."""
    tiny = float(np.finfo(type.dtype).tiny)

    def domain(x: Array, y: Array) -> Array:
        return (np.abs(y) >= tiny) & (np.abs(y) <= 1 / tiny)

    return Legal(
        lambda r, x, y: 2.5 * spacing(r, type.dtype),
        "2.5 ULP where |y| is in [tiny, 1/tiny]",
        domain,
    )


for _name in ("FAdd", "FSub", "FMul"):
    RULES.append(Rule(_name, FLOATS, 2, simple(_name)))
RULES.extend(
    [
        Rule("FNegate", FLOATS, 1, simple("FNegate")),
        Rule("FDiv", FLOATS, 2, simple("FDiv"), _quotient),
        Rule("GL.FAbs", FLOATS, 1, simple("GL.FAbs")),
        Rule("GL.FSign", FLOATS, 1, simple("GL.FSign"), draws=(_no_nan,)),
    ]
)
for _name in ("Floor", "Ceil", "Trunc", "RoundEven"):
    RULES.append(Rule(f"GL.{_name}", FLOATS, 1, simple(f"GL.{_name}")))
# Halves may be rounded up or down.
RULES.append(
    Rule(
        "GL.Round",
        FLOATS,
        1,
        simple("GL.Round"),
        lambda type: Legal(None, "exact apart from halves", lambda x: x - np.floor(x) != 0.5),
        draws=(uniform(-100, 100),),
    )
)
RULES.append(Rule("GL.Fract", FLOATS, 1, simple("GL.Fract"), ulps(1), draws=(_no_nan,)))
for _name in ("FOrdEqual", "FOrdNotEqual", "FOrdLessThan", "FOrdGreaterThan", "FOrdLessThanEqual",
              "FOrdGreaterThanEqual", "FUnordEqual", "FUnordNotEqual", "FUnordLessThan",
              "FUnordGreaterThan", "FUnordLessThanEqual", "FUnordGreaterThanEqual"):  # fmt: skip
    RULES.append(Rule(_name, FLOATS, 2, simple(_name, bits_of), chained=True))
for _name in ("IsNan", "IsInf"):
    RULES.append(Rule(_name, FLOATS, 1, simple(_name, bits_of), chained=True))
for _name in ("FMin", "FMax"):
    RULES.append(Rule(f"GL.{_name}", FLOATS, 2, simple(f"GL.{_name}"), draws=(_no_nan, _no_nan)))
for _name in ("NMin", "NMax"):
    RULES.append(Rule(f"GL.{_name}", FLOATS, 2, simple(f"GL.{_name}")))


def _clamp(name: str) -> Callable[[Kernel, Type, Sequence[str]], tuple[str, Type]]:
    def emit(k: Kernel, type: Type, values: Sequence[str]) -> tuple[str, Type]:
        x, a, b = values
        low = k.op(f"spirv.GL.NMin {a}, {b} : {type}")
        high = k.op(f"spirv.GL.NMax {a}, {b} : {type}")
        return k.op(f"spirv.GL.{name} {x}, {low}, {high} : {type}"), type

    return emit


RULES.extend(
    [
        Rule("GL.FClamp", FLOATS, 3, _clamp("FClamp"), draws=(_no_nan,) * 3),
        Rule("GL.NClamp", FLOATS, 3, _clamp("NClamp"), draws=(None, _no_nan, _no_nan)),
    ]
)


# FRem and FMod: x - y * trunc(x / y), x - y * floor(x / y). A quotient that is off by 2.5 ULP may
# fall on the other side of an integer, so a result near 0 or y has no bound: others are compared,
# for quotients up to 64.
def _remainder(type: Type) -> Legal:
    def bound(r: Array, x: Array, y: Array) -> Array:
        return 4 * (spacing(x, type.dtype) + spacing(y, type.dtype) * np.abs(x / y))

    def domain(x: Array, y: Array) -> Array:
        quotient = x / y
        away = np.abs(quotient - np.rint(quotient))
        return (away > 2.0**-6) & (np.abs(quotient) < 64)

    return Legal(bound, "x - y * trunc(x / y), apart from integers", domain)


for _name in ("FRem", "FMod"):
    RULES.append(Rule(_name, FLOATS, 2, simple(_name), _remainder, draws=(_no_nan, _no_nan)))

# sqrt: 1 / inversesqrt, 2 ULP and 2.5 ULP. binary64 uses the bound of binary32.
_POSITIVE = uniform(0.001, 100)
RULES.extend(
    [
        Rule(
            "GL.Sqrt", FLOATS, 1, simple("GL.Sqrt"), ulps(5, "1 / inversesqrt"), draws=(_POSITIVE,)
        ),
        Rule("GL.InverseSqrt", FLOATS, 1, simple("GL.InverseSqrt"), ulps(2), draws=(_POSITIVE,)),
    ]
)


def _legal_fma(type: Type) -> Legal:
    """Bounds the error of a * b + c, which may be rounded once or twice."""
    return Legal(
        lambda r, a, b, c: spacing(a * b, type.dtype) + spacing(r, type.dtype), "FMul, then FAdd"
    )


RULES.append(Rule("GL.Fma", FLOATS, 3, simple("GL.Fma"), _legal_fma, draws=(_no_nan,) * 3))

# exp(x) = exp2(x * log2(e)) on most devices: 3 + 2 |x| ULP, binary16 1 + 2 |x|.
_exp = by_type(
    lambda r, x: (1 + 2 * np.abs(x)) * h(r), lambda r, x: (3 + 2 * np.abs(x)) * s(r), "3 + 2|x| ULP"
)


def _log_error(type: str, r: Array, x: Array) -> Array:
    near = (x >= 0.5) & (x <= 2)
    return (
        np.where(near, 2.0**-7, 2 * h(r)) if type == "f16" else np.where(near, 2.0**-21, 3 * s(r))
    )


_log = by_type(
    lambda r, x: _log_error("f16", r, x), lambda r, x: _log_error("f32", r, x), "3 ULP, 2^-21 at 1"
)
_sine = by_type(lambda r, x: 2.0**-7 + 0 * r, lambda r, x: 2.0**-11 + 0 * r, "2^-11 in [-pi, pi]")
_PI = uniform(-3.14, 3.14)


def _tangent(type: Type) -> Legal:
    """
    Bounds the error of a tangent, computed as sine / cosine with an absolute error in each of them.
    """
    error = 2.0**-7 if type.scalar == "f16" else 2.0**-11

    def bound(r: Array, x: Array) -> Array:
        cosine = np.maximum(np.abs(np.cos(x)) - error, 1e-9)
        return 2 * error * (1 + np.abs(r)) / cosine + 2.5 * spacing(r, type.dtype)

    return Legal(bound, "sin / cos")


def _hyperbolic(type: Type) -> Legal:
    """Bounds sinh and cosh by the errors of the exponentials: 3 + 2 |x| ULP."""

    def bound(r: Array, x: Array) -> Array:
        return (4 + 2 * np.abs(x)) * spacing(np.exp(np.abs(x)), type.dtype) * 2

    return Legal(bound, "(exp(x) +- exp(-x)) / 2")


def _tanh(type: Type) -> Legal:
    """
    Bounds the error of sinh / cosh: the relative errors of both add up. Results are at most 1.
    """

    def bound(r: Array, x: Array) -> Array:
        return 4 * (4 + 2 * np.abs(x)) * spacing(np.ones_like(r), type.dtype)

    return Legal(bound, "sinh / cosh")


def _arc(type: Type) -> Legal:
    """
    Bounds the error of atan and atan2 by 4096 ULP (binary16: 5), and the error of functions derived
    from atan.
    """
    number = 5 if type.scalar == "f16" else 4096
    return Legal(
        lambda r, *x: 2 * number * spacing(np.maximum(np.abs(r), 1), type.dtype),
        f"{number} ULP of atan2",
    )


def _inverse_hyperbolic(type: Type) -> Legal:
    def bound(r: Array, x: Array) -> Array:
        argument = np.maximum(np.abs(x) + np.sqrt(x * x + 1), 1.0)
        into = 8 * float(np.finfo(type.dtype).eps) * argument / np.maximum(1 - np.abs(x), 0.05)
        log = 2.0**-7 if type.scalar == "f16" else 2.0**-21
        return into + log + 4 * spacing(r, type.dtype)

    return Legal(bound, "log of a sum")


def _power(type: Type) -> Legal:
    """
    Bounds the error of exp2(y * log2(x)). Its relative error is the error of the logarithm times y.
    """
    is_binary16 = type.scalar == "f16"

    def bound(r: Array, x: Array, y: Array) -> Array:
        exponent = y * np.log2(x)
        log = _log_error(type.scalar, np.log2(x), x)
        inside = np.abs(y) * log + spacing(exponent, type.dtype)
        outside = ((1 if is_binary16 else 3) + 2 * np.abs(exponent)) * spacing(r, type.dtype)
        return 2 * (np.abs(r) * inside * np.log(2) + outside)

    return Legal(bound, "exp2(y * log2(x))")


_MODEST = uniform(-6, 6)
_UNIT = uniform(-0.95, 0.95)
for _name, _legal, _draw in [
    ("Exp", _exp, _MODEST),
    ("Exp2", _exp, _MODEST),
    ("Log", _log, _POSITIVE),
    ("Log2", _log, _POSITIVE),
    ("Sin", _sine, _PI),
    ("Cos", _sine, _PI),
    ("Tan", _tangent, uniform(-1.4, 1.4)),
    ("Sinh", _hyperbolic, _MODEST),
    ("Cosh", _hyperbolic, _MODEST),
    ("Tanh", _tanh, _MODEST),
    ("Asin", _arc, _UNIT),
    ("Acos", _arc, _UNIT),
    ("Atan", _arc, uniform(-20, 20)),
    ("Asinh", _inverse_hyperbolic, _UNIT),
    ("Acosh", _inverse_hyperbolic, uniform(1.2, 8)),
    ("Atanh", _inverse_hyperbolic, _UNIT),
]:
    RULES.append(Rule(f"GL.{_name}", SMALL, 1, simple(f"GL.{_name}"), _legal, draws=(_draw,)))
RULES.extend(
    [
        Rule("GL.Atan2", SMALL, 2, simple("GL.Atan2"), _arc, draws=(_no_nan, _no_nan)),
        Rule("GL.Pow", SMALL, 2, simple("GL.Pow"), _power, draws=(uniform(0.1, 8), uniform(-3, 3))),
        Rule(
            "GL.Radians", SMALL, 1, simple("GL.Radians"), ulps(3, "x * pi / 180"), draws=(_no_nan,)
        ),
        Rule(
            "GL.Degrees", SMALL, 1, simple("GL.Degrees"), ulps(3, "x * 180 / pi"), draws=(_no_nan,)
        ),
        Rule("GL.Step", FLOATS, 2, simple("GL.Step"), draws=(_no_nan, _no_nan)),
    ]
)


def _legal_mix(type: Type) -> Legal:
    return Legal(
        lambda r, x, y, a: 3 * (spacing(x * (1 - a), type.dtype) + spacing(y * a, type.dtype)
                                + spacing(x, type.dtype)),
        "x * (1 - a) + y * a",
    )  # fmt: skip


def _smooth(type: Type) -> Legal:
    """
    Bounds the error of t * t * (3 - 2 t) with t = clamp((x - low) / (high - low)), where t itself
    has an error.
    """

    def bound(r: Array, low: Array, high: Array, x: Array) -> Array:
        sizes = sum(spacing(v, type.dtype) for v in (low, high, x))
        return 4 * sizes / np.abs(high - low) + 16 * float(np.finfo(type.dtype).eps)

    return Legal(bound, "t * t * (3 - 2 t)")


def _mix(k: Kernel, type: Type, values: Sequence[str]) -> tuple[str, Type]:
    x, y, a = values
    return k.op(f"spirv.GL.FMix {x} : {type}, {y} : {type}, {a} : {type} -> {type}"), type


RULES.extend([
    Rule("GL.FMix", FLOATS, 3, _mix, _legal_mix, draws=(_no_nan, _no_nan, uniform(0, 1))),
    Rule(
        "GL.SmoothStep", FLOATS, 3, simple("GL.SmoothStep"), _smooth,
        draws=(uniform(-4, -1), uniform(1, 4), _MODEST),
    ),
])  # fmt: skip


# Vectors. A sum of n products in any order: n u times the sum of their absolute values.
def _sum_of_products(type: Type) -> Legal:
    eps = float(np.finfo(type.dtype).eps)

    def bound(r: Array, a: Array, b: Array) -> Array:
        return 2 * type.count * eps * (np.abs(a) * np.abs(b)).sum(axis=1, keepdims=True)

    return Legal(bound, "n u |a| |b|")


def _scalar_result(
    name: str, arrow: bool
) -> Callable[[Kernel, Type, Sequence[str]], tuple[str, Type]]:
    def emit(k: Kernel, type: Type, values: Sequence[str]) -> tuple[str, Type]:
        types = f"{type}, {type}" if name == "GL.Distance" else f"{type}"
        tail = f"{types} -> {type.scalar}" if arrow else types
        return k.op(f"spirv.{name} {', '.join(values)} : {tail}"), Type(type.scalar)

    return emit


def _lengths(type: Type) -> Legal:
    """
    Bounds the error of sqrt(dot): half the relative error of the dot product, plus the error of
    sqrt.
    """
    eps = float(np.finfo(type.dtype).eps)

    def bound(r: Array, *x: Array) -> Array:
        size = np.abs(r) + sum(np.abs(vector).max(axis=1, keepdims=True) for vector in x)
        return (type.count + 6) * eps * size

    return Legal(bound, "sqrt(dot)")


def _directions(type: Type) -> Legal:
    eps = float(np.finfo(type.dtype).eps)
    return Legal(lambda r, *x: (type.count + 10) * eps + 0 * r, "x / length(x)")


def _legal_cross(type: Type) -> Legal:
    eps = float(np.finfo(type.dtype).eps)

    def bound(r: Array, a: Array, b: Array) -> Array:
        return 4 * eps * np.abs(a).max(axis=1, keepdims=True) * np.abs(b).max(axis=1, keepdims=True)

    return Legal(bound, "a_y b_z - a_z b_y")


def _legal_reflect(type: Type) -> Legal:
    eps = float(np.finfo(type.dtype).eps)

    def bound(r: Array, i: Array, n: Array) -> Array:
        dot = (np.abs(i) * np.abs(n)).sum(axis=1, keepdims=True)
        return eps * (4 * (type.count + 3) * dot * np.abs(n) + 2 * np.abs(i))

    return Legal(bound, "i - 2 dot(n, i) n")


RULES.extend([
    Rule(
        "Dot", FLOATS, 2, _scalar_result("Dot", True), _sum_of_products, (2, 3, 4), (_no_nan,) * 2
    ),
    Rule("GL.Length", FLOATS, 1, _scalar_result("GL.Length", True), _lengths, draws=(_no_nan,)),
    Rule(
        "GL.Distance", FLOATS, 2, _scalar_result("GL.Distance", True), _lengths,
        draws=(_no_nan, _no_nan),
    ),
    Rule(
        "GL.Normalize", FLOATS, 1, simple("GL.Normalize"), _directions, (2, 3, 4),
        draws=(uniform(0.1, 4),),
    ),
    Rule("GL.Cross", FLOATS, 2, simple("GL.Cross"), _legal_cross, (3,), (_no_nan, _no_nan)),
    Rule(
        "GL.Reflect", FLOATS, 2, simple("GL.Reflect"), _legal_reflect, (2, 3, 4),
        (_no_nan, uniform(-1, 1)),
    ),
])  # fmt: skip


def _face_forward(type: Type) -> Legal:
    """Requires the right sign of the result, except where dot(reference, i) is near zero."""

    def domain(n: Array, i: Array, reference: Array) -> Array:
        products = i * reference
        total = np.abs(products.sum(axis=1, keepdims=True))
        return total > 0.01 * np.abs(products).sum(axis=1, keepdims=True)

    return Legal(None, "exact apart from dot = 0", domain)


RULES.append(
    Rule(
        "GL.FaceForward", FLOATS, 3, simple("GL.FaceForward"), _face_forward, (2, 3, 4),
        (_no_nan, _no_nan, _no_nan),
    )
)  # fmt: skip


def _times_scalar(k: Kernel, type: Type, values: Sequence[str]) -> tuple[str, Type]:
    one = k.op(f"spirv.CompositeExtract {values[1]}[0 : i32] : {type}")
    return k.op(
        f"spirv.VectorTimesScalar {values[0]}, {one} : ({type}, {type.scalar}) -> {type}"
    ), type


def _ldexp(k: Kernel, type: Type, values: Sequence[str]) -> tuple[str, Type]:
    power = type.of("i32")
    lane = k.op("spirv.BitwiseAnd %id, %one : i32")
    number = k.op(f"spirv.ISub {lane}, {k.constant(int(k.rng.integers(-6, 7)))} : i32")
    if type.count > 1:
        listed = ", ".join([number] * type.count)
        types = ", ".join(["i32"] * type.count)
        number = k.op(f"spirv.CompositeConstruct {listed} : ({types}) -> {power}")
    return k.op(f"spirv.GL.Ldexp {values[0]} : {type}, {number} : {power} -> {type}"), type


def _split(name: str, number: int) -> Callable[[Kernel, Type, Sequence[str]], tuple[str, Type]]:
    def emit(k: Kernel, type: Type, values: Sequence[str]) -> tuple[str, Type]:
        second = type.of("i32") if name == "FrexpStruct" else type
        pair = f"!spirv.struct<({type}, {second})>"
        both = k.op(f"spirv.GL.{name} {values[0]} : {type} -> {pair}")
        part = k.op(f"spirv.CompositeExtract {both}[{number} : i32] : {pair}")
        return part, (type, second)[number]

    return emit


RULES.extend(
    [
        Rule("VectorTimesScalar", FLOATS, 2, _times_scalar, counts=(2, 3, 4)),
        Rule("GL.Ldexp", FLOATS, 1, _ldexp, draws=(_no_nan,)),
    ]
)
for _name in ("ModfStruct", "FrexpStruct"):
    for _number in (0, 1):
        RULES.append(
            Rule(f"GL.{_name}.{_number}", FLOATS, 1, _split(_name, _number), draws=(_no_nan,))
        )


# Packing. binary32 to 8 or 16 bits: round(clamp(x) * scale), where a half may be rounded either
# way.
def _pack(name: str) -> Callable[[Kernel, Type, Sequence[str]], tuple[str, Type]]:
    def emit(k: Kernel, type: Type, values: Sequence[str]) -> tuple[str, Type]:
        return k.op(f"spirv.GL.{name} {values[0]} : {type} -> i32"), Type("i32")

    return emit


def _unpack(name: str, count: int) -> Callable[[Kernel, Type, Sequence[str]], tuple[str, Type]]:
    result = Type("f32", count)

    def emit(k: Kernel, type: Type, values: Sequence[str]) -> tuple[str, Type]:
        return k.op(f"spirv.GL.{name} {values[0]} : i32 -> {result}"), result

    return emit


def _rounded_to(scale: int) -> LegalOf:
    """
    Requires the right rounding, except where the scaled number is near the middle of two integers.
    """

    def domain(x: Array) -> Array:
        scaled = np.clip(x, -1, 1) * scale
        halfway = np.abs(scaled - np.floor(scaled) - 0.5) < 2.0**-5
        return np.logical_not(halfway.any(axis=1, keepdims=True))

    return lambda type: Legal(None, "exact apart from halves", domain)


_CLAMPED = uniform(-1.25, 1.25)
for _name, _count, _scale in (
    ("Snorm4x8", 4, 127), ("Unorm4x8", 4, 255), ("Snorm2x16", 2, 32767), ("Unorm2x16", 2, 65535),
):  # fmt: skip
    RULES.append(
        Rule(
            f"GL.Pack{_name}", ("f32",), 1, _pack(f"Pack{_name}"), _rounded_to(_scale),
            (_count,), (_CLAMPED,),
        )
    )  # fmt: skip
    RULES.append(
        Rule(f"GL.Unpack{_name}", ("i32",), 1, _unpack(f"Unpack{_name}", _count), ulps(3), (1,))
    )
RULES.extend(
    [
        Rule("GL.PackHalf2x16", ("f32",), 1, _pack("PackHalf2x16"), counts=(2,), draws=(_MODEST,)),
        Rule("GL.UnpackHalf2x16", ("i32",), 1, _unpack("UnpackHalf2x16", 2), counts=(1,)),
    ]
)
