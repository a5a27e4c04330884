"""
A tensor without dimensions is expanded to sizes of 1 by no groups, as MLIR has it.

xDSL 0.75 asks for groups that cover all dimensions. The pull request: `verify_reshape_like_types`
checks that all expanded sizes are 1 where the collapsed type has no dimensions.
"""

from __future__ import annotations

from xdsl.dialects import tensor
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, ShapedType
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
            f"{expanded_type} has other sizes than 1, but {collapsed_type} has one element"
        )
    return None


def extend(dialect: Dialect) -> Dialect:
    """Let `tensor.expand_shape` take tensors without dimensions."""
    setattr(tensor, verify_reshape_like_types.__name__, _verify_reshape)
    return dialect
