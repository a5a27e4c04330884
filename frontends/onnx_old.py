"""
Operators of old opsets that onnx's version converter turns into something else than they meant.

    Hardmax(x; axis = k), opset 11       Flatten(axis = k), Hardmax(axis = 1), Reshape
    Resize(x, scales), opset 10          Resize(x, , scales; asymmetric, floor)
    Upsample(x, scales), opset 9         the same
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from xdsl_spirv.frontends.errors import FrontendError

FLATTENING = 13
"""The first opset in which Hardmax is along an axis."""

TRANSFORMED = 11
"""The first in which Resize says how places are related."""


def converted(model: Any, opset: int) -> Any:
    """The model in an opset, or as it is if it is as new; raises `FrontendError`."""
    versions = [entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")]
    if not versions or versions[0] >= opset:
        return model
    old = versions[0]
    if old < FLATTENING:
        _flatten(model)
    resized = [
        node.output[0]
        for node in model.graph.node
        if node.op_type in ("Resize", "Upsample") and old < TRANSFORMED
    ]
    try:
        model = import_module("onnx.version_converter").convert_version(model, opset)
    except Exception as error:
        if old >= FLATTENING:
            # What has changed since are forms of attributes, which the importer knows.
            return model
        raise FrontendError(
            f"the model is of opset {old} and cannot be converted to {opset}: "
            f"{str(error).strip().splitlines()[0]}",
            "",
            f"export it for opset {opset} or later",
            "invalid",
        ) from error
    for node in model.graph.node:
        if node.op_type == "Resize" and node.output[0] in resized:
            _say_asymmetric(node)
    return model


def _say_asymmetric(node: Any) -> None:
    helper = import_module("onnx.helper")
    given = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    kept = [attribute for attribute in node.attribute if attribute.name == "mode"]
    del node.attribute[:]
    node.attribute.extend([*kept, *(helper.make_attribute(k, v) for k, v in given.items())])
    if len(node.input) > 1:
        node.input[1] = ""


def _flatten(model: Any) -> None:
    """Hardmax over all dimensions from its axis on, taken together."""
    helper = import_module("onnx.helper")
    nodes: list[Any] = []
    for node in model.graph.node:
        if node.op_type != "Hardmax" or node.domain:
            nodes.append(node)
            continue
        x, y = node.input[0], node.output[0]
        axis = next((a.i for a in node.attribute if a.name == "axis"), 1)
        names = [f"{y}.{each}" for each in ("flat", "hard", "shape")]
        made = (
            helper.make_node("Flatten", [x], [names[0]], name=node.name, axis=axis),
            helper.make_node("Hardmax", [names[0]], [names[1]], name=node.name, axis=1),
            helper.make_node("Shape", [x], [names[2]], name=node.name),
            helper.make_node("Reshape", names[1:], [y], name=node.name),
        )
        nodes += made
    del model.graph.node[:]
    model.graph.node.extend(nodes)
