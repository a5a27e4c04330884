"""
An ONNX model as a function of `linalg` on tensors, in this process.

The function takes the model's inputs, then its weights; every operation has the location of the
node that it comes from.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    FunctionType,
    ModuleOp,
    StringAttr,
    TensorType,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region

from xdsl_spirv.dialects.schedule.symbolic_sizes import Extent, Size, symbol
from xdsl_spirv.frontends import onnx_file
from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.frontends.model import FLOATS, FUNCTION, ImportedModel, Node, Value, annotate
from xdsl_spirv.frontends.onnx import operators
from xdsl_spirv.frontends.onnx.nodes import (
    MOST_ELEMENTS,
    Nodes,
    element_numbered,
    least_count,
)
from xdsl_spirv.frontends.onnx.values import Array, Listed, Tensor
from xdsl_spirv.frontends.onnx.weights import Weights
from xdsl_spirv.upstream.collection import without_collection

operators.load()


@without_collection()
def import_onnx(
    model: str | os.PathLike[str] | Any,
    dims: Mapping[str, int | None] | None = None,
    *,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    constants: Mapping[str, Array] | None = None,
    dynamic: bool = False,
) -> ImportedModel:
    """
    Import an ONNX file, or a `ModelProto`.

    `dims` gives open input dimensions their sizes by name (`batch`, or `x.0` for the first of the
    input `x`), `shapes` by whole inputs; those whose size is None stay open, and with `dynamic`
    all others do too. `constants` gives inputs their values, as those need that shapes depend on.

    Raises `FrontendError` for a file that is none, for open dimensions, and for what is not
    imported, naming the node.
    """
    if isinstance(model, str | os.PathLike):
        proto, weights = onnx_file.read_model(model)
    else:
        proto, weights = onnx_file.checked_model(model, "the model")
    onnx_file.fix_inputs(proto, constants or {})
    onnx_file.fix_dimensions(proto, dims or {}, shapes)
    if not dynamic:
        kept = [name for name, size in (dims or {}).items() if size is None]
        onnx_file.refuse_open_dimensions(proto, kept)
    onnx_file.name_nodes(proto)
    nodes = Nodes(Block(), proto)
    import_graph(nodes, weights)
    return _finished(nodes)


def import_graph(nodes: Nodes, weights: Weights) -> None:
    """Import the graph of a model whose open dimensions are decided."""
    graph = nodes.model.graph
    _declare(nodes, onnx_file.inputs_of(nodes.model))
    numpy_helper: Any = import_module("onnx.numpy_helper")
    for tensor in graph.initializer:
        nodes.values[tensor.name] = Tensor.of(numpy_helper.to_array(tensor), tensor.name)
    for name in weights.tensors:
        nodes.values[name] = Tensor.of(weights.array(name), name)
    nodes.run(graph.node)


def _finished(nodes: Nodes) -> ImportedModel:
    """The function that imported nodes make, with its interface."""
    entry, graph = nodes.entry, nodes.model.graph
    inputs = onnx_file.inputs_of(nodes.model)
    results = [nodes.values[value.name] for value in graph.output]
    _refuse_sequences(graph.output, results)
    _refuse_other_types(graph.output, results)
    returned = [nodes.value(t) for t in results]
    entry.add_op(ReturnOp(*returned))
    _erase_unused(entry)
    type = FunctionType.from_lists([a.type for a in entry.args], [v.type for v in returned])
    function = FuncOp(FUNCTION, type, Region(entry))
    given = [_value(value.name, nodes.values[value.name]) for value in inputs]
    weights = [
        Value(name, _element_name(array), array.shape) for name, array in nodes.weights.items()
    ]
    outputs = [_value(v.name, t) for v, t in zip(graph.output, results, strict=True)]
    sizes = {value.name: onnx_file.names_of(value) for value in inputs}
    annotate(function, [*given, *weights], outputs, sizes)
    tensors = [t for t in nodes.values.values() if not isinstance(t, Listed)]
    floats = [t.element for t in tensors if t.element.is_float]
    if floats:
        widest = max(floats, key=lambda element: element.bits)
        function.attributes[FLOATS] = StringAttr(widest.name)
    listed = [
        Node(n.name, n.op_type, tuple(n.input), tuple(n.output))
        for n in graph.node
        if n.name not in nodes.folded
    ]
    return ImportedModel(ModuleOp([function]), nodes.weights, given, outputs, listed)


def _refuse_sequences(outputs: Sequence[Any], results: Sequence[Tensor]) -> None:
    for value, result in zip(outputs, results, strict=True):
        if isinstance(result, Listed):
            raise FrontendError(
                f"the output {value.name!r} is a sequence or an optional value",
                f"output {value.name!r}",
                "make a tensor of it: SequenceAt, ConcatFromSequence, OptionalGetElement",
            )


def _refuse_other_types(outputs: Sequence[Any], results: Sequence[Tensor]) -> None:
    """Raises for an output that is not of its declared type; a declared shape does not count."""
    for value, result in zip(outputs, results, strict=True):
        declared = value.type.tensor_type.elem_type
        if declared and element_numbered(declared) != result.element:
            raise FrontendError(
                f"the output {value.name!r} is declared as {element_numbered(declared)}, and "
                f"computed as {result.element}",
                f"output {value.name!r}",
                "mend the declaration, or cast the result",
            )


def _erase_unused(block: Block) -> None:
    """Erase what no result needs: the shapes and masks that nobody reads."""
    for op in list(reversed(block.ops)):
        if op.results and not any(result.uses for result in op.results):
            op.detach()
            op.erase()
            continue
        for region in op.regions:
            for inner in region.blocks:
                _erase_unused(inner)


def _declare(nodes: Nodes, inputs: list[Any]) -> None:
    """Arguments for the inputs; open sizes of one name are one size."""
    named: dict[str, Size] = {}
    for value in inputs:
        try:
            element = element_numbered(value.type.tensor_type.elem_type)
        except ValueError as error:
            raise FrontendError(str(error), f"input {value.name!r}", "cast it before") from error
        shape = onnx_file.shape_of(value)
        type = TensorType(element.type, [s if s >= 0 else DYNAMIC_INDEX for s in shape])
        argument = nodes.entry.insert_arg(type, len(nodes.entry.args))
        names = onnx_file.names_of(value)
        sizes: list[Size] = []
        for dimension, (size, name) in enumerate(zip(shape, names, strict=True)):
            own: Size = size if size >= 0 else symbol(Extent(argument, dimension, name))
            sizes.append(own if size >= 0 or not name else named.setdefault(name, own))
        nodes.values[value.name] = tensor = Tensor(element, sizes, argument)
        if least_count(tensor) > MOST_ELEMENTS:
            raise FrontendError(
                f"the input {value.name!r} is too large: {tensor}",
                f"input {value.name!r}",
                f"use at most {MOST_ELEMENTS} elements",
            )


def _element_name(array: Array) -> str:
    return Tensor.of(array).element.name


def _value(name: str, t: Tensor) -> Value:
    return Value(name, t.element.name, tuple(s if isinstance(s, int) else -1 for s in t.sizes))
