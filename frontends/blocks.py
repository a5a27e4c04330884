"""
Declares the formats of packed weights (blocks of a quantized tensor), and dequantizes them.

A format has loops over the elements of a block. The fields of a block become planes: aligned
arrays, each indexed by some of the loops. A formula computes an element from one number of each
plane. Shifts and scales do not depend on the innermost loop, so that the formula also works on
vectors.

    q4 = FORMATS["Q4_0"]
    planes = {name: Tensor.of(array) for name, array in q4.planes_of(blocks, rows).items()}
    weights = dequantize(b, q4, planes, F32)    # rows x columns, a linalg.generic and a reshape
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects.builtin import ReducedPrecisionFloatType

from xdsl_spirv.dialects.schedule.symbolic_sizes import Size
from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.frontends.onnx.building import TensorBuilder
from xdsl_spirv.frontends.onnx.scalars import Number, Scalars
from xdsl_spirv.frontends.onnx.values import F16, F32, I8, I32, U8, U16, Array, Element, Tensor
from xdsl_spirv.upstream.narrow_floats import extend, is_part_of_half

Numbers: TypeAlias = Mapping[str, Number]

Formula = Callable[[Numbers, Numbers], Number]
"""
Function that computes an element. Its first argument maps the names of fields to their numbers, its
second the names of loops to their indices.
"""


@dataclass(frozen=True)
class Plane:
    """
    The numbers of one field in all blocks, as an array. `loops` names the loops over a block that
    index the array.
    """

    element: Element
    loops: str = ""


@dataclass(frozen=True)
class BlockFormat:
    """
    The layout of a block format. `loops` maps a letter to a trip count, outermost loop first.

    `block` is the layout of a block in a file. `cut` computes the planes (arrays of one field)
    that files store in another form.
    """

    name: str
    loops: Mapping[str, int]
    planes: Mapping[str, Plane]
    formula: Formula
    block: np.dtype[Any] | None = None
    cut: Mapping[str, Callable[[Array], Array]] = field(default_factory=dict[str, Any])

    @property
    def size(self) -> int:
        """Number of elements of a block."""
        return prod(self.loops.values())

    def sizes(self, plane: str) -> tuple[int, ...]:
        """Returns the shape of one block's part of a plane (array of one field)."""
        return tuple(self.loops[loop] for loop in self.planes[plane].loops)

    def element(self, s: Scalars, numbers: Sequence[Number], first: int) -> Number:
        """
        Computes an element in f32 from one number of each plane (array of one field).

        `first` is the index of the block's outermost loop among the loops of the `linalg.generic`.
        """
        values = {
            name: x if plane.element == U8 else x.to(F32)
            for (name, plane), x in zip(self.planes.items(), numbers, strict=False)
        }
        loops = {letter: loop for loop, letter in enumerate(self.loops, first)}
        return self.formula(values, _Counters(s, loops))

    def planes_of(self, data: Array, rows: int) -> dict[str, Array]:
        """
        Splits `rows` rows of blocks into planes: one array of rows x blocks x ... per field.

        Raises `ValueError` if the length of `data` is wrong.
        """
        assert self.block is not None
        flat = np.ascontiguousarray(data).view(np.uint8).reshape(-1)
        if not rows or flat.size % (rows * self.block.itemsize):
            raise ValueError(
                f"{flat.size} bytes do not divide into {rows} rows of {self.name} blocks of "
                f"{self.block.itemsize} bytes"
            )
        blocks = flat.view(self.block).reshape(rows, -1)
        arrays = {
            name: self.cut[name](blocks) if name in self.cut else blocks[name]
            for name in self.planes
        }
        return {
            name: np.ascontiguousarray(array, self.planes[name].element.dtype).reshape(
                *blocks.shape, *self.sizes(name)
            )
            for name, array in arrays.items()
        }


def planes(format: BlockFormat, data: Array, rows: int) -> dict[str, Array]:
    """Splits rows of blocks into planes (one array per field), like `BlockFormat.planes_of`."""
    return format.planes_of(data, rows)


