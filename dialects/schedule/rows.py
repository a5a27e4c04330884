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

_NUMBERS = ("rows", "columns", "lanes", "steps", "bytes", "groups", "digits", "within")
_NAMES = (*_NUMBERS, "subgroups")

MOST_BYTES = 16
"""Of a load."""

MOST_DIGITS = 3
"""More than binary32 has."""

_DEFAULTS = {"bytes": MOST_BYTES, "groups": 1, "digits": 0, "within": 1}


@irdl_attr_definition
class RowsAttr(ParametrizedAttribute):
    """
    Invocations compute `rows` x `columns` elements of the result each, or a part of their sums.

    K is divided among `lanes` invocations of a subgroup and among `subgroups[0]` subgroups; the
    other invocations of a subgroup, and `subgroups[1]` subgroups, have other columns. An invocation
    takes K in units of one load, of at most `bytes`, of the operand that streams, and `steps` units
    at a time, so that as many loads are under way. Its columns are the first of `groups` groups,
    which it computes one after the other: where that is all it has of K, what it read of the rows
    stays in registers. With `digits` the rows' elements become integers of so many bytes where the
    other operand's are small integers, of which packed dot products are computed. `within` lanes
    share each unit: all of them load it, and each computes other elements of it.

        #schedule.rows<rows = 1, columns = 4, lanes = 32, steps = 2, bytes = 8, subgroups = [1, 4]>
    """

    name = "schedule.rows"
    rows: IntAttr
    columns: IntAttr
    lanes: IntAttr
    steps: IntAttr
    bytes: IntAttr
    groups: IntAttr
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
    ):
        super().__init__(
            IntAttr(rows),
            IntAttr(columns),
            IntAttr(lanes),
            IntAttr(steps),
            IntAttr(bytes),
            IntAttr(groups),
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
        return *positive, self.digits, self.within

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        values: dict[str, Attribute] = {name: IntAttr(number) for name, number in _DEFAULTS.items()}
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
        pairs = [(name, n.data) for name, n in zip(_NUMBERS, self._numbers, strict=True)]
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
