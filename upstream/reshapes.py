"""
Accepts sizes of `tensor` operations that MLIR accepts and xDSL 0.75 refuses.

MLIR expands a tensor of rank 0 to sizes of 1 with an empty list of groups. xDSL requires groups
that cover all dimensions. If a padding is dynamic, MLIR allows any result size. xDSL requires a
dynamic size. Pull requests to xDSL would make `verify_reshape_like_types` check that all expanded
sizes are 1 if the collapsed type has rank 0, and make `PadOp` compare only static sizes.
"""

from __future__ import annotations

from xdsl.dialects import tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, ArrayAttr, IntegerAttr, ShapedType
from xdsl.dialects.utils.reshape_ops_utils import verify_reshape_like_types
from xdsl.ir import Dialect
from xdsl.utils.exceptions import VerifyException


def _verify_reshape(
    collapsed_type: ShapedType,
    expanded_type: ShapedType,
    reassociation: ArrayAttr[ArrayAttr[IntegerAttr]],
) -> None:
    if collapsed_type.get_shape() or reassociation.data:
        return verify_reshape_like_types(collapsed_type, expanded_type, reassociation)
    if any(size != 1 for size in expanded_type.get_shape()):
        raise VerifyException(
            f"{expanded_type} should have only sizes of 1, because {collapsed_type} has one element"
        )
    return None


def _verify_pad(op: tensor.PadOp) -> None:
    assert isinstance(op.source.type, ShapedType)
    sizes, results = op.source.type.get_shape(), op.result.type.get_shape()
    low, high = op.static_low.get_values(), op.static_high.get_values()
    if not len(sizes) == len(results) == len(low) == len(high) == len(op.region.block.args):
        raise VerifyException(
            f"there should be {len(sizes)} paddings, sizes and indices for {op.source.type}"
        )
    for axis, parts in enumerate(zip(low, sizes, high, strict=True)):
        known = DYNAMIC_INDEX not in (*parts, results[axis])
        if known and sum(parts) != results[axis]:
            raise VerifyException(f"dimension {axis} should be {sum(parts)}, not {results[axis]}")


def extend(dialect: Dialect) -> Dialect:
    """Replaces xDSL's checks by the checks of this module. Returns the dialect."""
    setattr(tensor, verify_reshape_like_types.__name__, _verify_reshape)
    setattr(tensor.PadOp, "verify_", _verify_pad)
    return dialect
