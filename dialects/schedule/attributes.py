"""
The schedule of a contraction, as data in the IR.

A schedule is an attribute on the contraction. It holds every decision that the lowering may not
take by itself; `passes/schedule/fit.py` checks that a target can do it. Each operand has a path of
its own, because the best kernels treat A and B differently.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, BoolAttr, IntAttr, IntegerAttr, StringAttr
from xdsl.ir import Attribute, Operation, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.keyed import (
    KeyedAttr,
    integer,
    integer_array,
    integers,
    key,
    keyed_attr_definition,
    one_of,
    word,
)

DYNAMIC = -(2**63)
"""Stands for a loop's size, or a bound of an attention, that an operand `numbers` gives."""

SCHEDULE = "schedule"
"""The name under which an operation carries its schedule."""

CONSIDERED = "schedule.considered"
"""The name under which an operation carries the paths that were considered for it, in order."""

SUMMED = "schedule.summed"
"""
Attribute of a row sum that reads the same tensor as a product: the product's argument number.

The sum has its own argument for the same memory.
"""

INSTRUCTIONS = ("coopmat", "dot", "fma")
RASTERS = ("rows", "columns")
LAYOUTS = ("rows", "panels", "fragments")
FIRST = ("load", "store")
RESULTS = ("fragments", "rows", "components", "elements")


class ScheduleAttr(KeyedAttr):
    """A schedule of any kind, with the facts that passes ask of every schedule."""

    HAS_FRAGMENTS: ClassVar[bool] = False
    """True if results are computed in fragments, whose columns may be several parts of a result."""

    READS_COLUMNS: ClassVar[bool] = False
    """True if the kernel may also compute what reads, or sums up, whole rows of its operands."""

    @property
    def kind(self) -> str:
        """The name under which the kind of kernel is registered (see `schedule.kinds`)."""
        return self.name.removeprefix("schedule.")

    @property
    def packs(self) -> bool:
        """True if the kernel may read operands that are packed before."""
        return False

    @property
    def uses_components(self) -> bool:
        """True if invocations compute by the target's map of the components of fragments."""
        return False

    @property
    def direct(self) -> tuple[int, ...]:
        """The operands of a product, A (0) and B (1), whose fragments come from global memory."""
        return ()


def schedule_of(op: Operation) -> ScheduleAttr | None:
    """Returns the schedule that an operation carries."""
    schedule = op.attributes.get(SCHEDULE)
    return schedule if isinstance(schedule, ScheduleAttr) else None


@keyed_attr_definition
class StagedAttr(KeyedAttr):
    """
    The operand's tile is copied into Workgroup memory and read from there.

    `padding` is how many elements lie unused after each row of the copy, `vector` how many elements
    one invocation moves at a time, `buffers` how many copies there are: of two, one is filled while
    the other is multiplied, and a K tile takes one barrier instead of two. `ahead = 1` has the
    fragments of a tile in registers before the tile before is multiplied. `layout = panels` has the
    operand packed before (see `PackingAttr`), so that each tile is one piece of memory;
    `layout = fragments` packs it into fragments, as for `direct`.
    """

    name = "schedule.staged"
    padding: IntAttr = integer(converter=IntAttr, default=0, least=0, always_printed=True)
    vector: IntAttr = integer(converter=IntAttr, default=1, least=1, always_printed=True)
    buffers: IntAttr = integer(converter=IntAttr, default=1, least=1)
    ahead: IntAttr = integer(converter=IntAttr, default=0, least=0, most=1)
    layout: StringAttr = word(LAYOUTS, converter=StringAttr, default="rows")

    @property
    def packs(self) -> bool:
        """True if the operand is packed before it is staged."""
        return self.layout.data != "rows"

    @property
    def in_panels(self) -> bool:
        """True if the operand is packed into panels along K before it is staged."""
        return self.layout.data == "panels"


