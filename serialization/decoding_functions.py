"""
Functions of a binary: blocks become structured regions, OpPhi becomes block arguments.

`constructs.py` says which block stands in which selection or loop. A block of the dialect is as
many blocks of the binary as go on in one another: behind a selection or loop the block around it
goes on with the merge block. A value that is used behind the construct that it is defined in
becomes a result of the construct, by an operand of its merge. Where control flow is not structured
as regions can say it, the function keeps its blocks, and merge instructions become attributes of
the branches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, cast

from xdsl.dialects.builtin import (
    UNKNOWN_LOC,
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    FileLineColLoc,
    FunctionType,
    IntAttr,
    IntegerType,
    LocationAttr,
    NoneType,
    Signedness,
    StringAttr,
    i32,
)
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue, SSAValues
from xdsl.irdl import IRDLOperation
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.spirv.branches import BranchConditionalOp, BranchOp, SwitchOp
from xdsl_spirv.dialects.spirv.control_flow import Construct as ConstructOp
from xdsl_spirv.dialects.spirv.control_flow import LoopOp, MergeOp, SelectionOp
from xdsl_spirv.dialects.spirv.enums import FunctionControl, LoopControl, SelectionControl
from xdsl_spirv.dialects.spirv.exits import BreakOp, ContinueOp
from xdsl_spirv.dialects.spirv.function import FuncOp, set_attributes
from xdsl_spirv.dialects.spirv.memory import VariableOp
from xdsl_spirv.dialects.spirv.raw import DecorateOp, RawOp, RawTerminatorOp
from xdsl_spirv.dialects.spirv.untyped_pointer import UntypedVariableOp
from xdsl_spirv.serialization.constructs import BasicBlock, Construct, Constructs, find_constructs
from xdsl_spirv.serialization.decoding_plans import (
    Decode,
    NotDeclared,
    classes,
    decoder_of,
    extended_sets,
)
from xdsl_spirv.serialization.functions import LOOP_MERGE, LOOP_PARAMETERS, SELECTION_MERGE
from xdsl_spirv.serialization.grammar import grammar
from xdsl_spirv.serialization.literals import words_of
from xdsl_spirv.serialization.module_index import EXTENDED, facts
from xdsl_spirv.serialization.operands import opcode_of

if TYPE_CHECKING:
    from xdsl_spirv.serialization.annotations import Annotations
    from xdsl_spirv.serialization.decoding_globals import GlobalTable
    from xdsl_spirv.serialization.decoding_types import TypeReader
    from xdsl_spirv.serialization.module_index import ModuleIndex

TERMINATORS = frozenset(
    (
        "OpBranch OpBranchConditional OpSwitch OpReturn OpReturnValue OpKill OpUnreachable "
        "OpTerminateInvocation OpDemoteToHelperInvocationTerminator OpIgnoreIntersectionKHR "
        "OpTerminateRayKHR OpEmitMeshTasksEXT OpAbortKHR"
    ).split()
)
LIFETIMES = ("OpNop", "OpLine", "OpNoLine")


class Module(Protocol):
    """What the decoder of a function asks of the module's."""

    index: ModuleIndex
    annotations: Annotations
    types: TypeReader
    globals: GlobalTable
    checked: bool


@dataclass(eq=False, slots=True)
class Blocks:
    """One block of the binary."""

    flow: BasicBlock
    phis: list[int] = field(default_factory=list[int])
    body: list[int] = field(default_factory=list[int])
    merge: int | None = None
    terminator: int = -1


@dataclass(eq=False, slots=True)
class Scope:
    """A construct's region, while it is read and after."""

    op: ConstructOp | None
    around: Scope | None
    is_open: bool = True
    ids: list[int] = field(default_factory=list[int])

    def give(self, value: SSAValue) -> SSAValue:
        """A value of the region as a result of the construct."""
        op = self.op
        last = None if op is None else op.body.blocks.last
        merge = None if last is None else last.last_op
        if op is None or merge is None:
            raise ValueError("the construct is not finished")
        merge.operands = [*merge.operands, value]
        result = OpResult(value.type, op, len(op.results))
        op.results = SSAValues((*op.results, result))
        return result


