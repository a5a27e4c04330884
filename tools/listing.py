"""
`--list` of `run` and `explain`: what a program or a model takes and gives.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from xdsl_spirv.compiler.model import buffers_of
from xdsl_spirv.frontends.model import ImportedModel
from xdsl_spirv.runtime.manifest import Buffer
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.tools.report import note, note_row


def list_values(arguments: argparse.Namespace) -> int:
    """Print what the program's directory or the model of `explain` takes and gives."""
    if Path(arguments.input).is_dir():
        return list_program(Program.load(arguments.input))
    from xdsl_spirv.tools.models import given_shapes, read_model

    return list_model(read_model(arguments, arguments.input, given_shapes(arguments)))


def list_program(program: Program) -> int:
    """Print the inputs, outputs and states of each function of a program."""
    note(target=program.manifest.target, requires=program.manifest.requires)
    for name, function in program.functions.items():
        manifest = function.manifest
        print(f"{name}, for {manifest.target}")
        _list(name, "input", manifest.inputs)
        _list(name, "output", [b for b in manifest.outputs if b.kind != "state"])
        _list(name, "state", manifest.states)
    return 0


def list_model(model: ImportedModel) -> int:
    """Print the inputs and outputs of a model."""
    print(model.function)
    _list(model.function, "input", buffers_of(model))
    for value in model.outputs:
        note_row("values", {"function": model.function, "kind": "output", "name": value.name})
        print(f"  output  {value}")
    return 0


def _list(function: str, kind: str, buffers: Iterable[Buffer]) -> None:
    for b in buffers:
        row = {"function": function, "kind": kind, "name": b.name, "type": b.type, "shape": b.shape}
        note_row("values", row)
        print(f"  {kind:6}  {b.name}: {'a number' if b.kind == 'scalar' else b}")
