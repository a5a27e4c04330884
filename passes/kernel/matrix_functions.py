"""
Applies functions to the elements of cooperative matrices, on devices with such instructions.

The device chooses the invocation of each element and passes row and column to the function. Values
from outside of the function become arguments; constants are copied into it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith
from xdsl.ir import Block, Operation, OpResult, Region, SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.schedule import EachElementOp, ReduceRowsOp, YieldOp
from xdsl_spirv.passes.emit.kernel import INDEX, KernelEmitter

Combine = Callable[[SSAValue, SSAValue], SSAValue]


def each_element(
    b: KernelEmitter,
    body: Callable[..., SSAValue],
    matrix: SSAValue,
    *others: SSAValue,
) -> SSAValue:
    """
    Builds a matrix whose elements are body(row, column, element, elements of `others`).

    All matrices have the same type. Other values that `body` uses must be uniform in the subgroup.
    """
    type = matrix.type
    assert isinstance(type, spv.CooperativeMatrixType)
    block = Block(arg_types=[INDEX, INDEX, *[type.element_type] * (1 + len(others))])
    for argument, name in zip(block.args, ("row", "column"), strict=False):
        argument.name_hint = name
    _write(b, body, block)
    captured = _close(block)
    return b.add(EachElementOp(matrix, [*others, *captured], Region(block)))


def reduce_rows(b: KernelEmitter, combine: Combine, matrix: SSAValue) -> SSAValue:
    """Reduces each row of a matrix; the reduction replaces every element of the row."""
    type = matrix.type
    assert isinstance(type, spv.CooperativeMatrixType)
    block = Block(arg_types=[type.element_type] * 2)
    _write(b, combine, block)
    captured = _close(block)
    assert not captured, "combine uses values other than its arguments"
    return b.add(ReduceRowsOp(matrix, Region(block)))


def _write(b: KernelEmitter, body: Callable[..., SSAValue], block: Block) -> None:
    with b.inside(block):
        b.insert(YieldOp(body(*block.args)))


def _close(block: Block) -> Sequence[SSAValue]:
    """
    Converts outside values that a block uses to block arguments; copies constants into the block.
    """
    inside: set[SSAValue] = set(block.args)
    for op in block.walk():
        inside.update(op.results)
        for region in op.regions:
            inside.update(argument for own in region.blocks for argument in own.args)
    known: dict[SSAValue, SSAValue] = {}
    captured: list[SSAValue] = []
    for op in list(block.walk()):
        for number, operand in enumerate(op.operands):
            if operand in inside:
                continue
            if operand not in known:
                constant = _constant(operand)
                if constant is None:
                    captured.append(operand)
                    known[operand] = block.insert_arg(operand.type, len(block.args))
                else:
                    assert block.first_op is not None
                    block.insert_op_before(constant, block.first_op)
                    known[operand] = constant.results[0]
                known[operand].name_hint = operand.name_hint
            op.operands[number] = known[operand]
    return captured


def _constant(value: SSAValue) -> Operation | None:
    if isinstance(value, OpResult) and isinstance(value.op, arith.ConstantOp):
        return value.op.clone()
    return None
