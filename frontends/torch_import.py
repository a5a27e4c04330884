"""
A program of `torch.export` to `linalg` on tensors, through torch-mlir's importer of FX graphs.

Parameters, buffers and constants become arguments, so that weights never pass through text. torch
has to be there anyhow, so this runs in the caller's process.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from xdsl.dialects.builtin import ModuleOp, StringAttr, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from xdsl_spirv.dialects.program import FLOATS
from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.frontends.model import FUNCTION, Array, ImportedModel, Value, annotate
from xdsl_spirv.frontends.states import tie_states
from xdsl_spirv.frontends.torch_mlir_text import locate, parse_linalg

PIPELINES = (
    "builtin.module(func.func(torch-match-quantized-custom-ops),"
    "torchdynamo-export-to-torch-backend-pipeline)",
    "builtin.module(torch-backend-to-linalg-on-tensors-backend-pipeline)",
    "builtin.module(func.func(canonicalize,cse,linalg-generalize-named-ops,canonicalize,cse))",
)
UNSIGNED = {"torch.uint8": "ui8", "torch.uint16": "ui16", "torch.uint32": "ui32"}
LINE = re.compile(r'"([^"]*)":(\d+)')


def is_exported(source: object) -> bool:
    """Whether something is a program of `torch.export`; does not import torch."""
    return type(source).__name__ == "ExportedProgram" and type(source).__module__.startswith(
        "torch."
    )


def import_torch(exported: Any, state: Mapping[str, str] | None = None) -> ImportedModel:
    """
    Import what `torch.export.export(module, inputs)` has made.

    `state` names inputs that go on as results (`result1`) in the next run of a session. Layers are
    known by the lines of Python that they come from. Raises `FrontendError` for operations that
    torch-mlir does not lower, and for a program that changes its buffers or its inputs.
    """
    decompositions = _package("torch_mlir.extras.fx_decomp_util").get_decomposition_table()
    exported = exported.run_decompositions(decompositions)
    signature = exported.graph_signature
    changed = [*signature.buffers_to_mutate.values(), *signature.user_inputs_to_mutate.values()]
    if changed:
        raise FrontendError(
            f"the program changes {changed[0]!r} in place", "torch.export", "return it as a result"
        )
    operation = _lowered(exported)
    module = parse_linalg(operation.get_asm(print_generic_op_form=True, enable_debug_info=False))
    locate(module, list(_lines(operation)))
    return _assembled(exported, module, state or {})


def _package(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise FrontendError(
            f"{name} cannot be imported: {error}", "", "pip install torch 'xdsl-spirv[torch]'"
        ) from error


def _lowered(exported: Any) -> Any:
    context = _package("torch_mlir.ir").Context()
    _package("torch_mlir.dialects.torch").register_dialect(context)
    importer = _package("torch_mlir.extras.fx_importer").FxImporter(context=context)
    manager = _package("torch_mlir.passmanager").PassManager
    try:
        importer.import_stateless_graph(exported.graph, func_name=FUNCTION)
        operation = importer.module.operation
        for pipeline in PIPELINES:
            with context:
                manager.parse(pipeline).run(operation)
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if "error:" in line]
        said = lines[0].partition("error:")[2].strip() if lines else str(error).partition("\n")[0]
        raise FrontendError(
            f"torch-mlir refuses the program: {said}", "torch.export", "replace the operation"
        ) from error
    return operation


def _lines(operation: Any) -> Iterator[str]:
    """The line of Python behind every operation, outer before inner: `net.py:12`."""
    places = LINE.findall(str(operation.location))
    file, line = places[-1] if places else ("", "")
    yield f"{file.rpartition('/')[2]}:{line}" if file else ""
    for region in operation.regions:
        for block in region:
            for inner in block:
                yield from _lines(inner.operation)


def _assembled(exported: Any, module: ModuleOp, state: Mapping[str, str]) -> ImportedModel:
    function = next(op for op in module.ops if isinstance(op, FuncOp))
    signature = exported.graph_signature
    stored = (
        dict(signature.inputs_to_parameters)
        | dict(signature.inputs_to_buffers)
        | dict(signature.inputs_to_lifted_tensor_constants)
    )
    placeholders = [node for node in exported.graph.nodes if node.op == "placeholder"]
    types = list(function.function_type.inputs)
    arguments = [
        _value(stored.get(node.name, node.name), node.meta["val"], type)
        for node, type in zip(placeholders, types, strict=True)
    ]
    results = [
        _value(f"result{number}", None, type)
        for number, type in enumerate(function.function_type.outputs)
    ]
    annotate(function, arguments, results)
    tie_states(function, state)
    function.attributes[FLOATS] = StringAttr("f64" if _computes_in_doubles(exported) else "f32")
    weights = {
        value.name: _array(exported, value.name)
        for node, value in zip(placeholders, arguments, strict=True)
        if node.name in stored
    }
    inputs = [v for v in arguments if v.name not in weights and v.name not in state]
    outputs = [v for v in results if v.name not in state.values()]
    return ImportedModel(module, weights, inputs, outputs)


def _computes_in_doubles(exported: Any) -> bool:
    """Whether a tensor of the program is of float64; torch-mlir's own LayerNorm would be, too."""
    values = [node.meta.get("val") for node in exported.graph.nodes]
    groups = (value if isinstance(value, list | tuple) else (value,) for value in values)
    flat = [tensor for group in groups for tensor in group]
    return any(str(getattr(tensor, "dtype", "")) == "torch.float64" for tensor in flat)


def _value(name: str, example: Any, type: Attribute) -> Value:
    if not isinstance(type, TensorType):
        raise FrontendError(f"{name!r} is of type {type}", "torch.export", "use tensors")
    element = UNSIGNED.get(str(getattr(example, "dtype", "")), str(type.element_type))
    return Value(name, element, tuple(type.get_shape()))


def _array(exported: Any, name: str) -> Array:
    """The value of a parameter, buffer or constant."""
    tensor = exported.state_dict.get(name)
    tensor = exported.constants[name] if tensor is None else tensor
    tensor = tensor.detach().cpu().contiguous()
    if str(tensor.dtype) == "torch.bfloat16":
        import ml_dtypes

        words = tensor.view(import_module("torch").int16).numpy()
        return words.view(ml_dtypes.bfloat16)
    return tensor.numpy()
