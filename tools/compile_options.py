"""
The options that `compile`, `run` and `explain` share, as the compiler takes them.
"""

from __future__ import annotations

import argparse

from xdsl_spirv.compiler.kernel_jobs import usable_processors
from xdsl_spirv.passes.schedule.paths import PATHS, Limits
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.speech import did_you_mean


def limits_of(arguments: argparse.Namespace) -> Limits:
    """`--only PATH=LAYER,...` and `--except PATH=LAYER,...`; no limits if neither is given."""
    only = _patterns("--only", arguments.only)
    excluded = _patterns("--except", arguments.excluded)
    return Limits(only, excluded)


def _patterns(option: str, given: list[str]) -> tuple[str, ...]:
    limits: list[str] = []
    for text in given:
        path, _, names = text.partition("=")
        patterns = [name for name in names.split(",") if name]
        if path not in PATHS or not patterns:
            raise ProgramError(
                f"{option} {text} names no layers for a path",
                f"paths: {', '.join(PATHS)}",
                did_you_mean(
                    "" if path in PATHS else path,
                    PATHS,
                    f"write {option} {PATHS[0]}=LAYER,LAYER (* stands for anything)",
                ),
            )
        limits += [f"{path}={pattern}" for pattern in patterns]
    return tuple(limits)


def jobs_of(arguments: argparse.Namespace) -> int:
    """`--jobs N`, or the processors there are."""
    jobs: int | None = arguments.jobs
    if jobs is not None and jobs < 1:
        raise ProgramError(f"--jobs {jobs} is no number of processes", "", "give 1 or more")
    return jobs or usable_processors()


def functions_of(arguments: argparse.Namespace) -> tuple[str, ...]:
    """The functions of `--functions`, separated by commas; none without."""
    return tuple(filter(None, (getattr(arguments, "functions", None) or "").split(",")))
