"""
The questions to a kernel, for all launches: bounds, divisions, shifts, barriers, races.

An answer is proved, or a launch that might show it wrong (the interpreter has the last word), or
unknown. Two invocations are the same terms twice, the second with its own symbols.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, combinations_with_replacement
from typing import TypeAlias

from xdsl.ir import Operation

from xdsl_spirv.dialects.spirv.enums import StorageClass
from xdsl_spirv.dialects.spirv.structure import ModuleOp
from xdsl_spirv.interpreter.checks.accessors import SAME_DEVICE, SAME_WORKGROUP
from xdsl_spirv.prove.kernel import ITERATION, LAUNCH, ONE, WORKGROUP, Access, Demand, Kernel
from xdsl_spirv.prove.solvers import Limits, ask
from xdsl_spirv.prove.values import Term, constants_of, either, negate, z3

Renaming: TypeAlias = Callable[[Term], Term]
"""Gives the terms of another invocation."""

SIZES = ((2, 64), (4, 1024), (64, 1 << 20))
"""Most workgroups along an axis, and elements of a buffer, of the launches that are looked for."""


@dataclass
class Question:
    """One thing that must never happen."""

    name: str
    what: str
    ops: tuple[Operation, ...]
    wrong: Term
    length: Term | None = None
    result: str = "unknown"
    reason: str = ""
    launch: dict[str, int] = field(default_factory=dict[str, int])


@dataclass
class Proof:
    """The answers of a kernel, and the premises that they stand on."""

    kernel: Kernel
    questions: list[Question]
    given: list[str] = field(default_factory=list[str])
    offered: list[str] = field(default_factory=list[str])
    """Premises that the tool added to make a proof."""
    unreached: list[Operation] = field(default_factory=list[Operation])

    @property
    def result(self) -> str:
        """Proved if everything is; refuted if something is."""
        results = {q.result for q in self.questions}
        if "candidate" in results:
            return "candidate"
        return "unknown" if "unknown" in results or self.unreached else "proved"


def execute(module: ModuleOp, entry: str) -> Kernel:
    """Executes an entry point symbolically; raises `Unsupported` where that cannot be."""
    kernel = Kernel(module, entry)
    kernel.run()
    return kernel


def prove(
    kernel: Kernel, premises: dict[str, Term], offers: dict[str, Term], limits: Limits = Limits()
) -> Proof:
    """
    Asks everything under the premises. Open questions are asked under the offers, too; the
    proof names the offers that it needs.
    """
    questions = list(_questions(kernel))
    proof = Proof(kernel, questions, list(premises))
    held = [*kernel.facts, *premises.values()]
    for question in questions:
        _ask(question, held, kernel, limits)
    wanting = [q for q in questions if q.result != "proved"]
    # Products of two symbols are hard on solvers: they are offered if nothing else suffices.
    plain = {text: term for text, term in offers.items() if not _is_product(text)}
    for chosen in (plain, offers) if len(plain) < len(offers) else (plain,):
        if not wanting or not chosen:
            break
        for question in wanting:
            _ask(question, [*held, *chosen.values()], kernel, limits)
        if all(q.result == "proved" for q in wanting):
            proof.offered = _find_needed(held, chosen, wanting, limits)
            break
    held += [offers[text] for text in proof.offered]
    for access in kernel.accesses:
        if ask([*held, access.guard], limits=limits).verdict != "holds":
            proof.unreached.append(access.op)
    return proof


def _find_needed(
    held: Sequence[Term], offers: dict[str, Term], proved: Sequence[Question], limits: Limits
) -> list[str]:
    """The offers without any of which something would not be proved."""
    needed, size = list(offers), max(1, len(offers) // 2)
    while True:
        for start in range(0, len(needed), size)[::-1]:
            rest = [*needed[:start], *needed[start + size :]]
            terms = [*held, *[offers[text] for text in rest]]
            if all(ask([*terms, q.wrong], limits=limits).verdict == "never" for q in proved):
                needed = rest
        if size == 1:
            return needed
        size //= 2


def _is_product(text: str) -> bool:
    """Whether a premise multiplies two unknown numbers."""
    right = text.partition(">=")[2].split(" * ")
    return sum(not part.strip().isdecimal() for part in right) > 1


def _ask(question: Question, held: Sequence[Term], kernel: Kernel, limits: Limits) -> None:
    """Asks one question; a launch that answers it is the smallest of some sizes."""
    question.result, question.reason = "unknown", ""
    numbers, lengths = kernel.pushed.values(), kernel.lengths.values()
    wanted = [*kernel.grid, *numbers, *lengths]
    answer = ask([*held, question.wrong], wanted, limits)
    if answer.verdict != "holds":
        question.result = "proved" if answer.verdict == "never" else "unknown"
        question.reason = answer.reason
        return
    for groups, elements in SIZES:
        small = [z3.ULE(g, groups) for g in kernel.grid]
        small += [z3.ULE(n - 1, elements) for n in lengths]
        small += [z3.ULE(p, elements) for p in numbers if z3.is_bv(p)]
        smaller = ask([*held, question.wrong, *small], wanted, limits)
        if smaller.verdict == "holds":
            answer = smaller
            break
    question.result, question.launch = "candidate", answer.values


def _questions(kernel: Kernel) -> Iterator[Question]:
    for demand in kernel.demands:
        yield _of_demand(demand)
    other = rename_for(kernel, ONE)
    for op, guard in kernel.barriers:
        wrong = z3.And(guard, other(negate(guard)), *_facts(kernel, ONE))
        if not z3.is_false(z3.simplify(wrong)):
            yield Question("barriers", "all invocations of the workgroup come", (op,), wrong)
    yield from _races(kernel)


def _of_demand(demand: Demand) -> Question:
    return Question(demand.question, demand.what, (demand.op,), demand.wrong, demand.length)


def rename_for(kernel: Kernel, level: int) -> Renaming:
    """A function that gives terms of another invocation, with its own symbols from a level on."""
    own = [
        (c, z3.Const(f"{c}'", c.sort()))
        for c in _symbols(kernel)
        if kernel.levels.get(str(c), LAUNCH) >= level
    ]

    def other(term: Term) -> Term:
        return z3.substitute(term, *own)

    return other


def _symbols(kernel: Kernel) -> list[Term]:
    indexes = [i.term for a in kernel.accesses for i in a.place.path]
    guards = [a.guard for a in kernel.accesses] + [guard for _, guard in kernel.barriers]
    return constants_of([*kernel.facts, *indexes, *guards])


def _facts(kernel: Kernel, level: int) -> list[Term]:
    other = rename_for(kernel, level)
    return [other(fact) for fact in kernel.facts]


def _races(kernel: Kernel) -> Iterator[Question]:
    """Each pair of accesses, of one workgroup and of two."""
    # Levels from which the other invocation has its own symbols.
    ways = {level: (rename_for(kernel, level), _facts(kernel, level))
            for level in (WORKGROUP, ITERATION, ONE)}  # fmt: skip
    same = z3.And(*[x == _prime(x) for x in kernel.local])
    apart = either([x != _prime(x) for x in kernel.group])
    for a, b in combinations_with_replacement(kernel.accesses, 2):
        if a.place.root != b.place.root or not (a.write or b.write):
            continue
        if not _is_safe(a, b, SAME_WORKGROUP) and _meet(a, b):
            shared = a.intervals is not None and b.intervals is not None
            other, facts = ways[ONE if shared else ITERATION]
            yield _pair(a, b, "in a workgroup", [negate(same), *facts], other)
        if a.place.storage is not StorageClass.Workgroup and not _is_safe(a, b, SAME_DEVICE):
            other, facts = ways[WORKGROUP]
            yield _pair(a, b, "between workgroups", [apart, *facts], other)


def _prime(symbol: Term) -> Term:
    return z3.Const(f"{symbol}'", symbol.sort())


def _is_safe(a: Access, b: Access, level: int) -> bool:
    return a.atomic and b.atomic and min(a.facts.scope, b.facts.scope) >= level


def _meet(a: Access, b: Access) -> bool:
    return a.intervals is None or b.intervals is None or not a.intervals.isdisjoint(b.intervals)


def _pair(
    a: Access, b: Access, where: str, apart: Sequence[Term], other: Callable[[Term], Term]
) -> Question:
    conditions = [a.guard, other(b.guard), *apart]
    for x, y in zip(a.place.path, b.place.path, strict=False):
        size = max(x.term.size(), y.term.size())
        first, second = (z3.SignExt(size - t.size(), t) for t in (x.term, other(y.term)))
        conditions.append(first == second)
    wrong = z3.And(*conditions)
    return Question("races", f"two invocations {where}", (a.op, b.op), wrong)


def offered_premises(kernel: Kernel, lengths: dict[str, int]) -> dict[str, Term]:
    """
    Premises that kernels often stand on: a flat grid, and buffers that hold what is counted;
    `lengths` are the lengths of a launch that is meant to be right.
    """
    x, y, z = kernel.grid
    offers = {"grid.y == 1": y == 1, "grid.z == 1": z == 1, "grid.x == 1": x == 1}
    numbers = [t for t in kernel.pushed.values() if z3.is_bv(t) and t.size() == 32]
    wide = {str(n): z3.ZeroExt(32, n) for n in numbers}
    counts = {**wide, "grid.x": z3.ZeroExt(32, x)}
    counts[f"grid.x * {kernel.size[0]}"] = counts["grid.x"] * kernel.size[0]
    threads = f"grid.x * {kernel.size[0]}"
    for name in wide:
        for groups in ("grid.x", threads):
            counts[f"{groups} * {name}"] = counts[groups] * wide[name]
    counts |= {f"{a} * {b}": wide[a] * wide[b] for a, b in combinations(wide, 2)}
    for length in map(str, kernel.lengths.values()):
        term = z3.ZeroExt(32, z3.BitVec(length, 32))
        for name, number in counts.items():
            for part in (1, 2, 4, 8, 16, 32) if name in wide else (1,):
                text = f"{length} >= {name}" if part == 1 else f"{length} * {part} >= {name}"
                offers[text] = z3.UGE(term * part, number)
        if length in lengths:
            offers[f"{length} >= {lengths[length]}"] = z3.UGE(term, lengths[length])
    for number in numbers:
        offers[f"{number} >= 1"] = z3.UGE(number, 1)
        offers[f"{number} < 2147483648"] = z3.ULT(number, 1 << 31)
    return offers


def that_hold(offers: dict[str, Term], values: dict[str, int]) -> dict[str, Term]:
    """
    The offers that a launch fulfils, of several multiples of a length the tightest; without a
    launch, those that are usual.
    """
    if not values:
        usual = (t for t in offers if " * " not in t.partition(">=")[0] and not _is_product(t))
        return {t: offers[t] for t in usual if t != "grid.x == 1"}
    pairs = [(z3.BitVec(name, 32), z3.BitVecVal(value, 32)) for name, value in values.items()]
    held = {t: o for t, o in offers.items() if z3.is_true(z3.simplify(z3.substitute(o, *pairs)))}
    seen = set[tuple[str, str]]()
    tight: dict[str, Term] = {}
    for text, term in held.items():
        left, _, right = text.partition(" >= ")
        key = (left.partition(" * ")[0], right)
        if not right or key not in seen:
            tight[text] = term
        seen.add(key)
    return tight


def premise(text: str, kernel: Kernel) -> Term:
    """
    A premise of names, numbers, `+ - * //` and comparisons, on integers without overflow.

    Raises `ValueError` for anything else.
    """
    symbols = [*kernel.grid, *kernel.pushed.values(), *kernel.lengths.values()]
    known = {str(t): z3.ZeroExt(96, t) for t in symbols if z3.is_bv(t) and t.size() == 32}

    def term(node: ast.expr) -> Term:
        spelled = ast.unparse(node)
        if spelled in known:
            return known[spelled]
        if isinstance(node, ast.Constant) and type(node.value) is int and node.value >= 0:
            return z3.BitVecVal(node.value, 128)
        if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
            return _ARITHMETIC[type(node.op)](term(node.left), term(node.right))
        raise ValueError(f"{spelled!r} is not known; there are: {', '.join(known)}")

    try:
        parsed = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"{text!r} is not a comparison") from error
    if not isinstance(parsed, ast.Compare):
        raise ValueError(f"{text!r} is not a comparison")
    terms = [term(node) for node in (parsed.left, *parsed.comparators)]
    made = [
        _COMPARISONS[type(o)](x, y) for o, x, y in zip(parsed.ops, terms, terms[1:], strict=False)
    ]
    return z3.And(*made)


_ARITHMETIC: dict[type[ast.operator], Callable[[Term, Term], Term]] = {
    ast.Add: lambda x, y: x + y,
    ast.Sub: lambda x, y: x - y,
    ast.Mult: lambda x, y: x * y,
    ast.FloorDiv: z3.UDiv,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Term, Term], Term]] = {
    ast.Lt: lambda x, y: x < y,
    ast.LtE: lambda x, y: x <= y,
    ast.Gt: lambda x, y: x > y,
    ast.GtE: lambda x, y: x >= y,
    ast.Eq: lambda x, y: x == y,
    ast.NotEq: lambda x, y: x != y,
}
