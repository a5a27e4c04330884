"""
Executes functions on symbolic values: structured control flow, calls, variables, pointers.

Both sides of a branch are executed under their conditions. Where the sides join, variables and
block arguments become selections. A loop is unrolled while its condition can be true, up to a
limit. `kernel.py` uses invariants instead. Subclasses define memory.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import StringAttr, VectorType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from xdsl_spirv.dialects.spirv import control_flow as flow
from xdsl_spirv.dialects.spirv import exits, memory, structure
from xdsl_spirv.dialects.spirv.enums import StorageClass
from xdsl_spirv.dialects.spirv.types import CooperativeMatrixType, PointerType, StructType
from xdsl_spirv.interpreter import semantics
from xdsl_spirv.interpreter.constants import attribute_array
from xdsl_spirv.interpreter.context import symbol_name
from xdsl_spirv.prove.meaning import evaluate, put_part, take
from xdsl_spirv.prove.solvers import Limits
from xdsl_spirv.prove.values import (
    ALWAYS,
    NEVER,
    Scalar,
    Term,
    Terms,
    Unsupported,
    Value,
    both,
    build,
    choose,
    constant_term,
    either,
    known_number,
    negate,
    parts_of,
    z3,
)

State = dict[Hashable, Value]
"""Maps the keys of variables, and of memory whose contents are modelled, to values."""

TRIPS = 256
"""Maximum number of iterations of a loop that is unrolled."""

INVOCATION = (StorageClass.Function, StorageClass.Private)


@dataclass(frozen=True)
class Place:
    """A pointer: a variable (`root`), and the indices (`path`) of the part that it points to."""

    root: Hashable
    storage: StorageClass
    whole: Attribute
    path: tuple[Scalar, ...]
    type: Attribute


@dataclass(frozen=True)
class Edge:
    """A control-flow edge into a block: its condition, the state, and the block's arguments."""

    guard: Term
    state: State
    arguments: tuple[Value, ...] = ()


@dataclass
class Frame:
    """A call in execution: its values, pending edges by block, and return edges."""

    values: dict[SSAValue, Value] = field(default_factory=dict[SSAValue, Value])
    edges: dict[Block, list[Edge]] = field(default_factory=dict[Block, list[Edge]])
    returns: list[Edge] = field(default_factory=list[Edge])
    escapes: int = 0


