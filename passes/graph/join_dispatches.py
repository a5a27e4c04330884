"""
Joins independent dispatches into one if launching them costs more than running them.

    %q = schedule.dispatch(%x) { transpose }          %q, %k1 = schedule.dispatch(%x, %k) {
    %k1 = schedule.dispatch(%x, %k) { insert }    ->    transpose
                                                        insert }

The joined kernel runs the loops one after another without a barrier. Its results may differ in
shape. Reductions are joined only if they are small and reduce rows of one length, because
invocations then share rows in the same way. A reduction that a product reads is not joined,
because it may be fused into the product. Dispatches that keep the device busy are joined only if
they read parts of one result.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.tensor import InsertSliceOp, PadOp
from xdsl.ir import Block, Operation, SSAValue

from xdsl_spirv.dialects.program import functions_of
from xdsl_spirv.dialects.schedule import SCHEDULE, DispatchOp, YieldOp
from xdsl_spirv.dialects.schedule.symbolic_sizes import is_dynamic, typical
from xdsl_spirv.passes.analysis.contraction import as_contraction
from xdsl_spirv.passes.analysis.sizes import is_size_op
from xdsl_spirv.passes.analysis.target import TargetPass
from xdsl_spirv.passes.analysis.values import erase_unused_ops, operands_of
from xdsl_spirv.passes.graph.fuse_dispatches import fuse, stored_results
from xdsl_spirv.passes.graph.own_results import VIEWS, source

if TYPE_CHECKING:
    from xdsl_spirv.passes.analysis.loops_arrays import Loops
    from xdsl_spirv.passes.analysis.loops_nests import Nest

PASS = "join-dispatches"

SMALL = 1 << 14
"""Maximum number of elements for which running a dispatch is faster than launching it."""

OF_ONE_RESULT = 1 << 22
"""Maximum number of elements of two joined dispatches that read parts of one result."""

FEW = 1 << 17
"""Maximum number of elements of two joined dispatches whose vector widths differ."""

MOST_RESULTS = 4
"""Maximum number of buffers that a joined kernel writes."""


@dataclass(frozen=True)
class JoinDispatchesPass(TargetPass):
    """Joins small dispatches that are independent of each other."""

    name = PASS

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = self.find_target(op)
        # In a kernel with rows of several results, a workgroup may get no row. Some devices do not
        # allow that.
        reduces = target is None or target.idle_subgroups
        for function in functions_of(op):
            _join_all(function.body.block, reduces)


def _join_all(block: Block, reduces: bool) -> None:
    dispatches = [op for op in block.ops if isinstance(op, DispatchOp)]
    works = {op: _Work.of(op, reduces) for op in dispatches} if len(dispatches) > 1 else {}
    left = {op: work for op, work in works.items() if work is not None}
    waiting = deque(left)
    while waiting:
        first = waiting.popleft()
        work = left.pop(first)
        fitting = (
            op
            for op in _siblings(first)
            if op in left and _is_worthwhile(first, op, work, left[op]) and _fit(first, op)
        )
        second = next(fitting, None)
        if second is not None:
            work = work.beside(left.pop(second))
            joined = fuse(first, second)
            _replace(first, second, joined)
            left[joined] = work
            waiting[waiting.index(second)] = joined


def _is_worthwhile(first: DispatchOp, second: DispatchOp, one: _Work, other: _Work) -> bool:
    """
    True if joining two dispatches saves time: both are small, or they read parts of one result and
    are not large.
    """
    if max(one.elements, other.elements) <= SMALL:
        return len({one.row, other.row} - {0}) < 2
    most = OF_ONE_RESULT if one.run == other.run else FEW
    if one.row or other.row or one.elements + other.elements > most:
        return False
    read = {source(value) for value in first.inputs} & {source(value) for value in second.inputs}
    return any(isinstance(value.owner, DispatchOp) for value in read)


@dataclass(frozen=True)
class _Work:
    """
    Work of a dispatch: elements, length of contiguous runs, length of reduced rows (0 for none).
    """

    elements: int
    run: int
    row: int = 0

    @staticmethod
    def of(dispatch: DispatchOp, reduces: bool) -> _Work | None:
        """
        Returns the work of a dispatch. Returns None if the dispatch cannot be joined, or is too
        large to be joined.
        """
        if any(SCHEDULE in op.attributes or isinstance(op, PadOp) for op in dispatch.walk()):
            # A kernel reads through a padding only if nothing is joined to it.
            return None
        if any(map(as_contraction, dispatch.body.block.ops)):
            # This also excludes a single product, which is not counted as a reduction below.
            return None
        from xdsl_spirv.passes.analysis.loops_access import crossing, is_run
        from xdsl_spirv.passes.analysis.loops_arrays import NotLoops
        from xdsl_spirv.passes.analysis.loops_nests import all_reductions_of, nests_of
        from xdsl_spirv.passes.analysis.loops_reader import results_of_dispatch

        try:
            nests = nests_of(results_of_dispatch(dispatch)[1])
        except NotLoops:
            return None
        reductions = [found for nest in nests for found in all_reductions_of(nest)]
        if reductions:
            return _Work._of_reductions(dispatch, nests, reductions) if reduces else None
        elements = sum(typical(prod(nest.shape)) for nest in nests)
        if elements > OF_ONE_RESULT or (elements > SMALL and any(map(crossing, nests))):
            # A large transposition goes through Workgroup memory, in a separate kernel.
            return None
        runs = (n for n in (8, 4, 2) if all(nest.shape and is_run(nest.shape, n) for nest in nests))
        return _Work(elements, next(runs, 1))

    @staticmethod
    def _of_reductions(
        dispatch: DispatchOp,
        nests: Sequence[Nest],
        reductions: Sequence[tuple[Loops, frozenset[int]]],
    ) -> _Work | None:
        """
        Returns the work of a dispatch whose reductions are small and run along rows of one static
        length. Returns None for others.
        """
        from xdsl_spirv.passes.analysis.loops_nests import INNER

        lengths = {prod(loops.reduced) for loops, _ in reductions}
        (row,) = lengths if len(lengths) == 1 else (0,)
        elements = sum(typical(prod(nest.shape)) for nest in nests)
        elements = max(elements, *(typical(prod(loops.sizes)) for loops, _ in reductions))
        if is_dynamic(row) or row < 2 or elements > SMALL:
            return None
        if any(INNER in rows for _, rows in reductions) or _is_of_product(dispatch):
            return None
        return _Work(elements, 1, row)

    def beside(self, other: _Work) -> _Work:
        row = max(self.row, other.row)
        return _Work(self.elements + other.elements, min(self.run, other.run), row)


def _is_of_product(dispatch: DispatchOp) -> bool:
    """True if a matrix product reads a result of the dispatch."""
    users = (use.operation for result in dispatch.results for use in result.uses)
    return any(
        isinstance(user, DispatchOp) and any(map(as_contraction, user.body.block.ops))
        for user in users
    )


FAR = 128
"""Number of following dispatches that are tried as partners. Without a limit, time is quadratic."""


def _siblings(first: DispatchOp) -> Iterator[DispatchOp]:
    """
    Yields later dispatches that may be joined with `first`, in order.

    They do not depend on `first`, or only insert its results into tensors. The search ends at the
    first operation behind which `first` and its users cannot be moved.
    """
    needing: set[SSAValue] = set(first.results)
    read = {source(value) for value in first.inputs}
    op, seen = first.next_op, 0
    while op is not None and seen < FAR:
        seen += isinstance(op, DispatchOp)
        needed = needing.intersection(_reads(op))
        if needed and not (_only_inserts(op) and all(source(v).owner is first for v in needed)):
            if not isinstance(op, (DispatchOp, *VIEWS)):
                return
            needing.update(op.results)
            read.update(map(source, op.operands))
        elif isinstance(op, DispatchOp):
            if any(source(op.inputs[operand]) in read for operand in op.updates.values()):
                # Joining would move readers behind this dispatch, which overwrites what they read.
                return
            yield op
        op = op.next_op


def _only_inserts(op: Operation) -> bool:
    """True if an operation is a dispatch that only moves elements into other tensors."""
    moves = InsertSliceOp, YieldOp, *VIEWS
    return isinstance(op, DispatchOp) and all(
        isinstance(inner, moves) or is_size_op(inner) for inner in op.body.block.ops
    )


def _reads(op: Operation) -> Sequence[SSAValue]:
    return op.operands if isinstance(op, DispatchOp) else operands_of(op)


def _fit(first: DispatchOp, second: DispatchOp) -> bool:
    from xdsl_spirv.passes.graph.loops_fusion import MOST_INPUTS, MOST_NUMBERS, count_numbers

    inputs = {source(value) for value in (*first.inputs, *second.inputs)}
    buffers = sum(isinstance(value.type, TensorType) for value in inputs)
    if buffers > MOST_INPUTS or count_numbers(inputs) > MOST_NUMBERS:
        return False
    return len((*first.results, *second.results)) <= MOST_RESULTS


def _replace(first: DispatchOp, second: DispatchOp, joined: DispatchOp) -> None:
    """Replaces both dispatches by the joined one, and moves users of `first` after it."""
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
    results = [*stored_results(first, second), *second.results]
    for old, new in zip(results, joined.results, strict=True):
        old.replace_all_uses_with(new)
    for op in moved:
        op.detach()
    block.insert_ops_after(moved, joined)
    block.erase_op(second)
    erase_unused_ops(block, lambda op: isinstance(op, VIEWS))
    block.erase_op(first)
