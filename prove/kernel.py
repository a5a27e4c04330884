"""
A kernel executed once for any invocation of any launch: its accesses, barriers and demands.

Symbols have levels: symbols of the launch (grid, lengths, push constants, contents that are never
written) are equal for all invocations, symbols of a workgroup or of an iteration between barriers
within it, all others belong to one invocation. A second invocation is the same terms with its own
symbols in the place of the first one's. A load from memory that the kernel writes gives any number.

Accesses stand in intervals between barriers. A loop without barriers is executed once, from a state
in which the variables that it changes have any value that fulfils inductive facts. A loop with
barriers is executed three times: the first iteration up to its barrier, a general one, and the head
of the next; its variables are the workgroup's where their terms say so.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import count

from xdsl.dialects.builtin import IntAttr, VectorType, i32
from xdsl.ir import Attribute, Block, Operation

from xdsl_spirv.dialects.spirv import control_flow as flow
from xdsl_spirv.dialects.spirv import memory
from xdsl_spirv.dialects.spirv.atomic import AtomicLoadOp, AtomicOperation, AtomicStoreOp
from xdsl_spirv.dialects.spirv.barrier import ControlBarrierOp, MemoryBarrierOp
from xdsl_spirv.dialects.spirv.enums import Scope, StorageClass
from xdsl_spirv.dialects.spirv.group import GroupNonUniformOperation
from xdsl_spirv.dialects.spirv.raw import RawGlobalOp
from xdsl_spirv.dialects.spirv.structure import GlobalVariableOp, ModuleOp
from xdsl_spirv.dialects.spirv.types import RuntimeArrayType, StructType
from xdsl_spirv.interpreter import Options
from xdsl_spirv.interpreter.batch import Geometry
from xdsl_spirv.interpreter.checks.accessors import SAME_WORKGROUP
from xdsl_spirv.interpreter.checks.memory_model import BUFFERS, WORKGROUPS, Facts, MemoryModel
from xdsl_spirv.interpreter.context import Context
from xdsl_spirv.interpreter.pointers import accessed_pointer, is_write, root_of
from xdsl_spirv.interpreter.spirv.module import find_entry, workgroup_size
from xdsl_spirv.prove.executing import Edge, Executor, Frame, Place, order_blocks
from xdsl_spirv.prove.meaning import UNDEFINED
from xdsl_spirv.prove.solvers import Limits, ask
from xdsl_spirv.prove.values import (
    NEVER,
    Scalar,
    Term,
    Terms,
    Unsupported,
    Value,
    both,
    build,
    choose_term,
    constant_term,
    constants_of,
    known_number,
    parts_of,
    scalars,
    variable_term,
    z3,
)

LAUNCH, WORKGROUP, ITERATION, ONE = range(4)
"""Levels of symbols."""

MOST_GROUPS = 65535
INTERVAL = "interval"
QUICK = Limits(seconds=2, work=1_000_000)
ORDERS: tuple[Callable[[Term, Term], Term], ...] = (
    z3.ULE,
    z3.UGE,
    lambda x, y: x <= y,
    lambda x, y: x >= y,
)
"""Relations of a variable to its first value that may hold in every iteration."""
SHARED = (StorageClass.Workgroup, StorageClass.StorageBuffer, StorageClass.Uniform)


@dataclass(frozen=True)
class Access:
    """One access to memory that invocations share, and the condition under which it is made."""

    op: Operation
    place: Place
    guard: Term
    write: bool
    atomic: bool
    facts: Facts
    intervals: frozenset[int] | None
    """The intervals it may be in; None if no barrier orders it."""


@dataclass(frozen=True)
class Demand:
    """A demand of an instruction: `wrong` must not hold in any invocation."""

    question: str
    what: str
    op: Operation
    wrong: Term
    length: Term | None = None
    """The length of the runtime array that an index must stay below."""


class Kernel(Executor):
    """The accesses, barriers and demands of an entry point."""

    def __init__(self, module: ModuleOp, entry: str):
        super().__init__(module, Terms())
        context = Context(module, Options(), Geometry((0, 0, 0), (1, 1, 1), 32))
        self.model = MemoryModel(context)
        self.function = find_entry(module, entry)
        self.size = workgroup_size(context, self.function)
        self.levels: dict[str, int] = {}
        self.facts: list[Term] = []
        self.accesses: list[Access] = []
        self.barriers: list[tuple[Operation, Term]] = []
        self.demands: list[Demand] = []
        self.lengths: dict[tuple[Hashable, int], Term] = {}
        self.pushed: dict[tuple[int, ...], Term] = {}
        self._numbers = count(1)
        self._cut = False
        self._quiet = 0
        self.ordered = self._find_ordered()
        self.written = {
            root_of(pointer)
            for op in module.walk()
            if is_write(op) and (pointer := accessed_pointer(op, True)) is not None
        }
        self.group, self.local, self.grid = (
            [self.symbol(f"{name}.{axis}", i32, level) for axis in "xyz"]
            for name, level in (("workgroup", WORKGROUP), ("local", ONE), ("grid", LAUNCH))
        )
        for group, local, grid, size in zip(
            self.group, self.local, self.grid, self.size, strict=True
        ):
            self.facts += [z3.ULT(group, grid), z3.ULT(local, size), z3.ULE(grid, MOST_GROUPS)]

    def _find_ordered(self) -> list[bool]:
        """Whether every barrier of the workgroup orders Workgroup memory, and buffers."""
        barriers = [op for op in self.module.walk() if isinstance(op, ControlBarrierOp)]
        said = [self.model.semantics(op) for op in barriers]
        return [
            all(
                s.both >> kind & 1 and min(s.scope, s.available, s.visible) >= SAME_WORKGROUP
                for s in said
            )
            for kind in (WORKGROUPS, BUFFERS)
        ]

    def run(self) -> None:
        """Executes the entry point."""
        bound = [
            (op.descriptor_set, op.binding)
            for op in self.module.body.block.ops
            if isinstance(op, GlobalVariableOp) and op.binding is not None
        ]
        if len(set(bound)) != len(bound):
            raise Unsupported("two variables share a binding")
        if any("aliased" in op.attributes for op in self.module.body.block.ops):
            raise Unsupported("a buffer that is declared to alias another")
        self.state = {INTERVAL: self._interval()}
        self.call(self.function, [])

    def _interval(self) -> frozenset[int]:
        return frozenset([next(self._numbers)])

    def symbol(self, name: str, type: Attribute, level: int) -> Term:
        """A symbol of a level."""
        self.levels[name] = level
        return variable_term(name, type)

    def fresh(self, type: Attribute, level: int, what: str) -> Value:
        """A value of which nothing is known."""
        made = lambda t: Scalar(self.symbol(f"{what}!{next(self._numbers)}", t, level))  # noqa: E731
        return build(type, made, self.length)

    def join(self, guard: Term, one: Value, other: Value) -> Value:
        """Intervals are united where paths meet."""
        if isinstance(one, frozenset):
            return one | other
        return super().join(guard, one, other)

    def initial(self, key: Hashable) -> Value:
        """Private variables begin with any value."""
        op = self.symbols[str(key)]
        assert isinstance(op, GlobalVariableOp)
        self.state[key] = self.fresh(op.type.pointee, ONE, "private")
        return self.state[key]

    # Memory.

    def global_value(self, op: Operation) -> Value:
        """The place of a variable of the module."""
        if not isinstance(op, GlobalVariableOp):
            raise Unsupported(f"{op.name} is not supported")
        if op.built_in is not None:
            type = op.type.pointee
            return Place(("built-in", op.built_in.data), op.storage_class, type, (), type)
        return super().global_value(op)

    def load(self, place: Place, op: Operation) -> Value:
        """A part of the launch, the contents of a buffer, or any value."""
        if isinstance(place.root, tuple):
            return self._built_in(str(place.root[1]), place)
        if place.storage is StorageClass.PushConstant:
            return self._read_push_constant(place)
        self._check_path(place, op)
        if place.storage not in SHARED:
            raise Unsupported(f"memory of storage class {place.storage.name}", op)
        self._access(place, op, False)
        if place.storage is not StorageClass.Workgroup and not {place.root, None} & self.written:
            return build(place.type, _Contents(place), self.length)
        return self.fresh(place.type, ONE, "load")

    def store(self, place: Place, value: Value, op: Operation) -> None:
        """Records a write."""
        if place.storage not in SHARED:
            raise Unsupported(f"memory of storage class {place.storage.name}", op)
        self._check_path(place, op)
        self._access(place, op, True)

    def _access(self, place: Place, op: Operation, write: bool) -> None:
        if self._quiet:
            return
        kind = WORKGROUPS if place.storage is StorageClass.Workgroup else BUFFERS
        facts = self.model.facts(op, write)
        intervals = self.state[INTERVAL] if self.ordered[kind] and not facts.private else None
        atomic = isinstance(op, AtomicOperation)
        self.accesses.append(Access(op, place, self.guard, write, atomic, facts, intervals))

    def _check_path(self, place: Place, op: Operation) -> None:
        type, seen = place.whole, ()
        for index in place.path:
            if isinstance(type, RuntimeArrayType):
                self._demand_index(index, self.array_length(place.root, len(seen), seen), op)
            elif not isinstance(type, StructType):
                self.check_index(index, len(parts_of(type, self.length) or []), op)
            type, seen = self.part_type(type, index), (*seen, index)

    def array_length(self, root: Hashable, depth: int, path: Sequence[Scalar] = ()) -> Term:
        """The symbol of a runtime array's length."""
        if depth > 1:
            raise Unsupported("a runtime array that is not a member of its buffer's block")
        key = (root, known_number(path[0].term) or 0 if path else 0)
        if key not in self.lengths:
            name = f"len({self.name_of(root)})"
            self.lengths[key] = self.symbol(name, i32, LAUNCH)
            self.facts.append(z3.ULE(self.lengths[key], (1 << 31) - 1))
        return self.lengths[key]

    def name_of(self, root: Hashable) -> str:
        """A buffer's block's name in the source, or its symbol."""
        op = self.symbols[str(root)]
        assert isinstance(op, GlobalVariableOp)
        name = getattr(op.type.pointee, "identifier", None)
        return name.data if name is not None and getattr(name, "data", "") else str(root)

    def check_index(self, index: Scalar, count: int, op: Operation) -> None:
        """An index below a known count."""
        if known_number(index.term) is None or (known_number(index.term) or 0) >= count:
            self._demand_index(index, z3.BitVecVal(count, 32), op)

    def _demand_index(self, index: Scalar, length: Term, op: Operation) -> None:
        size = index.term.size()
        term = index.term if size >= 32 else z3.SignExt(32 - size, index.term)
        most = z3.ZeroExt(size - 32, length) if size > 32 else length
        symbol = None if z3.is_bv_value(length) else length
        self._demand("bounds", f"index below {length}", op, z3.UGE(term, most), symbol)

    def _demand(
        self, question: str, what: str, op: Operation, wrong: Term, length: Term | None = None
    ) -> None:
        wrong = z3.simplify(wrong)
        if not self._quiet and not z3.is_false(wrong):
            self.demands.append(Demand(question, what, op, both(self.guard, wrong), length))

    def _read_push_constant(self, place: Place) -> Value:
        path = tuple(known_number(i.term) for i in place.path)
        if None in path:
            raise Unsupported("a push constant whose place is not known")

        def leaf(type: Attribute) -> Scalar:
            key = (*[n or 0 for n in path], len(made))
            made.append(type)
            name = self._member_name(place.whole, key)
            term = self.pushed.setdefault(key, self.symbol(name, type, LAUNCH))
            return Scalar(term)

        made: list[Attribute] = []
        return build(place.type, leaf, self.length)

    def _member_name(self, block: Attribute, key: tuple[int, ...]) -> str:
        """The name of a push constant in the source."""
        if len(key) == 2:
            for op in self.module.body.block.ops:
                if isinstance(op, RawGlobalOp) and op.instruction.data == "OpMemberName":
                    type, number, name = op.layout.data
                    if type == block and number == IntAttr(key[0]):
                        return getattr(name, "data", "")
        return "push[" + ",".join(map(str, key)) + "]"

    def _built_in(self, name: str, place: Place) -> Value:
        group, local, size = self.group, self.local, self.size
        triples = {
            "NumWorkgroups": self.grid,
            "WorkgroupId": group,
            "LocalInvocationId": local,
            "WorkgroupSize": [z3.BitVecVal(n, 32) for n in size],
            "GlobalInvocationId": [
                g * n + x if n > 1 else g for g, n, x in zip(group, size, local, strict=True)
            ],
        }
        index = local[0] + local[1] * size[0] + local[2] * (size[0] * size[1])
        if name == "LocalInvocationIndex":
            return Scalar(z3.simplify(index) if size[1] * size[2] > 1 else local[0])
        if name not in triples:
            return self.fresh(place.type, ONE, name)
        leaves = tuple(Scalar(term) for term in triples[name])
        if place.path:
            return leaves[known_number(place.path[0].term) or 0]
        return leaves if isinstance(place.type, VectorType) else leaves[0]

    # Instructions.

    def unset(self, type: Attribute) -> Scalar:
        """A value that was never written is any number."""
        return Scalar(self.symbol(f"unset!{next(self._numbers)}", type, ONE))

    def settle(self, results: Sequence[Value]) -> Sequence[Value]:
        """Results that are undefined are any numbers there."""
        return [_map_leaves(r, self._settle_leaf) if _is_number(r) else r for r in results]

    def _settle_leaf(self, leaf: Scalar) -> Scalar:
        if z3.is_false(leaf.undefined):
            return leaf
        name = f"undefined!{next(self._numbers)}"
        self.levels[name] = ONE
        anything = z3.Const(name, leaf.term.sort())
        return Scalar(choose_term(leaf.undefined, anything, leaf.term))

    def see(self, op: Operation, operands: Sequence[Value]) -> None:
        """Collects divisions and shifts without a result."""
        undefined = UNDEFINED.get(type(op))
        if undefined is None:
            return
        columns = [list(scalars(operand)) for operand in operands]
        question = "shifts" if "Shift" in op.name else "division"
        for row in zip(*columns, strict=False):
            wrong = undefined(*[leaf.term for leaf in row])
            self._demand(question, "operands with a result", op, wrong)

    def act(self, op: Operation, operands: Sequence[Value]) -> tuple[Value, ...]:
        """Barriers, atomics and group operations."""
        if isinstance(op, ControlBarrierOp):
            self._barrier(op)
            return ()
        if isinstance(op, MemoryBarrierOp):
            return ()
        if isinstance(op, AtomicOperation):
            place = operands[0]
            if not isinstance(place, Place):
                raise Unsupported("a pointer whose variable is not known", op)
            self._check_path(place, op)
            for write in [False] * (not isinstance(op, AtomicStoreOp)) + [True] * (
                not isinstance(op, AtomicLoadOp)
            ):
                self._access(place, op, write)
        elif isinstance(op, memory.ArrayLengthOp):
            place = operands[0]
            member = op.array_member.value.data
            index = Scalar(constant_term(member, i32))
            return (Scalar(self.array_length(place.root, 1, [index])),)
        elif not isinstance(op, GroupNonUniformOperation):
            raise Unsupported(f"{op.name} is not supported", op)
        return tuple(self.fresh(result.type, ONE, op.name) for result in op.results)

    def _barrier(self, op: ControlBarrierOp) -> None:
        if op.execution_scope.data is not Scope.Workgroup:
            return
        if not self._quiet:
            self.barriers.append((op, self.guard))
        self.state[INTERVAL] = self._interval()
        if self._cut:
            self.guard = NEVER

    # Loops.

    def run_loop(self, op: flow.LoopOp, frame: Frame) -> None:
        """Executes a loop for any number of iterations."""
        blocks = order_blocks(op.body)[:-1]
        (entry,) = frame.edges.pop(blocks[0])
        self.guard, self.state = entry.guard, dict(entry.state)
        self.run_block(blocks[0], entry, frame)
        (start,) = frame.edges.pop(blocks[1], [None])
        if start is None:
            return
        if any(self._waits(inner) for inner in op.walk()):
            self._run_waiting(blocks[1:], start, frame, op)
        else:
            general, _ = self._general(blocks[1:], start, frame, ONE, op)
            self._iterate(blocks[1:], general, frame)

    def _waits(self, op: Operation) -> bool:
        if isinstance(op, flow.FunctionCallOp):
            callee = self.symbols[op.callee.string_value()]
            return any(self._waits(inner) for inner in callee.walk())
        return isinstance(op, ControlBarrierOp) and op.execution_scope.data is Scope.Workgroup

    def _iterate(self, blocks: Sequence[Block], start: Edge, frame: Frame) -> list[Edge]:
        """Executes one iteration; returns the edges back to the header."""
        frame.edges[blocks[0]] = [start]
        self.run_blocks(blocks, frame)
        return frame.edges.pop(blocks[0], [])

    def _try(self, blocks: Sequence[Block], start: Edge, frame: Frame, op: flow.LoopOp):
        """An iteration without a trace: only the edges back."""
        kept = {block: list(edges) for block, edges in frame.edges.items()}
        returns, cut, escapes = list(frame.returns), self._cut, frame.escapes
        self._quiet, self._cut = self._quiet + 1, False
        back = self._iterate(blocks, start, frame)
        self._quiet, self._cut = self._quiet - 1, cut
        frame.edges, frame.returns, frame.escapes = kept, returns, escapes
        return back

    def _general(
        self, blocks: Sequence[Block], start: Edge, frame: Frame, level: int, op: flow.LoopOp
    ) -> tuple[Edge, list[Edge]]:
        """
        The head of any iteration: what the body changes is unknown, at the level of the workgroup
        if it stays so, with the facts that are inductive.
        """
        changed: dict[Hashable, int] = {}
        while True:
            edge = self._forgotten(start, changed, level)
            back = self._try(blocks, edge, frame, op)
            more = dict[Hashable, int]()
            for key, value in _cells(edge):
                new = [dict(_cells(b)).get(key) for b in back]
                if all(n is value or n == value for n in new):
                    continue
                uniform = level == ITERATION and all(
                    self.is_uniform(n) for n in [dict(_cells(start))[key], *new] if n is not None
                )
                wanted = ITERATION if uniform else ONE
                if changed.get(key, -1) < wanted:
                    more[key] = wanted
            if not more:
                self._assume_inductive(start, edge, back, changed)
                return edge, back
            changed.update(more)

    def _forgotten(self, start: Edge, changed: dict[Hashable, int], level: int) -> Edge:
        def forget(key: Hashable, value: Value) -> Value:
            if key not in changed:
                return value
            return _map_leaves(value, lambda leaf: self._any_like(leaf, changed[key]))

        state = {key: forget(key, value) for key, value in start.state.items()}
        if level == ITERATION:
            state[INTERVAL] = self._interval()
        arguments = tuple(forget(n, value) for n, value in enumerate(start.arguments))
        return Edge(start.guard, state, arguments)

    def _any_like(self, leaf: Scalar, level: int) -> Scalar:
        name = f"iteration!{next(self._numbers)}"
        self.levels[name] = level
        return Scalar(z3.Const(name, leaf.term.sort()))

    def is_uniform(self, value: Value) -> bool:
        """Whether a value is made of symbols of the launch, the workgroup and iterations only."""
        if isinstance(value, Place | frozenset):
            return True
        return all(
            self.levels.get(str(c), ONE) < ONE
            for leaf in scalars(value)
            for c in constants_of([leaf.term])
        )

    def _assume_inductive(
        self, start: Edge, edge: Edge, back: Sequence[Edge], changed: dict[Hashable, int]
    ) -> None:
        """
        Facts of variables that every iteration keeps: they move by a multiple of a power of two
        (that survives overflow), and stay on one side of their first value.
        """
        first, head = dict(_cells(start)), dict(_cells(edge))
        kept: list[tuple[Callable[[Term], Term], Hashable]] = []
        for key in changed:
            value = head.get(key)
            if not isinstance(value, Scalar) or not z3.is_bv(value.term):
                continue
            begin = first[key].term
            moves = [known_number(dict(_cells(b))[key].term - value.term) for b in back]
            steps = [m & -m for m in moves if m]
            if steps and None not in moves:
                low = z3.BitVecVal(min(steps) - 1, value.term.size())
                self.facts.append((value.term - begin) & low == 0)
            kept += [(_order(compare, begin), key) for compare in ORDERS]
        self.facts += self._keep_inductive(kept, head, back)

    def _keep_inductive(
        self,
        kept: list[tuple[Callable[[Term], Term], Hashable]],
        head: dict[Hashable, Value],
        back: Sequence[Edge],
    ) -> list[Term]:
        """The candidates, all true at first, that an iteration keeps if all hold before it."""
        while True:
            held = [holds(head[key].term) for holds, key in kept]
            lost = []
            for holds, key in kept:
                for b in back:
                    after = holds(dict(_cells(b))[key].term)
                    asked = [*self.facts, *held, b.guard, z3.Not(after)]
                    if ask(asked, limits=QUICK).verdict != "never":
                        lost.append((holds, key))
                        break
            if not lost:
                return held
            kept = [candidate for candidate in kept if candidate not in lost]

    def _run_waiting(
        self, blocks: Sequence[Block], start: Edge, frame: Frame, op: flow.LoopOp
    ) -> None:
        """A loop with barriers: the first head, a general iteration, and the next head."""
        general, _ = self._general(blocks, start, frame, ITERATION, op)
        cut = self._cut
        self._head(blocks, start, frame, op)
        if cut:
            return
        merge = op.merge_block
        assert merge is not None
        left = frame.edges.pop(merge, [])
        back = self._iterate(blocks, general, frame)
        head = general.state[INTERVAL]
        # The heads have all exits before a barrier, the general ones too.
        after = [e for e in frame.edges.pop(merge, []) if e.state[INTERVAL] != head]
        if any(not head.isdisjoint(e.state[INTERVAL]) for e in [*back, *after]):
            raise Unsupported("a loop with barriers, of which an iteration may meet none", op)
        frame.edges[merge] = [*left, *after]
        if back:
            self._head(blocks, self.merge(back), frame, op)

    def _head(self, blocks: Sequence[Block], start: Edge, frame: Frame, op: flow.LoopOp) -> None:
        cut, self._cut = self._cut, True
        if self._iterate(blocks, start, frame):
            raise Unsupported("a loop with barriers, of which an iteration may meet none", op)
        self._cut = cut


