"""
Sums of float16 numbers are made in float32, as onnxruntime makes them.

torch-mlir adds in the type of the operands. A mean of a few hundred numbers loses several of the
eleven bits then, and a variance that is a difference of two means all of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from xdsl_spirv.frontends.onnx_file import types_in
from xdsl_spirv.frontends.onnx_graph import inferred

SUMS = frozenset(
    (
        "ReduceSum",
        "ReduceMean",
        "ReduceL1",
        "ReduceL2",
        "ReduceSumSquare",
        "ReduceLogSum",
        "ReduceLogSumExp",
        "GlobalAveragePool",
        "AveragePool",
        "Softmax",
        "LogSoftmax",
    )
)
"""Operators that add many numbers, all of their first input."""


def widen_sums(model: Any) -> Any:
    """The model with casts around sums of float16 numbers, which is the same one without any."""
    helper: Any = import_module("onnx.helper")
    types: Any = import_module("onnx").TensorProto
    graph = model.graph
    if not any(node.op_type in SUMS for node in graph.node):
        return model
    if types.FLOAT16 not in types_in(graph):
        return model
    known = inferred(model).graph
    halves = {
        value.name
        for value in (*known.input, *known.value_info, *known.output)
        if value.type.tensor_type.elem_type == types.FLOAT16
    }
    made: list[Any] = []
    for node in graph.node:
        if node.op_type not in SUMS or node.domain or node.input[0] not in halves:
            made.append(node)
            continue
        given, result = node.input[0], node.output[0]
        wide, narrow = f"{result}.wide", f"{result}.sum"
        made.append(helper.make_node("Cast", [given], [wide], name=node.name, to=types.FLOAT))
        node.input[0], node.output[0] = wide, narrow
        made.append(node)
        made.append(helper.make_node("Cast", [narrow], [result], name=node.name, to=types.FLOAT16))
    if len(made) > len(graph.node):
        stale = {name for node in made if node.op_type in SUMS for name in node.output}
        kept = [value for value in graph.value_info if value.name not in stale]
        del graph.node[:], graph.value_info[:]
        graph.node.extend(made)
        graph.value_info.extend(kept)
    return model
