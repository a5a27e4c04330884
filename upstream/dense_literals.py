"""
A correction of xDSL's parser: a hexadecimal element of a float literal is a bit pattern.

xDSL 0.74 reads `dense<0xFF800000> : tensor<4xf32>`, MLIR's spelling of minus infinity, as the
number 4286578688 and says nothing. Such literals stand in real graphs (the initial value of a
maximum). `install` replaces the one method that is wrong; the pull request is this method.
"""

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


def install() -> None:
    """Make every parser of this process read bit patterns in dense literals."""
    _Element.to_type = _to_type_with_bit_patterns
