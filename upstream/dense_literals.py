"""
Corrects xDSL's parser of dense literals. `install` replaces methods, as a pull request to xDSL
would.

A hexadecimal element of a float literal is a bit pattern: `dense<0xFF800000>` is MLIR's spelling of
minus infinity. xDSL 0.74 reads it as the number 4286578688. Raw bytes (`dense<"0x0D">`), which MLIR
prints for large literals, have MLIR's layout: the bits of i1 are packed, and an i48 has six bytes.
The number of elements of a splat is limited, because xDSL would build a list of 2^40 elements for
`dense<0> : tensor<1048576x1048576xf32>`.
"""

import math
from typing import Any

from xdsl.dialects.builtin import (
    AnyFloat,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    IntegerType,
    Signedness,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer

_Element = AttrParser._TensorLiteralElement  # pyright: ignore[reportPrivateUsage]
_to_type = _Element.to_type


def _to_type_with_bit_patterns(self: Any, parser: AttrParser, type: Any) -> Any:
    """Converts an element to a value of `type`. Reads a hexadecimal float as a bit pattern."""
    hexadecimal = isinstance(type, AnyFloat) and self.span.text[:2] in ("0x", "0X")
    if not hexadecimal:
        return _to_type(self, parser, type)
    try:
        bits = int(self.value).to_bytes(type.compile_time_size, "little")
    except OverflowError:
        parser.raise_error(f"{self.span.text} has more bits than {type}", at_position=self.span)
    return next(type.iter_unpack(bits))


def unpack(text: str, element: Any, count: int) -> bytes:
    """
    Returns the `count` elements of a hexadecimal literal as bytes in the layout that xDSL uses.

    A literal of one element is a splat. Raises `ValueError` for a malformed literal.
    """
    try:
        raw = bytes.fromhex(text.removeprefix("0x"))
    except ValueError:
        raise ValueError("a dense value's string must be hexadecimal") from None
    width = element.width.data if isinstance(element, IntegerType) else 0
    if width == 1 and raw in (b"\x00", b"\xff"):
        return raw * count
    if width == 1:
        if len(raw) != -(-count // 8):
            raise ValueError(f"{len(raw)} bytes do not hold {count} bits")
        return bytes(0xFF * (raw[k >> 3] >> (k & 7) & 1) for k in range(count))
    size = -(-width // 8) or element.compile_time_size
    raw *= count if len(raw) == size else 1
    if len(raw) != size * count:
        raise ValueError(f"{len(raw)} bytes cannot fill {count} components of {element}")
    if width in (0, 8, 16, 32, 64):
        return raw
    values = (int.from_bytes(raw[k : k + size], "little") for k in range(0, len(raw), size))
    unsigned = element.signedness.data is Signedness.UNSIGNED
    return element.pack([v - (v >> width - 1 << width) * (not unsigned) for v in values])


def pack(literal: Any) -> bytes:
    """Returns the bytes of a literal's elements in MLIR's layout. Inverse of `unpack`."""
    element = literal.get_element_type()
    width = element.width.data if isinstance(element, IntegerType) else 0
    if width in (0, 8, 16, 32, 64):
        return literal.data.data
    values = element.unpack(literal.data.data, len(literal))
    if width == 1:
        groups = (values[k : k + 8] for k in range(0, len(values), 8))
        return bytes(sum((v & 1) << bit for bit, v in enumerate(group)) for group in groups)
    return b"".join((v % (1 << width)).to_bytes(-(-width // 8), "little") for v in values)


AS_NUMBERS = 100
"""Maximum number of elements that are printed as numbers."""

_print_literal = DenseIntOrFPElementsAttr.print_without_type


def _print_packed(self: Any, printer: Printer) -> None:
    if len(self) <= AS_NUMBERS or self.is_splat():
        _print_literal(self, printer)
    else:
        printer.print_string(f'dense<"0x{pack(self).hex().upper()}">')


MOST_ELEMENTS = 1 << 26
"""Maximum number of elements of a literal. Each takes about 10 bytes while it is read."""

_parse_dense = AttrParser.parse_dense_int_or_fp_elements_attr
_parse_type = AttrParser._parse_dense_literal_type  # pyright: ignore[reportPrivateUsage]


def _limit_parser(parser: AttrParser, type: Any) -> Any:
    count = math.prod(type.get_shape())
    if count > MOST_ELEMENTS:
        parser.raise_error(f"a dense literal has {count} elements: use at most {MOST_ELEMENTS}")
    return type


def _parse_limited_dense(self: AttrParser, type: Any) -> Any:
    if type is not None:
        _limit_parser(self, type)
    start = self.pos
    self.parse_punctuation("<", " in dense attribute")
    text = self.parse_optional_str_literal()
    if text is None:
        self._resume_from(start)  # pyright: ignore[reportPrivateUsage]
        return _parse_dense(self, type)
    self.parse_punctuation(">", " in dense attribute")
    if type is None:
        self.parse_punctuation(":", " in dense attribute")
        type = _parse_limited_type(self)
    try:
        data = unpack(text, type.element_type, math.prod(type.get_shape()))
    except ValueError as error:
        self.raise_error(str(error), start)
    return DenseIntOrFPElementsAttr(type, BytesAttr(data))


def _parse_limited_type(self: AttrParser) -> Any:
    return _limit_parser(self, _parse_type(self))


def install() -> None:
    """Makes every parser of this process read dense literals with these corrections."""
    _Element.to_type = _to_type_with_bit_patterns
    DenseIntOrFPElementsAttr.print_without_type = _print_packed
    AttrParser.parse_dense_int_or_fp_elements_attr = _parse_limited_dense
    AttrParser._parse_dense_literal_type = (  # pyright: ignore[reportPrivateUsage]
        _parse_limited_type
    )
