"""
The types of values: signed and unsigned numbers, vectors of numbers, Booleans.

In SPIR-V, instructions determine how the bits of integers are read. A kernel's types have a
signedness, which selects `SDiv` or `UDiv`, `SLessThan` or `ULessThan`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    VectorType,
)
from xdsl.ir import Attribute

_FLOATS: dict[str, tuple[Attribute, Any]] = {
    "f16": (Float16Type(), np.float16),
    "bf16": (BFloat16Type(), ml_dtypes.bfloat16),
    "f32": (Float32Type(), np.float32),
    "f64": (Float64Type(), np.float64),
}


@dataclass(frozen=True)
class Type:
    """A type with `lanes` components: `f32`, `i8`, `u16`, `bool`."""

    name: str
    lanes: int = 1

    @property
    def is_float(self) -> bool:
        return self.name in _FLOATS

    @property
    def is_boolean(self) -> bool:
        return self.name == "bool"

    @property
    def is_signed(self) -> bool:
        """True for a signed integer."""
        return self.name.startswith("i")

    @property
    def width(self) -> int:
        """Width of a component in bits."""
        return 1 if self.is_boolean else int(self.name.lstrip("bfiu"))

    @property
    def bytes(self) -> int:
        """Size of a densely packed element in bytes."""
        return self.width * self.lanes // 8

    @property
    def element(self) -> Type:
        return Type(self.name)

    @property
    def scalar(self) -> Attribute:
        """The type of a component in the dialect."""
        return _FLOATS[self.name][0] if self.is_float else IntegerType(self.width)

    @property
    def attribute(self) -> Attribute:
        """The type in the dialect, whose integers are signless."""
        return self.scalar if self.lanes == 1 else VectorType(self.scalar, [self.lanes])

    @property
    def dtype(self) -> np.dtype[Any]:
        """The numpy type of a component."""
        if self.is_float:
            return np.dtype(_FLOATS[self.name][1])
        return np.dtype("bool" if self.is_boolean else f"{self.name[0]}{self.width // 8}")

    def __str__(self) -> str:
        return self.name if self.lanes == 1 else f"vector({self.name}, {self.lanes})"

    __repr__ = __str__


f16, bf16, f32, f64 = (Type(name) for name in _FLOATS)
i8, i16, i32, i64 = (Type(f"i{width}") for width in (8, 16, 32, 64))
u8, u16, u32, u64 = (Type(f"u{width}") for width in (8, 16, 32, 64))
boolean = Type("bool")


def vector(element: Type, lanes: int) -> Type:
    """Returns a vector type of 2, 3 or 4 components. Raises `TypeError` for other numbers."""
    if element.lanes != 1 or lanes not in (2, 3, 4):
        raise TypeError(f"a vector must have 2, 3 or 4 scalars, not {lanes} of {element}")
    return Type(element.name, lanes)
