"""
Corrections of xDSL's parser: a hexadecimal element of a float literal is a bit pattern, and one
element that stands for many does so for a limited number of them.

xDSL 0.74 reads `dense<0xFF800000> : tensor<4xf32>`, MLIR's spelling of minus infinity, as the
number 4286578688 and says nothing. Such literals stand in real graphs (the initial value of a
maximum). And it makes a list of 2^40 elements of `dense<0> : tensor<1048576x1048576xf32>`.
`install` replaces the methods that are wrong; the pull request is these methods.
"""

import math
from typing import Any

from xdsl.dialects.builtin import AnyFloat
from xdsl.parser import AttrParser

_Element = AttrParser._TensorLiteralElement  # pyright: ignore[reportPrivateUsage]
_to_type = _Element.to_type


def _to_type_with_bit_patterns(self: Any, parser: AttrParser, type: Any) -> Any:
    """The element as a value of `type`, from its bits if it is a float written as 0x."""
    hexadecimal = isinstance(type, AnyFloat) and self.span.text[:2] in ("0x", "0X")
    if not hexadecimal:
        return _to_type(self, parser, type)
    try:
        bits = int(self.value).to_bytes(type.compile_time_size, "little")
    except OverflowError:
        parser.raise_error(f"{self.span.text} has more bits than {type}", at_position=self.span)
    return next(type.iter_unpack(bits))


MOST_ELEMENTS = 1 << 26
"""Elements of a literal: each takes about 10 bytes while it is read."""

_parse_dense = AttrParser.parse_dense_int_or_fp_elements_attr
_parse_type = AttrParser._parse_dense_literal_type  # pyright: ignore[reportPrivateUsage]


def _limited(parser: AttrParser, type: Any) -> Any:
    count = math.prod(type.get_shape())
    if count > MOST_ELEMENTS:
        parser.raise_error(f"a dense literal of {count} elements: at most {MOST_ELEMENTS} are read")
    return type


def _parse_limited_dense(self: AttrParser, type: Any) -> Any:
    return _parse_dense(self, type if type is None else _limited(self, type))


def _parse_limited_type(self: AttrParser) -> Any:
    return _limited(self, _parse_type(self))


def install() -> None:
    """Make every parser of this process read bit patterns and limits in dense literals."""
    _Element.to_type = _to_type_with_bit_patterns
    AttrParser.parse_dense_int_or_fp_elements_attr = _parse_limited_dense
    AttrParser._parse_dense_literal_type = (  # pyright: ignore[reportPrivateUsage]
        _parse_limited_type
    )
