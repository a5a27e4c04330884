"""
Tensors as ggml lays them out, and the numbers that its launches are made of.

A tensor has four extents `ne`, the first one dense, and strides `nb` in elements. Here it is a view
with the axes reversed, as numpy has them, of a flat buffer that ends with its last element.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from ggml.launch import Array, Grid

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
TYPES: dict[str, np.dtype[Any]] = {
    "f32": np.dtype(np.float32),
    "f16": np.dtype(np.float16),
    "bf16": BFLOAT16,
    "i8": np.dtype(np.uint8),
    "i16": np.dtype(np.uint16),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
}


def generator(text: str) -> np.random.Generator:
    """The random numbers of a case, the same in every run."""
    return np.random.default_rng(list(text.encode()))


class Tensor:
    """
    A view of four axes (outermost first) of a flat buffer.

    `order` lists the axes from the innermost in memory outwards, as ggml numbers them; `spare`
    leaves so many elements after each row, `offset` in front of the whole.
    """

    def __init__(
        self,
        values: Array,
        spare: int = 0,
        order: Sequence[int] = (0, 1, 2, 3),
        offset: int = 0,
    ) -> None:
        values = values.reshape((1,) * (4 - values.ndim) + values.shape)
        self.ne = values.shape[::-1]
        strides, stride = [0] * 4, 1
        for place, axis in enumerate(order):
            strides[axis] = stride
            stride *= self.ne[axis] + (spare if place == 0 else 0)
        self.nb, self.offset = tuple(strides), offset
        last = sum((n - 1) * s for n, s in zip(self.ne, strides, strict=True))
        self.buffer = np.zeros(offset + last + 1, values.dtype)
        self.buffer.view(np.uint8)[:] = 0x55
        self.view[...] = values

    @property
    def view(self) -> Array:
        """The elements, outermost axis first."""
        size = self.buffer.itemsize
        strides = [size * s for s in self.nb[::-1]]
        return np.lib.stride_tricks.as_strided(
            self.buffer[self.offset :], self.ne[::-1], strides, writeable=True
        )

    @property
    def values(self) -> Array:
        """The elements in binary64, to compute with; integers stay integers."""
        return self.view if self.view.dtype.kind in "iu" else self.view.astype(np.float64)

    @property
    def blank(self) -> Array:
        """The buffer as it is before anything is written."""
        empty = np.zeros_like(self.buffer)
        empty.view(np.uint8)[:] = 0x55
        return empty

    def sizes(self, number: int) -> dict[str, int]:
        """Extents and strides under the names of push constants: `ne00`, `nb00`, ..."""
        named = {f"ne{number}{axis}": self.ne[axis] for axis in range(4)}
        return named | {f"nb{number}{axis}": self.nb[axis] for axis in range(4)}

    @property
    def count(self) -> int:
        """How many elements there are."""
        return int(np.prod(self.ne))


def fast_division(divisor: int) -> tuple[int, int]:
    """The multiplier and shift with which ggml's shaders divide by a constant."""
    shift = max(divisor - 1, 0).bit_length()
    return (((1 << 32) * ((1 << shift) - divisor)) // divisor + 1) % (1 << 32), shift


def cover(count: int, denominator: int = 512) -> Grid:
    """The workgroups for a number of elements in rows of 512 and planes of 512 rows."""
    if count > 262144:
        elements = (512, 512, -(-count // 262144))
    elif count > 512:
        elements = (512, -(-count // 512), 1)
    else:
        elements = (count, 1, 1)
    return -(-elements[0] // denominator), elements[1], elements[2]


def unary_push(
    a: Tensor, d: Tensor, parameters: Sequence[float] = (), count: int | None = None
) -> dict[str, Any]:
    """The push constants of operations with one source."""
    given = [*parameters, *[0.0] * (4 - len(parameters))]
    push: dict[str, Any] = {"ne": d.count if count is None else count, **a.sizes(0), **d.sizes(1)}
    push["misalign_offsets"] = a.offset << 16 | d.offset
    push |= {f"param{n + 1}": value for n, value in enumerate(given)}
    for number, tensor in ((0, a), (1, d)):
        x, y, z, _ = tensor.ne
        shifts = 0
        for slot, (name, size) in enumerate((("012", x * y * z), ("01", x * y), ("0", x))):
            push[f"ne{number}_{name}mp"], shift = fast_division(size)
            shifts |= shift << 8 * slot
        push[f"ne{number}_Ls"] = shifts
    return push


def binary_push(
    a: Tensor, b: Tensor, d: Tensor, parameters: Sequence[float] = (0.0, 0.0, 0)
) -> dict[str, Any]:
    """The push constants of operations with two sources."""
    push: dict[str, Any] = {"ne": d.count, **a.sizes(0), **b.sizes(1), **d.sizes(2)}
    push["misalign_offsets"] = a.offset << 16 | b.offset << 8 | d.offset
    return push | {f"param{n + 1}": value for n, value in enumerate(parameters)}


def numbers(
    random: np.random.Generator,
    shape: Sequence[int],
    type: str = "f32",
    low: float = -2.0,
    high: float = 2.0,
) -> Array:
    """Random numbers between two bounds, outermost axis first."""
    return random.uniform(low, high, tuple(shape)).astype(TYPES[type])
