"""
Derives units of K, places of columns and the cost of a schedule of few rows for one contraction.

One operand streams: it is read once, in loads of up to 16 bytes. A *unit* is the elements of one
such load: neighbours along K, or along the columns where the operand's elements lie side by side
there. The other operand has few rows, which every invocation reads beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import gcd, prod
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import BFloat16Type, Float16Type, IntegerType, ModuleOp, f32
from xdsl.ir import Attribute
from xdsl.ir.affine import AffineDimExpr

from xdsl_spirv.dialects.program import functions_of
from xdsl_spirv.dialects.schedule import DispatchOp, RowsAttr, bit_width
from xdsl_spirv.dialects.schedule.symbolic_sizes import (
    Size,
    ceil_div,
    is_dynamic,
    is_multiple,
    surely_below,
    typical,
)
from xdsl_spirv.passes.analysis.contraction import Contraction, NotAContraction
from xdsl_spirv.passes.analysis.layout import NotLinear
from xdsl_spirv.passes.analysis.target import target_of
from xdsl_spirv.passes.schedule.kinds import (
    ContractionPlan,
    ScheduleDoesNotFit,
    kind_of,
    plan_of,
    root_of,
)
from xdsl_spirv.targets import Target

if TYPE_CHECKING:
    from xdsl_spirv.passes.analysis.column_readers import ColumnReaders
    from xdsl_spirv.passes.analysis.leaves import Leaf

TYPES = ("f16", "f32", "f64", "bf16", "s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64")
"""Element types of operands."""

FEATURES: dict[str, str] = {"f16": "float16", "f64": "float64"}

EXCHANGES = ("subgroup-arithmetic", "subgroup-rotate", "subgroup-shuffle")
"""Features by which the invocations of a subgroup add up."""

MOST_ELEMENTS = 64
"""Most elements of a unit."""

MOST_SUMS, MOST_PRODUCTS = 1024, 1 << 14
"""Most sums of an invocation, and most products of a step, for which code is written."""

WORD = 32

QUAD = 4
"""Bytes of a word: it holds one digit of each of four elements."""


@dataclass(frozen=True)
class Digit:
    """A digit of a lane's number: it counts `count` steps of `scale` iterations of a loop."""

    loop: int
    count: int
    scale: int
    in_word: bool