def dequantize(
    b: TensorBuilder,
    format: BlockFormat,
    planes: Mapping[str, Tensor],
    element: Element,
    transposed: bool = False,
    order: Sequence[int] = (),
) -> Tensor:
    """
    Dequantizes a tensor of leading dimensions x columns, given by one array per field of a block.

    If `transposed`, the result of a matrix is columns x rows. `order` lists, for each leading
    dimension of the arrays, its place in the result (default: the same).
    """
    first = next(iter(format.planes))
    given = planes[first].sizes[: planes[first].rank - len(format.planes[first].loops)]
    order = [*order, *range(len(order), len(given))]
    outer = [given[order.index(place)] for place in range(len(given))]
    sizes: tuple[Size, ...] = (*outer, *format.loops.values())
    loops = {letter: loop for loop, letter in enumerate(format.loops, len(outer))}
    operands = [
        (planes[name], [*order, *(loops[letter] for letter in plane.loops)])
        for name, plane in format.planes.items()
    ]
    written = [*range(1, len(sizes)), 0] if transposed else list(range(len(sizes)))
    shape = [sizes[loop] for loop in written]

    def write(s: Scalars, *numbers: Number) -> Sequence[Number]:
        return [format.element(s, numbers, len(outer)).to(element)]

    out = (b.empty(shape, element), element, shape, written)
    blocks = b.generic(operands, [out], len(sizes), write)[0]
    columns = prod(sizes[len(outer) - 1 :])
    rows = outer[:-1]
    return b.reshape(blocks, [columns, *rows] if transposed else [*rows, columns])


class _Counters(Mapping[str, Number]):
    """Loop counters by letter. Only counters that a formula reads become operations."""

    def __init__(self, scalars: Scalars, loops: Mapping[str, int]):
        self.scalars, self.loops = scalars, loops

    def __getitem__(self, letter: str) -> Number:
        return self.scalars.index(self.loops[letter], I32).to(U8)

    def __iter__(self) -> Iterator[str]:
        return iter(self.loops)

    def __len__(self) -> int:
        return len(self.loops)


# Formulas


def _low(x: Numbers, i: Numbers) -> Number:
    return (x["q"] >> i["h"] * 4) & 15


def _bits(x: Number, place: Number, count: int) -> Number:
    """Extracts field number `place` of a byte that consists of fields of `count` bits."""
    return (x >> place * count) & ((1 << count) - 1)


def _offset(offset: int) -> Callable[[Numbers, Number], Number]:
    return lambda x, q: (q.to(F32) - offset) * x["d"]


def _from_minimum(x: Numbers, q: Number) -> Number:
    return q.to(F32) * x["d"] + x["m"]


def _super_block(x: Numbers, q: Number) -> Number:
    return x["d"] * x["s"].to(F32) * q.to(F32) - x["e"] * x["m"].to(F32)


def _five(x: Numbers, i: Numbers) -> Number:
    return _low(x, i) | _bits(x["b"], i["h"] * 4 + i["w"], 1) << 4


def _five_k(x: Numbers, i: Numbers) -> Number:
    return _low(x, i) | _bits(x["b"], i["u"] * 2 + i["h"], 1) << 4


def _six_k(x: Numbers, i: Numbers) -> Number:
    q = _low(x, i) | _bits(x["b"], i["u"] * 2 + i["h"], 2) << 4
    return (q.to(F32) - 32) * (x["d"] * x["s"])


def _four_float(x: Numbers, i: Numbers, scale: Number) -> Number:
    """
    Converts an element of f4 (E2M1); `scale` must be 2^14 times the true scale.

    The bits of an f4, as the leading bits of an f16, give a value that is 2^-14 times as large,
    also for subnormal numbers.
    """
    q, s = _low(x, i), x["q"].scalars
    first = (q & 7) << 1 | (q & 8) << 4
    return s.reinterpret(first.to(U16) << 8, F16).to(F32) * scale


def _power_scaled(x: Numbers, i: Numbers) -> Number:
    """Computes an element of a block that consists of f4 elements and a power of two as scale."""
    return _four_float(x, i, x["d"].scalars.reinterpret(x["d"].to(I32) << 23, F32))


def _float_scaled(x: Numbers, i: Numbers) -> Number:
    """
    Multiplies an f4 by an f8 (E4M3) scale. The bits of an f8, read as an f16, give 2^-8 times its
    value.
    """
    scale = x["d"].scalars.reinterpret(x["d"].to(U16) << 7, F16).to(F32)
    return _four_float(x, i, scale * 2.0**22)


def _two_k(x: Numbers, i: Numbers) -> Number:
    q = _bits(x["q"], i["u"] * 2 + i["h"], 2)
    return _super_block({**x, "s": x["s"] & 15, "m": x["s"] >> 4}, q)


def _three_k(x: Numbers, i: Numbers) -> Number:
    q = _bits(x["q"], i["u"] * 2 + i["h"], 2)
    q = q | _bits(x["b"], i["v"] * 4 + i["u"] * 2 + i["h"], 1) << 2
    return (q.to(F32) - 4) * (x["d"] * x["s"])


