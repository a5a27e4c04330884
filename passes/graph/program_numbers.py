"""
The numbers of a tile program for every workgroup of a launch at once, as the interpreter has them.

A number is an array over the workgroups, plus factors of the indices of loops around it. `Digits`
sorts the workgroups by the places that they store, and writes a number as a sum of digits in that
order where this holds for every workgroup: grouped, reversed or otherwise permuted places are plain
rows and columns again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects import scf
from xdsl.dialects.builtin import AnyFloat, IndexType, IntegerType, ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from xdsl_spirv.dialects import tile
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.host.machine import Host
from xdsl_spirv.interpreter.numbers import Array
from xdsl_spirv.interpreter.options import Options
from xdsl_spirv.passes.graph.tile_nodes import NotRaised

MOST = 1 << 20
"""Workgroups of a launch whose numbers are computed."""


@dataclass(frozen=True)
class Number:
    """A number of each workgroup, plus factors of the indices of loops."""

    start: Array
    factors: Mapping[SSAValue, int] = field(default_factory=dict[SSAValue, int])

    def plus(self, other: Number, factor: int = 1) -> Number:
        """self + factor * other."""
        loops = {**self.factors, **other.factors}
        sums = {i: self.factors.get(i, 0) + factor * other.factors.get(i, 0) for i in loops}
        start = self.start + factor * other.start
        return Number(start, {i: total for i, total in sums.items() if total})

    @property
    def constant(self) -> Any:
        """Its value, if all workgroups have the same one in all iterations."""
        first = self.start.flat[0]
        same = np.array_equal(self.start, np.full_like(self.start, first), equal_nan=True)
        return first.item() if same and not self.factors else None


@dataclass(frozen=True)
class Loop:
    """A loop's first index, step, and number of iterations, of which there are `most` at most."""

    lower: int
    step: int
    trips: Array
    upper: SSAValue

    @property
    def most(self) -> int:
        """The iterations of the workgroup that has most."""
        return int(self.trips.max())


class Numbers:
    """The numbers of a program; `given` has the known arguments."""

    def __init__(
        self, program: tile.ProgramOp, grid: Sequence[int], given: Mapping[int, int | float]
    ):
        self.grid, count = grid, prod(grid)
        if count > MOST:
            raise NotRaised(f"{count} workgroups are too many to look at each")
        self.ids = np.unravel_index(np.arange(count), tuple(reversed(grid)))[::-1]
        self.known: dict[SSAValue, Number] = {}
        self.loops: dict[SSAValue, Loop] = {}
        self._host = Host(ModuleOp([]), Options())
        for argument in program.body.block.args:
            if argument.index in given:
                kind = np.float32 if isinstance(argument.type, AnyFloat) else np.int64
                self._define(argument, np.asarray(given[argument.index], kind))
        self._read(program.body.block)

    def _define(self, value: SSAValue, held: Array) -> None:
        self.known[value] = Number(np.broadcast_to(held, self.ids[0].shape))

    def _read(self, block: Block) -> None:
        for op in block.ops:
            match op:
                case tile.ProgramIdOp():
                    axis = op.axis.value.data
                    held = self.ids[axis] if op.count is None else np.asarray(self.grid[axis])
                    self._define(op.result, held.astype(np.int64))
                case tile.SizeOp():
                    size = tile.view_of(op.view).shape[op.axis.value.data]
                    self._define(op.result, np.asarray(size, np.int64))
                case scf.ForOp():
                    self._enter(op)
                case _ if len(op.results) == 1 and not op.regions:
                    self._compute(op)
                case _:
                    pass
            for region in op.regions:
                self._read(region.block)

    def _enter(self, op: scf.ForOp) -> None:
        bounds = [self.known.get(value) for value in (op.lb, op.ub, op.step)]
        if None in bounds or any(bound.factors for bound in bounds if bound):
            return
        lower, upper, step = (bound for bound in bounds if bound)
        if lower.constant is None or not step.constant or step.constant < 0:
            return
        trips = np.maximum(0, -(-(upper.start - lower.constant) // step.constant))
        index = op.body.block.args[0]
        self.loops[index] = Loop(lower.constant, step.constant, trips, op.ub)
        self.known[index] = Number(np.zeros_like(self.ids[0]), {index: 1})

    def _compute(self, op: Operation) -> None:
        """The result of an operation on numbers, if its operands are known."""
        result = op.results[0]
        if not isinstance(result.type, IndexType | IntegerType | AnyFloat):
            return
        given = [self.known.get(value) for value in op.operands]
        operands = [number for number in given if number is not None]
        if len(operands) < len(given):
            return
        if any(number.factors for number in operands):
            made = _on_sums(op.name, operands)
            if made is not None:
                self.known[result] = made
            return
        try:
            (held,) = self._host.evaluate(op, [number.start for number in operands])
        except InterpreterError:  # of a division by 0, for one: the program keeps it
            return
        self._define(result, np.asarray(held))

    def least(self, number: Number) -> int:
        """A number that no workgroup is below in any iteration."""
        low = int(number.start.min())
        for index, factor in number.factors.items():
            loop = self.loops[index]
            ends = loop.lower, loop.lower + max(0, loop.most - 1) * loop.step
            low += min(factor * end for end in ends)
        return low


def _on_sums(name: str, operands: Sequence[Number]) -> Number | None:
    """Sums, products with a constant and casts of numbers that change in a loop."""
    a, b = operands[0], operands[-1]
    match name.removeprefix("arith."):
        case "addi":
            return a.plus(b)
        case "subi":
            return a.plus(b, -1)
        case "muli":
            known, other = (a, b) if a.constant is not None else (b, a)
            zero = Number(np.zeros_like(other.start))
            return None if known.constant is None else zero.plus(other, known.constant)
        case "index_cast" | "extsi" | "trunci":
            return a
        case _:
            return None


class Digits:
    """
    The workgroups by the digits of their numbers, in the order of `pivot`, the fastest digit first.

    Raises `NotRaised` where two workgroups have one `pivot`, and where `numbers` have no digits.
    """

    def __init__(self, pivot: Array, numbers: Sequence[Array]):
        self._order = np.argsort(pivot, kind="stable")
        count, cuts = len(pivot), {len(pivot)}
        if not np.diff(pivot[self._order]).all():
            raise NotRaised("two workgroups store one place")
        for number in (pivot, *numbers):
            cuts |= _cuts(number[self._order])
        steps = [1, *sorted(cuts - {1})]
        if any(big % small for small, big in pairwise(steps)):
            raise NotRaised("tiles of workgroups have no rows and columns")
        self.steps = steps[:-1] if count > 1 else []
        """The workgroups from one value of a digit to the next."""
        self.counts = [b // a for a, b in pairwise(steps)]
        """The values of each digit."""
        number = np.arange(count)
        self._values = [number // s % n for s, n in zip(self.steps, self.counts, strict=True)]

    def split(self, number: Array) -> tuple[int, list[int]] | None:
        """The number at the first workgroup and the factor of each digit; None if it has none."""
        held = number[self._order]
        first = int(held[0])
        factors = [int(held[step]) - first for step in self.steps]
        total = first + sum(
            (f * v for f, v in zip(factors, self._values, strict=True)), np.asarray(0)
        )
        return (first, factors) if (held == total).all() else None


def _cuts(number: Array) -> set[int]:
    """Where a number does not go on with the same step."""
    cuts, size = set[int](), 1
    while len(number) > 1:
        steps = np.diff(number)
        others = np.flatnonzero(steps != steps[0])
        length = int(others[0]) + 1 if others.size else len(number)
        size *= length
        cuts.add(size)
        number = number[::length]
    return cuts