@keyed_attr_definition
class DirectAttr(KeyedAttr):
    """
    Subgroups load the operand's fragments straight from global memory.

    The operand is packed (see `PackingAttr`): what an invocation holds of a fragment lies side by
    side there. `ahead` is how many instructions along K its fragments are read before they are
    multiplied: at most as many as a K tile has.
    """

    name = "schedule.direct"
    ahead: IntAttr = integer(converter=IntAttr, default=0, least=0)
    MAY_BE_BARE = True

    @property
    def packs(self) -> bool:
        return True

    @property
    def in_panels(self) -> bool:
        return False


@irdl_attr_definition
class InstructionAttr(ParametrizedAttribute):
    """
    The instruction that multiplies, with its shape.

    `coopmat 16x16x16` is a cooperative-matrix MulAdd of M x N x K by a subgroup; `fma 4x4x2` is
    what each invocation computes by itself, 4 x 4 elements of the result, 2 steps of K at a time;
    `dot 4x4x16` is the same with four 8-bit products in each instruction.
    """

    name = "schedule.instruction"
    kind: StringAttr
    shape: ArrayAttr[IntAttr]

    def __init__(self, kind: str, shape: Sequence[int]):
        super().__init__(StringAttr(kind), integer_array(shape))

    @property
    def sizes(self) -> tuple[int, int, int]:
        m, n, k = (size.data for size in self.shape)
        return m, n, k

    @classmethod
    def parse_bare(cls, parser: AttrParser) -> InstructionAttr:
        start = parser.pos
        kind = parser.parse_identifier()
        if kind not in INSTRUCTIONS:
            parser.raise_error(f"{kind!r} is not {one_of(INSTRUCTIONS)}", start, parser.pos)
        sizes: list[int] = []
        for last in (False, False, True):
            sizes.append(parser.parse_shape_dimension(allow_dynamic=False))
            if not last:
                parser.parse_shape_delimiter()
        return cls(kind, sizes)

    @staticmethod
    def print_bare(printer: Printer, value: InstructionAttr) -> None:
        printer.print_string(f"{value.kind.data} {'x'.join(map(str, value.sizes))}")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            return cls.parse_bare(parser).parameters

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            self.print_bare(printer, self)

    def verify(self) -> None:
        if len(self.shape) != 3 or any(size.data < 1 for size in self.shape):
            raise VerifyException("an instruction's shape is three positive numbers, M x N x K")


INSTRUCTION = InstructionAttr.parse_bare, InstructionAttr.print_bare
"""The reader and the printer of an instruction in a schedule."""


PATHS: dict[str, type[StagedAttr | DirectAttr]] = {"staged": StagedAttr, "direct": DirectAttr}
"""The paths of an operand by the words that name them."""


def _parse_path(parser: AttrParser) -> StagedAttr | DirectAttr:
    start = parser.pos
    kind = parser.parse_identifier()
    if kind not in PATHS:
        parser.raise_error(f"{kind!r} is not {one_of(list(PATHS))}", start, parser.pos)
    return PATHS[kind].new(PATHS[kind].parse_parameters(parser))


def _print_path(printer: Printer, path: StagedAttr | DirectAttr) -> None:
    printer.print_string(path.name.removeprefix("schedule."))
    path.print_parameters(printer)


PATH = _parse_path, _print_path


def _subgroups(counts: Sequence[int]) -> ArrayAttr[IntAttr]:
    """Leaves out a number of slices that is 1."""
    return integer_array(counts[:2] if tuple(counts[2:]) == (1,) else counts)


