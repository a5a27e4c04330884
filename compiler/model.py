"""
Loads a model from a file: ONNX, GGUF, or MLIR with weights inside or in another file.

Commands that compile, run and explain use an `ImportedModel`, so that they are independent of the
formats.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import AnyFloat, IndexType, IntegerType, ModuleOp, TensorType, i8
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from xdsl_spirv.compiler.host import host_function
from xdsl_spirv.compiler.signature import (
    argument_name,
    argument_type,
    names_of,
    result_name,
    result_type,
)
from xdsl_spirv.compiler.weights import lift_weights, weights_of
from xdsl_spirv.dialects.program import state_of, states_of
from xdsl_spirv.dialects.schedule.symbolic_sizes import format_size
from xdsl_spirv.frontends import is_gguf, is_onnx, is_stablehlo
from xdsl_spirv.frontends.model import FUNCTION, ImportedModel, Value
from xdsl_spirv.passes.analysis.sizes import extents
from xdsl_spirv.passes.schedule.paths import UNLIMITED, Limits
from xdsl_spirv.progress import stage
from xdsl_spirv.runtime.elements import Array, as_element_type, dtype_of
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.manifest import INDEX, Buffer
from xdsl_spirv.runtime.modules import parse
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.runtime.weights import load_weights
from xdsl_spirv.targets import load

if TYPE_CHECKING:
    from xdsl_spirv.compiler.compiler import Observer

Shapes = Mapping[str, tuple[int, ...]]


def load_model(
    path: str | os.PathLike[str],
    dims: Mapping[str, int | None] | None = None,
    shapes: Shapes | None = None,
    function: str | None = None,
    weights: str | os.PathLike[str] | None = None,
    constants: Mapping[str, Array] | None = None,
    context: int | None = None,
    state: Mapping[str, str] | None = None,
    functions: Sequence[str] = (),
    target: str | None = None,
) -> ImportedModel:
    """
    Imports a `.gguf` or `.onnx` file, or parses an `.mlir` file.

    A GGUF file gets states for `context` tokens. The `target` decides the type of its products.
    For an ONNX file, `constants` fixes inputs, and `context` and `state` select the tensors that
    are retained between runs (see `import_onnx`). An MLIR file has one function or several, and
    `weights` may give values to its arguments.

    Raises `FrontendError` or `ProgramError`.
    """
    if is_onnx(path):
        from xdsl_spirv.frontends import import_onnx

        if weights is not None or function is not None or functions:
            raise ProgramError(
                "--weights and --function are not for ONNX files", str(path), "leave the option out"
            )
        return import_onnx(
            path, dims, shapes=shapes, constants=constants, context=context, state=state
        )
    if is_gguf(path):
        refuse_options(path, dims, shapes, function, weights, constants, state, functions)
        return load_gguf(path, target, context)
    if dims:
        raise ProgramError("--dim is for ONNX files", str(path), "write fixed shapes in the module")
    if constants:
        raise ProgramError("--constant is for ONNX files", str(path), "give --weights")
    if context is not None or state is not None:
        raise ProgramError(
            "--context and --state are for ONNX files",
            str(path),
            "mark states by program.state in the module",
        )
    if is_stablehlo(path):
        from xdsl_spirv.frontends import import_stablehlo

        return import_stablehlo(Path(path).read_text())
    module = parse(path)
    names = list(functions)
    values = load_weights(Path(weights)) if weights is not None else {}
    return replace(model_in(module, names[0] if names else function, values), functions=names)


def model_in(module: ModuleOp, function: str | None, weights: Mapping[str, Array]) -> ImportedModel:
    """Returns a module's function as a model. Its constants become weights."""
    host = host_function(module, function)
    lift_weights(host)
    return model_of(host, {**weights, **weights_of(host)})


def refuse_options(path: str | os.PathLike[str], *options: object) -> None:
    """Raises `ProgramError` if an option is given that a GGUF file does not support."""
    if any(options):
        raise ProgramError(
            "a GGUF file contains its weights, sizes and functions",
            os.fspath(path),
            "leave out all options except --context",
        )