class Executor:
    """
    A symbolic executor of the functions of one module.

    At the current instruction, `guard` is the path condition, and `state` has the values of memory.
    """

    def __init__(self, module: structure.ModuleOp, terms: Terms, limits: Limits = Limits()):
        semantics.load()
        self.module, self.terms, self.limits = module, terms, limits
        self.symbols: Mapping[str, Operation] = {
            name.data: op
            for op in module.body.block.ops
            if isinstance(name := op.properties.get("sym_name"), StringAttr)
        }
        self.guard: Term = ALWAYS
        self.state: State = {}
        self.frames: list[Frame] = []
        self.trips = TRIPS

    def initial(self, key: Hashable) -> Value:
        """Returns the value of a variable or memory before it is written."""
        raise NotImplementedError

    def global_value(self, op: Operation) -> Value:
        """Returns the pointer to a module variable."""
        assert isinstance(op, structure.GlobalVariableOp)
        type = op.type.pointee
        return Place(op.sym_name.data, op.storage_class, type, (), type)

    def load(self, place: Place, op: Operation) -> Value:
        """Loads from memory. Subclasses define memory."""
        raise Unsupported(f"memory of storage class {place.storage.name} is not supported", op)

    def store(self, place: Place, value: Value, op: Operation) -> None:
        """Stores to memory. Subclasses define memory."""
        raise Unsupported(f"memory of storage class {place.storage.name} is not supported", op)

    def act(self, op: Operation, operands: Sequence[Value]) -> tuple[Value, ...]:
        """Executes an instruction that is not a function of its operands."""
        raise Unsupported(f"{op.name} is not supported", op)

    def check_index(self, index: Scalar, count: int, op: Operation) -> None:
        """Called for each index into a variable of the invocation. Does nothing by default."""

    def see(self, op: Operation, operands: Sequence[Value]) -> None:
        """Called for each executed instruction with its operands. Does nothing by default."""

    def call(self, function: structure.FuncOp, arguments: Sequence[Value]) -> Value | None:
        """Executes a function and returns its value."""
        if len(self.frames) > 20 or not function.body.blocks:
            raise Unsupported(
                f"@{function.sym_name.data} has no body, or its calls are nested too deeply"
            )
        frame, guard = Frame(), self.guard
        self.frames.append(frame)
        first = function.body.blocks[0]
        frame.edges[first] = [Edge(guard, self.state, tuple(arguments))]
        self.run_blocks(order_blocks(function.body), frame)
        self.frames.pop()
        if not frame.returns:
            self.guard = NEVER
            return None
        merged = self.merge(frame.returns)
        # All other terminators only branch to blocks.
        self.guard = guard if frame.escapes == len(frame.returns) else merged.guard
        self.state = merged.state
        return merged.arguments[0] if merged.arguments else None

    def run_blocks(self, blocks: Sequence[Block], frame: Frame) -> None:
        """Executes blocks in order, each once, from its incoming edges."""
        for block in blocks:
            edges = frame.edges.pop(block, None)
            if edges:
                self.run_block(block, self.merge(edges), frame)

    def run_block(self, block: Block, edge: Edge, frame: Frame) -> None:
        """Executes a block from one edge."""
        self.guard, self.state = edge.guard, dict(edge.state)
        frame.values.update(zip(block.args, edge.arguments, strict=True))
        for op in block.ops:
            if z3.is_false(self.guard):
                return
            try:
                self.execute(op, frame)
            except Unsupported as error:
                error.op = error.op or op
                raise

    def merge(self, edges: Sequence[Edge]) -> Edge:
        """Merges several edges into one."""
        last = edges[-1]
        if len(edges) == 1:
            return last
        state, arguments = last.state, last.arguments
        for edge in edges[-2::-1]:
            keys = {**edge.state, **state}
            state = {
                key: self.join(
                    edge.guard, self._value_in(edge.state, key), self._value_in(state, key)
                )
                for key in keys
                if (key in edge.state and key in state) or not _is_local(key)
            }
            pairs = zip(edge.arguments, arguments, strict=True)
            arguments = tuple(choose(edge.guard, x, y) for x, y in pairs)
        return Edge(either([e.guard for e in edges]), state, arguments)

    def unset(self, type: Attribute) -> Value:
        """Returns the value of memory that was never written."""
        return Scalar(constant_term(0, type), ALWAYS)

    def settle(self, results: Sequence[Value]) -> Sequence[Value]:
        """
        Called with the results of each instruction. Returns the results to use instead, by default
        the same.
        """
        return results

    def join(self, guard: Term, one: Value, other: Value) -> Value:
        """Returns the value at a merge point: `one` where `guard` holds, otherwise `other`."""
        return choose(guard, one, other)

    def _value_in(self, state: State, key: Hashable) -> Value:
        return state[key] if key in state else self.initial(key)

    def execute(self, op: Operation, frame: Frame) -> None:
        """Executes one operation."""
        self.limits.check()
        if isinstance(op, flow.SelectionOp | flow.LoopOp):
            return self.run_construct(op, frame)
        operands = [frame.values[o] for o in op.operands]
        if self._leave(op, operands, frame):
            return None
        results = self.settle(self._results(op, operands))
        self.see(op, operands)
        frame.values.update(zip(op.results, results, strict=True))
        return None

    def run_construct(self, op: flow.SelectionOp | flow.LoopOp, frame: Frame) -> None:
        """Executes a selection or a loop, and continues after it."""
        if not op.body.blocks:
            return
        guard, escapes = self.guard, frame.escapes
        frame.edges[op.body.blocks[0]] = [Edge(guard, self.state)]
        if isinstance(op, flow.LoopOp):
            self.run_loop(op, frame)
        else:
            self.run_blocks(order_blocks(op.body)[:-1], frame)
        self.leave_construct(op, guard if escapes == frame.escapes else None, frame)

    def leave_construct(
        self, op: flow.SelectionOp | flow.LoopOp, guard: Term | None, frame: Frame
    ) -> None:
        """
        Continues at the merge block of a construct.

        `guard` is the path condition there; None to combine the conditions of the incoming edges.
        """
        merge = op.merge_block
        assert merge is not None
        edges = frame.edges.pop(merge, None)
        if not edges:
            self.guard = NEVER
            return
        merged = self.merge(edges)
        self.guard = merged.guard if guard is None else guard
        self.state = dict(merged.state)
        frame.values.update(zip(merge.args, merged.arguments, strict=True))
        end = merge.last_op
        assert end is not None
        results = [frame.values[o] for o in end.operands]
        frame.values.update(zip(op.results, results, strict=True))

    def run_loop(self, op: flow.LoopOp, frame: Frame) -> None:
        """Unrolls a loop while its condition can be true."""
        blocks = order_blocks(op.body)[:-1]
        header = blocks[1]
        for _ in range(self.trips):
            self.run_blocks(blocks, frame)
            edges = frame.edges.get(header, [])
            known_guards = [(e, z3.simplify(e.guard)) for e in edges]
            frame.edges[header] = [e for e, guard in known_guards if not z3.is_false(guard)]
            if not frame.edges[header]:
                return
        raise Unsupported(
            f"a loop has more than {self.trips} iterations, or their number is not known", op
        )

    def jump(self, block: Block, guard: Term, arguments: Sequence[Value], frame: Frame) -> None:
        """Adds an edge to a block, which is taken where `guard` holds and passes `arguments`."""
        if not z3.is_false(guard):
            frame.edges.setdefault(block, []).append(Edge(guard, self.state, tuple(arguments)))

    def _leave(self, op: Operation, operands: Sequence[Value], frame: Frame) -> bool:
        match op:
            case flow.BranchOp():
                self.jump(op.target, self.guard, operands, frame)
            case flow.BranchConditionalOp():
                condition = self.condition(operands[0], op)
                taken = (condition, negate(condition))
                for (target, passed), holds in zip(op.edges, taken, strict=True):
                    arguments = [frame.values[o] for o in passed]
                    self.jump(target, both(self.guard, holds), arguments, frame)
            case flow.SwitchOp():
                self._switch(op, frame)
            case exits.BreakOp() | exits.ContinueOp():
                frame.escapes += 1
                assert op.target is not None
                self.jump(op.target, self.guard, operands, frame)
            case flow.ReturnOp() | flow.ReturnValueOp() | flow.KillOp():
                frame.escapes += 1
                frame.returns.append(Edge(self.guard, self.state, tuple(operands)))
            case flow.UnreachableOp():
                frame.escapes += 2
                self.note_undefined(self.guard, op)
            case _:
                return False
        return True

    def condition(self, value: Scalar, op: Operation) -> Term:
        """Returns the term of a branch condition. An undefined condition is undefined behaviour."""
        self.note_undefined(both(self.guard, value.undefined), op)
        known = z3.simplify(value.term)
        # An unknown condition is not simplified, because ranges use its sides to bound indices.
        return known if z3.is_true(known) or z3.is_false(known) else value.term

    def note_undefined(self, condition: Term, op: Operation) -> None:
        """Handles a condition under which behaviour is undefined. Does nothing by default."""

    def _switch(self, op: flow.SwitchOp, frame: Frame) -> None:
        selector = frame.values[op.selector]
        self.note_undefined(both(self.guard, selector.undefined), op)
        numbers = [] if op.literals is None else attribute_array(op.literals).reshape(-1).tolist()
        rest = self.guard
        (default, passed), *cases = op.edges
        for number, (target, given) in zip(numbers, cases, strict=True):
            taken = z3.simplify(selector.term == int(number))
            arguments = [frame.values[o] for o in given]
            self.jump(target, both(self.guard, taken), arguments, frame)
            rest = both(rest, negate(taken))
        self.jump(default, rest, [frame.values[o] for o in passed], frame)

    def _results(self, op: Operation, operands: Sequence[Value]) -> Sequence[Value]:
        match op:
            case structure.AddressOfOp():
                return [self.global_value(self.symbols[symbol_name(op.variable)])]
            case memory.VariableOp():
                return [self._variable(op, operands)]
            case memory.AccessChain():
                return [self.chain(operands[0], operands[1:], op)]
            case memory.LoadOp():
                return [self.read(operands[0], op)]
            case memory.StoreOp():
                self.write(operands[0], operands[1], op)
                return []
            case memory.ArrayLengthOp():
                return self.act(op, operands)
            case flow.FunctionCallOp():
                callee = self.symbols[symbol_name(op.callee)]
                assert isinstance(callee, structure.FuncOp)
                value = self.call(callee, operands)
                return [] if not op.results else [value]
            case _:
                return self._compute(op, operands)

    def _compute(self, op: Operation, operands: Sequence[Value]) -> Sequence[Value]:
        meaning = semantics.TABLE.get(type(op))
        if meaning is not None and meaning.kind == "action":
            from xdsl_spirv.prove.meaning import SPECIAL

            if type(op) not in SPECIAL:
                return self.act(op, operands)
        return evaluate(op, operands, self.terms)

    def _variable(self, op: memory.VariableOp, operands: Sequence[Value]) -> Place:
        assert isinstance(op.result.type, PointerType)
        type = op.result.type.pointee
        key = ("local", op, len(self.frames))
        self.state[key] = operands[0] if operands else build(type, self.unset, self.length)
        return Place(key, StorageClass.Function, type, (), type)

    def length(self, length: Any) -> int:
        """Returns the number of an array's elements."""
        number = getattr(length, "data", None)
        if not isinstance(number, int):
            raise Unsupported(
                "a specialization constant determines an array's length: run spirv-specialize first"
            )
        return number

    def chain(self, base: Value, indexes: Sequence[Scalar], op: Operation) -> Place:
        """Returns the pointer to the part of `base` that `indexes` select."""
        if not isinstance(base, Place):
            raise Unsupported("a pointer to an unknown variable is not supported", op)
        type = base.type
        for index in indexes:
            type = self.part_type(type, index)
        return Place(base.root, base.storage, base.whole, (*base.path, *indexes), type)

    def part_type(self, type: Attribute, index: Scalar) -> Attribute:
        """Returns the type of the part of `type` that an index selects."""
        if isinstance(type, StructType):
            number = known_number(index.term)
            assert number is not None
            return type.member_types[number]
        if isinstance(type, VectorType):
            return type.element_type
        parts = getattr(type, "element_type", None) or getattr(type, "column_type", None)
        if parts is None or isinstance(type, CooperativeMatrixType):
            raise Unsupported(f"{type} cannot be indexed")
        return parts

    def read(self, place: Value, op: Operation) -> Value:
        """Loads from a variable of the invocation, or from memory."""
        if not isinstance(place, Place):
            raise Unsupported("a pointer to an unknown variable is not supported", op)
        if place.storage not in INVOCATION:
            return self.load(place, op)
        value, type = self._value_in(self.state, place.root), place.whole
        for index in place.path:
            parts = parts_of(type, self.length) or []
            self.check_index(index, len(parts), op)
            value, type = take(value, index), self.part_type(type, index)
        return value

    def write(self, place: Value, value: Value, op: Operation) -> None:
        """Stores to a variable of the invocation, or to memory."""
        if not isinstance(place, Place):
            raise Unsupported("a pointer to an unknown variable is not supported", op)
        if place.storage not in INVOCATION:
            return self.store(place, value, op)
        old = self._value_in(self.state, place.root)
        self.state[place.root] = self._with_part(old, place.whole, place.path, value, op)
        return None

    def _with_part(
        self, old: Value, type: Attribute, path: Sequence[Scalar], value: Value, op: Operation
    ) -> Value:
        if not path:
            return value
        index = path[0]
        self.check_index(index, len(parts_of(type, self.length) or []), op)
        part = self._with_part(take(old, index), self.part_type(type, index), path[1:], value, op)
        return put_part(old, index, part)


def _is_local(key: Hashable) -> bool:
    return isinstance(key, tuple) and key[0] == "local"


def order_blocks(region: Region) -> list[Block]:
    """
    Sorts a region's blocks so that each comes after its predecessors.

    The merge block of a construct is the last block. A loop's continue target comes just before it.
    """
    blocks = list(region.blocks)
    if len(blocks) == 1:
        return blocks
    parent = region.parent_op()
    fixed = blocks[-1:] if isinstance(parent, flow.Construct) else []
    if isinstance(parent, flow.LoopOp):
        fixed = blocks[-2:]
    done, order = set[Block](fixed), list[Block]()

    def visit(block: Block) -> None:
        if block in done:
            return
        done.add(block)
        end = block.last_op
        for target in end.successors[::-1] if end is not None else ():
            if target.parent is region:
                visit(target)
        order.append(block)

    visit(blocks[0])
    return [*order[::-1], *fixed]
