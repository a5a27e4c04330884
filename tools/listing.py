"""Implements `--list` of `run` and `explain`: prints inputs and outputs of a program or model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from xdsl_spirv.runtime.manifest import Buffer
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.tools.report import note, note_row

if TYPE_CHECKING:
    from xdsl_spirv.frontends.model import ImportedModel


def list_program(program: Program) -> int:
    """Prints the inputs, outputs and states of each function. Returns the exit status."""
    note(target=program.manifest.target, requires=program.manifest.requires)
    for name, function in program.functions.items():
        manifest = function.manifest
        print(f"{name}, for {manifest.target}")
        _list(name, "input", manifest.inputs)
        _list(name, "output", [b for b in manifest.outputs if b.kind != "state"])
        _list(name, "state", manifest.states)
    return 0


def list_onnx(path: str, dims: Mapping[str, int | None]) -> int:
    """Prints the inputs and outputs of an ONNX file; `--dim` accepts the printed size names."""
    from xdsl_spirv.frontends import onnx_file
    from xdsl_spirv.frontends.model import FUNCTION

    model, _ = onnx_file.read_model(path)
    onnx_file.fix_dimensions(model, {name: size for name, size in dims.items() if size})
    print(FUNCTION)
    for kind, values in (("input", onnx_file.inputs_of(model)), ("output", model.graph.output)):
        for value in values:
            names = onnx_file.names_of(value)
            shape = [
                name or size for name, size in zip(names, onnx_file.shape_of(value), strict=True)
            ]
            type = onnx_file.element_type(value)
            row = {"name": value.name, "type": type, "shape": shape}
            note_row("values", {"function": FUNCTION, "kind": kind, **row})
            print(f"  {kind:6}  {value.name}: {spelled_shape(shape, type)}")
    return 0


def list_model(model: ImportedModel) -> int:
    """Prints the inputs and outputs of an imported model. Returns the exit status."""
    from xdsl_spirv.compiler.model import buffers_of

    print(model.function)
    _list(model.function, "input", buffers_of(model))
    for value in model.outputs:
        row = {"name": value.name, "type": value.type, "shape": value.shape}
        note_row("values", {"function": model.function, "kind": "output", **row})
        print(f"  output  {value}")
    return 0


def _list(function: str, kind: str, buffers: Iterable[Buffer]) -> None:
    for b in buffers:
        row = {"function": function, "kind": kind, "name": b.name, "type": b.type, "shape": b.shape}
        note_row("values", row)
        print(f"  {kind:6}  {b.name}: {'a number' if b.kind == 'scalar' else b}")


def spelled_shape(shape: Sequence[str | int], type: str) -> str:
    """Formats a shape as `4x8xf32`, or with spaces if a size has a name: `batch x 8 x f32`."""
    between = " x " if any(isinstance(size, str) for size in shape) else "x"
    return between.join([*map(str, shape), type])
