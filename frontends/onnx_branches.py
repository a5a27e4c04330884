"""
A graph inside a node as a model of its own: constants folded and inner branches decided.

Its inputs are what it reads from around it, with the shapes that those have in this call. Most
conditions inside a side of an `If` ask for shapes (PyTorch writes one for every `squeeze`), and are
known then; onnxsim folds them, and the rules take the side.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from xdsl_spirv.frontends.onnx_graph import Graph

ROUNDS = 8
"""How often a side is simplified after inner branches were decided."""


FLAT = "flat."
"""What the names of results begin with whose number of dimensions is not known yet."""


@dataclass(frozen=True)
class Settled:
    """A model without graphs inside, and the types and shapes of its results."""

    model: Any
    results: tuple[tuple[int | None, tuple[int, ...] | None], ...]


def has_graphs(body: Any) -> bool:
    """Whether a node of a graph holds another graph."""
    return any(a.HasField("g") or a.graphs for node in body.node for a in node.attribute)


def _inner(node: Any) -> Iterable[Any]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def free_names(body: Any) -> list[str]:
    """What a graph reads that it does not make, in the order of the reading."""
    made = {tensor.name for tensor in body.initializer} | {value.name for value in body.input}
    found: dict[str, None] = {}
    for node in body.node:
        read = [*node.input, *(name for each in _inner(node) for name in free_names(each))]
        found |= dict.fromkeys(name for name in read if name and name not in made)
        made.update(node.output)
    found |= dict.fromkeys(value.name for value in body.output if value.name not in made)
    return list(found)


def settled(graph: Graph, body: Any) -> Settled | None:
    """A graph without inputs as a model; None where branches are left, or shapes are unknown."""
    from xdsl_spirv.frontends.onnx_rules_control import RULES

    model = _as_model(graph, body)
    if model is None:
        return None
    for _ in range(ROUNDS):
        model = simplified(model, optimize=False)
        if not has_graphs(model.graph):
            break
        if not Graph(model).apply(RULES):
            return None
    if has_graphs(model.graph):
        return None
    _unflattened(model)
    found = Graph(model)
    names = [value.name for value in model.graph.output]
    return Settled(model, tuple((found.type(name), found.shape(name)) for name in names))


def _as_model(graph: Graph, body: Any) -> Any | None:
    helper = graph.onnx.helper
    names = free_names(body)
    inputs: list[Any] = []
    for name in names:
        if name in graph.constants:
            continue
        kind, shape = graph.type(name), graph.shape(name)
        if kind is None or shape is None:
            return None
        inputs.append(helper.make_tensor_value_info(name, kind, shape))
    nodes = [*body.node]
    outputs: list[Any] = []
    for number, value in enumerate(body.output):
        # A result may be something that is read only, or the same one twice.
        name = f"result.{number}"
        nodes.append(helper.make_node("Identity", [value.name], [name]))
        made = type(value)()
        made.CopyFrom(value)
        made.name = name
        outputs.append(made)
    initializers = [_named(graph.constants[n], n) for n in names if n in graph.constants]
    initializers += body.initializer
    made_graph = helper.make_graph(nodes, "side", inputs, outputs, initializers)
    model = helper.make_model(made_graph, opset_imports=graph.model.opset_import)
    model.ir_version = graph.model.ir_version
    return _with_types(model)


def _with_types(model: Any) -> Any | None:
    """
    A model whose results say their types; None where inference does not find their elements.

    A file's graph must say how many dimensions a result has, which inner branches decide: such a
    result goes out flat, and `_unflattened` finds it again.
    """
    found = Graph(model)
    for value in model.graph.output:
        kind = found.type(value.name)
        if kind is None:
            return None
        known = found.declared(value.name)
        if known is not None and known.type.tensor_type.HasField("shape"):
            value.CopyFrom(known)
            continue
        flat = found.fresh(FLAT)
        model.graph.initializer.append(
            found.onnx.helper.make_tensor(f"{flat}.shape", found.onnx.TensorProto.INT64, [1], [-1])
        )
        reshape = found.onnx.helper.make_node("Reshape", [value.name, f"{flat}.shape"], [flat])
        model.graph.node.append(reshape)
        value.CopyFrom(found.onnx.helper.make_tensor_value_info(flat, kind, [flat]))
    return model


def _unflattened(model: Any) -> None:
    """Results that went out flat, as they are before."""
    for value in model.graph.output:
        made = [node for node in model.graph.node if value.name in node.output]
        if not value.name.startswith(FLAT) or not made or made[0].op_type != "Reshape":
            continue
        value.name = made[0].input[0]
        value.type.tensor_type.ClearField("shape")
        model.graph.node.remove(made[0])


def _named(tensor: Any, name: str) -> Any:
    copy = type(tensor)()
    copy.CopyFrom(tensor)
    copy.name = name
    return copy


def simplified(model: Any, optimize: bool = True) -> Any:
    """
    Constants folded and shapes computed, or the model as it is where onnxsim cannot.

    Its optimizations lose the order of nodes when they take a branch out; then without them.
    """
    for optimizations in (True, False) if optimize else (False,):
        try:
            return import_module("onnxsim").simplify(model, perform_optimization=optimizations)[0]
        except Exception:
            continue
    return model
