"""Launches on block formats: dequantization, quantization, rows by index, q8_1 blocks."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from gguf import quants
from gguf.constants import GGMLQuantizationType

from ggml.formats import FORMATS, PLAIN, QUANTIZED, Format, random_matrix
from ggml.launch import Array, Case
from ggml.tensors import Tensor, binary_push, cover, generator, numbers, unary_push

HALF = 2e-3
PACKED = ("q1_0", "q2_0", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "iq4_nl")
"""Formats that ggml quantizes on the device."""

ELEMENTS = {"q1_0": 2048, "q2_0": 1024, "q4_k": 8192, "iq4_nl": 4096, "mxfp4": 4096, "nvfp4": 4096}
"""Elements per workgroup of the shader `dequant_*` for exceptional formats."""

NEAREST = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113])
"""Values of the sixteen quants of iq4_nl."""


def unpacking() -> Iterator[Case]:
    """Yields dequantizations of all formats to f16, also with transposition."""
    for name, format in (QUANTIZED | {"f32": PLAIN["f32"]}).items():
        for rows, columns in ((1, 5 * max(format.size, 16)), (3, 2048)):
            blocks, values = random_matrix(name, generator(name), rows, columns)
            denominator = ELEMENTS.get(name) or (16384 if name[-1] == "k" or name == "tq2_0" else
                                                 8192 if name[0] == "i" else 4096)  # fmt: skip
            push = {"M": rows, "K": columns, "stride_a": columns, "stride_b": columns}
            wanted = values.astype(np.float16).ravel()
            yield Case(f"dequant_{name}", (-(-rows * columns // denominator), 1, 1),
                       {0: blocks, 1: np.zeros_like(wanted)}, {1: wanted},
                       push | {"nel": rows * columns}, relative=HALF)  # fmt: skip
    blocks, values = random_matrix("q8_0", generator("transpose"), 2 * 7 * 3, 64)
    wanted = values.reshape(2, 7, 3, 64).swapaxes(1, 2).astype(np.float16).ravel()
    push = {"M": 64, "K": 3, "stride_a": 7, "stride_b": 0, "nel": 2 * 7 * 3 * 64}
    yield Case("dequant_q8_0_transpose", (1, 1, 1), {0: blocks, 1: np.zeros_like(wanted)},
               {1: wanted}, push, relative=HALF)  # fmt: skip


def in_blocks(push: dict[str, int], number: int, format: Format, tensor: Tensor) -> dict[str, int]:
    """Returns push constants of a tensor in blocks: extents in elements, strides in blocks."""
    strides = {f"nb{number}0": 1}
    strides |= {f"nb{number}{n}": tensor.nb[n] // format.size for n in (1, 2, 3)}
    return push | strides


def rows_by_index() -> Iterator[Case]:
    """Yields cases that gather rows of every format by two batches of indices."""
    for (name, format), target in itertools.product(FORMATS.items(), ("f16", "f32")):
        random = generator("rows" + name)
        columns, rows = 3 * format.size if format.size > 1 else 66, 5
        blocks, matrix = random_matrix(name, random, 2 * rows, columns)
        a = Tensor(matrix.reshape(1, 2, rows, columns))
        b = Tensor(random.integers(0, rows, (1, 2, 3)).astype(np.int32), offset=0)
        batches = np.arange(2)[:, None]
        picked = matrix.reshape(2, rows, columns)[batches, b.view[0, 0]]
        d = Tensor(picked.astype({"f16": np.float16, "f32": np.float32}[target]))
        yield _rows(name, "" if target == "f16" else "_f32", format, a, b, d, blocks)
    random = generator("rows of words")
    a = Tensor(random.integers(0, 1 << 31, (2, 5, 33)).astype(np.int32))
    b = Tensor(random.integers(0, 5, (1, 2, 3)).astype(np.int32))
    d = Tensor(a.view[0][np.arange(2)[:, None], b.view[0, 0]])
    yield _rows("i32", "", PLAIN["f32"], a, b, d, a.buffer)


def _rows(
    name: str, suffix: str, format: Format, a: Tensor, b: Tensor, d: Tensor, blocks: Array
) -> Case:
    """
    Returns a `get_rows` case: the tensor `b` holds indices along one axis, and batches along
    another.
    """
    push = binary_push(a, b, d)
    if format.size > 1:
        push = in_blocks(push, 0, format, a)
    width = 1024 if format.size > 1 else 512
    grid = (-(-a.ne[0] // width), b.ne[0], b.ne[1] * b.ne[2])
    return Case(f"get_rows_{name}{suffix}", grid, {0: blocks, 1: b.buffer, 2: d.blank},
                {2: d.buffer}, push, {0: False}, relative=HALF)  # fmt: skip


def rows_back() -> Iterator[Case]:
    """Yields cases of the gradient of `get_rows`, which scatters and sums rows."""
    random = generator("rows back")
    a = Tensor(numbers(random, (1, 1, 9, 300)))
    b = Tensor(random.integers(0, 4, (9,)).astype(np.int32))
    sums = np.zeros((6, 300))
    np.add.at(sums, b.buffer, a.values[0, 0])
    d = Tensor(sums.astype(np.float32))
    yield Case("get_rows_back_f32", (2, 6, 1), {0: a.buffer, 1: b.buffer, 2: d.blank},
               {2: d.buffer}, binary_push(a, b, d), {0: False}, absolute=1e-5)  # fmt: skip


def pack(name: str, values: Array) -> Array:
    """Returns the rows of f32 quantized to blocks as ggml's shader does."""
    rows = np.ascontiguousarray(values, np.float32).reshape(-1, QUANTIZED[name].size)
    match name:
        case "q1_0":
            scale = _sums(np.abs(rows)) / np.float32(128)
            bits = np.packbits(rows >= 0, axis=1, bitorder="little")
            return np.hstack((_half(scale), bits)).ravel()
        case "q2_0":
            scale = np.abs(rows).max(1)
            scaled = rows * _inverse(scale)[:, None]
            nearest = np.sign(scaled) * np.floor(np.abs(scaled) + np.float32(0.5))
            quant = np.clip(nearest + 1, 0, 3).astype(np.uint8).reshape(len(rows), -1, 4)
            packed = (quant << np.array([0, 2, 4, 6], np.uint8)).sum(2, dtype=np.uint8)
            return np.hstack((_half(scale), packed)).ravel()
        case "iq4_nl":
            return _pack_nearest(rows)
        case _:
            return quants.quantize(rows, GGMLQuantizationType[name.upper()]).ravel()


