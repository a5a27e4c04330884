"""
Decodes functions: blocks become structured regions, OpPhi becomes block arguments.

`constructs.py` finds the selection or loop of each block. A block of the dialect may consist of
several blocks of the binary: after a selection or loop, the surrounding block continues with the
merge block. If regions cannot express the control flow, each block of the binary becomes one block,
and merge instructions become attributes of branches. `blocks.py` finds the blocks,
`instructions.py` reads their instructions, and `values.py` maps ids to values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    FunctionType,
    IntegerType,
    Signedness,
    i32,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.serialization.decode.blocks import SILENT, BlockRows, read_blocks
from xdsl_spirv.serialization.decode.constructs import Construct, Constructs, find_constructs
from xdsl_spirv.serialization.decode.escapes import lead_out
from xdsl_spirv.serialization.decode.instructions import InstructionDecoder
from xdsl_spirv.serialization.decode.values import Values
from xdsl_spirv.serialization.encode.functions import LOOP_MERGE, LOOP_PARAMETERS, SELECTION_MERGE
from xdsl_spirv.serialization.raw.operands import opcode_of

if TYPE_CHECKING:
    from xdsl_spirv.serialization.decode.annotations import Annotations
    from xdsl_spirv.serialization.decode.globals import GlobalTable
    from xdsl_spirv.serialization.decode.module_index import ModuleIndex
    from xdsl_spirv.serialization.decode.types import TypeReader


class Module(Protocol):
    """Interface of `ModuleDecoder` for `FunctionDecoder`."""

    index: ModuleIndex
    annotations: Annotations
    types: TypeReader
    globals: GlobalTable
    checked: bool


@dataclass(eq=False, slots=True)
class Declared:
    """A function whose body is not decoded yet."""

    op: spv.FuncOp
    span: range
    parameters: list[int]
    start: int
    """Index of the first instruction after the parameters."""


def declare(module: Module, span: range) -> Declared:
    """Decodes the head of a function: its operation and its parameters."""
    index = module.index
    index.at = span.start
    words = index.rows[span.start]
    id, control = index.word(words, 2), index.word(words, 3)
    t = module.types.type(index.word(words, 4))
    if not isinstance(t, FunctionType):
        raise index.error("a function's type is not an OpTypeFunction")
    parameters, row = list[int](), span.start + 1
    parameter = opcode_of("OpFunctionParameter")
    while index.opcodes[row] == parameter:
        parameters.append(index.word(index.rows[row], 2))
        row += 1
    while index.name(row) in SILENT:
        row += 1
    if len(parameters) != len(t.inputs):
        raise index.error(
            f"the function has {len(parameters)} parameters, but its type has {len(t.inputs)}"
        )
    region = Region(Block(arg_types=t.inputs)) if row < span.stop - 1 else Region()
    op = spv.FuncOp(module.globals.function(id), t, region, spv.FunctionControl(control))
    spv.set_attributes(op, module.globals.read_attributes(id))
    own = [module.annotations.attributes(p, module.globals.operand) for p in parameters]
    if any(own):
        named = [{f"spirv.{name}": a for name, a in notes.items()} for notes in own]
        op.arg_attrs = ArrayAttr([DictionaryAttr(notes) for notes in named])
    return Declared(op, span, parameters, row)


class FunctionDecoder:
    """
    Decodes the body of one function.

    It takes many times the memory of the function's words, so each function gets its own decoder.
    """

    def __init__(self, module: Module, declared: Declared):
        self.index = module.index
        self.rows = module.index.rows
        self.declared = declared
        self.op = declared.op
        span = declared.span
        self.type = module.types.type
        self.values = Values(module, span)
        self.value = self.values.value
        self.instructions = InstructionDecoder(module, self.values)
        self.blocks: dict[int, BlockRows] = {}
        self._made: dict[int, Block] = {}
        """Maps a label to the block that it stands for in branches from the same region."""
        self._headers: dict[int, Block] = {}
        """Maps the label of a loop's header to the first block inside of the loop's region."""
        self._merges: dict[int, Block] = {}
        self._incoming: dict[int, dict[int, int]] = {}
        """
        Maps the index of an OpPhi to a table from the label of each predecessor to the id of the
        value.
        """
        self._order: dict[int, int] = {}
        """Maps a label to the position of the block in the function."""
        self.constructs: Constructs | None = None

    def decode(self) -> None:
        """Adds the operations of the body to the function."""
        op, start = self.op, self.declared.start
        if not op.body.blocks:
            return
        for id, argument in zip(self.declared.parameters, op.body.block.args, strict=True):
            self.values.define(id, argument)
        self.blocks = read_blocks(self.index, start, self.declared.span.stop - 1)
        if not self.blocks:
            return
        self._order = {label: place for place, label in enumerate(self.blocks)}
        entry = next(iter(self.blocks))
        flows = {label: b.flow for label, b in self.blocks.items()}
        self.constructs = find_constructs(flows, entry)
        first = self.op.body.block
        self._made[entry] = first
        top = list(flows) if self.constructs is None else self.constructs.top
        later = [label for label in top if label != entry]
        self._make_blocks(later)
        self.op.body.add_block([self._made[label] for label in later])
        self._fill(entry, first)
        for label in later:
            self._enter(label)
        self.values.finish()
        prologue = self.values.first + self.instructions.variables
        if first.first_op is None:
            first.add_ops(prologue)
        else:
            first.insert_ops_before(prologue, first.first_op)
        if self.values.escaping:
            lead_out(op, self.values.escaping)

    # Blocks

    def _make_blocks(self, labels: Sequence[int]) -> None:
        for label in labels:
            types = [self.type(self.index.word(self.rows[r], 1)) for r in self.blocks[label].phis]
            self._made[label] = Block(arg_types=types)

    def _bind(self, label: int, values: Sequence[SSAValue], block: Block) -> None:
        for row, value in zip(self.blocks[label].phis, values, strict=True):
            id = self.index.word(self.rows[row], 2)
            self.values.define(id, value)
            notes = self.instructions.notes(id)
            if notes:
                decorate = spv.DecorateOp(value)
                decorate.attributes |= notes
                block.add_op(decorate)

    def _enter(self, label: int) -> None:
        block = self._made[label]
        if self._loop_at(label) is not None:
            self._fill(label, block, list(block.args))
            return
        self._bind(label, block.args, block)
        self._fill(label, block)

    def _loop_at(self, label: int) -> Construct | None:
        construct = None if self.constructs is None else self.constructs.of_header.get(label)
        return None if construct is None or construct.continue_target is None else construct

    def _fill(self, label: int, block: Block, entering: list[SSAValue] | None = None) -> None:
        """
        Decodes the instructions of a block, and of the blocks that continue it.

        If the block is the header of a loop, `entering` are the initial values of its phis.
        """
        constructs = self.constructs
        while True:
            construct = None if constructs is None else constructs.of_header.get(label)
            if construct is not None and entering is not None:
                results = self._loop(construct, block, entering)
                label, entering = self._behind(construct, results, block)
                continue
            self.instructions.read_all(self.blocks[label].body, block)
            if construct is not None and construct.continue_target is None:
                results = self._selection(construct, block)
                label, entering = self._behind(construct, results, block)
                continue
            flow = self.blocks[label].flow
            if constructs is not None and flow.unconditional and flow.merge is None:
                target = flow.successors[0]
                if target in constructs.absorbed and target != self._loop_of(label):
                    if self._loop_at(target) is not None:
                        entering = self._passed(label, target)
                    label = target
                    continue
            self._terminate(label, block)
            return

    def _loop_of(self, label: int) -> int | None:
        inner = self._inner(label)
        return None if inner is None else inner.header

    def _behind(
        self, construct: Construct, results: list[SSAValue], block: Block
    ) -> tuple[int, list[SSAValue] | None]:
        """
        Continues the surrounding block with the merge block of a construct. Returns the label of
        the merge block. If it is the header of a loop, also returns the initial values of its phis.
        """
        label = construct.merge
        if self._loop_at(label) is not None:
            return label, results
        self._bind(label, results, block)
        return label, None

    def _selection(self, construct: Construct, block: Block) -> list[SSAValue]:
        head = self.blocks[construct.header]
        words = self.rows[head.merge or 0]
        self.index.at = head.merge or 0
        control = spv.SelectionControl(self.index.word(words, 2))
        op = spv.SelectionOp(Region(), self._phi_types(construct.merge), control)
        header, merge = Block(), self._merge_block(construct)
        self._make_blocks(construct.blocks)
        op.body.add_block([header, *(self._made[b] for b in construct.blocks), merge])
        block.add_op(op)
        op.location = self.instructions.location
        self.values.enter()
        self._terminate(construct.header, header)
        for label in construct.blocks:
            self._enter(label)
        merge.add_op(spv.MergeOp(merge.args))
        self.values.leave()
        return list(op.results)

    def _loop(
        self, construct: Construct, block: Block, entering: Sequence[SSAValue]
    ) -> list[SSAValue]:
        header, target = construct.header, construct.continue_target
        assert target is not None
        rows = self.blocks[header]
        row = rows.merge or 0
        words, self.index.at = self.rows[row], row
        control = spv.LoopControl(self.index.word(words, 3))
        op = spv.LoopOp(Region(), self._phi_types(construct.merge), control)
        if len(words) > 4:
            numbers = [w - (1 << 32) if w >> 31 else w for w in words[4:]]
            op.attributes[LOOP_PARAMETERS] = DenseArrayBase.from_list(i32, numbers)
        inside = [b for b in construct.blocks if b not in (header, target)]
        self._make_blocks(inside)
        if target == header:
            back = Block()
        else:
            self._make_blocks([target])
            back = self._made[target]
        first = Block(arg_types=self._phi_types(header))
        self._headers[header] = first
        merge = self._merge_block(construct)
        entry = Block([spv.BranchOp(first, entering)])
        op.body.add_block([entry, first, *(self._made[b] for b in inside), back, merge])
        block.add_op(op)
        op.location = self.instructions.location
        self.values.enter()
        self._bind(header, first.args, first)
        if target == header:
            self.instructions.read_all(rows.body, first)
            first.add_op(spv.BranchOp(back))
            self._terminate(header, back)
        else:
            self._fill(header, first)
        for label in self._in_order(inside, target, header):
            self._enter(label)
        merge.add_op(spv.MergeOp(merge.args))
        self.values.leave()
        return list(op.results)

    def _in_order(self, inside: Sequence[int], target: int, header: int) -> list[int]:
        """Returns a loop's blocks in the binary's order, so that definitions come before uses."""
        if target == header:
            return list(inside)
        return sorted((*inside, target), key=self._order.__getitem__)

    def _merge_block(self, construct: Construct) -> Block:
        block = Block(arg_types=self._phi_types(construct.merge))
        self._merges[construct.merge] = block
        return block

    def _phi_types(self, label: int) -> list[Attribute]:
        return [self.type(self.index.word(self.rows[r], 1)) for r in self.blocks[label].phis]

    # Branches

    def _inner(self, label: int) -> Construct | None:
        constructs = self.constructs
        if constructs is None:
            return None
        return constructs.of_header.get(label) or constructs.region[label]

    def _passed(self, label: int, target: int) -> list[SSAValue]:
        values: list[SSAValue] = []
        self.index.pass_values(len(self.blocks[target].phis))
        for row in self.blocks[target].phis:
            self.index.at = row
            incoming = self._incoming.get(row)
            if incoming is None:
                words = self.rows[row]
                # If a phi has two values for one block, the first counts.
                pairs = list(zip(words[4::2], words[3::2], strict=False))
                incoming = self._incoming[row] = dict(reversed(pairs))
            if label not in incoming:
                raise self.index.error(f"OpPhi has no value for %{label}")
            values.append(self.value(incoming[label]))
        return values

    def _way(self, label: int, target: int) -> tuple[Block, int]:
        """
        Returns the block to which a branch goes, and the number of constructs that the branch
        leaves.
        """
        own, constructs = self._inner(label), self.constructs
        if constructs is None:
            return self._made[target], 0
        if own is not None and target == own.header:
            return self._headers[target], 0
        depth = 0 if own is None else own.depth
        around = own
        while around is not None:
            if around.merge == target:
                return self._merges[target], depth - around.depth
            around = around.parent
        region = constructs.region[target]
        loop = self._loop_at(target)
        if loop is not None:
            region = loop.parent
        return self._made[target], depth - (0 if region is None else region.depth)

    def _exit(self, label: int, target: int, levels: int) -> Operation:
        cls = spv.BreakOp if target in self._merges else spv.ContinueOp
        return cls(levels, self._passed(label, target))

    def _branch(self, label: int, target: int, block: Block) -> tuple[Block, list[SSAValue]]:
        """
        Returns the block and the operands for a branch. If the branch leaves constructs, inserts a
        block with the exit.
        """
        way, levels = self._way(label, target)
        if not levels:
            return way, self._passed(label, target)
        leaving = Block([self._exit(label, target, levels)])
        region = block.parent
        assert region is not None
        region.insert_block_after(leaving, block)
        return leaving, []

    def _terminate(self, label: int, block: Block) -> None:
        rows = self.blocks[label]
        row = self.index.at = rows.terminator
        words, name = self.rows[row], self.index.name(row)
        branch: Operation
        if name == "OpBranch":
            target = words[1]
            way, levels = self._way(label, target)
            if levels:
                branch = self._exit(label, target, levels)
            else:
                branch = spv.BranchOp(way, self._passed(label, target))
        elif name == "OpBranchConditional":
            branch = self._conditional(label, block, words)
        elif name == "OpSwitch":
            branch = self._switch(label, block, row)
        else:
            self.instructions.read(row, block)
            return
        branch.location = self.instructions.location
        if self.constructs is None and rows.merge is not None:
            self._note_merge(branch, rows)
        block.add_op(branch)

    def _note_merge(self, op: Operation, rows: BlockRows) -> None:
        """
        Stores a merge instruction as attributes of the branch. Used in functions without regions.
        """
        words = self.rows[rows.merge or 0]
        labels = 1 if rows.flow.continue_target is None else 2
        numbers = [self._order[w] for w in words[1 : 1 + labels]]
        numbers += [w - (1 << 32) if w >> 31 else w for w in words[1 + labels :]]
        name = SELECTION_MERGE if labels == 1 else LOOP_MERGE
        op.attributes[name] = DenseArrayBase.from_list(i32, numbers)

    def _conditional(self, label: int, block: Block, words: Sequence[int]) -> Operation:
        condition = self.value(words[1])
        first, second = words[2:4]
        if first == second and self.blocks[label].merge is None:
            # Both labels are equal, which OpBranchConditional does not allow.
            way, levels = self._way(label, first)
            if levels:
                return self._exit(label, first, levels)
            return spv.BranchOp(way, self._passed(label, first))
        taken, given = self._branch(label, first, block)
        otherwise, others = self._branch(label, second, block)
        weights = (words[4], words[5]) if len(words) == 6 else None
        return spv.BranchConditionalOp(condition, taken, otherwise, given, others, weights)

    def _switch(self, label: int, block: Block, row: int) -> Operation:
        selector, default, *cases = self.index.raw[row].operands
        value = self.value(int(selector.value))
        t = value.type
        if not isinstance(t, IntegerType):
            raise self.index.error("the selector must be an integer")
        otherwise = self._branch(label, int(default.value), block)
        targets: list[tuple[int, Block, Sequence[SSAValue]]] = []
        width, signed = t.width.data, t.signedness.data is not Signedness.UNSIGNED
        for literal, target in zip(cases[::2], cases[1::2], strict=True):
            number = int(literal.value)
            number -= 1 << width if signed and number >> (width - 1) else 0
            targets.append((number, *self._branch(label, int(target.value), block)))
        return spv.SwitchOp(value, otherwise, targets)
