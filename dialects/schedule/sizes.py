"""
Where a kernel's dynamic sizes come from: dimensions of its arguments, passed as push constants.

    spirv.GlobalVariable @f_sizes {schedule.sizes = [array<i64: 0, 1>]} :
      !spirv.ptr<!spirv.struct<(i32 [0]), Block>, PushConstant>

says that the first member is dimension 1 of argument 0. Whoever launches the kernel fills the block
from the shapes of what it binds; of an argument of type `index`, dimension 0 is the number itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, i64
from xdsl.ir import Operation

from xdsl_spirv.dialects.spirv.module import ModuleOp
from xdsl_spirv.dialects.spirv.structure import EntryPointOp, GlobalVariableOp

SIZES = "schedule.sizes"
"""The attribute of a push-constant variable: argument and dimension of each member."""

SIZE_BYTES = 4
"""A size is an unsigned 32-bit integer."""


def mark_sizes(variable: GlobalVariableOp, sizes: Sequence[tuple[int, int]]) -> None:
    """Say of a push-constant block which sizes its members are."""
    pairs = [DenseArrayBase.from_list(i64, list(pair)) for pair in sizes]
    variable.attributes[SIZES] = ArrayAttr(pairs)


def sizes_of(module: ModuleOp, entry: str) -> list[tuple[int, int]]:
    """The (argument, dimension) behind each push constant of an entry point, in their order."""
    interface: set[str] = set()
    for op in module.body.block.ops:
        if isinstance(op, EntryPointOp) and op.fn.string_value() == entry:
            interface |= {variable.string_value() for variable in op.interface}
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
