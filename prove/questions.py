"""
Asks questions about a kernel for all launches: bounds, divisions, shifts, barriers, races.

An answer is `proved`, a launch that may show a bug (which the interpreter then checks), or
`unknown`. A second invocation has the same terms with its own symbols.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import combinations_with_replacement, product, starmap
from typing import TypeAlias

from xdsl.ir import Operation

from xdsl_spirv.dialects.spirv.enums import Scope, StorageClass
from xdsl_spirv.dialects.spirv.structure import ModuleOp
from xdsl_spirv.interpreter.checks.accessors import SAME_DEVICE, SAME_WORKGROUP
from xdsl_spirv.progress import noted, stage
from xdsl_spirv.prove import initialization
from xdsl_spirv.prove.accesses import Access, Demand
from xdsl_spirv.prove.addresses import ALL, Address, share_bytes
from xdsl_spirv.prove.digits import split_digits
from xdsl_spirv.prove.executing import Place
from xdsl_spirv.prove.kernel import Kernel
from xdsl_spirv.prove.loops import ITERATION, LAUNCH, ONE, WORKGROUP, equal
from xdsl_spirv.prove.places import byte_range
from xdsl_spirv.prove.solvers import Answer, Limits, ask
from xdsl_spirv.prove.together import Question, find_needed, prove_together
from xdsl_spirv.prove.values import (
    NEVER,
    Scalar,
    Term,
    applications_of,
    constants_of,
    either,
    known_number,
    negate,
    z3,
)

Renaming: TypeAlias = Callable[[Term], Term]
"""A function that renames the symbols of terms, so that the terms describe another invocation."""

MOST_ALONE = 3
"""Largest number of accesses of one instruction that are checked for races one by one."""

SIZES = ((2, 64), (4, 1024), (64, 1 << 20))
"""Limits (workgroups along an axis, buffer elements) of launches that are searched, in order."""

Asked: TypeAlias = Callable[[Question], bool]
"""A function that selects the questions to ask: it returns True for them."""


def is_usual(question: Question) -> bool:
    """True if the question is asked by default."""
    return question.name != initialization.QUESTION


@dataclass
class Proof:
    """The answers about a kernel, and the premises on which they depend."""

    kernel: Kernel
    questions: list[Question]
    given: list[str] = field(default_factory=list[str])
    unused: list[str] = field(default_factory=list[str])
    """Given premises that the proofs do not need."""
    offered: list[str] = field(default_factory=list[str])
    """Premises that the tool added to complete a proof."""
    unreached: dict[Operation, str] = field(default_factory=dict[Operation, str])
    """Maps an instruction to the reason why no launch was found that executes its access."""
    reached: int = 0
    """Number of instructions whose access some launch executes under the premises."""
    dead: list[Operation] = field(default_factory=list[Operation])
    """Instructions whose access no launch executes, not even without premises."""
    complete: bool = False
    """True if all questions were proved under the given and suggested premises together."""

    @property
    def result(self) -> str:
        """`candidate` if a launch may show a bug, `proved` if all is proved, else `unknown`."""
        results = {q.result for q in self.questions}
        if "candidate" in results:
            return "candidate"
        return "proved" if self.complete and not self.unreached else "unknown"


def execute(
    module: ModuleOp,
    entry: str,
    fixed: Mapping[str, Term],
    facts: Sequence[Term] = (),
    limits: Limits = Limits(),
) -> Kernel:
    """
    Executes an entry point symbolically. Raises `Unsupported` if this is not possible.

    `fixed` gives some numbers of the launch by name (see `Kernel.launch_numbers`). `facts` are
    conditions on the launch.
    """
    kernel = Kernel(module, entry, fixed, limits)
    kernel.facts += facts
    with stage("executing the kernel for any invocation"):
        kernel.run()
    return kernel


def prove(
    kernel: Kernel,
    premises: dict[str, Term],
    offers: Sequence[dict[str, Term]],
    limits: Limits = Limits(),
    asked: Asked = is_usual,
) -> Proof:
    """
    Answers questions under the given premises, adding one set of suggested premises after the
    other. If all are proved, the proof names the suggestions that it needs. Otherwise the open
    questions are asked without suggestions.
    """
    questions = list(_questions(kernel, asked))
    proof = Proof(kernel, questions, list(premises))
    held = [*kernel.facts, *premises.values()]
    known = {text: term for chosen in offers for text, term in chosen.items()}
    with stage(f"asking {len(questions)} questions"):
        proved = prove_together(questions, held, offers, limits)
    if proved:
        # With too little time, the list would include premises that are not needed.
        limits = limits.restart()
        with stage("finding the premises that are needed"):
            proof.offered = find_needed(held, known, questions, limits)
        held += [known[text] for text in proof.offered]
        accesses = [a for a in kernel.accesses if any(map(asked, _list_about(a)))]
        with stage("looking for launches that reach each access"):
            _find_unreached(proof, accesses, held, limits)
            proof.complete = proof.reached > 0 or ask(held, (), limits).verdict == "holds"
        return proof
    # Searches launches only for questions that are open with all suggested premises.
    ways = [held]
    for chosen in offers:
        ways.insert(0, [*ways[0], *chosen.values()])
    open_ones = [q for q in questions if q.result != "proved"]
    for question in noted("looking for a launch", open_ones, lambda q: f"{q.name}: {q.what}"):
        _ask(question, ways, kernel, limits)
    return proof


def _list_about(access: Access) -> Iterator[Question]:
    yield _of_race(access, access, "")
    yield Question("bounds", "", (access.op,), NEVER)
    if access.place.storage is StorageClass.Workgroup and not access.write:
        yield Question(initialization.QUESTION, initialization.WHAT, (access.op,), NEVER)


def _find_unreached(
    proof: Proof, accesses: Sequence[Access], held: Sequence[Term], limits: Limits
) -> None:
    """
    Records in `proof` the accesses that no launch under the premises executes.

    A proof about such accesses would be vacuous.
    """
    guards: dict[Operation, list[Term]] = {}
    for access in accesses:
        guards.setdefault(access.op, []).append(access.guard)
    reached = {z3.Bool(f"reached!{n}"): op for n, op in enumerate(guards)}
    meant = [flag == either(guards[op]) for flag, op in reached.items()]
    never = False
    while reached:
        # Marks all accesses that the solver's launch reaches, which are often many.
        answer = ask([*held, *meant, either(list(reached))], list(reached), limits)
        shown = [flag for flag in reached if answer.values.get(str(flag))]
        if not shown:
            never = answer.verdict == "never"
            break
        for flag in shown:
            del reached[flag]
    proof.reached = len(guards) - len(reached)
    if not reached:
        return
    left, kernel = list(reached.values()), proof.kernel
    # All launches have these numbers and some access was reached, so others are dead code.
    exact = kernel.exact and proof.reached > 0
    if never and (exact or not kernel.fixed) and _are_dead(kernel, left, guards, limits):
        proof.dead = left
        return
    reason = "never reached" if never else "no launch was found that executes the access"
    proof.unreached = dict.fromkeys(left, f"{reason} under the premises")


def _are_dead(
    kernel: Kernel,
    ops: Sequence[Operation],
    guards: Mapping[Operation, Sequence[Term]],
    limits: Limits,
) -> bool:
    """True if the path conditions alone, without premises, exclude all these accesses."""
    made = either([guard for op in ops for guard in guards[op]])
    dead = [*kernel.facts[: kernel.facts_of_launches], made]
    return ask(dead, (), limits).verdict == "never"


def _ask(
    question: Question, ways: Sequence[Sequence[Term]], kernel: Kernel, limits: Limits
) -> None:
    """
    Looks for a launch that may show the bug of a question, under each set of conditions in `ways`.

    Stores the launch, the sets under which there is one, and the solver's reason in `question`.
    """
    for held in ways:
        answer = ask([*held, question.wrong], _unknown_numbers(kernel), limits)
        question.reason = answer.reason
        if answer.verdict == "holds":
            question.result, question.launch = "candidate", _name_numbers(kernel, answer)
            question.ways.append(held)


def _unknown_numbers(kernel: Kernel) -> list[Term]:
    return [t for t in kernel.launch_numbers().values() if known_number(t) is None]


def _name_numbers(kernel: Kernel, answer: Answer) -> dict[str, int]:
    pairs = ((name, term, known_number(term)) for name, term in kernel.launch_numbers().items())
    return {name: answer.values[str(t)] if known is None else known for name, t, known in pairs}


Items: TypeAlias = dict[str, dict[int, tuple[int, int]]]
"""Numbers in buffers: {buffer name: {byte offset: (value, bits)}}."""


def find_launch(
    question: Question, held: Sequence[Term], kernel: Kernel, limits: Limits
) -> tuple[dict[str, int], Items]:
    """
    Returns the smallest launch under the premises `held` that may show the bug of a question. Also
    returns the numbers in buffers that this launch reads.
    """
    reads = [t for t in applications_of([question.wrong]) if t.decl().name() in kernel.elements]
    # Each index gets a short name, because long terms may be truncated in print.
    named = [[(z3.Const(f"index {n} {m}", a.sort()), a) for m, a in enumerate(read.children())]
             for n, read in enumerate(reads)]  # fmt: skip
    values = [(z3.Const(f"read {n}", read.sort()), read) for n, read in enumerate(reads)]
    held = [*held, *(name == term for pairs in (*named, values) for name, term in pairs)]
    wanted = [*_unknown_numbers(kernel), *(n for pairs in (*named, values) for n, _ in pairs)]
    lengths, addresses = kernel.lengths.values(), kernel.addresses
    named_numbers = (kernel.pushed | kernel.members).items()
    numbers = [t for name, t in named_numbers if z3.is_bv(t) and name not in addresses]
    for groups, elements in SIZES:
        small = [z3.ULE(g, groups) for g in kernel.grid]
        small += [z3.ULE(n - 1, elements) for n in lengths]
        small += [z3.ULE(p, min(elements, (1 << p.size()) - 1)) for p in numbers]
        smaller = ask([*held, question.wrong, *small], wanted, limits)
        if smaller.verdict == "holds":
            items = Items()
            for (bits, read), indexes in zip(values, named, strict=True):
                name, place, steps = kernel.elements[read.decl().name()]
                for (index, _), step in zip(indexes, steps, strict=True):
                    place += smaller.values[str(index)] * step
                item = (smaller.values[str(bits)], read.size() if z3.is_bv(read) else 1)
                items.setdefault(name, {})[place] = item
            return _name_numbers(kernel, smaller), items
    return question.launch, {}


def _questions(kernel: Kernel, asked: Asked) -> Iterator[Question]:
    """
    Yields a question for each possible bug of an instruction, and of each pair of instructions.
    `asked` selects questions.
    """
    found: dict[tuple[object, ...], list[Question]] = {}
    demands = list(kernel.demands)
    if asked(Question(initialization.QUESTION, initialization.WHAT, (), NEVER)):
        demands += initialization.ask_initialization(kernel)
    faults = filter(asked, (*map(_of_demand, demands), *_of_barriers(kernel)))
    for question in (*faults, *_races(kernel, asked)):
        found.setdefault((question.name, question.what, question.ops), []).append(question)
    for alike in found.values():
        yield replace(alike[0], wrong=either([q.wrong for q in alike]))


def _of_demand(demand: Demand) -> Question:
    return Question(demand.question, demand.what, (demand.op,), demand.wrong, demand.length)


def _of_barriers(kernel: Kernel) -> Iterator[Question]:
    other = rename_for(kernel, ONE)
    facts = _facts(kernel, other)
    for op, guard in kernel.barriers:
        near = op.execution_scope.data is Scope.Subgroup
        members = [kernel.subgroup == other(kernel.subgroup)] if near else []
        wrong = z3.And(guard, other(negate(guard)), *members, facts)
        if not z3.is_false(z3.simplify(wrong)):
            scope = "subgroup" if near else "workgroup"
            yield Question(
                "barriers", f"all invocations of the {scope} reach the barrier", (op,), wrong
            )


def rename_for(kernel: Kernel, level: int) -> Renaming:
    """Returns a function that renames symbols of `level` and below for another invocation."""
    if level in kernel.renamings:
        return kernel.renamings[level]
    own = [
        (c, z3.Const(f"{c}'", c.sort()))
        for c in _symbols(kernel)
        if kernel.levels.get(str(c), LAUNCH) >= level
    ]
    made: dict[int, tuple[Term, Term]] = {}

    def other(term: Term) -> Term:
        if term.get_id() not in made:
            made[term.get_id()] = (term, z3.substitute(term, *own))
        return made[term.get_id()][1]

    kernel.renamings[level] = other
    return other


def _symbols(kernel: Kernel) -> list[Term]:
    indexes = [i.term for a in kernel.accesses for i in a.place.path]
    guards = [a.guard for a in kernel.accesses] + [guard for _, guard in kernel.barriers]
    guards += [t for e in kernel.tickets for t in (e.term, e.guard)]
    guards += [t for pair in kernel.elected for t in pair]
    guards += [d.wrong for d in kernel.demands]
    read = [term for terms in kernel.contents.values() for term, _ in terms]
    return constants_of([*kernel.facts, *indexes, *guards, *read])


def _facts(kernel: Kernel, other: Renaming) -> Term:
    return other(z3.And(*kernel.facts))


def _list_event_facts(kernel: Kernel, other: Renaming, level: int) -> list[Term]:
    """
    Returns two kinds of facts: results of a counter that only grows differ, and a subgroup elects
    only one invocation.
    """
    facts = list[Term]()
    for guard, term in kernel.elected if level == ONE else ():
        same = kernel.subgroup == other(kernel.subgroup)
        facts.append(negate(z3.And(guard, term, other(guard), other(term), same)))
    # Counters in Workgroup memory are separate for each workgroup.
    near = level > WORKGROUP
    counted = [t for t in kernel.tickets if near or t.place.storage is not StorageClass.Workgroup]
    for e, f in product(counted, repeat=2):
        if e.place.root == f.place.root and e.term.sort() == f.term.sort():
            met = z3.And(e.guard, other(f.guard), *_same_place(e.place, f.place, other))
            facts.append(z3.Implies(met, e.term != other(f.term)))
    return facts


def _races(kernel: Kernel, asked: Asked) -> Iterator[Question]:
    """
    Yields a question for each pair of accesses that may race, in one workgroup and between two.
    `asked` selects questions.
    """

    def memory_of(access: Access) -> Hashable:
        root = access.place.root
        return ALL if isinstance(root, Address) else kernel.aliased.get(root, root)

    written = {memory_of(a) for a in kernel.accesses if a.write}
    accesses = [
        replace(a, split=tuple(split_digits(i.term, ranges) for i in a.place.path))
        for a in kernel.accesses
        if memory_of(a) in written and asked(_of_race(a, a, "in a workgroup"))
        for ranges in [kernel.ranges_under(a.guard)]
    ]
    accesses = list(_join_accesses(accesses, kernel))
    # The other invocation has its own symbols from these levels on.
    ways = list[tuple[Renaming, Term, list[Term]]]()
    for level in (WORKGROUP, ITERATION, ONE):
        other = rename_for(kernel, level)
        ways.append((other, _facts(kernel, other), _list_event_facts(kernel, other, level)))
    apart = either([x != ways[0][0](x) for x in kernel.group if known_number(x) is None])
    for a, b in combinations_with_replacement(accesses, 2):
        kernel.limits.check()
        if memory_of(a) != memory_of(b) or not (a.write or b.write):
            continue
        between = kernel.orders[1][a.kind].holds(a, b)
        if not _is_safe(a, b, SAME_WORKGROUP) and not (
            between and a.intervals.isdisjoint(b.intervals)
        ):
            other, facts, events = ways[2 if between else 1]
            distinct = _distinct(kernel, a, b, other)
            if (a.matrix is None and b.matrix is None) or a.matrix == b.matrix:
                distinct += events
            yield from _pair(a, b, "in a workgroup", [*distinct, facts], other)
        if a.place.storage is not StorageClass.Workgroup and not _is_safe(a, b, SAME_DEVICE):
            other, facts, events = ways[0]
            yield from _pair(a, b, "between workgroups", [apart, *events, facts], other)


def _join_accesses(accesses: Sequence[Access], kernel: Kernel) -> Iterator[Access]:
    """
    Joins the accesses that one instruction makes between the same barriers, as in an unrolled loop.
    Otherwise pairs of accesses would give too many questions.
    """
    alike: dict[tuple[object, ...], list[Access]] = {}
    for a in accesses:
        kinds = tuple((f, t.size()) for digits in a.split for f, t in digits)
        key = (a.op, a.place.root, a.write, a.intervals, a.near, a.matrix, kinds)
        alike.setdefault(key, []).append(a)
    for group in alike.values():
        if len(group) <= MOST_ALONE:
            yield from group
            continue
        first, conditions = group[0], [[a.guard] for a in group]
        split = list[tuple[tuple[int, Term], ...]]()
        for number, digits in enumerate(first.split):
            joined = list[tuple[int, Term]]()
            for place, (factor, one) in enumerate(digits):
                terms = [a.split[number][place][1] for a in group]
                if not all(term.eq(one) for term in terms):
                    # Both invocations use the same symbol, because they access one element.
                    one = z3.Const(f"place {next(kernel.numbers)}", one.sort())
                    for condition, term in zip(conditions, terms, strict=True):
                        condition.append(one == term)
                joined.append((factor, one))
            split.append(tuple(joined))
        path = tuple(Scalar(reduce(operator.add, [f * t for f, t in digits])) for digits in split)
        guard = either([z3.And(*condition) for condition in conditions])
        stated = tuple(fact for a in group for fact in a.digits)
        place = replace(first.place, path=path)
        yield replace(first, guard=guard, place=place, split=tuple(split), stated=stated)


def _distinct(kernel: Kernel, a: Access, b: Access, other: Renaming) -> list[Term]:
    """
    Returns the conditions that two accesses in a workgroup are by different invocations.

    The invocations must be of different subgroups if the accesses cannot race within a subgroup:
    barriers order them, or the subgroup makes both together for matrices of the same type.
    """
    subgroup = kernel.subgroup != other(kernel.subgroup)
    near = kernel.orders[0][a.kind].holds(a, b) and a.near.isdisjoint(b.near)
    if near or (a.matrix is not None and a.matrix == b.matrix):
        return [subgroup]
    if a.matrix is not None or b.matrix is not None:
        return []
    lane = kernel.built_ins["SubgroupLocalInvocationId"]
    apart = either([x != other(x) for x in kernel.local if known_number(x) is None])
    return [apart, z3.Or(subgroup, lane != other(lane))]


def _is_safe(a: Access, b: Access, level: int) -> bool:
    if a.place.root != b.place.root:
        return False
    return a.atomic and b.atomic and min(a.facts.scope, b.facts.scope) >= level


def _same_place(x: Place, y: Place, other: Renaming) -> Iterator[Term]:
    """
    Yields the conditions under which two paths select the same part of a variable. `other` renames
    the symbols of `y`.
    """
    for a, b in zip(x.path, y.path, strict=False):
        yield equal(a.term, other(b.term))


def _same_digits(a: Access, b: Access, other: Renaming) -> Iterator[Term]:
    if isinstance(a.place.root, Address) and isinstance(b.place.root, Address):
        yield share_bytes(a.place, b.place, other)
        return
    if a.place.root != b.place.root:
        # The variables share a binding, so byte ranges are compared.
        x, size = byte_range(a.place.whole, a.place.path, a.place.type)
        y, rest = byte_range(b.place.whole, b.place.path, b.place.type)
        yield from (z3.ULT(x, other(y) + rest), z3.ULT(other(y), x + size))
        return
    places = _same_place(a.place, b.place, other)
    for x, y, same in zip(a.split, b.split, places, strict=False):
        if [f for f, _ in x] == [f for f, _ in y]:
            yield from (equal(s, other(t)) for (_, s), (_, t) in zip(x, y, strict=True))
        else:
            yield same


def _pair(
    a: Access, b: Access, where: str, apart: Sequence[Term], other: Renaming
) -> Iterator[Question]:
    same = [z3.simplify(c) for c in _same_digits(a, b, other)]
    # If equal indices imply equal invocations, the race is impossible.
    known = {c.get_id() for c in same}
    met = any(all(_is_denied(d, known) for d in _disjuncts(c)) for c in apart)
    if not met and not any(z3.is_false(c) for c in same):
        # Indices with the same factors are compared by digits only.
        split = all(starmap(_are_digits, zip(a.split, b.split, strict=False)))
        digits = [] if split else [*a.digits, *map(other, b.digits)]
        wrong = z3.And(a.guard, other(b.guard), *same, *apart, *digits)
        yield replace(_of_race(a, b, where), wrong=wrong)


def _disjuncts(condition: Term) -> Sequence[Term]:
    return condition.children() if z3.is_or(condition) else [condition]


def _is_denied(differ: Term, known: set[int]) -> bool:
    """True if `differ` states x != y, and x == y is among the `known` terms (by their ids)."""
    return z3.is_distinct(differ) and z3.simplify(negate(differ)).get_id() in known


def _are_digits(x: Sequence[tuple[int, Term]], y: Sequence[tuple[int, Term]]) -> bool:
    (_, term), *rest = x
    return [f for f, _ in x] == [f for f, _ in y] and (bool(rest) or z3.is_bv_value(term))


def _of_race(a: Access, b: Access, where: str) -> Question:
    storage = a.place.storage.name
    return Question("races", f"two invocations {where}", (a.op, b.op), NEVER, storage=storage)
