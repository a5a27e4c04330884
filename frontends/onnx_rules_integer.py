"""
Integers without a sign, which importers compare and divide as if they had one; NaN that stays.

    Div(u8, u8)               Cast(Div(Cast(a), Cast(b)))     in 32 bits with a sign, u32 in 64
    MatMulInteger, ConvInteger without zero points            those of zero
    Max(a, b), Min(a, b)      Where(a > b or a is NaN, a, b)  ONNX propagates NaN
    Clip(x, a, b)             Where(x < a, a, x), and so on
    Sign(x)                   Where(x > 0, 1, Where(x < 0, -1, x))
"""

from __future__ import annotations

from typing import Any

from xdsl_spirv.frontends.onnx_graph import Graph, Rule

Attributes = dict[str, Any]

COMPARING = (
    *("Div", "Mod", "Max", "Min", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Clip"),
    *("ReduceMax", "ReduceMin", "ArgMax", "ArgMin", "TopK", "MaxPool", "GlobalMaxPool", "Sign"),
)
"""Operators whose result depends on what the highest bit means."""


def _wider(graph: Graph) -> dict[int, int]:
    """The types with a sign that hold all numbers of one without."""
    types = graph.onnx.TensorProto
    return {types.UINT8: types.INT32, types.UINT16: types.INT32, types.UINT32: types.INT64}


def unsigned(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """In a wider type that has a sign."""
    wider = _wider(graph)
    kind = graph.type(node.input[0])
    if kind not in wider:
        return False
    inputs = [
        graph.cast(name, wider[kind]) if name and graph.type(name) == kind else name
        for name in node.input
    ]
    results = [graph.fresh(node.op_type) if name else "" for name in node.output]
    graph.add(node.op_type, inputs, results, **attributes)
    for position, (made, output) in enumerate(zip(results, node.output, strict=True)):
        if not output:
            continue
        if position == 0 and node.op_type not in BOOLEAN:
            graph.cast(made, kind, output)
        else:
            graph.add("Identity", [made], output)
    return True


BOOLEAN = ("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "ArgMax", "ArgMin")
"""Those whose results are not of the operands' type."""


def clip(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """Of 64 bits: Max and Min, without a sign. Of floats: two choices, which let NaN through."""
    found = node.input[0]
    if _is_float(graph, found):
        for kind, bound in zip(("Less", "Greater"), node.input[1:], strict=False):
            if bound:
                beyond = graph.add(kind, [found, bound])
                found = graph.add("Where", [beyond, bound, found])
        graph.add("Identity", [found], node.output[0])
        return True
    if graph.type(found) != graph.onnx.TensorProto.UINT64:
        return False
    for kind, bound in zip(("Max", "Min"), node.input[1:], strict=False):
        found = graph.add(kind, [found, bound]) if bound else found
    graph.add("Identity", [found], node.output[0])
    return True


def sign(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """Of a float neither above nor below zero it is the number itself; NaN stays so."""
    x, types = node.input[0], graph.onnx.TensorProto
    if graph.type(x) == types.UINT64:
        some = graph.add("Not", [graph.add("Equal", [x, graph.scalar(0, x)])])
        graph.add("Where", [some, graph.scalar(1, x), graph.scalar(0, x)], node.output[0])
        return True
    if not _is_float(graph, x):
        return False
    zero, one, minus = (graph.scalar(value, x) for value in (0.0, 1.0, -1.0))
    below = graph.add("Where", [graph.add("Less", [x, zero]), minus, x])
    graph.add("Where", [graph.add("Greater", [x, zero]), one, below], node.output[0])
    return True


def byte_of_float(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """By way of 32 bits: importers take few bits to have a sign."""
    types = graph.onnx.TensorProto
    if attributes["to"] != types.UINT8 or not _is_float(graph, node.input[0]):
        return False
    graph.cast(graph.cast(node.input[0], types.INT32), types.UINT8, node.output[0])
    return True


def magnitude(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """Of a number without a sign: itself."""
    types = graph.onnx.TensorProto
    if graph.type(node.input[0]) not in (*_wider(graph), types.UINT64):
        return False
    graph.add("Identity", [node.input[0]], node.output[0])
    return True


def shift(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """To the right, zeros follow."""
    if attributes.get("direction") != "RIGHT":
        return False
    return unsigned(graph, node, attributes)


def _is_float(graph: Graph, name: str) -> bool:
    types = graph.onnx.TensorProto
    floats = (types.FLOAT, types.FLOAT16, types.DOUBLE, types.BFLOAT16)
    return graph.type(name) in floats


def extreme(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """Of several numbers, two at a time; one that is no number wins."""
    import numpy as np

    if not _is_float(graph, node.input[0]):
        return False
    if len(node.input) == 1:
        graph.add("Identity", [node.input[0]], node.output[0])
        return True
    better, worse = ("Greater", "Less") if node.op_type == "Max" else ("Less", "Greater")
    found = node.input[0]
    for number, name in enumerate(node.input[1:], 2):
        output = node.output[0] if number == len(node.input) else None
        value = graph.value(name)
        if value is not None and not np.isnan(value.astype(np.float64)).any():
            # Whatever compares with nothing stays.
            found = graph.add("Where", [graph.add(worse, [found, name]), name, found], output)
            continue
        wins = graph.add("Or", [graph.add(better, [found, name]), graph.add("IsNaN", [found])])
        found = graph.add("Where", [wins, found, name], output)
    return True


COMPARISONS: dict[str, Rule] = {
    **dict.fromkeys(COMPARING, unsigned),
    "Abs": magnitude,
    "BitShift": shift,
}

RULES: dict[str, Rule] = {
    "Max": extreme,
    "Min": extreme,
    "Sign": sign,
    "Clip": clip,
    "Cast": byte_of_float,
}