# Conversion of blocks' fields to planes

UNIT = 16
"""Number of adjacent packed bytes that a device loads together."""

MOST = 32
"""Largest number of elements that a device unpacks together."""


def packed(codes: Array, bits: int, apart: int = UNIT) -> Array:
    """
    Packs elements of a few bits into bytes, in groups of `apart` bytes along the last dimension.

    Element `k * apart + j` of a group is in byte `j` of the group, from bit `k * bits` on.
    """
    count = 8 // bits
    groups = codes.reshape(*codes.shape[:-1], -1, count, apart)
    result = np.zeros((*groups.shape[:-2], apart), np.uint8)
    for place in range(count):
        result |= (groups[..., place, :] & ((1 << bits) - 1)) << place * bits
    return result


def unpacked(field: Array, bits: int, length: int = 1) -> Array:
    """
    Unpacks the elements of a field in order.

    The field consists of parts of `length` bytes. Within a part, the elements in the lowest bits
    come first.
    """
    parts = field.reshape(*field.shape[:-1], -1, 1, length)
    shifts = np.arange(0, 8, bits, dtype=np.uint8)[:, None]
    return (parts >> shifts & np.uint8((1 << bits) - 1)).reshape(*field.shape[:-1], -1)


def _fifth_bits(blocks: Array) -> Array:
    """Converts a word with the fifth bits of 32 elements, in order, to four packed bytes."""
    bits = np.unpackbits(blocks["b"], axis=-1, bitorder="little")
    return packed(bits, 1, 4)


def _repack_field(field: str, bits: int, length: int) -> Callable[[Array], Array]:
    """
    Returns a function that repacks a field. Elements that share a byte were `length` elements
    apart, and become `UNIT` apart.
    """
    return lambda blocks: packed(unpacked(blocks[field], bits, length), bits)


def _six_bits(of_minima: bool) -> Callable[[Array], Array]:
    """
    Returns a function that unpacks the eight scales or minima of a super-block to bytes.

    Bytes 0 to 3 contain scales 0 to 3 in the lower six bits, and the upper two bits of scales 4 to
    7. Bytes 4 to 7 contain the minima likewise. Bytes 8 to 11 contain the lower four bits of
    scales 4 to 7 in the lower nibble, and the lower four bits of minima 4 to 7 in the upper
    nibble.
    """

    def cut(blocks: Array) -> Array:
        upper = blocks["s"][..., 4:8] if of_minima else blocks["s"][..., :4]
        lower = blocks["s"][..., 8:] >> (4 if of_minima else 0) & 15
        return np.concatenate([upper & 63, lower | upper >> 2 & 48], -1)

    return cut


FOUR_BITS = np.array(
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.int8
)
"""Values of the 4-bit codes in ggml's table formats."""


def _repack_narrow(field: str, bits: int) -> Callable[[Array], Array]:
    """Returns a function that repacks 32 bytes so that elements i and i + 8 share a byte."""
    return lambda blocks: packed(unpacked(blocks[field], bits, 32), bits, 8)


def _look_up(blocks: Array) -> Array:
    """
    Replaces each 4-bit code by its table entry, because kernels would read the table more slowly.
    """
    return FOUR_BITS[unpacked(blocks["q"], 4, 16)]


def _exponent(blocks: Array) -> Array:
    """
    Returns the exponent bits of an f32 for each block's power of two, plus 14.

    Raises `FrontendError` for powers above 2^113.
    """
    biased = blocks["d"].astype(np.int32) + 14
    if (most := biased.max(initial=0)) > 254:
        raise FrontendError(
            f"a block is scaled by 2^{most - 141}, more than 2^113",
            "a tensor in MXFP4",
            "convert the model again with scales of at most 2^113",
        )
    return biased


def _unsigned_scales(blocks: Array) -> Array:
    """Returns the low seven bits of unsigned f8 scales; NaN becomes 0, as in ggml."""
    return np.where(blocks["d"] == 127, 0, blocks["d"] & 127)


def _three_k_scales(blocks: Array) -> Array:
    """Unpacks 16 scales of 6 bits: 8 bytes contain the lower 4 bits, 4 bytes the upper 2 bits."""
    scales = blocks["s"]
    lower = np.concatenate([scales[..., :8] & 15, scales[..., :8] >> 4], -1)
    upper = unpacked(scales[..., 8:], 2, 4)
    return (lower | upper << 4).astype(np.int8) - np.int8(32)


