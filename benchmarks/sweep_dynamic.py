"""
Contractions of the sweep with dynamic sizes: one program runs with three sizes.

Some loops of a random contraction are chosen. Every dimension indexed by a chosen loop is `?`. The
program runs with the chosen loops at size 1, at their original sizes, and at other sizes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from xdsl_spirv.compare.check import check
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.testing.workloads import Workload, workload

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Generator: TypeAlias = np.random.Generator

UNKNOWN = 100_000
"""Placeholder of a dynamic size in the text, larger than every static size."""


@dataclass(frozen=True)
class Dynamic:
    """A contraction in which the loops `open` have dynamic sizes."""

    form: str
    types: str
    contraction: Workload
    open: tuple[str, ...]

    @property
    def text(self) -> str:
        loops = {
            name: UNKNOWN if name in self.open else n for name, n in self.contraction.loops.items()
        }
        written = replace(self.contraction, loops=loops).text()

        def size(match: re.Match[str]) -> str:
            return "?" if int(match.group()) >= UNKNOWN // 2 else match.group()

        return re.sub(
            r"tensor<[^>]*>", lambda type: re.sub(r"\d+(?=x)", size, type.group()), written
        )

    def inputs(self, generator: Generator) -> dict[str, Array]:
        return next(self.draws(generator))

    def draws(self, generator: Generator) -> Iterator[dict[str, Array]]:
        """Yields inputs at three sizes of the dynamic loops."""
        sizes = dict(self.contraction.loops)
        others = {name: int(generator.integers(1, 49)) for name in self.open}
        for chosen in (sizes, sizes | dict.fromkeys(self.open, 1), sizes | others):
            yield replace(self.contraction, loops=chosen).inputs(generator)

    def verdict(
        self, program: Program, inputs: Mapping[str, Array], results: Mapping[str, Array]
    ) -> str:
        """Returns "" if the results are within the bound of docs/numerics.md, else the error."""
        wrong = [str(outcome) for outcome in check(program, inputs, results) if not outcome.passed]
        shapes = {name: "x".join(map(str, array.shape)) for name, array in inputs.items()}
        return f"{shapes}: {'; '.join(wrong)}" if wrong else ""


def dynamic(seed: int, generator: Generator, largest: int) -> Dynamic:
    """Returns a random contraction with at least one dynamic loop. Windows have static sizes."""
    contraction = workload(seed, largest=largest)
    # The result's initial value is an argument, so that no size has to be computed for it. Elements
    # that no window reaches, and windows that reach into a padding only, are for static sizes.
    contraction = replace(contraction, accumulate=True, low=(), high=(), extra=())
    windows = {loop for index in contraction.a if not isinstance(index, str) for loop, _ in index}
    free = [name for name in contraction.loops if name not in windows] or list(contraction.loops)
    count = int(generator.integers(1, len(free) + 1))
    chosen = tuple(str(name) for name in sorted(generator.permutation(free)[:count]))
    return Dynamic(f"dynamic {contraction.name}", contraction.types, contraction, chosen)
