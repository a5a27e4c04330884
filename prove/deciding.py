"""
Finds the values that the answers about races, bounds and other bugs depend on: indices of accesses,
branch conditions, and divisors.

Other values, such as the sums of a matrix multiplication, need no terms. The search goes backwards
from indices, conditions and divisors, through block arguments, calls, and stores to loaded
variables.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from xdsl.ir import Block, Operation, SSAValue

from xdsl_spirv.dialects.spirv import branches, exits, memory, structure
from xdsl_spirv.dialects.spirv import control_flow as flow
from xdsl_spirv.dialects.spirv.cooperative_matrix import MatrixMemoryOperation
from xdsl_spirv.dialects.spirv.types import PointerType
from xdsl_spirv.interpreter.context import symbol_name
from xdsl_spirv.interpreter.pointers import accessed_pointer, carries, is_write, root_of
from xdsl_spirv.prove.meaning import UNDEFINED

TEXELS = ("OpImageRead", "OpImageFetch", "OpImageWrite", "OpImageTexelPointer")
"""Instructions that access a texel at integer coordinates."""


def find_deciding(module: structure.ModuleOp) -> set[SSAValue]:
    """Returns the values of a module on which an answer about a bug may depend."""
    passed: dict[SSAValue, list[SSAValue]] = {}
    stored: dict[Hashable, list[SSAValue]] = {}
    pending = list[SSAValue]()
    for op in module.walk():
        for target, given in _list_passed(op, module):
            for argument, value in zip(target, given, strict=True):
                passed.setdefault(argument, []).append(value)
        if is_write(op) and (pointer := accessed_pointer(op, True)) is not None:
            stored.setdefault(root_of(pointer), []).extend(op.operands)
        pending += _roots(op)
    deciding = set[SSAValue]()
    while pending:
        value = pending.pop()
        if value in deciding:
            continue
        deciding.add(value)
        pending += passed.get(value, [])
        owner = value.owner
        if isinstance(owner, Block) or isinstance(owner, flow.Construct | flow.FunctionCallOp):
            continue
        pending += owner.operands
        if isinstance(owner, memory.LoadOp):
            root = root_of(owner.operands[0])
            each = [root, None] if root is not None else list(stored)
            pending += [v for one in each for v in stored.get(one, [])]
    return deciding


def _roots(op: Operation) -> Iterator[SSAValue]:
    if type(op) in UNDEFINED or isinstance(op, memory.AccessChain | MatrixMemoryOperation):
        yield from op.operands
    elif isinstance(op, flow.BranchConditionalOp | flow.SwitchOp):
        yield op.operands[0]
    elif carries(op, *TEXELS):
        yield op.arguments[1]
    yield from (v for v in (*op.operands, *op.results) if isinstance(v.type, PointerType))


def _list_passed(
    op: Operation, module: structure.ModuleOp
) -> Iterator[tuple[Sequence[SSAValue], Sequence[SSAValue]]]:
    """
    Yields (receivers, values) for each transfer of values by an operation. `receivers` are
    arguments of a block or function, or results of an operation.
    """
    match op:
        case branches.Branching():
            yield from ((target.args, passed) for target, passed in op.edges)
        case exits.BreakOp() | exits.ContinueOp():
            assert op.target is not None
            yield op.target.args, op.operands
        case flow.SelectionOp() | flow.LoopOp():
            end = op.merge_block.last_op if op.merge_block is not None else None
            if end is not None:
                yield op.results, end.operands
        case flow.FunctionCallOp():
            name = symbol_name(op.callee)
            for callee in module.body.block.ops:
                if isinstance(callee, structure.FuncOp) and callee.sym_name.data == name:
                    yield from _of_call(op, callee)
        case _:
            pass


def _of_call(
    op: flow.FunctionCallOp, callee: structure.FuncOp
) -> Iterator[tuple[Sequence[SSAValue], Sequence[SSAValue]]]:
    if callee.body.blocks:
        yield callee.body.blocks[0].args, op.operands
    for inner in callee.walk():
        if isinstance(inner, flow.ReturnValueOp):
            yield op.results, inner.operands
