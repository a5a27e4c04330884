"""
How an attention is computed without matrices, as data in the IR.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

AHEAD = range(3)
"""Nothing, keys, keys and values."""

ACROSS = ("keys", "rows")

NUMBERS = ("rows", "lanes", "keys", "subgroups")


@irdl_attr_definition
class AttentionLanesAttr(ParametrizedAttribute):
    """
    The schedule of an attention by multiply-adds.

    `lanes` invocations of a subgroup share a key: each multiplies its part of it with `rows`
    queries, and they add up what they have. `keys` are loaded at a time. A workgroup has
    `subgroups`; its groups of lanes lie `across` keys, all with the same queries, or across rows of
    the result, all with the same keys. `ahead` says what is loaded a step before it is used: 0
    nothing, 1 keys, 2 keys and values.

        #schedule.attention_lanes<rows = 4, lanes = 8, keys = 2, subgroups = 4, across = keys>
    """

    name = "schedule.attention_lanes"
    rows: IntAttr
    lanes: IntAttr
    keys: IntAttr
    subgroups: IntAttr
    across: StringAttr
    ahead: IntAttr

    def __init__(
        self, rows: int, lanes: int, keys: int, subgroups: int, across: str, ahead: int = 0
    ):
        numbers = map(IntAttr, (rows, lanes, keys, subgroups))
        super().__init__(*numbers, StringAttr(across), IntAttr(ahead))

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        values: list[Attribute] = []
        with parser.in_angle_brackets():
            for name in NUMBERS:
                parser.parse_keyword(name)
                parser.parse_punctuation("=")
                values.append(IntAttr(parser.parse_integer(allow_boolean=False)))
                parser.parse_punctuation(",")
            parser.parse_keyword("across")
            parser.parse_punctuation("=")
            values.append(StringAttr(parser.parse_identifier()))
            ahead = 0
            if parser.parse_optional_punctuation(",") is not None:
                parser.parse_keyword("ahead")
                parser.parse_punctuation("=")
                ahead = parser.parse_integer(allow_boolean=False)
            values.append(IntAttr(ahead))
        return values

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            for name in NUMBERS:
                value: IntAttr = getattr(self, name)
                printer.print_string(f"{name} = {value.data}, ")
            printer.print_string(f"across = {self.across.data}")
            if self.ahead.data:
                printer.print_string(f", ahead = {self.ahead.data}")

    def verify(self) -> None:
        for name in NUMBERS:
            value: IntAttr = getattr(self, name)
            if value.data < 1:
                raise VerifyException(f"{name} is {value.data}, must be at least 1")
        if self.lanes.data & (self.lanes.data - 1):
            raise VerifyException(f"lanes is {self.lanes.data}, must be a power of two")
        if self.ahead.data not in AHEAD:
            raise VerifyException(f"ahead is {self.ahead.data}, not one of 0, 1, 2")
        if self.across.data not in ACROSS:
            raise VerifyException(f"across is {self.across.data}, not one of {', '.join(ACROSS)}")
