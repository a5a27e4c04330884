"""
Unrolls loops of the host function, because a program is a list of dispatches.

    scf.for %i = 0 to 3 iter_args(%s = %a) {      %1 = f(%a, 0)
      %n = f(%s, %i)                         ->   %2 = f(%1, 1)
      scf.yield %n                                %3 = f(%2, 2)
    }

Hoists loop-invariant operations first. An `scf.if` on a constant becomes the branch that is taken.
Any other `scf.if` becomes both branches and a select for each result, so that the host never waits
for a condition from the device; branches have no side effects. `outline_loops` turns the body of a
longer loop of tensors, or of one with a dynamic number of steps, into a function. A loop that
would exceed the limit is not unrolled; a later pass refuses it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from xdsl.context import Context
from xdsl.dialects import arith, scf, tensor
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, TensorType
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.transforms.scf_for_loop_unroll import UnrollLoopPattern

from xdsl_spirv.dialects.host_loops import hoist, number_of
from xdsl_spirv.dialects.program import functions_of
from xdsl_spirv.passes.analysis.linalg_code import Code, tensor_type
from xdsl_spirv.upstream.forall import ForallOp, InParallelOp


@dataclass(frozen=True)
class UnrollHostLoopsPass(ModulePass):
    """Unrolls short loops of host functions, and turns the bodies of other loops into functions."""

    name = "unroll-host-loops"

    limit: int = 20_000
    """Maximum number of operations of an unrolled loop."""

    longest: int = 4
    """Maximum number of steps of an unrolled loop that carries tensors."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in list(functions_of(op)):
            self._loops(function.body.block, False)
            _branches(function.body.block)
            if any(isinstance(inner, scf.ForOp) for inner in function.body.block.ops):
                from xdsl_spirv.passes.graph.outline_loops import outline_loops

                outline_loops(op, function)

    def _loops(self, block: Block, nested: bool) -> None:
        """Unrolls loops, the innermost first. Loops inside other loops are always unrolled."""
        for op in list(block.ops):
            if isinstance(op, scf.ForOp | scf.IfOp | ForallOp):
                for inner in _blocks(op):
                    self._loops(inner, True)
            if isinstance(op, scf.ForOp):
                hoist(op)
                if nested or not self._is_kept(op):
                    unroll(op, self.limit)
            if isinstance(op, ForallOp):
                unroll_forall(op, self.limit)

    def _is_kept(self, loop: scf.ForOp) -> bool:
        """True if a loop's body becomes a function and the loop is not unrolled."""
        bounds = [number_of(value) for value in (loop.lb, loop.ub, loop.step)]
        low, high, step = bounds
        if low is not None and high is not None and step and high - low <= self.longest * step:
            return False
        from xdsl_spirv.passes.graph.outline_loops import is_step

        return is_step(loop)


def _branches(block: Block) -> None:
    """Replaces branches whose conditions are constant after unrolling, the innermost first."""
    for op in list(block.ops):
        if isinstance(op, scf.ForOp | scf.IfOp):
            for inner in _blocks(op):
                _branches(inner)
        if isinstance(op, scf.IfOp):
            choose(op)


def _blocks(op: Operation) -> list[Block]:
    return [block for region in op.regions for block in region.blocks]


def unroll(loop: scf.ForOp, limit: int) -> None:
    """Unrolls a loop of constant bounds, if that gives at most `limit` operations."""
    bounds = [number_of(value) for value in (loop.lb, loop.ub, loop.step)]
    block = loop.body.block
    low, high, step = bounds
    if low is None or high is None or not step:
        return
    if len(range(low, high, step)) * sum(1 for _ in block.walk()) <= limit:
        block.args[0].name_hint = None  # so that the steps' constants have no names
        UnrollLoopPattern().match_and_rewrite(loop, PatternRewriter(loop))


