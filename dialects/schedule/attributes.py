"""
How a contraction is to be computed, as data in the IR.

A schedule is an attribute on the contraction. It says everything that the lowering may not decide
by itself; what a target can do with it is checked by `passes/schedule/fit.py`, not here. Each
operand has a path of its own, because the best kernels treat A and B differently.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AffineMapAttr,
    ArrayAttr,
    BoolAttr,
    IntAttr,
    IntegerAttr,
    StringAttr,
)
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, UnknownSizeError, ceil_div, static

DYNAMIC = -(2**63)
"""A loop, or a bound of an attention, that one of an operation's numbers says."""

SCHEDULE = "schedule"
"""The name under which an operation carries its schedule."""

CONSIDERED = "schedule.considered"
"""The name under which an operation carries the paths that were considered for it, in order."""

SUMMED = "schedule.summed"
"""
The attribute of a sum over rows of what a kernel also multiplies: the number of the argument by
which it is multiplied. The sum has an argument of its own, of the same memory.
"""

INSTRUCTIONS = ("coopmat", "dot", "fma")
RASTERS = ("rows", "columns")
LAYOUTS = ("rows", "panels", "fragments")
FIRST = ("load", "store")
RESULTS = ("fragments", "rows", "components")


def _integers(values: Sequence[int]) -> ArrayAttr[IntAttr]:
    return ArrayAttr(IntAttr(v) for v in values)


def _parse_integers(parser: AttrParser, *counts: int) -> ArrayAttr[IntAttr]:
    start = parser.pos
    values = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
    if len(values) not in counts:
        wanted = " or ".join(map(str, counts))
        parser.raise_error(f"expected {wanted} integers, found {len(values)}", start, parser.pos)
    return _integers(values)


def _parse_choice(parser: AttrParser, choices: Sequence[str]) -> StringAttr:
    start = parser.pos
    word = parser.parse_identifier()
    if word not in choices:
        parser.raise_error(f"{word!r} is not one of {', '.join(choices)}", start, parser.pos)
    return StringAttr(word)


@irdl_attr_definition
class StagedAttr(ParametrizedAttribute):
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
    padding: IntAttr
    vector: IntAttr
    buffers: IntAttr
    ahead: IntAttr
    layout: StringAttr

    def __init__(
        self,
        padding: int = 0,
        vector: int = 1,
        buffers: int = 1,
        layout: str = LAYOUTS[0],
        ahead: int = 0,
    ):
        numbers = map(IntAttr, (padding, vector, buffers, ahead))
        super().__init__(*numbers, StringAttr(layout))

    @property
    def in_panels(self) -> bool:
        """Whether the operand is packed into panels along K before it is staged."""
        return self.layout.data == "panels"

    @property
    def in_fragments(self) -> bool:
        """Whether the operand is packed into fragments before it is staged."""
        return self.layout.data == "fragments"

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        values = {"padding": 0, "vector": 1, "buffers": 1, "ahead": 0}
        layout = StringAttr(LAYOUTS[0])

        def parse_field() -> None:
            nonlocal layout
            key = _parse_choice(parser, (*values, "layout")).data
            parser.parse_punctuation("=")
            if key == "layout":
                layout = _parse_choice(parser, LAYOUTS)
            else:
                values[key] = parser.parse_integer(allow_boolean=False)

        parser.parse_comma_separated_list(parser.Delimiter.ANGLE, parse_field)
        return [*(IntAttr(value) for value in values.values()), layout]

    def print_parameters(self, printer: Printer) -> None:
        fields = [f"padding = {self.padding.data}", f"vector = {self.vector.data}"]
        if self.buffers.data != 1:
            fields.append(f"buffers = {self.buffers.data}")
        if self.ahead.data:
            fields.append(f"ahead = {self.ahead.data}")
        if self.layout.data != LAYOUTS[0]:
            fields.append(f"layout = {self.layout.data}")
        printer.print_string(f"<{', '.join(fields)}>")

    def verify(self) -> None:
        if self.padding.data < 0:
            raise VerifyException(f"padding is {self.padding.data}, must be at least 0")
        for name, value in (("vector", self.vector.data), ("buffers", self.buffers.data)):
            if value < 1:
                raise VerifyException(f"{name} is {value}, must be at least 1")
        if self.ahead.data not in (0, 1):
            raise VerifyException(f"ahead is {self.ahead.data}, must be 0 or 1")
        if self.layout.data not in LAYOUTS:
            raise VerifyException(f"layout is {self.layout.data}, not {' or '.join(LAYOUTS)}")


