"""
Encodes functions: regions become blocks with merge instructions, block arguments become OpPhi.

The region of a selection or loop is inlined into the block of the operation: this block ends with a
branch to the region's header, and continues as the region's merge block. A block of the dialect may
therefore become several blocks of SPIR-V. OpPhi names the last of them as predecessor. Values that
leave a region are operands of `spirv.mlir.merge`, and need no instruction.

Blocks keep the order of the text, but each block is placed after its first predecessor. SPIR-V 2.4
requires that dominators come first. A region's merge block is always its last block.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from operator import is_
from typing import NamedTuple, Protocol, TypeAlias, TypeGuard

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.spirv.control_flow import BranchConditionalOp, BranchOp
from xdsl_spirv.dialects.spirv.structure import FuncOp
from xdsl_spirv.grammar import decoration_of, grammar
from xdsl_spirv.serialization.encode import SPIRVEncodeError
from xdsl_spirv.serialization.encode.operations import (
    Encode,
    IdSource,
    encoder_of,
    integers,
    operands_of,
)
from xdsl_spirv.serialization.encode.types import Decorations, scalar_words
from xdsl_spirv.serialization.raw.words import instruction

SELECTION_MERGE, LOOP_MERGE = "spirv.selection_merge", "spirv.loop_merge"
"""
Attributes of a branch that hold its merge instruction, in a function without structured regions.

The value lists the merge block and (for a loop) the continue target, by their indices among the
function's blocks, and then the control mask and the parameters of the mask.
"""

PARAMETER_DECORATION = "spirv.decoration"
"""Attribute of a function's argument that holds its decoration, as in MLIR."""


