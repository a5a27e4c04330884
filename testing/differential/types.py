"""The types of generated values, and random values of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

INTEGERS = ("i8", "i16", "i32", "i64")
FLOATS = ("f16", "f32", "f64")
SCALARS = (*INTEGERS, *FLOATS)

DTYPES: dict[str, np.dtype[Any]] = {
    "i1": np.dtype(np.bool_),
    "i8": np.dtype(np.int8),
    "i16": np.dtype(np.int16),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
    "f16": np.dtype(np.float16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}


@dataclass(frozen=True)
class Type:
    """A scalar type, or a vector of 2 to 4 scalars."""

    scalar: str
    count: int = 1

    def __str__(self) -> str:
        return self.scalar if self.count == 1 else f"vector<{self.count}x{self.scalar}>"

    @property
    def dtype(self) -> np.dtype[Any]:
        return DTYPES[self.scalar]

    @property
    def bits(self) -> int:
        return 1 if self.scalar == "i1" else self.dtype.itemsize * 8

    @property
    def is_float(self) -> bool:
        return self.scalar.startswith("f")

    @property
    def slots(self) -> int:
        """Array stride in scalars. A vector of 3 has the stride of a vector of 4."""
        return 4 if self.count == 3 else self.count

    def of(self, scalar: str) -> Type:
        """Returns the type with another scalar type and the same number of components."""
        return Type(scalar, self.count)


I32 = Type("i32")
F32 = Type("f32")
BOOL = Type("i1")


def edges(type: Type) -> list[Any]:
    """Returns numbers at which operations often fail."""
    if not type.is_float:
        info = np.iinfo(type.dtype)
        return [
            0,
            1,
            -1,
            2,
            -2,
            7,
            8,
            info.max,
            info.min,
            info.max - 1,
            info.min + 1,
            info.max // 2,
        ]
    info = ml_dtypes.finfo(type.dtype)
    tiny, normal, large = float(info.smallest_subnormal), float(info.tiny), float(info.max)
    halves = [0.5, -0.5, 1.5, -1.5, 2.5, -2.5]
    values = [0.0, -0.0, 1.0, -1.0, tiny, -tiny * 3, normal, -normal, large, -large]
    return [*values, np.inf, -np.inf, np.nan, *halves, 1 + float(info.eps), 2.0, 100.0]


def drawn(generator: np.random.Generator, type: Type, shape: tuple[int, ...]) -> Array:
    """Returns random values of all magnitudes. A quarter of them are edge cases."""
    if type.is_float:
        low, high = (-14, 15) if type.scalar == "f16" else (-40, 40)
        plain = generator.uniform(-2, 2, shape) * 2.0 ** generator.integers(low, high, shape)
        near = generator.uniform(-8, 8, shape)
        plain = np.where(generator.random(shape) < 0.6, near, plain)
        plain = np.where(generator.random(shape) < 0.1, np.rint(near), plain)
    else:
        info = np.iinfo(type.dtype)
        plain = generator.integers(info.min, info.max, shape, type.dtype, endpoint=True)
        plain = np.where(generator.random(shape) < 0.3, plain % 16, plain)
    chosen = generator.random(shape) < 0.25
    array = np.where(chosen, generator.choice(np.array(edges(type)), shape), plain)
    with np.errstate(over="ignore"):
        return array.astype(type.dtype)
