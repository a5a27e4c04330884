"""
Epilogues of the sweep: elementwise operations after a contraction, as MLIR and as interval
functions.

Every step is monotone in the previous result, so an interval of legal results propagates by its
ends. The step's own rounding then widens the interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Generator: TypeAlias = np.random.Generator
Interval: TypeAlias = tuple[Array, Array]


@dataclass(frozen=True)
class Step:
    """
    An elementwise operation after a contraction, monotone in the previous result.

    `body` computes `%o` from `%x` (and from `%y`, an element of an operand that is indexed by the
    result's dimensions `dims`). `bounds` maps an interval's end without rounding. `error` is the
    operation's error: (units in the last place of its result, least absolute error).
    """

    name: str
    body: str
    bounds: Callable[[Array, Array | None], Array]
    type: str
    dims: tuple[int, ...] | None = None
    error: tuple[float, float] = (1.0, 0.0)


FLOAT_STEPS = (
    "bias", "residual", "scale", "relu", "clamp", "exp", "tanh", "sigmoid", "gelu", "convert"
)  # fmt: skip


def random_step(type: str, rank: int, generator: Generator) -> Step:
    """Returns a random step on elements of a type."""
    if type == "i32":
        return _integer_step(rank, generator)
    dims = tuple(sorted(int(x) for x in generator.permutation(rank)[: int(generator.integers(3))]))
    scale = float(np.float16(generator.uniform(0.125, 2)))
    low, high = sorted(float(np.float16(x)) for x in generator.uniform(-4, 4, 2))
    match str(generator.choice(FLOAT_STEPS)):
        case "bias":
            return Step("bias", f"%o = arith.addf %x, %y : {type}", _plus, type, dims)
        case "residual":
            whole = tuple(range(rank))
            return Step("residual", f"%o = arith.addf %y, %x : {type}", _plus, type, whole)
        case "scale":
            body = f"%s = arith.constant {scale} : {type}\n    %o = arith.mulf %x, %s : {type}"
            return Step("scale", body, lambda x, _: x * scale, type)
        case "relu":
            body = f"%s = arith.constant 0.0 : {type}\n    %o = arith.maximumf %x, %s : {type}"
            return Step("relu", body, lambda x, _: np.maximum(x, 0), type, error=(0, 0))
        case "clamp":
            body = f"""%l = arith.constant {low} : {type}
    %h = arith.constant {high} : {type}
    %m = arith.maximumf %x, %l : {type}
    %o = arith.minimumf %m, %h : {type}"""
            clamp = lambda x, _: np.minimum(np.maximum(x, low), high)  # noqa: E731
            return Step("clamp", body, clamp, type, error=(0, 0))
        case "exp":
            body = f"""%l = arith.constant 2.0 : {type}
    %m = arith.minimumf %x, %l : {type}
    %o = math.exp %m : {type}"""
            return Step("exp", body, lambda x, _: np.exp(np.minimum(x, 2)), type, error=(250, 1e-6))
        case "tanh":
            return Step("tanh", f"%o = math.tanh %x : {type}", _tanh, type, error=(16, 1e-5))
        case "gelu":
            # From its lowest point on, where it is monotone.
            body = f"""%l = arith.constant -0.5 : {type}
    %m = arith.maximumf %x, %l : {type}
    %h = arith.constant 0.5 : {type}
    %one = arith.constant 1.0 : {type}
    %c = arith.constant 0.70703125 : {type}
    %s = arith.mulf %m, %c : {type}
    %e = math.erf %s : {type}
    %p = arith.addf %e, %one : {type}
    %g = arith.mulf %m, %h : {type}
    %o = arith.mulf %g, %p : {type}"""
            return Step("gelu", body, _gelu, type, error=(16, 1e-5))
        case "sigmoid":
            body = f"""%one = arith.constant 1.0 : {type}
    %n = arith.negf %x : {type}
    %e = math.exp %n : {type}
    %d = arith.addf %one, %e : {type}
    %o = arith.divf %one, %d : {type}"""
            return Step("sigmoid", body, _sigmoid, type, error=(250, 1e-6))
        case _:
            to = {"f32": "f16", "f16": "f32"}[type]
            op = "truncf" if to == "f16" else "extf"
            return Step("convert", f"%o = arith.{op} %x : {type} to {to}", _same, to)


def _same(x: Array, _: Array | None) -> Array:
    return x


def _plus(x: Array, y: Array | None) -> Array:
    assert y is not None
    return x + y


def _tanh(x: Array, _: Array | None) -> Array:
    return np.tanh(x)


def _gelu(x: Array, _: Array | None) -> Array:
    x = np.maximum(x, -0.5)
    return x * 0.5 * (1 + _ERF(x * 0.70703125).astype(np.float64))


_ERF = np.vectorize(math.erf, otypes=[np.float64])


def _sigmoid(x: Array, _: Array | None) -> Array:
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x))


def _integer_step(rank: int, generator: Generator) -> Step:
    dims = tuple(sorted(int(x) for x in generator.permutation(rank)[:1]))
    scale = float(np.float32(generator.uniform(0.0001, 0.1)))
    zero = float(generator.integers(-20, 21))
    match int(generator.integers(3)):
        case 0:
            return Step("bias", "%o = arith.addi %x, %y : i32", _wrapping, "i32", dims, (0, 0))
        case 1:
            body = f"""%f = arith.sitofp %x : i32 to f32
    %s = arith.constant {scale} : f32
    %o = arith.mulf %f, %s : f32"""
            return Step("dequantize", body, lambda x, _: x * scale, "f32", error=(2, 0))
        case _:
            body = f"""%f = arith.sitofp %x : i32 to f32
    %s = arith.constant {scale} : f32
    %m = arith.mulf %f, %s : f32
    %t = math.roundeven %m : f32
    %z = arith.constant {zero} : f32
    %q = arith.addf %t, %z : f32
    %l = arith.constant -128.0 : f32
    %h = arith.constant 127.0 : f32
    %c0 = arith.maximumf %q, %l : f32
    %c1 = arith.minimumf %c0, %h : f32
    %o = arith.fptosi %c1 : f32 to i8"""

            def requantized(x: Array, _: Array | None) -> Array:
                return np.clip(np.rint(x * scale) + zero, -128, 127)

            return Step("requantize", body, requantized, "i8", error=(3, 0))


def _wrapping(x: Array, y: Array | None) -> Array:
    assert y is not None
    return (x + y + 2.0**31) % 2.0**32 - 2.0**31


def rounding_inputs(low: Array, high: Array, step: Step, type: str) -> Interval:
    """Widens an interval by the error of the float that `requantize` rounds to an integer."""
    if step.name != "requantize":
        return low, high
    reach = 3 * 2.0**-24
    return low - np.abs(low) * reach, high + np.abs(high) * reach


_ULP = {"f16": 2.0**-10, "f32": 2.0**-23}
_SMALLEST = {"f16": 2.0**-24, "f32": 2.0**-126}
_LARGEST = {"f16": 65504.0, "f32": float(np.finfo(np.float32).max)}


def widened(low: Array, high: Array, step: Step) -> Interval:
    """Widens an interval by the step's rounding error. An overflow may give infinity."""
    if step.type not in _ULP:
        return low, high
    ulp = _ULP[step.type]
    relative, absolute = step.error[0] * ulp, step.error[1] * ulp / _ULP["f32"]
    if step.error != (0, 0):
        absolute += _SMALLEST[step.type]
    low = low - np.abs(low) * relative - absolute
    high = high + np.abs(high) * relative + absolute
    largest = _LARGEST[step.type] * (1 - ulp)
    low = np.where(low > largest, largest, np.where(low < -largest, -np.inf, low))
    high = np.where(high < -largest, -largest, np.where(high > largest, np.inf, high))
    return low, high
