"""
`#linalg.type_fn<cast_unsigned>`: how a named operation takes its inputs to the result's type.

The pull request adds it to `xdsl.dialects.linalg.attrs`.
"""

from __future__ import annotations

from enum import auto

from xdsl.dialects.utils import EnumAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.str_enum import StrEnum


class TypeFunction(StrEnum):
    """The two casts of `linalg`."""

    CAST_SIGNED = auto()
    CAST_UNSIGNED = auto()


@irdl_attr_definition
class TypeFunctionAttr(EnumAttribute[TypeFunction]):
    """`#linalg.type_fn<cast_signed>` or `#linalg.type_fn<cast_unsigned>`."""

    name = "linalg.type_fn"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> TypeFunction:
        with parser.in_angle_brackets():
            return super().parse_parameter(parser)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            super().print_parameter(printer)
