"""
Builds the function that computes one token of several texts of different lengths.

Matrix products have one row per text, so that weights are read once. The keys and values of a text
are inserted after its past tokens. Attention reads all texts up to the longest length, and a mask
hides the unused rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl_spirv.dialects.schedule.symbolic_sizes import Size
from xdsl_spirv.frontends.attention import Scores, hidden_where
from xdsl_spirv.frontends.gguf.graph import Step
from xdsl_spirv.frontends.onnx.reading import gather_rows
from xdsl_spirv.frontends.onnx.scalars import Number, Scalars
from xdsl_spirv.frontends.onnx.values import F32, Tensor


@dataclass
class BatchStep(Step):
    """Builds a function that computes one token of each text, after at most `past` tokens."""

    positions: Tensor | None = None
    """Number of past tokens of each text, as an i32 tensor."""
    pasts: Sequence[Size] = ()
    """Number of past tokens of each text, as size arguments."""
    near_positions: Tensor | None = None
    """Number of past tokens of each text in the states of windowed blocks, as an i32 tensor."""
    nears: Sequence[Size] = ()
    """Number of past tokens of each text in the states of windowed blocks, as size arguments."""
    _masks: dict[bool, Tensor] = field(default_factory=dict[bool, Tensor])

    walked = (0, 1)

    def count_seen(self, local: bool) -> Size:
        return self.past_in(local) + 1

    def outer(self, tokens: Size, heads: Size) -> list[Size]:
        return [tokens, heads]

    def as_texts(self, x: Tensor) -> Tensor:
        texts, heads, size = x.sizes
        return self.b.reshape(x, [texts, heads, 1, size])

    def at_positions(self, table: Tensor) -> Tensor:
        assert self.positions is not None
        return gather_rows(self.b, table, self.positions)

    def limit(self, scores: Scores, local: bool) -> None:
        if local not in self._masks:
            window = self.parameters.window

            def hides(s: Scalars, i: Number, key: Number, last: Number) -> Number:
                return (key > last) | (key <= last - window) if local else key > last

            near = self.near_positions if local else None
            positions = near or self.positions
            assert positions is not None
            sizes = [self.length, 1, 1, self.count_seen(local)]
            self._masks[local] = hidden_where(self.b, sizes, F32, hides, [positions])
        scores.masks = [self._masks[local]]

    def insert(self, name: str, new: Tensor, local: bool) -> Tensor:
        state = self.states[name]
        whole = self.b.value(state)
        for text, past in enumerate((local and self.nears) or self.pasts):
            part = self.b.part(new, 0, text, 1)
            whole = self.b.insert_slice(part, whole, [text, 0, past, 0])
        self.states[name] = Tensor(state.element, state.sizes, whole)
        sizes = [*state.sizes[:2], self.count_seen(local), state.sizes[3]]
        return self.b.slice(self.states[name], [0] * 4, sizes)
