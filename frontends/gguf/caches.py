"""
Defines the states that hold a model's keys and values: their types and sizes.

Blocks with a sliding window need only the tokens of the window. If the window is shorter than the
context, their states have `room` for the retained tokens and the tokens of one run. Before a run
that does not fit, a function moves the retained tokens to the front.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.dialects import math

from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.frontends.gguf.parameters import Parameters
from xdsl_spirv.frontends.onnx.building import TensorBuilder
from xdsl_spirv.frontends.onnx.scalars import Number, Scalars
from xdsl_spirv.frontends.onnx.values import ELEMENTS, F16, F32, I8, I32, Element, Tensor

CHUNK = 512
"""Maximum number of tokens in one run, to bound the memory of temporaries."""
TAKEN_BACK = 16
"""Number of last tokens that can be removed again if a draft model proposed them wrongly."""


@dataclass(frozen=True)
class Sliding:
    """
    Sizes of the states of windowed blocks, in tokens: the states hold `room` tokens, and keep the
    last `keep` tokens when the tokens move to the front.
    """

    room: int
    keep: int
    window: int

    @staticmethod
    def find(p: Parameters, context: int, chunk: int = CHUNK) -> Sliding | None:
        """
        Returns the sizes of sliding states, for runs of at most `chunk` tokens. Returns None if all
        states hold the whole context.
        """
        keep = p.window - 1 + TAKEN_BACK
        has_room = not p.window or not any(p.pattern) or keep + chunk >= context
        return None if has_room else Sliding(keep + chunk, keep, p.window)


@dataclass(frozen=True)
class Cache:
    """A format of stored keys and values."""

    stored: Element
    scaled: bool = False

    @property
    def element(self) -> Element:
        """Element type of keys and values in attention."""
        return F16 if self.stored.bits == 8 else self.stored

    def bytes(self, head: int) -> int:
        """Returns the bytes of one token in a head of `head` elements."""
        return head * self.stored.dtype.itemsize + F16.dtype.itemsize * self.scaled

    def parts(self, head: int) -> Mapping[str, tuple[Element, int]]:
        """Returns element type and row length of each tensor of a state, by name suffix."""
        rows = {"": (self.stored, head)}
        return rows | ({"_scale": (F16, 1)} if self.scaled else {})

    def pack(self, b: TensorBuilder, rows: Tensor) -> Mapping[str, Tensor]:
        """Converts new rows to the tensors in which a state stores them, by name suffix."""
        if not self.scaled:
            return {"": b.convert(rows, self.stored)}
        largest = b.reduce(
            lambda s, x, m: s.maximum(m, s.absolute(x)), 0, rows, [rows.rank - 1], element=F32
        )
        scale = b.elementwise(lambda s, m: (m / 127).to(F16), largest, element=F16)

        def step(s: Scalars, d: Number, x: Number) -> Number:
            steps = s.select(d.to(F32).equals(0), 0, x.to(F32) / d.to(F32))
            whole = s.minimum(s.maximum(s.unary(math.RoundEvenOp, steps), -127.0), 127.0)
            return whole.to(I32).to(I8)

        return {"": b.elementwise(step, scale, rows, element=I8), "_scale": scale}

    def unpack(self, b: TensorBuilder, parts: Mapping[str, Tensor]) -> Tensor:
        """Converts stored rows to the type of attention."""
        if not self.scaled:
            return b.convert(parts[""], self.element)
        return b.elementwise(
            lambda s, d, q: (q.to(F32) * d.to(F32)).to(F16),
            parts["_scale"],
            parts[""],
            element=F16,
        )


CACHES = {
    "f16": Cache(F16),
    "f32": Cache(F32),
    "f8E4M3FN": Cache(ELEMENTS["f8E4M3FN"]),
    "f8E5M2": Cache(ELEMENTS["f8E5M2"]),
    "i8": Cache(I8, scaled=True),
}
"""Formats of stored keys and values, by the name of their type."""


def cache_of(name: str) -> str:
    """Returns the cache format for a type. Raises `FrontendError` for an unsupported type."""
    if name not in CACHES:
        known = ", ".join(CACHES)
        raise FrontendError(
            f"keys and values of the type {name!r} are not supported", "", f"use {known}"
        )
    return name


def state_bytes(p: Parameters, context: int, cache: str) -> int:
    """Returns the bytes of the keys and values of one text of `context` tokens."""
    sliding = Sliding.find(p, context)
    rows = sum(sliding.room if sliding and local else context for local in p.pattern)
    return 2 * rows * p.shared * CACHES[cache].bytes(p.head)
