"""
Schedules without matrices, as data in the IR.

`loops` divides everything that is no contraction among invocations, `window` exchanges neighbours
of sliding windows in registers, `rows` streams the other operand of few rows through registers
once.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, IntAttr, StringAttr
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

REDUCERS = ("invocation", "subgroup", "workgroup")

LOOPS_NUMBERS = ("workgroup", "workgroups", "elements", "rows", "tile")


@irdl_attr_definition
class LoopsAttr(ParametrizedAttribute):
    """
    The schedule of a dispatch that is no contraction.

    `workgroup` is how many invocations a workgroup has, `workgroups` how many of them are launched;
    they take rows (points of the loops that reductions do not share) in turn until none is left.
    `elements` is how many neighbouring elements an invocation computes at a time, and loads and
    stores as a vector where they lie side by side. `reduce` is who computes a reduction: an
    invocation by itself, the invocations of a subgroup, or those of a workgroup; a row's other
    loops are divided among the same ones. With `rows` more than 1 a workgroup reduces `rows` times
    `elements` neighbouring rows side by side: neighbouring invocations belong to neighbouring rows,
    for arrays in which those lie side by side, and a row has `workgroup / rows` invocations.
    With `tile` more than 1, elements go through a square of so many by so many in Workgroup memory,
    for results that lie along another loop than what they are computed from, as a transpose's.

        #schedule.loops<workgroup = 64, workgroups = 16, elements = 4, reduce = invocation>
    """

    name = "schedule.loops"
    workgroup: IntAttr
    workgroups: IntAttr
    elements: IntAttr
    rows: IntAttr
    tile: IntAttr
    reduce: StringAttr

    def __init__(
        self,
        workgroup: int,
        workgroups: int,
        elements: int = 1,
        reduce: str = "invocation",
        rows: int = 1,
        tile: int = 1,
    ):
        numbers = (IntAttr(number) for number in (workgroup, workgroups, elements, rows, tile))
        super().__init__(*numbers, StringAttr(reduce))

    @property
    def grid(self) -> tuple[int, int, int]:
        """Workgroups of the launch."""
        return self.workgroups.data, 1, 1

    @property
    def block(self) -> tuple[int, int, int]:
        """Invocations of a workgroup."""
        return self.workgroup.data, 1, 1

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        values: dict[str, Attribute] = {
            "elements": IntAttr(1),
            "rows": IntAttr(1),
            "tile": IntAttr(1),
            "reduce": StringAttr("invocation"),
        }
        start = parser.pos

        def parse_field() -> None:
            at = parser.pos
            key = parser.parse_identifier()
            parser.parse_punctuation("=")
            if key in LOOPS_NUMBERS:
                values[key] = IntAttr(parser.parse_integer(allow_boolean=False))
            elif key == "reduce":
                values[key] = StringAttr(parser.parse_identifier())
            else:
                known = ", ".join((*LOOPS_NUMBERS, "reduce"))
                parser.raise_error(f"{key!r} is not one of {known}", at, parser.pos)

        parser.parse_comma_separated_list(parser.Delimiter.ANGLE, parse_field)
        missing = [name for name in LOOPS_NUMBERS if name not in values]
        if missing:
            parser.raise_error(f"a schedule needs {', '.join(missing)}", start, parser.pos)
        return [*(values[name] for name in LOOPS_NUMBERS), values["reduce"]]

    def print_parameters(self, printer: Printer) -> None:
        rows = f", rows = {self.rows.data}" if self.rows.data > 1 else ""
        tile = f", tile = {self.tile.data}" if self.tile.data > 1 else ""
        with printer.in_angle_brackets():
            printer.print_string(
                f"workgroup = {self.workgroup.data}, workgroups = {self.workgroups.data}, "
                f"elements = {self.elements.data}{rows}{tile}, reduce = {self.reduce.data}"
            )

    def verify(self) -> None:
        for name in LOOPS_NUMBERS:
            value: IntAttr = getattr(self, name)
            if value.data < 1:
                raise VerifyException(f"{name} is {value.data}, must be at least 1")
        if self.reduce.data not in REDUCERS:
            raise VerifyException(f"reduce is {self.reduce.data}, not one of {', '.join(REDUCERS)}")
        rows, workgroup, tile = self.rows.data, self.workgroup.data, self.tile.data
        if tile > 1 and (self.reduce.data != "invocation" or rows > 1):
            raise VerifyException(f"tile = {tile} needs reduce = invocation, without rows")
        if tile > 1 and (workgroup % tile or tile * tile % workgroup):
            raise VerifyException(
                f"workgroup = {workgroup} is not some rows of a tile of {tile} by {tile}"
            )
        if rows == 1:
            return
        if self.reduce.data != "workgroup":
            raise VerifyException(f"rows = {rows} side by side need reduce = workgroup")
        lanes = workgroup // rows
        if workgroup % rows or lanes & (lanes - 1):
            raise VerifyException(
                f"workgroup = {workgroup} is not rows = {rows} times a power of two"
            )


WINDOW_NAMES = ("outputs", "subgroups")


@irdl_attr_definition
class WindowAttr(ParametrizedAttribute):
    """
    A subgroup computes neighbours in a row of the result, one for each invocation.

    It loads the row of the input that they slide over once, and every further element of a window
    comes from another invocation by a rotation. `outputs` is how many filters an invocation applies
    to what it holds, `subgroups` how many subgroups a workgroup has.

        #schedule.window<outputs = 4, subgroups = 4>
    """

    name = "schedule.window"
    outputs: IntAttr
    subgroups: IntAttr

    def __init__(self, outputs: int = 1, subgroups: int = 1):
        super().__init__(IntAttr(outputs), IntAttr(subgroups))

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        values: dict[str, Attribute] = {}
        start = parser.pos

        def parse_field() -> None:
            at = parser.pos
            key = parser.parse_identifier()
            if key not in WINDOW_NAMES or key in values:
                parser.raise_error(
                    f"{key!r} is not one of {', '.join(WINDOW_NAMES)}", at, parser.pos
                )
            parser.parse_punctuation("=")
            values[key] = IntAttr(parser.parse_integer(allow_boolean=False))

        parser.parse_comma_separated_list(parser.Delimiter.ANGLE, parse_field)
        missing = [name for name in WINDOW_NAMES if name not in values]
        if missing:
            parser.raise_error(f"a schedule needs {', '.join(missing)}", start, parser.pos)
        return [values[name] for name in WINDOW_NAMES]

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<outputs = {self.outputs.data}, subgroups = {self.subgroups.data}>")

    def verify(self) -> None:
        if self.outputs.data < 1 or self.subgroups.data < 1:
            raise VerifyException("outputs and subgroups must be positive")


_COUNTS = ("rows", "columns", "lanes", "steps", "bytes", "groups", "ahead")
ROWS_NUMBERS = (*_COUNTS, "digits", "within")
ROWS_NAMES = (*ROWS_NUMBERS, "subgroups")

MOST_BYTES = 16
"""Of a load."""

MOST_DIGITS = 3
"""More than binary32 has."""

_DEFAULTS = {"bytes": MOST_BYTES, "groups": 1, "ahead": 1, "digits": 0, "within": 1}


@irdl_attr_definition
class RowsAttr(ParametrizedAttribute):
    """
    Invocations compute `rows` x `columns` elements of the result each, or a part of their sums.

    K is divided among `lanes` invocations of a subgroup and among `subgroups[0]` subgroups; the
    other invocations of a subgroup, and `subgroups[1]` subgroups, have other columns. An invocation
    takes K in units of one load, of at most `bytes`, of the operand that streams, and `steps` units
    at a time, so that as many loads are under way. Its columns are the first of `groups` groups,
    which it computes one after the other: where that is all it has of K, what it read of the rows
    stays in registers, and the loads of `ahead` groups are under way while one is computed. With
    `digits` the rows' elements become integers of so many bytes where the other operand's are small
    integers, of which packed dot products are computed. `within` lanes share each unit: all of them
    load it, and each computes other elements of it.

        #schedule.rows<rows = 1, columns = 4, lanes = 32, steps = 2, bytes = 8, subgroups = [1, 4]>
    """

    name = "schedule.rows"
    rows: IntAttr
    columns: IntAttr
    lanes: IntAttr
    steps: IntAttr
    bytes: IntAttr
    groups: IntAttr
    ahead: IntAttr
    digits: IntAttr
    within: IntAttr
    subgroups: ArrayAttr[IntAttr]

    def __init__(
        self,
        rows: int = 1,
        columns: int = 1,
        lanes: int = 1,
        steps: int = 1,
        subgroups: Sequence[int] = (1, 1),
        bytes: int = MOST_BYTES,
        groups: int = 1,
        digits: int = 0,
        within: int = 1,
        ahead: int = 1,
    ):
        super().__init__(
            IntAttr(rows),
            IntAttr(columns),
            IntAttr(lanes),
            IntAttr(steps),
            IntAttr(bytes),
            IntAttr(groups),
            IntAttr(ahead),
            IntAttr(digits),
            IntAttr(within),
            ArrayAttr(map(IntAttr, subgroups)),
        )

    @property
    def grid(self) -> tuple[int, int]:
        """Subgroups of a workgroup: those that divide K, and those that have other columns."""
        along_k, along_columns = (count.data for count in self.subgroups)
        return along_k, along_columns

    @property
    def _numbers(self) -> tuple[IntAttr, ...]:
        positive = self.rows, self.columns, self.lanes, self.steps, self.bytes, self.groups
        return *positive, self.ahead, self.digits, self.within

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        values: dict[str, Attribute] = {name: IntAttr(number) for name, number in _DEFAULTS.items()}
        start = parser.pos
        given: set[str] = set()

        def parse_field() -> None:
            at = parser.pos
            key = parser.parse_identifier()
            if key not in ROWS_NAMES or key in given:
                parser.raise_error(f"{key!r} is not one of {', '.join(ROWS_NAMES)}", at, parser.pos)
            given.add(key)
            parser.parse_punctuation("=")
            if key in ROWS_NUMBERS:
                values[key] = IntAttr(parser.parse_integer(allow_boolean=False))
                return
            counts = parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, parser.parse_integer
            )
            values[key] = ArrayAttr(map(IntAttr, counts))

        parser.parse_comma_separated_list(parser.Delimiter.ANGLE, parse_field)
        missing = [name for name in ROWS_NAMES if name not in values]
        if missing:
            parser.raise_error(f"a schedule needs {', '.join(missing)}", start, parser.pos)
        return [values[name] for name in ROWS_NAMES]

    def print_parameters(self, printer: Printer) -> None:
        pairs = [(name, n.data) for name, n in zip(ROWS_NUMBERS, self._numbers, strict=True)]
        fields = [f"{name} = {n}" for name, n in pairs if n != _DEFAULTS.get(name)]
        printer.print_string(f"<{', '.join(fields)}, subgroups = {list(self.grid)}>")

    def verify(self) -> None:
        if len(self.subgroups) != 2:
            raise VerifyException(f"subgroups has {len(self.subgroups)} numbers, must have 2")
        *positive, digits, within = self._numbers
        if digits.data not in (0, 2, MOST_DIGITS):
            raise VerifyException(f"digits is {digits.data}: 0, 2 or {MOST_DIGITS} are possible")
        if any(number.data < 1 for number in (*positive, within, *self.subgroups)):
            raise VerifyException("the numbers of a schedule must be positive")
        if self.bytes.data > MOST_BYTES:
            raise VerifyException(f"bytes is {self.bytes.data}: a load has at most {MOST_BYTES}")