@irdl_attr_definition
class DirectAttr(ParametrizedAttribute):
    """
    Subgroups load the operand's fragments straight from global memory.

    The operand is packed (see `PackingAttr`): what an invocation holds of a fragment lies side by
    side there. `ahead` is how many instructions along K its fragments are read before they are
    multiplied: at most as many as a K tile has.
    """

    name = "schedule.direct"
    ahead: IntAttr

    def __init__(self, ahead: int = 0):
        super().__init__(IntAttr(ahead))

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        if parser.parse_optional_punctuation("<") is None:
            return [IntAttr(0)]
        parser.parse_keyword("ahead")
        parser.parse_punctuation("=")
        ahead = parser.parse_integer(allow_boolean=False)
        parser.parse_punctuation(">")
        return [IntAttr(ahead)]

    def print_parameters(self, printer: Printer) -> None:
        if self.ahead.data:
            printer.print_string(f"<ahead = {self.ahead.data}>")

    def verify(self) -> None:
        if self.ahead.data < 0:
            raise VerifyException(f"ahead is {self.ahead.data}, must be at least 0")


@irdl_attr_definition
class PackingAttr(ParametrizedAttribute):
    """
    How an operand of a contraction lies in memory once it is packed into fragments or panels.

    `map` leads from the loops, in the order batch, M or N, K, to the operand's dimensions; `sizes`
    are the loops', DYNAMIC (the least i64) where numbers of the operation say them, and `groups`
    says how many of each kind there are. So the operand is a matrix of
    M or N by K for each of a batch. It is cut into fragments of `fragment` elements along M or N
    and along K, after zeros have made both a multiple of `tile`. A packed operand has the shape
    batch x fragments along K x fragments along M or N x elements of a fragment; in which order
    the elements of a fragment lie is the device's own secret, as it distributes them over the
    invocations of a subgroup. Fragments of one row are panels: K tiles, row after row, and in
    order. An invocation's share of a fragment is 32-bit words; where `words` are given, they lie
    in this order instead of the components'.
    """

    name = "schedule.packing"
    use: StringAttr
    fragment: ArrayAttr[IntAttr]
    tile: ArrayAttr[IntAttr]
    map: AffineMapAttr
    sizes: ArrayAttr[IntAttr]
    groups: ArrayAttr[IntAttr]
    words: ArrayAttr[IntAttr]

    def __init__(
        self,
        use: str,
        fragment: Sequence[int],
        tile: Sequence[int],
        map: AffineMapAttr,
        sizes: Sequence[int],
        groups: Sequence[int],
        words: Sequence[int] = (),
    ):
        super().__init__(
            StringAttr(use),
            _integers(fragment),
            _integers(tile),
            map,
            _integers(sizes),
            _integers(groups),
            _integers(words),
        )

    @property
    def fragment_sizes(self) -> tuple[int, int]:
        """Elements of a fragment along M or N, and along K."""
        outer, inner = (size.data for size in self.fragment)
        return outer, inner

    @property
    def is_panels(self) -> bool:
        """Whether elements lie in order: no instruction takes a fragment of one row."""
        return self.fragment_sizes[0] == 1

    @property
    def loops(self) -> tuple[range, range, range]:
        """The loops of batch, of M or N, and of K."""
        batch, outer, inner = (count.data for count in self.groups)
        return (
            range(batch),
            range(batch, batch + outer),
            range(batch + outer, batch + outer + inner),
        )

    def sized(self, numbers: Sequence[Size]) -> PackedSizes:
        """How large it is, where the numbers of the operation are these."""
        known = [size.data for size in self.sizes]
        if known.count(DYNAMIC) != len(numbers):
            raise UnknownSizeError(f"{known.count(DYNAMIC)} sizes of a packing are open")
        left = iter(numbers)
        return PackedSizes(self, tuple(next(left) if n == DYNAMIC else n for n in known))

    @property
    def extents(self) -> tuple[int, int, int]:
        """How many there are of batch, M or N, and K before zeros are added, if that is known."""
        batch, outer, inner = static(self.sized(()).extents)
        return batch, outer, inner

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """The packed operand's shape, if that is known."""
        batch, inner, outer, elements = static(self.sized(()).shape)
        return batch, inner, outer, elements

    @property
    def dimensions(self) -> tuple[int, ...]:
        """The same as a type has it: DYNAMIC_INDEX for what numbers say."""
        batch, outer, inner = (
            any(self.sizes.data[loop].data == DYNAMIC for loop in loops) for loops in self.loops
        )
        ones = [1 for size in self.sizes if size.data == DYNAMIC]
        opens = (batch, inner, outer, False)
        shape = self.sized(ones).shape
        return tuple(
            DYNAMIC_INDEX if is_open else size
            for is_open, size in zip(opens, static(shape), strict=True)
        )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            use = _parse_choice(parser, ("A", "B"))
            fields: list[Attribute] = []
            for name, count in (("fragment", 2), ("tile", 2)):
                parser.parse_punctuation(",")
                parser.parse_keyword(name)
                parser.parse_punctuation("=")
                fields.append(_parse_integers(parser, count))
            parser.parse_punctuation(",")
            parser.parse_keyword("map")
            parser.parse_punctuation("=")
            map = parser.parse_attribute()
            if not isinstance(map, AffineMapAttr):
                parser.raise_error(f"expected an affine_map, found {map}")
            fields.append(map)
            for name, count in (("sizes", map.data.num_dims), ("groups", 3)):
                parser.parse_punctuation(",")
                parser.parse_keyword(name)
                parser.parse_punctuation("=")
                fields.append(_parse_integers(parser, count))
            words = _integers(())
            if parser.parse_optional_punctuation(",") is not None:
                parser.parse_keyword("words")
                parser.parse_punctuation("=")
                words = _integers(
                    parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
                )
        return [use, *fields, words]

    def print_parameters(self, printer: Printer) -> None:
        def numbers(values: ArrayAttr[IntAttr]) -> str:
            return f"[{', '.join(str(value.data) for value in values)}]"

        with printer.in_angle_brackets():
            printer.print_string(f"{self.use.data}, fragment = {numbers(self.fragment)}")
            printer.print_string(f", tile = {numbers(self.tile)}, map = ")
            printer.print_attribute(self.map)
            printer.print_string(f", sizes = {numbers(self.sizes)}")
            printer.print_string(f", groups = {numbers(self.groups)}")
            if self.words.data:
                printer.print_string(f", words = {numbers(self.words)}")

    def verify(self) -> None:
        if len(self.sizes) != self.map.data.num_dims:
            raise VerifyException(f"{len(self.sizes)} sizes for {self.map.data.num_dims} loops")
        if sum(count.data for count in self.groups) != len(self.sizes):
            raise VerifyException("groups must add up to the number of loops")
        sizes = [size for size in self.sizes if size.data != DYNAMIC]
        if any(size.data < 1 for size in (*sizes, *self.fragment, *self.tile)):
            raise VerifyException("sizes, fragment and tile must be positive")
        if sorted(word.data for word in self.words) != list(range(len(self.words))):
            raise VerifyException("words must be the numbers from 0 in some order")
        for tile, fragment in zip(self.tile, self.fragment, strict=True):
            if tile.data % fragment.data:
                raise VerifyException(
                    f"tile = {tile.data} is not a multiple of the fragment's {fragment.data}"
                )


