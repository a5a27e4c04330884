"""
Makes frequent steps of xDSL's core faster, with the same results.

A pull request to xDSL would make these changes in place:

- Values, operations, blocks and regions are hashed and compared by identity, in methods written in
  Python. `object` has the same methods in C.
- An attribute's constructor asks each time if its class is a kind of attribute. Here it asks once
  for each class.
- A dense array is decoded whenever an operation's accessor reads the sizes of its segments. Here
  an array keeps its decoded values.
- Accessors read operands through a view whose changes reach the operation. They need only the
  tuple.
- A walk passes each operation through two generators for each level of nesting. Here it passes two
  generators altogether.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from xdsl.dialects.builtin import UNKNOWN_LOC, DenseArrayBase
from xdsl.ir import Attribute, Block, BlockArgument, BlockOps, Operation, Region, SSAValue
from xdsl.ir import core as ir
from xdsl.ir.core import SSAValues
from xdsl.irdl import IRDLOperation, VarIRConstruct, operations

# This file reads the private fields of xDSL's classes.
# pyright: reportPrivateUsage=false

_check = Attribute.__post_init__
_checked: set[type[Attribute]] = set()
_decode = DenseArrayBase[Any].get_values
_constructs = operations.get_op_constructs
_walk = Operation.walk


def check_attribute(self: Attribute) -> None:
    """Verifies an attribute. Checks its class if this is the first attribute of the class."""
    if type(self) in _checked:
        self._verify()
    else:
        _check(self)
        _checked.add(type(self))


def get_values(self: DenseArrayBase[Any]) -> tuple[Any, ...]:
    """Returns the values of an array, which are decoded once."""
    # Frozen dataclasses compare and print only their declared fields.
    kept = vars(self)
    if "_values" not in kept:
        kept["_values"] = _decode(self)
    return kept["_values"]


def get_constructs(op: Operation, construct: VarIRConstruct) -> Any:
    """Returns the operands, results, regions or successors of an operation."""
    if construct is VarIRConstruct.OPERAND:
        return op._operands
    return op.results if construct is VarIRConstruct.RESULT else _constructs(op, construct)


def get_item(self: SSAValues[SSAValue], index: int | slice) -> Any:
    """Returns a value, or the values of a slice."""
    found = tuple.__getitem__(self, index)
    return SSAValues(found) if isinstance(found, tuple) else found


def iterate(self: BlockOps) -> Iterator[Operation]:
    """Yields the operations of a block. The one that is yielded may be erased or moved."""
    return _follow(self.block.first_op)


def _follow(op: Operation | None) -> Iterator[Operation]:
    while op is not None:
        after = op._next_op
        yield op
        op = after


def walk(
    self: Operation, *, reverse: bool = False, region_first: bool = False
) -> Iterator[Operation]:
    """Yields an operation and all operations in it, in the order that xDSL's `walk` has."""
    if reverse or region_first:
        return _walk(self, reverse=reverse, region_first=region_first)
    return _walk_forward(self)


def _walk_forward(op: Operation) -> Iterator[Operation]:
    yield op
    waiting = [_contents(op)] if op.regions else []
    while waiting:
        for child in waiting[-1]:
            yield child
            if child.regions:
                waiting.append(_contents(child))
                break
        else:
            waiting.pop()


def _contents(op: Operation) -> Iterator[Operation]:
    for region in op.regions:
        for block in region.blocks:
            yield from _follow(block.first_op)


def install() -> None:
    """Replaces the methods of xDSL's classes."""
    for cls in (SSAValue, BlockArgument, Operation, IRDLOperation, Block, Region):
        for method in ("__eq__", "__hash__"):
            setattr(cls, method, getattr(object, method))
    setattr(Attribute, "__post_init__", check_attribute)
    setattr(DenseArrayBase, "get_values", get_values)
    setattr(operations, "get_op_constructs", get_constructs)
    setattr(SSAValues, "__getitem__", get_item)
    setattr(BlockOps, "__iter__", iterate)
    setattr(Operation, "walk", walk)
    setattr(ir, "_unknown_loc", lambda: UNKNOWN_LOC)
