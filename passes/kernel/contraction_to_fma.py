"""
Lowers contractions to multiply-adds or packed dot products of single invocations.

Each invocation computes a few elements of the result. The schedule's instruction is `fma MxNxK` or
`dot MxNxK`; see `k_loop` for the surrounding code. `fma` supports every type that the device
can store. Inputs are converted to the result's type in registers. bfloat16 is widened by a shift of
its bits, which is exact and needs no extension.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import cast

from xdsl.dialects import arith, vector
from xdsl.dialects.builtin import AnyFloat, VectorType, i32
from xdsl.ir import Attribute, SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel import KernelPass
from xdsl_spirv.passes.kernel.elements import (
    PACKED_4X8,
    ElementCode,
    components_of,
    components_of_type,
    convert_factor,
    multiply_add,
    pack_elements,
)
from xdsl_spirv.passes.kernel.k_loop import Core, write_contraction
from xdsl_spirv.passes.kernel.result_tile import Place, ResultTile
from xdsl_spirv.passes.kernel.staging import Operand, TileInMemory
from xdsl_spirv.passes.schedule.plan import Plan
from xdsl_spirv.passes.schedule.tiles import vector_type


class InvocationCore(Core):
    """
    Computes an invocation's m x n elements, row by row in vectors of `plan.result.width`.

    Rows and vectors are assigned to invocations in turn, so that neighbouring invocations read
    neighbouring elements of Workgroup memory.
    """

    def __init__(self, builder: KernelEmitter, plan: Plan, place: Place):
        self.builder, self.plan, self.place = builder, plan, place
        self.m, self.n, self.k = plan.schedule.instruction.sizes
        self.width = plan.result.width
        self.element = plan.contraction.element_types[2]
        self.tile = ResultTile(builder, plan, place)
        b = builder
        along_m, along_n, _ = plan.schedule.fragments
        lane_row, lane_column = b.divided(place.lane, along_n), b.remainder(place.lane, along_n)
        group = plan.row_group
        self.lane_row, self.lane_column = lane_row, lane_column
        self.rows = [i // group * along_m * group + i % group for i in range(self.m)]
        self.columns = [j * along_n for j in range(0, self.n, self.width)]
        self.row = b.plus(self.tile.row, b.times(lane_row, group))
        self.column = b.plus(self.tile.column, b.times(lane_column, self.width))

    @property
    def vector(self) -> Attribute:
        """Type of an accumulator."""
        return vector_type(self.element, self.width)

    # The result

    def _vectors(self) -> list[tuple[Index, Index]]:
        b = self.builder
        return [
            (b.plus(self.row, row), b.plus(self.column, column))
            for row in self.rows
            for column in self.columns
        ]

    def begin(self) -> Sequence[SSAValue]:
        return [self.builder.zero(self.vector)] * (self.m * self.n // self.width)

    def end(self, totals: Sequence[SSAValue], operands: Sequence[Operand]) -> None:
        b, step = self.builder, self.plan.result.stored_width
        code = ElementCode(b, self.plan.contraction, self.tile, step)
        for (row, column), total in zip(self._vectors(), totals, strict=True):
            parts = [total] if step == self.width else components_of(b, total)
            for j, part in zip(range(0, self.width, step), parts, strict=True):
                at = b.plus(column, j)
                b.when(self.tile.inside(row, at), partial(code.store, row, at, part))

    # The products

    def multiply(self, a: Operand, b: Operand, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
        assert isinstance(a, TileInMemory)
        assert isinstance(b, TileInMemory)
        _, _, count = self.plan.schedule.fragments

        def step(k: Index, totals: Sequence[SSAValue]) -> Sequence[SSAValue]:
            return self._products(self._factors(0, a, k), self._factors(1, b, k), totals)

        return self.builder.loop(count, 1, carried, step, "step")

    def _factors(self, number: int, operand: TileInMemory, step: Index) -> list[list[SSAValue]]:
        """
        Loads the invocation's factors at step `step` along K: a list for each row of A (`number` 0)
        or column of B (1).
        """
        b, tile, schedule = self.builder, operand.tile, self.plan.schedule
        vector = tile.vector if tile.k_axis == 0 else 1
        part = schedule.tile[number] // schedule.grid[number] // vector
        together = (self.plan.row_group, self.width)[number]
        lane = b.times((self.lane_row, self.lane_column)[number], together // vector)
        first = b.plus(b.times(operand.part.subgroup, part), lane)
        own = (self.rows, [c + i for c in self.columns for i in range(self.width)])[number]
        loaded = operand.vectors(first, [at // vector for at in own[::vector]], step, self.k)
        name = self.plan.contraction.types[number]
        parts = [[x for value in row for x in self.factors_of(value, name)] for row in loaded]
        return parts if tile.k_axis == 1 else list(map(list, zip(*parts, strict=True)))

    def factors_of(self, value: SSAValue, name: str) -> list[SSAValue]:
        """Splits an input's vector into components of the result's type."""
        b, to = self.builder, vector_type(self.element, len(components_of_type(value.type)))
        if name.startswith("f") and value.type != to:
            # Floats are converted as a vector. xDSL's integer extensions accept scalars only.
            value = b.add(arith.ExtFOp(value, cast(AnyFloat, to)))
        signed = name.startswith("s")
        return [convert_factor(b, x, self.element, signed) for x in components_of(b, value)]

    def _products(
        self,
        rows: Sequence[Sequence[SSAValue]],
        columns: Sequence[Sequence[SSAValue]],
        totals: Sequence[SSAValue],
    ) -> list[SSAValue]:
        results = list(totals)
        groups = range(0, self.n, self.width)
        for k in range(len(rows[0])):
            parts = ([columns[j + i][k] for i in range(self.width)] for j in groups)
            factors = [pack_elements(self.builder, part, self.element) for part in parts]
            for i in range(self.m):
                spread = self._spread(rows[i][k])
                for j, factor in enumerate(factors):
                    at = i * len(factors) + j
                    results[at] = self.multiply_add(spread, factor, results[at])
        return results

    def multiply_add(self, x: SSAValue, y: SSAValue, total: SSAValue) -> SSAValue:
        """Computes x * y + total for a scalar or vector accumulator."""
        return multiply_add(self.builder, x, y, total)

    def _spread(self, value: SSAValue) -> SSAValue:
        type = self.vector
        if not isinstance(type, VectorType):
            return value
        return self.builder.add(vector.BroadcastOp(value, type))


class ContractionToFMAPass(KernelPass):
    """Writes the kernels whose schedule names the instruction `fma`."""

    name = "contraction-to-fma"
    codes = {"fma": partial(write_contraction, InvocationCore)}


class DotCore(InvocationCore):
    """
    Multiplies by packed dot products: each instruction multiplies four pairs of 8-bit integers.

    Workgroup memory holds the operands as words of four elements along K, independent of their
    layout in global memory. The exact 32-bit dot product is accumulated by a separate addition,
    which wraps like the source's multiply-adds. Accumulating dot instructions would saturate.
    """

    def factors_of(self, value: SSAValue, name: str) -> list[SSAValue]:
        """Splits a vector into 32-bit words."""
        return components_of(self.builder, value)

    def multiply_add(self, x: SSAValue, y: SSAValue, total: SSAValue) -> SSAValue:
        """Adds the dot product of two words of four bytes to `total`."""
        signs = "".join(name[0] for name in self.plan.contraction.types[:2])
        if signs == "us":
            x, y = y, x
        kind = {"ss": spv.SDotOp, "uu": spv.UDotOp}.get(signs, spv.SUDotOp)
        return self.builder.add(arith.AddiOp(total, self.builder.add(kind(x, y, i32, PACKED_4X8))))


class ContractionToDotPass(KernelPass):
    """Writes the kernels whose schedule names the instruction `dot`."""

    name = "contraction-to-dot"
    codes = {"dot": partial(write_contraction, DotCore)}