def block_order(region: Region) -> list[Block]:
    """
    Returns a region's blocks. Dominators come first. Apart from this, the order of the text is
    kept.

    Each reachable block comes after one of its predecessors. Unreachable blocks come last.
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
    """Interface of `ModuleEncoder` for `FunctionEncoder`."""

    lines: bool
    traced: bool
    """True if the encoder records the operation of each word."""
    decorations: Decorations
    encoders: dict[type[Operation], Encode]
    """Cached encoders of the classes whose operations become one instruction."""

    def line(self, op: Operation) -> tuple[int, int, int] | None: ...
    def symbol(self, name: str, op: Operation | None) -> int: ...
    def decorate(self, target: int, op: Operation) -> None: ...
    def is_declaration(self, op: Operation) -> bool: ...
    def carried(self, op: spv.Carried) -> Sequence[int]: ...


def _brings_blocks(op: Operation) -> bool:
    return isinstance(op, spv.SelectionOp | spv.LoopOp) and bool(op.regions[0].blocks)


def _goes_on(op: Operation) -> bool:
    """
    True if the header of a selection is the end of the surrounding block.

    Otherwise the header is a separate block. This is needed in the header block of a loop, which
    cannot have a second merge instruction.
    """
    if not isinstance(op, spv.SelectionOp):
        return False
    block, previous = op.parent_block(), op.prev_op
    loop = None if block is None else block.parent_op()
    if not isinstance(loop, spv.LoopOp) or loop.body.blocks[1] is not block:
        return True
    while previous is not None:
        if _brings_blocks(previous):
            return True
        previous = previous.prev_op
    return False


class Labels:
    """Maps each block of the dialect to the labels of its first and last block in SPIR-V."""

    def __init__(self, fresh: Callable[[], int]):
        self._fresh = fresh
        self._begins: dict[int, int] = {}
        self._ends: dict[int, int] = {}

    def begin(self, block: Block) -> int:
        """
        Returns the label of a block's first SPIR-V block.

        The entry block of a loop continues the surrounding block, so it has the label of that
        block. The same holds for the header of most selections.
        """
        known = self._begins.get(id(block))
        if known is None:
            around = block.parent_op()
            if isinstance(around, spv.LoopOp) and around.body.blocks[0] is block:
                known = self._before(around)
            elif around is not None and _goes_on(around) and around.regions[0].blocks[0] is block:
                known = self._before(around)
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
        """Returns the label of the SPIR-V block that ends with the code before an operation."""
        block, previous = op.parent_block(), op.prev_op
        while previous is not None:
            if _brings_blocks(previous):
                return self.end(previous.regions[0].blocks[-1])
            previous = previous.prev_op
        assert block is not None
        return self.begin(block)


class Edge(NamedTuple):
    """A branch, described from the block that it leaves."""

    target: Block
    values: Sequence[SSAValue]
    """Values that the branch passes to the arguments of its target."""
    label: int
    """The label of the target, or of an inserted block that branches to the target."""
    split: bool
    """True if a new block is inserted between the branch and its target."""


class Entry(NamedTuple):
    """A branch, described from the block that it enters."""

    block: Block
    values: Sequence[SSAValue]
    label: int | None
    """Label of the inserted block. None if `block` branches directly."""


Incoming: TypeAlias = Mapping[int, Sequence[Entry]]
"""Maps the identity of a block to the branches that enter it."""


class FunctionEncoder:
    """Encodes one function."""

    def __init__(self, module: Module):
        self.module = module
        self.labels = Labels(module.fresh)
        self.words: list[int] = []
        self.variables: list[int] = []
        self.origins: list[tuple[int, Operation]] = []
        """
        List of offsets in the function's words, each with the operation that the words from there
        on belong to.
        """
        self._exits: dict[int, list[spv.ExitOp]] = {}
        """Maps the identity of a block to the exits from nested constructs that branch to it."""
        self._begun = set[int]()
        self._known_edges: dict[int, Sequence[Edge]] = {}
        self._line: tuple[int, int, int] | None = None
        self._handlers: dict[str, Callable[[Operation], None]] = {
            "spirv.Branch": self._branch,
            "spirv.BranchConditional": self._branch_conditional,
            "spirv.Switch": self._switch,
            "spirv.mlir.selection": self._selection,
            "spirv.mlir.loop": self._loop,
            "spirv.Variable": self._variable,
            "spirv.KHR.UntypedVariable": self._variable,
            "spirv.mlir.break": self._exit,
            "spirv.mlir.continue": self._exit,
            "spirv.Raw": self._carried,
            "spirv.RawTerminator": self._carried,
            "spirv.Decorate": self._decorate,
        }
        table = grammar()
        self._op_line = table.instruction("OpLine").opcode
        self._op_label = table.instruction("OpLabel").opcode
        self._op_phi = table.instruction("OpPhi").opcode

    def encode(self, func: FuncOp) -> list[int]:
        """Returns the function's words, from OpFunction to OpFunctionEnd."""
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
            self._find_exits(func)
            self._blocks(block_order(func.body))
            # Variables come first in the function's first block (SPIR-V 2.4).
            before = len(words) + len(self.variables)
            words += [*self.words[:2], *self.variables, *self.words[2:]]
            self.origins = [(offset + before, op) for offset, op in self.origins]
        self.origins = [(0, func), *self.origins, (len(words), func)]
        return words + self._instruction("OpFunctionEnd")

    @staticmethod
    def _instruction(name: str, *operands: int) -> list[int]:
        return instruction(grammar().instruction(name).opcode, operands)

    def _parameters(self, func: FuncOp) -> list[int]:
        words: list[int] = []
        blocks = func.body.blocks
        attributes = func.arg_attrs.data if func.arg_attrs is not None else ()
        for i, parameter in enumerate(func.function_type.inputs.data):
            result = self.module.value(blocks[0].args[i]) if blocks else self.module.fresh()
            type_id = self.module.type(parameter, func)
            words += self._instruction("OpFunctionParameter", type_id, result)
            for field, attribute in attributes[i].data.items() if attributes else ():
                self._decorate_parameter(result, field, attribute, func)
        return words

    def _decorate_parameter(
        self, result: int, field: str, attribute: Attribute, func: FuncOp
    ) -> None:
        if field == PARAMETER_DECORATION and isinstance(attribute, spv.DecorationAttr):
            self.module.decorations.add(result, attribute.data)
            return
        name = field.removeprefix("spirv.")
        if name != field and decoration_of(name) is not None:
            self.module.decorations.add_attribute(result, name, attribute, func)

    def _blocks(
        self,
        blocks: Sequence[Block],
        merging: Mapping[int, tuple[Sequence[int], Sequence[int]]] | None = None,
        incoming: Incoming | None = None,
    ) -> None:
        if incoming is None:
            incoming = self._incoming(blocks)
        for block in blocks:
            if _only_exits(block) and all(_dissolves(use.operation) for use in block.uses):
                continue
            self._begin(block, incoming)
            first, last = merging.get(id(block), ((), ())) if merging else ((), ())
            self._operations(block, first, last)

    def _incoming(self, blocks: Sequence[Block]) -> Incoming:
        incoming: dict[int, list[Entry]] = {}
        for block in blocks:
            last, seen = block.last_op, set[int]()
            for edge in self._edges(last) if last is not None and last.successors else ():
                if edge.target.args and edge.label not in seen:
                    seen.add(edge.label)
                    entry = Entry(block, edge.values, edge.label if edge.split else None)
                    incoming.setdefault(id(edge.target), []).append(entry)
        for block in blocks:
            for leaving in self._exits.get(id(block), ()) if block.args else ():
                incoming.setdefault(id(block), []).extend(self._entries(leaving, block))
        return incoming

    def _find_exits(self, func: FuncOp) -> None:
        for op in func.walk():
            if _is_exit(op):
                target = op.target
                if target is None:
                    raise SPIRVEncodeError(
                        "the exit leaves more selections and loops than contain it", op
                    )
                self._exits.setdefault(id(target), []).append(op)

    def _entries(self, leaving: spv.ExitOp, target: Block) -> list[Entry]:
        block = leaving.parent_block()
        assert block is not None
        uses = [use.operation for use in block.uses] if _only_exits(block) else []
        dissolving = [op for op in uses if _dissolves(op)]
        entries: list[Entry] = []
        if not uses or len(dissolving) < len(uses):
            entries.append(Entry(block, leaving.arguments, None))
        for terminator in dict.fromkeys(dissolving):
            source = terminator.parent_block()
            assert source is not None
            entries += [
                Entry(source, edge.values, edge.label if edge.split else None)
                for edge in dict.fromkeys(self._edges(terminator))
                if edge.target is target
            ]
        return entries

    def _edges(self, terminator: Operation) -> Sequence[Edge]:
        """
        Returns the branches that leave a block.

        Branches to one target become one edge, unless a phi needs two values for them. In this
        case, the second branch goes through an inserted block. The same holds for
        OpBranchConditional, whose labels must differ from version 1.6 on.
        """
        known = self._known_edges.get(id(terminator))
        if known is not None:
            return known
        edges: list[Edge] = []
        rest = operands_of(terminator)[0 if isinstance(terminator, BranchOp) else 1 :]
        dissolves = _dissolves(terminator)
        for target in terminator.successors:
            values, rest = rest[: len(target.args)], rest[len(target.args) :]
            leaving = target.last_op
            if dissolves and _only_exits(target) and _is_exit(leaving):
                assert leaving.target is not None
                target, values = leaving.target, operands_of(leaving)
            same = [e for e in edges if e.target is target]
            equal = [e for e in same if all(map(is_, e.values, values))]
            if same and (not equal or isinstance(terminator, BranchConditionalOp)):
                edges.append(Edge(target, values, self.module.fresh(), True))
            elif same:
                edges.append(equal[0])
            else:
                edges.append(Edge(target, values, self.labels.begin(target), False))
        self._known_edges[id(terminator)] = edges
        return edges

    def _begin(self, block: Block, incoming: Incoming) -> None:
        label, around = self.labels.begin(block), block.parent_op()
        if self.module.traced and around is not None:
            self.origins.append((len(self.words), around))
        self.words += (2 << 16 | self._op_label, label)
        self._line = None
        if isinstance(around, FuncOp) and around.body.blocks[0] is block:
            return
        for i, argument in enumerate(block.args):
            pairs: list[int] = []
            for entry in incoming.get(id(block), ()):
                parent = self.labels.end(entry.block) if entry.label is None else entry.label
                pairs += (self.module.value(entry.values[i]), parent)
            head = (self.module.type(argument.type, around), self.module.value(argument))
            self.words += instruction(self._op_phi, (*head, *pairs))

    def _operations(
        self, block: Block, first: Sequence[int] = (), last: Sequence[int] = ()
    ) -> None:
        """
        Encodes a block. Puts the merge instruction of a loop (`first`) before the first branch, and
        the merge instruction of a selection (`last`) before the last branch.
        """
        self._begun.add(id(block))
        module, words = self.module, self.words
        encoders, lines, traced = module.encoders, module.lines, module.traced
        terminator = block.last_op
        for op in block.ops:
            encode = encoders.get(type(op))
            if encode is None and module.is_declaration(op):
                continue
            if traced:
                self.origins.append((len(words), op))
            if lines:
                self._mark(op)
            if first and (op is terminator or _brings_blocks(op)):
                words += first
                first = ()
            if last and op is terminator:
                words += last
            if op is terminator and op.attributes:
                self._unstructured_merge(op)
            if encode is None:
                self._operation(op)
            else:
                words += encode(module, op)
            if op.attributes and op.results:
                module.decorate(module.value(op.results[0]), op)

    def _unstructured_merge(self, op: Operation) -> None:
        """
        Writes the merge instruction that a branch's attribute holds, in a function without regions.
        """
        for name, labels in ((SELECTION_MERGE, 1), (LOOP_MERGE, 2)):
            given, region = op.attributes.get(name), op.parent_region()
            if given is None or region is None:
                continue
            numbers, blocks = integers(given, op), list(region.blocks)
            if len(numbers) < labels or max(numbers[:labels]) >= len(blocks):
                raise SPIRVEncodeError(
                    f"{name} has an index that is not a block of the function", op
                )
            targets = [self.labels.begin(blocks[n]) for n in numbers[:labels]]
            instruction_name = "OpSelectionMerge" if labels == 1 else "OpLoopMerge"
            self.words += self._instruction(instruction_name, *targets, *numbers[labels:])

    def _operation(self, op: Operation) -> None:
        handler = self._handlers.get(op.name)
        if handler is not None:
            handler(op)
        elif not isinstance(op, spv.MergeOp):
            encode = self.module.encoders[type(op)] = encoder_of(op)
            self.words += encode(self.module, op)

    def _mark(self, op: Operation) -> None:
        line = self.module.line(op)
        if line == self._line or isinstance(
            op, spv.SelectionOp | spv.LoopOp | spv.MergeOp | spv.VariableOp
        ):
            return
        self._line = line
        self.words += (
            self._instruction("OpNoLine") if line is None else instruction(self._op_line, line)
        )

    def _exit(self, op: Operation) -> None:
        assert _is_exit(op)
        assert op.target is not None
        self._branch_to(self.labels.begin(op.target))

    def _carried(self, op: Operation) -> None:
        assert isinstance(op, spv.Carried)
        self.words += self.module.carried(op)

    def _decorate(self, op: Operation) -> None:
        self.module.decorate(self.module.value(op.operands[0]), op)

    def _branch_to(self, label: int) -> None:
        self.words += self._instruction("OpBranch", label)

    def _branch(self, op: Operation) -> None:
        self._branch_to(self._edges(op)[0].label)

    def _branch_conditional(self, op: Operation) -> None:
        targets = [e.label for e in self._edges(op)]
        given = op.properties.get("branch_weights")
        weights = [] if given is None else integers(given, op)
        condition = self.module.value(op.operands[0])
        self.words += self._instruction("OpBranchConditional", condition, *targets, *weights)
        self._split(op)

    def _switch(self, op: Operation) -> None:
        selector, (default, *cases) = op.operands[0], self._edges(op)
        if not self._is_behind(selector):
            # The selector's type gives the width of the literals, so it must be defined before.
            raise SPIRVEncodeError(
                "the block that defines the selector must dominate the switch",
                op,
            )
        words = [self.module.value(selector), default.label]
        literals = op.properties.get("literals")
        values = literals.iter_attrs() if isinstance(literals, DenseIntOrFPElementsAttr) else ()
        for value, case in zip(values, cases, strict=True):
            words += (*scalar_words(value, selector.type, op), case.label)
        self.words += self._instruction("OpSwitch", *words)
        self._split(op)

    def _is_behind(self, value: SSAValue) -> bool:
        """True if the definition of a value precedes the current instruction in the binary."""
        owner = value.owner
        block = owner if isinstance(owner, Block) else owner.parent_block()
        declared = isinstance(owner, Operation) and self.module.is_declaration(owner)
        return declared or id(block) in self._begun

    def _split(self, op: Operation) -> None:
        for edge in dict.fromkeys(e for e in self._edges(op) if e.split):
            self.words += (2 << 16 | self._op_label, edge.label)
            self._branch_to(self.labels.begin(edge.target))

    def _variable(self, op: Operation) -> None:
        self.variables += encoder_of(op)(self.module, op)

    def _selection(self, op: Operation) -> None:
        """
        Encodes a selection: the header with OpSelectionMerge, the cases and the merge block.

        If possible, the header is the end of the surrounding block. The code after the selection
        follows in the merge block.
        """
        assert isinstance(op, spv.SelectionOp)
        blocks = list(op.body.blocks)
        if not blocks:
            return
        header, merge = blocks[0], blocks[-1]
        if header is merge:
            raise SPIRVEncodeError("a selection must have at least a header and a merge block", op)
        order = [b for b in block_order(op.body) if b is not merge] + [merge]
        control = op.selection_control.data
        merging = self._instruction("OpSelectionMerge", self.labels.begin(merge), control)
        if _goes_on(op):
            self._operations(header, (), merging)
            self._blocks(order[1:], None, self._incoming(order))
            return
        self._branch_to(self.labels.begin(header))
        self._blocks(order, {id(header): ((), merging)})

    def _loop(self, op: Operation) -> None:
        """
        Encodes a loop: the header with OpLoopMerge, the body, the continue block and the merge
        block.

        The entry block contains only a branch, which is appended to the surrounding block.
        """
        assert isinstance(op, spv.LoopOp)
        blocks = list(op.body.blocks)
        if not blocks:
            return
        if len(blocks) < 4:
            raise SPIRVEncodeError("a loop must have entry, header, continue and merge blocks", op)
        parameters = _loop_parameters(op)
        entry, header, continuing, merge = blocks[0], blocks[1], blocks[-2], blocks[-1]
        order = [b for b in block_order(op.body) if b is not merge] + [merge]
        labels = (self.labels.begin(merge), self.labels.begin(continuing))
        merging = self._instruction("OpLoopMerge", *labels, op.loop_control.data, *parameters)
        self._operations(entry)
        self._blocks(order[1:], {id(header): (merging, ())}, self._incoming(order))


