"""
Asks solvers if conditions can hold together, within limits of work, time and memory.

Three solvers are asked in turn: bitwuzla for bits, floats and uninterpreted functions; z3, also
for integers; and cvc5. z3 and cvc5 are limited by counted work, so that answers are reproducible,
and bitwuzla by processor time. A question that no solver decides is unknown, with the reason.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from typing import Any, Literal, Protocol, TypeAlias

from xdsl_spirv.prove.values import Term, Unsupported, z3

Verdict: TypeAlias = Literal["holds", "never", "unknown"]
"""
A solver's verdict on conditions: they hold together for some values, they never do, or it is
unknown.
"""


LATE = "the kernel's time limit is reached"
INTEGERS = "the solver has no integers"


@dataclass(frozen=True)
class Limits:
    """Limits of one query to one solver."""

    seconds: float = 10.0
    megabytes: int = 2048
    work: int = 4_000_000
    """Limit of z3's own count of work. The default takes about ten seconds."""
    solvers: int = 3
    """Number of solvers to ask, one after the other."""
    until: float = float("inf")
    """Processor time of this process after which no solver is asked, in seconds."""
    end: float = float("inf")
    """Processor time of this process, in seconds, after which the analysis of the kernel ends."""
    answers: Answers | None = None
    """Cache of answers, None without a cache."""

    def restart(self) -> Limits:
        """Returns limits that end after the processor time of 8 more queries."""
        return replace(self, until=min(time.process_time() + 8 * self.seconds, self.end))

    def check(self) -> None:
        """Raises `Unsupported` if the kernel's time is used up."""
        if time.process_time() > self.end:
            raise Unsupported(LATE)


@dataclass
class Answer:
    """A verdict. `values` are the wanted constants by name, if the conditions can hold."""

    verdict: Verdict
    solver: str = ""
    seconds: float = 0.0
    values: dict[str, int] = field(default_factory=dict[str, int])
    reason: str = ""
    needed: list[int] = field(default_factory=list[int])
    """Indices of the premises on which the verdict `never` depends."""


class Answers(Protocol):
    """Interface of caches of answers, by the text of obligations."""

    def find(self, text: str) -> Answer | None:
        """Returns the answer to an obligation, or None."""
        ...

    def keep(self, text: str, answer: Answer) -> None:
        """Stores an answer of the solvers."""
        ...


@dataclass(frozen=True)
class Obligation:
    """Conditions and premises, and the constants whose values a satisfying answer must give."""

    conditions: Sequence[Term]
    wanted: Sequence[Term]
    premises: Sequence[Term]

    @cached_property
    def text(self) -> str:
        """The obligation in SMT-LIB syntax. Each premise is implied by a Boolean with its index."""
        implied = [z3.Implies(z3.Bool(f"premise!{n}"), p) for n, p in enumerate(self.premises)]
        # A wanted constant that is not in the conditions appears in an equality with itself.
        return smt_lib([*self.conditions, *implied, *_mention(self.wanted)])


Backend: TypeAlias = Callable[[Obligation, Limits], Answer]


def ask(
    conditions: Iterable[Term],
    wanted: Sequence[Term] = (),
    limits: Limits = Limits(),
    premises: Sequence[Term] = (),
) -> Answer:
    """
    Decides if all conditions and premises can hold together. If they can, the answer contains
    values of the wanted constants. Otherwise it contains premises that suffice for the
    contradiction.
    """
    listed = [c for c in conditions if not z3.is_true(c)]
    if any(z3.is_false(c) for c in listed):
        return Answer("never", "simplification")
    obligation = Obligation(listed, wanted, premises)
    known = limits.answers.find(obligation.text) if limits.answers is not None else None
    if known is not None:
        return known
    start, reasons = time.perf_counter(), list[str]()
    left = limits.solvers
    for name, backend in PORTFOLIO:
        if left == 0:
            break
        if time.process_time() > min(limits.until, limits.end):
            reasons.append(LATE)
            break
        answer = backend(obligation, limits)
        answer.solver, answer.seconds = name, time.perf_counter() - start
        if answer.verdict != "unknown":
            if limits.answers is not None:
                limits.answers.keep(obligation.text, answer)
            return answer
        if answer.reason != INTEGERS:
            left -= 1
            reasons.append(f"{name}: {answer.reason}")
    return Answer("unknown", seconds=time.perf_counter() - start, reason="; ".join(reasons))


def smt_lib(conditions: Sequence[Term]) -> str:
    """Returns the conditions in SMT-LIB syntax, with their declarations."""
    solver = z3.Solver()
    solver.add(*conditions)
    # z3 prints other names for divisions with a nonzero divisor.
    return re.sub(r"\b(bv[us](?:div|rem|mod))_i\b", r"\1", solver.sexpr())


