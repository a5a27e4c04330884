"""
How a contraction with few rows is computed: its other operand streams through registers once.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, IntAttr
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

_NUMBERS = ("rows", "columns", "lanes", "steps", "bytes")
_NAMES = (*_NUMBERS, "subgroups")

MOST_BYTES = 16
"""Of a load."""


@irdl_attr_definition
class RowsAttr(ParametrizedAttribute):
    """
    Invocations compute `rows` x `columns` elements of the result each, or a part of their sums.

    K is divided among `lanes` invocations of a subgroup and among `subgroups[0]` subgroups; the
    other invocations of a subgroup, and `subgroups[1]` subgroups, have other columns. An invocation
    takes K in units of one load, of at most `bytes`, of the operand that streams, and `steps` units
    at a time, so that as many loads are under way.

        #schedule.rows<rows = 1, columns = 4, lanes = 32, steps = 2, bytes = 8, subgroups = [1, 4]>
    """

    name = "schedule.rows"
    rows: IntAttr
    columns: IntAttr
    lanes: IntAttr
    steps: IntAttr
    bytes: IntAttr
    subgroups: ArrayAttr[IntAttr]

    def __init__(
        self,
        rows: int = 1,
        columns: int = 1,
        lanes: int = 1,
        steps: int = 1,
        subgroups: Sequence[int] = (1, 1),
        bytes: int = MOST_BYTES,
    ):
        super().__init__(
            IntAttr(rows),
            IntAttr(columns),
            IntAttr(lanes),
            IntAttr(steps),
            IntAttr(bytes),
            ArrayAttr(map(IntAttr, subgroups)),
        )

    @property
    def grid(self) -> tuple[int, int]:
        """Subgroups of a workgroup: those that divide K, and those that have other columns."""
        along_k, along_columns = (count.data for count in self.subgroups)
        return along_k, along_columns

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        values: dict[str, Attribute] = {"bytes": IntAttr(MOST_BYTES)}
        start = parser.pos
        given: set[str] = set()

        def parse_field() -> None:
            at = parser.pos
            key = parser.parse_identifier()
            if key not in _NAMES or key in given:
                parser.raise_error(f"{key!r} is not one of {', '.join(_NAMES)}", at, parser.pos)
            given.add(key)
            parser.parse_punctuation("=")
            if key in _NUMBERS:
                values[key] = IntAttr(parser.parse_integer(allow_boolean=False))
                return
            counts = parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, parser.parse_integer
            )
            values[key] = ArrayAttr(map(IntAttr, counts))

        parser.parse_comma_separated_list(parser.Delimiter.ANGLE, parse_field)
        missing = [name for name in _NAMES if name not in values]
        if missing:
            parser.raise_error(f"a schedule needs {', '.join(missing)}", start, parser.pos)
        return [values[name] for name in _NAMES]

    def print_parameters(self, printer: Printer) -> None:
        numbers = (self.rows, self.columns, self.lanes, self.steps, self.bytes)
        pairs = [(name, n.data) for name, n in zip(_NUMBERS, numbers, strict=True)]
        fields = [f"{name} = {n}" for name, n in pairs if (name, n) != ("bytes", MOST_BYTES)]
        printer.print_string(f"<{', '.join(fields)}, subgroups = {list(self.grid)}>")

    def verify(self) -> None:
        if len(self.subgroups) != 2:
            raise VerifyException(f"subgroups has {len(self.subgroups)} numbers, must have 2")
        numbers = (self.rows, self.columns, self.lanes, self.steps, self.bytes, *self.subgroups)
        if any(number.data < 1 for number in numbers):
            raise VerifyException("the numbers of a schedule must be positive")
        if self.bytes.data > MOST_BYTES:
            raise VerifyException(f"bytes is {self.bytes.data}: a load has at most {MOST_BYTES}")
