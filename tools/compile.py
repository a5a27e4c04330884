"""
`xdsl-spirv compile`: a model in, a program out.

It imports the compiler only: no interpreter, no driver, and no pass that has nothing to do.
"""

from __future__ import annotations

import argparse
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from xdsl_spirv.compiler.compiler import compile_module
from xdsl_spirv.compiler.kernel_jobs import usable_processors
from xdsl_spirv.passes.schedule.paths import PATHS, Limits
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.program import check_place
from xdsl_spirv.speech import did_you_mean
from xdsl_spirv.tools.report import note_row

if TYPE_CHECKING:
    from xdsl_spirv.tools.trace import Trace


def compile(arguments: argparse.Namespace) -> int:
    """Compile a model or a module, and say what kernels became of it."""
    check_place(arguments.output)
    if _is_model(arguments.input):
        from xdsl_spirv.tools.models import compile as compile_model

        return compile_model(arguments)
    weights = None
    if arguments.weights:
        from xdsl_spirv.runtime.weights import load_weights

        weights = load_weights(Path(arguments.weights))
    with _traced(arguments) as trace:
        program = compile_module(
            arguments.input,
            arguments.target,
            arguments.function,
            weights,
            functions=functions_of(arguments),
            limits=limits_of(arguments),
            observe=trace and trace.observe,
            jobs=jobs_of(arguments),
        )
    program.save(arguments.output, arguments.text)
    manifest = program.manifest
    functions = (manifest, *manifest.functions)
    for dispatch in (dispatch for function in functions for dispatch in function.dispatches):
        size = len(program.code[dispatch.kernel].binary)
        grid = "x".join(map(str, dispatch.grid))
        row = {"kernel": dispatch.kernel, "entry_point": dispatch.entry_point}
        note_row("dispatches", {**row, "grid": dispatch.grid, "spirv_bytes": size})
        print(
            f"{dispatch.kernel}.{dispatch.entry_point}: {grid} workgroups, {size} bytes of SPIR-V"
        )
    return 0


def _is_model(path: str) -> bool:
    """Whether a frontend imports a file: its name says so, and that of a module says no."""
    if path.endswith(".mlir"):
        return False
    from xdsl_spirv.frontends import is_model

    return is_model(path)


def _traced(arguments: argparse.Namespace) -> AbstractContextManager[Trace | None]:
    """The trace of `--trace-passes`; None without."""
    if arguments.trace_passes is None:
        return nullcontext()
    from xdsl_spirv.tools.tracing import tracing

    return tracing(arguments.trace_passes, arguments.input)


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
