"""
Functions: structured regions become blocks with merge instructions, block arguments become phis.

A selection's or loop's region is spliced into the block that holds the operation: that block ends
with a branch to the region's header, and goes on under the region's merge block. So one block of
the dialect is several of SPIR-V, and a phi's parent is the label under which the branching block
*ends*. Values that leave a region are operands of its merge and need no instruction.

Blocks keep the order of the text as far as every block can come after one that leads to it (SPIR-V
2.4 wants dominators first); a region's merge block is always its last.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import Block, Operation, Region, SSAValue

from xdsl_spirv.dialects.spirv.control_flow import (
    BranchConditionalOp,
    BranchOp,
    LoopOp,
    MergeOp,
    SelectionOp,
    SwitchOp,
)
from xdsl_spirv.dialects.spirv.memory import VariableOp
from xdsl_spirv.dialects.spirv.structure import FuncOp
from xdsl_spirv.serialization.errors import SPIRVEncodeError
from xdsl_spirv.serialization.grammar import grammar
from xdsl_spirv.serialization.plans import IdSource, encoder_of, integers
from xdsl_spirv.serialization.types_and_constants import scalar_words
from xdsl_spirv.serialization.words import instruction


def block_order(region: Region) -> list[Block]:
    """
    The region's blocks, dominators first, otherwise as in the text; unreachable ones at the end.

    An order in which every block but the first has an earlier predecessor has dominators first.
    """
    blocks = list(region.blocks)
    place = {id(b): i for i, b in enumerate(blocks)}
    waiting, seen, order = [0], {0}, list[Block]()
    while waiting:
        block = blocks[heapq.heappop(waiting)]
        order.append(block)
        last = block.last_op
        for successor in last.successors if last is not None else ():
            index = place[id(successor)]
            if index not in seen:
                seen.add(index)
                heapq.heappush(waiting, index)
    return order + [b for i, b in enumerate(blocks) if i not in seen]


class Module(IdSource, Protocol):
    """What the encoder of a function asks of the module's."""

    lines: bool

    def line(self, op: Operation) -> tuple[int, int, int] | None: ...
    def symbol(self, name: str, op: Operation | None) -> int: ...
    def decorate(self, target: int, op: Operation) -> None: ...
    def is_declaration(self, op: Operation) -> bool: ...


def _spliced(op: Operation) -> bool:
    """Whether an operation brings blocks of its own."""
    return isinstance(op, SelectionOp | LoopOp) and bool(op.regions[0].blocks)


class Labels:
    """Under which label a block begins, and under which one it ends."""

    def __init__(self, fresh: Callable[[], int]):
        self._fresh = fresh
        self._begins: dict[int, int] = {}
        self._ends: dict[int, int] = {}

    def begin(self, block: Block) -> int:
        """The label of a block; a loop's entry block is part of the block around the loop."""
        known = self._begins.get(id(block))
        if known is None:
            loop = block.parent_op()
            if isinstance(loop, LoopOp) and loop.body.blocks[0] is block:
                known = self._before(loop)
            else:
                known = self._fresh()
            self._begins[id(block)] = known
        return known

    def end(self, block: Block) -> int:
        known = self._ends.get(id(block))
        if known is None:
            last = block.last_op
            known = self._ends[id(block)] = (
                self.begin(block) if last is None else self._before(last)
            )
        return known

    def _before(self, op: Operation) -> int:
        """The label in force just before an operation that is not structured control flow."""
        block, previous = op.parent_block(), op.prev_op
        while previous is not None:
            if _spliced(previous):
                return self.end(previous.regions[0].blocks[-1])
            previous = previous.prev_op
        assert block is not None
        return self.begin(block)


Edge: TypeAlias = tuple[Block, Sequence[SSAValue]]
"""A block at the other end of a branch, and the values for the arguments."""

Incoming: TypeAlias = Mapping[int, Sequence[Edge]]
"""Identity of a block -> the edges that lead to it."""


