"""
Graphs inside nodes: an `If` becomes both sides and a choice, a loop of a known length its copies.

    If(c) {a} else {b}        a                   where c is known, perhaps from shapes alone
                              Where(c, a, b)      else
    Scan(state, xs) {body}    body; body; ...     with the slices of xs

A program is a list of dispatches without a branch, which every runner can execute without waiting
for a number to come back from the device. Sides have no effects, so both may be computed; what that
costs is the side not taken. They need results of one shape. Inside a side, conditions mostly ask
for shapes: it is simplified as a model of its own first (`onnx_branches`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl_spirv.frontends.onnx_branches import has_graphs, settled
from xdsl_spirv.frontends.onnx_graph import Graph, Rule

Attributes = dict[str, Any]

MOST_NODES = 4096
"""Nodes that a loop may become."""


def copied(graph: Graph, body: Any, given: list[str]) -> list[str] | None:
    """A graph's nodes and constants under new names, on given inputs; its outputs' names."""
    names: dict[str, str] = {
        value.name: name for value, name in zip(body.input, given, strict=True)
    }
    return None if has_graphs(body) else graph.paste(body, names)


def if_(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """Both sides are computed: they have no effects. Their results have to be of one shape."""
    sides = [attributes["then_branch"], attributes["else_branch"]]
    known = graph.value(node.input[0])
    if known is not None:
        sides = [sides[0] if known.all() else sides[1]]
    if any(map(has_graphs, sides)) or (known is None and not _is_settled(sides)):
        return _settled_if(graph, node, sides)
    if known is not None:
        taken = copied(graph, sides[0], [])
        if taken is not None:
            _finish(graph, node.output, taken)
        return taken is not None
    for results in zip(*(side.output for side in sides), strict=True):
        types = [value.type for value in results]
        if any(kind.WhichOneof("value") != "tensor_type" for kind in types):
            return False
        shapes = [[d.dim_value for d in kind.tensor_type.shape.dim] for kind in types]
        if shapes[0] != shapes[1] or 0 in shapes[0]:
            return False
    outputs = [copied(graph, side, []) for side in sides]
    if outputs[0] is None or outputs[1] is None:
        return False
    for output, then, other in zip(node.output, outputs[0], outputs[1], strict=True):
        graph.add("Where", [node.input[0], then, other], output)
    return True


def _is_settled(sides: Sequence[Any]) -> bool:
    """Whether the sides say what shapes their results have."""
    types = [value.type.tensor_type for side in sides for value in side.output]
    return all(
        t.HasField("shape") and all(d.HasField("dim_value") for d in t.shape.dim) for t in types
    )


def _settled_if(graph: Graph, node: Any, sides: Sequence[Any]) -> bool:
    """Sides of which little is known before they are models of their own, with these shapes."""
    found = [settled(graph, side) for side in sides]
    models = [each for each in found if each is not None]
    if len(models) < len(sides) or any(m.results != models[0].results for m in models):
        return False
    if len(models) > 1 and any(shape is None or 0 in shape for _, shape in models[0].results):
        return False
    outputs = [graph.paste(each.model.graph, {}) for each in models]
    if len(outputs) == 1:
        _finish(graph, node.output, outputs[0])
        return True
    for output, then, other in zip(node.output, *outputs, strict=True):
        graph.add("Where", [node.input[0], then, other], output)
    return True


def scan(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """The body once for each slice of the inputs."""
    body, count = attributes["body"], attributes["num_scan_inputs"]
    if graph.opset < 9:
        return False
    states = len(node.input) - count
    shapes = [graph.shape(name) for name in node.input[states:]]
    outputs = len(node.output) - states
    axes = attributes.get("scan_input_axes") or [0] * count
    backward = attributes.get("scan_input_directions") or [0] * count
    out_axes = attributes.get("scan_output_axes") or [0] * outputs
    out_backward = attributes.get("scan_output_directions") or [0] * outputs
    if any(shape is None for shape in shapes):
        return False
    known = [shape for shape in shapes if shape is not None]
    length = known[0][axes[0]]
    if length * len(body.node) > MOST_NODES or length == 0:
        return False
    state = list(node.input[:states])
    collected: list[list[str]] = [[] for _ in range(outputs)]
    for step in range(length):
        slices: list[str] = []
        for name, axis, turned in zip(node.input[states:], axes, backward, strict=True):
            place = length - 1 - step if turned else step
            part = graph.slice(name, axis, place, place + 1)
            slices.append(graph.add("Squeeze", [part, graph.integers(axis)]))
        made = copied(graph, body, [*state, *slices])
        if made is None:
            return False
        state = made[:states]
        for each, name in zip(collected, made[states:], strict=True):
            each.append(name)
    _finish(graph, node.output[:states], state)
    for number, output in enumerate(node.output[states:]):
        if output:
            axis, parts = out_axes[number], collected[number]
            ordered = parts[::-1] if out_backward[number] else parts
            wide = [graph.add("Unsqueeze", [part, graph.integers(axis)]) for part in ordered]
            graph.add("Concat", wide, output, axis=axis)
    return True


def _finish(graph: Graph, outputs: Any, state: list[str]) -> None:
    for output, name in zip(outputs, state, strict=True):
        if output:
            graph.add("Identity", [name], output)


def loop(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """A loop whose number of turns is a constant, and whose condition stays true."""
    body = attributes["body"]
    turns = graph.value(node.input[0]) if node.input[0] else None
    start = graph.value(node.input[1]) if len(node.input) > 1 and node.input[1] else True
    if turns is None or start is None or not start or not _goes_on(graph, body):
        return False
    import numpy as np

    length = int(np.reshape(turns, ()))
    if not 0 < length * len(body.node) <= MOST_NODES:
        return False
    values = [*body.input[2:], *body.output[1:]]
    if any(value.type.WhichOneof("value") not in ("tensor_type", None) for value in values):
        return False
    state = list(node.input[2:])
    outputs = len(node.output) - len(state)
    collected: list[list[str]] = [[] for _ in range(outputs)]
    for step in range(length):
        number = graph.constant(np.array(step, np.int64))
        made = copied(graph, body, [number, graph.constant(np.array(True)), *state])
        if made is None:
            return False
        state = made[1 : 1 + len(state)]
        for each, name in zip(collected, made[1 + len(state) :], strict=True):
            each.append(name)
    _finish(graph, node.output[: len(state)], state)
    for output, parts in zip(node.output[len(state) :], collected, strict=True):
        if output:
            wide = [graph.add("Unsqueeze", [part, graph.integers(0)]) for part in parts]
            graph.add("Concat", wide, output, axis=0)
    return True


def _goes_on(graph: Graph, body: Any) -> bool:
    """Whether a loop's body leaves its condition as it is, or makes it true."""
    condition, given = body.output[0].name, body.input[1].name
    made = {name: node for node in body.node for name in node.output}
    while condition in made:
        node = made[condition]
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            return bool(graph.onnx.numpy_helper.to_array(node.attribute[0].t))
        if node.op_type != "Identity":
            return False
        condition = node.input[0]
    return condition == given


RULES: dict[str, Rule] = {"If": if_, "Scan": scan, "Loop": loop}
