"""
Turns the bodies of a host function's loops into functions; the program calls them repeatedly.

    scf.for %t = 0 to %n iter_args(%s = %a) {      scf.for %t = 0 to %n iter_args(%s = %a) {
      %x = tensor.extract_slice %b[%t] ...           %u = func.call @main_step0(%t, %b, %s)
      %u = f(%s, %x)                           ->    scf.yield %u }
      scf.yield %u }                               func.func private @main_step0(%t, %b, %s)

Later passes compile such a step like any other function. The tensors that a step passes to the
next step are states (`program.state`): `update-states` writes the new values over the old ones.
`read_host` records the loop in the manifest, with the dispatches of one step.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    IndexType,
    ModuleOp,
    StringAttr,
    TensorType,
    i64,
)
from xdsl.dialects.builtin import IntegerAttr as Integer
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, Region, SSAValue

from xdsl_spirv.dialects.host_loops import hoist, number_of
from xdsl_spirv.dialects.program import STATE
from xdsl_spirv.passes.analysis.sizes import is_size_op
from xdsl_spirv.passes.analysis.values import MAKERS


def outline_loops(module: ModuleOp, function: FuncOp) -> None:
    """Moves the body of each loop that carries tensors into a function."""
    loops = [op for op in function.body.block.ops if isinstance(op, scf.ForOp) and is_step(op)]
    for number, loop in enumerate(loops):
        hoist(loop)
        module.body.block.add_op(_outline(loop, f"{function.sym_name.data}_step{number}"))


def is_step(loop: scf.ForOp) -> bool:
    """True if a loop counts from 0 by 1, carries only tensors, and contains no loop or call."""
    counts = (
        number_of(loop.lb) == 0
        and number_of(loop.step) == 1
        and isinstance(loop.lb.type, IndexType)
    )
    tensors = all(isinstance(value.type, TensorType) for value in loop.iter_args)
    nested = any(isinstance(op, scf.ForOp | scf.WhileOp) for op in loop.body.block.walk())
    calls = any(isinstance(op, func.CallOp) for op in loop.body.block.ops)
    return counts and bool(loop.results) and tensors and not nested and not calls


def _outline(loop: scf.ForOp, name: str) -> FuncOp:
    block = loop.body.block
    _copy_sizes(block)
    captured = list(dict.fromkeys(_find_captured(block)))
    index, *carried = block.args
    step = Block(arg_types=[value.type for value in (index, *captured, *carried)])
    results = _find_yield(block)
    for old, new in zip((index, *captured, *carried), step.args, strict=True):
        new.name_hint = old.name_hint
        old.replace_uses_with_if(new, lambda use: _is_inside(use.operation, block))
    operands = list(results.operands)
    for op in list(block.ops):
        op.detach()
        if op is not results:
            step.add_op(op)
    results.drop_all_references()
    step.add_op(func.ReturnOp(*operands))
    types = FunctionType.from_lists(list(step.arg_types), [value.type for value in operands])
    first = 1 + len(captured)
    noted = [
        DictionaryAttr({STATE: Integer(number - first, i64)} if number >= first else {})
        for number in range(len(step.args))
    ]
    function = FuncOp(name, types, Region(step), StringAttr("private"), arg_attrs=ArrayAttr(noted))
    function.location = loop.location
    call = func.CallOp(name, [index, *captured, *carried], [value.type for value in operands])
    call.location = loop.location
    block.add_ops([call, scf.YieldOp(*call.results)])
    return function


def _find_yield(block: Block) -> scf.YieldOp:
    last = block.last_op
    assert isinstance(last, scf.YieldOp)
    return last


def _copy_sizes(block: Block) -> None:
    """Copies constants and computations of sizes from outside of a body into the body."""
    first = block.first_op
    copies: dict[SSAValue, SSAValue] = {}

    def copy(value: SSAValue) -> SSAValue:
        owner = value.owner
        if not isinstance(owner, Operation) or _is_inside(owner, block):
            return value
        if not is_size_op(owner) and not _is_made_anew(owner):
            return value
        if value not in copies:
            mapping = {operand: copy(operand) for operand in owner.operands}
            made = owner.clone(mapping)
            block.insert_op_before(made, first)  # pyright: ignore[reportArgumentType]
            copies[value] = made.results[owner.results.index(value)]  # pyright: ignore
        return copies[value]

    for value in list(dict.fromkeys(_find_captured(block))):
        if (new := copy(value)) is not value:
            value.replace_uses_with_if(new, lambda use: _is_inside(use.operation, block))


def _is_made_anew(op: Operation) -> bool:
    """True if each reader can recreate the operation's tensor at no cost, such as a splat."""
    return isinstance(op, MAKERS) and all(
        isinstance(value.owner, Operation)
        and (is_size_op(value.owner) or _is_made_anew(value.owner))
        for value in op.operands
    )


def _find_captured(block: Block) -> Iterator[SSAValue]:
    for op in block.walk():
        for value in op.operands:
            owner = value.owner
            around = owner if isinstance(owner, Block) else owner.parent_block()
            if around is not block and not _is_in_block(around, block):
                yield value


def _is_in_block(inner: Block | None, block: Block) -> bool:
    parent = inner.parent_op() if inner is not None else None
    return parent is not None and _is_inside(parent, block)


def _is_inside(op: Operation, block: Block) -> bool:
    return block.find_ancestor_op_in_block(op) is not None