@dataclass(frozen=True)
class RowsOperands:
    """The operands of a contraction of few rows, their loops, and the units of K."""

    contraction: Contraction
    schedule: RowsAttr

    @cached_property
    def streamed(self) -> int:
        """The operand that is read once: A (0) or B (1), the one with more rows or columns."""
        contraction = self.contraction
        return 0 if typical(contraction.m) > typical(contraction.n) else 1

    @cached_property
    def leaves(self) -> tuple[tuple[Leaf, ...], tuple[Leaf, ...]]:
        """The tensors from which A and B are read; raises `NotAContraction` for another operand."""
        from xdsl_spirv.passes.analysis.leaves import leaves_of

        contraction = self.contraction
        a, b = (
            leaves_of(value, map, contraction.sizes)
            for value, map in zip((contraction.a, contraction.b), contraction.maps, strict=False)
        )
        return a, b

    @cached_property
    def main(self) -> Leaf:
        """The tensor of the streamed operand that has the most bytes."""
        sizes = self.contraction.sizes

        def weight(leaf: Leaf) -> int:
            return bit_width(leaf.element) * prod(typical(sizes[loop]) for loop in leaf.loops)

        return max(self.leaves[self.streamed], key=weight)

    @property
    def reduced(self) -> range:
        return self.contraction.groups[3]

    @property
    def row_loops(self) -> range:
        """The loops of the few rows."""
        return self.contraction.groups[2 - self.streamed]

    @property
    def column_loops(self) -> range:
        """The loops of the streamed operand other than K's."""
        return self.contraction.groups[1 + self.streamed]

    @cached_property
    def unit(self) -> dict[int, int]:
        """Maps loops of K and of the columns to the number of their iterations in a unit."""
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
        """Joins two units of `elements` elements whose 16-bit scales form one word."""
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
        """Columns of a unit."""
        return prod(count for loop, count in self.unit.items() if loop in self.column_loops)

    @property
    def steps_along(self) -> tuple[Size, ...]:
        """Units along each loop of K."""
        sizes = self.contraction.sizes
        return tuple(sizes[loop] // self.unit.get(loop, 1) for loop in self.reduced)

    @property
    def units(self) -> Size:
        return prod(self.steps_along)

    @property
    def reduced_size(self) -> Size:
        """Size of K."""
        return prod(self.contraction.sizes[loop] for loop in self.reduced)

    @property
    def rows(self) -> Size:
        return prod(self.contraction.sizes[loop] for loop in self.row_loops)

    @property
    def columns(self) -> Size:
        return prod(self.contraction.sizes[loop] for loop in self.column_loops)


@dataclass(frozen=True)
class RowsSums:
    """The sums of a contraction of few rows."""

    plan: RowsPlan

    @property
    def parts(self) -> int:
        """Invocations of a workgroup that divide K."""
        return self.plan.lanes * self.plan.schedule.grid[0]

    @property
    def in_subgroup(self) -> bool:
        """True if the invocations of a subgroup add up their sums without Workgroup memory."""
        exchanges = any(name in self.plan.target.features for name in EXCHANGES)
        several = self.plan.lanes * self.plan.schedule.within.data > 1
        return several and self.plan.beside == 1 and exchanges

    @property
    def in_halves(self) -> bool:
        """True if each lane adds up different sums, which takes fewer exchanges."""
        sums = self.plan.schedule.rows.data * self.plan.schedule.columns.data
        shuffles = "subgroup-shuffle" in self.plan.target.features
        few = 1 < sums <= self.plan.target.subgroup_size and sums & (sums - 1) == 0
        return self.in_subgroup and few and shuffles

    @property
    def partial(self) -> int:
        """Partial sums of a result that meet in Workgroup memory; 1: none do."""
        return self.plan.schedule.grid[0] if self.in_subgroup else self.parts

    @property
    def meets_in_memory(self) -> bool:
        """Whether sums go through Workgroup memory: partial sums, or sums of neighbours."""
        return self.partial > 1 or self.plan.contraction.epilogue.source is not None

    @property
    def type(self) -> Attribute:
        """The type of the sums: small floats are summed in binary32."""
        result = self.plan.contraction.element_types[2]
        return f32 if isinstance(result, Float16Type | BFloat16Type) else result

    @property
    def bytes(self) -> int:
        if not self.meets_in_memory:
            return 0
        return self.partial * prod(self.plan.tile) * bit_width(self.type) // 8


@dataclass(frozen=True)
class RowsDigits:
    """The digits of floats that the subgroups of a workgroup share in Workgroup memory."""

    plan: RowsPlan

    @property
    def quads(self) -> int:
        """The number of words of a unit's digits, for each digit."""
        return prod(self.plan.operands.unit.values()) // QUAD

    @property
    def stride(self) -> int:
        """
        The distance between quads, in units. Invocations write neighbouring quads of neighbouring
        units side by side: with this stride they lie in different banks.
        """
        assert isinstance(self.plan.operands.units, int)
        apart = max(1, self.plan.target.subgroup_size // self.quads)
        banks = self.plan.target.model.rows.banks
        return ceil_div(self.plan.operands.units - apart, banks) * banks + apart

    @cached_property
    def keeps_sums(self) -> bool:
        """True if Workgroup memory has room for sums of quads beside the digits."""
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
        """Whether several subgroups multiply the same digits, and make them together."""
        plan, operands = self.plan, self.plan.operands
        several = plan.schedule.digits.data > 0 and plan.schedule.grid[1] > 1
        if not several or not plan.is_stationary or is_dynamic(operands.units):
            return False
        quads, size = self.quads, plan.target.subgroup_size
        return (
            "subgroup-shuffle" in plan.target.features
            and operands.side_by_side == 1
            and operands.unit.get(operands.reduced[-1], 1) % QUAD == 0
            and quads & (quads - 1) == 0
            and quads <= size
            and plan.sums.bytes + self.bytes <= plan.target.workgroup_memory_bytes
        )


@dataclass(frozen=True)
class RowsPlan(ContractionPlan):
    """A contraction with its schedule on a target."""

    contraction: Contraction
    schedule: RowsAttr
    target: Target

    @cached_property
    def operands(self) -> RowsOperands:
        """The operands, their loops and the units of K."""
        return RowsOperands(self.contraction, self.schedule)

    @cached_property
    def sums(self) -> RowsSums:
        """The sums and their way to the invocations that store results."""
        return RowsSums(self)

    @cached_property
    def digits(self) -> RowsDigits:
        """The digits of floats that subgroups share."""
        return RowsDigits(self)

    # Distribution of the work

    @property
    def lanes(self) -> int:
        """Invocations of a subgroup that divide K."""
        return self.schedule.lanes.data

    @property
    def beside(self) -> int:
        """Invocations of a subgroup that have other columns."""
        return self.target.subgroup_size // (self.lanes * self.schedule.within.data)

    @cached_property
    def lane_digits(self) -> tuple[Digit, ...]:
        """
        Divides a unit among the lanes that share it: along the elements of a word first, then along
        the unit's other loops, then along further words.
        """
        main, unit, left = self.operands.main, self.operands.unit, self.schedule.within.data
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
                digits.append(Digit(loop, count, scale, scale == 1))
                taken[loop], left = scale * count, left // count
        return tuple(digits)

    @property
    def lane_iterations(self) -> dict[int, int]:
        """
        Maps loops whose iterations in a unit lanes share to the iterations that all lanes have
        together.
        """
        return {digit.loop: digit.count * digit.scale for digit in self.lane_digits}

    @cached_property
    def readers(self) -> ColumnReaders | None:
        """
        The values stored instead of the columns, if the kernel reads the columns.

        Raises `NotFused` for values that cannot be computed there.
        """
        source = self.contraction.epilogue.source
        if source is None:
            return None
        from xdsl_spirv.passes.analysis.column_readers import column_readers
        from xdsl_spirv.passes.analysis.epilogue import NotFused

        if is_dynamic(self.operands.columns):
            raise NotFused("the number of columns is known only at run time")
        return column_readers(source.value)

    @property
    def together(self) -> int:
        """The number of neighbouring columns that one invocation adds up."""
        return 1 if self.readers is None else self.readers.count

    @property
    def group_columns(self) -> int:
        """Columns that a workgroup computes at a time."""
        return self.schedule.columns.data * self.beside * self.schedule.grid[1]

    @property
    def tile_columns(self) -> int:
        """Columns of a workgroup."""
        return self.group_columns * self.schedule.groups.data

    @property
    def is_stationary(self) -> bool:
        """Whether an invocation has the same units of K for several groups of columns."""
        most = self.sums.parts * self.schedule.steps.data
        return self.schedule.groups.data > 1 and surely_below(self.operands.units, most + 1)

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and columns of a workgroup."""
        return self.schedule.rows.data, self.tile_columns

    @property
    def row_tiles(self) -> Size:
        return ceil_div(self.operands.rows, self.tile[0])

    @property
    def grid(self) -> tuple[Size, Size, Size]:
        """Workgroups: those that read the same columns follow each other."""
        columns = ceil_div(self.operands.columns, self.tile_columns)
        return self.row_tiles, columns, self.contraction.batch

    @property
    def invocations(self) -> int:
        return prod(self.schedule.grid) * self.target.subgroup_size

    @property
    def workgroup_bytes(self) -> int:
        return self.sums.bytes + (self.digits.bytes if self.digits.are_shared else 0)

    # Estimated times

    @property
    def seconds_of_reading(self) -> float:
        """Seconds in which a copy reads the streamed operand."""
        sizes = self.contraction.sizes
        bits = sum(
            bit_width(leaf.element) * prod(typical(sizes[loop]) for loop in leaf.loops)
            for leaf in self.operands.leaves[self.operands.streamed]
        )
        return bits / 8 / self.target.copy_bytes_per_second

    @cached_property
    def seconds(self) -> float:
        """
        Estimates the duration on a device whose target file gives rates.

        The streamed operand is read at the rate of a copy, once for each tile of rows, if there are
        enough subgroups to hide latency. Multiply-adds and conversions to floats overlap with it.
        """
        contraction, target, model = self.contraction, self.target, self.target.model.rows
        tiles = typical(self.row_tiles * contraction.batch)
        elements = typical(self.operands.columns * self.operands.reduced_size)
        subgroups = prod(typical(size) for size in self.grid) * prod(self.schedule.grid)
        busy = min(1.0, subgroups / (model.busy * target.compute_units))
        packed = any(contraction.unpackings)
        conversion = model.conversion_of_packed if packed else model.conversion
        products = model.product * self.schedule.rows.data
        operations = 0 if self.schedule.digits.data else conversion + products
        reading = tiles * self.seconds_of_reading / busy
        rate = target.rates.get("fma f32", 0) * 1e12
        return max(reading, 2 * tiles * elements * operations / rate if rate else 0.0)

    # Whether it fits

    def problems(self) -> Iterator[str]:
        """Lists the problems of this schedule; each names a value that fits."""
        try:
            yield from self._problems()
        except NotLinear as error:
            yield str(error)

    def _problems(self) -> Iterator[str]:
        yield from self._problems_of_length()
        yield from self._problems_of_operands()
        yield from self._problems_of_readers()
        schedule, size = self.schedule, self.target.subgroup_size
        if size % self.lanes:
            yield f"lanes = {self.lanes} do not divide a subgroup of {size}"
            return
        if schedule.within.data > 1:
            yield from self._problems_within_units()
        if schedule.columns.data % self.operands.side_by_side:
            yield (
                f"columns = {schedule.columns.data} are not a multiple of the "
                f"{self.operands.side_by_side} that one load has"
            )
        if schedule.digits.data and self.sums.type != f32:
            yield f"digits are added up in f32, not in {self.sums.type}: use digits = 0"
        yield from self.launch_problems()

    def _problems_of_length(self) -> Iterator[str]:
        """Problems with the number of sums and products that are unrolled for an invocation."""
        rows, columns, steps = (
            number.data
            for number in (self.schedule.rows, self.schedule.columns, self.schedule.steps)
        )
        if rows * columns > MOST_SUMS:
            yield (
                f"rows = {rows} and columns = {columns} are {rows * columns} sums of an "
                f"invocation: {MOST_SUMS} at most are written out"
            )
        elif rows * columns * steps > MOST_PRODUCTS:
            yield (
                f"steps = {steps} of {rows * columns} sums are {rows * columns * steps} products "
                f"of an invocation: {MOST_PRODUCTS} at most are written out"
            )

    def _problems_of_readers(self) -> Iterator[str]:
        """Problems of a kernel that reads the columns."""
        contraction, source = self.contraction, self.contraction.epilogue.source
        if source is None:
            return
        count, operands = self.together, self.operands
        walked = [*contraction.groups[0], *operands.column_loops]
        rows = {AffineDimExpr(loop) for loop in operands.row_loops}
        in_order = [e for e in source.map.results if e not in rows]
        is_row = in_order == list(map(AffineDimExpr, walked))
        if not is_row or operands.streamed != 1 or operands.rows != 1:
            yield "columns are read in the kernel: that takes one row whose columns lie in order"
        elif self.readers is not None and self.readers.parts > 1 and operands.side_by_side > 1:
            width = operands.side_by_side
            yield f"columns are taken of parts in turns, but {width} are in one load"
        elif not is_multiple(operands.columns, count) or self.tile_columns % count:
            yield (
                f"{operands.columns} columns in tiles of {self.tile_columns} are not groups of the "
                f"{count} that are read together"
            )

    def _problems_within_units(self) -> Iterator[str]:
        schedule, size, main = self.schedule, self.target.subgroup_size, self.operands.main
        if (self.lanes, schedule.within.data) != (1, size):
            yield f"within = {schedule.within.data} is not a subgroup of {size} with lanes = 1"
        elif schedule.digits.data:
            yield f"within = {size} lanes multiply floats: use digits = 0"
        elif not isinstance(main.element, IntegerType) or main.element.width.data >= WORD:
            yield f"within = {size} lanes take apart words of small integers, not {main.element}"
        elif main.fast_loop not in self.operands.reduced or self.sums.type != f32:
            yield f"within = {size} lanes share units along K that are summed in f32"
        elif (shared := prod(digit.count for digit in self.lane_digits)) != size:
            yield f"a unit {self.operands.unit} is shared by {shared} lanes, not by within = {size}"

    def _problems_of_operands(self) -> Iterator[str]:
        types = self.contraction.types
        if unknown := {*types[:2]} - set(TYPES):
            yield f"a schedule of rows takes {', '.join(TYPES)}, not {', '.join(sorted(unknown))}"
        needed = {FEATURES[name] for name in types if name in FEATURES}
        for leaf in (*self.operands.leaves[0], *self.operands.leaves[1]):
            if isinstance(leaf.element, Float16Type):
                needed.add(FEATURES["f16"])
            if leaf.guards and not self.target.processor:
                yield "an operand is padded: tiles read it once for all of a window"
            if isinstance(leaf.element, IntegerType) and leaf.element.width.data < 8:
                yield f"a schedule of rows reads no elements of {leaf.element}"
        for feature in sorted(needed - self.target.features):
            yield f"it needs {feature}, which {self.target.name} does not list"
        if types[2] == "bf16":
            yield "a schedule of rows stores no bf16"


def rows_plan(dispatch: DispatchOp, target: Target) -> RowsPlan | None:
    """
    Returns the plan of a dispatch's product by rows; None if it has none, or if it does not fit.
    """
    root = root_of(dispatch)
    if root is None or kind_of(root) != "rows":
        return None
    try:
        plan = plan_of(root, target)
    except (NotAContraction, NotLinear, ScheduleDoesNotFit):
        return None
    assert isinstance(plan, RowsPlan)
    return plan


def dispatches_beside_rows(module: ModuleOp, pass_name: str) -> Iterator[tuple[DispatchOp, Target]]:
    """
    Yields each dispatch, with the target, of a module that has products by rows.

    Yields nothing for any other module, and needs no target then.
    """
    if not any(kind_of(op) == "rows" for op in module.walk()):
        return
    target = target_of(module, pass_name)
    for function in functions_of(module):
        for dispatch in [op for op in function.walk() if isinstance(op, DispatchOp)]:
            yield dispatch, target
