"""Launches of ggml's attention: scalar, dot product, cooperative matrix, sum of parts, masks."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from ggml.formats import FORMATS, random_matrix
from ggml.launch import Array, Case
from ggml.tensors import generator, numbers

TYPE_NUMBERS = {"f16": 1, "q4_0": 2, "q8_0": 8}
"""ggml's ids of the element types of keys and values."""

MASK, SOFT_CAP = 2, 4
"""Bits of a launch's flags."""


def attention() -> Iterator[Case]:
    """Yields attention of several heads, with or without mask and cap, on keys in f16 or blocks."""
    scalar = ("flash_attn_f32_f16_fp32", "flash_attn_f32_f16", "flash_attn_f32_f16_f16acc")
    for module, kind in itertools.product(scalar, ("f16", "q8_0", "q4_0")):
        yield launch(module, kind, (9, 70), MASK)
    yield launch(scalar[0], "f16", (9, 70), 0)
    yield launch(scalar[0], "f16", (9, 70), MASK | SOFT_CAP)
    yield launch(scalar[0], "f16", (1, 64), MASK)
    yield launch(scalar[0], "f16", (9, 70), MASK, split=32)
    for module in ("flash_attn_f32_f16_int8", "flash_attn_f32_f16_fp32_int8"):
        for kind in ("q8_0", "q4_0"):
            yield launch(module, kind, (9, 70), MASK)
    matrices = ("flash_attn_f32_f16_cm1", "flash_attn_f32_f16_f16acc_cm1")
    for module, kind in itertools.product(matrices, ("f16", "q8_0")):
        yield launch(module, kind, (9, 70), MASK)


def _constants(module: str, kind: str, rows: int, clamp: bool, flags: int) -> dict[int, int]:
    """
    Returns the specialization constants that ggml chooses for `rows` queries, heads of size 64 and
    32 lanes.
    """
    blocks = FORMATS[kind].bytes
    if module.endswith("_cm1"):
        first = [128, 16, 64, 64, 64, int(clamp), 8, 4, 32, 0]
    elif rows == 1:
        first = [128, 1, 64, 64, 64, int(clamp), 8, 1, 32, 0]
    else:
        first = [128, 4, 32, 64, 64, int(clamp), 8, 1, 32, 1]
    numbers_of = [TYPE_NUMBERS[kind]] * 2 + [blocks] * 2
    return dict(enumerate([*first, flags, 0, *numbers_of]))