def _half(scale: Array) -> Array:
    return scale.astype("<f2")[:, None].view(np.uint8)


def _inverse(scale: Array) -> Array:
    return np.divide(np.float32(1), scale, where=scale != 0, out=np.zeros_like(scale))


def _sums(rows: Array) -> Array:
    """Returns sums in f32, added in sequence."""
    total = np.zeros(len(rows), np.float32)
    for column in rows.T:
        total += column
    return total


def _pack_nearest(rows: Array) -> Array:
    largest = rows[np.arange(len(rows)), np.abs(rows).argmax(1)]
    scale = largest / np.float32(NEAREST[0])
    scaled = rows * _inverse(scale)[:, None]
    quant = np.abs(scaled[..., None] - NEAREST).argmin(2).astype(np.uint8)
    value = NEAREST[quant].astype(np.float32)
    weight = rows * rows
    above, below = (weight * value * rows).reshape(-1, 2, 16).swapaxes(0, 1)
    squares = (weight * value * value).reshape(-1, 2, 16).swapaxes(0, 1)
    scale = _sums(above + below) / _sums(squares[0] + squares[1])
    return np.hstack((_half(scale), quant[:, :16] | quant[:, 16:] << 4)).ravel()


def packing() -> Iterator[Case]:
    """Yields copies to and from block formats."""
    for name in PACKED:
        format = QUANTIZED[name]
        random = generator("pack" + name)
        a = Tensor(numbers(random, (1, 2, 3, 3 * format.size)), order=(0, 2, 1, 3), offset=1)
        d = Tensor(np.zeros(a.view.shape, np.int8))
        blocks = pack(name, a.view)
        push = in_blocks(unary_push(a, d), 1, format, d)
        yield Case(f"cpy_f32_{name}", cover(d.count // format.size, 32),
                   {0: a.buffer, 1: blocks * 0}, {1: blocks}, push)  # fmt: skip
        blocks, values = random_matrix(name, random, 6, 3 * format.size)
        a = Tensor(np.zeros((1, 2, 3, 3 * format.size), np.int8))
        d = Tensor(values.astype(np.float32).reshape(1, 2, 3, -1), order=(0, 2, 1, 3))
        push = in_blocks(unary_push(a, d), 0, format, a)
        yield Case(f"cpy_{name}_f32", cover(d.count, format.size), {0: blocks, 1: d.blank},
                   {1: d.buffer}, push)  # fmt: skip


def rows_set() -> Iterator[Case]:
    """Yields cases that quantize rows and store them at indices of 32 or 64 bits."""
    targets = ("f32", "f16", "bf16", *PACKED)
    for source, target, bits in itertools.product(("f32", "f16"), targets, (32, 64)):
        format = FORMATS[target]
        random = generator(source + target)
        columns, rows = 2 * format.size if format.size > 1 else 70, 6
        a = Tensor(numbers(random, (1, 2, 3, columns), source), order=(0, 2, 1, 3), offset=3)
        index = np.stack([random.permutation(rows)[:3] for _ in range(2)])
        b = Tensor(index.astype(f"i{bits // 8}").reshape(1, 1, 2, 3), offset=1)
        d = Tensor(np.zeros((1, 2, rows, columns), np.int8))
        plain = a.view.astype(np.float32)
        kinds = {"f32": np.float32, "f16": np.float16}
        if target in PACKED:
            packed = pack(target, plain).reshape(2, 3, -1)
        elif target == "bf16":
            packed = _bfloat16(plain[0])
        else:
            packed = plain[0].astype(kinds[target])
        before = np.zeros((2, rows, packed.shape[2]), packed.dtype)
        after = before.copy()
        after[np.arange(2)[:, None], index] = packed
        push = binary_push(a, b, d) | {"ne": a.count}
        if format.size > 1:
            push = in_blocks(push, 2, format, d)
        count = -(-a.count // (32 * format.size if format.size > 1 else 512))
        yield Case(f"set_rows_{source}_{target}_i{bits}", cover(count, 1),
                   {0: a.buffer, 1: b.buffer, 2: before}, {2: after}, push,
                   {0: True}, relative=1e-6)  # fmt: skip


def _bfloat16(values: Array) -> Array:
    """Rounds to nearest even and returns the bits as integers."""
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def bytes_of_dots(values: Array, by_four: bool) -> Array:
    """
    Quantizes values to q8_1 blocks: a scale and a sum, then 32 bytes.

    With `by_four`, four blocks are stored together: their scales and sums, then their 128 bytes.
    """
    rows = values.astype(np.float32).reshape(-1, 32)
    scale = np.abs(rows).max(1) / np.float32(127)
    quant = np.rint(rows * _inverse(scale)[:, None])
    heads = np.stack((scale, quant.sum(1, dtype=np.float32) * scale), 1).astype("<f2")
    if not by_four:
        return np.hstack((heads.view(np.uint8), quant.astype(np.int8).view(np.uint8))).ravel()
    spare = -len(rows) % 4
    heads = np.pad(heads, ((0, spare), (0, 0))).reshape(-1, 8).view(np.uint8)
    quant = np.pad(quant.astype(np.int8), ((0, spare), (0, 0))).reshape(-1, 128).view(np.uint8)
    return np.hstack((heads, quant)).ravel()


def packing_for_dots() -> Iterator[Case]:
    """Yields quantizations to q8_1, also of block counts that leave a workgroup partly idle."""
    for by_four, subgroup, kind in itertools.product((False, True), (32, 64), ("", "_subgroup")):
        for count in (128 * 6, 128 * 5) if by_four else (128 * 6,):
            values = numbers(generator(f"{count}"), (count,))
            blocks = bytes_of_dots(values, by_four)
            groups = -(-count // (4 * subgroup))
            odd = -(-count // 128) * 128 % (4 * subgroup) != 0
            yield Case(f"quantize_q8_1{'_x4' * by_four}{kind}", (groups, 1, 1),
                       {0: values, 1: blocks * 0}, {1: blocks},
                       {"ne": count, "num_blocks": groups}, {0: subgroup}, subgroup,
                       note=f"groups of {subgroup}, {'odd' if odd else 'even'} count")  # fmt: skip


FAMILIES = (unpacking, rows_by_index, rows_back, packing, rows_set, packing_for_dots)
