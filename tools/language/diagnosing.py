"""Finds the problems of a saved kernel with its compiler, the validator and a test launch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from xdsl_spirv.tools.kernel_test.collecting import collect
from xdsl_spirv.tools.kernel_test.description import KernelTest, Misuse
from xdsl_spirv.tools.kernel_test.problems import COMPILE, UNPROVED, Location, Problem
from xdsl_spirv.tools.kernel_test.proving import judge_test
from xdsl_spirv.tools.kernel_test.starting import assume_launch

SECONDS = 20.0
"""Time limit of the test launch, in seconds."""


@dataclass(frozen=True)
class Diagnosis:
    """A problem. `unsure` is true if an assumed launch or a missing proof may be the cause."""

    problem: Problem
    unsure: bool = False
    is_note: bool = False


def diagnose(path: Path) -> list[Diagnosis]:
    """Returns the problems that `xdsl-spirv test` finds in a kernel's file."""
    collection = collect([str(path)])
    found = [_note(path, error) for _, error in collection.refused]
    if path.suffix == ".mlir" and "spirv.module" not in path.read_text(errors="replace"):
        return found
    for test in collection.tests:
        limits = {"timeout": test.timeout, "prove_timeout": test.prove_timeout}
        found += _of_test(replace(test, **{n: min(t, SECONDS) for n, t in limits.items()}))
    return list(dict.fromkeys(found))


def _of_test(test: KernelTest) -> Iterator[Diagnosis]:
    assumed = test.source == test.kernel
    if assumed:
        try:
            test = replace(assume_launch(test), timeout=SECONDS)
        except Exception:
            pass  # The run below reports the kernel's faults.
    for outcome in judge_test(test):
        for problem in outcome.problems:
            unsure = problem.rule == UNPROVED or (assumed and problem.rule != COMPILE)
            yield Diagnosis(problem, unsure)
        if outcome.misuse:
            yield _note(test.kernel, Misuse(outcome.misuse))
        elif assumed and outcome.problems and outcome.subgroup_size is not None:
            cause = (
                f"no {test.kernel.stem}.kernel.toml describes a launch: {test.grid} workgroups and "
                "random buffers were assumed (`xdsl-spirv test --init` writes the file)"
            )
            yield _note(test.kernel, Misuse(cause))


def _note(path: Path, error: Misuse) -> Diagnosis:
    text = str(error)
    return Diagnosis(Problem("", text, text, "", Location(str(path))), is_note=True)
