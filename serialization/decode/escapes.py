"""
Passes values out of the construct that defines them, if they are used outside.

In a binary, a value may be used in all blocks that its block dominates, also after the selection or
loop that defines the value. In the dialect, the value is not visible outside of the construct's
region. Each edge that leaves the region therefore passes the value on as an argument of the target
block. A merge block passes it on as a result of the construct.

Nodes of the flow graph are blocks, or the parts into which constructs divide a block. A node needs
a new value if the value of its immediate dominator is out of scope. Pointers, images and samplers
cannot be passed, because logical addressing has no phis of them. Their operations are repeated at
the use.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.dialects.builtin import DenseArrayBase, i32
from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue, SSAValues

from xdsl_spirv.dialects import spv

CHAINS = (
    spv.AccessChain,
    spv.PtrAccessChain,
    spv.UntypedAccessChain,
    spv.UntypedPtrAccessChain,
    spv.CopyObjectOp,
)
REPEATED = ("OpLoad", "OpImage", "OpSampledImage", "OpImageTexelPointer", "OpCopyObject")
"""
Names of raw instructions on images, samplers and texels. They are repeated where their results are
used.
"""


def lead_out(function: spv.FuncOp, escaping: Iterable[SSAValue]) -> None:
    """
    Makes each use of the values `escaping` valid outside of their scope. Adds block arguments and
    results of constructs that pass the values on.
    """
    ways = _WaysOut(function)
    for value in escaping:
        for use in list(value.uses):
            node = ways.graph.node(use.operation)
            if not ways.graph.is_in_scope(value, node):
                use.operation.operands[use.index] = ways.name(value, node)
    ways.finish()


class _WaysOut:
    def __init__(self, function: spv.FuncOp):
        self.entry = function.body.blocks[0]
        self.graph = spv.FlowGraph(function.body)
        self.idom = self.graph.dominators.immediate()
        self.names: dict[tuple[SSAValue, int], SSAValue] = {}
        """
        Maps a value, and a node outside of its scope, to the value that replaces it in the node.
        """
        self.repeated: dict[int, Operation] = {}
        """Maps a node to the last operation that `_repeat` copied to its start."""
        self.undefined: dict[Attribute, SSAValue] = {}
        self.renamed: list[tuple[SSAValue, int]] = []
        """
        Lists each value that a new block argument or construct result replaces, with the node.
        """
        self.results: dict[Operation, list[OpResult]] = {}
        """Maps a construct to the results that `finish` adds to it."""

    def name(self, value: SSAValue, node: int) -> SSAValue:
        """
        Returns the value that replaces `value` in a node. The definition of `value` must dominate
        the node.
        """
        name, below = value, list[int]()
        while not self.graph.is_in_scope(value, node):
            if node not in self.idom:
                return self._insert_undefined(value)
            if self.idom[node] == node:
                # The definition does not dominate the use, which the verifier reports.
                return value
            known = self.names.get((value, node))
            if known is not None:
                name = known
                break
            below.append(node)
            node = self.idom[node]
        for node in reversed(below):
            if not self.graph.is_in_scope(name, node):
                name = self._rename(value, node)
            self.names[value, node] = name
        return name

    def _rename(self, value: SSAValue, node: int) -> SSAValue:
        """
        Adds a block argument or construct result that replaces `value` at the start of a node.
        """
        start = self.graph.starts[node]
        if _is_repeated(value):
            is_merge = isinstance(start, Block) and isinstance(start.last_op, spv.MergeOp)
            # A merge block contains only its terminator, which does not use the value.
            return value if is_merge else self._repeat(value, node)
        self.renamed.append((value, node))
        if isinstance(start, Block):
            name: SSAValue = start.insert_arg(value.type, len(start.args))
        else:
            results = self.results.setdefault(start, [])
            name = OpResult(value.type, start, len(start.results) + len(results))
            results.append(name)
        name.name_hint = value.name_hint
        return name

    def _repeat(self, value: SSAValue, node: int) -> SSAValue:
        """Copies the operation that computes `value` to the start of a node."""
        op, start = value.owner, self.graph.starts[node]
        assert isinstance(op, Operation)
        copy = op.clone({operand: self.name(operand, node) for operand in op.operands})
        before = self.repeated.get(node, None if isinstance(start, Block) else start)
        block = self.graph.blocks[node]
        if before is not None:
            block.insert_op_after(copy, before)
        elif block.first_op is not None:
            block.insert_op_before(copy, block.first_op)
        self.repeated[node] = copy
        self.graph.places[id(copy)] = self.graph.places[id(start)]
        return copy.results[0]

    def _insert_undefined(self, value: SSAValue) -> SSAValue:
        """Returns an undefined value of the same type, for use in an unreachable block."""
        known = self.undefined.get(value.type)
        if known is None:
            op = spv.UndefOp(value.type)
            assert self.entry.first_op is not None
            self.entry.insert_op_before(op, self.entry.first_op)
            known = self.undefined[value.type] = op.results[0]
        return known

    def finish(self) -> None:
        """Passes values to the new block arguments and construct results."""
        passed: dict[Operation, list[tuple[Block | None, SSAValue]]] = {}
        for value, node in self.renamed:
            start = self.graph.starts[node]
            for source in self.graph.predecessors[node]:
                end = self.graph.blocks[source].last_op
                assert end is not None
                target = start if isinstance(start, Block) else None
                passed.setdefault(end, []).append((target, self.name(value, source)))
        for end, further in passed.items():
            _pass(end, further)
        for construct, results in self.results.items():
            construct.results = SSAValues((*construct.results, *results))


def _is_repeated(value: SSAValue) -> bool:
    op = value.owner
    if not isinstance(value.type, spv.PointerType | spv.UntypedPointerType | spv.RawType):
        return False
    if isinstance(op, spv.LoadOp):
        return isinstance(value.type, spv.RawType)
    return isinstance(op, CHAINS) or (isinstance(op, spv.RawOp) and op.instruction.data in REPEATED)


def _pass(end: Operation, further: Sequence[tuple[Block | None, SSAValue]]) -> None:
    """
    Adds operands to a terminator. Each pair consists of a successor and the value that it gets. For
    a terminator without successors, only the values are used.
    """
    if not end.successors:
        end.operands = [*end.operands, *(value for _, value in further)]
        return
    given = [[v for target, v in further if target is block] for block in end.successors]
    if isinstance(end, spv.BranchOp):
        end.operands = [*end.operands, *given[0]]
    elif isinstance(end, spv.BranchConditionalOp):
        ways = [[*end.true_operands, *given[0]], [*end.false_operands, *given[1]]]
        _set_operands(end, [[end.condition], *ways])
    else:
        assert isinstance(end, spv.SwitchOp)
        cases = [[*old, *new] for old, new in zip(end.case_operands, given[1:], strict=True)]
        default = [*end.default_operands, *given[0]]
        _set_operands(end, [[end.selector], default, [v for case in cases for v in case]])
        end.case_operand_segments = DenseArrayBase.from_list(i32, [len(case) for case in cases])


def _set_operands(op: Operation, segments: Sequence[Sequence[SSAValue]]) -> None:
    op.operands = [value for segment in segments for value in segment]
    sizes = DenseArrayBase.from_list(i32, [len(segment) for segment in segments])
    op.properties["operandSegmentSizes"] = sizes
