"""
Generates the inputs on which programs are tested.

The first six sets range from ones to extremes, zeros and NaN, so that simple mistakes show on
simple values. Later sets are random, every second one with edge values. A set depends only on the
seed and its index.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from xdsl_spirv.interpreter.numbers import DType, is_float
from xdsl_spirv.runtime.elements import Array


@dataclass(frozen=True)
class Input:
    """An array that a program reads: a host function's argument or a kernel's buffer."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    is_size: bool = False
    """True if sizes or offsets depend on this number, so that it must fit every tensor."""

    def __str__(self) -> str:
        return f"{self.name}: {'x'.join([*map(str, self.shape), self.dtype.name])}"


def edges(dtype: DType, finite: bool = False) -> Array:
    """
    Returns zeros, ones and extremes, and for a float type infinities, NaN and subnormals.

    `finite` leaves out infinities, NaN, and numbers whose products overflow.
    """
    if dtype.kind == "b":
        return np.array([False, True])
    if not is_float(dtype):
        info = np.iinfo(dtype)
        around = [0, 1, 2, info.max, info.max - 1, info.min, info.min + 1, info.max // 2 + 1]
        negative = [-1, -2] if info.min < 0 else []
        return np.array([*around, *negative], dtype)
    info = ml_dtypes.finfo(dtype)
    tiny, smallest = float(info.smallest_subnormal), float(info.smallest_normal)
    values = [0.0, -0.0, 1.0, -1.0, 1.0 + float(info.eps), tiny, -tiny, smallest, smallest - tiny]
    if not finite:
        values += [float(info.max), float(info.min), np.inf, -np.inf, np.nan]
    values_of_type = np.array(values).astype(dtype)
    # Types without infinities convert them to a second NaN, which is harmless.
    return values_of_type


def draw(inputs: Sequence[Input], seed: int, number: int) -> list[Array]:
    """Returns the input arrays of set `number`: fixed kinds of values first, then random ones."""
    generator = np.random.default_rng([seed, number])
    if number < len(_FIRST):
        kind = _FIRST[number]
    else:
        kind = _uniform if number % 2 else _sprinkle_edges
    drawn = (np.array(number % SIZES) if i.is_size else kind(generator, i) for i in inputs)
    return [a.astype(i.dtype).reshape(i.shape) for a, i in zip(drawn, inputs, strict=True)]


SIZES = 3
"""Number of values that are tested for a size: 0, 1 and 2."""


Kind = Callable[[np.random.Generator, Input], Array]


def _zeros(generator: np.random.Generator, like: Input) -> Array:
    return np.zeros(like.shape)


def _ones(generator: np.random.Generator, like: Input) -> Array:
    return np.ones(like.shape)


def _small(generator: np.random.Generator, like: Input) -> Array:
    """
    Returns integers, in the type of `like`, whose sums are exact in every type and every order.
    """
    low = 0 if like.dtype.kind in "ub" else -2
    return generator.integers(low, 2 if like.dtype.kind == "b" else 3, like.shape)


def _uniform(generator: np.random.Generator, like: Input) -> Array:
    """
    Returns floats from -1 to 1, or integers of the full range, in the type and shape of `like`.
    """
    if is_float(like.dtype):
        return generator.uniform(-1, 1, like.shape)
    if like.dtype.kind == "b":
        return generator.integers(0, 2, like.shape)
    info = np.iinfo(like.dtype)
    return generator.integers(info.min, info.max, like.shape, like.dtype, endpoint=True)


def _sprinkle_edges(generator: np.random.Generator, like: Input) -> Array:
    """
    Returns random values in the type and shape of `like`. An eighth of them are edge values whose
    products do not overflow.
    """
    plain = _uniform(generator, like).astype(like.dtype)
    chosen = generator.random(like.shape) < 0.125
    return np.where(chosen, generator.choice(edges(like.dtype, finite=True), like.shape), plain)


def _special(generator: np.random.Generator, like: Input) -> Array:
    """Returns small integers, some of them replaced by edge values."""
    plain = _small(generator, like).astype(like.dtype)
    chosen = generator.random(like.shape) < 0.02
    return np.where(chosen, generator.choice(edges(like.dtype), like.shape), plain)


def _extreme(generator: np.random.Generator, like: Input) -> Array:
    """Returns integers near the ends of their range, whose sums wrap, or large floats."""
    if is_float(like.dtype):
        largest = float(ml_dtypes.finfo(like.dtype).max) ** 0.5 / 64
        return generator.choice([-largest, largest], like.shape)
    if like.dtype.kind == "b":
        return np.ones(like.shape)
    info = np.iinfo(like.dtype)
    return generator.choice(np.array([info.max, info.min], like.dtype), like.shape)


_FIRST: list[Kind] = [_ones, _small, _uniform, _extreme, _special, _zeros]
