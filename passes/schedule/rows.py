"""
Plans a contraction with few rows: units of K, distribution of columns, sums, and cost.

One operand is streamed: it is read once, by loads of up to 16 bytes. A *unit* contains the
elements of one load: neighbours along K, or along the columns if the operand is contiguous along
the columns. Every invocation also reads the other operand, which has few rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import gcd, prod
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import BFloat16Type, Float16Type, IntegerType, f32
from xdsl.ir import Attribute
from xdsl.ir.affine import AffineDimExpr

from xdsl_spirv.dialects.schedule import RowsAttr, bit_width
from xdsl_spirv.dialects.schedule.symbolic_sizes import (
    Size,
    ceil_div,
    is_dynamic,
    is_multiple,
    surely_below,
    typical,
)
from xdsl_spirv.passes.schedule.kinds import EXCHANGES, FEATURES, ContractionPlan

if TYPE_CHECKING:
    from xdsl_spirv.passes.analysis.column_readers import ColumnReaders
    from xdsl_spirv.passes.analysis.leaves import Leaf

TYPES = ("f16", "f32", "f64", "bf16", "s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64")
"""Element types that operands may have."""

MOST_ELEMENTS = 64
"""Largest number of elements in a unit (one load of the streamed operand)."""

MOST_SUMS, MOST_PRODUCTS = 1024, 1 << 14
"""Largest number of sums of an invocation, and largest number of unrolled products in a step."""

WORD = 32

QUAD = 4
"""Number of elements in a quad: their 8-bit digits (see `RowsDigits`) fill a word."""


@dataclass(frozen=True)
class Digit:
    """A mixed-radix digit of the lane index. It counts `count` steps of `scale` loop iterations."""

    loop: int
    count: int
    scale: int


@dataclass(frozen=True)
class RowsOperands(ContractionPlan[RowsAttr]):
    """The operands and loops of a contraction with few rows, and the elements of a load (unit)."""

    @cached_property
    def streamed(self) -> int:
        """Index of the streamed operand, which has more rows or columns: 0 (A) or 1 (B)."""
        contraction = self.contraction
        return 0 if typical(contraction.m) > typical(contraction.n) else 1

    @cached_property
    def leaves(self) -> tuple[tuple[Leaf, ...], tuple[Leaf, ...]]:
        """
        Stored tensors of A and B; raises `NotAContraction` for operands that are not supported.
        """
        from xdsl_spirv.passes.analysis.leaves import leaves_of

        contraction = self.contraction
        a, b = (
            leaves_of(value, map, contraction.sizes)
            for value, map in zip((contraction.a, contraction.b), contraction.maps, strict=False)
        )
        return a, b

    @cached_property
    def main(self) -> Leaf:
        """The streamed operand's tensor with the most bytes."""
        sizes = self.contraction.sizes

        def weight(leaf: Leaf) -> int:
            return bit_width(leaf.element) * prod(typical(sizes[loop]) for loop in leaf.loops)

        return max(self.leaves[self.streamed], key=weight)

    @property
    def reduced(self) -> range:
        return self.contraction.groups[3]

    @property
    def row_loops(self) -> range:
        """Loops along the few rows."""
        return self.contraction.groups[2 - self.streamed]

    @property
    def column_loops(self) -> range:
        """Loops of the streamed operand, without the loops of K."""
        return self.contraction.groups[1 + self.streamed]

    @cached_property
    def unit(self) -> dict[int, int]:
        """
        Maps loops of K or of the columns to their iterations in one load; leaves out counts of 1.
        """
        sizes, main = self.contraction.sizes, self.main
        own = self.reduced if main.fast_loop in self.reduced else self.column_loops[-1:]
        unit = main.piece(sizes, own, self.schedule.bytes.data)
        for loop in self.reduced:
            size = sizes[loop]
            if loop in main.loops or is_dynamic(size):
                continue
            if prod(unit.values()) * size <= MOST_ELEMENTS:
                unit[loop] = size
        if self.schedule.within.data > 1:
            unit |= self._pair(prod(unit.values()))
        return {loop: count for loop, count in unit.items() if count > 1}

    def _pair(self, elements: int) -> dict[int, int]:
        """
        Returns {loop: 2} for a loop of K, so that one load covers two of its iterations. Returns {}
        if there is no such loop.

        A word then contains the 16-bit scales of both iterations. `elements` is the number of
        elements in one load before.
        """
        for leaf in self.leaves[self.streamed]:
            loop = leaf.fast_loop
            if leaf is self.main or loop is None or loop not in self.reduced:
                continue
            size = self.contraction.sizes[loop]
            fits = 2 * elements <= MOST_ELEMENTS and is_multiple(size, 2)
            if bit_width(leaf.element) == WORD // 2 and loop != self.main.fast_loop and fits:
                return {loop: 2}
        return {}

    @property
    def side_by_side(self) -> int:
        """Number of columns in one load of the streamed operand."""
        return prod(count for loop, count in self.unit.items() if loop in self.column_loops)

    @property
    def steps_along(self) -> tuple[Size, ...]:
        """Number of loads along each loop of K."""
        sizes = self.contraction.sizes
        return tuple(sizes[loop] // self.unit.get(loop, 1) for loop in self.reduced)

    @property
    def units(self) -> Size:
        return prod(self.steps_along)

    @property
    def rows(self) -> Size:
        return (self.contraction.n, self.contraction.m)[self.streamed]

    @property
    def columns(self) -> Size:
        return (self.contraction.m, self.contraction.n)[self.streamed]


@dataclass(frozen=True)
class RowsSums:
    """The way in which the partial sums of a contraction with few rows are added up."""

    plan: RowsPlan

    @property
    def parts(self) -> int:
        """Number of a workgroup's invocations among which K is divided."""
        return self.plan.lanes * self.plan.schedule.grid[0]

    @property
    def in_subgroup(self) -> bool:
        """True if subgroups add up sums without Workgroup memory."""
        exchanges = any(name in self.plan.target.features for name in EXCHANGES)
        several = self.plan.lanes * self.plan.schedule.within.data > 1
        return several and self.plan.beside == 1 and exchanges

    @property
    def in_halves(self) -> bool:
        """True if each lane adds up a different sum (`reduce_by_halves`)."""
        sums = self.plan.schedule.rows.data * self.plan.schedule.columns.data
        shuffles = "subgroup-shuffle" in self.plan.target.features
        few = 1 < sums <= self.plan.target.subgroup_size and sums & (sums - 1) == 0
        return self.in_subgroup and few and shuffles

    @property
    def partial(self) -> int:
        """
        Number of partial sums of a result in Workgroup memory; 1 if Workgroup memory has no sums.
        """
        return self.plan.schedule.grid[0] if self.in_subgroup else self.parts

    @property
    def meets_in_memory(self) -> bool:
        """True if sums go through Workgroup memory."""
        return self.partial > 1 or self.plan.contraction.epilogue.source is not None

    @property
    def type(self) -> Attribute:
        """Type of the sums: f32 for 16-bit floats, else the result's type."""
        result = self.plan.contraction.element_types[2]
        return f32 if isinstance(result, Float16Type | BFloat16Type) else result

    @property
    def bytes(self) -> int:
        if not self.meets_in_memory:
            return 0
        return self.partial * prod(self.plan.tile) * bit_width(self.type) // 8


@dataclass(frozen=True)
class RowsDigits:
    """
    Layout in Workgroup memory of the digits that invocations share.

    The elements of a row are scaled to integers; the bytes of these integers are the digits.
    """

    plan: RowsPlan

    @property
    def quads(self) -> int:
        """Number of quads (four elements) in one load of the streamed operand."""
        return prod(self.plan.unit.values()) // QUAD

    @property
    def stride(self) -> int:
        """
        Number of words in memory between neighbouring quads (four elements) of one load.

        Invocations concurrently write neighbouring quads of neighbouring loads. With this stride,
        these quads are in different banks.
        """
        assert isinstance(self.plan.units, int)
        apart = max(1, self.plan.target.subgroup_size // self.quads)
        banks = self.plan.target.model.rows.banks
        return ceil_div(self.plan.units - apart, banks) * banks + apart

    @cached_property
    def keeps_sums(self) -> bool:
        """True if Workgroup memory also has room for the sum of each quad (four elements)."""
        bytes = self.plan.sums.bytes + self._bytes(1)
        return bytes <= self.plan.target.workgroup_memory_bytes

    @property
    def bytes(self) -> int:
        return self._bytes(int(self.keeps_sums))

    def _bytes(self, sums: int) -> int:
        words = self.quads * (self.plan.schedule.digits.data + sums) + 1
        return self.plan.schedule.rows.data * words * self.stride * WORD // 8

    @cached_property
    def are_shared(self) -> bool:
        """True if subgroups share the computation of the rows' 8-bit digits."""
        plan = self.plan
        several = plan.schedule.digits.data > 0 and plan.schedule.grid[1] > 1
        if not several or not plan.is_stationary or is_dynamic(plan.units):
            return False
        quads, size = self.quads, plan.target.subgroup_size
        return (
            "subgroup-shuffle" in plan.target.features
            and plan.side_by_side == 1
            and plan.unit.get(plan.reduced[-1], 1) % QUAD == 0
            and quads & (quads - 1) == 0
            and quads <= size
            and plan.sums.bytes + self.bytes <= plan.target.workgroup_memory_bytes
        )


@dataclass(frozen=True)
class RowsPlan(RowsOperands):
    """A contraction with a schedule of few rows on a target."""

    @cached_property
    def sums(self) -> RowsSums:
        """The plan of how partial sums are added up."""
        return RowsSums(self)

    @cached_property
    def digits(self) -> RowsDigits:
        """Layout of the row elements in Workgroup memory, split into 8-bit digits."""
        return RowsDigits(self)

    # Distribution of the work

    @property
    def lanes(self) -> int:
        """Number of a subgroup's lanes among which K is divided."""
        return self.schedule.lanes.data

    @property
    def beside(self) -> int:
        """Number of groups of a subgroup's lanes. Each group computes different columns."""
        return self.target.subgroup_size // (self.lanes * self.schedule.within.data)

    @cached_property
    def lane_digits(self) -> tuple[Digit, ...]:
        """
        Distribution of the elements of one load (unit) among lanes, as digits of the lane index.

        The elements of a word are distributed first, then the unit's other loops, then further
        words.
        """
        main, unit, left = self.main, self.unit, self.schedule.within.data
        if left == 1:
            return ()
        assert main.fast_loop is not None
        in_word = WORD // bit_width(main.element)
        others = [(loop, count) for loop, count in unit.items() if main.strides[loop] == 0]
        digits: list[Digit] = []
        taken: dict[int, int] = {}
        for loop, most in ((main.fast_loop, in_word), *others, (main.fast_loop, MOST_ELEMENTS)):
            scale = taken.get(loop, 1)
            count = gcd(left, unit.get(loop, 1) // scale, most)
            if count > 1:
                digits.append(Digit(loop, count, scale))
                taken[loop], left = scale * count, left // count
        return tuple(digits)

    @cached_property
    def readers(self) -> ColumnReaders | None:
        """
        The loops in the kernel that read the product's columns; None if the columns are stored.

        Raises `NotFused` for loops that the kernel cannot compute.
        """
        source = self.contraction.epilogue.source
        if source is None:
            return None
        from xdsl_spirv.passes.analysis.column_readers import column_readers
        from xdsl_spirv.passes.analysis.epilogue import NotFused

        if is_dynamic(self.columns):
            raise NotFused("the number of columns is dynamic")
        return column_readers(source.value)

    @property
    def together(self) -> int:
        """Number of neighbouring columns that one invocation adds up."""
        return 1 if self.readers is None else self.readers.count

    @property
    def group_columns(self) -> int:
        """Number of columns in a group, which a workgroup computes at a time."""
        return self.schedule.columns.data * self.beside * self.schedule.grid[1]

    @property
    def tile_columns(self) -> int:
        """Number of columns that a workgroup computes."""
        return self.group_columns * self.schedule.groups.data

    @property
    def is_stationary(self) -> bool:
        """True if an invocation multiplies the same part of K in several groups of columns."""
        most = self.sums.parts * self.schedule.steps.data
        return self.schedule.groups.data > 1 and surely_below(self.units, most + 1)

    @property
    def tile(self) -> tuple[int, int]:
        """Numbers of rows and columns that a workgroup computes."""
        return self.schedule.rows.data, self.tile_columns

    @property
    def row_tiles(self) -> Size:
        return ceil_div(self.rows, self.tile[0])

    @property
    def grid(self) -> tuple[Size, Size, Size]:
        """Number of workgroups: tiles of rows, tiles of columns, batch."""
        columns = ceil_div(self.columns, self.tile_columns)
        return self.row_tiles, columns, self.contraction.batch

    @property
    def workgroup_bytes(self) -> int:
        return self.sums.bytes + (self.digits.bytes if self.digits.are_shared else 0)

    # Estimated times

    @property
    def seconds_of_reading(self) -> float:
        """Seconds to read the streamed operand at the rate of a copy."""
        sizes = self.contraction.sizes
        bits = sum(
            bit_width(leaf.element) * prod(typical(sizes[loop]) for loop in leaf.loops)
            for leaf in self.leaves[self.streamed]
        )
        return bits / 8 / self.target.copy_bytes_per_second

    @cached_property
    def seconds(self) -> float:
        """
        Estimated duration in seconds.

        The streamed operand is read once for each tile of rows, at the rate of a copy if enough
        subgroups hide latency. Multiply-adds and conversions to float overlap with reading.
        """
        contraction, target, model = self.contraction, self.target, self.target.model.rows
        tiles = typical(self.row_tiles * contraction.batch)
        elements = typical(self.columns * contraction.k)
        subgroups = prod(typical(size) for size in self.grid) * self.schedule.subgroup_count
        busy = min(1.0, subgroups / (model.busy * target.compute_units))
        packed = any(contraction.unpackings)
        conversion = model.conversion_of_packed if packed else model.conversion
        products = model.product * self.schedule.rows.data
        operations = 0 if self.schedule.digits.data else conversion + products
        reading = tiles * self.seconds_of_reading / busy
        rate = target.rates.get("fma f32", 0) * 1e12
        return max(reading, 2 * tiles * elements * operations / rate if rate else 0.0)

    # Whether it fits

    def list_problems(self) -> Iterator[str]:
        yield from self._problems_of_length()
        yield from self._problems_of_operands()
        yield from self._problems_of_readers()
        schedule, size = self.schedule, self.target.subgroup_size
        if size % self.lanes:
            yield f"lanes = {self.lanes} does not divide the subgroup size {size}"
            return
        if schedule.within.data > 1:
            yield from self._problems_within_units()
        if schedule.columns.data % self.side_by_side:
            yield (
                f"columns = {schedule.columns.data} is not a multiple of the "
                f"{self.side_by_side} columns in one load"
            )
        if schedule.digits.data and self.sums.type != f32:
            yield f"digits above 0 needs sums in f32, not {self.sums.type}: use digits = 0"
        yield from self.launch_problems()

    def _problems_of_length(self) -> Iterator[str]:
        rows, columns, steps = (
            number.data
            for number in (self.schedule.rows, self.schedule.columns, self.schedule.steps)
        )
        if rows * columns > MOST_SUMS:
            yield (
                f"rows = {rows} and columns = {columns} give {rows * columns} sums of an "
                f"invocation, more than {MOST_SUMS}"
            )
        elif rows * columns * steps > MOST_PRODUCTS:
            yield (
                f"steps = {steps} of {rows * columns} sums give {rows * columns * steps} products "
                f"of an invocation, more than {MOST_PRODUCTS}"
            )

    def _problems_of_readers(self) -> Iterator[str]:
        contraction, source = self.contraction, self.contraction.epilogue.source
        if source is None:
            return
        count = self.together
        walked = [*contraction.groups[0], *self.column_loops]
        rows = {AffineDimExpr(loop) for loop in self.row_loops}
        in_order = [e for e in source.map.results if e not in rows]
        is_row = in_order == list(map(AffineDimExpr, walked))
        if not is_row or self.streamed != 1 or self.rows != 1:
            yield "readers of columns need a result of one row that is not transposed"
        elif self.readers is not None and self.readers.parts > 1 and self.side_by_side > 1:
            width = self.side_by_side
            yield f"if several parts of columns are read, a load must have 1 column, not {width}"
        elif not is_multiple(self.columns, count) or self.tile_columns % count:
            yield (
                f"the kernel reads {count} columns together, but {self.columns} columns or "
                f"tiles of {self.tile_columns} are not multiples of {count}"
            )

    def _problems_within_units(self) -> Iterator[str]:
        schedule, size, main = self.schedule, self.target.subgroup_size, self.main
        if (self.lanes, schedule.within.data) != (1, size):
            yield f"within = {schedule.within.data} does not fit: use lanes = 1 and within = {size}"
        elif schedule.digits.data:
            yield f"within = {size} does not support digits: use digits = 0"
        elif not isinstance(main.element, IntegerType) or main.element.width.data >= WORD:
            yield f"within = {size} needs weights of small integers, not {main.element}"
        elif main.fast_loop not in self.reduced or self.sums.type != f32:
            yield f"within = {size} needs weights that are contiguous along K, and sums in f32"
        elif (shared := prod(digit.count for digit in self.lane_digits)) != size:
            yield f"within = {size}, but only {shared} lanes can share the elements of one load"

    def _problems_of_operands(self) -> Iterator[str]:
        types = self.contraction.types
        if unknown := {*types[:2]} - set(TYPES):
            yield f"rows supports {', '.join(TYPES)}, not {', '.join(sorted(unknown))}"
        needed = {FEATURES[name] for name in types if name in FEATURES}
        for leaf in (*self.leaves[0], *self.leaves[1]):
            if isinstance(leaf.element, Float16Type):
                needed.add(FEATURES["f16"])
            if leaf.guards and not self.target.processor:
                yield "an operand is padded: use a schedule of tiles, which reads it only once"
            if isinstance(leaf.element, IntegerType) and leaf.element.width.data < 8:
                yield f"a schedule of rows cannot read elements of {leaf.element}"
        for feature in sorted(needed - self.target.features):
            yield f"a schedule of rows needs {feature}, which {self.target.name} does not list"
        if types[2] == "bf16":
            yield "a schedule of rows cannot store bf16"
