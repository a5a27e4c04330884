"""
Imports programs of `torch.export`, which PyTorch's exporter converts to an ONNX model in memory.

Parameters, buffers and constants become weights that share PyTorch's memory.
"""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from xdsl.dialects.func import FuncOp

from xdsl_spirv.frontends.errors import FrontendError, import_needed
from xdsl_spirv.frontends.model import Array, ImportedModel, Value
from xdsl_spirv.frontends.onnx.importer import import_onnx
from xdsl_spirv.frontends.onnx.weights import EXTERNAL, LARGE
from xdsl_spirv.frontends.states import tie_states

LINE = re.compile(r'File "([^"]*)", line (\d+)')
LOGGERS = ("torch.onnx", "onnx_ir", "torch.fx.experimental.symbolic_shapes")
TORCH = "/site-packages/torch/"
STACK = "pkg.torch.onnx.stack_trace"
"""Metadata key of the stack trace that the exporter stores for a node."""

ELEMENT_TYPES = {
    "bool": "i1",
    "uint8": "ui8",
    "bfloat16": "bf16",
    **{f"int{bits}": f"i{bits}" for bits in (8, 16, 32, 64)},
    **{f"float{bits}": f"f{bits}" for bits in (16, 32, 64)},
}
"""PyTorch's element types -> MLIR's."""


def is_exported(source: object) -> bool:
    """True if an object is a program of `torch.export`. Does not import torch."""
    return type(source).__name__ == "ExportedProgram" and type(source).__module__.startswith(
        "torch."
    )


def from_torch(
    module: Any,
    examples: Sequence[Any] = (),
    *,
    dynamic_shapes: Any = None,
    state: Mapping[str, str] | None = None,
) -> ImportedModel:
    """
    Imports a PyTorch module with the inputs `examples`, or a program of `torch.export`.

    `dynamic_shapes` is the argument of `torch.export.export`. Results are named `result0`,
    `result1`, ...; `state` maps inputs to the results that are their values in the next run.
    Layers are named by their lines of Python. The module is imported in evaluation mode.

    Raises `FrontendError` for modules that PyTorch cannot export, for a program that changes its
    buffers or its inputs, and for unsupported operators.
    """
    if not is_exported(module):
        torch = import_needed("torch", "torch")
        try:
            with _quiet(), torch.no_grad():
                module = torch.export.export(module, tuple(examples), dynamic_shapes=dynamic_shapes)
        except Exception as error:
            raise _torch_error("torch.export refuses the module", error) from error
    return import_torch(module, state)


def import_torch(exported: Any, state: Mapping[str, str] | None = None) -> ImportedModel:
    """Imports the result of `torch.export.export(module, inputs)`, like `from_torch`."""
    try:
        with _quiet():
            # The decomposed program's signature names the values that are changed in place.
            exported = exported.run_decompositions({})
    except Exception as error:
        raise _torch_error("PyTorch cannot decompose the program", error) from error
    signature = exported.graph_signature
    changed = [*signature.buffers_to_mutate.values(), *signature.user_inputs_to_mutate.values()]
    if changed:
        raise FrontendError(
            f"the program changes {changed[0]!r} in place",
            "torch.export",
            "return the new value as a result",
        )
    if not all(isinstance(name, str) for name in signature.user_outputs):
        raise FrontendError("a result is not a tensor", "torch.export", "return tensors")
    _refuse_strides_of_views(exported)
    import_needed("onnxscript", "torch")
    names = [f"result{number}" for number in range(len(signature.user_outputs))]
    exporter = import_needed("torch.onnx", "torch")
    try:
        with _quiet():
            program = exporter.export(exported, dynamo=True, verbose=False, output_names=names)
    except Exception as error:
        what = "PyTorch's ONNX exporter refuses the program"
        raise _torch_error(what, error, exported.graph.nodes) from error
    proto, weights = _proto_and_weights(program.model)
    model = import_onnx(proto, dynamic=True, weights=weights)
    _refuse_other_types(exported, model.outputs)
    return _with_states(model, state) if state else model


