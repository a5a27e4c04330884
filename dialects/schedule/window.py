"""
How a contraction over sliding windows is computed with neighbours exchanged in registers.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

_NAMES = ("outputs", "subgroups")


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
            if key not in _NAMES or key in values:
                parser.raise_error(f"{key!r} is not one of {', '.join(_NAMES)}", at, parser.pos)
            parser.parse_punctuation("=")
            values[key] = IntAttr(parser.parse_integer(allow_boolean=False))

        parser.parse_comma_separated_list(parser.Delimiter.ANGLE, parse_field)
        missing = [name for name in _NAMES if name not in values]
        if missing:
            parser.raise_error(f"a schedule needs {', '.join(missing)}", start, parser.pos)
        return [values[name] for name in _NAMES]

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<outputs = {self.outputs.data}, subgroups = {self.subgroups.data}>")

    def verify(self) -> None:
        if self.outputs.data < 1 or self.subgroups.data < 1:
            raise VerifyException("outputs and subgroups must be positive")
