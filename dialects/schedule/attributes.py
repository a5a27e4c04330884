"""
Defines the schedule of a contraction as an attribute.

A schedule contains every decision that the lowering does not make. `passes/schedule/fit.py` checks
that a target supports it. Operands A and B have separate paths, since fast kernels treat them
differently.
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
"""Number that stands for a loop size or an attention bound given by an operand in `numbers`."""

SCHEDULE = "schedule"
"""Name of the attribute with an operation's schedule."""

CONSIDERED = "schedule.considered"
"""Name of the attribute that lists the kernel paths considered for an operation, in order."""

SUMMED = "schedule.summed"
"""
Marks an operation that sums the rows of an operand of a matrix product.

The value of the attribute is the index of the kernel argument from which the product reads the
operand.
"""

INSTRUCTIONS = ("coopmat", "dot", "fma")
RASTERS = ("rows", "columns")
LAYOUTS = ("rows", "panels", "fragments")
FIRST = ("load", "store")
RESULTS = ("fragments", "rows", "components", "elements")
ORDERS = ("ab", "ba")


class ScheduleAttr(KeyedAttr):
    """
    Base class of all schedules. Declares the facts that passes need for every kind of schedule.
    """

    HAS_FRAGMENTS: ClassVar[bool] = False
    """True if the kernel computes matrix fragments."""

    FUSES_ROWS: ClassVar[bool] = False
    """True if the kernel can include operations that read or sum whole rows of operands."""

    @property
    def kind(self) -> str:
        """The name under which this kind of kernel is registered (see `schedule.kinds`)."""
        return self.name.removeprefix("schedule.")

    @property
    def subgroup_count(self) -> int:
        """Number of subgroups in a workgroup: the product of the numbers of the key `subgroups`."""
        given = self._values["subgroups"]
        counts = given if isinstance(given, ArrayAttr) else (given,)
        return prod(count.data for count in counts if isinstance(count, IntAttr))

    @property
    def packs(self) -> bool:
        """True if the kernel may read packed operands."""
        return False

    @property
    def uses_components(self) -> bool:
        """
        True if the kernel depends on how the target assigns the components of fragments to
        invocations.
        """
        return False

    @property
    def is_transposed(self) -> bool:
        """True if the kernel computes the transposed result, from the operands in reverse order."""
        return False

    @property
    def direct(self) -> tuple[int, ...]:
        """Indices of operands, A (0) and B (1), whose fragments are loaded from global memory."""
        return ()


def schedule_of(op: Operation) -> ScheduleAttr | None:
    """Returns the schedule attribute of an operation. Returns None if it has no schedule."""
    schedule = op.attributes.get(SCHEDULE)
    return schedule if isinstance(schedule, ScheduleAttr) else None


@keyed_attr_definition
class StagedAttr(KeyedAttr):
    """
    The path of an operand whose tile is copied to Workgroup memory and read from there.

    - `padding`: unused elements after each row of the copy.
    - `vector`: elements that one invocation copies at a time.
    - `buffers`: number of copies. With 2, one is filled while the other is multiplied, which needs
      one barrier for each K tile instead of two.
    - `ahead`: with 1, the next tile's fragments are loaded before this tile is multiplied.
    - `layout`: with `panels`, the operand is packed first so that each tile is contiguous (see
      `PackingAttr`). With `fragments`, it is packed into fragments, as for `direct`.
    """

    name = "schedule.staged"
    padding: IntAttr = integer(converter=IntAttr, default=0, least=0, always_printed=True)
    vector: IntAttr = integer(converter=IntAttr, default=1, least=1, always_printed=True)
    buffers: IntAttr = integer(converter=IntAttr, default=1, least=1)
    ahead: IntAttr = integer(converter=IntAttr, default=0, least=0, most=1)
    layout: StringAttr = word(LAYOUTS, converter=StringAttr, default="rows")

    @property
    def packs(self) -> bool:
        """True if the operand is packed before it is copied to Workgroup memory."""
        return self.layout.data != "rows"

    @property
    def in_panels(self) -> bool:
        """True if tiles of the operand are packed contiguously before they are copied."""
        return self.layout.data == "panels"


@keyed_attr_definition
class DirectAttr(KeyedAttr):
    """
    The path of an operand whose fragments subgroups load from global memory.

    The operand is packed so that an invocation's components of a fragment are contiguous (see
    `PackingAttr`). Loads precede the multiplication by `ahead` instructions along K, which must
    not exceed the instructions in a K tile.

    Two layouts are for a product in which one operand is quantized to bit planes, which the kernel
    unpacks. `layout = panels` packs these bit planes into panels, so that a subgroup reads the
    numbers of a fragment from contiguous memory. `layout = rows` leaves the other operand unpacked:
    invocations load contiguous elements of its rows, in the quantized operand's order along K.
    """

    name = "schedule.direct"
    ahead: IntAttr = integer(converter=IntAttr, default=0, least=0)
    layout: StringAttr = word(LAYOUTS, converter=StringAttr, default="fragments")
    MAY_BE_BARE = True

    @property
    def packs(self) -> bool:
        return self.layout.data != "rows"

    @property
    def in_panels(self) -> bool:
        return False


