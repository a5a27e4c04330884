"""Defines `compile`, which turns a model into a program that runs on numpy arrays."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

from xdsl.dialects.builtin import ModuleOp

from xdsl_spirv.compiler.compiler import compile_module
from xdsl_spirv.compiler.model import compile_model, load_gguf, load_model, model_in, refuse_options
from xdsl_spirv.frontends import is_gguf, is_onnx, is_stablehlo
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.modules import parse
from xdsl_spirv.runtime.program import Program

if TYPE_CHECKING:
    from xdsl_spirv.compiler.graph_files import GraphProgram
    from xdsl_spirv.frontends.model import ImportedModel

Source: TypeAlias = "str | os.PathLike[str] | ModuleOp | ImportedModel | Any"


@overload
def compile(
    source: Source,
    *,
    form: Literal["graph"],
    dims: Mapping[str, int | None] | None = None,
    constants: Mapping[str, Array] | None = None,
    function: str | None = None,
    weights: Mapping[str, Array] | None = None,
) -> GraphProgram: ...


@overload
def compile(
    source: Source,
    target: str | None = None,
    *,
    dims: Mapping[str, int | None] | None = None,
    constants: Mapping[str, Array] | None = None,
    function: str | None = None,
    functions: Sequence[str] = (),
    weights: Mapping[str, Array] | None = None,
    context: int | None = None,
    state: Mapping[str, str] | None = None,
    jobs: int = 1,
    form: Literal["kernels"] = "kernels",
) -> Program: ...


def compile(
    source: Source,
    target: str | None = None,
    *,
    dims: Mapping[str, int | None] | None = None,
    constants: Mapping[str, Array] | None = None,
    function: str | None = None,
    functions: Sequence[str] = (),
    weights: Mapping[str, Array] | None = None,
    context: int | None = None,
    state: Mapping[str, str] | None = None,
    jobs: int = 1,
    form: Literal["kernels", "graph"] = "kernels",
) -> Program | GraphProgram:
    """
    Compiles a model for a target: the name of a device, or the path of a target file. Without
    `target`, the device of the environment variable XDSL_SPIRV_DEVICE is used, or the best one of
    this machine.

    `source` is one of these:

    - an ONNX file or `ModelProto`. `dims` gives sizes to its open dimensions by name (None leaves a
      dimension open), and `constants` fixes inputs;
    - a program of `torch.export`;
    - a file of StableHLO;
    - an MLIR file or a module of `linalg` on tensors, which is not changed. `weights` gives values
      to its arguments by name;
    - an imported model;
    - a GGUF file, a language model that becomes `prefill` and `decode` with states of `context`
      tokens.

    `context` turns the past of an ONNX model (key and value tensors that are inputs and outputs)
    into state of a session, with space for this many tokens. `state` maps other inputs, also of a
    program of `torch.export`, to the outputs that give their next values. With several `functions`
    of a module, the program contains all of them, to be run in a `session`.

    With `form="graph"` the model becomes one graph of TOSA operators, for any target.

    The program is called with numpy arrays: `program(x)`. With `jobs` above 1, kernels are lowered
    by this many forks of the process (Linux only). During the call, other threads must not hold
    locks, since a fork could wait for them forever.

    Raises `FrontendError`, `ProgramError`, `TargetError` and xDSL's errors.
    """
    options = _Options(dims, constants, function, weights, context, state)
    if form == "graph":
        from xdsl_spirv.compiler.linalg_to_graph import graph_of_model

        if target is not None or functions:
            raise ProgramError(
                "a graph has one function and no target", form, "leave target and functions out"
            )
        return graph_of_model(options.model(source, None))
    if target is None:
        from xdsl_spirv.runtime.vulkan.own_target import own_target

        target = own_target()
    if isinstance(source, ModuleOp) or _is_module_file(source):
        module: Any = source.clone() if isinstance(source, ModuleOp) else source
        return compile_module(module, target, function, weights, functions=functions, jobs=jobs)
    if isinstance(source, str | os.PathLike) and is_gguf(source):
        refuse_options(source, functions)
    return compile_model(options.model(source, target), target, jobs=jobs)


def _is_module_file(source: Any) -> bool:
    """True if `source` is the path of a file in MLIR's own dialects."""
    if not isinstance(source, str | os.PathLike):
        return False
    return not (is_gguf(source) or is_onnx(source) or is_stablehlo(source))


@dataclass(frozen=True)
class _Options:
    """Options of `compile` that affect how a source is imported."""

    dims: Mapping[str, int | None] | None
    constants: Mapping[str, Array] | None
    function: str | None
    weights: Mapping[str, Array] | None
    context: int | None
    state: Mapping[str, str] | None

    def model(self, source: Any, target: str | None) -> ImportedModel:
        from xdsl_spirv.frontends.model import ImportedModel
        from xdsl_spirv.frontends.torch_import import is_exported

        if isinstance(source, ImportedModel):
            return source
        if isinstance(source, ModuleOp) or _is_module_file(source):
            module = source.clone() if isinstance(source, ModuleOp) else parse(source)
            return model_in(module, self.function, self.weights or {})
        if isinstance(source, str | os.PathLike) and is_gguf(source):
            refused = (self.dims, self.constants, self.function, self.weights, self.state)
            refuse_options(source, *refused)
            return load_gguf(source, target, self.context)
        if is_exported(source):
            from xdsl_spirv.frontends import import_torch

            return import_torch(source, self.state)
        named: dict[str, Any] = {
            "constants": self.constants,
            "context": self.context,
            "state": self.state,
        }
        if isinstance(source, str | os.PathLike):
            return load_model(source, self.dims, **named)
        from xdsl_spirv.frontends import import_onnx

        return import_onnx(source, self.dims, **named)
