"""The interface for Python programs: a model in, a program out, numpy arrays through it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp

from xdsl_spirv.compiler.compiler import compile_module
from xdsl_spirv.compiler.model import compile_model, load_gguf, load_model, refuse_options
from xdsl_spirv.frontends import is_gguf, is_onnx, is_stablehlo
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.program import Program

if TYPE_CHECKING:
    from xdsl_spirv.frontends.model import ImportedModel


def compile(
    source: str | os.PathLike[str] | ModuleOp | ImportedModel | Any,
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
) -> Program:
    """
    Compile a model for a target: the name of a device, or the path of a target file; without it,
    for the device that the environment's XDSL_SPIRV_DEVICE names, or the best of this machine.

    `source` is an ONNX file or `ModelProto` (whose open dimensions `dims` gives sizes, by name, or
    None where they stay open, and whose inputs `constants` may fix), a program of `torch.export`,
    a file of StableHLO, an MLIR file or module of `linalg` on tensors (whose arguments `weights`
    may fill, by name, and which stays as it is), or an imported model, or a GGUF file, a language
    model that becomes `prefill` and `decode` with states of `context` tokens.
    `context` makes what an ONNX model with a past takes and gives on state of a session, with room
    for so many tokens; `state` names such
    inputs and their outputs, also of a program of `torch.export`.
    With several `functions` of a module the program has all of them, for runs of a `session`.

    The program is called with numpy arrays: `program(x)`. With more than one of `jobs`, kernels are
    lowered by so many forks of this process (Linux), which has to be in a state to be forked: other
    threads hold no locks.

    Raises `FrontendError`, `ProgramError`, `TargetError` and xDSL's errors.
    """
    from xdsl_spirv.frontends.model import ImportedModel

    if target is None:
        from xdsl_spirv.runtime.vulkan.own_target import own_target

        target = own_target()
    if isinstance(source, ImportedModel):
        return compile_model(source, target, jobs=jobs)
    if isinstance(source, ModuleOp):
        module = source.clone()
        return compile_module(module, target, function, weights, functions=functions, jobs=jobs)
    if isinstance(source, str | os.PathLike):
        if is_gguf(source):
            refuse_options(source, dims, constants, function, functions, weights, state)
            return compile_model(load_gguf(source, target, context), target, jobs=jobs)
        if is_onnx(source) or is_stablehlo(source):
            model = load_model(source, dims, constants=constants, context=context, state=state)
            return compile_model(model, target, jobs=jobs)
        return compile_module(source, target, function, weights, functions=functions, jobs=jobs)
    from xdsl_spirv.frontends.torch_import import is_exported

    if is_exported(source):
        from xdsl_spirv.frontends import import_torch

        return compile_model(import_torch(source, state), target, jobs=jobs)
    from xdsl_spirv.frontends import import_onnx

    model = import_onnx(source, dims, constants=constants, context=context, state=state)
    return compile_model(model, target, jobs=jobs)
