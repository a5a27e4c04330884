"""
32 bits without a sign in an ONNX graph: carried by the type with one of the same width.

torch-mlir converts nothing to it. What depends on the highest bit is computed in a wider type
before (`onnx_rules_integer`); what is left moves bits, or converts:

    Cast(u32 -> t)            Cast(BitwiseAnd(Cast(x -> i64), 0xffffffff) -> t)
    Cast(t -> u32)            Cast(Cast(x -> i64) -> i32)

The declared types of inputs and outputs are kept beside the model (`torch_mlir_worker.interface`).
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from xdsl_spirv.frontends.onnx_branches import has_graphs
from xdsl_spirv.frontends.onnx_graph import Graph


def carry_with_sign(model: Any) -> None:
    """Rewrite a model that has such types, in place."""
    types = import_module("onnx").TensorProto
    carriers = {types.UINT32: types.INT32}
    if has_graphs(model.graph):
        return
    graph = Graph(model)
    names = {name for node in model.graph.node for name in (*node.input, *node.output)}
    if not any(graph.type(name) in carriers for name in names):
        return
    graph.apply({"Cast": _cast, "CastLike": _cast})
    for value in (*model.graph.input, *model.graph.output):
        kind = value.type.tensor_type.elem_type
        value.type.tensor_type.elem_type = carriers.get(kind, kind)
    for tensor in _tensors(model.graph):
        if tensor.data_type in carriers:
            _retype(tensor)
    del model.graph.value_info[:]


def _tensors(graph: Any) -> list[Any]:
    attributes = [a for node in graph.node for a in node.attribute if a.name == "value"]
    return [*graph.initializer, *(a.t for a in attributes if a.HasField("t"))]


def _retype(tensor: Any) -> None:
    numpy_helper: Any = import_module("onnx.numpy_helper")
    array = numpy_helper.to_array(tensor)
    signed = array.view(array.dtype.name.removeprefix("u"))
    tensor.CopyFrom(numpy_helper.from_array(signed, tensor.name))


def _cast(graph: Graph, node: Any, attributes: dict[str, Any]) -> bool:
    """A conversion one of whose sides has no sign."""
    types = graph.onnx.TensorProto
    x, output = node.input[0], node.output[0]
    source, target = graph.type(x), attributes.get("to") or graph.type(node.input[1])
    if types.UINT32 not in (source, target):
        return False
    if source == target:
        graph.add("Identity", [x], output)
        return True
    wide = types.INT64
    if target == types.UINT32:
        graph.cast(graph.cast(x, wide), types.INT32, output)
        return True
    number = graph.add("BitwiseAnd", [graph.cast(x, wide), graph.scalar_of(0xFFFFFFFF, wide)])
    graph.cast(number, target or 0, output)
    return True
