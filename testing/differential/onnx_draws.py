"""
Shapes, axes and numbers of random ONNX graphs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from xdsl_spirv.testing.differential.onnx_graphs import RandomGraph

T = TypeVar("T")

UNSIGNED = (np.uint8, np.uint16, np.uint32, np.uint64)
SIGNED = (np.int8, np.int16, np.int32, np.int64)

WIDE = 1 << 20
"""What 64-bit numbers stay below: devices without them are served by ranges, inputs have none."""


def pick(g: RandomGraph, choices: Sequence[T]) -> T:
    """One of several."""
    return choices[int(g.rng.integers(len(choices)))]


def shape_of(g: RandomGraph, least: int = 1, most: int = 4) -> tuple[int, ...]:
    """A small shape, one size in four of which is 1."""
    rank = int(g.rng.integers(least, most + 1))
    sizes = [1 if g.rng.random() < 0.25 else int(g.rng.integers(2, 8)) for _ in range(rank)]
    return tuple(sizes)


def axis_of(g: RandomGraph, rank: int) -> int:
    """An axis from either end."""
    return int(g.rng.integers(-rank, rank)) if rank else 0


def broadcast_pair(
    g: RandomGraph, shape: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """A shape, and one that broadcasts to it."""
    other = [1 if g.rng.random() < 0.3 else size for size in shape]
    return shape, tuple(other[int(g.rng.integers(len(shape) + 1)) if g.rng.random() < 0.3 else 0 :])


def floats(g: RandomGraph, shape: Sequence[int], dtype: Any = np.float32) -> Any:
    """Numbers around zero, rounded now and then so that ties occur."""
    values = g.rng.standard_normal(tuple(shape)) * float(pick(g, (1.0, 1.0, 3.0)))
    return (np.round(values * 2) / 2 if g.rng.random() < 0.25 else values).astype(dtype)


def flags(g: RandomGraph, shape: Sequence[int]) -> Any:
    """Booleans."""
    return g.rng.random(tuple(shape)) < 0.5


def integers(g: RandomGraph, shape: Sequence[int], dtype: Any, most: int = WIDE) -> Any:
    """Integers of a whole type, or up to `most`; the ends are frequent."""
    kind = np.iinfo(dtype)
    low, high = max(int(kind.min), -most), min(int(kind.max), most)
    if kind.bits == 32 and most == WIDE and g.rng.random() < 0.5:
        low, high = int(kind.min), int(kind.max)
    values = g.rng.integers(low, high, tuple(shape), dtype=np.int64, endpoint=True)
    at = g.rng.random(tuple(shape)) < 0.2
    return np.where(at, g.rng.choice([low, high, 0, 1], tuple(shape)), values).astype(dtype)