def _refuse_strides_of_views(exported: Any) -> None:
    """Refuses `as_strided` of a view, which PyTorch's exporter computes from wrong elements."""
    for node in exported.graph.nodes:
        if not str(node.target).startswith("aten.as_strided."):
            continue
        tensor = node.args[0].meta["val"]
        count = tensor.untyped_storage().nbytes() // tensor.element_size()
        if not tensor.is_contiguous() or tensor.numel() != count:
            places = LINE.findall(node.meta.get("stack_trace") or "")
            raise FrontendError(
                "PyTorch's ONNX exporter computes as_strided of a view from wrong elements",
                ":".join(places[-1]) if places else "torch.export",
                "call contiguous() before, or index the tensor",
            )


def _refuse_other_types(exported: Any, outputs: Iterable[Value]) -> None:
    """Refuses a model whose results have other types or sizes than the program's results."""
    (results,) = exported.graph.output_node().args
    for node, output in zip(results, outputs, strict=True):
        wanted = node.meta["val"]
        if not hasattr(wanted, "dtype"):
            continue  # The result is a size.
        type = ELEMENT_TYPES.get(str(wanted.dtype).removeprefix("torch."), output.type)
        sizes = [size if isinstance(size, int) else -1 for size in wanted.shape]
        is_same = type == output.type and len(sizes) == len(output.shape)
        if output.type == "index" or (is_same and all(map(_may_equal, sizes, output.shape))):
            continue
        raise FrontendError(
            f"PyTorch's ONNX exporter writes {output}, but the program returns "
            f"{Value(output.name, type, tuple(sizes))}",
            "torch.export",
            "cast the operands of the last operation to the type of its result",
        )


def _may_equal(size: int, other: int) -> bool:
    return size == other or -1 in (size, other)


def _with_states(model: ImportedModel, state: Mapping[str, str]) -> ImportedModel:
    tie_states(next(op for op in model.module.ops if isinstance(op, FuncOp)), state)
    model.inputs = [v for v in model.inputs if v.name not in state]
    model.outputs = [v for v in model.outputs if v.name not in state.values()]
    return model


@contextmanager
def _quiet() -> Generator[None]:
    levels = {logger: logger.level for logger in map(logging.getLogger, LOGGERS)}
    for logger in levels:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in levels.items():
            logger.setLevel(level)


def _torch_error(what: str, error: BaseException, nodes: Iterable[Any] = ()) -> FrontendError:
    """Makes an error with PyTorch's first reason, and the line of Python if known."""
    texts = [str(error)]
    while error.__cause__ is not None:
        error = error.__cause__
        texts.append(str(error))
    # Finds the node that the message names; decompositions may have extended its name.
    named = {n: str(n.target).rpartition(".")[0] for n in nodes if n.op == "call_function"}
    meant = [n for n, name in named.items() if name and name in texts[-1]]
    texts += [n.meta.get("stack_trace") or "" for n in sorted(meant, key=lambda n: len(named[n]))]
    places = [place for place in LINE.findall("\n".join(texts)) if TORCH not in place[0]]
    place = f"{places[-1][0]}:{places[-1][1]}" if places else "torch.export"
    text = re.sub(r"\x1b\[\d+m", "", str(error)).strip()
    said = text.partition("\n")[0] or type(error).__name__
    return FrontendError(f"{what}: {said}", place, "replace the operation")


def _proto_and_weights(model: Any) -> tuple[Any, dict[str, Array]]:
    """Returns the exporter's model as ONNX with nodes named by lines, and its large weights."""
    ir = import_needed("onnx_ir", "torch")
    weights: dict[str, Array] = {}
    for name, value in model.graph.initializers.items():
        tensor = value.const_value
        if tensor.nbytes >= LARGE:
            weights[name] = tensor.numpy()
            value.const_value = None
    with _quiet():
        proto = ir.to_proto(model)
    for name, array in weights.items():
        declared = proto.graph.initializer.add(name=name, dims=array.shape)
        declared.data_type = int(model.graph.initializers[name].dtype)
        declared.data_location = EXTERNAL
    for node in proto.graph.node:
        stack = next((p.value for p in node.metadata_props if p.key == STACK), "")
        places = [p for p in LINE.findall(stack) if TORCH not in p[0]]
        if places:
            node.name = f"{places[-1][0].rpartition('/')[2]}:{places[-1][1]}"
    return proto, weights
