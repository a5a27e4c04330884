"""
Represents packed weights of 2, 4 or 8 bits in blocks along an axis.

Known weights of `MatMulNBits`, `GatherBlockQuantized` and `DequantizeLinear` become planes (an
array per field, `frontends/blocks`). The last block may exceed the matrix: the other operand is 0
in the excess columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from xdsl_spirv.dialects.schedule.symbolic_sizes import Size
from xdsl_spirv.frontends.blocks import (
    BlockFormat,
    dequantize,
    of_bits,
    of_floats,
    packed,
    unpacked,
)
from xdsl_spirv.frontends.onnx.building import TensorBuilder
from xdsl_spirv.frontends.onnx.values import U8, Array, Element, Tensor
from xdsl_spirv.upstream.narrow_floats import NARROW_FLOATS


@dataclass(frozen=True)
class Blocks:
    """A packed matrix, stored as one array per block field. Rows have `columns` elements."""

    format: BlockFormat
    planes: dict[str, Tensor]
    columns: int

    @property
    def width(self) -> int:
        """Number of columns of all blocks, including the padding of the last block."""
        blocks = self.planes["q"].sizes[1]
        assert isinstance(blocks, int)
        return blocks * self.format.size

    def rows(self, b: TensorBuilder, element: Element, transposed: bool = False) -> Tensor:
        """Dequantizes all blocks to a matrix."""
        return dequantize(b, self.format, self.planes, element, transposed)

    def product(self, b: TensorBuilder, x: Tensor) -> Tensor:
        """Multiplies x by the transposed matrix."""
        rank, beyond = x.rank, self.width - self.columns
        x = b.pad(x, [0] * rank, [*[0] * (rank - 1), beyond], 0)
        weights = self.rows(b, x.element)
        sizes: list[Size] = [*x.sizes[:-1], weights.sizes[0]]
        rows = list(range(rank - 1))
        return b.contract(x, [*rows, rank], weights, [rank - 1, rank], sizes, rank + 1, x.element)


def codes_of(t: Tensor, bits: int) -> Array | None:
    """
    Returns the elements of a known tensor as unsigned integers, or None for an unknown tensor.

    A uint8 element contains several codes of fewer bits. Other elements contain one code; the
    least number of a signed type becomes 0.
    """
    if t.numbers is None:
        return None
    if t.element.is_narrow_float:
        return t.numbers.view(np.uint8)
    if t.element == U8:
        return t.numbers if bits == 8 else unpacked(t.numbers, bits)
    least = min(int(t.element.least), 0)
    return (t.numbers.astype(np.int16) - least).astype(np.uint8)


def blocks_of(
    codes: Array | None,
    scales: Tensor | None,
    zeros: Tensor | Array | None,
    bits: int,
    size: int,
    name: str = "",
    float: str = "",
) -> Blocks | None:
    """
    Makes packed blocks from codes (rows x columns), scales and zero points (rows x blocks).

    Codes are integers, or of the narrow type `float`. Returns None if the data is not known at
    compile time or no block format fits.
    """
    known = None if scales is None else scales.numbers
    if codes is None or (scales is not None and known is None):
        return None
    if isinstance(zeros, Tensor) and zeros.numbers is None:
        return None
    rows, columns = codes.shape
    blocks = -(-columns // size)
    zero = zeros.numbers if isinstance(zeros, Tensor) else zeros
    zero_element = None if zero is None else Tensor.of(zero[:0]).element
    try:
        if float:
            format = of_floats(
                NARROW_FLOATS[float], size, None if scales is None else scales.element
            )
        else:
            assert scales is not None
            format = of_bits(bits, size, scales.element, zero_element)
    except ValueError:
        return None
    whole = np.zeros((rows, blocks * size), np.uint8)
    whole[:, :columns] = codes
    bits = 8 // format.loops.get("h", 1)
    arrays: dict[str, Any] = {
        "q": packed(whole, bits, format.loops["j"]).reshape(rows, blocks, *format.sizes("q"))
    }
    if known is not None:
        arrays["d"] = known.reshape(rows, blocks)
    if zero is not None:
        arrays["z"] = zero.reshape(rows, -1)[:, :blocks]
    named = {plane: f"{name}.{plane}" if name else "" for plane in arrays}
    planes = {
        plane: Tensor.of(np.ascontiguousarray(array), named[plane])
        for plane, array in arrays.items()
    }
    return Blocks(format, planes, columns)


def floats_of(x: Tensor, scale: Tensor | None, axis: int, size: int = 0) -> Blocks | None:
    """
    Packs a known matrix of narrow floats into blocks; the elements of a row are along `axis`.

    There is one scale, one per row, or one per block of `size` elements. Returns None for other
    matrices.
    """
    columns = x.sizes[axis] if x.rank == 2 else None
    if x.numbers is None or x.element.name not in NARROW_FLOATS or not isinstance(columns, int):
        return None
    codes = codes_of(x, x.element.bits)
    assert codes is not None
    rows, size = codes.size // max(columns, 1), size or columns
    if scale is not None:
        known = scale.numbers
        if known is None or columns % size or known.size not in (1, rows * columns // size):
            return None
        known = known.T if axis == 0 and known.ndim == 2 else known
        scale = Tensor.of(
            np.broadcast_to(known.reshape(-1, columns // size), (rows, columns // size))
        )
    turned = codes.T if axis == 0 else codes
    return blocks_of(turned, scale, None, 8, size, x.name, x.element.name)


def by_groups(groups: Array, size: int) -> Array | None:
    """Returns an order of columns in which each group is a block, or None if group sizes differ."""
    order = np.argsort(groups, kind="stable")
    count = len(groups) // size
    regular = len(groups) == count * size and np.array_equal(
        groups[order], np.repeat(np.arange(count), size)
    )
    return order if regular else None
