"""
Times a llama with random f16 weights in PyTorch under CUDA graphs, for language_model.py.

A decode step with a filled cache and a prefill with an empty cache run as CUDA graphs. Each is
timed with PyTorch's own kernels, and with blocks compiled by `torch.compile`; the faster time
counts. Query, key and value are computed by one product, gate and up by a second one. Attention is
`scaled_dot_product_attention` with grouped queries over exactly the keys present.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from device_runs import graph_us, torch


@dataclass(frozen=True)
class Shapes:
    """The sizes of a llama model."""

    blocks: int
    width: int
    heads: int
    kv_heads: int
    head: int
    hidden: int
    vocabulary: int

    @property
    def weights(self) -> int:
        """Number of weights that one token reads, including the output layer."""
        projections = self.width * self.head * (2 * self.heads + 2 * self.kv_heads)
        block = projections + 3 * self.width * self.hidden
        return self.blocks * block + self.vocabulary * self.width

    def cached(self, past: int) -> int:
        """Number of elements of the keys and values of `past` tokens."""
        return 2 * self.blocks * self.kv_heads * self.head * past


SMOLLM2_135M = Shapes(30, 576, 9, 3, 64, 1536, 49152)
LLAMA_3_8B = Shapes(32, 4096, 32, 8, 128, 14336, 128256)
TINY = Shapes(2, 256, 4, 2, 64, 512, 512)
"""Sizes that a software driver computes in seconds."""
SHAPES = {"tiny": TINY, "smollm2-135m": SMOLLM2_135M, "llama-3-8b": LLAMA_3_8B}


class Llama:
    """The model for one number of new tokens and one length of the past."""

    def __init__(self, shapes: Shapes, tokens: int, past: int, compiled: bool):
        self.shapes, self.tokens, self.past = shapes, tokens, past
        kind = {"device": "cuda", "dtype": torch.float16}
        s = shapes
        rows = (s.heads + 2 * s.kv_heads) * s.head

        def weight(*sizes: int) -> Any:
            return torch.randn(*sizes, **kind) * sizes[-1] ** -0.5

        self.blocks = [
            {
                "norms": torch.ones(2, s.width, **kind),
                "qkv": weight(rows, s.width),
                "o": weight(s.width, s.heads * s.head),
                "up": weight(2 * s.hidden, s.width),
                "down": weight(s.width, s.hidden),
                "cache": torch.randn(2, 1, s.kv_heads, past + tokens, s.head, **kind),
            }
            for _ in range(s.blocks)
        ]
        self.output = weight(s.vocabulary, s.width)
        self.embedding = torch.randn(s.vocabulary, s.width, **kind)
        self.given = torch.randint(0, s.vocabulary, (tokens,), device="cuda")
        angles = torch.arange(past, past + tokens, device="cuda")[:, None] * torch.logspace(
            0, -5, s.head // 2, device="cuda"
        )
        self.cosine, self.sine = (
            torch.cat([t, t], -1).half() for t in (angles.cos(), angles.sin())
        )
        self.block = torch.compile(self._block, dynamic=False) if compiled else self._block

    def _turned(self, x: Any) -> Any:
        one, other = x.chunk(2, -1)
        return x * self.cosine + torch.cat([-other, one], -1) * self.sine

    def _block(self, x: Any, norms: Any, qkv: Any, o: Any, up: Any, down: Any, cache: Any) -> Any:
        s, f = self.shapes, torch.nn.functional
        normal = f.rms_norm(x, (s.width,), norms[0])
        both = f.linear(normal, qkv).view(1, self.tokens, -1, s.head).transpose(1, 2)
        q, k, v = both.split([s.heads, s.kv_heads, s.kv_heads], 1)
        cache[0, :, :, self.past :] = self._turned(k)
        cache[1, :, :, self.past :] = v
        attended = f.scaled_dot_product_attention(
            self._turned(q), cache[0], cache[1], is_causal=self.past == 0, enable_gqa=True
        )
        x = x + f.linear(attended.transpose(1, 2).reshape(self.tokens, -1), o)
        gate, value = f.linear(f.rms_norm(x, (s.width,), norms[1]), up).chunk(2, -1)
        return x + f.linear(f.silu(gate) * value, down)

    def __call__(self) -> Any:
        """Returns the logits of the last token."""
        x = self.embedding[self.given]
        for weights in self.blocks:
            x = self.block(x, **weights)
        x = torch.nn.functional.rms_norm(x[-1:], (self.shapes.width,))
        return torch.nn.functional.linear(x, self.output)


def peer_ms(shapes: Shapes, tokens: int, past: int) -> dict[str, float | str]:
    """Returns PyTorch's milliseconds of a step, eager and compiled, both under CUDA graphs."""
    record: dict[str, float | str] = {}
    for name, compiled in (("graph", False), ("compiled graph", True)):
        try:
            with torch.inference_mode():
                record[name] = round(graph_us(Llama(shapes, tokens, past, compiled)) / 1e3, 4)
        except Exception as error:
            record[name] = f"{type(error).__name__}: {error}"[:200]
        torch.cuda.empty_cache()
    return record


def copy_bandwidth(bytes: int = 4 << 30) -> float:
    """Returns the bandwidth of a copy on the device in TB/s, bytes read plus written."""
    source = torch.empty(bytes // 4, dtype=torch.float32, device="cuda").random_()
    target = torch.empty_like(source)
    # A negation is a kernel. A CUDA graph runs `copy_` on a copy engine, which is slower.
    return 2 * bytes / graph_us(lambda: torch.neg(source, out=target)) / 1e6
