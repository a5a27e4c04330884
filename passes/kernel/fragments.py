"""
The result's fragments between registers and global memory.

A fragment goes directly where its whole tile lies inside the result and the device's alignment rule
for cooperative stores holds. Otherwise it goes through Workgroup memory, one fragment of each
subgroup at a time, and each invocation stores the elements that lie inside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, IntegerType, MemRefType
from xdsl.ir import SSAValue

from xdsl_spirv.dialects.spirv.constants import ConstantOp
from xdsl_spirv.dialects.spirv.cooperative_matrix import (
    CooperativeMatrixLoadOp,
    CooperativeMatrixStoreOp,
)
from xdsl_spirv.dialects.spirv.enums import CooperativeMatrixLayout, MemoryAccess
from xdsl_spirv.dialects.spirv.types import CooperativeMatrixType
from xdsl_spirv.passes.kernel.builder import Condition, Index, KernelBuilder
from xdsl_spirv.passes.kernel.elements import ElementCode
from xdsl_spirv.passes.kernel.matrices import MatrixCode
from xdsl_spirv.passes.kernel.result import Place, ResultTile
from xdsl_spirv.passes.kernel.staging import WORKGROUP
from xdsl_spirv.passes.schedule.plan import Plan

ROW_MAJOR = CooperativeMatrixLayout.RowMajorKHR


class FragmentTile(ResultTile):
    """The code that begins and ends a subgroup's accumulators, in the order row by row."""

    def __init__(
        self, builder: KernelBuilder, plan: Plan, place: Place, type: CooperativeMatrixType
    ):
        super().__init__(builder, plan, place)
        self.type = type
        self.fragments_m, self.fragments_n, _ = plan.schedule.fragments
        self.code = ElementCode(builder, plan, self, 1)
        self.scratch: SSAValue | None = None
        if (shape := plan.scratch_shape) is not None:
            self.scratch = builder.allocate(
                MemRefType(type.element_type, shape, memory_space=WORKGROUP), "scratch"
            )
        self._scratch_row = builder.times(place.subgroup, self.m) if self.scratch else 0

    @property
    def direct(self) -> bool:
        """Whether every fragment of every workgroup may be moved directly."""
        return self.plan.result_aligned and self.plan.whole_tiles

    def flat(self, memory: SSAValue) -> SSAValue:
        """The result's buffer, or the initial value's, as one row of elements."""
        return self.view(memory, self.type.element_type)

    def _stride(self) -> int:
        stride = self.plan.result_stride
        assert stride is not None, "only a matrix is moved directly"
        return stride

    def _pointer(self, memory: SSAValue, at: tuple[Index, Index]) -> SSAValue:
        return self.builder.pointer(memory, (self.offset(*at),))

    def _corners(self) -> list[tuple[Index, Index]]:
        """Row and column of each fragment's first element in the result."""
        b = self.builder
        return [
            (b.plus(self.row, i * self.m), b.plus(self.column, j * self.n))
            for i in range(self.fragments_m)
            for j in range(self.fragments_n)
        ]

    def zeros(self) -> list[SSAValue]:
        """Accumulators of 0: one value for all."""
        element = self.type.element_type
        if isinstance(element, IntegerType):
            zero = IntegerAttr(0, element)
        else:
            zero = FloatAttr(0.0, cast(AnyFloat, element))
        value = self.builder.at_top(ConstantOp(zero, self.type), "zero")
        return [value] * (self.fragments_m * self.fragments_n)

    def load(self, source: SSAValue) -> list[SSAValue]:
        """Accumulators from the initial value; elements outside it are 0."""
        b = self.builder
        if self.direct:
            stride = b.i32(self._stride())
            return [
                b.add(
                    CooperativeMatrixLoadOp(self._pointer(source, at), stride, ROW_MAJOR, self.type)
                )
                for at in self._corners()
            ]
        return [self._load_through_scratch(source, at) for at in self._corners()]

    def store(self, values: Sequence[SSAValue]) -> None:
        """The accumulators, or what the epilogue makes of them, into the results."""
        b, contraction, place = self.builder, self.plan.contraction, self.place
        if not self.plan.stored_directly:
            self._store_guarded(values)
            return
        tile_m, tile_n, _ = self.plan.schedule.tile
        inside: Condition = None
        for index, size, tile in (
            (place.tile_row, contraction.m, tile_m),
            (place.tile_column, contraction.n, tile_n),
        ):
            if size % tile:
                inside = b.both(inside, b.below(index, size // tile))
        b.when(
            inside,
            lambda: self._store_direct(values),
            lambda: self._store_guarded(values),
        )

    def _store_direct(self, values: Sequence[SSAValue]) -> None:
        b = self.builder
        if not self.plan.contraction.epilogue.is_empty:
            code = MatrixCode(b, self, self.code)
            for at, value in zip(self._corners(), values, strict=True):
                code.store(*at, value)
            return
        target = self.code.results[0].memory
        stride = b.i32(self._stride())
        for at, value in zip(self._corners(), values, strict=True):
            pointer = self._pointer(target, at)
            b.block.add_op(CooperativeMatrixStoreOp(pointer, value, stride, ROW_MAJOR))

    def _store_guarded(self, values: Sequence[SSAValue]) -> None:
        b, scratch = self.builder, self._scratch()

        def copy(row: Index, column: Index, scratch_at: tuple[Index, Index]) -> None:
            b.when(
                self.inside(row, column),
                lambda: self.code.store(row, column, b.load(scratch, scratch_at)),
            )

        for number, (at, value) in enumerate(zip(self._corners(), values, strict=True)):
            if number:
                b.barrier()
            b.block.add_op(
                CooperativeMatrixStoreOp(
                    b.pointer(scratch, (self._scratch_row, 0)),
                    value,
                    b.i32(self.n),
                    ROW_MAJOR,
                    MemoryAccess.NonPrivatePointer,
                )
            )
            b.barrier()
            self._for_each_element(at, copy)

    def _load_through_scratch(self, source: SSAValue, at: tuple[Index, Index]) -> SSAValue:
        b, scratch = self.builder, self._scratch()

        def copy(row: Index, column: Index, scratch_at: tuple[Index, Index]) -> None:
            inside = self.inside(row, column)
            if inside is not None:
                row, column = b.select(inside, row, 0), b.select(inside, column, 0)
            value = b.load(source, (self.offset(row, column),))
            if inside is not None:
                value = b.select(inside, value, b.zero(value.type))
            b.store(value, scratch, scratch_at)

        self._for_each_element(at, copy)
        b.barrier()
        fragment = b.add(
            CooperativeMatrixLoadOp(
                b.pointer(scratch, (self._scratch_row, 0)),
                b.i32(self.n),
                ROW_MAJOR,
                self.type,
                MemoryAccess.NonPrivatePointer,
            )
        )
        b.barrier()
        return fragment

    def _scratch(self) -> SSAValue:
        assert self.scratch is not None
        return self.scratch

    def _for_each_element(
        self,
        at: tuple[Index, Index],
        body: Callable[[Index, Index, tuple[Index, Index]], None],
    ) -> None:
        """
        body(row, column, place in scratch) for each element of a fragment, shared out over lanes.

        Lanes lie along a fragment's row, as many rows at a time as the subgroup covers.
        """
        b, lanes = self.builder, self.plan.target.subgroup_size

        def step(row: Index, column: Index) -> None:
            exists = b.below(row, self.m) if self.m * self.n % lanes else None
            scratch_at = (b.plus(self._scratch_row, row), column)
            b.when(exists, lambda: body(b.plus(at[0], row), b.plus(at[1], column), scratch_at))

        def along_rows(first: Index, _: Sequence[SSAValue]) -> tuple[()]:
            step(b.plus(first, row), column)
            return ()

        def any_shape(first: Index, _: Sequence[SSAValue]) -> tuple[()]:
            position = b.plus(first, self.place.lane)
            step(b.divided(position, self.n), b.remainder(position, self.n))
            return ()

        if lanes % self.n == 0:
            # With as many lanes as columns a lane stays in its column.
            several = lanes > self.n
            row = b.divided(self.place.lane, self.n) if several else 0
            column = b.remainder(self.place.lane, self.n) if several else self.place.lane
            b.loop(self.m, lanes // self.n, (), along_rows)
        else:
            b.loop(self.m * self.n, lanes, (), any_shape)
