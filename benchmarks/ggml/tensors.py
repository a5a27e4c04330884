"""
Tensors in ggml's layout, and push constants made from their extents and strides.

A ggml tensor has four extents `ne`, the innermost first, and strides `nb`, which are counted in
elements here. A `Tensor` shows a flat buffer as a numpy array with the innermost axis last. The
buffer ends with the last element of the tensor.
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
    """Returns a random generator seeded with the name of a case."""
    return np.random.default_rng(list(text.encode()))


class Tensor:
    """
    A view with four axes (outermost first) of a flat buffer.

    `order` lists ggml's axis numbers from the innermost in memory to the outermost. `spare` is the
    number of unused elements after each row, `offset` the number before the first element.
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
        """Elements of the buffer, outermost axis first."""
        size = self.buffer.itemsize
        strides = [size * s for s in self.nb[::-1]]
        return np.lib.stride_tricks.as_strided(
            self.buffer[self.offset :], self.ne[::-1], strides, writeable=True
        )

    @property
    def values(self) -> Array:
        """Elements in binary64. Integers keep their type."""
        return self.view if self.view.dtype.kind in "iu" else self.view.astype(np.float64)

    @property
    def blank(self) -> Array:
        """The buffer before the launch, filled with the byte 0x55."""
        empty = np.zeros_like(self.buffer)
        empty.view(np.uint8)[:] = 0x55
        return empty

    def sizes(self, number: int) -> dict[str, int]:
        """Returns extents and strides by the names of their push constants: `ne00`, `nb00`, ..."""
        named = {f"ne{number}{axis}": self.ne[axis] for axis in range(4)}
        return named | {f"nb{number}{axis}": self.nb[axis] for axis in range(4)}

    @property
    def count(self) -> int:
        """Number of elements."""
        return int(np.prod(self.ne))


def fast_division(divisor: int) -> tuple[int, int]:
    """Returns the multiplier and shift by which ggml's shaders divide by a constant."""
    shift = max(divisor - 1, 0).bit_length()
    return (((1 << 32) * ((1 << shift) - divisor)) // divisor + 1) % (1 << 32), shift


def cover(count: int, denominator: int = 512) -> Grid:
    """
    Returns ggml's grid for `count` elements: rows of 512 elements, planes of 512 rows. A workgroup
    computes `denominator` elements of a row.
    """
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
    """Returns the push constants of operations from `a` to `d`, with up to four parameters."""
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
    """Returns the push constants of operations from `a` and `b` to `d`."""
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
    """Returns random values between `low` and `high`. `shape` has the outermost axis first."""
    return random.uniform(low, high, tuple(shape)).astype(TYPES[type])