@dataclass(frozen=True)
class PackedSizes:
    """How large a packed operand is."""

    packing: PackingAttr
    sizes: tuple[Size, ...]

    @property
    def extents(self) -> tuple[Size, Size, Size]:
        """How many there are of batch, M or N, and K before zeros are added."""
        batch, outer, inner = (
            prod(self.sizes[loop] for loop in loops) for loops in self.packing.loops
        )
        return batch, outer, inner

    @property
    def shape(self) -> tuple[Size, Size, Size, int]:
        """The packed operand's shape."""
        batch, *extents = self.extents
        outer, inner = (
            ceil_div(extent, tile.data) * (tile.data // fragment.data)
            for extent, tile, fragment in zip(
                extents, self.packing.tile, self.packing.fragment, strict=True
            )
        )
        return batch, inner, outer, prod(self.packing.fragment_sizes)


@irdl_attr_definition
class InstructionAttr(ParametrizedAttribute):
    """
    What multiplies.

    `coopmat 16x16x16` is a cooperative-matrix MulAdd of M x N x K by a subgroup; `fma 4x4x2` is
    what each invocation computes by itself, 4 x 4 elements of the result, 2 steps of K at a time;
    `dot 4x4x16` is the same with four 8-bit products in each instruction.
    """

    name = "schedule.instruction"
    kind: StringAttr
    shape: ArrayAttr[IntAttr]

    def __init__(self, kind: str, shape: Sequence[int]):
        super().__init__(StringAttr(kind), _integers(shape))

    @property
    def sizes(self) -> tuple[int, int, int]:
        m, n, k = (size.data for size in self.shape)
        return m, n, k

    @classmethod
    def parse_bare(cls, parser: AttrParser) -> InstructionAttr:
        kind = _parse_choice(parser, INSTRUCTIONS).data
        sizes: list[int] = []
        for last in (False, False, True):
            sizes.append(parser.parse_shape_dimension(allow_dynamic=False))
            if not last:
                parser.parse_shape_delimiter()
        return cls(kind, sizes)

    def print_bare(self, printer: Printer) -> None:
        printer.print_string(f"{self.kind.data} {'x'.join(str(s) for s in self.sizes)}")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            return cls.parse_bare(parser).parameters

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            self.print_bare(printer)

    def verify(self) -> None:
        if len(self.shape) != 3 or any(size.data < 1 for size in self.shape):
            raise VerifyException("an instruction's shape is three positive numbers, M x N x K")


@irdl_attr_definition
class ContractionAttr(ParametrizedAttribute):
    """
    The schedule of a contraction.

    `workgroup_tile` is the M x N part of the result that a workgroup computes and the K depth it
    stages at a time; `subgroups` is the grid (rows, columns) into which its subgroups divide the
    tile, and where there is a third number, into how many slices they divide each K tile: those of
    a slice sum up by themselves, and all slices at the end, through Workgroup memory;
    `a` and `b` are the operands' paths, staged or direct; `stages` is how many K tiles are in
    flight: with 2 of them one is read into registers while the one before is multiplied; with
    `first = store` it is stored in Workgroup memory before the next one is read, not after, which
    takes fewer registers; `raster` says along which dimension of the result neighbouring workgroups
    lie, and `group` makes it that many rows (or columns) of tiles at a time, across them first:
    `rows<8>`; `result = rows` has each subgroup's part of the result pass through Workgroup memory,
    to be stored row by row.
    """

    name = "schedule.contraction"
    workgroup_tile: ArrayAttr[IntAttr]
    subgroups: ArrayAttr[IntAttr]
    instruction: InstructionAttr
    a: StagedAttr | DirectAttr
    b: StagedAttr | DirectAttr
    stages: IntAttr
    raster: StringAttr
    group: IntAttr
    first: StringAttr
    result: StringAttr

    def __init__(
        self,
        workgroup_tile: Sequence[int],
        subgroups: Sequence[int],
        instruction: InstructionAttr,
        a: StagedAttr | DirectAttr,
        b: StagedAttr | DirectAttr,
        stages: int = 1,
        raster: str = "rows",
        group: int = 1,
        first: str = FIRST[0],
        result: str = RESULTS[0],
    ):
        super().__init__(
            _integers(workgroup_tile),
            _integers(subgroups[:2] if tuple(subgroups[2:]) == (1,) else subgroups),
            instruction,
            a,
            b,
            IntAttr(stages),
            StringAttr(raster),
            IntAttr(group),
            StringAttr(first),
            StringAttr(result),
        )

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
        """Subgroups of a workgroup as they are written: rows, columns, and slices if several."""
        return tuple(count.data for count in self.subgroups)

    @property
    def subgroup_count(self) -> int:
        return prod(self.counts)

    @property
    def fragments(self) -> tuple[int, int, int]:
        """
        Instructions that make a subgroup's part of one K tile, or of its slice: along M, N and K.

        A subgroup issues them one after the other, or, where an instruction is an invocation's,
        each invocation has one place along M and N.
        """
        (tile_m, tile_n, tile_k), (rows, columns) = self.tile, self.grid
        m, n, k = self.instruction.sizes
        return tile_m // rows // m, tile_n // columns // n, tile_k // self.slices // k

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        needed = ("workgroup_tile", "subgroups", "instruction", "a", "b")
        values: dict[str, Attribute] = {
            "stages": IntAttr(1),
            "raster": StringAttr("rows"),
            "group": IntAttr(1),
            "first": StringAttr(FIRST[0]),
            "result": StringAttr(RESULTS[0]),
        }
        names = (*needed, "stages", "raster", "first", "result")
        start = parser.pos

        def parse_field() -> None:
            key = _parse_choice(parser, names).data
            parser.parse_punctuation("=")
            match key:
                case "workgroup_tile":
                    values[key] = _parse_integers(parser, 3)
                case "subgroups":
                    values[key] = _parse_integers(parser, 2, 3)
                case "instruction":
                    values[key] = InstructionAttr.parse_bare(parser)
                case "stages":
                    values[key] = IntAttr(parser.parse_integer(allow_boolean=False))
                case "raster":
                    values[key] = _parse_choice(parser, RASTERS)
                    if parser.parse_optional_punctuation("<") is not None:
                        values["group"] = IntAttr(parser.parse_integer(allow_boolean=False))
                        parser.parse_punctuation(">")
                case "first":
                    values[key] = _parse_choice(parser, FIRST)
                case "result":
                    values[key] = _parse_choice(parser, RESULTS)
                case _:
                    if _parse_choice(parser, ("staged", "direct")).data == "direct":
                        values[key] = DirectAttr.new(DirectAttr.parse_parameters(parser))
                    else:
                        values[key] = StagedAttr.new(StagedAttr.parse_parameters(parser))

        parser.parse_comma_separated_list(parser.Delimiter.ANGLE, parse_field)
        missing = [name for name in needed if name not in values]
        if missing:
            parser.raise_error(f"a schedule needs {', '.join(missing)}", start, parser.pos)
        order = (*needed, "stages", "raster", "group", "first", "result")
        return [values[name] for name in order]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"workgroup_tile = {list(self.tile)}, ")
            printer.print_string(f"subgroups = {list(self.counts)}, instruction = ")
            self.instruction.print_bare(printer)
            for name, path in (("a", self.a), ("b", self.b)):
                kind = "direct" if isinstance(path, DirectAttr) else "staged"
                printer.print_string(f", {name} = {kind}")
                path.print_parameters(printer)
            if self.stages.data != 1:
                printer.print_string(f", stages = {self.stages.data}")
            group = f"<{self.group.data}>" if self.group.data != 1 else ""
            printer.print_string(f", raster = {self.raster.data}{group}")
            if self.first.data != FIRST[0]:
                printer.print_string(f", first = {self.first.data}")
            if self.result.data != RESULTS[0]:
                printer.print_string(f", result = {self.result.data}")

    def verify(self) -> None:
        if any(size.data < 1 for size in (*self.workgroup_tile, *self.subgroups)):
            raise VerifyException("workgroup_tile and subgroups must be positive")
        if len(self.counts) not in (2, 3) or self.counts[2:] == (1,):
            raise VerifyException("subgroups are rows, columns, and slices of K if there are more")
        if self.stages.data < 1:
            raise VerifyException(f"stages is {self.stages.data}, must be at least 1")
        if self.group.data < 1:
            raise VerifyException(f"raster: a group of {self.group.data}, must be at least 1")
        rows, columns = self.grid
        m, n, k = self.instruction.sizes
        needs = (("M", m * rows), ("N", n * columns), ("K", k * self.slices))
        for (dimension, unit), size in zip(needs, self.tile, strict=True):
            if size % unit:
                raise VerifyException(
                    f"workgroup_tile {dimension} = {size} is not a multiple of {unit} "
                    f"(subgroups x instruction): {max(unit, size // unit * unit)} would be"
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