class FunctionDecoder:
    """Reads one function; `Known` of its plans."""

    def __init__(self, module: Module, span: range):
        self.module = module
        self.index = module.index
        self.rows = module.index.rows
        self.span = span
        self.type = module.types.type
        self.attribute = module.globals.attribute
        self.constant = module.globals.constant
        self.visible: dict[int, SSAValue] = {}
        self._hidden: dict[int, tuple[Scope, SSAValue]] = {}
        self._awaited: dict[int, SSAValue] = {}
        self._scope = Scope(None, None)
        self._prologue: list[Operation] = []
        self._variables: list[Operation] = []
        self._undefined: dict[Attribute, SSAValue] = {}
        self._location: LocationAttr = UNKNOWN_LOC
        self.blocks: dict[int, Blocks] = {}
        self._made: dict[int, Block] = {}
        """Label -> the block that a branch to it from its region goes to."""
        self._headers: dict[int, Block] = {}
        """Loop header -> its block inside of the loop."""
        self._merges: dict[int, Block] = {}
        self.constructs: Constructs | None = None
        self.op: FuncOp

    # Ids.

    def value(self, id: int) -> SSAValue:
        """The value of an id where the function is read."""
        found = self.visible.get(id)
        return self._bring(id) if found is None else found

    def _bring(self, id: int) -> SSAValue:
        hidden = self._hidden.pop(id, None)
        if hidden is not None:
            scope, value = hidden
            around: Scope | None = scope
            while around is not None and not around.is_open:
                value = around.give(value)
                around = around.around
            self.visible[id] = value
            if around is not None:
                around.ids.append(id)
            return value
        row = self.index.definitions.get(id)
        if row is None:
            raise self.index.error(f"%{id} is not defined")
        if row in self.span and self.index.name(row) != "OpUndef":
            return self._await(id, row)
        made = self.module.globals.materialize(id)
        if made is None:
            raise self.index.error(f"%{id} is no value")
        value = made.results[0]
        if self.index.name(row) == "OpUndef":
            known = self._undefined.setdefault(value.type, value)
            if known is not value:
                self.visible[id] = known
                return known
        self._hint(value, id)
        self._prologue.append(made)
        self.visible[id] = value
        return value

    def _await(self, id: int, row: int) -> SSAValue:
        """A stand-in for a value that comes later: a block that is never reached may use it."""
        known = self._awaited.get(id)
        if known is None:
            entry = facts(self.index.opcodes[row])
            if entry is None or not entry.has_type:
                raise self.index.error(f"%{id} is no value")
            t = self.type(self.index.word(self.rows[row], 1))
            known = self._awaited[id] = Block(arg_types=[t]).args[0]
        return known

    def _define(self, id: int, value: SSAValue) -> None:
        self.visible[id] = value
        self._scope.ids.append(id)
        self._hint(value, id)
        if self._awaited and id in self._awaited:
            self._awaited.pop(id).replace_all_uses_with(value)

    def _hint(self, value: SSAValue, id: int) -> None:
        name = self.module.annotations.names.get(id)
        if name is not None and SSAValue.is_valid_name(name):
            value.name_hint = name

    def _open(self, op: ConstructOp) -> None:
        self._scope = Scope(op, self._scope)

    def _close(self) -> None:
        scope = self._scope
        scope.is_open = False
        for id in scope.ids:
            value = self.visible.pop(id, None)
            if value is not None:
                self._hidden[id] = (scope, value)
        assert scope.around is not None
        self._scope = scope.around

    # The function.

    def declare(self) -> FuncOp:
        """The function without its body's operations."""
        index, module = self.index, self.module
        index.at = self.span.start
        words = self.rows[self.span.start]
        id, control = index.word(words, 2), index.word(words, 3)
        t = self.type(index.word(words, 4))
        if not isinstance(t, FunctionType):
            raise index.error("a function's type is no OpTypeFunction")
        parameters, row = list[int](), self.span.start + 1
        parameter = opcode_of("OpFunctionParameter")
        while index.opcodes[row] == parameter:
            parameters.append(index.word(self.rows[row], 2))
            row += 1
        while index.name(row) in LIFETIMES:
            row += 1
        if len(parameters) != len(t.inputs):
            raise index.error(
                f"{len(parameters)} parameters stand where the type has {len(t.inputs)}"
            )
        has_body = row < self.span.stop - 1
        region = Region(Block(arg_types=t.inputs)) if has_body else Region()
        self.op = FuncOp(module.globals.function(id), t, region, FunctionControl(control))
        set_attributes(self.op, module.globals.linked(id))
        own = [module.annotations.attributes(p, module.globals.operand) for p in parameters]
        if any(own):
            named = [{f"spirv.{name}": a for name, a in notes.items()} for notes in own]
            self.op.arg_attrs = ArrayAttr([DictionaryAttr(notes) for notes in named])
        if has_body:
            for p, argument in zip(parameters, region.block.args, strict=True):
                self._define(p, argument)
            self._read_blocks(row)
        return self.op

    def decode(self) -> None:
        """The operations of the body."""
        if not self.blocks:
            return
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
        if self._awaited:
            raise self.index.error(f"%{next(iter(self._awaited))} is used before it is defined")
        self._prologue += self._variables
        if self._prologue:
            if first.first_op is None:
                first.add_ops(self._prologue)
            else:
                first.insert_ops_before(self._prologue, first.first_op)

    def _read_blocks(self, start: int) -> None:
        """Blocks with their instructions by kind."""
        index = self.index
        label, phi, block = opcode_of("OpLabel"), opcode_of("OpPhi"), None
        merges = {opcode_of("OpSelectionMerge"), opcode_of("OpLoopMerge")}
        between: list[int] = []
        ends = {grammar().instruction(n).opcode for n in TERMINATORS if n in grammar()}
        for row in range(start, self.span.stop - 1):
            opcode, index.at = index.opcodes[row], row
            if opcode == label:
                if block is not None:
                    raise index.error("a block begins before the last one has ended")
                id = index.word(self.rows[row], 1)
                block = self.blocks[id] = Blocks(BasicBlock(id, ()))
                # Debug information may stand between blocks: it goes on in the next one.
                block.body, between = between, []
            elif block is None:
                if index.name(row) in EXTENDED:
                    between.append(row)
                elif index.name(row) not in LIFETIMES:
                    raise index.error("the instruction stands outside of a block")
            elif opcode == phi:
                if any(index.name(r) not in (*LIFETIMES, *EXTENDED) for r in block.body):
                    raise index.error("OpPhi stands behind other instructions")
                block.phis.append(row)
            elif opcode in merges:
                block.merge = row
            elif opcode in ends:
                block.terminator = row
                self._flow(block)
                block = None
            else:
                block.body.append(row)
        if block is not None:
            raise index.error("the function ends inside a block")
        for last in list(self.blocks.values())[-1:]:
            last.body += between
        for found in self.blocks.values():
            flow = found.flow
            index.at = found.terminator
            targets = (*flow.successors, flow.merge, flow.continue_target)
            for target in targets:
                if target is not None and target not in self.blocks:
                    raise index.error(f"%{target} is no block of the function")

    def _flow(self, block: Blocks) -> None:
        """What a block's end says about control flow."""
        index, flow = self.index, block.flow
        words, name = self.rows[block.terminator], index.name(block.terminator)
        flow.bare = not block.phis
        if name == "OpBranch":
            flow.successors, flow.unconditional = (index.word(words, 1),), True
        elif name == "OpBranchConditional":
            flow.successors = (index.word(words, 2), index.word(words, 3))
        elif name == "OpSwitch":
            operands = index.raw[block.terminator].operands
            flow.successors = tuple(int(o.value) for o in (operands[1], *operands[3::2]))
        if block.merge is not None:
            merge = self.rows[block.merge]
            flow.merge = index.word(merge, 1)
            if index.name(block.merge) == "OpLoopMerge":
                flow.continue_target = index.word(merge, 2)

    # Blocks.

    def _make_blocks(self, labels: Sequence[int]) -> None:
        for label in labels:
            types = [self.type(self.index.word(self.rows[r], 1)) for r in self.blocks[label].phis]
            self._made[label] = Block(arg_types=types)

    def _bind(self, label: int, values: Sequence[SSAValue], block: Block) -> None:
        """Gives the phis of a block their values."""
        for row, value in zip(self.blocks[label].phis, values, strict=True):
            id = self.index.word(self.rows[row], 2)
            self._define(id, value)
            if id in self.module.annotations.notes:
                decorate = DecorateOp(value)
                decorate.attributes |= self._notes(id)
                block.add_op(decorate)

    def _notes(self, id: int) -> dict[str, Attribute]:
        return self.module.annotations.attributes(id, self._noted)

    def _noted(self, id: int) -> Attribute:
        return self.module.globals.operand(id)

    def _enter(self, label: int) -> None:
        """Fills a block of its own."""
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
        The instructions of a block, and of those that go on in it.

        `entering` are the values of a loop header's phis, where the loop begins with this block.
        """
        constructs = self.constructs
        while True:
            construct = None if constructs is None else constructs.of_header.get(label)
            if construct is not None and entering is not None:
                results = self._loop(construct, block, entering)
                label, entering = self._behind(construct, results, block)
                continue
            self._instructions(label, block)
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
        """The header of the loop whose region a block's branch stands in."""
        inner = self._inner(label)
        return None if inner is None else inner.header

    def _behind(
        self, construct: Construct, results: list[SSAValue], block: Block
    ) -> tuple[int, list[SSAValue] | None]:
        """The merge block, which goes on in the block around its construct."""
        label = construct.merge
        if self._loop_at(label) is not None:
            return label, results
        self._bind(label, results, block)
        return label, None

    def _selection(self, construct: Construct, block: Block) -> list[SSAValue]:
        found = self.blocks[construct.header]
        words = self.rows[found.merge or 0]
        self.index.at = found.merge or 0
        control = SelectionControl(self.index.word(words, 2))
        op = SelectionOp(Region(), self._phi_types(construct.merge), control)
        header, merge = Block(), self._merge_block(construct)
        self._make_blocks(construct.blocks)
        op.body.add_block([header, *(self._made[b] for b in construct.blocks), merge])
        block.add_op(op)
        self._place(op, found.terminator)
        self._open(op)
        self._terminate(construct.header, header)
        for label in construct.blocks:
            self._enter(label)
        merge.add_op(MergeOp(merge.args))
        self._close()
        return list(op.results)

    def _loop(
        self, construct: Construct, block: Block, entering: Sequence[SSAValue]
    ) -> list[SSAValue]:
        header, target = construct.header, construct.continue_target
        assert target is not None
        found = self.blocks[header]
        row = found.merge or 0
        words, self.index.at = self.rows[row], row
        control = LoopControl(self.index.word(words, 3))
        op = LoopOp(Region(), self._phi_types(construct.merge), control)
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
        entry = Block([BranchOp(first, entering)])
        op.body.add_block([entry, first, *(self._made[b] for b in inside), back, merge])
        block.add_op(op)
        self._place(op, row)
        self._open(op)
        self._bind(header, first.args, first)
        if target == header:
            self._instructions(header, first)
            first.add_op(BranchOp(back))
            self._terminate(header, back)
        else:
            self._fill(header, first)
        for label in self._in_order(inside, target, header):
            self._enter(label)
        merge.add_op(MergeOp(merge.args))
        self._close()
        return list(op.results)

    def _in_order(self, inside: Sequence[int], target: int, header: int) -> list[int]:
        """A loop's blocks as the binary has them: what is defined comes before its uses."""
        if target == header:
            return list(inside)
        return [b for b in self.blocks if b == target or b in set(inside)]

    def _merge_block(self, construct: Construct) -> Block:
        made = Block(arg_types=self._phi_types(construct.merge))
        self._merges[construct.merge] = made
        return made

    def _phi_types(self, label: int) -> list[Attribute]:
        return [self.type(self.index.word(self.rows[r], 1)) for r in self.blocks[label].phis]

    # Branches.

    def _inner(self, label: int) -> Construct | None:
        """The construct whose region holds a block's branch."""
        constructs = self.constructs
        if constructs is None:
            return None
        return constructs.of_header.get(label) or constructs.region[label]

    def _passed(self, label: int, target: int) -> list[SSAValue]:
        """What a branch gives to the phis of its target."""
        values: list[SSAValue] = []
        for row in self.blocks[target].phis:
            words, self.index.at = self.rows[row], row
            for value, parent in zip(words[3::2], words[4::2], strict=False):
                if parent == label:
                    values.append(self.value(value))
                    break
            else:
                raise self.index.error(f"OpPhi has no value for %{label}")
        return values

    def _way(self, label: int, target: int) -> tuple[Block, int]:
        """The block that a branch goes to, and how many constructs it leaves on its way."""
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
        cls = BreakOp if target in self._merges else ContinueOp
        return cls(levels, self._passed(label, target))

    def _branch(self, label: int, target: int, block: Block) -> tuple[Block, list[SSAValue]]:
        """Where one way of a branch goes inside its region, an exit in a block of its own."""
        way, levels = self._way(label, target)
        if not levels:
            return way, self._passed(label, target)
        leaving = Block([self._exit(label, target, levels)])
        region = block.parent
        assert region is not None
        region.insert_block_after(leaving, block)
        return leaving, []

    def _terminate(self, label: int, block: Block) -> None:
        """The branch, or other end, of a block."""
        found = self.blocks[label]
        row = self.index.at = found.terminator
        words, name = self.rows[row], self.index.name(row)
        self._lines(found.body)
        made: Operation
        if name == "OpBranch":
            target = words[1]
            way, levels = self._way(label, target)
            if levels:
                made = self._exit(label, target, levels)
            else:
                made = BranchOp(way, self._passed(label, target))
        elif name == "OpBranchConditional":
            made = self._conditional(label, block, words)
        elif name == "OpSwitch":
            made = self._switch(label, block, row)
        else:
            self._instruction(row, block)
            return
        made.location = self._location
        if self.constructs is None and found.merge is not None:
            self._note_merge(made, found)
        block.add_op(made)

    def _note_merge(self, op: Operation, found: Blocks) -> None:
        """The merge instruction of a function without regions."""
        words, places = self.rows[found.merge or 0], list(self.blocks)
        labels = 1 if found.flow.continue_target is None else 2
        numbers = [places.index(w) for w in words[1 : 1 + labels]]
        numbers += [w - (1 << 32) if w >> 31 else w for w in words[1 + labels :]]
        name = SELECTION_MERGE if labels == 1 else LOOP_MERGE
        op.attributes[name] = DenseArrayBase.from_list(i32, numbers)

    def _conditional(self, label: int, block: Block, words: Sequence[int]) -> Operation:
        condition = self.value(words[1])
        first, second = words[2:4]
        if first == second and self.blocks[label].merge is None:
            # One way is no choice, and OpBranchConditional may not name one label twice.
            way, levels = self._way(label, first)
            if levels:
                return self._exit(label, first, levels)
            return BranchOp(way, self._passed(label, first))
        taken, given = self._branch(label, first, block)
        otherwise, others = self._branch(label, second, block)
        weights = (words[4], words[5]) if len(words) == 6 else None
        return BranchConditionalOp(condition, taken, otherwise, given, others, weights)

    def _switch(self, label: int, block: Block, row: int) -> Operation:
        selector, default, *cases = self.index.raw[row].operands
        value = self.value(int(selector.value))
        t = value.type
        if not isinstance(t, IntegerType):
            raise self.index.error("the selector is no integer")
        otherwise = self._branch(label, int(default.value), block)
        targets: list[tuple[int, Block, Sequence[SSAValue]]] = []
        width, signed = t.width.data, t.signedness.data is not Signedness.UNSIGNED
        for literal, target in zip(cases[::2], cases[1::2], strict=True):
            number = int(literal.value)
            number -= 1 << width if signed and number >> (width - 1) else 0
            targets.append((number, *self._branch(label, int(target.value), block)))
        return SwitchOp(value, otherwise, targets)

    # Instructions.

    def _lines(self, rows: Sequence[int]) -> None:
        """A line instruction directly before a block's end is among its instructions."""

    def _place(self, op: Operation, row: int) -> None:
        op.location = self._location

    def _instructions(self, label: int, block: Block) -> None:
        self._location = UNKNOWN_LOC
        for row in self.blocks[label].body:
            self._instruction(row, block)

    def _instruction(self, row: int, block: Block) -> None:
        index, words = self.index, self.rows[row]
        index.at = row
        opcode = words[0] & 0xFFFF
        decode = self._plan(opcode, words)
        if decode is None:
            self._uncommon(row, block)
            return
        try:
            op = decode(self, words)
        except NotDeclared:
            self._carry(row, block)
            return
        except VerifyException:
            self._carry(row, block)
            return
        op.location = self._location
        if op.results:
            id = words[2]
            if id in self.module.annotations.notes:
                op.attributes |= self._notes(id)
        if self.module.checked and not self._held(op, block):
            self._carry(row, block)
            return
        if isinstance(op, VariableOp | UntypedVariableOp):
            # A function's variables stand first.
            self._variables.append(op)
        elif op.parent is None:
            block.add_op(op)
        if op.results:
            self._define(words[2], op.results[0])

    @staticmethod
    def _held(op: Operation, block: Block) -> bool:
        """Whether the dialect accepts an operation where it stands; removed again if not."""
        if not isinstance(op, VariableOp | UntypedVariableOp):
            block.add_op(op)
        try:
            op.verify_()
        except VerifyException:
            if op.parent is not None:
                op.detach()
            op.erase()
            return False
        return True

    def _plan(self, opcode: int, words: Sequence[int]) -> Decode | None:
        """How to read an instruction; None if no operation stands for it."""
        if opcode == opcode_of("OpExtInst"):
            if len(words) < 5:
                raise self.index.error("the instruction ends before its number")
            name = self.index.raw.symbols.imports.get(words[3])
            if name is None or name not in extended_sets():
                return None
            cls = classes().get((name, words[4]))
        else:
            cls = PLAIN.get(opcode)
            if cls is None and opcode not in PLAIN:
                cls = PLAIN[opcode] = _class_of(opcode)
        return None if cls is None else decoder_of(cls)

    def _uncommon(self, row: int, block: Block) -> None:
        """Lines, and what no operation of the dialect stands for."""
        words = self.rows[row]
        match self.index.name(row):
            case "OpLine":
                file = self.index.definitions.get(self.index.word(words, 1))
                if file is None or self.index.name(file) != "OpString":
                    raise self.index.error("a line's file is no OpString")
                name = self.index.string(self.rows[file], 2)
                line, column = self.index.word(words, 2), self.index.word(words, 3)
                at = FileLineColLoc(StringAttr(name), IntAttr(line), IntAttr(column))
                self._location = cast("LocationAttr", at)
            case "OpNoLine":
                self._location = UNKNOWN_LOC
            case "OpNop":
                pass
            case "OpUndef":
                pass  # It is defined where it is first used.
            case _:
                self._carry(row, block)

    def _carry(self, row: int, block: Block) -> None:
        """An instruction as it stands."""
        index, words = self.index, self.rows[row]
        known = facts(index.opcodes[row])
        operands: list[Attribute | SSAValue] = []
        is_extended = index.name(row) in EXTENDED
        for operand in self.module.globals.operands(row):
            value, kind = operand.value, operand.kind
            if kind in ("IdResultType", "IdResult"):
                continue
            if isinstance(value, str):
                operands.append(index.text(value))
            elif kind.startswith("Id"):
                first = is_extended and not operands
                operands.append(
                    self.module.globals.extended_set(value) if first else self._id(value)
                )
            elif operand.number is not None:
                operands += [IntAttr(w) for w in words_of(value, operand.number)]
            else:
                operands.append(IntAttr(value))
        assert known is not None
        t: Attribute | None = self.type(words[1]) if known.has_type else None
        if t is None and known.has_result:
            t = NoneType()
        cls = RawTerminatorOp if known.name in TERMINATORS else RawOp
        op = cls(known.name, operands, t)
        op.location = self._location
        if known.has_result:
            id = words[1 + known.has_type]
            op.attributes |= self._notes(id)
            self._define(id, op.results[0])
        block.add_op(op)

    def _id(self, id: int) -> Attribute | SSAValue:
        """An id among the operands of a carried instruction."""
        row = self.index.definitions.get(id)
        if row is None:
            raise self.index.error(f"%{id} is not defined")
        if row in self.span and row != self.span.start:
            if self.index.name(row) == "OpLabel":
                raise self.index.error("a block cannot be an operand of a carried instruction")
            return self.value(id)
        name = self.index.name(row) or ""
        if name.startswith("OpType"):
            return self.type(id)
        if name in ("OpString", "OpFunction", *EXTENDED):
            return self.module.globals.carried(id)
        return self.value(id)


PLAIN: dict[int, type[IRDLOperation] | None] = {}
"""Opcode -> the class of operation that stands for it inside a function."""


def _class_of(opcode: int) -> type[IRDLOperation] | None:
    """The class for an instruction inside of a function."""
    known = facts(opcode)
    if known is None or known.name in ("OpLine", "OpNoLine", "OpNop", "OpUndef", "OpLabel"):
        return None
    return classes().get((None, opcode))
