"""
Small dispatches that do not need each other become one: launching them costs more than they do.

    %q = schedule.dispatch(%x) { turned }             %q, %k1 = schedule.dispatch(%x, %k) {
    %k1 = schedule.dispatch(%x, %k) { inserted }  ->    turned
                                                        inserted }

A kernel's loops store results of any shapes one after another, without waiting. So what a token's
queries, keys and values need between two products is one launch. Reductions stay apart, for they
choose how invocations share a row; so does what is large enough to keep a device busy by itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import DenseArrayBase, ModuleOp, i64
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.tensor import PadOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from xdsl_spirv.dialects.program import functions_of
from xdsl_spirv.dialects.schedule import SCHEDULE, UPDATES, DispatchOp, YieldOp
from xdsl_spirv.dialects.schedule.symbolic_sizes import typical
from xdsl_spirv.passes.analysis.contraction import NotAContraction, contraction_of
from xdsl_spirv.passes.analysis.values import operands_of
from xdsl_spirv.passes.graph.own_results import VIEWS, source

PASS = "join-dispatches"

SMALL = 1 << 14
"""Elements of a dispatch that does less than its launch costs."""

MOST_RESULTS = 4
"""Buffers that a joined kernel writes, beside those that it reads."""


@dataclass(frozen=True)
class JoinDispatchesPass(ModulePass):
    """Joins small dispatches without reductions that are independent of each other."""

    name = PASS

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions_of(op):
            _join_all(function.body.block)


def _join_all(block: Block) -> None:
    dispatches = [op for op in block.ops if isinstance(op, DispatchOp)]
    small = deque(op for op in dispatches if len(dispatches) > 1 and _is_small(op))
    left = set(small)
    while small:
        first = small.popleft()
        left.remove(first)
        second = next((op for op in _siblings(first) if op in left and _fit(first, op)), None)
        if second is not None:
            left.remove(second)
            joined = _joined(first, second)
            left.add(joined)
            small[small.index(second)] = joined


def _is_small(dispatch: DispatchOp) -> bool:
    """Whether a dispatch computes few elements, each by itself."""
    if any(SCHEDULE in op.attributes or isinstance(op, PadOp) for op in dispatch.walk()):
        # What is padded is read through where it stands alone.
        return False
    if any(map(_is_contraction, dispatch.body.block.ops)):
        # Of a single product, too, which the loops below do not count as a reduction.
        return False
    from xdsl_spirv.passes.analysis.loops_arrays import NotLoops
    from xdsl_spirv.passes.analysis.loops_nests import all_reductions_of, nests_of
    from xdsl_spirv.passes.analysis.loops_reader import results_of_dispatch

    try:
        nests = nests_of(results_of_dispatch(dispatch)[1])
    except NotLoops:
        return False
    if any(all_reductions_of(nest) for nest in nests):
        return False
    return sum(typical(prod(nest.shape)) for nest in nests) <= SMALL


def _is_contraction(op: Operation) -> bool:
    """Whether an operation of a dispatch can have a contraction's schedule."""
    if not isinstance(op, LinalgStructuredOperation):
        return False
    try:
        contraction_of(op)
    except NotAContraction:
        return False
    return True


FAR = 128
"""Dispatches that are looked at behind one: all of a long chain's would be, for each of it."""


def _siblings(first: DispatchOp) -> Iterator[DispatchOp]:
    """The dispatches behind one that do not need it, as far as it can move, with what needs it."""
    needing: set[SSAValue] = set(first.results)
    read = {source(value) for value in first.inputs}
    op, seen = first.next_op, 0
    while op is not None and seen < FAR:
        seen += isinstance(op, DispatchOp)
        if not needing.isdisjoint(_reads(op)):
            if not isinstance(op, (DispatchOp, *VIEWS)):
                return
            needing.update(op.results)
            read.update(map(source, op.operands))
        elif isinstance(op, DispatchOp):
            if any(source(op.inputs[operand]) in read for operand in op.updates.values()):
                # It writes what those read that would come behind it.
                return
            yield op
        op = op.next_op


def _reads(op: Operation) -> Sequence[SSAValue]:
    """The values that an operation reads; a dispatch reads nothing but its operands."""
    return op.operands if isinstance(op, DispatchOp) else operands_of(op)


def _fit(first: DispatchOp, second: DispatchOp) -> bool:
    """Whether a kernel binds what both read and write."""
    from xdsl_spirv.passes.graph.loops_fusion import MOST_INPUTS

    inputs = {source(value) for value in (*first.inputs, *second.inputs)}
    return len(inputs) <= MOST_INPUTS and len((*first.results, *second.results)) <= MOST_RESULTS


def _joined(first: DispatchOp, second: DispatchOp) -> DispatchOp:
    """One dispatch of both, where the second one stood."""
    inputs = list(dict.fromkeys((*first.inputs, *second.inputs)))
    block = Block(arg_types=[value.type for value in inputs])
    arguments = dict(zip(inputs, block.args, strict=True))
    for value, argument in arguments.items():
        argument.name_hint = value.name_hint
    yielded: list[SSAValue] = []
    updates: list[int] = []
    for dispatch in (first, second):
        body = dispatch.body.block
        inside: dict[SSAValue, SSAValue] = {
            argument: arguments[value]
            for argument, value in zip(body.args, dispatch.inputs, strict=True)
        }
        for op in body.ops:
            if not isinstance(op, YieldOp):
                block.add_op(op.clone(inside))
        yielded += [inside[value] for value in dispatch.yielded]
        for number in range(len(dispatch.results)):
            operand = dispatch.updates.get(number)
            updates.append(-1 if operand is None else inputs.index(dispatch.inputs[operand]))
    block.add_op(YieldOp(*yielded))
    results = [*first.results, *second.results]
    joined = DispatchOp(inputs, [value.type for value in results], Region(block))
    joined.location = first.location
    if any(number >= 0 for number in updates):
        joined.attributes[UPDATES] = DenseArrayBase.from_list(i64, updates)
    _replace(first, second, joined, results)
    return joined


def _replace(
    first: DispatchOp, second: DispatchOp, joined: DispatchOp, results: Sequence[SSAValue]
) -> None:
    """Puts the joined dispatch where the second one is, and behind it what needs the first."""
    block = second.parent_block()
    assert block is not None
    moved: list[Operation] = []
    needing: set[SSAValue] = set(first.results)
    op = first.next_op
    while op is not None and op is not second:
        if not needing.isdisjoint(_reads(op)):
            needing.update(op.results)
            moved.append(op)
        op = op.next_op
    block.insert_op_after(joined, second)
    for old, new in zip(results, joined.results, strict=True):
        old.replace_all_uses_with(new)
    for op in moved:
        op.detach()
    block.insert_ops_after(moved, joined)
    for dispatch in (first, second):
        block.erase_op(dispatch)