@irdl_attr_definition
class InstructionAttr(ParametrizedAttribute):
    """
    The instruction that multiplies, with its shape M x N x K.

    - `coopmat 16x16x16`: a cooperative-matrix MulAdd of a subgroup.
    - `fma 4x4x2`: each invocation computes 4 x 4 elements of the result, 2 steps of K at a time.
    - `dot 4x4x16`: like `fma`, with instructions of four 8-bit products.
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
            raise VerifyException(
                "an instruction's shape must be three positive numbers, M x N x K"
            )


INSTRUCTION = InstructionAttr.parse_bare, InstructionAttr.print_bare
"""Spelling (parser and printer) of an instruction in a schedule."""


PATHS: dict[str, type[StagedAttr | DirectAttr]] = {"staged": StagedAttr, "direct": DirectAttr}
"""Maps the name of a path in a schedule to its class."""


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
    return integer_array(counts[:2] if tuple(counts[2:]) == (1,) else counts)


@keyed_attr_definition
class ContractionAttr(ScheduleAttr):
    """
    The schedule of a contraction.

    - `workgroup_tile`: the M x N part of the result that a workgroup computes, and the depth of a K
      tile.
    - `subgroups`: the grid (rows, columns) of subgroups that divide the tile. A third number
      divides each K tile into slices, whose subgroups have separate sums. These are added at the
      end through Workgroup memory.
    - `a`, `b`: the paths of the operands, staged or direct.
    - `stages`: K tiles in flight. With 2, a tile is loaded into registers while the previous one is
      multiplied. With `first = store`, a tile is stored in Workgroup memory before the next is
      loaded, which needs fewer registers; with `first = load`, afterwards.
    - `raster`: the dimension of the result along which consecutive workgroups are adjacent.
      `rows<8>` processes 8 rows of tiles at a time (the `group`), column by column.
    - `result`: how results are stored. `fragments` uses cooperative stores. `rows` passes each
      subgroup's part through Workgroup memory and stores it by rows. `components` is like
      `fragments`, but at the edges of the result each invocation stores its components one by one.
      `elements` uses an instruction that calls a function for each element.
    - `operands`: with `ba`, the kernel multiplies the transposed operands in reverse order, and
      stores the transposed result by columns. Rows, columns, `a` and `b` of the schedule then
      describe the transposed product. An instruction with fewer columns than rows fits few rows.
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
    operands: StringAttr = word(ORDERS, converter=StringAttr, default="ab")
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
    def is_transposed(self) -> bool:
        return self.operands.data == "ba"

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
        """Numbers of subgroups along the rows and columns of a workgroup's tile."""
        rows, columns, *_ = self.counts
        return rows, columns

    @property
    def slices(self) -> int:
        """Number of parts into which a K tile is divided among subgroups."""
        return prod(self.counts[2:])

    @property
    def counts(self) -> tuple[int, ...]:
        """The numbers of `subgroups`: rows, columns, and slices if there are several."""
        return tuple(count.data for count in self.subgroups)

    @property
    def is_cooperative(self) -> bool:
        """True if the instruction is a cooperative-matrix multiplication of a subgroup."""
        return self.kind == "coopmat"

    @property
    def fragments(self) -> tuple[int, int, int]:
        """
        Numbers of instructions along M, N and K that compute a subgroup's part of a K tile.

        If single invocations execute an instruction, the subgroup's invocations divide this part.
        """
        (tile_m, tile_n, tile_k), (rows, columns) = self.tile, self.grid
        m, n, k = self.instruction.sizes
        return tile_m // rows // m, tile_n // columns // n, tile_k // self.slices // k

    def verify(self) -> None:
        super().verify()
        if self.counts[2:] == (1,):
            raise VerifyException(
                "subgroups has the third number 1; remove it, since one slice is the default"
            )
        rows, columns = self.grid
        m, n, k = self.instruction.sizes
        steps = (("M", m * rows), ("N", n * columns), ("K", k * self.slices))
        for (dimension, step), size in zip(steps, self.tile, strict=True):
            if size % step:
                raise VerifyException(
                    f"workgroup_tile {dimension} = {size} is not a multiple of {step} "
                    f"(subgroups x instruction): use {max(step, size // step * step)}"
                )


@irdl_attr_definition
class ConsideredAttr(ParametrizedAttribute):
    """
    A kernel path considered for an operation: its name, whether it was taken, and the reason.

        #schedule.considered<"rotate", false, "it is not a depthwise convolution">
    """

    name = "schedule.considered"
    path: StringAttr
    taken: BoolAttr
    reason: StringAttr

    def __init__(self, path: str, taken: bool, reason: str):
        super().__init__(StringAttr(path), IntegerAttr.from_bool(taken), StringAttr(reason))
