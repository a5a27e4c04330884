"""
Loops of the host function written out: a program is a list of dispatches, with no loop in it.

    scf.for %i = 0 to 3 iter_args(%s = %a) {      %1 = f(%a, 0)
      %n = f(%s, %i)                         ->   %2 = f(%1, 1)
      scf.yield %n                                %3 = f(%2, 2)
    }

What does not depend on the iteration is moved before the loop first, so that it is done once. An
`scf.if` on a constant becomes the side that it takes. A loop whose bounds are not constants, or
that would become more operations than the limit, stays; whoever cannot execute it says so.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter


@dataclass(frozen=True)
class UnrollHostLoopsPass(ModulePass):
    """Writes out the loops of host functions whose bounds are constants."""

    name = "unroll-host-loops"

    limit: int = 20_000
    """Operations that one loop may become."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.ops:
            if isinstance(function, FuncOp) and function.body.blocks:
                self._block(function.body.block)

    def _block(self, block: Block) -> None:
        """Inner loops before the loops around them."""
        for op in list(block.ops):
            if isinstance(op, scf.ForOp):
                self._block(op.body.block)
                hoist(op)
                unroll(op, self.limit)
            elif isinstance(op, scf.IfOp):
                for region in op.regions:
                    for inner in region.blocks:
                        self._block(inner)
                choose(op)


def known(value: SSAValue) -> int | None:
    """The number that a scalar is, if it is a constant."""
    owner = value.owner
    if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr):
        return owner.value.value.data
    return None


def hoist(loop: scf.ForOp) -> None:
    """Move what no iteration changes before the loop."""
    for op in list(loop.body.block.ops):
        pure = op.name.startswith(("arith.", "tensor.", "math.")) or (
            isinstance(op, LinalgStructuredOperation) and bool(op.results)
        )
        if pure and not any(_inside(value, loop) for each in op.walk() for value in each.operands):
            op.detach()
            Rewriter.insert_op(op, InsertPoint.before(loop))


def _inside(value: SSAValue, loop: scf.ForOp) -> bool:
    """Whether a value belongs to the loop's own block; what an operation has inside it does not."""
    owner = value.owner
    block = owner if isinstance(owner, Block) else owner.parent_block()
    return block is loop.body.block


def unroll(loop: scf.ForOp, limit: int) -> None:
    """Replace a loop of known bounds by its iterations."""
    bounds = [known(value) for value in (loop.lb, loop.ub, loop.step)]
    block = loop.body.block
    low, high, step = bounds
    if low is None or high is None or not step:
        return
    counters = range(low, high, step)
    if len(counters) * sum(1 for _ in block.walk()) > limit:
        return
    carried: list[SSAValue] = list(loop.iter_args)
    for counter in counters:
        index = arith.ConstantOp(IntegerAttr(counter, loop.lb.type))  # pyright: ignore
        Rewriter.insert_op(index, InsertPoint.before(loop))
        mapping: dict[SSAValue, SSAValue] = {}
        mapping.update(zip(block.args, (index.result, *carried), strict=True))
        carried = _copy(block, mapping, loop)
    for result, value in zip(loop.results, carried, strict=True):
        result.replace_all_uses_with(value)
    Rewriter.erase_op(loop)


def _copy(block: Block, mapping: dict[SSAValue, SSAValue], before: Operation) -> list[SSAValue]:
    """Copy a block's operations; the copies of what it yields."""
    for op in block.ops:
        if isinstance(op, scf.YieldOp):
            return [mapping.get(value, value) for value in op.operands]
        Rewriter.insert_op(op.clone(mapping), InsertPoint.before(before))
    return []


def choose(branch: scf.IfOp) -> None:
    """Replace a branch on a constant by its side."""
    condition = known(branch.cond)
    if condition is None:
        return
    region = branch.true_region if condition else branch.false_region
    yielded = _copy(region.block, {}, branch) if region.blocks else []
    for result, value in zip(branch.results, yielded, strict=True):
        result.replace_all_uses_with(value)
    Rewriter.erase_op(branch)
