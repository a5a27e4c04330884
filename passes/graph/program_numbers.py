"""
Evaluates the integers of a tile program for every workgroup of a launch and every loop iteration.

The interpreter computes arrays with an axis for workgroups and one for each loop. `Digits` sorts
the workgroups by the elements that they store. It writes an integer as a linear sum of loop indices
and of mixed-radix digits of the workgroup's rank. So launches that group, reverse or permute their
tiles become plain rows and columns of tiles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import Any, TypeAlias

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

MOST = 1 << 24
"""Maximum number of workgroups times iterations that are evaluated."""

Source: TypeAlias = int | SSAValue | None
"""A term's variable: a mixed-radix digit of the workgroup id, or a loop index. None: constant."""


def constant(number: Array | None) -> Any:
    """Returns the value that is the same for all workgroups and iterations, else None."""
    if number is None:
        return None
    first = number.flat[0]
    same = np.array_equal(number, np.full_like(number, first), equal_nan=True)
    return first.item() if same else None


class Numbers:
    """The values of a program's scalars in every workgroup; `given` has the values of arguments."""

    def __init__(
        self, program: tile.ProgramOp, grid: Sequence[int], given: Mapping[int, int | float]
    ):
        self.grid, self.count = grid, prod(grid)
        self._check_count(1)
        self._rank = 1 + sum(isinstance(op, scf.ForOp) for op in program.walk())
        self.known: dict[SSAValue, Array] = {}
        self.trips: dict[SSAValue, Array] = {}
        """Maps a loop's index variable to the loop's number of iterations in each workgroup."""
        self.axes: dict[SSAValue, int] = {}
        self._host = Host(ModuleOp([]), Options())
        for argument in program.body.block.args:
            if argument.index in given:
                kind = np.float32 if isinstance(argument.type, AnyFloat) else np.int64
                self._define(argument, np.asarray(given[argument.index], kind))
        self._read(program.body.block)

    def _define(self, value: SSAValue, held: Any) -> None:
        self._check_count(prod(np.shape(held)[1:]))
        self.known[value] = np.reshape(held, np.shape(held) or (1,) * self._rank)

    def _check_count(self, iterations: int) -> None:
        if self.count * iterations > MOST:
            raise NotRaised(f"there are more than {MOST} iterations in all workgroups")

    def _read(self, block: Block) -> None:
        for op in block.ops:
            match op:
                case tile.ProgramIdOp():
                    axis, held = op.axis.value.data, np.asarray(self.grid)
                    if op.count is None:
                        held = np.indices(tuple(reversed(self.grid))).reshape(3, -1)[::-1]
                        shape = -1, *[1] * (self._rank - 1)
                        self._define(op.result, held[axis].reshape(shape).astype(np.int64))
                    else:
                        self._define(op.result, held[axis])
                case tile.SizeOp():
                    self._define(op.result, tile.view_of(op.view).shape[op.axis.value.data])
                case scf.ForOp():
                    self._enter(op)
                case _ if len(op.results) == 1 and not op.regions:
                    self._compute(op)
                case _:
                    pass
            for block in (block for region in op.regions for block in region.blocks):
                self._read(block)

    def _enter(self, op: scf.ForOp) -> None:
        """Adds an axis for the index of a loop, unless the loop's bounds depend on other loops."""
        lower, upper, step = (self.known.get(value) for value in (op.lb, op.ub, op.step))
        size = constant(step)
        if lower is None or upper is None or not size or size < 0:
            return
        if prod(lower.shape[1:]) * prod(upper.shape[1:]) > 1:
            return
        index, axis = op.body.block.args[0], len(self.axes) + 1
        self.axes[index] = axis
        self.trips[index] = trips = np.maximum(0, -(-(upper - lower) // size))
        shape = [-1 if number == axis else 1 for number in range(self._rank)]
        steps = np.arange(max(1, trips.max()), dtype=np.int64) * size
        self._define(index, lower + steps.reshape(shape))

    def _compute(self, op: Operation) -> None:
        result = op.results[0]
        operands = [self.known[value] for value in op.operands if value in self.known]
        is_number = isinstance(result.type, IndexType | IntegerType | AnyFloat)
        if not is_number or len(operands) < len(op.operands):
            return
        whole = not isinstance(result.type, AnyFloat)
        try:
            with np.errstate(all="ignore", divide="raise" if whole else "ignore"):
                (held,) = self._host.evaluate(op, operands)
        except (InterpreterError, FloatingPointError):  # such as an integer division by 0
            return
        self._define(result, np.asarray(held))


class Digits:
    """
    Sorts the workgroups by `pivot`, and writes their ranks as mixed-radix digits, lowest first.

    Raises `NotRaised` if two workgroups have equal pivots, or values do not split into digits.
    """

    def __init__(self, numbers: Numbers, pivot: Array, others: Sequence[Array]):
        self._numbers, count = numbers, numbers.count
        self._order = np.argsort(self._first(pivot), kind="stable")
        if not np.diff(self._first(pivot)[self._order]).all():
            raise NotRaised("two workgroups store to the same element")
        cuts = {count}.union(*(_cuts(self._first(n)[self._order]) for n in (pivot, *others)))
        steps = [1, *sorted(cuts - {1})]
        if any(big % small for small, big in pairwise(steps)):
            raise NotRaised("the workgroups' tiles do not form a regular grid")
        self.digits = len(steps) - 1
        self.counts: dict[Source, int] = {}
        """Number of values that each digit of the workgroup id, and each loop index, takes."""
        self._values: dict[Source, Array] = {}
        shape = -1, *[1] * (pivot.ndim - 1)
        for digit, (small, big) in enumerate(pairwise(steps)):
            self.counts[digit] = big // small
            self._values[digit] = (np.arange(count) // small % (big // small)).reshape(shape)
        for index, axis in numbers.axes.items():
            if (most := int(numbers.trips[index].max())) > 1:
                self.counts[index] = most
                shape = [-1 if number == axis else 1 for number in range(pivot.ndim)]
                self._values[index] = np.arange(most).reshape(shape)

    def _first(self, number: Array) -> Array:
        """Returns each workgroup's value in the first iteration of all loops."""
        first = number.reshape(len(number), -1)[:, 0]
        return np.broadcast_to(first, (self._numbers.count,))

    def split(self, number: Array) -> dict[Source, int] | None:
        """
        Returns a value's factors by variable (digit or loop index); None for a nonlinear value.
        """
        held = number[self._order] if len(number) > 1 else number
        start = int(held.flat[0])
        terms: dict[Source, int] = {None: start}
        total = np.asarray(start)
        for source, values in self._values.items():
            axis = int(np.argmax(values.shape))
            if held.shape[axis] == 1:
                continue
            place = int(np.argmax(values.reshape(-1)))  # the first maximum
            at = tuple(place if n == axis else 0 for n in range(held.ndim))
            share, rest = divmod(int(held[at]) - start, int(values.max()))
            if rest:
                return None
            if share:
                terms[source], total = share, total + share * values
        return terms if (held == total).all() else None


def _cuts(number: Array) -> set[int]:
    """Returns the periods after which the difference between successive values changes."""
    cuts, size = set[int](), 1
    while len(number) > 1:
        steps = np.diff(number)
        others = np.flatnonzero(steps != steps[0])
        length = int(others[0]) + 1 if others.size else len(number)
        size *= length
        cuts.add(size)
        number = number[::length]
    return cuts
