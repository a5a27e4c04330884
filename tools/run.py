"""Implements the subcommand `run`. A compiled program runs without the modules of the compiler."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from xdsl_spirv.frontends import is_model
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.expressions import names_in
from xdsl_spirv.runtime.manifest import Buffer
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.speech import did_you_mean
from xdsl_spirv.tools.arrays import dims_of, read_inputs
from xdsl_spirv.tools.output import check_place
from xdsl_spirv.tools.running import execute_checked


def run(arguments: argparse.Namespace) -> int:
    """Runs `xdsl-spirv run`. Returns 1 for a finding or a result beyond its error bound."""
    check_place(arguments.output)
    check_place(arguments.save_state)
    check_place(arguments.profile)
    if is_model(arguments.program) or arguments.program.endswith(".mlir"):
        from xdsl_spirv.tools.models import run as run_model

        return run_model(arguments)
    if arguments.program.endswith(".vgf") or (Path(arguments.program) / "graph.json").is_file():
        from xdsl_spirv.tools.graphs import run as run_graph

        return run_graph(arguments)
    whole = Program.load(arguments.program, arguments.unsafe)
    if arguments.list:
        from xdsl_spirv.tools.listing import list_program

        return list_program(whole)
    program = whole.function(arguments.function)
    _check_dims(arguments, program.manifest.inputs)
    inputs = read_inputs(arguments, program.manifest.inputs)
    if arguments.compare_layers:
        from xdsl_spirv.tools.layerwise import compare

        return compare(program, inputs, arguments)
    _, sound = execute_checked(whole, inputs, arguments)
    return 0 if sound else 1


def _check_dims(arguments: argparse.Namespace, inputs: Iterable[Buffer]) -> None:
    """Raises `ProgramError` if `--dim` names a size that no input has."""
    sizes = [size for b in inputs for size in (b.name if b.kind == "scalar" else 0, *b.shape)]
    known = {name for size in sizes for name in names_in(size)}
    for name in dims_of(arguments):
        if name not in known:
            remedy = did_you_mean(name, known, "leave it out")
            listed = ", ".join(sorted(known)) or "none"
            raise ProgramError(f"there is no size {name!r}", f"sizes: {listed}", remedy)
