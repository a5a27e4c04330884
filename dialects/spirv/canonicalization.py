"""
Canonicalization patterns, which stock `canonicalize` runs.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern
from xdsl.rewriter import InsertPoint
from xdsl.traits import Commutative, ConstantLike

from xdsl_spirv.upstream.kept_bodies import KeptBody


class ConstantToTheRight(RewritePattern):
    """
    Puts the constant operand of a commutative operation behind the other one.

        spirv.IAdd %c, %x  ->  spirv.IAdd %x, %c
    """

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        parent = op.parent_op()
        if not op.has_trait(Commutative) or (parent is not None and parent.has_trait(KeptBody)):
            return
        left, right = op.operands
        if _is_constant(left) and not _is_constant(right):
            op.operands = [right, left]
            rewriter.notify_op_modified(op)


def _is_constant(value: SSAValue) -> bool:
    return isinstance(value.owner, Operation) and value.owner.has_trait(ConstantLike)


class ChainOfChains(RewritePattern):
    """
    Joins an access chain with the one that its base comes from.

        spirv.AccessChain %p[%i]; spirv.AccessChain %0[%j]  ->  spirv.AccessChain %p[%i, %j]
    """

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        from xdsl_spirv.dialects.spirv.memory import AccessChain, AccessChainOp

        assert isinstance(op, AccessChain)
        inner = op.base.owner
        if not isinstance(inner, AccessChain) or op.attributes or inner.attributes:
            return
        joined = type(op) if type(op) is type(inner) else AccessChainOp
        chain = joined.build(
            operands=[inner.base, [*inner.indexes, *op.indexes]], result_types=[op.result.type]
        )
        rewriter.replace(op, chain)


class SelectionOfConstant(RewritePattern):
    """
    Replaces a selection with a constant condition by the side that it takes.

    That side has to lead to the merge block without another condition, and nothing in it may leave
    constructs, since `spirv.mlir.break` counts those around it.
    """

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        from xdsl_spirv.dialects.spirv.control_flow import MergeOp, SelectionOp

        assert isinstance(op, SelectionOp)
        path = _taken_path(op.body.blocks)
        if path is None or any(_leaves_constructs(block) for block, _ in path):
            return
        merge = path[-1][0].last_op
        assert isinstance(merge, MergeOp)
        for block, passed in path:
            for argument, value in zip(block.args, passed, strict=True):
                argument.replace_all_uses_with(value)
            for inner in list(block.ops):
                if inner is not block.last_op:
                    inner.detach()
                    rewriter.insert(inner, InsertPoint.before(op))
        rewriter.replace(op, [], list(merge.arguments))


def _taken_path(
    blocks: Sequence[Block],
) -> Sequence[tuple[Block, Sequence[SSAValue]]] | None:
    """The blocks from the header to the merge block, with what is passed to each."""
    from xdsl_spirv.dialects.spirv.branches import BranchOp

    block, passed = blocks[0], ()
    path: list[tuple[Block, Sequence[SSAValue]]] = [(block, passed)]
    following = _decided(block.last_op)
    while following is not None:
        block, passed = following
        path.append((block, passed))
        if block is blocks[-1]:
            return path
        end = block.last_op
        if not isinstance(end, BranchOp) or len(path) > len(blocks):
            return None
        following = end.target, end.target_operands
    return None


def _decided(end: Operation | None) -> tuple[Block, Sequence[SSAValue]] | None:
    """The target of a conditional branch or switch on a constant."""
    from xdsl_spirv.dialects.spirv.branches import BranchConditionalOp, SwitchOp
    from xdsl_spirv.dialects.spirv.folding import components_of, unsigned

    if not isinstance(end, BranchConditionalOp | SwitchOp):
        return None
    numbers = components_of(ConstantLike.get_constant_value(end.operands[0]))
    if numbers is None:
        return None
    if isinstance(end, BranchConditionalOp):
        if unsigned(numbers[0]):
            return end.true_target, end.true_operands
        return end.false_target, end.false_operands
    cases = zip(end.case_literals, end.targets, end.case_operands, strict=True)
    for literal, target, operands in cases:
        if unsigned(IntegerAttr(literal, numbers[0].type)) == unsigned(numbers[0]):
            return target, operands
    return end.default_target, end.default_operands


def _leaves_constructs(block: Block) -> bool:
    from xdsl_spirv.dialects.spirv.exits import ExitOp

    return any(isinstance(inner, ExitOp) for op in block.ops for inner in op.walk())
