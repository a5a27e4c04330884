"""The problems of a saved kernel: its compiler's, the validator's and its launch's."""

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
"""Seconds that a launch may be expected to take: an editor's user waits for it."""


@dataclass(frozen=True)
class Diagnosis:
    """A problem; if it is `unsure`, an assumed launch or a missing proof may be at fault."""

    problem: Problem
    unsure: bool = False
    is_note: bool = False


def diagnose(path: Path) -> list[Diagnosis]:
    """The problems of a kernel's file, as `xdsl-spirv test` finds them."""
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
            pass  # The run below says what is wrong with the kernel.
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
