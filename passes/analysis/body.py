"""
What the body of a contraction says: accumulator + one factor of each input.

A factor is whatever is computed from its input before the multiplication. One that only extends
the input to the result's type belongs to the contraction; any other one (a cast that is not an
extension, a zero point, a scale) is elementwise and can be computed before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, linalg, math
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue


class NotAContraction(ValueError):
    """Why an operation is not a contraction that the lowering takes."""


@dataclass(frozen=True)
class Factor:
    """
    A factor of the product, `value`, made of the block's arguments `inputs`.

    `source` is `value` without the extensions around it, which take it as `signed` or not.
    """

    value: SSAValue
    source: SSAValue
    signed: bool
    inputs: frozenset[int]

    @property
    def is_pure(self) -> bool:
        """Whether it is an input, at most extended."""
        return isinstance(self.source, BlockArgument)


def factors_of(block: Block) -> tuple[Factor, Factor]:
    """
    The two factors of `accumulator + x * y`, the operands of both in any order, or of an fma.

    Raises `NotAContraction` if the body is anything else, or if a factor needs the accumulator or
    the position.
    """
    last = block.last_op
    if not isinstance(last, linalg.ops.YieldOp) or len(last.operands) != 1:
        raise NotAContraction("the body does not yield one value")
    x, y = _product(last.operands[0], block.args[-1])
    first, second = (_factor(value, block) for value in (x, y))
    return first, second


def _product(total: SSAValue, accumulator: SSAValue) -> tuple[SSAValue, SSAValue]:
    match total.owner:
        case math.FmaOp() as fma if fma.c is accumulator:
            return fma.a, fma.b
        case arith.AddfOp() | arith.AddiOp() as add if accumulator in add.operands:
            lhs, rhs = add.operands
            product = (rhs if lhs is accumulator else lhs).owner
            if isinstance(product, arith.MulfOp | arith.MuliOp):
                return product.lhs, product.rhs
        case _:
            pass
    raise NotAContraction("the body is not a product that is added to the output")


def _factor(value: SSAValue, block: Block) -> Factor:
    source, signed = without_extensions(value)
    return Factor(value, source, signed, frozenset(inputs_of(value, block)))


def without_extensions(value: SSAValue) -> tuple[SSAValue, bool]:
    """The value under extensions that are one extension, and whether it is taken as signed."""
    kind: type[Operation] | None = None
    while isinstance(value, OpResult):
        op = value.op
        match op:
            case arith.ExtFOp():
                kind = arith.ExtFOp
            # A number that was extended without its sign has none to extend.
            case arith.ExtUIOp() if kind in (None, arith.ExtSIOp, arith.ExtUIOp):
                kind = arith.ExtUIOp
            case arith.ExtSIOp() if kind in (None, arith.ExtSIOp):
                kind = arith.ExtSIOp
            case _:
                break
        value = op.operands[0]
    return value, kind is not arith.ExtUIOp


def inputs_of(value: SSAValue, block: Block) -> set[int]:
    """
    The arguments of the block that the value is computed from.

    Raises `NotAContraction` if the accumulator or the position is among what it is computed from.
    """
    if isinstance(value, BlockArgument):
        if value.owner is not block:
            return set()
        if value.index == len(block.args) - 1:
            raise NotAContraction("a factor is computed from the output")
        return {value.index}
    owner = value.owner
    if not isinstance(owner, Operation) or owner.parent is not block:
        return set()
    if isinstance(owner, linalg.ops.IndexOp) or owner.regions:
        raise NotAContraction(f"a factor is computed by {owner.name}")
    return set[int]().union(*(inputs_of(operand, block) for operand in owner.operands))


def clone_into(block: Block, value: SSAValue, known: dict[SSAValue, SSAValue]) -> SSAValue:
    """
    The value computed again at the end of `block`; `known` says what stands for what.

    Values from outside the body that it comes from stay as they are.
    """
    if value in known:
        return known[value]
    if not isinstance(value, OpResult) or not _is_inside(value.op, known):
        return value
    operands = [clone_into(block, operand, known) for operand in value.op.operands]
    clone = value.op.clone(dict(zip(value.op.operands, operands, strict=True)))
    block.add_op(clone)
    known.update(zip(value.op.results, clone.results, strict=True))
    return known[value]


def _is_inside(op: Operation, known: dict[SSAValue, SSAValue]) -> bool:
    """Whether the operation is in the body whose arguments are among the known values."""
    return any(isinstance(value, BlockArgument) and value.owner is op.parent for value in known)


def arguments_for(block: Block, new: Block, inputs: Sequence[int]) -> dict[SSAValue, SSAValue]:
    """`known` for `clone_into`: those arguments are the first ones of the new block."""
    return {block.args[number]: new.args[at] for at, number in enumerate(inputs)}