def edges(terminator: Operation) -> list[Edge]:
    """The blocks a branch leads to, each with the values for the block's arguments."""
    rest = list(terminator.operands)
    rest = rest[0 if isinstance(terminator, BranchOp) else 1 :]
    found: list[Edge] = []
    for successor in terminator.successors:
        count = len(successor.args)
        found.append((successor, rest[:count]))
        rest = rest[count:]
    return found


class FunctionEncoder:
    """Writes one function."""

    def __init__(self, module: Module):
        self.module = module
        self.labels = Labels(module.fresh)
        self.words: list[int] = []
        self.variables: list[int] = []
        self._line: tuple[int, int, int] | None = None
        self._handlers: dict[type[Operation], Callable[[Operation], None]] = {
            BranchOp: self._branch,
            BranchConditionalOp: self._branch_conditional,
            SwitchOp: self._switch,
            SelectionOp: self._selection,
            LoopOp: self._loop,
            VariableOp: self._variable,
        }
        table = grammar()
        self._op_line = table.instruction("OpLine").opcode
        self._op_label = table.instruction("OpLabel").opcode
        self._op_phi = table.instruction("OpPhi").opcode

    def encode(self, func: FuncOp) -> list[int]:
        """The function's words, from OpFunction to OpFunctionEnd."""
        module = self.module
        function_type = func.function_type
        outputs = function_type.outputs.data
        result_type = module.type(outputs[0], func) if outputs else module.void()
        type_id = module.type(function_type, func)
        name = module.symbol(func.sym_name.data, func)
        control = func.function_control.data
        words = self._instruction("OpFunction", result_type, name, control, type_id)
        words += self._parameters(func)
        if func.body.blocks:
            self._blocks(block_order(func.body))
            # The function's variables stand first in its first block (SPIR-V 2.4).
            words += [*self.words[:2], *self.variables, *self.words[2:]]
        return words + self._instruction("OpFunctionEnd")

    @staticmethod
    def _instruction(name: str, *operands: int) -> list[int]:
        return instruction(grammar().instruction(name).opcode, operands)

    def _parameters(self, func: FuncOp) -> list[int]:
        words: list[int] = []
        declared = func.function_type.inputs.data
        blocks = func.body.blocks
        for i, parameter in enumerate(declared):
            result = self.module.value(blocks[0].args[i]) if blocks else self.module.fresh()
            type_id = self.module.type(parameter, func)
            words += self._instruction("OpFunctionParameter", type_id, result)
        return words

    def _blocks(
        self,
        blocks: Sequence[Block],
        merging: Mapping[int, tuple[Sequence[int], Sequence[int]]] | None = None,
        incoming: Incoming | None = None,
    ) -> None:
        """Blocks in this order; `merging` has the `first` and `last` of `_operations`."""
        if incoming is None:
            incoming = self._incoming(blocks)
        for block in blocks:
            self._begin(block, incoming)
            first, last = merging.get(id(block), ((), ())) if merging else ((), ())
            self._operations(block, first, last)

    @staticmethod
    def _incoming(blocks: Sequence[Block]) -> Incoming:
        """For every block with arguments: the blocks it is reached from, with their values."""
        found: dict[int, list[Edge]] = {}
        for block in blocks:
            last = block.last_op
            if last is None:
                continue
            taken: dict[int, Sequence[SSAValue]] = {}
            for target, values in edges(last) if last.successors else ():
                if not target.args:
                    continue
                if id(target) not in taken:
                    taken[id(target)] = values
                    found.setdefault(id(target), []).append((block, values))
                elif any(a is not b for a, b in zip(taken[id(target)], values, strict=True)):
                    raise SPIRVEncodeError(
                        "both ways lead to one block with different values; SPIR-V's phi has one "
                        "value a predecessor, so give one of them a block of its own",
                        last,
                    )
        return found

    def _begin(self, block: Block, incoming: Incoming) -> None:
        """OpLabel and, except in a function's first block, a phi for each argument."""
        label = self.labels.begin(block)
        self.words += (2 << 16 | self._op_label, label)
        self._line = None
        parent = block.parent_op()
        if isinstance(parent, FuncOp) and parent.body.blocks[0] is block:
            return
        for i, argument in enumerate(block.args):
            pairs: list[int] = []
            for predecessor, values in incoming.get(id(block), ()):
                pairs += (self.module.value(values[i]), self.labels.end(predecessor))
            head = (self.module.type(argument.type, parent), self.module.value(argument))
            self.words += instruction(self._op_phi, (*head, *pairs))

    def _operations(
        self, block: Block, first: Sequence[int] = (), last: Sequence[int] = ()
    ) -> None:
        """
        A block's operations.

        `first` is put before the first branch of what the block becomes (a loop's merge
        instruction), `last` before its last (a selection's).
        """
        module, words, handlers = self.module, self.words, self._handlers
        terminator = block.last_op
        for op in block.ops:
            if module.is_declaration(op):
                continue
            if module.lines:
                self._mark(op)
            if first and (op is terminator or _spliced(op)):
                words += first
                first = ()
            if op is terminator:
                words += last
            handler = handlers.get(type(op))
            if handler is not None:
                handler(op)
            elif not isinstance(op, MergeOp):
                words += encoder_of(op)(module, op)
            if op.attributes and op.results:
                module.decorate(module.value(op.results[0]), op)

    def _mark(self, op: Operation) -> None:
        """OpLine wherever the source position changes."""
        line = self.module.line(op)
        if line is not None and line != self._line:
            self._line = line
            self.words += instruction(self._op_line, line)

    def _branch_to(self, block: Block) -> None:
        self.words += self._instruction("OpBranch", self.labels.begin(block))

    def _branch(self, op: Operation) -> None:
        self._branch_to(op.successors[0])

    def _branch_conditional(self, op: Operation) -> None:
        targets = [self.labels.begin(s) for s in op.successors]
        given = op.properties.get("branch_weights")
        weights = [] if given is None else integers(given, op)
        condition = self.module.value(op.operands[0])
        self.words += self._instruction("OpBranchConditional", condition, *targets, *weights)

    def _switch(self, op: Operation) -> None:
        selector = op.operands[0]
        words = [self.module.value(selector), self.labels.begin(op.successors[0])]
        literals = op.properties.get("literals")
        values = literals.iter_attrs() if isinstance(literals, DenseIntOrFPElementsAttr) else ()
        for value, target in zip(values, op.successors[1:], strict=True):
            words += (*scalar_words(value, selector.type, op), self.labels.begin(target))
        self.words += self._instruction("OpSwitch", *words)

    def _variable(self, op: Operation) -> None:
        """Into the function's first block, wherever it stands."""
        self.variables += encoder_of(op)(self.module, op)

    def _selection(self, op: Operation) -> None:
        """
        The header, which ends in OpSelectionMerge and a branch; the cases; the merge block.

        The block around goes on under the merge block's label.
        """
        assert isinstance(op, SelectionOp)
        blocks = list(op.body.blocks)
        if not blocks:
            return
        header, merge = blocks[0], blocks[-1]
        if header is merge:
            raise SPIRVEncodeError("a selection has at least a header and a merge block", op)
        order = [b for b in block_order(op.body) if b is not merge] + [merge]
        control = op.selection_control.data
        merging = self._instruction("OpSelectionMerge", self.labels.begin(merge), control)
        self._branch_to(header)
        self._blocks(order, {id(header): ((), merging)})

    def _loop(self, op: Operation) -> None:
        """
        The header with its OpLoopMerge, the body, the continue block, the merge block.

        The entry block belongs to the block around the loop: it does nothing but branch.
        """
        assert isinstance(op, LoopOp)
        blocks = list(op.body.blocks)
        if not blocks:
            return
        if len(blocks) < 4:
            raise SPIRVEncodeError(
                "a loop has at least entry, header, continue and merge blocks", op
            )
        entry, header, continuing, merge = blocks[0], blocks[1], blocks[-2], blocks[-1]
        order = [b for b in block_order(op.body) if b is not merge] + [merge]
        labels = (self.labels.begin(merge), self.labels.begin(continuing))
        merging = self._instruction("OpLoopMerge", *labels, op.loop_control.data)
        self._operations(entry)
        self._blocks(order[1:], {id(header): (merging, ())}, self._incoming(order))