def ask_z3(obligation: Obligation, limits: Limits) -> Answer:
    """Asks z3, limited by its counted work. A time limit ends steps that are not counted."""
    solver = z3.Solver()
    solver.set("rlimit", limits.work)
    solver.set("timeout", int(limits.seconds * 4000))
    solver.set("max_memory", limits.megabytes)
    solver.add(*obligation.conditions)
    names = {f"premise!{number}": number for number in range(len(obligation.premises))}
    for name, premise in zip(names, obligation.premises, strict=True):
        solver.add(z3.Implies(z3.Bool(name), premise))
    result = solver.check(*map(z3.Bool, names))
    if result == z3.unsat:
        return Answer("never", needed=sorted(names[str(c)] for c in solver.unsat_core()))
    if result == z3.unknown:
        return Answer("unknown", reason=str(solver.reason_unknown()))
    model, values = solver.model(), dict[str, int]()
    for term in obligation.wanted:
        value = model.eval(term, model_completion=True)
        if z3.is_bv_value(value) or z3.is_int_value(value):
            values[str(term)] = value.as_long()
        elif z3.is_bool(value):
            values[str(term)] = int(z3.is_true(value))
    return Answer("holds", values=values)


def ask_bitwuzla(obligation: Obligation, limits: Limits) -> Answer:
    """Asks bitwuzla, limited by processor time and memory."""
    bitwuzla: Any = import_module("bitwuzla")

    manager, options = bitwuzla.TermManager(), bitwuzla.Options()
    options.set(bitwuzla.Option.PRODUCE_MODELS, True)
    options.set(bitwuzla.Option.PRODUCE_UNSAT_ASSUMPTIONS, True)
    options.set(bitwuzla.Option.MEMORY_LIMIT, limits.megabytes)
    parser = bitwuzla.Parser(manager, options)
    try:
        if re.search(r"\bInt\b", obligation.text):
            return Answer("unknown", reason=INTEGERS)
        parser.parse(obligation.text, True, False)
        names = [z3.Bool(f"premise!{number}") for number in range(len(obligation.premises))]
        assumed = [parser.parse_term(name.sexpr()) for name in names]
        # Processor time: other programs on the machine change no answer. bitwuzla keeps neither
        # this object nor the function alive.
        solver = parser.bitwuzla()
        end = min(time.process_time() + limits.seconds, limits.end)
        late = lambda: time.process_time() > end  # noqa: E731
        solver.configure_terminator(late)
        result = solver.check_sat(*assumed)
        if result == bitwuzla.Result.UNSAT:
            failed = {str(t) for t in solver.get_unsat_assumptions()}
            return Answer("never", needed=[n for n, t in enumerate(assumed) if str(t) in failed])
        if result != bitwuzla.Result.SAT:
            return Answer("unknown", reason=f"{limits.seconds:g} s did not suffice")
        values = {str(t): _bits(parser, solver, t) for t in obligation.wanted}
    except bitwuzla.BitwuzlaException as error:
        return Answer("unknown", reason=str(error).splitlines()[0])
    return Answer("holds", values=values)


def _mention(wanted: Sequence[Term]) -> list[Term]:
    """
    Returns a tautology for each of the constants `wanted`. Printers then declare the constant even
    if no condition contains it.
    """
    return [z3.Or(t, z3.Not(t)) if z3.is_bool(t) else t == t for t in wanted]


def _bits(parser: Any, solver: Any, term: Term) -> int:
    value = solver.get_value(parser.parse_term(term.sexpr()))
    return int(value.value()) if z3.is_bool(term) else int(value.value(10))


def ask_cvc5(obligation: Obligation, limits: Limits) -> Answer:
    """Asks cvc5 within a time limit. Its verdict has no values."""
    cvc5: Any = import_module("cvc5")

    solver = cvc5.Solver()
    solver.setOption("tlimit-per", str(int(limits.seconds * 1000)))
    solver.setLogic("ALL")
    parser = cvc5.InputParser(solver)
    parser.setStringInput(
        cvc5.InputLanguage.SMT_LIB_2_6,
        smt_lib([*obligation.conditions, *obligation.premises]),
        "obligation",
    )
    try:
        while not (command := parser.nextCommand()).isNull():
            command.invoke(solver, parser.getSymbolManager())
        result = solver.checkSat()
    except RuntimeError as error:
        return Answer("unknown", reason=str(error).splitlines()[0])
    if result.isUnsat():
        return Answer("never", needed=list(range(len(obligation.premises))))
    return Answer(
        "unknown",
        reason="the conditions can hold, but this solver gives no values"
        if result.isSat()
        else "too long",
    )


PORTFOLIO: tuple[tuple[str, Backend], ...] = (
    ("bitwuzla", ask_bitwuzla),
    ("z3", ask_z3),
    ("cvc5", ask_cvc5),
)
