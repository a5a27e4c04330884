"""
What torch-mlir does not lower, or not in every form, written in terms of what it does.

Each rule says in one line what becomes of its operator. It leaves a node that torch-mlir takes as
it is, and one whose shapes are not known.
"""

from __future__ import annotations

from typing import Any

from xdsl_spirv.frontends import (
    onnx_rules_control,
    onnx_rules_index,
    onnx_rules_linear,
    onnx_rules_norm,
    onnx_rules_quantized,
    onnx_rules_training,
)
from xdsl_spirv.frontends.onnx_graph import Graph, Rule, attributes_of, rewrite

RULES: dict[str, Rule] = {
    **onnx_rules_linear.RULES,
    **onnx_rules_index.RULES,
    **onnx_rules_control.RULES,
    **onnx_rules_norm.RULES,
    **onnx_rules_quantized.RULES,
    **onnx_rules_training.RULES,
}


WRONG = {
    "Det": "it computes determinants without exchanging rows",
    "OptionalHasElement": "it makes a scalar of the answer, whatever the model declares",
    "GridSample": "it rounds halves up, and reads beyond the image",
}
"""Operators that torch-mlir lowers to something else than they mean."""


def refuse_wrong(model: Any) -> None:
    """Raises `ValueError`, in the words of torch-mlir's errors, for what it would get wrong."""
    for node in model.graph.node:
        why = WRONG.get(node.op_type)
        if node.op_type == "Resize" and _rounds_scales(Graph(model), node):
            why = "it aligns corners to sizes that are rounded before"
        if node.op_type == "LSTM" and len(node.input) > 7 and node.input[7]:
            why = "it computes peepholes wrongly"
        if node.op_type == "If":
            why = (
                "its sides give no tensors, or some of different shapes, or one cannot be computed "
                "with these sizes: fix the input that decides, as in --constant NAME=VALUE"
            )
        if why is not None:
            raise ValueError(f'error: "{node.name}": {why} (operator "onnx.{node.op_type}")')


def _rounds_scales(graph: Graph, node: Any) -> bool:
    """Whether corners are aligned by scales that give no whole sizes, as far as shapes tell."""
    mode = attributes_of(node).get("coordinate_transformation_mode")
    if mode != "align_corners" or len(node.input) < 3 or not node.input[2]:
        return False
    shapes = graph.shape(node.input[0]), graph.shape(node.output[0])
    if shapes[0] is None or shapes[1] is None:
        return True
    return any(b % a for a, b in zip(shapes[0], shapes[1], strict=True) if a)


def decompose(model: Any) -> bool:
    """Apply every rule that applies to a model; whether there was one."""
    return rewrite(model, RULES)
