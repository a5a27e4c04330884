"""
Language models of GGUF files in numpy, computed in f32 from weights that PyPI's `gguf` dequantizes.

The reference shares no code with the tested importer (reader, formats, graph). It follows the
intent of the files' authors: llama rotates pairs of neighbouring elements. qwen2 and qwen3 rotate
pairs of elements at a distance of half a head.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

gguf: Any = import_module("gguf")

NEIGHBOURS = ("llama",)
"""Architectures that rotate pairs of neighbouring elements."""


class Reference:
    """
    A model and its cache of keys and values.

    `cache` is the type to which keys and values are rounded. `products` is the type to which
    weights and other factors are rounded.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        cache: Any = np.float16,
        products: Any = np.float32,
    ):
        reader = gguf.GGUFReader(path)
        self.fields = {name: field.contents() for name, field in reader.fields.items()}
        self.architecture: str = self.fields["general.architecture"]
        self.weights: dict[str, Array] = {
            t.name: gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float32)
            for t in reader.tensors
        }
        self.cache_type = np.dtype(cache)
        self.products = np.dtype(products)
        self.width: int = self.value("embedding_length")
        self.heads: int = self.value("attention.head_count")
        self.shared: int = self.value("attention.head_count_kv", self.heads)
        self.head: int = self.value("attention.key_length", self.width // self.heads)
        self.turned: int = self.value("rope.dimension_count", self.head)
        self.reset()

    def value(self, key: str, default: Any = None) -> Any:
        """Returns a metadata value whose key has the architecture as its prefix."""
        field = self.fields.get(f"{self.architecture}.{key}", default)
        assert field is not None, key
        return field

    def reset(self) -> None:
        """Clears the cache."""
        blocks: int = self.value("block_count")
        empty = np.zeros((self.shared, 0, self.head), self.cache_type)
        self.keys = [empty] * blocks
        self.values = [empty] * blocks

    def run(self, tokens: Sequence[int] | Array) -> Array:
        """Appends tokens to the context. Returns the logits of each token."""
        past = self.keys[0].shape[1]
        x = self.weights["token_embd.weight"][np.asarray(tokens)]
        for block in range(len(self.keys)):
            name = f"blk.{block}."
            x = x + self._attention(self._normalized(x, name + "attn_norm"), block, past)
            x = x + self._feed_forward(self._normalized(x, name + "ffn_norm"), name)
        x = self._normalized(x, "output_norm")
        tied = "output.weight" not in self.weights
        return self._product(x, "token_embd" if tied else "output")

    def greedy(self, prompt: Sequence[int], count: int) -> list[int]:
        """Returns `count` tokens after a prompt, each the likeliest."""
        self.reset()
        tokens: list[int] = []
        logits = self.run(prompt)[-1]
        for _ in range(count):
            tokens.append(int(logits.argmax()))
            logits = self.run(tokens[-1:])[-1]
        return tokens

    def _product(self, x: Array, name: str) -> Array:
        weights = self.weights[f"{name}.weight"]
        if self.products != np.float32:
            x, weights = (t.astype(self.products).astype(np.float32) for t in (x, weights))
        bias = self.weights.get(f"{name}.bias")
        return x @ weights.T if bias is None else x @ weights.T + bias

    def _normalized(self, x: Array, name: str) -> Array:
        epsilon = np.float32(self.value("attention.layer_norm_rms_epsilon"))
        root = np.sqrt(np.mean(x * x, -1, keepdims=True) + epsilon)
        return x / root * self.weights[f"{name}.weight"]

    def _turned(self, x: Array, past: int) -> Array:
        """
        Applies rotary embeddings to x (heads x tokens x head size), by the positions of the tokens.
        """
        half = self.turned // 2
        base = float(self.value("rope.freq_base", 10000.0))
        frequencies = base ** (-np.arange(half) / half)
        if "rope_freqs.weight" in self.weights:
            frequencies = frequencies / self.weights["rope_freqs.weight"].astype(np.float64)
        if self.fields.get(f"{self.architecture}.rope.scaling.type") == "linear":
            frequencies = frequencies / self.value("rope.scaling.factor")
        angles = np.arange(past, past + x.shape[1])[:, None] * frequencies
        cosine, sine = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
        if self.architecture in NEIGHBOURS:
            one, other = slice(0, self.turned, 2), slice(1, self.turned, 2)
        else:
            one, other = slice(0, half), slice(half, self.turned)
        result = x.copy()
        result[..., one] = x[..., one] * cosine - x[..., other] * sine
        result[..., other] = x[..., one] * sine + x[..., other] * cosine
        return result

    def _heads(self, x: Array, count: int) -> Array:
        return x.reshape(len(x), count, self.head).swapaxes(0, 1)

    def _attention(self, x: Array, block: int, past: int) -> Array:
        name = f"blk.{block}."
        q = self._heads(self._product(x, name + "attn_q"), self.heads)
        k = self._heads(self._product(x, name + "attn_k"), self.shared)
        v = self._heads(self._product(x, name + "attn_v"), self.shared)
        if name + "attn_q_norm.weight" in self.weights:
            q = self._normalized(q, name + "attn_q_norm")
            k = self._normalized(k, name + "attn_k_norm")
        q, k = self._turned(q, past), self._turned(k, past)
        for cache, new in ((self.keys, k), (self.values, v)):
            cache[block] = np.concatenate([cache[block], new.astype(self.cache_type)], 1)
        group = self.heads // self.shared
        keys, values = (
            np.repeat(cache[block].astype(np.float32), group, 0)
            for cache in (self.keys, self.values)
        )
        scores = q @ keys.swapaxes(1, 2) / np.sqrt(np.float32(self.head))
        rows, columns = scores.shape[1:]
        scores[:, np.arange(columns) > np.arange(rows)[:, None] + past] = -np.inf
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        shares = powers / powers.sum(-1, keepdims=True)
        result = (shares @ values).swapaxes(0, 1).reshape(len(x), -1)
        return self._product(result, name + "attn_output")

    def _feed_forward(self, x: Array, name: str) -> Array:
        gate = self._product(x, name + "ffn_gate")
        up = self._product(x, name + "ffn_up")
        return self._product(gate / (1 + np.exp(-gate)) * up, name + "ffn_down")