def _xs_scales(blocks: Array) -> Array:
    """Unpacks eight 6-bit scales: nibbles of the lower bits, then a word of the upper two bits."""
    upper = blocks["h"][..., None] >> np.arange(0, 16, 2, dtype=np.uint16) & 3
    return (unpacked(blocks["s"], 4) | upper << 4).astype(np.int8) - np.int8(32)


def of_bits(bits: int, size: int, scale: Element, zero: Element | None = None) -> BlockFormat:
    """
    Returns a format of `size` unsigned elements of 2, 4 or 8 bits, with a scale and a zero point.

    An element is (q - z) * d. The default zero point is the middle of the range. Raises
    `ValueError` if `size` is not a multiple of the number of elements in four bytes.
    """
    groups, count = _groups_of(bits, size), 8 // bits
    planes = {"q": Plane(U8, "gj"), "d": Plane(scale)}
    if zero is not None:
        planes["z"] = Plane(zero)

    def formula(x: Numbers, i: Numbers) -> Number:
        q = x["q"] if count == 1 else _bits(x["q"], i["h"], bits)
        return (q.to(F32) - (x["z"].to(F32) if zero is not None else 1 << bits - 1)) * x["d"]

    return BlockFormat(f"{bits} bits", groups, planes, formula)


def _groups_of(bits: int, size: int) -> dict[str, int]:
    """Returns the trip counts of a block's loops. Raises `ValueError` for an unsuitable size."""
    count = 8 // bits
    apart = next((n for n in (16, 8, 4) if n * count <= max(MOST, n) and not size % (n * count)), 0)
    if not apart:
        raise ValueError(
            f"blocks have {size} elements of {bits} bits: use a multiple of {4 * count}"
        )
    return {"g": size // (count * apart), **({"h": count} if count > 1 else {}), "j": apart}


def of_floats(type: ReducedPrecisionFloatType, size: int, scale: Element | None) -> BlockFormat:
    """
    Returns a format of `size` narrow floats, with or without a scale per block.

    Two 4-bit floats share a byte; other floats have a byte each. Raises `ValueError` for a wrong
    size, and for a type that f16 cannot represent.
    """
    if not is_part_of_half(type):
        raise ValueError(f"blocks of {type} are not supported: f16 cannot represent the type")
    bits = 4 if type.bitwidth == 4 else 8

    def formula(x: Numbers, i: Numbers) -> Number:
        q = x["q"] if bits == 8 else _low(x, i)
        number = q.scalars.as_number(extend(q.scalars.builder, q.value, type), F16).to(F32)
        return number if scale is None else number * x["d"]

    planes = {"q": Plane(U8, "gj"), **({} if scale is None else {"d": Plane(scale)})}
    return BlockFormat(str(type), _groups_of(bits, size), planes, formula)


_QUARTERS = {"u": 2, "h": 2, "j": 8}
_SUPER_BLOCK = [("d", "<f2"), ("e", "<f2"), ("s", "u1", 12)]
_SUPER_CUT = {"s": _six_bits(False), "m": _six_bits(True), "q": _repack_field("q", 4, 32)}
_HALVES = {"h": 2, "j": 16}
_WORDS = {"h": 2, "w": 4, "c": 4}

FORMATS: dict[str, BlockFormat] = {
    f.name: f
    for f in (
        BlockFormat(
            "Q4_0",
            _HALVES,
            {"q": Plane(U8, "j"), "d": Plane(F16)},
            lambda x, i: _offset(8)(x, _low(x, i)),
            np.dtype([("d", "<f2"), ("q", "u1", 16)]),
        ),
        BlockFormat(
            "Q4_1",
            _HALVES,
            {"q": Plane(U8, "j"), "d": Plane(F16), "m": Plane(F16)},
            lambda x, i: _from_minimum(x, _low(x, i)),
            np.dtype([("d", "<f2"), ("m", "<f2"), ("q", "u1", 16)]),
        ),
        BlockFormat(
            "Q5_0",
            _WORDS,
            {"q": Plane(U8, "wc"), "b": Plane(U8, "c"), "d": Plane(F16)},
            lambda x, i: _offset(16)(x, _five(x, i)),
            np.dtype([("d", "<f2"), ("b", "u1", 4), ("q", "u1", 16)]),
            {"b": _fifth_bits},
        ),
        BlockFormat(
            "Q5_1",
            _WORDS,
            {"q": Plane(U8, "wc"), "b": Plane(U8, "c"), "d": Plane(F16), "m": Plane(F16)},
            lambda x, i: _from_minimum(x, _five(x, i)),
            np.dtype([("d", "<f2"), ("m", "<f2"), ("b", "u1", 4), ("q", "u1", 16)]),
            {"b": _fifth_bits},
        ),
        BlockFormat(
            "Q8_0",
            {"g": 2, "j": 16},
            {"q": Plane(I8, "gj"), "d": Plane(F16)},
            lambda x, i: x["q"] * x["d"],
            np.dtype([("d", "<f2"), ("q", "i1", 32)]),
        ),
        BlockFormat(
            "MXFP4",
            _HALVES,
            {"q": Plane(U8, "j"), "d": Plane(U8)},
            _power_scaled,
            np.dtype([("d", "u1"), ("q", "u1", 16)]),
            {"d": _exponent},
        ),
        BlockFormat(
            "NVFP4",
            {"g": 2, **_HALVES},
            {"q": Plane(U8, "gj"), "d": Plane(U8, "gh")},
            _float_scaled,
            np.dtype([("d", "u1", 4), ("q", "u1", 32)]),
            {"q": _repack_field("q", 4, 8), "d": _unsigned_scales},
        ),
        BlockFormat(
            "IQ4_NL",
            {"g": 2, "j": 16},
            {"q": Plane(I8, "gj"), "d": Plane(F16)},
            lambda x, i: x["q"] * x["d"],
            np.dtype([("d", "<f2"), ("q", "u1", 16)]),
            {"q": _look_up},
        ),
        BlockFormat(
            "IQ4_XS",
            {"g": 8, "k": 2, "j": 16},
            {"q": Plane(I8, "gkj"), "d": Plane(F16), "s": Plane(I8, "g")},
            lambda x, i: x["q"] * (x["d"] * x["s"]),
            np.dtype([("d", "<f2"), ("h", "<u2"), ("s", "u1", 4), ("q", "u1", 128)]),
            {"q": _look_up, "s": _xs_scales},
        ),
        BlockFormat(
            "Q2_K",
            {"g": 8, **_QUARTERS},
            {"q": Plane(U8, "gj"), "d": Plane(F16), "e": Plane(F16), "s": Plane(U8, "gu")},
            _two_k,
            np.dtype([("s", "u1", 16), ("q", "u1", 64), ("d", "<f2"), ("e", "<f2")]),
            {"q": _repack_narrow("q", 2)},
        ),
        BlockFormat(
            "Q3_K",
            {"g": 4, "v": 2, **_QUARTERS},
            {
                "q": Plane(U8, "gvj"),
                "b": Plane(U8, "gj"),
                "s": Plane(I8, "gvu"),
                "d": Plane(F16),
            },
            _three_k,
            np.dtype([("b", "u1", 32), ("q", "u1", 64), ("s", "u1", 12), ("d", "<f2")]),
            {
                "q": _repack_narrow("q", 2),
                "b": _repack_narrow("b", 1),
                "s": _three_k_scales,
            },
        ),
        BlockFormat(
            "Q4_K",
            {"g": 8, "h": 2, "j": 16},
            {
                "q": Plane(U8, "gj"),
                "d": Plane(F16),
                "e": Plane(F16),
                "s": Plane(U8, "g"),
                "m": Plane(U8, "g"),
            },
            lambda x, i: _super_block(x, _low(x, i)),
            np.dtype([*_SUPER_BLOCK, ("q", "u1", 128)]),
            _SUPER_CUT,
        ),
        BlockFormat(
            "Q5_K",
            {"v": 2, "u": 4, "h": 2, "j": 16},
            {
                "q": Plane(U8, "vuj"),
                "b": Plane(U8, "vj"),
                "d": Plane(F16),
                "e": Plane(F16),
                "s": Plane(U8, "vu"),
                "m": Plane(U8, "vu"),
            },
            lambda x, i: _super_block(x, _five_k(x, i)),
            np.dtype([*_SUPER_BLOCK, ("b", "u1", 32), ("q", "u1", 128)]),
            {**_SUPER_CUT, "b": _repack_field("b", 1, 32)},
        ),
        BlockFormat(
            "Q6_K",
            {"v": 4, "u": 2, "h": 2, "j": 16},
            {
                "q": Plane(U8, "vuj"),
                "b": Plane(U8, "vj"),
                "s": Plane(I8, "vuh"),
                "d": Plane(F16),
            },
            _six_k,
            np.dtype([("q", "u1", 128), ("b", "u1", 64), ("s", "i1", 16), ("d", "<f2")]),
            {"q": _repack_field("q", 4, 64), "b": _repack_field("b", 2, 32)},
        ),
    )
}
"""Block formats of GGUF by name."""
