"""
Groups operations of a block that become one `schedule.dispatch`.

A group is convex: no operation outside depends on the group while the group depends on that
operation. A group becomes a dispatch as soon as it is complete, so that two dispatches cannot
depend on each other. Operations without cost (constants, fills, paddings with zeros) are copied
into each dispatch that reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import prod

from xdsl.dialects import arith, linalg, tensor
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, MemRefType, TensorType
from xdsl.ir import Block, Operation, Region, SSAValue

from xdsl_spirv.dialects.schedule import DispatchOp, YieldOp
from xdsl_spirv.dialects.schedule.symbolic_sizes import typical
from xdsl_spirv.passes.analysis.pointwise import is_plain
from xdsl_spirv.passes.analysis.sizes import extents, is_size, localize_sizes
from xdsl_spirv.passes.analysis.values import erase_unused, operands_of


def users_of(value: SSAValue, block: Block) -> set[Operation]:
    """Returns the operations of a block that use a value, directly or in their regions."""
    users: set[Operation] = set()
    for use in value.uses:
        op = block.find_ancestor_op_in_block(use.operation)
        if op is not None:
            users.add(op)
    return users


def is_cheap(value: SSAValue) -> bool:
    """True if each dispatch recomputes the value: a constant, a splat, an empty tensor, a size."""
    match value.owner:
        case arith.ConstantOp(value=DenseIntOrFPElementsAttr() as dense):
            return dense.is_splat()
        case arith.ConstantOp():
            return not isinstance(value.type, TensorType)
        case tensor.EmptyOp() as op:
            return is_plain(value.type) and all(map(is_size, op.operands))
        case tensor.SplatOp() as op:
            return len(op.operands) == 1 and is_cheap(op.operands[0])
        case linalg.ops.FillOp() as op:
            return all(map(is_cheap, op.operands))
        case _:
            return is_size(value)


def typical_size(value: SSAValue) -> int:
    """Returns a tensor's number of elements, with typical values for dynamic sizes."""
    return typical(prod(extents(value)))


def is_computed(value: SSAValue) -> bool:
    """True if a value is a scalar that is not a constant."""
    scalar = not isinstance(value.type, TensorType | MemRefType)
    return scalar and not isinstance(value.owner, arith.ConstantOp)


class Group:
    """A set of operations of one block that will become one dispatch."""

    def __init__(self, root: Operation, also_cheap: Callable[[SSAValue], bool] = is_cheap):
        block = root.parent_block()
        assert block is not None
        self.block = block
        self.root = root
        self.members: dict[Operation, None] = {root: None}
        self.also_cheap = also_cheap

    def __contains__(self, op: object) -> bool:
        return op in self.members

    def produces(self, value: SSAValue) -> bool:
        """True if an operation of the group produces the value."""
        return value.owner in self.members

    def add(self, op: Operation) -> None:
        self.members[op] = None

    def outside(self, op: Operation) -> list[SSAValue]:
        """Returns the values that an operation reads, without those that the group produces."""
        return [value for value in operands_of(op) if not self.produces(value)]

    def grow(self, accept: Callable[[Operation], bool]) -> None:
        """
        Adds operations after the root that read the group and that `accept` allows.

        Skips an operation that also depends on the group through an operation outside of the
        group.
        """
        tainted: set[SSAValue] = set()
        waiting = self._users()
        op = self.root.next_op
        while op is not None and waiting:
            reads = operands_of(op)
            if any(map(self.produces, reads)) or not tainted.isdisjoint(reads):
                if tainted.isdisjoint(reads) and accept(op):
                    self.add(op)
                    waiting |= self._users_of(op)
                else:
                    tainted.update(op.results)
            waiting.discard(op)
            op = op.next_op

    def _users(self) -> set[Operation]:
        return {user for op in self.members for user in self._users_of(op)}

    def _users_of(self, op: Operation) -> set[Operation]:
        users = {user for value in op.results for user in users_of(value, self.block)}
        return {user for user in users if user not in self.members}

    def results(self) -> list[SSAValue]:
        """Returns the group's values that operations outside of the group use."""
        return [
            value
            for op in self.members
            for value in op.results
            if any(user not in self.members for user in users_of(value, self.block))
        ]

    def contract(self) -> DispatchOp:
        """Replaces the group by a dispatch, and returns the dispatch."""
        ordered = self.ordered()
        outputs = [v for op in ordered for v in op.results if v in set(self.results())]
        inputs, clones = self._inputs()
        later = self._later(ordered)
        block, inside = DispatchOp.open_body(inputs)
        for op in clones:
            block.add_op(op.clone(inside))
        dispatch = DispatchOp(inputs, [value.type for value in outputs], Region(block))
        dispatch.location = self.root.location
        self.block.insert_op_after(dispatch, ordered[-1])
        for outer, value in zip(outputs, dispatch.results, strict=True):
            value.name_hint = outer.name_hint
            outer.replace_uses_with_if(value, lambda use: not self._is_member(use.operation))
        for op in ordered:
            op.detach()
            block.add_op(op)
        for op in ordered:
            for inner in op.walk():
                for index, value in enumerate(inner.operands):
                    if value in inside:
                        inner.operands[index] = inside[value]
        block.add_op(YieldOp(*outputs))
        for op in later:
            op.detach()
        self.block.insert_ops_after(later, dispatch)
        for op in reversed(clones):
            erase_unused(op)
        localize_sizes(dispatch)
        return dispatch

    def _is_member(self, op: Operation) -> bool:
        return self.block.find_ancestor_op_in_block(op) in self.members

    def ordered(self) -> list[Operation]:
        """Returns the members in the block's order."""
        before: list[Operation] = []
        after: list[Operation] = []
        above, below = self.root.prev_op, self.root.next_op
        while len(before) + len(after) < len(self.members) - 1:
            if above is not None:
                before += [above] if above in self.members else []
                above = above.prev_op
            if below is not None:
                after += [below] if below in self.members else []
                below = below.next_op
        return [*reversed(before), self.root, *after]

    def _inputs(self) -> tuple[list[SSAValue], list[Operation]]:
        """Returns the values that the group reads, and the cheap operations that it copies."""
        inputs: dict[SSAValue, None] = {}
        clones: dict[Operation, None] = {}
        visited: set[SSAValue] = set()

        def visit(values: Iterable[SSAValue]) -> None:
            for value in values:
                if value in visited:
                    continue
                visited.add(value)
                owner = value.owner
                if self.produces(value):
                    if owner in clones or owner is self.root:
                        continue
                    assert isinstance(owner, Operation)
                    visit(operands_of(owner))
                elif self.also_cheap(value) and isinstance(owner, Operation):
                    visit(operands_of(owner))
                    clones[owner] = None
                else:
                    inputs[value] = None

        visit(operands_of(self.root))
        for op in self.ordered():
            visit(operands_of(op))
        return list(inputs), list(clones)

    def _later(self, ordered: Sequence[Operation]) -> list[Operation]:
        """
        Returns the operations between the group's members that depend on a member but are not
        members themselves.
        """
        tainted = {value for op in ordered for value in op.results}
        dependents: list[Operation] = []
        for op in _between(ordered[0], ordered[-1]):
            if op not in self.members and not tainted.isdisjoint(operands_of(op)):
                dependents.append(op)
                tainted.update(op.results)
        return dependents


def _between(first: Operation, last: Operation) -> Iterator[Operation]:
    op: Operation | None = first
    while op is not None and op is not last:
        yield op
        op = op.next_op
