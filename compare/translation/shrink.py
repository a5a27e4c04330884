"""
Reduces inputs that show a difference: fewer nonzero elements, then simpler values.

Applies Zeller and Hildebrandt's delta debugging to the nonzero elements of all inputs together.
Then each element is replaced by the simplest number that still shows the difference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from xdsl_spirv.runtime.elements import Array

Fails = Callable[[Sequence[Array]], bool]

ONE_BY_ONE = 64
"""Maximum number of remaining values that are simplified one by one."""


class OutOfRuns(Exception):
    """Raised when the budget is used up. The best inputs so far are the answer."""


class Shrinker:
    """Reduces `inputs` while `fails` returns True. Calls `fails` at most `budget` times."""

    def __init__(self, inputs: Sequence[Array], fails: Fails, budget: int):
        self.best = [array.copy() for array in inputs]
        self.fails = fails
        self.budget = budget
        self.runs = 0

    def shrink(self) -> list[Array]:
        """Returns the smallest inputs found."""
        try:
            self._drop()
            self._simplify()
        except OutOfRuns:
            pass
        return self.best

    def _try(self, candidate: list[Array]) -> bool:
        if self.runs == self.budget:
            raise OutOfRuns
        self.runs += 1
        if not self.fails(candidate):
            return False
        self.best = candidate
        return True

    def _nonzero(self) -> list[tuple[int, int]]:
        """Returns (array index, flat index) of every nonzero element."""
        return [
            (number, int(index))
            for number, array in enumerate(self.best)
            for index in np.flatnonzero(array.reshape(-1) != 0)
        ]

    def _drop(self) -> None:
        parts = 2
        while (elements := self._nonzero()) and parts <= 2 * len(elements):
            size = max(1, -(-len(elements) // parts))
            pieces = [elements[at : at + size] for at in range(0, len(elements), size)]
            if any(self._try(self._without(piece)) for piece in pieces):
                parts = max(parts - 1, 2)
            elif size == 1:
                return
            else:
                parts *= 2

    def _without(self, elements: Sequence[tuple[int, int]]) -> list[Array]:
        candidate = [array.copy() for array in self.best]
        for number, index in elements:
            candidate[number].reshape(-1)[index] = 0
        return candidate

    def _simplify(self) -> None:
        elements = self._nonzero()
        if len(elements) > ONE_BY_ONE:
            return
        for number, index in elements:
            for simpler in _simpler(self.best[number].reshape(-1)[index]):
                candidate = [array.copy() for array in self.best]
                candidate[number].reshape(-1)[index] = simpler
                if self._try(candidate):
                    break


def _simpler(value: np.generic) -> list[float | int]:
    number = value.item()
    if isinstance(number, bool):
        return []
    if not math.isfinite(number):
        return [1]
    candidates: list[float | int] = [1, -1, 2, -2, 3]
    if isinstance(number, int):
        candidates += [number >> shift for shift in (12, 8, 4, 2, 1)]
    else:
        scale = 2.0 ** math.floor(math.log2(abs(number)))
        candidates += [math.trunc(number), math.copysign(scale, number)]
    smallest = 0 if str(value.dtype).startswith("u") else -math.inf
    return [c for c in candidates if abs(c) < abs(number) and c != 0 and c >= smallest]
