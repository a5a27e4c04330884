"""
Defines push constants: numbers that a launch gives, and dynamic sizes of a kernel's arguments.

    spirv.GlobalVariable @f_numbers {schedule.numbers} :
      !spirv.ptr<!spirv.struct<(f32 [0], i32 [4]), Block>, PushConstant>
    gpu.launch_func @f::@f ... {schedule.numbers = [0.25 : f32, 3 : i32]}

The launch's attribute has a number for each member of the block, in order. A number of fewer than
32 bits is passed as a 32-bit word.

    spirv.GlobalVariable @f_sizes {schedule.sizes = [array<i64: 0, 1>]} :
      !spirv.ptr<!spirv.struct<(i32 [0]), Block>, PushConstant>

The first member of this block is dimension 1 of argument 0. The caller fills the block from the
shapes of the bound buffers. For an argument of type `index`, dimension 0 is the number itself.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, FloatAttr, IntegerAttr, UnitAttr, i64
from xdsl.ir import Attribute, Operation

from xdsl_spirv.dialects.spirv.module import ModuleOp
from xdsl_spirv.dialects.spirv.structure import GlobalVariableOp, entry_points

NUMBERS = "schedule.numbers"
"""
Attribute that marks a push-constant block whose numbers each launch gives. On a launch, it has
these numbers.
"""

NUMBER_BYTES = 4
"""Size in bytes of a number in a push-constant block."""


def mark_numbers(variable: GlobalVariableOp) -> None:
    """Marks a push-constant block, so that each launch gives the numbers in it."""
    variable.attributes[NUMBERS] = UnitAttr()


def numbers_of(launch: Operation) -> list[tuple[str, int | float]]:
    """Returns the type (`f32` or `i32`) and value of each number that a launch passes."""
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
    """Returns the bytes of a block with these numbers, little-endian."""
    return b"".join(struct.pack("<f" if kind == "f32" else "<i", n) for kind, n in numbers)


SIZES = "schedule.sizes"
"""
Attribute of a push-constant block of sizes. For each member it has the argument and the dimension.
"""

SIZE_BYTES = 4
"""Size in bytes of a block member, which is an unsigned 32-bit integer."""


def mark_sizes(variable: GlobalVariableOp, sizes: Sequence[tuple[int, int]]) -> None:
    """Marks a push-constant block of sizes: records the argument and dimension of each member."""
    pairs = [DenseArrayBase.from_list(i64, list(pair)) for pair in sizes]
    variable.attributes[SIZES] = ArrayAttr(pairs)


def sizes_of(module: ModuleOp, entry: str) -> list[tuple[int, int]]:
    """
    Returns the argument and dimension that each push constant of an entry point gives, in order.
    """
    points = (point for point in entry_points(module) if point.fn.string_value() == entry)
    interface = {variable.string_value() for point in points for variable in point.interface}
    for op in module.body.block.ops:
        if isinstance(op, GlobalVariableOp) and op.sym_name.data in interface:
            sizes = _pairs(op)
            if sizes:
                return sizes
    return []


def _pairs(op: Operation) -> list[tuple[int, int]]:
    marked = op.attributes.get(SIZES)
    if not isinstance(marked, ArrayAttr):
        return []
    pairs: list[tuple[int, int]] = []
    for pair in marked:
        assert isinstance(pair, DenseArrayBase)
        argument, dimension = (int(number) for number in pair.get_values())
        pairs.append((argument, dimension))
    return pairs
