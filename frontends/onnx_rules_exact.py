"""
Operators that importers lower to something else at the edges of their attributes.

    Gemm(a, b; alpha)         Mul(MatMul(a, b), alpha)        where there is no c
    DepthToSpace              Reshape, Transpose, Reshape
    Slice(x; step < 0)        the same with a start inside of x
    ReduceLogSumExp(x)        m + Log(ReduceSum(Exp(x - m))), m the largest
    Softmax(vector)           Reshape(Softmax(Reshape(vector, [1, n])))
    Conv(dq, dq, bias)        Add(Conv(dq, dq), bias)
"""

from __future__ import annotations

from typing import Any

from xdsl_spirv.frontends.onnx_graph import Graph, Rule
from xdsl_spirv.frontends.onnx_rules_windows import paddings_of

Attributes = dict[str, Any]


def gemm(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """Without a third operand torch-mlir divides by alpha."""
    if len(node.input) > 2 and node.input[2]:
        return False
    alpha = attributes.get("alpha", 1.0)
    kind = graph.type(node.input[0])
    if alpha == 1.0 or kind is None:
        return False
    operands = [
        graph.add("Transpose", [name], perm=[1, 0]) if attributes.get(turned, 0) else name
        for name, turned in zip(node.input[:2], ("transA", "transB"), strict=True)
    ]
    product = graph.add("MatMul", operands)
    graph.add("Mul", [product, graph.scalar_of(alpha, kind)], node.output[0])
    return True


def depth_to_space(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """Either order of channels and places in a block; torch-mlir knows one."""
    sizes, size = graph.sizes(node.input[0]), attributes["blocksize"]
    if attributes.get("mode", "DCR") != "CRD" or sizes is None:
        return False
    _, c, h, w = sizes
    if c is None or h is None or w is None:
        return False
    depth = c // (size * size)
    # 0: as many images as there are.
    blocks = graph.reshape(node.input[0], [0, depth, size, size, h, w])
    ordered = graph.add("Transpose", [blocks], perm=[0, 1, 4, 2, 5, 3])
    graph.reshape(ordered, [0, depth, h * size, w * size], node.output[0])
    return True


def slice_(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """Backwards from beyond the end: torch-mlir counts the places that are not there."""
    import numpy as np

    if len(node.input) < 5:
        return False
    values = [graph.value(name) if name else None for name in node.input[1:5]]
    starts, ends, axes, steps = values
    known = graph.sizes(node.input[0])
    if starts is None or ends is None or steps is None or known is None:
        return False
    axes = np.arange(len(starts)) if axes is None else axes
    # An open size is none that a start could be beyond: refused if it matters.
    sizes = np.array([np.iinfo(np.int64).max if s is None else s for s in known])[axes]
    moved = np.where((steps < 0) & (starts >= sizes), sizes - 1, starts)
    if (moved == starts).all():
        return False
    names = [graph.constant(np.asarray(v, np.int64)) for v in (moved, ends, axes, steps)]
    graph.add("Slice", [node.input[0], *names], node.output[0])
    return True


def log_sum_exp(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """With the largest number taken out before, so that no power overflows."""
    x, types = node.input[0], graph.onnx.TensorProto
    kind = graph.type(x)
    axes = _axes(graph, node, attributes)
    if kind is None or axes is None or kind not in _floats(graph):
        return False
    if not axes:
        graph.add("Identity", [x], node.output[0])
        return True
    wide = graph.cast(x, types.FLOAT) if kind == types.FLOAT16 else x
    held: int = kind if kind != types.FLOAT16 else types.FLOAT
    peak = graph.reduce("ReduceMax", wide, axes, True)
    # Where all are -inf, or one is inf, the difference of two infinities would be no number.
    finite = graph.add("Less", [graph.add("Abs", [peak]), graph.scalar_of(float("inf"), held)])
    peak = graph.add("Where", [finite, peak, graph.scalar_of(0.0, held)])
    powers = graph.add("Exp", [graph.add("Sub", [wide, peak])])
    total = graph.add("Log", [graph.reduce("ReduceSum", powers, axes, True)])
    found = graph.add("Add", [total, peak])
    if not attributes.get("keepdims", 1):
        found = graph.add("Squeeze", [found, graph.integers(*axes)])
    graph.cast(found, kind, node.output[0])
    return True


def _floats(graph: Graph) -> tuple[int, ...]:
    types = graph.onnx.TensorProto
    return types.FLOAT, types.FLOAT16, types.DOUBLE


def _axes(graph: Graph, node: Any, attributes: Attributes) -> list[int] | None:
    """The axes of a reduction, from the first; None if they are not known."""
    sizes = graph.sizes(node.input[0])
    if sizes is None:
        return None
    given: Any = attributes.get("axes")
    if len(node.input) > 1 and node.input[1]:
        given = graph.value(node.input[1])
        if given is None:
            return None
    if given is None or len(given) == 0:
        return [] if attributes.get("noop_with_empty_axes", 0) else list(range(len(sizes)))
    return sorted({int(axis) % len(sizes) for axis in given})


def vector(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """Of a vector: as a row, for xDSL reads no tensor without dimensions becoming one with them."""
    shape = graph.shape(node.input[0])
    if shape is None or len(shape) != 1:
        return False
    if node.op_type.startswith("Reduce") and _axes(graph, node, attributes) != [0]:
        return False
    is_map = node.op_type in ("Softmax", "LogSoftmax", "Hardmax")
    if not is_map and not attributes.get("keepdims", 1):
        return False
    row = graph.reshape(node.input[0], [1, *shape])
    if node.op_type.startswith("Reduce"):
        found = graph.reduce(node.op_type, row, [1], True)
    else:
        attributes["axis"] = 1
        found = graph.add(node.op_type, [row], **attributes)
    graph.reshape(found, shape if is_map else [1], node.output[0])
    return True


def quantized_bias(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """A bias in floats is added in floats: torch-mlir rounds it to steps of the product's scale."""
    made = {name: each for each in graph.model.graph.node for name in each.output}
    operands = [made.get(name) for name in node.input]
    if len(operands) < 3 or not node.input[2]:
        return False
    kinds = [each.op_type if each is not None else "" for each in operands]
    if kinds[:2] != ["DequantizeLinear"] * 2 or kinds[2] == "DequantizeLinear":
        return False
    shape = graph.shape(node.output[0]) or ()
    bias = node.input[2]
    if node.op_type != "Gemm":
        known = graph.declared(node.input[0])
        rank = len(known.type.tensor_type.shape.dim) if known is not None else len(shape)
        if rank < 3:
            return False
        bias = graph.reshape(bias, [1, -1, *[1] * (rank - 2)])
    elif attributes.pop("beta", 1.0) != 1.0:
        return False
    plain = graph.add(node.op_type, node.input[:2], **attributes)
    graph.add("Add", [plain, bias], node.output[0])
    return True


def quantized_padding(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """
    Bytes are surrounded before they are dequantized, where one side gets more than the other.

    torch-mlir surrounds them by the zero point as a number with a sign, which 128 and more are not.
    """
    made = {name: each for each in graph.model.graph.node for name in each.output}
    bytes_ = made.get(node.input[0])
    if bytes_ is None or bytes_.op_type != "DequantizeLinear":
        return False
    zero = graph.value(bytes_.input[2]) if len(bytes_.input) > 2 and bytes_.input[2] else None
    weight = graph.shape(node.input[1])
    if zero is None or zero.size != 1 or zero.max() < 128 or weight is None:
        return False
    kernel = list(weight[2:])
    image, result = ((graph.sizes(name) or ())[2:] for name in (node.input[0], node.output[0]))
    around_image = paddings_of(image, result, kernel, attributes)
    if around_image is None:
        return False
    before, after = around_image
    if before == after:
        return False
    attributes = {k: v for k, v in attributes.items() if k not in ("pads", "auto_pad")}
    around = graph.integers(0, 0, *before, 0, 0, *after)
    padded = graph.add("Pad", [bytes_.input[0], around, graph.reshape(bytes_.input[2], [])])
    again = graph.add("DequantizeLinear", [padded, *bytes_.input[1:]])
    graph.add("Conv", [again, *node.input[1:]], node.output[0], **attributes)
    return True


PADDINGS: dict[str, Rule] = {"Conv": quantized_padding}

RULES: dict[str, Rule] = {
    "Gemm": gemm,
    "DepthToSpace": depth_to_space,
    "Slice": slice_,
    "ReduceLogSumExp": log_sum_exp,
}

VECTORS: dict[str, Rule] = dict.fromkeys(
    ("Softmax", "LogSoftmax", "Hardmax", "ArgMax", "ArgMin", "ReduceMax", "ReduceMin"), vector
)

BIASES: dict[str, Rule] = dict.fromkeys(("Conv", "ConvTranspose", "Gemm"), quantized_bias)
