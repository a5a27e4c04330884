"""
Computes logits of a llama model in f32, by numpy and PyTorch, from random packed weights.

PyPI's `gguf` dequantizes each matrix when it is used, on a GPU if PyTorch has one, so that models
of any size fit. Keys and values are rounded to f16 as in the cache. Nothing else is rounded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gguf
import numpy as np
from device_runs import CUDA, torch
from llama_peer import Shapes

EPSILON = 1e-5
BASE = 500000.0

Blocks = Callable[[Any, int, float], Any]
"""Type of a function from format, block count and deviation to a tensor's distinct blocks."""


class Reference:
    """The model's forward pass, without cached tokens."""

    def __init__(self, shapes: Shapes, type: Any, blocks: Blocks):
        self.shapes, self.type, self.blocks = shapes, type, blocks
        self.known: dict[tuple[int, int], Any] = {}

    def _numbers(self, rows: int, columns: int) -> Any:
        """Returns the distinct values of a matrix. The matrix repeats them."""
        elements, _ = gguf.GGML_QUANT_SIZES[self.type]
        blocks = self.blocks(self.type, rows * columns // elements, columns**-0.5)
        key = len(blocks), columns
        if key not in self.known:
            numbers = gguf.quants.dequantize(blocks, self.type).reshape(-1)
            self.known[key] = torch.from_numpy(numbers).cuda() if CUDA else numbers
        return self.known[key]

    def _rows(self, numbers: Any, rows: Any, columns: int) -> Any:
        places = (rows[:, None] * columns + np.arange(columns)) % len(numbers)
        return numbers[torch.from_numpy(places).cuda()].cpu().numpy() if CUDA else numbers[places]

    def _product(self, x: Any, rows: int) -> Any:
        numbers, columns = self._numbers(rows, x.shape[1]), x.shape[1]
        if not CUDA:
            return x @ np.resize(numbers, (rows, columns)).T
        copies = -(-rows * columns // len(numbers))
        matrix = numbers.repeat(copies)[: rows * columns].view(rows, columns)
        return (torch.from_numpy(x).cuda() @ matrix.T).cpu().numpy()

    def _normal(self, x: Any) -> Any:
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(EPSILON))

    def _turned(self, x: Any) -> Any:
        """Rotates neighbouring pairs of x (heads, tokens, head size) by each token's angles."""
        half = x.shape[-1] // 2
        angles = np.outer(np.arange(x.shape[1]), BASE ** (-np.arange(half) / half))
        cosine, sine = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
        even, odd = x[..., 0::2], x[..., 1::2]
        pairs = np.stack((even * cosine - odd * sine, even * sine + odd * cosine), -1)
        return pairs.reshape(x.shape)

    def _attended(self, x: Any) -> Any:
        s, tokens = self.shapes, x.shape[0]
        q, k, v = (
            self._product(x, count * s.head).reshape(tokens, count, s.head).transpose(1, 0, 2)
            for count in (s.heads, s.kv_heads, s.kv_heads)
        )
        q, k = self._turned(q), self._turned(k)
        k, v = (t.astype(np.float16).astype(np.float32) for t in (k, v))
        k, v = (np.repeat(t, s.heads // s.kv_heads, 0) for t in (k, v))
        scores = q @ k.transpose(0, 2, 1) * np.float32(s.head**-0.5)
        scores = np.where(np.triu(np.ones((tokens, tokens), bool), 1), -np.inf, scores)
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        merged = (powers / powers.sum(-1, keepdims=True)) @ v
        merged = np.ascontiguousarray(merged.transpose(1, 0, 2).reshape(tokens, -1))
        return self._product(merged.astype(np.float32), s.width)

    def logits(self, tokens: Any) -> Any:
        """Returns the logits of the last token."""
        s = self.shapes
        x = self._rows(self._numbers(s.vocabulary, s.width), np.asarray(tokens, np.int64), s.width)
        for _ in range(s.blocks):
            x = x + self._attended(self._normal(x))
            normal = self._normal(x)
            gate, up = self._product(normal, s.hidden), self._product(normal, s.hidden)
            x = x + self._product(gate / (1 + np.exp(-gate)) * up, s.width)
        return self._product(self._normal(x[-1:]), s.vocabulary)


def compared(logits: Any, expected: Any) -> dict[str, float | bool]:
    """Returns measures of the difference between logits and reference."""
    a, b = (np.asarray(x, np.float64).reshape(-1) for x in (logits, expected))
    return {
        "cosine": round(float(a @ b / np.sqrt((a @ a) * (b @ b))), 7),
        "largest_error": round(float(np.abs(a - b).max() / np.abs(b).max()), 6),
        "same_token": bool(a.argmax() == b.argmax()),
    }
