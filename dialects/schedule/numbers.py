"""
Numbers that a kernel is passed by who launches it, as push constants.

    spirv.GlobalVariable @f_numbers {schedule.numbers} :
      !spirv.ptr<!spirv.struct<(f32 [0], i32 [4]), Block>, PushConstant>
    gpu.launch_func @f::@f ... {schedule.numbers = [0.25 : f32, 3 : i32]}

The launch's attribute has a number for each member of the block, in their order; a number of fewer
bits than 32 is passed as a word.
"""

from __future__ import annotations

import struct

from xdsl.dialects.builtin import ArrayAttr, FloatAttr, IntegerAttr, UnitAttr
from xdsl.ir import Attribute, Operation

from xdsl_spirv.dialects.spirv.structure import GlobalVariableOp

NUMBERS = "schedule.numbers"
"""The attribute of a block of push constants, and of a launch."""

NUMBER_BYTES = 4
"""Of a member of the block."""


def mark_numbers(variable: GlobalVariableOp) -> None:
    """Say of a push-constant block that launches say what is in it."""
    variable.attributes[NUMBERS] = UnitAttr()


def numbers_of(launch: Operation) -> list[tuple[str, int | float]]:
    """The type and the value of each number that a launch passes."""
    given = launch.attributes.get(NUMBERS)
    if not isinstance(given, ArrayAttr):
        return []
    return [_number(attribute) for attribute in given]


def _number(attribute: Attribute) -> tuple[str, int | float]:
    if isinstance(attribute, FloatAttr):
        return "f32", attribute.value.data
    assert isinstance(attribute, IntegerAttr)
    return "i32", attribute.value.data


def bytes_of(numbers: list[tuple[str, int | float]]) -> bytes:
    """The block that holds these numbers, little endian."""
    return b"".join(struct.pack("<f" if kind == "f32" else "<i", n) for kind, n in numbers)
