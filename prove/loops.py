"""
Executes loops with any number of iterations, and tracks memory contents between barriers.

A loop whose exits depend only on known numbers is unrolled. Any other loop without barriers is
executed once, from a state in which the variables that it changes have any values that satisfy
inductive facts. A loop with barriers is executed three times: the first iteration up to its
barrier, a general iteration, and the head of the next one. Its variables are uniform in the
workgroup if their terms are.

Between two barriers, an invocation sees only its own stores to shared memory. A store by another
invocation would be a race, which is tested separately.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import count, pairwise
from typing import TypeAlias

from xdsl.dialects.builtin import i32
from xdsl.ir import Attribute, Block, Operation

from xdsl_spirv.dialects.spirv import control_flow as flow
from xdsl_spirv.dialects.spirv.barrier import ControlBarrierOp
from xdsl_spirv.dialects.spirv.enums import Scope
from xdsl_spirv.dialects.spirv.structure import ModuleOp
from xdsl_spirv.dialects.spirv.types import CooperativeMatrixType
from xdsl_spirv.prove.executing import Edge, Executor, Frame, Place, order_blocks
from xdsl_spirv.prove.ranges import Ranges
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
    choose,
    constants_of,
    known_number,
    negate,
    scalars,
    variable_term,
    z3,
)

LAUNCH, WORKGROUP, ITERATION, ONE = range(4)
"""Levels of symbols: shared in a launch, a workgroup or an iteration, or of one invocation."""

INTERVAL, NEAR = "interval", "near"
"""
`State` keys of the current interval between workgroup barriers, and between subgroup barriers.
"""

UNROLLED = 64
"""Maximum number of iterations of a loop that is unrolled."""

MOST_STORES = 16
QUICK = Limits(seconds=0.5, solvers=1)
ORDERS: tuple[Callable[[Term, Term], Term], ...] = (
    z3.ULE,
    z3.UGE,
    lambda x, y: x <= y,
    lambda x, y: x >= y,
)
"""Relations between a variable and its first value that may hold in every iteration."""


Cells: TypeAlias = dict[Hashable, Value]
Candidate: TypeAlias = Callable[[Cells], Term]
"""A fact about the variables at a loop's head that may hold in every iteration."""


@dataclass(frozen=True, eq=False)
class Stored:
    """A store by the invocation after the last barrier."""

    guard: Term
    place: Place
    value: Value


@dataclass(frozen=True)
class Log:
    """The invocation's stores to a variable since the last barrier; `lost` if some are unknown."""

    stores: tuple[Stored, ...] = ()
    lost: bool = False


class Contents:
    """The contents of memory between two barriers, as a function of an element's indices."""

    def __init__(self, place: Place, epoch: Term | None = None):
        self.place, self.number, self.epoch = place, 0, epoch
        self.labels: list[str] = []

    def __call__(self, type: Attribute) -> Scalar:
        self.number += 1
        indexes = [i.term for i in self.place.path if not z3.is_bv_value(i.term)]
        fixed = [str(i.term) if z3.is_bv_value(i.term) else "?" for i in self.place.path]
        label = "/".join(["contents", str(self.place.root), *fixed, f"part {self.number}"])
        label += "".join(f" {i.sort()}" for i in indexes) + f" {type}"
        self.labels.append(label)
        indexes += [] if self.epoch is None else [self.epoch]
        result = variable_term("sort", type).sort()
        if not indexes:
            return Scalar(z3.Const(label, result))
        return Scalar(z3.Function(label, *[i.sort() for i in indexes], result)(*indexes))


