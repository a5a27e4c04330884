"""
Proves questions together, under premises, and finds the premises that the proofs need.

A question is a condition that must never hold. Many questions are one query to the solvers. If it
is not decided, each half is asked alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile

from xdsl.ir import Operation

from xdsl_spirv.prove.kernel import Kernel
from xdsl_spirv.prove.solvers import LATE, Limits, ask
from xdsl_spirv.prove.values import Term, either, z3

MOST_TOGETHER = 32
"""Maximum number of questions in one query to the solvers, because larger queries take too long."""


@dataclass
class Question:
    """A condition that must never hold, with the answer of the solvers."""

    name: str
    what: str
    ops: tuple[Operation, ...]
    wrong: Term
    length: Term | None = None
    storage: str = ""
    """Storage class in which invocations race, "" for other questions."""
    result: str = "unknown"
    reason: str = ""
    launch: dict[str, int] = field(default_factory=dict[str, int])
    needed: set[str] = field(default_factory=set[str])
    """The suggested premises that the proof of the question uses."""
    ways: list[Sequence[Term]] = field(default_factory=list[Sequence[Term]])
    """Sets of conditions under which a solver found a launch that may show a bug."""


def prove_together(
    questions: Sequence[Question],
    held: Sequence[Term],
    offers: Sequence[dict[str, Term]],
    limits: Limits,
) -> bool:
    """
    Adds the sets `offers` of suggested premises until all questions are proved under the conditions
    `held`. Returns True if they are.
    """
    known, left = dict[str, Term](), list(questions)
    for number, chosen in enumerate(offers or [{}]):
        known |= chosen
        # The first solver decides an open question faster with more premises.
        last = number >= len(offers) - 1
        depth = None if last else 2
        most = limits if last else replace(limits, solvers=1)
        parts = [left[n : n + MOST_TOGETHER] for n in range(0, len(left), MOST_TOGETHER)]
        left = [q for part in parts for q in _halve(part, held, known, most, depth)]
        if not left:
            return True
    return False


def _halve(
    questions: Sequence[Question],
    held: Sequence[Term],
    known: dict[str, Term],
    limits: Limits,
    depth: int | None = None,
) -> list[Question]:
    """
    Proves questions together, under the conditions `held` and the premises `known`. If that fails,
    halves them, up to `depth` times. Returns the unproved questions.
    """
    if not questions:
        return []
    alone = len(questions) == 1
    wrong = either([q.wrong for q in questions])
    quick = limits if alone else replace(limits, solvers=1)
    answer = ask([*held, wrong], (), quick, list(known.values()))
    if answer.verdict == "never":
        texts = list(known)
        for question in questions:
            question.result, question.needed = "proved", {texts[n] for n in answer.needed}
        return []
    if alone or LATE in answer.reason or depth == 0:
        return list(questions)
    middle = len(questions) // 2
    parts = (questions[:middle], questions[middle:])
    depth = None if depth is None else depth - 1
    return [q for part in parts for q in _halve(part, held, known, limits, depth)]


def find_needed(
    held: Sequence[Term], known: dict[str, Term], proved: Sequence[Question], limits: Limits
) -> list[str]:
    """
    Returns a minimal set of suggested premises that still proves all questions. Each premise is as
    weak as possible, for example `grid.x` elements of a buffer, not `grid.x * 16`.
    """
    needed = {text: None for q in proved for text in known if text in q.needed}
    # Drops grid premises before the last one about lengths, because they restrict users more.
    order = sorted([t for t in known if t in needed][::-1], key=lambda t: not t.startswith("grid."))
    for text in order:
        asked = [q for q in proved if text in q.needed]
        for weaker in (None, *_find_weaker(text, known)):
            rest = {t: known[t] for t in (*needed, weaker) if t is not None and t != text}
            trial = [replace(q) for q in asked]
            if not _halve(trial, held, rest, limits):
                for question, tried in zip(asked, trial, strict=True):
                    question.needed = tried.needed
                needed = dict.fromkeys(rest)
                break
    return [text for text in known if text in needed]


def find_unused(
    kernel: Kernel,
    proved: Sequence[Question],
    premises: Mapping[str, Term],
    added: Mapping[str, Term],
    limits: Limits,
) -> list[str]:
    """
    Returns the given premises that the proofs of the questions do not need.

    `added` has the suggested premises that the proofs need. A premise that fixes a number of the
    symbolic execution counts as needed.
    """
    trial, named = [replace(q) for q in proved], {**premises, **added}
    if not premises or _halve(trial, kernel.facts, named, limits):
        return []
    free = premises.keys() - find_needed(kernel.facts, named, trial, limits)
    fixed = {t for t in free if kernel.fixed and z3.is_true(z3.simplify(premises[t]))}
    return [text for text in premises if text in free - fixed]


def _find_weaker(text: str, known: Iterable[str]) -> list[str]:
    """Returns the premises in `known` that equal `text` except for a smaller factor at the end."""
    stem, _, factor = text.rpartition(" * ")
    if " >= " not in stem or not factor.isdecimal():
        return []
    return [
        t
        for t in takewhile(lambda t: t != text, known)
        if t == stem or t.rpartition(" * ")[0] == stem
    ]
