"""
Refuses nodes that no rule has rewritten and that torch-mlir would compute wrongly.

A refusal names node, operator and attribute, and what to do instead. The rules come first: what
they can write in other operators never gets here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.frontends.onnx_graph import Graph, attributes_of
from xdsl_spirv.frontends.onnx_rules_recurrent import is_plain
from xdsl_spirv.frontends.onnx_rules_windows import (
    is_plain_average,
    is_plain_max,
    is_plain_norm,
)

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
    """Division of unsigned 64-bit integers, which torch-mlir takes as signed."""
    if graph.type(node.input[0]) != graph.onnx.TensorProto.UINT64:
        return None
    return "64-bit integers without a sign are not divided", "cast the operands to int64"


def recurrent(graph: Graph, node: Any, attributes: Attributes) -> Reason | None:
    """Recurrences with options that torch-mlir ignores and no rule wrote out as steps."""
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


def pool(is_plain: Callable[[Graph, Any, Attributes], bool]) -> Check:
    """Windows that were not written out, as sizes are open or there are too many elements."""

    def check(graph: Graph, node: Any, attributes: Attributes) -> Reason | None:
        if is_plain(graph, node, attributes):
            return None
        cause = (
            "ceil_mode, auto_pad, dilations, padding of one side or of integers, or Indices, of an "
            "image of open sizes or of more than 2^22 elements in all windows"
        )
        return cause, "give all sizes, or pad before the pooling"

    return check


def is_right_max(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """Whether torch-mlir finds the largest: a last window that is cut off is none of its faults."""
    return is_plain_max(graph, node, attributes | {"ceil_mode": 0})


def log_sum_exp(graph: Graph, node: Any, attributes: Attributes) -> Reason | None:
    """Axes that are no constants, which no rule can rewrite."""
    floats = (graph.onnx.TensorProto.FLOAT, graph.onnx.TensorProto.DOUBLE)
    if graph.type(node.input[0]) not in floats:
        return "it would overflow", "cast the operand to float"
    return "its axes are no constants, and without a largest it overflows", "make axes constants"


def depth(graph: Graph, node: Any, attributes: Attributes) -> Reason | None:
    """Mode CRD of open sizes, which torch-mlir takes as DCR."""
    if attributes.get("mode", "DCR") == "DCR":
        return None
    return "mode CRD of an image of open sizes", "give sizes to all but the first dimension"


def pad(graph: Graph, node: Any, attributes: Attributes) -> Reason | None:
    """Mode wrap, which torch-mlir never finishes lowering."""
    if attributes.get("mode", "constant") != "wrap":
        return None
    return "mode wrap is not lowered", "write it as Concat of slices"


def slice_(graph: Graph, node: Any, attributes: Attributes) -> Reason | None:
    """Backwards along an open size, from a place counted from its start."""
    values = [graph.value(name) if name else None for name in node.input[1:5]]
    starts, _, axes, steps = [*values, None, None, None, None][:4]
    if steps is None or (steps > 0).all():
        return None
    sizes = graph.sizes(node.input[0])
    if starts is not None and sizes is not None:
        along = range(len(starts)) if axes is None else axes
        places = zip(starts, (sizes[i] for i in along), steps, strict=True)
        if all(step > 0 or start < 0 or size is not None for start, size, step in places):
            return None
    return "steps backwards from a start that may be beyond the end", "count starts from the end"


def convolution(graph: Graph, node: Any, attributes: Attributes) -> Reason | None:
    """Quantized convolutions whose padding depends on open sizes."""
    made = {name: each for each in graph.model.graph.node for name in each.output}
    given = made.get(node.input[0])
    if given is None or given.op_type != "DequantizeLinear":
        return None
    if "SAME" not in attributes.get("auto_pad", "NOTSET") or graph.shape(node.input[0]):
        return None
    return "auto_pad of quantized numbers of open sizes", "give the sizes, or pads"


def cast(graph: Graph, node: Any, attributes: Attributes) -> Reason | None:
    """Conversions to 16-bit integers, which torch-mlir does not lower."""
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
    "MaxPool": pool(is_right_max),
    "AveragePool": pool(is_plain_average),
    "LpPool": pool(is_plain_norm),
    "ReduceLogSumExp": log_sum_exp,
    "DepthToSpace": depth,
    "Slice": slice_,
    "Pad": pad,
    "Conv": convolution,
    "Cast": cast,
    "Div": division,
    "Mod": division,
    "RNN": recurrent,
    "GRU": recurrent,
    "LSTM": recurrent,
}