class LoopExecutor(Executor):
    """
    An executor that supports loops with any number of iterations.

    `levels` has the level of each symbol, and `facts` are conditions on symbols.
    """

    def __init__(self, module: ModuleOp, limits: Limits):
        super().__init__(module, Terms(), limits)
        self.quick = replace(QUICK, end=limits.end, answers=limits.answers)
        self.levels: dict[str, int] = {}
        self.facts: list[Term] = []
        self.numbers = count(1)
        self.quiet = 0
        self._cut = False
        self.inside: list[flow.LoopOp] = []
        """The enclosing loops whose body is executed once on behalf of all iterations."""
        self._probed: list[tuple[flow.LoopOp, list[bool]]] = []
        self._about: list[tuple[str, set[str]]] = []
        """For each fact: its newest symbol, and its symbols that loops and loads created."""
        self._ranges: tuple[int, Ranges, dict[int, Ranges]] | None = None
        """Cached ranges of terms: (number of facts, ranges, ranges by guard)."""

    def record(self) -> tuple[list[object], ...]:
        """
        Returns the lists to which execution appends. `_unroll` truncates them to undo execution.
        """
        raise NotImplementedError

    def interval(self) -> frozenset[int]:
        """Creates an interval between barriers. Returns the set with its id."""
        return frozenset([next(self.numbers)])

    def symbol(self, name: str, type: Attribute, level: int) -> Term:
        """Creates a symbol that all invocations within `level` (launch, workgroup, ...) share."""
        self.levels[name] = level
        return variable_term(name, type)

    def fresh(self, type: Attribute, level: int, what: str) -> Value:
        """Creates an unknown value of symbols that all invocations within `level` share."""

        def make(t: Attribute) -> Value:
            # The components of a cooperative matrix are not modelled.
            if isinstance(t, CooperativeMatrixType):
                return ()
            return Scalar(self.symbol(f"{what}!{next(self.numbers)}", t, level))

        return build(type, make, self.length)

    def cut_iteration(self) -> None:
        """Makes code after a barrier unreachable if only the code before it is needed."""
        if self._cut:
            self.guard = NEVER

    def join(self, guard: Term, one: Value, other: Value) -> Value:
        """Merges two values at a merge point, including intervals and stores."""
        if isinstance(one, frozenset):
            return one | other
        if not isinstance(one, Log):
            return super().join(guard, one, other)
        stores = [s for s in one.stores if s in other.stores]
        for log, there in ((one, guard), (other, negate(guard))):
            for s in log.stores:
                if s not in stores:
                    stores.append(Stored(both(there, s.guard), s.place, s.value))
        return Log(tuple(stores), one.lost or other.lost)

    def keep_store(self, place: Place, value: Value | None) -> None:
        """Records a store. A `value` of None stands for an unknown value."""
        log = self._log(place.root)
        if value is None or len(log.stores) == MOST_STORES:
            self.state["stores", place.root] = Log((), True)
        else:
            stored = Stored(self.guard, place, value)
            self.state["stores", place.root] = Log((*log.stores, stored), log.lost)

    def _log(self, root: Hashable) -> Log:
        return self.state.get(("stores", root)) or Log()

    def read_shared(self, place: Place) -> Value:
        """
        Reads shared memory: the invocation's last store, or else the contents at the last barrier.

        A store by another invocation since this barrier would be a race.
        """
        log = self._log(place.root)
        alike = all(len(s.place.path) == len(place.path) for s in log.stores)
        if log.lost or not alike:
            return self.fresh(place.type, ONE, "load")
        epoch = f"epoch {sorted(self.state[INTERVAL])}"
        value = build(place.type, Contents(place, self.symbol(epoch, i32, ITERATION)), self.length)
        for stored in log.stores:
            same = [equal(x.term, y.term) for x, y in
                    zip(stored.place.path, place.path, strict=True)]  # fmt: skip
            hit = z3.simplify(z3.And(stored.guard, *same))
            value = choose(hit, stored.value, value)
        return value

    def cross_barrier(self, near: bool) -> None:
        """
        Begins a new interval after a barrier of the subgroup (`near`) or workgroup. Other
        invocations of the subgroup may have stored any values before a subgroup barrier.
        """
        for key in [k for k, v in self.state.items() if isinstance(v, Log)]:
            self.state[key] = Log((), near)
        # Skipped inside a loop that is executed once for all iterations, where the order would not
        # hold between iterations.
        if not (near and self.inside):
            self.state[NEAR] = self.interval()
        if not near:
            self.state[INTERVAL] = self.interval()

    def run_loop(self, op: flow.LoopOp, frame: Frame) -> None:
        """Executes a loop for any number of iterations."""
        blocks = order_blocks(op.body)[:-1]
        (entry,) = frame.edges.pop(blocks[0])
        self.guard, self.state = entry.guard, dict(entry.state)
        self.run_block(blocks[0], entry, frame)
        (start,) = frame.edges.pop(blocks[1], [None])
        if start is None or self._unroll(blocks[1:], start, frame, op):
            return
        if any(self.waits(inner) for inner in op.walk()):
            self._run_waiting(blocks[1:], start, frame, op)
        else:
            self.inside.append(op)
            general, _ = self._general(blocks[1:], start, frame, ONE, op)
            self._iterate(blocks[1:], general, frame)
            self.inside.pop()

    def _unroll(self, blocks: Sequence[Block], start: Edge, frame: Frame, op: flow.LoopOp) -> bool:
        """Unrolls a loop if its conditions are known. Otherwise undoes this and returns False."""
        lengths = [len(made) for made in self.record()]
        kept = {block: list(edges) for block, edges in frame.edges.items()}
        returns, escapes, cut = list(frame.returns), frame.escapes, self._cut
        edges, heads = [start], list[Edge]()
        for _ in range(UNROLLED + 1):
            heads.append(self.merge(edges))
            if len(heads) == 3 and self._is_long(blocks, heads, frame, op):
                break
            decided: list[bool] = []
            self._probed.append((op, decided))
            edges = self._iterate(blocks, heads[-1], frame)
            self._probed.pop()
            if not decided or not all(decided):
                break
            edges = [e for e in edges if not z3.is_false(z3.simplify(e.guard))]
            if not edges:
                return True
        for made, length in zip(self.record(), lengths, strict=True):
            del made[length:]
        frame.edges, frame.returns, frame.escapes, self._cut = kept, returns, escapes, cut
        return False

    def _is_long(
        self, blocks: Sequence[Block], heads: Sequence[Edge], frame: Frame, op: flow.LoopOp
    ) -> bool:
        """True if the steps of the loop's variables show more than `UNROLLED` iterations."""
        first, second, third = (dict(_cells(head)) for head in heads)
        far = dict[Hashable, Scalar]()
        for key, value in third.items():
            terms = [c[key].term for c in (first, second, third) if isinstance(c.get(key), Scalar)]
            if len(terms) < 3 or not z3.is_bv(value.term) or terms[1].eq(terms[2]):
                continue
            steps = [known_number(y - x) for x, y in pairwise(terms)]
            if known_number(value.term) is None or steps[0] != steps[1]:
                far[key] = self._any_like(value, ONE)
            else:
                far[key] = Scalar(value.term + (UNROLLED - 2) * (steps[1] or 0))
        if not far:
            return False
        last = heads[2]
        state = {key: far.get(key, value) for key, value in last.state.items()}
        arguments = tuple(far.get(n, value) for n, value in enumerate(last.arguments))
        decided: list[bool] = []
        self._probed.append((op, decided))
        back = self._try(blocks, Edge(last.guard, state, arguments), frame, op)
        self._probed.pop()
        return bool(decided) and all(decided) and bool(back)

    def condition(self, value: Scalar, op: Operation) -> Term:
        """Evaluates a condition, and records if it controls an exit of the unrolled loop."""
        term = super().condition(value, op)
        if self._probed and op.parent_op() is self._probed[-1][0]:
            merge = self._probed[-1][0].merge_block
            if merge in op.successors:
                term = self._decide(term)
                self._probed[-1][1].append(z3.is_true(term) or z3.is_false(term))
        return term

    def _decide(self, condition: Term) -> Term:
        """Returns True or False as a term if ranges prove it, otherwise the condition."""
        decided = self.ranges_under(self.guard).decide(condition)
        return condition if decided is None else z3.BoolVal(decided)

    def ranges_under(self, guard: Term) -> Ranges:
        """Returns the ranges of terms under a condition, derived from facts and the condition."""
        if self._ranges is None or self._ranges[0] != len(self.facts):
            self._ranges = len(self.facts), Ranges(self.facts), dict[int, Ranges]()
        _, known, by_guard = self._ranges
        if guard.get_id() not in by_guard:
            known.kept.append(guard)
            by_guard[guard.get_id()] = Ranges([guard], known)
        return by_guard[guard.get_id()]

    def waits(self, op: Operation) -> bool:
        """True if an operation, or a function that it calls, has a barrier for the workgroup."""
        if isinstance(op, flow.FunctionCallOp):
            callee = self.symbols[op.callee.string_value()]
            return any(self.waits(inner) for inner in callee.walk())
        return isinstance(op, ControlBarrierOp) and op.execution_scope.data is Scope.Workgroup

    def _iterate(self, blocks: Sequence[Block], start: Edge, frame: Frame) -> list[Edge]:
        """Executes one iteration. Returns the edges back to the header."""
        frame.edges[blocks[0]] = [start]
        self.run_blocks(blocks, frame)
        return frame.edges.pop(blocks[0], [])

    def _try(self, blocks: Sequence[Block], start: Edge, frame: Frame, op: flow.LoopOp):
        """Executes one iteration without recording. Returns the edges back to the header."""
        kept = {block: list(edges) for block, edges in frame.edges.items()}
        returns, cut, escapes = list(frame.returns), self._cut, frame.escapes
        self.quiet, self._cut = self.quiet + 1, False
        back = self._iterate(blocks, start, frame)
        self.quiet, self._cut = self.quiet - 1, cut
        frame.edges, frame.returns, frame.escapes = kept, returns, escapes
        return back

    def _general(
        self, blocks: Sequence[Block], start: Edge, frame: Frame, level: int, op: flow.LoopOp
    ) -> tuple[Edge, list[Edge]]:
        """
        Returns the state at the head of any iteration, and the edges back to the header.

        Variables that the body changes are unknown and satisfy the inductive facts. They are
        uniform at `level` if every iteration preserves their uniformity.
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
                if isinstance(value, Log):
                    if key not in changed:
                        more[key] = ONE
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
            if isinstance(value, Log):
                return Log((), True)
            return map_leaves(value, lambda leaf: self._any_like(leaf, changed[key]))

        state = {key: forget(key, value) for key, value in start.state.items()}
        if level == ITERATION:
            state[INTERVAL], state[NEAR] = self.interval(), self.interval()
        arguments = tuple(forget(n, value) for n, value in enumerate(start.arguments))
        return Edge(start.guard, state, arguments)

    def _any_like(self, leaf: Scalar, level: int) -> Scalar:
        name = f"iteration!{next(self.numbers)}"
        self.levels[name] = level
        return Scalar(z3.Const(name, leaf.term.sort()))

    def is_uniform(self, value: Value) -> bool:
        """True if a value depends only on symbols of the launch, the workgroup and iterations."""
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
        Adds facts about variables that every iteration preserves.

        There are two kinds of facts. A variable differs from its first value by multiples of a
        power of two. A variable stays on one side of its first value, of a bound that the loop
        compares with it, or of another variable.
        """
        first, head = dict(_cells(start)), dict(_cells(edge))
        kept: list[Candidate] = []
        numbers = {
            key: head[key].term
            for key in changed
            if isinstance(head.get(key), Scalar) and z3.is_bv(head[key].term)
        }
        bounds = _bounds([b.guard for b in back], list(numbers.values()))
        for key, term in numbers.items():
            begin = first[key].term
            moves = [known_number(dict(_cells(b))[key].term - term) for b in back]
            steps = [m & -m for m in moves if m]
            if steps and None not in moves:
                low = z3.BitVecVal(min(steps) - 1, term.size())
                self.facts.append((term - begin) & low == 0)
            kept += [_against(compare, key, begin) for compare in ORDERS]
            alike = [t for t in bounds if t.size() == term.size()]
            kept += [_against(compare, key, t) for t in alike for compare in (z3.ULE, _sle)]
            kept += [
                _between(key, other)
                for other, t in numbers.items()
                if other != key and t.size() == term.size() and len(numbers) <= 4
            ]
        kept = self._drop_broken([start.guard], kept, first)
        held = self._keep_inductive(kept, head, back)
        self.facts += [z3.Implies(start.guard, fact) for fact in held]

    def _keep_inductive(
        self, kept: list[Candidate], head: Cells, back: Sequence[Edge]
    ) -> list[Term]:
        """Returns the candidates that an iteration preserves if all of them hold before it."""
        while True:
            held, still = [holds(head) for holds in kept], kept
            for edge in back:
                still = self._drop_broken([*held, edge.guard], still, dict(_cells(edge)))
            if len(still) == len(kept):
                return held
            kept = still

    def _drop_broken(
        self, known: Sequence[Term], kept: list[Candidate], cells: Cells
    ) -> list[Candidate]:
        """
        Returns the candidates that follow from `known` for the variables `cells`. Removes those
        that a solver refutes.
        """
        known = [*known, *self._list_facts([*known, *(holds(cells) for holds in kept)])]
        while kept:
            flags = [z3.Bool(f"broken!{number}") for number, _ in enumerate(kept)]
            meant = [f == z3.Not(holds(cells)) for f, holds in zip(flags, kept, strict=True)]
            answer = ask([*known, *meant, z3.Or(*flags)], flags, self.quick)
            if answer.verdict == "never":
                return kept
            broken = [bool(answer.values.get(str(flag))) for flag in flags]
            if not any(broken):
                return [holds for holds in kept if self._is_implied(known, holds(cells))]
            kept = [holds for holds, is_broken in zip(kept, broken, strict=True) if not is_broken]
        return kept

    def _list_facts(self, terms: Sequence[Term]) -> list[Term]:
        """
        Returns the facts whose newest symbol occurs in the terms or in another returned fact.

        Other facts are left out to keep queries small. This cannot make a proof wrong, but some
        proofs may fail without them.
        """
        for fact in self.facts[len(self._about) :]:
            names = _made_in_loops([fact])
            newest = max(names, key=lambda name: int(name.rpartition("!")[2]), default="")
            self._about.append((newest, names))
        wanted, chosen = {"", *_made_in_loops(terms)}, list[Term]()
        # Newest first, because older facts cannot contain the symbol.
        for fact, (newest, names) in zip(self.facts[::-1], self._about[::-1], strict=True):
            if newest in wanted:
                chosen.append(fact)
                wanted |= names
        return chosen[::-1]

    def _is_implied(self, known: Sequence[Term], fact: Term) -> bool:
        return ask([*known, z3.Not(fact)], limits=self.quick).verdict == "never"

    def _run_waiting(
        self, blocks: Sequence[Block], start: Edge, frame: Frame, op: flow.LoopOp
    ) -> None:
        """Executes a loop with barriers: the first head, a general iteration, and the next head."""
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
        # Exits before a barrier are exits of a head, and the general iteration repeats them.
        after = [e for e in frame.edges.pop(merge, []) if e.state[INTERVAL] != head]
        if any(not head.isdisjoint(e.state[INTERVAL]) for e in [*back, *after]):
            raise Unsupported("a loop that may skip all its barriers is not supported", op)
        frame.edges[merge] = [*left, *after]
        if back:
            self._head(blocks, self.merge(back), frame, op)

    def _head(self, blocks: Sequence[Block], start: Edge, frame: Frame, op: flow.LoopOp) -> None:
        cut, self._cut = self._cut, True
        if self._iterate(blocks, start, frame):
            raise Unsupported("a loop that may skip all its barriers is not supported", op)
        self._cut = cut


