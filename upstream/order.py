"""
Verifies rules that xDSL 0.74 does not check: order of definitions, and existing dimensions.

In xDSL a module verifies even if an operation reads its own result, a later result, or a result
inside of another operation. Passes that follow values from operation to operation may then not
terminate. xDSL does not refuse a `linalg.index` of a missing loop, a `tensor.dim` of a missing
dimension, or a permutation that repeats a dimension, either. A pull request to xDSL would add
MLIR's dominance verification, and verifiers of these operations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from xdsl.dialects import memref, tensor
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import IntegerAttr, ShapedType
from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.ops import IndexOp, TransposeOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.utils.exceptions import VerifyException


def verify_order(op: Operation) -> None:
    """Raises `VerifyException` if a function in `op` uses a value before its definition."""
    for function in op.walk():
        if isinstance(function, FuncOp):
            for block in function.body.blocks:
                _verify(block, set(), set(), {function.body})


def _verify(block: Block, before: set[Operation], around: set[Block], regions: set[Region]) -> None:
    """Checks that operands are computed earlier: in this block, or in the blocks `around` it."""
    around = around | {block}
    for op in block.ops:
        for operand in op.operands:
            owner = operand.owner
            home = owner.parent if isinstance(owner, Operation) else owner
            if home in around:
                if isinstance(owner, Operation) and owner not in before:
                    raise VerifyException(f"{_use(op, operand)} before it is computed")
            elif home is not None and home.parent not in regions:
                raise VerifyException(f"{_use(op, operand)}, which is inside of another operation")
        check = CHECKS.get(type(op))
        if check is not None:
            check(op)
        for region in op.regions:
            for inner in region.blocks:
                _verify(inner, before, around, regions | {region})
        before.add(op)


def _use(op: Operation, operand: SSAValue) -> str:
    name = f" %{operand.name_hint}" if operand.name_hint else ""
    return f"{op.name!r} uses the value{name}"


def _verify_index(op: Operation) -> None:
    assert isinstance(op, IndexOp)
    loops = op.parent_op()
    if isinstance(loops, LinalgStructuredOperation):
        count = len(loops.get_iterator_types())
        if not 0 <= op.dim.value.data < count:
            raise VerifyException(
                f"'linalg.index' {op.dim.value.data} is out of range: there are {count} loops"
            )


def _verify_dimension(op: Operation) -> None:
    assert isinstance(op, tensor.DimOp | memref.DimOp)
    type, index = op.source.type, op.index.owner
    if not isinstance(type, ShapedType) or not isinstance(index, ConstantOp):
        return
    number = index.value
    if isinstance(number, IntegerAttr) and not 0 <= number.value.data < type.get_num_dims():
        raise VerifyException(
            f"{op.name!r}: dimension {number.value.data} exceeds rank {type.get_num_dims()}"
        )


def _verify_permutation(op: Operation) -> None:
    assert isinstance(op, TransposeOp)
    order = op.permutation.get_values()
    if sorted(order) != list(range(len(order))):
        raise VerifyException(f"{op.name!r}: {list(order)} is not a permutation")


CHECKS: Mapping[type[Operation], Callable[[Operation], None]] = {
    IndexOp: _verify_index,
    tensor.DimOp: _verify_dimension,
    memref.DimOp: _verify_dimension,
    TransposeOp: _verify_permutation,
}
