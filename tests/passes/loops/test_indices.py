"""
Random chains of index transformations give numpy's results.

A chain transposes, splits, joins and strides dimensions, also backwards. The first dimension may
be dynamic. An invocation computes 1, 2, 4 or 8 adjacent elements. The interpreter runs with all
checks.

Covers: loops/code.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from xdsl_spirv.compiler import compile_module
from xdsl_spirv.dialects.schedule import LoopsAttr
from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.passes.schedule import loops_schedule
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.execution import run
from xdsl_spirv.runtime.modules import parse_text


class Chain:
    """The text of a function, and its numpy result, extended step by step."""

    def __init__(self, draw: random.Random, array: Array, is_open: bool):
        self.draw, self.value = draw, array
        self.open: int | None = 0 if is_open else None
        self.lines: list[str] = []
        self.name, self.count = "%x", 0

    def type(self) -> str:
        sizes = ["?" if i == self.open else str(n) for i, n in enumerate(self.value.shape)]
        return f"tensor<{'x'.join(sizes)}xf32>"

    def empty(self) -> str:
        name = f"%e{self.count}"
        sizes = "" if self.open is None else "%m"
        self.lines.insert(0, f"{name} = tensor.empty({sizes}) : {self.type()}")
        return name

    def turn(self) -> None:
        order = self.draw.sample(range(self.value.ndim), self.value.ndim)
        after = None if self.open is None else order.index(self.open)
        self._generic(self.value.transpose(order), lambda loop: f"d{order.index(loop)}", after)

    def _generic(self, value: Any, index: Callable[[int], str], after: int | None) -> None:
        """
        Appends an operation that reads the last value at new indices. Its result is the array
        `value`, and its dynamic dimension is `after`.
        """
        rank = self.value.ndim
        source, before = self.name, self.type()
        reads = ", ".join(index(loop) for loop in range(rank))
        self.open, self.value, self.count = after, value, self.count + 1
        names = ", ".join(f"d{loop}" for loop in range(rank))
        kinds = ", ".join(['"parallel"'] * rank)
        empty, self.name = self.empty(), f"%v{self.count}"
        self.lines.append(
            f"{self.name} = linalg.generic {{indexing_maps = [affine_map<({names}) -> ({reads})>, "
            f"affine_map<({names}) -> ({names})>], iterator_types = [{kinds}]}} "
            f"ins({source} : {before}) outs({empty} : {self.type()}) {{\n"
            f"^bb0(%a: f32, %o: f32):\n  linalg.yield %a : f32\n}} -> {self.type()}"
        )

    def known(self, fits: Callable[[int], bool]) -> int | None:
        """Returns a static dimension whose size fits, or None."""
        fitting = [i for i, n in enumerate(self.value.shape) if i != self.open and fits(n)]
        return self.draw.choice(fitting) if fitting else None

    def walk(self) -> None:
        """Reads every element or every second one, forwards or backwards."""
        at = self.known(lambda n: n % 2 == 0 and n > 2)
        if at is None:
            return
        size, step = self.value.shape[at], self.draw.choice((-2, -1, 2))
        first = self.draw.choice((size - 1, size - 2)) if step == -2 else 0
        first = size - 1 if step == -1 else first
        places = [first + step * i for i in range(size // abs(step))]

        def index(loop: int) -> str:
            return f"d{loop} * {step} + {first}" if loop == at else f"d{loop}"

        self._generic(np.take(self.value, places, at), index, self.open)

    def join(self) -> None:
        pairs = [i for i in range(self.value.ndim - 1) if self.open not in (i, i + 1)]
        if not pairs or self.value.ndim < 3:
            return
        at = self.draw.choice(pairs)
        shape = list(self.value.shape)
        shape[at : at + 2] = [shape[at] * shape[at + 1]]
        after = self.open if self.open is None or self.open < at else self.open - 1
        self._reshape("collapse_shape", at, shape, after)

    def part(self) -> None:
        at = self.known(lambda n: n % 2 == 0 and n > 2)
        if at is None or self.value.ndim > 4:
            return
        size = self.draw.choice([n for n in (2, 4) if self.value.shape[at] % n == 0])
        shape = list(self.value.shape)
        sizes = [shape[at] // size, size]
        shape[at : at + 1] = self.draw.sample(sizes, 2)
        after = self.open if self.open is None or self.open < at else self.open + 1
        self._reshape("expand_shape", at, shape, after)

    def _reshape(self, kind: str, at: int, shape: list[int], after: int | None) -> None:
        source, old = self.name, self.type()
        rank = min(len(shape), self.value.ndim)
        self.value, self.count, self.open = self.value.reshape(shape), self.count + 1, after
        groups = [[i + (i > at)] if i != at else [at, at + 1] for i in range(rank)]
        sizes = ", ".join("%m" if i == self.open else str(n) for i, n in enumerate(shape))
        output = f" output_shape [{sizes}]" if kind == "expand_shape" else ""
        self.name = f"%v{self.count}"
        self.lines.append(
            f"{self.name} = tensor.{kind} {source} {groups}{output} : {old} into {self.type()}"
        )

    def text(self, first: str) -> str:
        lines = "\n".join(self.lines)
        return f"""
            func.func @main(%x: {first}) -> {self.type()} {{
              %zero = arith.constant 0 : index
              %m = tensor.dim %x, %zero : {first}
              {lines}
              func.return {self.name} : {self.type()}
            }}"""


def chain(seed: int) -> tuple[str, Array, Array]:
    """Returns the text of a random function, its input and its result."""
    draw = random.Random(seed)
    shape = (draw.choice((2, 3, 6)), draw.choice((8, 12, 16)), draw.choice((2, 8, 6)))
    array = np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)
    drawn = Chain(draw, array, draw.random() < 0.5)
    first = drawn.type()
    drawn.turn()
    for _ in range(draw.randint(3, 7)):
        draw.choice((drawn.turn, drawn.walk, drawn.join, drawn.part))()
    drawn.turn()
    return drawn.text(first), array, drawn.value


COUNTS = (*range(12), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(12, 200)))


@pytest.mark.parametrize("seed", COUNTS)
def test_moved_elements_are_those_of_numpy(seed: int, monkeypatch: pytest.MonkeyPatch):
    text, array, expected = chain(seed)
    choose = loops_schedule.choose_loops
    for elements in (1, 2, 4, 8):

        def chosen(*given: Any, elements: int = elements) -> LoopsAttr:
            schedule = choose(*given)
            return LoopsAttr(schedule.workgroup.data, schedule.workgroups.data, elements)

        monkeypatch.setattr(loops_schedule, "choose_loops", chosen)
        program = compile_module(parse_text(text), "lavapipe")
        checks = Checks.of("all")
        (result,) = run(program, {"x": array}, checks=checks).values()
        assert not checks.report.findings, str(checks.report)
        np.testing.assert_array_equal(result, expected)