def _made_in_loops(terms: Sequence[Term]) -> set[str]:
    """Returns the names of numbered symbols (`x!3`), which loops, loads and calls created."""
    names = (str(c) for c in constants_of(terms))
    return {name for name in names if name.rpartition("!")[2].isdecimal() and "!" in name}


def _sle(x: Term, y: Term) -> Term:
    return x <= y


def _against(compare: Callable[[Term, Term], Term], key: Hashable, bound: Term) -> Candidate:
    return lambda cells: compare(cells[key].term, bound)


def _between(key: Hashable, other: Hashable) -> Candidate:
    return lambda cells: z3.ULE(cells[key].term, cells[other].term)


def _bounds(guards: Sequence[Term], moving: Sequence[Term]) -> list[Term]:
    """Returns the loop-invariant terms that are compared with changing variables."""
    found, seen, pending = list[Term](), set[int](), list(guards)
    while pending and len(found) < 4:
        term = pending.pop()
        if term.get_id() in seen:
            continue
        seen.add(term.get_id())
        sides = term.children()
        if len(sides) != 2 or not z3.is_bv(sides[0]):
            pending += sides if z3.is_bool(term) else []
            continue
        for side, other in (sides, sides[::-1]):
            if any(side.eq(m) for m in moving) and not any(
                c.eq(m) for c in constants_of([other]) for m in moving
            ):
                found.append(other)
    return found


def _cells(edge: Edge) -> list[tuple[Hashable, Value]]:
    """Returns the variables and block arguments of an edge, with their keys."""
    named = [(k, v) for k, v in edge.state.items() if k not in (INTERVAL, NEAR)]
    return [*named, *enumerate(edge.arguments)]


def is_number(value: Value) -> bool:
    """True if a value is a number, or a composite of numbers."""
    return isinstance(value, Scalar) or (isinstance(value, tuple) and all(map(is_number, value)))


def map_leaves(value: Value, leaf: object) -> Value:
    """Applies `leaf` to each number of a value."""
    if isinstance(value, tuple):
        return tuple(map_leaves(part, leaf) for part in value)
    if isinstance(value, Scalar):
        return leaf(value)  # pyright: ignore
    raise Unsupported("a loop that changes a pointer is not supported")


def equal(x: Term, y: Term) -> Term:
    """Returns the condition that two indices are equal. The narrower index is sign-extended."""
    size = max(x.size(), y.size())
    return z3.SignExt(size - x.size(), x) == z3.SignExt(size - y.size(), y)
