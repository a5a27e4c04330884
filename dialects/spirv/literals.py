"""Numbers of MLIR as the words of literals (SPIR-V 2.2.1)."""

from __future__ import annotations

from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, IntegerType, Signedness
from xdsl.ir import Attribute

from xdsl_spirv.grammar import integer_words


def literal_words(value: IntegerAttr | FloatAttr, type: Attribute) -> list[int]:
    """The words of a number; raises `ValueError` for one that its type does not hold."""
    if isinstance(value, IntegerAttr) and isinstance(type, IntegerType):
        is_signed = type.signedness.data is Signedness.SIGNED
        return integer_words(value.value.data, type.width.data, is_signed)
    if isinstance(value, IntegerAttr) or not isinstance(type, AnyFloat):
        raise ValueError(f"{value} is no constant of type {type}")
    try:
        packed = type.pack((value.value.data,))
    except OverflowError:
        raise ValueError(f"{value.value.data} is beyond the range of {type}") from None
    return integer_words(int.from_bytes(packed, "little"), type.bitwidth)
