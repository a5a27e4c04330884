"""
Runs the proofs that a test requests with a line such as `prove = ["races", "bounds"]`.

A proof succeeds only under the premises that the test states. A refutation is reported as the
interpreter's finding in the refuting launch. An undecided question is a problem.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.tools.kernel_test.description import QUESTIONS, KernelTest
from xdsl_spirv.tools.kernel_test.problems import UNPROVED, Location, Outcome, Problem, Sources
from xdsl_spirv.tools.kernel_test.running import fail_loading, run_test, settle_expected

if TYPE_CHECKING:
    from xdsl_spirv.tools.kernel_proving import Reason, Result

QUESTION_SECONDS = 5.0
"""Time limit of a solver call, in seconds."""


def judge_test(test: KernelTest) -> list[Outcome]:
    """Runs a test's launches and its proof, if it has them, and returns their outcomes."""
    proved = [prove_test(test)] if test.prove else []
    launched = run_test(test) if test.grid is not None or not proved else []
    return [*launched, *proved]


def prove_test(test: KernelTest) -> Outcome:
    """Proves or refutes the test's questions about all launches."""
    start = time.perf_counter()
    outcome = Outcome(test, proof={"questions": list(test.prove)})
    try:
        problems = list(_problems(test, outcome))
    except ProgramError as error:
        outcome.misuse, problems = str(error), []
    except Exception as error:
        problems = [fail_loading(test, error)]
    outcome.problems = settle_expected(_expect_asked(test), problems, outcome)
    outcome.seconds = time.perf_counter() - start
    return outcome


def _expect_asked(test: KernelTest) -> KernelTest:
    """Removes the expected findings that do not belong to a question of the test."""
    prefixes = tuple(prefix for name in (*test.prove, "barriers") for prefix in QUESTIONS[name])
    asked = (t for t in test.findings if any(r.startswith(prefixes) for r in t.split("|")))
    return replace(test, findings=tuple(asked), error=None)


def _problems(test: KernelTest, outcome: Outcome) -> Iterator[Problem]:
    from xdsl_spirv.tools.solvers import require_solvers

    require_solvers()
    from xdsl_spirv.tools.kept_answers import open_answers
    from xdsl_spirv.tools.kernel_proving import ALWAYS, ask_about, limit_work, prove_kernel

    limits = limit_work(min(QUESTION_SECONDS, test.prove_timeout), test.prove_timeout)
    limits = replace(limits, answers=open_answers())
    result = prove_kernel(test, (), limits, ask_about(test.prove))
    outcome.proof = {
        "questions": list(test.prove), "verdict": result.verdict, "launch": result.launch,
        "premises": [ALWAYS, *result.premises], "offered": result.offered,
    }  # fmt: skip
    if result.verdict == "refuted":
        text = f"{result.found[0].text}\n  in the launch {result.launch}"
        yield replace(result.found[0], text=text)
    elif result.verdict == "proved" and not result.offered:
        outcome.notes += [f"premises of every proof: {ALWAYS}", *result.given]
    else:
        yield from dict.fromkeys(_list_unproved(test, result))


def _list_unproved(test: KernelTest, result: Result) -> Iterator[Problem]:
    if result.verdict == "proved":
        cause = "the proof depends on premises that the test does not state"
        stated = ", ".join(f'"{text}"' for text in (*result.premises, *result.offered))
        remedy = f"check the premises, and write\n  [assume]\n  premises = [{stated}]"
        yield _problem_at(cause, Location(str(test.source)), remedy)
        return
    for reason in result.reasons:
        remedy = (
            "state a premise under [assume], raise the time limit (prove-timeout), or remove "
            "the question"
        )
        yield _problem_at(f"unknown: {reason.text}", _locate(test, reason), remedy)


def _problem_at(cause: str, place: Location, remedy: str) -> Problem:
    lines = "\n  ".join([cause, *([f"at {place}"] if place.line else []), remedy])
    return Problem(UNPROVED, cause, f"{UNPROVED}: {lines}", remedy, place)


def _locate(test: KernelTest, reason: Reason) -> Location:
    if reason.op is not None:
        finding = reason.finding
        place = Sources(test.kernel).place(finding.source, finding.line)
        if place is not None:
            return place
    return Location(str(test.kernel))