def load_gguf(
    path: str | os.PathLike[str], target: str | None, context: int | None = None
) -> ImportedModel:
    """Imports a GGUF file for a target. Raises `FrontendError` and `TargetError`."""
    from xdsl_spirv.frontends.gguf.importer import import_gguf

    products = "f32" if target is None else products_for(target)
    return import_gguf(path, context=context, products=products)


def products_for(target: str) -> str:
    """Returns the type for large products: f16 if the target accumulates f16 matrices in f32."""
    return "f16" if load(target).properties_for(("f16", "f16", "f32")) else "f32"


def model_of(host: FuncOp, weights: Mapping[str, Array]) -> ImportedModel:
    """Returns a host function as a model, with the values of some of its arguments."""
    module = host.parent_op()
    arguments = [
        _value(argument_name(a, i), argument_type(a, i), a.type)
        for i, a in enumerate(host.body.block.args)
    ]
    results = [
        _value(result_name(host, i), result_type(host, i), type)
        for i, type in enumerate(host.function_type.outputs)
    ]
    next_states = set(states_of(host).values())
    return ImportedModel(
        module,  # pyright: ignore[reportArgumentType]
        dict(weights),
        [
            value
            for i, value in enumerate(arguments)
            if value.name not in weights and state_of(host, i) is None
        ],
        [value for i, value in enumerate(results) if i not in next_states],
        function=host.sym_name.data,
    )


def _value(name: str, type: str, of: Attribute) -> Value:
    if isinstance(of, IndexType):
        return Value(name, INDEX, ())
    if isinstance(of, AnyFloat | IntegerType):
        return Value(name, type, ())
    if not isinstance(of, TensorType):
        raise ProgramError(f"{name} must be a tensor, not {of}", "the host function", "use tensors")
    return Value(name, type, tuple(of.get_shape()))


def compile_model(
    model: ImportedModel,
    target: str,
    *,
    limits: Limits = UNLIMITED,
    observe: Observer | None = None,
    jobs: int = 1,
) -> Program:
    """
    Compiles a model, which is consumed. `limits`, `observe` and `jobs` are as for `compile_module`.
    Raises the errors of `compile_module`.
    """
    from xdsl_spirv.compiler.compiler import compile_module

    return compile_module(
        model.module,
        target,
        model.function,
        model.weights,
        functions=model.functions,
        operators={node.name: node.op_type for node in model.nodes},
        limits=limits,
        observe=observe,
        jobs=jobs,
    )


def buffers_of(model: ImportedModel) -> list[Buffer]:
    """Returns the input buffers that the user has to fill (with `--input`)."""
    function = host_function(model.module, model.function)
    names = names_of(function)
    shapes = {
        argument_name(argument, i): tuple(
            format_size(size, names.name) for size in extents(argument)
        )
        for i, argument in enumerate(function.body.block.args)
        if isinstance(argument.type, TensorType)
    }
    return [
        Buffer(v.name, "input", v.type, shapes[v.name])
        if v.name in shapes
        else Buffer(v.name, "scalar", INDEX, ())
        for v in model.inputs
    ]


@stage("running on the reference")
def run_reference(model: ImportedModel, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """
    Runs an imported model on whole numpy arrays, which gives the reference results.

    Raises `ProgramError` for inputs that do not fit, and `InterpreterError`.
    """
    values = dict(inputs) | dict(model.weights)
    function = host_function(model.module, model.function)
    arguments = [
        _store_array(values[argument_name(argument, i)], argument.type)
        for i, argument in enumerate(function.body.block.args)
    ]
    from xdsl_spirv.interpreter import Options, reference

    results = reference(model.module, arguments, model.function, options=Options())
    outputs: dict[str, Array] = {}
    for value, result in zip(model.outputs, results, strict=True):
        typed = as_element_type(result, value.type)
        outputs[value.name] = result.view(dtype_of(value.type)) if typed is None else typed
    return outputs


def _store_array(array: Array, type: Attribute) -> Array:
    """Returns an array in a function's storage type. Elements of unsupported types become bytes."""
    if isinstance(type, IndexType):
        return array.astype("int64")
    if isinstance(type, TensorType) and type.element_type == i8 and array.dtype.itemsize == 1:
        return array.view("int8")
    return array


__all__ = [
    "FUNCTION",
    "ImportedModel",
    "buffers_of",
    "compile_model",
    "load_model",
    "run_reference",
]
