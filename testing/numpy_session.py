"""
A language model in numpy that stands for a session of a compiled one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from xdsl_spirv.llm.model import PREFILL
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.errors import ProgramError

WIDTH = 8


class NumpySession:
    """
    A model whose logits depend on every token and its place, of which it keeps vectors as states.

    Equal runs give equal results: `runs` are the functions and sizes of all runs.
    """

    def __init__(self, vocabulary: int, context: int):
        generator = np.random.default_rng(5)
        self.embedding = generator.normal(size=(vocabulary, WIDTH))
        self.places = generator.normal(size=(context, WIDTH))
        self.output = generator.normal(size=(WIDTH, vocabulary))
        self.state = np.full((context, WIDTH), np.nan)
        self.runs: list[tuple[str, int, int]] = []
        self.fails = self.lost = False

    def reset(self) -> None:
        self.state[:] = np.nan
        self.lost = False

    def run(self, function: str, /, **inputs: Any) -> Mapping[str, Array]:
        token, past = inputs.pop("token"), inputs.pop("past")
        assert not inputs
        assert not self.lost
        self.runs.append((function, len(token), past))
        assert token.dtype == np.int32
        assert len(token) == 1 or function == PREFILL
        self.state[past : past + len(token)] = self.embedding[token]
        if self.fails:
            self.lost = True
            raise ProgramError("the device is gone")
        count = past + len(token)
        mixed = np.tanh(self.state[:count] * self.places[:count]).sum(0)
        return {"logits": (mixed @ self.output)[None].astype(np.float32)}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """There is nothing to take back."""
