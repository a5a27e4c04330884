"""
Writes node data for Model Explorer, which colours the nodes of an ONNX graph by cost.

The keys of the data are the names of ONNX nodes.
"""

from __future__ import annotations

from typing import Any

from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.tools.explanation_data import ExplainedLayer, ExplanationData

GRADIENT = [{"stop": 0, "bgColor": "#ffffff"}, {"stop": 1, "bgColor": "#e0695c"}]


def node_data(explanation: ExplanationData, graph: str) -> dict[str, Any]:
    """
    Returns the cost of each node of the graph: measured or roofline microseconds, or scalar
    operations if no time is known.

    The nodes that a dispatch computes get equal shares of its cost, since one kernel computes them
    together. Raises `ProgramError` if no node has a name.
    """
    values: dict[str, float] = {}
    for entry in explanation.layers:
        nodes = entry.layer.nodes
        for node in nodes:
            values[node] = values.get(node, 0.0) + _value(explanation, entry) / len(nodes)
    if not values:
        raise ProgramError(
            "no node has a name: this is not an ONNX file",
            explanation.model,
            "give the ONNX file instead of the program",
        )
    results = {node: {"value": value} for node, value in values.items()}
    return {graph: {"results": results, "gradient": GRADIENT}}


def _value(explanation: ExplanationData, entry: ExplainedLayer) -> float:
    if explanation.device is not None:
        return (entry.measured_seconds or 0.0) * 1e6
    if any(e.roofline_seconds for e in explanation.layers):
        return 0.0 if entry.once else (entry.roofline_seconds or 0.0) * 1e6
    return entry.layer.operations or 0
