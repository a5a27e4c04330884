"""
How everything that is no contraction is divided among invocations, as data in the IR.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

REDUCERS = ("invocation", "subgroup", "workgroup")

_NUMBERS = ("workgroup", "workgroups", "elements", "rows", "tile")


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
            if key in _NUMBERS:
                values[key] = IntAttr(parser.parse_integer(allow_boolean=False))
            elif key == "reduce":
                values[key] = StringAttr(parser.parse_identifier())
            else:
                known = ", ".join((*_NUMBERS, "reduce"))
                parser.raise_error(f"{key!r} is not one of {known}", at, parser.pos)

        parser.parse_comma_separated_list(parser.Delimiter.ANGLE, parse_field)
        missing = [name for name in _NUMBERS if name not in values]
        if missing:
            parser.raise_error(f"a schedule needs {', '.join(missing)}", start, parser.pos)
        return [*(values[name] for name in _NUMBERS), values["reduce"]]

    def print_parameters(self, printer: Printer) -> None:
        rows = f", rows = {self.rows.data}" if self.rows.data > 1 else ""
        tile = f", tile = {self.tile.data}" if self.tile.data > 1 else ""
        with printer.in_angle_brackets():
            printer.print_string(
                f"workgroup = {self.workgroup.data}, workgroups = {self.workgroups.data}, "
                f"elements = {self.elements.data}{rows}{tile}, reduce = {self.reduce.data}"
            )

    def verify(self) -> None:
        for name in _NUMBERS:
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