def launch(module: str, kind: str, shape: tuple[int, int], flags: int, split: int = 0) -> Case:
    random = generator(f"{module}{kind}{shape}{flags}")
    rows, length = shape
    heads, size = 4, 64
    q = numbers(random, (1, heads, rows, size), low=-1, high=1)
    keys, k = random_matrix(kind, random, 2 * length, size)
    values, v = random_matrix(kind, random, 2 * length, size)
    if kind != "f16":
        k, v = k / 4, v / 4
        keys, values = _weaker(keys, kind), _weaker(values, kind)
    k, v = (np.repeat(x.reshape(2, length, size), 2, axis=0) for x in (k, v))
    mask = np.where(random.random((rows, length)) < 0.2, -np.inf, numbers(random, (rows, length)))
    mask = mask.astype(np.float16)
    scores = 0.125 * np.einsum("hqd,hkd->hqk", q[0].astype(float), k)
    if flags & SOFT_CAP:
        scores = 5 * np.tanh(scores / 5)
    if flags & MASK:
        scores = scores + mask.astype(float)
    constants = _constants(module, kind, rows, length % 64 != 0, flags)
    tile = constants[1]
    push: dict[str, Any] = {"N": rows, "KV": length, "ne1": heads, "ne2": rows, "ne3": 1}
    push |= {"neq2": heads, "neq3": 1, "nek2": 2, "nek3": 1, "nev2": 2, "nev3": 1}
    push |= {"nem1": rows, "nem2": 1, "nem3": 1, "nb01": size, "nb02": 4 * rows * size}
    push |= {"nb03": 4 * q.size}
    head = length * size // FORMATS[kind].size * FORMATS[kind].bytes
    for number in (1, 2):
        push |= {f"nb{number}1": size // FORMATS[kind].size, f"nb{number}2": head}
        push |= {f"nb{number}3": 2 * head}
    push |= {"scale": 0.125 / 5 if flags & SOFT_CAP else 0.125, "max_bias": 0.0}
    push |= {"logit_softcap": 5.0 if flags & SOFT_CAP else 0.0, "mask_n_head_log2": 4}
    push |= {"m0": 1.0, "m1": 1.0, "gqa_ratio": 1, "split_kv": split or length}
    parts = -(-length // split) if split else 1
    push["k_num"] = parts
    o = _weighed(scores, v).transpose(1, 0, 2).astype(np.float32)
    expected = {5: np.ascontiguousarray(o)}
    if split:
        expected = {5: _parts(scores, v, split)}
    buffers = {0: q, 1: keys, 2: values, 3: mask, 4: np.zeros(heads, np.float32)}
    buffers |= {5: expected[5] * 0, 6: np.zeros(1, np.uint32)}
    precise = "fp32" in module and "int8" not in module
    return Case(module, (-(-rows // tile) * parts, heads, 1), buffers, expected, push, constants,
                absolute=1e-3 if precise else 3e-2, relative=1e-2,
                note=f"{kind}, {rows} x {length}" + ", mask" * bool(flags & MASK)
                + ", capped" * bool(flags & SOFT_CAP) + ", in parts" * bool(split))  # fmt: skip


def _weaker(blocks: Array, kind: str) -> Array:
    """Returns blocks of `kind` whose values are a quarter of the given blocks' values."""
    rows = blocks.reshape(-1, FORMATS[kind].bytes).copy()
    scale = np.ascontiguousarray(rows[:, :2]).view("<f2") / np.float16(4)
    rows[:, :2] = scale.view(np.uint8)
    return rows.ravel()


def _weighed(scores: Array, v: Array) -> Array:
    powers = np.exp(scores - scores.max(2, keepdims=True))
    return np.einsum("hqk,hkd->hqd", powers / powers.sum(2, keepdims=True), v)


def _parts(scores: Array, v: Array, split: int) -> Array:
    """Returns the attention over each part of the keys, then (power sum, maximum) of each part."""
    length = scores.shape[2]
    # ggml starts a maximum a little above the largest score, for powers of binary16.
    offset = 3.0 * 0.6931
    sums, lows = [], []
    for start in range(0, length, split):
        part = scores[:, :, start : start + split]
        top = part.max(2, keepdims=True) + offset
        powers = np.exp(part - top)
        sums.append(np.einsum("hqk,hkd->qhd", powers, v[:, start : start + split]))
        lows.append(np.stack((powers.sum(2).T, top[..., 0].T), 1))
    joined = [np.stack(x, 1).ravel() for x in (sums, lows)]
    return np.concatenate(joined).astype(np.float32)


def sums_of_parts() -> Iterator[Case]:
    """Yields cases that sum the partial results of split keys, with sinks."""
    for with_sinks in (False, True):
        random = generator("parts")
        heads, rows, size, length = 4, 3, 80, 96
        scores = numbers(random, (heads, rows, length)).astype(float)
        v = numbers(random, (heads, length, size)).astype(float)
        parts = _parts(scores, v, 32)
        sinks = numbers(random, (heads,))
        top = scores.max(2, keepdims=True)
        extra = np.exp(sinks[:, None, None] - top) * with_sinks
        powers = np.exp(scores - top)
        o = np.einsum("hqk,hkd->qhd", powers / (powers.sum(2, keepdims=True) + extra), v)
        o = np.ascontiguousarray(o).astype(np.float32)
        push = {"D": size, "ne1": heads, "ne2": rows, "ne3": 1, "k_num": 3}
        yield Case("fa_split_k_reduce", (heads, 3, rows), {0: parts, 1: sinks, 2: o * 0}, {2: o},
                   push | {"sinks": int(with_sinks)}, {0: 32}, absolute=1e-5)  # fmt: skip


def masks() -> Iterator[Case]:
    """
    Yields cases that compress a mask to 2 bits per tile, which tell if the tile is all minus
    infinity or all zero.
    """
    for columns, rows in ((640, 64), (600, 50)):
        mask = numbers(generator("masks"), (2, rows, columns), "f16")
        mask[:, :32, 32:96] = -np.inf
        mask[1, 32:, 128:160] = 0
        words, tiles = -(-columns // 512), -(-rows // 32)
        padded = np.zeros((2, tiles * 32, words * 512), np.float32)
        low, high = padded + np.inf, padded - np.inf
        low[:, :rows, :columns] = high[:, :rows, :columns] = mask
        least = low.reshape(2, tiles, 32, words, 16, 32).min((2, 5))
        largest = high.reshape(2, tiles, 32, words, 16, 32).max((2, 5))
        bits = (largest == -np.inf) * 1 | ((least == 0) & (largest == 0)) * 2
        d = (bits << np.arange(0, 32, 2)).sum(3).astype(np.uint32)
        push = {"nem0": columns, "nem1": rows, "nem2": 1, "nbm1": columns}
        push |= {"nbm2": mask[0].size, "nbm3": mask[0].size, "nbd1": words}
        push |= {"nbd2": words * tiles, "nbd3": words * tiles}
        yield Case("fa_mask_opt", (words, tiles, 2), {0: mask, 1: d * 0}, {1: d}, push,
                   {0: 128, 1: 4, 2: 32, 3: 32}, note=f"{rows} x {columns}")  # fmt: skip


FAMILIES = (attention, sums_of_parts, masks)