@keyed_attr_definition
class ContractionAttr(ScheduleAttr):
    """
    The schedule of a contraction.

    - `workgroup_tile`: the M x N part of the result that a workgroup computes, and the K depth that
      it stages at a time.
    - `subgroups`: the grid (rows, columns) of subgroups that divide the tile. A third number
      divides each K tile into slices: the subgroups of a slice have sums of their own, which are
      added up at the end, through Workgroup memory.
    - `a`, `b`: the operands' paths, staged or direct.
    - `stages`: K tiles in flight. With 2, a tile is read into registers while the one before is
      multiplied. With `first = store` a tile is stored in Workgroup memory before the next one is
      read, which takes fewer registers; else after it.
    - `raster`: the dimension of the result along which neighbouring workgroups lie. `rows<8>` takes
      8 rows of tiles at a time (the `group`), and goes across them first.
    - `result`: how results are stored. With `rows` each subgroup's part passes through Workgroup
      memory and is stored row by row. With `components` invocations compute and store their own
      components at the result's edges. With `elements` an instruction calls a function for each
      element.
    """

    name = "schedule.contraction"
    workgroup_tile: ArrayAttr[IntAttr] = integers(3, converter=integer_array, least=1)
    subgroups: ArrayAttr[IntAttr] = integers(2, 3, converter=_subgroups, least=1)
    instruction: InstructionAttr = key(*INSTRUCTION)
    a: StagedAttr | DirectAttr = key(*PATH)
    b: StagedAttr | DirectAttr = key(*PATH)
    stages: IntAttr = integer(converter=IntAttr, default=1, least=1)
    raster: StringAttr = word(RASTERS, converter=StringAttr, default="rows", always_printed=True)
    group: IntAttr = integer(converter=IntAttr, default=1, least=1, is_suffix=True)
    first: StringAttr = word(FIRST, converter=StringAttr, default="load")
    result: StringAttr = word(RESULTS, converter=StringAttr, default="fragments")
    HAS_FRAGMENTS = True

    @property
    def kind(self) -> str:
        return self.instruction.kind.data

    @property
    def paths(self) -> tuple[StagedAttr | DirectAttr, StagedAttr | DirectAttr]:
        """The paths of A and B."""
        return self.a, self.b

    @property
    def packs(self) -> bool:
        return any(path.packs for path in self.paths)

    @property
    def uses_components(self) -> bool:
        return self.result.data == "components"

    @property
    def direct(self) -> tuple[int, ...]:
        return tuple(n for n, path in enumerate(self.paths) if isinstance(path, DirectAttr))

    @property
    def tile(self) -> tuple[int, int, int]:
        """Workgroup tile: M, N, K."""
        m, n, k = (size.data for size in self.workgroup_tile)
        return m, n, k

    @property
    def grid(self) -> tuple[int, int]:
        """Subgroups of a workgroup: rows, columns."""
        rows, columns, *_ = self.counts
        return rows, columns

    @property
    def slices(self) -> int:
        """Parts of a K tile that subgroups multiply side by side."""
        return prod(self.counts[2:])

    @property
    def counts(self) -> tuple[int, ...]:
        """The grid as it is written: rows, columns, and slices if there are several."""
        return tuple(count.data for count in self.subgroups)

    @property
    def is_cooperative(self) -> bool:
        """True if subgroups multiply together, with cooperative matrices."""
        return self.kind == "coopmat"

    @property
    def subgroup_count(self) -> int:
        return prod(self.counts)

    @property
    def fragments(self) -> tuple[int, int, int]:
        """
        Number of instructions along M, N and K for a subgroup's part of a K tile or slice.

        If an instruction is an invocation's, the invocation has one place along M and N.
        """
        (tile_m, tile_n, tile_k), (rows, columns) = self.tile, self.grid
        m, n, k = self.instruction.sizes
        return tile_m // rows // m, tile_n // columns // n, tile_k // self.slices // k

    def verify(self) -> None:
        super().verify()
        if self.counts[2:] == (1,):
            raise VerifyException(
                "subgroups has a third number 1: leave it out where K is not sliced"
            )
        rows, columns = self.grid
        m, n, k = self.instruction.sizes
        steps = (("M", m * rows), ("N", n * columns), ("K", k * self.slices))
        for (dimension, step), size in zip(steps, self.tile, strict=True):
            if size % step:
                raise VerifyException(
                    f"workgroup_tile {dimension} = {size} is not a multiple of {step} "
                    f"(subgroups x instruction): {max(step, size // step * step)} would be"
                )


@irdl_attr_definition
class ConsideredAttr(ParametrizedAttribute):
    """
    A path that was considered for an operation: whether it was taken, and why or why not.

        #schedule.considered<"rotate", false, "it is not a depthwise convolution">
    """

    name = "schedule.considered"
    path: StringAttr
    taken: BoolAttr
    reason: StringAttr

    def __init__(self, path: str, taken: bool, reason: str):
        super().__init__(StringAttr(path), IntegerAttr.from_bool(taken), StringAttr(reason))
