"""
Refuses models whose nodes contradict ONNX, before any importer reads them.

onnx's shape inference, in its strict mode, checks the operands of every operator. It does not check
the values of constant indices, so these are checked here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from typing import Any

from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.frontends.onnx_graph import Graph, attributes_of, bare_model

FAULT = re.compile(
    r"\(op_type:(?P<operator>[^,)]*)(?:, node name: (?P<node>.*?))?\): (?:\[\w+\] )?(?P<cause>.*)"
)
"""What onnx says of a node."""

Attributes = dict[str, Any]


def check_nodes(model: Any) -> None:
    """Raises `FrontendError` for the first node that ONNX does not allow."""
    bare = bare_model(model)
    # What a file says of its values may be outdated: what operators ask of each other counts.
    del bare.graph.value_info[:]
    for value in bare.graph.output:
        value.ClearField("type")
    try:
        import_module("onnx.shape_inference").infer_shapes(bare, strict_mode=True, data_prop=True)
    except Exception as error:
        _refuse(str(error))
    if any(node.op_type in INDICES for node in model.graph.node):
        _check_indices(Graph(model))


def _refuse(said: str) -> None:
    """Raise if onnx names a node; other errors are left to the importer."""
    found = FAULT.search(said)
    if found is None or "Inference error" in found["cause"]:
        # Of a node in the definition of an operator, which the strict mode does not always take.
        return
    operator, node = found["operator"], found["node"]
    place = f"operator {operator}" if node is None else f"node {node!r}, operator {operator}"
    raise FrontendError(
        f"{operator}: {found['cause'].strip()}",
        place,
        "the model contradicts ONNX: export it again",
        "invalid",
        operator,
        node,
    )


def _check_indices(graph: Graph) -> None:
    for node in graph.model.graph.node:
        sizes_of = INDICES.get(node.op_type)
        shape = graph.shape(node.input[0]) if sizes_of is not None else None
        index = graph.value(node.input[1]) if sizes_of is not None else None
        if sizes_of is None or not shape or index is None or index.size == 0:
            continue
        sizes = sizes_of(shape, index, attributes_of(node))
        wrong = (index < -sizes) | (index >= sizes)
        if wrong.any():
            raise FrontendError(
                f"{node.op_type}: the constant index {index[wrong].ravel()[0]} is out of range: "
                f"the dimension has {sizes[wrong].ravel()[0]} elements",
                f"node {node.name!r}, operator {node.op_type}, input {node.input[1]!r}",
                "mend the indices",
                "invalid",
                node.op_type,
                node.name,
            )


def _of_axis(shape: tuple[int, ...], index: Any, attributes: Attributes) -> Any:
    import numpy as np

    return np.full(index.shape, shape[attributes.get("axis", 0)])


def _of_rows(shape: tuple[int, ...], index: Any, attributes: Attributes) -> Any:
    import numpy as np

    first = attributes.get("batch_dims", 0)
    return np.broadcast_to(np.array(shape[first : first + index.shape[-1]]), index.shape)


INDICES: dict[str, Callable[[tuple[int, ...], Any, Attributes], Any]] = {
    **dict.fromkeys(("Gather", "GatherElements", "ScatterElements", "Scatter"), _of_axis),
    **dict.fromkeys(("GatherND", "ScatterND"), _of_rows),
}
"""How many elements each index of an operator's second input may name."""
