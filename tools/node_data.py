"""
Writes an explanation as node data of Model Explorer, which colours an ONNX graph's nodes by their
cost.

Model Explorer matches keys with the ids of nodes, which are the names of ONNX nodes.
"""

from __future__ import annotations

from typing import Any

from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.tools.explanation_data import ExplainedLayer, ExplanationData

GRADIENT = [{"stop": 0, "bgColor": "#ffffff"}, {"stop": 1, "bgColor": "#e0695c"}]


def node_data(explanation: ExplanationData, graph: str) -> dict[str, Any]:
    """
    Returns the data of a graph with that id: microseconds by node, measured or else by the
    roofline.

    If one dispatch computes several nodes, the first one has its time and the others have 0, so
    that sums over groups of nodes are right. If no times are known, the values are scalar
    operations. Raises `ProgramError` if no node has a name.
    """
    values: dict[str, float] = {}
    for entry in explanation.layers:
        for position, node in enumerate(entry.layer.nodes):
            values.setdefault(node, 0.0)
            values[node] += 0.0 if position else _value(explanation, entry)
    if not values:
        raise ProgramError(
            "no node has a name: this is not an ONNX file",
            explanation.model,
            "explain the ONNX file that it comes from",
        )
    results = {node: {"value": value} for node, value in values.items()}
    return {graph: {"results": results, "gradient": GRADIENT}}


def _value(explanation: ExplanationData, entry: ExplainedLayer) -> float:
    if explanation.device is not None:
        return (entry.measured_seconds or 0.0) * 1e6
    if any(e.roofline_seconds for e in explanation.layers):
        return 0.0 if entry.once else (entry.roofline_seconds or 0.0) * 1e6
    return entry.layer.operations or 0
