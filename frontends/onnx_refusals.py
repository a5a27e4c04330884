"""
What no rule has rewritten and torch-mlir would lower to something else than ONNX means.

A refusal names node, operator and attribute, and what to do instead. The rules come first: what
they can write in other operators never gets here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.frontends.onnx_graph import Graph, attributes_of
from xdsl_spirv.frontends.onnx_rules_recurrent import is_plain

Attributes = dict[str, Any]
Reason = tuple[str, str]
"""What is wrong, and the remedy."""

Check = Callable[[Graph, Any, Attributes], Reason | None]


def refuse(model: Any) -> None:
    """Raises `FrontendError` for the first node that would be computed wrongly."""
    if not any(node.op_type in CHECKS for node in model.graph.node):
        return
    graph = Graph(model)
    for node in model.graph.node:
        check = CHECKS.get(node.op_type)
        reason = check(graph, node, attributes_of(node)) if check is not None else None
        if reason is not None:
            cause, remedy = reason
            raise FrontendError(
                f"{node.op_type}: {cause}",
                f"node {node.name!r}, operator {node.op_type}",
                remedy,
                operator=node.op_type,
                node=node.name,
            )


def always(cause: str, remedy: str = "replace the node, or cut the model there") -> Check:
    """A refusal of every node of an operator."""

    def check(graph: Graph, node: Any, attributes: Attributes) -> Reason:
        return cause, remedy

    return check


def resize(graph: Graph, node: Any, attributes: Attributes) -> Reason | None:
    """Corners aligned by scales that give no whole sizes, as far as shapes tell."""
    mode = attributes.get("coordinate_transformation_mode")
    if mode != "align_corners" or len(node.input) < 3 or not node.input[2]:
        return None
    shape, result = graph.shape(node.input[0]), graph.shape(node.output[0])
    known = zip(shape, result, strict=True) if shape is not None and result is not None else None
    if known is not None and not any(b % a for a, b in known if a):
        return None
    cause = "coordinate_transformation_mode is align_corners, with scales that give no whole sizes"
    return cause, "give sizes in the place of scales"


def division(graph: Graph, node: Any, attributes: Attributes) -> Reason | None:
    """Of 64 bits without a sign."""
    if graph.type(node.input[0]) != graph.onnx.TensorProto.UINT64:
        return None
    return "64-bit integers without a sign are not divided", "cast the operands to int64"


def recurrent(graph: Graph, node: Any, attributes: Attributes) -> Reason | None:
    """What the steps were not written out for."""
    if is_plain(node, attributes):
        return None
    names = [*node.input, *[""] * (8 - len(node.input))]
    odd = {
        "sequence_lens": names[4],
        "peepholes": names[7],
        "clip": attributes.get("clip"),
        "input_forget": attributes.get("input_forget"),
        "activations": attributes.get("activations"),
    }
    given = ", ".join(name for name, value in odd.items() if value)
    cause = f"{given} with a layout, a length or an activation that is not written out in steps"
    return cause, "use layout 0 and a known, shorter sequence, or the default activations"


def cast(graph: Graph, node: Any, attributes: Attributes) -> Reason | None:
    """To integers of 16 bits, and what is computed in them without a sign."""
    types = graph.onnx.TensorProto
    to = graph.type(node.output[0])
    if to not in (types.INT16, types.UINT16) or graph.type(node.input[0]) == to:
        return None
    return "nothing is converted to integers of 16 bits", "compute in int32"


CHECKS: dict[str, Check] = {
    "Det": always("rows are not exchanged, which makes determinants wrong"),
    "OptionalHasElement": always("the answer would be a scalar, whatever the model declares"),
    "GridSample": always("samples are rounded otherwise, and read beyond the image"),
    "If": always(
        "its sides give no tensors, or some of different shapes, or one cannot be computed with "
        "these sizes",
        "fix the input that decides, as in --constant NAME=VALUE",
    ),
    "Resize": resize,
    "Cast": cast,
    "Div": division,
    "Mod": division,
    "RNN": recurrent,
    "GRU": recurrent,
    "LSTM": recurrent,
}
