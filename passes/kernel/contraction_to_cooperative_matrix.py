"""
Lowers contractions to cooperative matrices: each subgroup multiplies fragments.

The schedule's instruction is `coopmat MxNxK`. See `k_loop` for the surrounding code.

A fragment of the result is stored directly if it lies inside of the result and the device's
alignment rule for cooperative stores holds. The other fragments go through Workgroup memory, one
fragment per subgroup at a time, and each invocation stores the elements inside of the result.
Barriers are placed outside of branches, because subgroups take different branches. With `result =
components`, invocations store their own components, which needs known component positions. With
`result = elements`, the device calls a function for each element. These two modes also skip
elements outside of the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.schedule.symbolic_sizes import is_multiple
from xdsl_spirv.passes.emit.emitter import Condition, Index
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel import KernelPass
from xdsl_spirv.passes.kernel.elements import Accumulator, ElementCode
from xdsl_spirv.passes.kernel.k_loop import FragmentCore, write_contraction, write_pack
from xdsl_spirv.passes.kernel.matrix_values import (
    matrix_type,
    multiply_matrices,
    store_matrix,
    zeros,
)
from xdsl_spirv.passes.kernel.result_tile import Place, ResultTile
from xdsl_spirv.passes.kernel.staging import Operand
from xdsl_spirv.passes.schedule.plan import Plan
from xdsl_spirv.passes.schedule.stored_result import moves_together, row_stride
from xdsl_spirv.passes.schedule.tiles import vector_type

if TYPE_CHECKING:
    from xdsl_spirv.passes.kernel.matrices import ElementFunctions, FragmentComponents, MatrixCode
    from xdsl_spirv.passes.kernel.slices import SliceSums

UNROLLED_ROWS = 8
"""Largest number of elements of a fragment that an invocation copies without a loop."""


class FragmentTile(ResultTile):
    """Loads and stores a subgroup's accumulators, ordered row by row."""

    def __init__(
        self,
        builder: KernelEmitter,
        plan: Plan,
        place: Place,
        type: spv.CooperativeMatrixType,
    ):
        super().__init__(builder, plan, place)
        self.type = type
        self.fragments_m, self.fragments_n, _ = plan.schedule.fragments
        self._components: FragmentComponents | ElementFunctions | None = None
        places, by_element = plan.result.component_places, plan.result.stores_elements
        if places is not None or by_element:
            from xdsl_spirv.passes.kernel import matrices

            if places is not None:
                self._components = matrices.FragmentComponents(builder, places, place.lane)
            if by_element:
                self._components = matrices.ElementFunctions(builder)
        stored = plan.result.strip_width if plan.result.stores_rows else self._together
        self.code = ElementCode(builder, plan.contraction, self, 1, stored)
        self.scratch: SSAValue | None = None
        shape = plan.result.scratch_shape
        single = plan.schedule.slices > 1 and plan.schedule.fragments[:2] == (1, 1)
        self.reuses_sums = shape is not None and single
        """
        True if each subgroup has one fragment and K is divided into slices. `scratch` is then set
        later, to the memory of the slices' partial sums.
        """
        if shape is not None and not self.reuses_sums:
            self.scratch = builder.allocate(type.element_type, shape, "scratch")
        self._scratch_row = builder.times(place.subgroup, self.m) if shape else 0
        self._strips = ResultStrips(self) if plan.result.stores_rows else None

    @property
    def _together(self) -> int:
        """
        Number of components that one store writes, in fragments that are partly outside of the
        result.
        """
        if self._components is None or not self.plan.contraction.epilogue.is_empty:
            return 1
        width = self._components.width
        return (
            width
            if moves_together(self.plan.result.layout, self.plan.result.element_bytes, width)
            else 1
        )

    def _corners(self, numbers: Sequence[int] | None = None) -> list[tuple[Index, Index]]:
        b = self.builder
        if numbers is None:
            numbers = range(self.fragments_m * self.fragments_n)
        places = [divmod(number, self.fragments_n) for number in numbers]
        return [(b.plus(self.row, i * self.m), b.plus(self.column, j * self.n)) for i, j in places]

    def store(
        self,
        values: Sequence[SSAValue],
        numbers: Sequence[int] | None = None,
        mine: Condition = True,
    ) -> None:
        """
        Applies the epilogue to accumulators and stores the results.

        Only subgroups whose `mine` is true store results. The other subgroups execute only the
        barriers.
        """
        b = self.builder
        if self._strips is not None:
            self._strips.store(values, self._corners())
            return
        stored = self._by_parts(values)
        corners = lambda: self._corners(numbers)[:: len(values) // len(stored)]  # noqa: E731
        b.when(
            self.plan.result.stored_directly and self._tile_inside(),
            lambda: b.when(mine, lambda: self._store_direct(stored, corners())),
            lambda: self._store_guarded(stored, corners(), mine),
        )

    def _tile_inside(self) -> Condition:
        """True if the workgroup's tile lies completely inside of the result."""
        b, contraction, place = self.builder, self.plan.contraction, self.place
        inside: Condition = True
        indices, sizes = (place.tile_row, place.tile_column), (contraction.m, contraction.n)
        for index, size, tile in zip(indices, sizes, self.plan.schedule.tile, strict=False):
            if not is_multiple(size, tile):
                # No tile lies inside of a result that is smaller than a tile.
                whole = size // tile
                inside = b.both(inside, False if whole == 0 else b.below(index, whole))
        return inside

    def _by_parts(self, values: Sequence[SSAValue]) -> Sequence[Accumulator]:
        parts = self.plan.contraction.epilogue.parts
        if parts == 1:
            return values
        return [tuple(values[at : at + parts]) for at in range(0, len(values), parts)]

    def _store_direct(
        self, values: Sequence[Accumulator], corners: Sequence[tuple[Index, Index]]
    ) -> None:
        b = self.builder
        if not self.plan.contraction.epilogue.is_empty or self.plan.schedule.is_transposed:
            code = self.matrix_code()
            for at, value in zip(corners, values, strict=True):
                code.store(*at, value)
            return
        (access,), stride = self.code.results, row_stride(self.plan.result.layout)
        assert stride is not None, "a result that is not a matrix is stored directly"
        stride = b.i32(stride // access.width)
        for at, value in zip(corners, values, strict=True):
            assert isinstance(value, SSAValue), "a result of several parts has no epilogue"
            place = b.divided(self.offset(*at), access.width)
            store_matrix(b, value, access.memory, (place,), stride)

    def matrix_code(self) -> MatrixCode:
        """Returns a new object that computes the epilogue on whole fragments."""
        from xdsl_spirv.passes.kernel import matrices

        by_element = self.plan.result.stores_elements
        kind = matrices.FunctionCode if by_element else matrices.MatrixCode
        return kind(self.builder, self, self.code)

    def _store_guarded(
        self,
        values: Sequence[Accumulator],
        corners: Sequence[tuple[Index, Index]],
        mine: Condition,
    ) -> None:
        b, plan = self.builder, self.plan
        if self._components is not None:
            b.when(mine, partial(self._store_components, values, corners))
            return
        whole = plan.result.whole_fragments
        pieces = whole or (plan.result.stored_directly and plan.contraction.epilogue.is_empty)
        if self.reuses_sums:
            b.subgroup_barrier()
        for number, (at, value) in enumerate(zip(corners, values, strict=True)):
            inside = self.fragment_inside(at) if pieces else False
            if whole:
                b.when(b.both(inside, mine), partial(self._store_direct, [value], [at]))
                continue
            assert isinstance(value, SSAValue), "a result of several parts goes through memory"
            if number:
                b.subgroup_barrier()
            to_scratch = partial(b.when, mine, partial(self._store_in_scratch, value))
            copy = partial(b.when, mine, partial(self._copy_fragment, at))
            reaches = self.inside(*at) if pieces else True
            b.when(inside, lambda: None, partial(b.when, reaches, to_scratch))
            b.subgroup_barrier()
            direct = partial(b.when, mine, partial(self._store_direct, [value], [at]))
            b.when(inside, direct, partial(b.when, reaches, copy))

    def _store_components(
        self, values: Sequence[Accumulator], corners: Sequence[tuple[Index, Index]]
    ) -> None:
        """Stores fragments by components, or directly if a fragment lies inside of the result."""
        b, components, width = self.builder, self._components, self._together
        assert components is not None
        code = self.code if width == 1 else ElementCode(b, self.plan.contraction, self, width)
        for at, value in zip(corners, values, strict=True):

            def store(at: tuple[Index, Index] = at, value: Accumulator = value) -> None:
                components.for_each(at, value, width, partial(self._store_inside, code))

            reaching = partial(b.when, self.inside(*at), store)
            if not self.plan.result.stored_directly:
                reaching()
                continue
            direct = partial(self._store_direct, [value], [at])
            b.when(self.fragment_inside(at), direct, reaching)

    def _store_inside(
        self, code: ElementCode, row: Index, column: Index, element: Accumulator
    ) -> None:
        inside = self.inside(row, column)
        self.builder.when(inside, partial(code.store, row, column, element))

    def _store_in_scratch(self, value: SSAValue) -> None:
        place = self._scratch_row, 0
        store_matrix(self.builder, value, self._scratch(), place, self.n, shared=True)

    def _copy_fragment(self, at: tuple[Index, Index]) -> None:
        """
        Copies a fragment from Workgroup memory to the result, without elements that lie outside of
        the result. Neighbouring lanes copy neighbours in a row.

        Few elements of an invocation are all loaded first: it would wait for each load in a loop.
        """
        b, lanes, count = self.builder, self.plan.target.subgroup_size, self.m * self.n
        # A lane stays in its column if rows divide the lanes evenly.
        unit = self.n if lanes % self.n == 0 else 1
        few = unit > 1 and count % lanes == 0 and count // lanes <= UNROLLED_ROWS
        step = count if few and self.plan.contraction.epilogue.is_empty else lanes
        own, in_unit = b.divided(self.place.lane, unit), b.remainder(self.place.lane, unit)

        def trip(first: Index, _: Sequence[SSAValue]) -> None:
            rows = [b.plus(b.plus(first, own), number // unit) for number in range(0, step, lanes)]
            column = in_unit
            if unit == 1:
                rows, column = [b.divided(rows[0], self.n)], b.remainder(rows[0], self.n)
            exists = b.below(rows[-1], self.m) if count % lanes else True
            values = [self._from_scratch(b.index_inside(exists, row), column) for row in rows]
            to = b.plus(at[1], column)
            for row, value in zip(rows, values, strict=True):
                place = b.plus(at[0], row)
                inside = b.both(exists, self.inside(place, to))
                b.when(inside, partial(self.code.store, place, to, value))

        b.loop(count // unit, step // unit, (), trip)

    def _from_scratch(self, row: Index, column: Index) -> SSAValue:
        return self.builder.load(
            self._scratch(), (self.builder.plus(self._scratch_row, row), column)
        )

    def _scratch(self) -> SSAValue:
        assert self.scratch is not None
        return self.scratch


class ResultStrips:
    """
    Stores the kernel's only result through Workgroup memory, one row of a subgroup's fragments (a
    strip) at a time.

        for each row of a subgroup's fragments:
          fragments -> Workgroup memory; subgroup barrier
          Workgroup memory -> results, 16 bytes an invocation, whole rows one after the other
          subgroup barrier

    Rows of a fragment have only 16 to 64 bytes. Storing such short rows directly is slower, except
    in kernels that spend most of their time elsewhere. Each subgroup has its own strip, so that
    subgroups do not wait for each other.
    """

    def __init__(self, tile: FragmentTile):
        self.builder, self.tile, self.code = tile.builder, tile, tile.code
        b, plan, place = tile.builder, tile.plan, tile.place
        (result,) = plan.contraction.epilogue.results
        self.width = plan.result.strip_width
        moved = vector_type(result.element_type, self.width)
        shape = plan.result.strip_shape
        self.stride = shape[1]
        memory = b.allocate(moved, shape, "strip")
        self.memory = b.flat_view(memory, moved)
        self.begin = b.times(place.subgroup, tile.m * self.stride)

    def store(self, values: Sequence[SSAValue], corners: Sequence[tuple[Index, Index]]) -> None:
        """Stores accumulators, ordered row by row, at the `corners` of their fragments."""
        b, count = self.builder, self.tile.plan.schedule.fragments[1]
        whole = self.tile.matrix_code()
        for first in range(0, len(values), count):
            if first:
                b.subgroup_barrier()
            for number in range(count):
                at, value = corners[first + number], values[first + number]
                inside = self.tile.fragment_inside(at)
                code = whole if inside is True else self.tile.matrix_code()
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
            begin = b.times(b.index_inside(exists, row), self.stride)
            place = b.plus(b.plus(self.begin, begin), column)
            moves.append((row, column, exists, b.load(self.memory, (place,))))
        for row, column, exists, value in moves:
            to = b.plus(corner[0], row), b.plus(corner[1], b.times(column, self.width))
            inside = b.both(exists, tile.inside(*to))
            b.when(inside, partial(self.code.store_vectors, *self.code.results, [value], *to))


class CooperativeCore(FragmentCore):
    """Multiplies a subgroup's fragments; the accumulators are ordered row by row."""

    def __init__(self, builder: KernelEmitter, plan: Plan, place: Place):
        self.builder, self.plan, self.place = builder, plan, place
        m, n, k = plan.schedule.instruction.sizes
        a, b, result = plan.contraction.element_types
        shapes = ("A", m, k, a), ("B", k, n, b), ("Acc", m, n, result)
        self.types = [matrix_type(*shape) for shape in shapes]
        self.tile = FragmentTile(builder, plan, place, self.types[2])
        self.slices: SliceSums | None = None
        if plan.schedule.slices > 1:
            from xdsl_spirv.passes.kernel.slices import SliceSums

            reused = self.tile.reuses_sums
            self.slices = SliceSums(builder, plan, place, self.types[2], reused)
            if reused:
                # The sums of a single fragment never overwrite an operand's tile.
                self.tile.scratch = self.slices.memory

    def begin(self) -> Sequence[SSAValue]:
        m, n, _ = self.plan.schedule.fragments
        return [zeros(self.builder, self.types[2], "zero")] * (m * n)

    def end(self, totals: Sequence[SSAValue], operands: Sequence[Operand]) -> None:
        if self.slices is None:
            self.tile.store(totals)
        else:
            self.slices.enter(operands)
            self.slices.add(totals, self.tile.store)

    def load(self, a: Operand, b: Operand) -> Iterator[Sequence[SSAValue]]:
        m, n, steps = self.plan.schedule.fragments
        _, _, k = self.plan.schedule.instruction.sizes
        type_a, type_b, _ = self.types
        for step in range(steps):
            rows = a.fragments(m, step * k, type_a)
            yield [*rows, *b.fragments(n, step * k, type_b)]

    def multiply_fragments(
        self, loaded: Iterable[Sequence[SSAValue]], carried: Sequence[SSAValue]
    ) -> Sequence[SSAValue]:
        m, types = self.plan.schedule.fragments[0], self.plan.contraction.types
        for step in loaded:
            carried = multiply_matrices(self.builder, step[:m], step[m:], carried, types)
        return carried


class ContractionToCooperativeMatrixPass(KernelPass):
    """Writes the kernels whose schedule names the instruction `coopmat`, and packing kernels."""

    name = "contraction-to-cooperative-matrix"
    codes = {"coopmat": partial(write_contraction, CooperativeCore), "pack": write_pack}