def unroll_forall(loop: ForallOp, limit: int) -> None:
    """
    Replaces a parallel loop of constant bounds by its iterations, if `limit` allows that.

    Each iteration reads the shared tensors as they were before the loop, and inserts its tiles
    into the result of the previous iteration.
    """
    numbers = [[n if isinstance(n, int) else number_of(n) for n in b] for b in loop.bounds()]
    if any(None in bound for bound in numbers) or 0 in numbers[2]:
        return
    counters = list(product(*(range(*bound) for bound in zip(*numbers, strict=True))))  # pyright: ignore
    block = loop.body.block
    if len(counters) * sum(1 for _ in block.walk()) > limit:
        return
    indices, shared = block.args[: loop.rank], block.args[loop.rank :]
    before = InsertPoint.before(loop)
    current: dict[SSAValue, SSAValue] = dict(zip(shared, loop.outputs, strict=True))
    for counter in counters:
        mapping: dict[SSAValue, SSAValue] = dict(zip(shared, loop.outputs, strict=True))
        for index, number in zip(indices, counter, strict=True):
            constant = arith.ConstantOp(IntegerAttr.from_index_int_value(number))
            Rewriter.insert_op(constant, before)
            mapping[index] = constant.result
        for op in block.ops:
            if not isinstance(op, InParallelOp):
                Rewriter.insert_op(op.clone(mapping), before)
        for store in loop.stores():
            operands = [mapping.get(value, value) for value in store.operands]
            operands[1] = current[store.dest]
            stored = tensor.InsertSliceOp.create(
                operands=operands, result_types=[store.dest.type], properties=store.properties
            )
            stored.location = store.location
            Rewriter.insert_op(stored, before)
            current[store.dest] = stored.result
    for result, value in zip(loop.results, current.values(), strict=True):
        result.replace_all_uses_with(value)
    Rewriter.erase_op(loop)


def _copy(block: Block, mapping: dict[SSAValue, SSAValue], before: Operation) -> list[SSAValue]:
    for op in block.ops:
        if isinstance(op, scf.YieldOp):
            return [mapping.get(value, value) for value in op.operands]
        Rewriter.insert_op(op.clone(mapping), InsertPoint.before(before))
    return []


def choose(branch: scf.IfOp) -> None:
    """Replaces a branch on a constant by the operations of the taken side."""
    condition = number_of(branch.cond)
    if condition is None:
        _choose_results(branch)
        return
    region = branch.true_region if condition else branch.false_region
    yielded = _copy(region.block, {}, branch) if region.blocks else []
    for result, value in zip(branch.results, yielded, strict=True):
        result.replace_all_uses_with(value)
    Rewriter.erase_op(branch)


def _is_pure(op: Operation) -> bool:
    """True if an operation may be computed even if its result is unused."""
    if isinstance(op, LinalgStructuredOperation):
        return bool(op.results)
    return op.name.startswith(("arith.", "tensor.", "math.")) or isinstance(op, scf.YieldOp)


def _choose_results(branch: scf.IfOp) -> None:
    """Replaces a branch by both of its sides and a select for each result."""
    sides = (branch.true_region, branch.false_region)
    if not branch.results or not all(_is_pure(op) for side in sides for op in side.block.ops):
        return
    then, other = (_copy(side.block, {}, branch) for side in sides)
    for result, a, b in zip(branch.results, then, other, strict=True):
        if isinstance(a.type, TensorType):
            choice = _choice(branch, a, b)
        else:
            choice = Code(branch).insert(arith.SelectOp(branch.cond, a, b))
        result.replace_all_uses_with(choice)
    Rewriter.erase_op(branch)


def _choice(branch: scf.IfOp, then: SSAValue, other: SSAValue) -> SSAValue:
    code, rank = Code(branch), tensor_type(then).get_num_dims()
    maps = AffineMap(rank, 0, ()), *[AffineMap.identity(rank)] * 3
    inputs = [branch.cond, then, other]
    return code.generic(
        inputs, code.empty_like(then), maps, lambda b, v: b.insert(arith.SelectOp(*v[:3]))
    )
