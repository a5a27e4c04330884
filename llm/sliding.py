"""
Wraps a session whose windowed blocks store the keys and values of the last tokens only.

A windowed block is a transformer block with sliding-window attention. The wrapper takes the inputs
of a session that stores all tokens, and adds the number of past tokens in the windowed states. If
the states have no room for a run's tokens, it first drops old tokens and moves the others to the
front.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.errors import ProgramError

if TYPE_CHECKING:
    from xdsl_spirv.frontends.gguf.caches import Sliding
    from xdsl_spirv.runtime.session import Following

SLIDE, NEAR, FIRST = "slide", "near", "first"


class Session(Protocol):
    """Interface of sessions, which run the functions of a program on persistent states."""

    def run(
        self,
        function: str,
        inputs: Mapping[str, Any],
        /,
        *,
        outputs: Collection[str],
        following: Following | None = None,
    ) -> Mapping[str, Array]: ...

    def read(self, function: str, output: str, first: int, count: int) -> Array: ...

    def reset(self) -> None: ...


def _near_inputs(nears: Sequence[int], batch: bool) -> dict[str, Any]:
    if not batch:
        return {NEAR: nears[0]}
    given: dict[str, Any] = {f"{NEAR}_{slot}": near for slot, near in enumerate(nears)}
    return given | {NEAR: max(nears), f"{NEAR}_position": np.array(nears, np.int32)}


class SlidingSession:
    """
    A session with windowed states, with the interface of a session with full states.

    `dropped` is the number of first tokens that each slot no longer stores.
    """

    def __init__(self, session: Session, sliding: Sliding, slots: int = 1):
        self.session, self.sliding = session, sliding
        self.dropped = [0] * slots

    def holds(self, slot: int, past: int) -> bool:
        """True if the states hold the whole window of the token that follows `past` tokens."""
        return self.dropped[slot] <= max(0, past - self.sliding.window + 1)

    def reset(self) -> None:
        self.dropped = [0] * len(self.dropped)
        self.session.reset()

    def run(
        self,
        function: str,
        inputs: Mapping[str, Any],
        /,
        *,
        outputs: Collection[str],
        following: Following | None = None,
    ) -> Mapping[str, Array]:
        if "past_0" in inputs:
            pasts = [inputs[f"past_{slot}"] for slot in range(len(self.dropped))]
            nears = [self._make_room(slot, past, 1) for slot, past in enumerate(pasts)]
        else:
            slot, count = inputs.get("slot", 0), len(inputs["token"])
            nears = [self._make_room(slot, inputs["past"], count)]
        if following is not None:
            following = self._follow(inputs, following, nears)
        given = _near_inputs(nears, "past_0" in inputs)
        return self.session.run(function, {**inputs, **given}, outputs=outputs, following=following)

    def _follow(
        self, inputs: Mapping[str, Any], following: Following, nears: Sequence[int]
    ) -> Following | None:
        """
        Returns `following` with the number of past tokens (now `nears`) in its inputs. Returns None
        if the states have no room for its tokens.
        """
        later = {**inputs, **following.inputs}
        batch = "past_0" in later
        names = [f"past_{slot}" for slot in range(len(nears))] if batch else ["past"]
        moved = [near + later[n] - inputs[n] for n, near in zip(names, nears, strict=True)]
        if max(moved) >= self.sliding.room:
            return None
        return replace(following, inputs={**following.inputs, **_near_inputs(moved, batch)})

    def read(self, function: str, output: str, first: int, count: int) -> Array:
        return self.session.read(function, output, first, count)

    def _make_room(self, slot: int, past: int, count: int) -> int:
        """
        Makes room for `count` tokens after `past` tokens of a slot. Returns the number of past
        tokens that the states still hold.
        """
        if not past:
            self.dropped[slot] = 0
        near = past - self.dropped[slot]
        if near + count <= self.sliding.room:
            return near
        if self.sliding.keep + count > self.sliding.room:
            raise ProgramError(
                f"{count} tokens are too many for one run",
                "states of blocks with a window",
                f"read at most {self.sliding.room - self.sliding.keep} tokens in one run",
            )
        first = near - self.sliding.keep
        given = {FIRST: first} | ({"slot": slot} if len(self.dropped) > 1 else {})
        self.session.run(SLIDE, given, outputs=())
        self.dropped[slot] += first
        return self.sliding.keep
