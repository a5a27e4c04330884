"""
Implements `xdsl-spirv compile`: compiles a model to a program.

Imports are lazy, because a compilation needs no interpreter, driver or unused pass.
"""

from __future__ import annotations

import argparse
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from xdsl_spirv.compiler.compiler import compile_module
from xdsl_spirv.runtime.program import PROGRAM_FOLDER, Program
from xdsl_spirv.tools.options import functions_of, jobs_of, limits_of

if TYPE_CHECKING:
    from xdsl_spirv.tools.trace import Trace


def compile(arguments: argparse.Namespace) -> int:
    """Compiles a model or a module, and prints its kernels."""
    if arguments.form == "graph":
        from xdsl_spirv.tools.graphs import compile_graph

        compile_graph(arguments)
        return 0
    PROGRAM_FOLDER.check_place(arguments.output)
    if arguments.drivers or arguments.disassembly:
        from xdsl_spirv.tools.machine_code import drivers_of, report

        drivers = drivers_of(arguments)
        arguments.target = arguments.target or drivers[0].target
        return report(_compile_program(arguments), drivers, arguments.disassembly)
    if arguments.target is None:
        from xdsl_spirv.runtime.vulkan.own_target import own_target

        arguments.target = own_target()
    if not arguments.prove:
        _compile_program(arguments)
        return 0
    from xdsl_spirv.tools.solvers import require_solvers

    require_solvers()
    from xdsl_spirv.tools.kept_answers import open_answers
    from xdsl_spirv.tools.kernel_proving import limit_work
    from xdsl_spirv.tools.program_proving import report_proofs

    answers = None if arguments.no_cache else open_answers()
    return report_proofs(_compile_program(arguments), replace(limit_work(5.0), answers=answers))


def _compile_program(arguments: argparse.Namespace) -> Program:
    if _is_model(arguments.input):
        from xdsl_spirv.tools.models import compile as compile_model

        return compile_model(arguments)
    weights = None
    if arguments.weights:
        from xdsl_spirv.runtime.weights import load_weights

        weights = load_weights(Path(arguments.weights))
    with _trace_passes(arguments) as trace:
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
        if arguments.json:
            from xdsl_spirv.tools.report import note_row

            row = {"kernel": dispatch.kernel, "entry_point": dispatch.entry_point}
            note_row("dispatches", {**row, "grid": dispatch.grid, "spirv_bytes": size})
        print(
            f"{dispatch.kernel}.{dispatch.entry_point}: {grid} workgroups, {size} bytes of SPIR-V"
        )
    return program


def _is_model(path: str) -> bool:
    """True if the file's name shows that a frontend imports the file."""
    if path.endswith(".mlir"):
        return False
    from xdsl_spirv.frontends import is_model

    return is_model(path)


def _trace_passes(arguments: argparse.Namespace) -> AbstractContextManager[Trace | None]:
    """Returns the trace that `--trace-passes` requests, or None."""
    if arguments.trace_passes is None:
        return nullcontext()
    from xdsl_spirv.tools.tracing import tracing

    return tracing(arguments.trace_passes, arguments.input)