def _is_exit(op: Operation | None) -> TypeGuard[spv.ExitOp]:
    return op is not None and op.name in spv.EXITS


def _only_exits(block: Block) -> bool:
    return _is_exit(block.last_op) and block.first_op is block.last_op and not block.args


def _dissolves(terminator: Operation) -> bool:
    """
    True if a branch to a block that only contains an exit goes directly to the exit's target.

    A conditional branch without a merge instruction may have only one target inside its construct
    (SPIR-V 2.11.2). It therefore branches directly.
    """
    block = terminator.parent_block()
    if not isinstance(terminator, BranchConditionalOp) or block is None:
        return False
    around = block.parent_op()
    return not (isinstance(around, spv.SelectionOp) and around.body.blocks[0] is block)


LOOP_PARAMETERS = "loop_control_parameters"
"""Attribute of a loop with the parameters of its loop controls (`PeelCount`, ...), in order."""


def _loop_parameters(op: spv.LoopOp) -> list[int]:
    kind, mask = grammar().kind("LoopControl"), op.loop_control.data
    taking = [n for n in kind.names if mask & kind[n].value and kind[n].parameters]
    given = op.attributes.get(LOOP_PARAMETERS)
    numbers = [] if given is None else integers(given, op)
    if len(numbers) != sum(len(kind[n].parameters) for n in taking):
        raise SPIRVEncodeError(
            f"the loop control {', '.join(taking)} needs a number; remove the loop control, or "
            f"give its number in the attribute {LOOP_PARAMETERS}",
            op,
        )
    return numbers
