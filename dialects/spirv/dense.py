"""
Parses the `dense<...>` literals of `spirv.Constant`.

xDSL's parser accepts only builtin shaped types (not cooperative matrices). It also reads a
hexadecimal element of a float type as a number: the bits of infinity would become 4286578688.0.
`DenseLiteral` stores the elements' text until the type is known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import (
    AnyFloat,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    TensorType,
    VectorType,
)
from xdsl.ir import Attribute
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.spirv.rules_types import refuse
from xdsl_spirv.dialects.spirv.types import CooperativeMatrixType
from xdsl_spirv.dialects.spirv.types_declared import TensorArmType
from xdsl_spirv.upstream import dense_literals

Element = bool | int | float


@dataclass(frozen=True)
class DenseLiteral:
    """
    A `dense` literal whose type is not known yet.

    `shape` is None for a splat. A literal in hexadecimal (`dense<"0x...">`) has its text in `raw`,
    and no `elements`.
    """

    start: int
    end: int
    shape: tuple[int, ...] | None
    elements: Sequence[tuple[Element, bool]]
    raw: str | None = None

    @classmethod
    def parse_optional(cls, parser: Parser) -> DenseLiteral | None:
        """Parses `dense<...>`. Returns None if the text is not a dense literal."""
        start = parser.pos
        if not parser.parse_optional_keyword("dense"):
            return None
        with parser.in_angle_brackets():
            text = parser.parse_optional_str_literal()
            if text is not None:
                return cls(start, parser.pos, None, (), text)
            elements: list[tuple[Element, bool]] = []
            shape = _parse_elements(parser, elements)
        return cls(start, parser.pos, shape, elements)

    def attribute(self, parser: Parser, type: Attribute) -> Attribute:
        """
        Creates the attribute of the literal for a type. For a cooperative matrix, it is a scalar.
        """
        try:
            return self._attribute(type)
        except (VerifyException, ValueError, OverflowError) as error:
            parser.raise_error(str(error), self.start, self.end)

    def _attribute(self, type: Any) -> Attribute:
        if isinstance(type, CooperativeMatrixType):
            if self.shape is not None or self.raw is not None:
                refuse(
                    "CM-08",
                    "a constant cooperative matrix must have a single value for all components",
                    "write dense<0.0>, say",
                )
            return _scalar(self.elements[0], type.element_type)
        if isinstance(type, TensorArmType):
            type = type.literal_type
        if not isinstance(type, VectorType | TensorType):
            raise VerifyException(
                f"a dense value must have a vector, tensor or cooperative matrix type, not {type}"
            )
        element_type = type.get_element_type()
        if not isinstance(element_type, IntegerType | AnyFloat):
            raise VerifyException(f"a dense value cannot have components of type {element_type}")
        count = math.prod(type.get_shape())
        if self.raw is not None:
            return DenseIntOrFPElementsAttr(
                type, BytesAttr(dense_literals.unpack(self.raw, element_type, count))
            )
        if self.shape is not None and self.shape != type.get_shape():
            raise VerifyException(
                f"a dense value of shape {list(self.shape)} cannot be of type {type}"
            )
        data = b"".join(_pack(element, element_type) for element in self.elements)
        return DenseIntOrFPElementsAttr(type, BytesAttr(data if self.shape else data * count))


def _parse_elements(parser: Parser, elements: list[tuple[Element, bool]]) -> tuple[int, ...] | None:
    start = parser.pos
    parts = parser.parse_optional_comma_separated_list(
        parser.Delimiter.SQUARE, lambda: _parse_elements(parser, elements)
    )
    if parts is None:
        elements.append(_parse_element(parser))
        return None
    if any(part != parts[0] for part in parts):
        parser.raise_error("the rows of a dense value must have one length", start, parser.pos)
    return (len(parts), *((parts[0] or ()) if parts else ()))


def _parse_element(parser: Parser) -> tuple[Element, bool]:
    """Parses a number. Returns its text or value, and True if it was hexadecimal."""
    boolean = parser.parse_optional_boolean()
    if boolean is not None:
        return boolean, False
    start = parser.pos
    value = parser.parse_number()
    return value, "0x" in parser.lexer.input.content[start : parser.pos]


def _scalar(element: tuple[Element, bool], type: Attribute) -> IntegerAttr | FloatAttr:
    value, hexadecimal = element
    if isinstance(type, AnyFloat):
        if hexadecimal:
            raw = int(value).to_bytes(type.compile_time_size, "little")
            return FloatAttr(next(type.iter_unpack(raw)), type)
        if not isinstance(value, float):
            raise VerifyException(f"{value} is not a value of {type}: write {value}.0")
        return FloatAttr(value, type)
    if not isinstance(type, IntegerType):
        raise VerifyException(f"a dense value cannot have components of type {type}")
    if isinstance(value, float):
        raise VerifyException(f"{value} is not a value of {type}: write an integer")
    return IntegerAttr(int(value), type)


def _pack(element: tuple[Element, bool], type: IntegerType | AnyFloat) -> bytes:
    value = _scalar(element, type).value.data
    if isinstance(type, IntegerType):
        return type.pack([int(value)])
    return type.pack([value])
