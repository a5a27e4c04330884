"""
What torch-mlir does not lower, or not in every form, written in terms of what it does.

Each rule says in one line what becomes of its operator. It leaves a node that torch-mlir takes as
it is, and one whose shapes are not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl_spirv.frontends import (
    onnx_rules_control,
    onnx_rules_exact,
    onnx_rules_index,
    onnx_rules_integer,
    onnx_rules_linear,
    onnx_rules_norm,
    onnx_rules_quantized,
    onnx_rules_recurrent,
    onnx_rules_training,
    onnx_rules_windows,
)
from xdsl_spirv.frontends.onnx_graph import Graph, Rule, rewrite

TABLES: tuple[dict[str, Rule], ...] = (
    onnx_rules_windows.RULES,
    onnx_rules_recurrent.RULES,
    onnx_rules_integer.COMPARISONS,
    onnx_rules_integer.RULES,
    onnx_rules_exact.RULES,
    onnx_rules_exact.VECTORS,
    onnx_rules_exact.BIASES,
    onnx_rules_exact.PADDINGS,
    onnx_rules_linear.RULES,
    onnx_rules_index.RULES,
    onnx_rules_control.RULES,
    onnx_rules_norm.RULES,
    onnx_rules_quantized.RULES,
    onnx_rules_quantized.ZEROS,
    onnx_rules_training.RULES,
)


def _first_of(rules: Sequence[Rule]) -> Rule:
    """The first rule that applies."""

    def rule(graph: Graph, node: Any, attributes: dict[str, Any]) -> bool:
        before = len(graph.nodes)
        for each in rules:
            if each(graph, node, dict(attributes)):
                return True
            del graph.nodes[before:]
        return False

    return rule


RULES: dict[str, Rule] = {
    kind: _first_of([table[kind] for table in TABLES if kind in table])
    for kind in {kind for table in TABLES for kind in table}
}


def decompose(model: Any) -> bool:
    """Apply every rule that applies to a model; whether there was one."""
    return rewrite(model, RULES)
