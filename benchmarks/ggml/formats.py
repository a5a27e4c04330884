"""
ggml's block formats: sizes of blocks, random blocks and their values.

PyPI's `gguf`, which is ggml's own numpy code, decodes the blocks of the formats that it supports.
This module decodes the rest. In every format random bytes are valid quants. Only the scales are
chosen: they are small floats, so that sums stay finite.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ggml.launch import Array

try:
    from gguf import quants
    from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
except ImportError as error:
    raise SystemExit("ggml's block formats need PyPI's gguf: pip install gguf") from error


@dataclass(frozen=True)
class Format:
    """A block of `size` elements in `bytes` bytes. `scales` are byte offsets of f16 scales."""

    name: str
    size: int
    bytes: int
    scales: tuple[int, ...]

    def random(self, random: np.random.Generator, elements: int) -> Array:
        """Returns blocks with random quants and small scales."""
        blocks = random.integers(0, 256, (elements // self.size, self.bytes), np.uint8)
        for place in self.scales:
            scale = random.uniform(0.01, 0.1, len(blocks)).astype("<f2")
            blocks[:, place : place + 2] = scale[:, None].view(np.uint8)
        match self.name:
            case "mxfp4":
                blocks[:, 0] = random.integers(120, 130, len(blocks))
            case "nvfp4":
                blocks[:, :4] = random.integers(32, 72, (len(blocks), 4))
            case "iq1_m":
                _spread_scale(blocks, random)
            case _:
                pass
        return blocks.reshape(-1)

    def values(self, blocks: Array) -> Array:
        """Returns the values of the blocks in binary64."""
        rows = blocks.reshape(-1, self.bytes)
        match self.name:
            case "q1_0":
                bits = np.unpackbits(rows[:, 2:], axis=1, bitorder="little")
                return (_scale(rows) * (2.0 * bits - 1)).ravel()
            case "q2_0":
                pairs = rows[:, 2:, None] >> np.array([0, 2, 4, 6], np.uint8) & 3
                return (_scale(rows) * (pairs.reshape(len(rows), -1) - 1.0)).ravel()
            case "f32" | "f16" | "bf16":
                kind = {"f32": "f4", "f16": "f2", "bf16": "u2"}[self.name]
                plain = blocks.view(kind)
                if self.name == "bf16":
                    plain = (plain.astype(np.uint32) << 16).view(np.float32)
                return plain.astype(np.float64)
            case _:
                values = quants.dequantize(rows, GGMLQuantizationType[self.name.upper()])
                return values.astype(np.float64).ravel()


def _scale(rows: Array) -> Array:
    return np.ascontiguousarray(rows[:, :2]).view("<f2").astype(np.float64)


def _spread_scale(blocks: Array, random: np.random.Generator) -> None:
    """Writes random scales into the upper four bits of iq1_m's four 16-bit words."""
    scale = random.uniform(0.01, 0.1, len(blocks)).astype("<f2").view("<u2")
    words = np.ascontiguousarray(blocks[:, 48:56]).view("<u2")
    for place in range(4):
        words[:, place] = words[:, place] & 0xFFF | (scale >> 4 * place & 15) << 12
    blocks[:, 48:56] = words.view(np.uint8)


def _known(name: str, *scales: int) -> Format:
    size, bytes = GGML_QUANT_SIZES[GGMLQuantizationType[name.upper()]]
    return Format(name, size, bytes, scales)


QUANTIZED = {
    f.name: f
    for f in (
        Format("q1_0", 128, 18, (0,)),
        Format("q2_0", 64, 18, (0,)),
        _known("q4_0", 0),
        _known("q4_1", 0, 2),
        _known("q5_0", 0),
        _known("q5_1", 0, 2),
        _known("q8_0", 0),
        _known("q2_k", 80, 82),
        _known("q3_k", 108),
        _known("q4_k", 0, 2),
        _known("q5_k", 0, 2),
        _known("q6_k", 208),
        _known("iq1_s", 0),
        _known("iq1_m"),
        _known("iq2_xxs", 0),
        _known("iq2_xs", 0),
        _known("iq2_s", 0),
        _known("iq3_xxs", 0),
        _known("iq3_s", 0),
        _known("iq4_xs", 0),
        _known("iq4_nl", 0),
        _known("mxfp4"),
        _known("nvfp4"),
        _known("tq2_0", 64),
    )
}
PLAIN = {
    "f32": Format("f32", 1, 4, ()),
    "f16": Format("f16", 1, 2, ()),
    "bf16": Format("bf16", 1, 2, ()),
}
FORMATS = PLAIN | QUANTIZED


def random_matrix(name: str, random: np.random.Generator, rows: int, columns: int) -> Any:
    """Returns random blocks of a format and the matrix of their values."""
    format = FORMATS[name]
    if name in PLAIN:
        values = random.uniform(-1, 1, rows * columns).astype(np.float32)
        kind = {"f32": values, "f16": values.astype(np.float16)}.get(name)
        blocks = values.view(np.uint32) >> 16 if kind is None else kind
        blocks = (blocks.astype(np.uint16) if kind is None else blocks).view(np.uint8)
    else:
        blocks = format.random(random, rows * columns)
    return blocks, format.values(blocks).reshape(rows, columns)
