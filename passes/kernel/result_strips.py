"""
Stores results through Workgroup memory, one row of a subgroup's fragments (a strip) at a time.

    for each row of a subgroup's fragments:
      fragments -> Workgroup memory; subgroup barrier
      Workgroup memory -> results, 16 bytes an invocation, whole rows one after the other
      subgroup barrier

Rows of a fragment have only 16 to 64 bytes. Storing such short rows directly is slower, except in
kernels that spend most of their time elsewhere. Each subgroup has its own strip, so that subgroups
do not wait for each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from xdsl.ir import SSAValue

from xdsl_spirv.dialects.schedule import FlatViewOp
from xdsl_spirv.passes.emit.emitter import Condition, Index
from xdsl_spirv.passes.kernel.elements import ElementCode
from xdsl_spirv.passes.kernel.matrices import MatrixCode
from xdsl_spirv.passes.kernel.matrix_values import store_matrix
from xdsl_spirv.passes.kernel.result_tile import ResultTile
from xdsl_spirv.passes.schedule.tiles import vector_type


class ResultStrips:
    """Stores a subgroup's part of the kernel's only result."""

    def __init__(self, tile: ResultTile, code: ElementCode):
        self.builder, self.tile, self.code = tile.builder, tile, code
        b, plan, place = tile.builder, tile.plan, tile.place
        (result,) = plan.contraction.epilogue.results
        self.width = plan.result.strip_width
        moved = vector_type(result.element_type, self.width)
        shape = plan.result.strip_shape
        self.stride = shape[1]
        memory = b.allocate(moved, shape, "strip")
        self.memory = b.at_top(FlatViewOp(memory, moved), "strip_elements")
        self.begin = b.times(place.subgroup, tile.m * self.stride)

    def store(self, values: Sequence[SSAValue], corners: Sequence[tuple[Index, Index]]) -> None:
        """Stores accumulators, ordered row by row, at the `corners` of their fragments."""
        b, count = self.builder, self.tile.plan.schedule.fragments[1]
        whole = MatrixCode(b, self.tile, self.code)
        for first in range(0, len(values), count):
            if first:
                b.subgroup_barrier()
            for number in range(count):
                at, value = corners[first + number], values[first + number]
                inside = self.tile.fragment_inside(at)
                # A value that is loaded in one branch must not be used in another branch.
                code = whole if inside is True else MatrixCode(b, self.tile, self.code)
                b.when(inside, partial(self._to_strip, code, at, value, number))
            b.subgroup_barrier()
            self._from_strip(corners[first])

    def _to_strip(
        self, code: MatrixCode, at: tuple[Index, Index], value: SSAValue, number: int
    ) -> None:
        b = self.builder
        (result,) = code.results(*at, value)
        place = b.plus(self.begin, number * self.tile.n // self.width)
        store_matrix(b, result, self.memory, (place,), self.stride, shared=True)

    def _from_strip(self, corner: tuple[Index, Index]) -> None:
        """Copies a row of fragments from Workgroup memory to the result; loads precede stores."""
        b, tile, lanes = self.builder, self.tile, self.tile.plan.target.subgroup_size
        across = self.stride - 1
        vectors = tile.m * across
        moves: list[tuple[Index, Index, Condition, SSAValue]] = []
        for first in range(0, vectors, lanes):
            position = b.plus(tile.place.lane, first)
            row, column = b.divided(position, across), b.remainder(position, across)
            exists = b.below(row, tile.m) if first + lanes > vectors else True
            row_in_strip = row if exists is True else b.select(exists, row, 0)
            place = b.plus(b.plus(self.begin, b.times(row_in_strip, self.stride)), column)
            moves.append((row, column, exists, b.load(self.memory, (place,))))
        for row, column, exists, value in moves:
            to = b.plus(corner[0], row), b.plus(corner[1], b.times(column, self.width))
            inside = b.both(exists, tile.inside(*to))
            b.when(inside, partial(self._store, to, value))

    def _store(self, to: tuple[Index, Index], value: SSAValue) -> None:
        (access,) = self.code.results
        at = self.tile.offset(*to, access.layout)
        self.builder.store(value, access.memory, (self.builder.divided(at, access.width),))