class _Contents:
    """The contents of memory that is never written: a function of the indexes."""

    def __init__(self, place: Place):
        self.place, self.number = place, 0

    def __call__(self, type: Attribute) -> Scalar:
        self.number += 1
        indexes = [i.term for i in self.place.path if not z3.is_bv_value(i.term)]
        fixed = [str(i.term) for i in self.place.path if z3.is_bv_value(i.term)]
        label = "/".join(["contents", str(self.place.root), *fixed, f"part {self.number}"])
        label += "".join(f" {i.sort()}" for i in indexes)
        result = variable_term("sort", type).sort()
        if not indexes:
            return Scalar(z3.Const(label, result))
        return Scalar(z3.Function(label, *[i.sort() for i in indexes], result)(*indexes))


def _order(compare: Callable[[Term, Term], Term], begin: Term) -> Callable[[Term], Term]:
    return lambda term: compare(term, begin)


def _cells(edge: Edge) -> list[tuple[Hashable, Value]]:
    """The variables and arguments of an edge, by their holders."""
    named = [(k, v) for k, v in edge.state.items() if k != INTERVAL]
    return [*named, *enumerate(edge.arguments)]


def _is_number(value: Value) -> bool:
    return isinstance(value, Scalar) or (isinstance(value, tuple) and all(map(_is_number, value)))


def _map_leaves(value: Value, leaf: object) -> Value:
    if isinstance(value, tuple):
        return tuple(_map_leaves(part, leaf) for part in value)
    if isinstance(value, Scalar):
        return leaf(value)  # pyright: ignore
    raise Unsupported("a pointer that a loop changes")
