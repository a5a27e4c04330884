"""
Operators that are linear, or sums over windows, in terms of the ones that torch-mlir lowers.

    MatMul(vector, A)         Squeeze(MatMul(Unsqueeze(vector), A))
    ConvTranspose(group = n)  Concat of n of one group
    CumSum                    ReduceSum(Where(triangle, x, 0))
    DFT                       MatMul with cosines and sines
"""

from __future__ import annotations

from math import pi, prod
from typing import Any

from xdsl_spirv.frontends.onnx_graph import Graph, Rule

Attributes = dict[str, Any]


def matmul(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """A product with a vector on one side and more than a matrix on the other."""
    shapes = [graph.shape(name) for name in node.input]
    a, b = shapes
    if a is None or b is None or (len(a) != 1 and len(b) != 1) or max(len(a), len(b)) < 3:
        return False
    left, right = node.input
    if len(a) == 1:
        row = graph.reshape(left, [1, *a])
        graph.reshape(graph.add("MatMul", [row, right]), [*b[:-2], b[-1]], node.output[0])
    else:
        column = graph.reshape(right, [*b, 1])
        graph.reshape(graph.add("MatMul", [left, column]), [*a[:-1]], node.output[0])
    return True


def integer_matmul(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """Of more than matrices, whose zero points and signs torch-mlir forgets: in 32 bits."""
    quantized = node.op_type == "QLinearMatMul"
    a, b = node.input[0], node.input[3 if quantized else 1]
    ranks = [len(graph.shape(name) or ()) for name in (a, b)]
    zeros = [node.input[2], node.input[5]] if quantized else [*node.input[2:4], "", ""][:2]
    if max(ranks) < 3 or any(graph.shape(zero) not in ((), (1,)) for zero in zeros if zero):
        return False
    types = graph.onnx.TensorProto
    whole: list[str] = []
    for value, zero in ((a, zeros[0]), (b, zeros[1])):
        wide = graph.cast(value, types.INT32)
        whole.append(graph.add("Sub", [wide, graph.cast(zero, types.INT32)]) if zero else wide)
    if not quantized:
        graph.add("MatMul", whole, node.output[0])
        return True
    product = graph.cast(graph.add("MatMul", whole), types.FLOAT)
    scales = [graph.cast(node.input[n], types.FLOAT) for n in (1, 4, 6)]
    factor = graph.add("Div", [graph.add("Mul", scales[:2]), scales[2]])
    rounded = graph.add("Round", [graph.add("Mul", [product, factor])])
    moved = graph.add("Add", [rounded, graph.cast(node.input[7], types.FLOAT)])
    low, high = (0.0, 255.0) if graph.type(node.input[7]) == types.UINT8 else (-128.0, 127.0)
    ends = [graph.scalar_of(each, types.FLOAT) for each in (low, high)]
    clipped = graph.add("Clip", [moved, *ends])
    graph.cast(clipped, graph.type(node.input[7]) or types.UINT8, node.output[0])
    return True


def conv_integer(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """What surrounds the image is its zero point, so that it counts as nothing."""
    shape = graph.shape(node.input[0])
    pads = attributes.get("pads")
    if (
        shape is None
        or not pads
        or not any(pads)
        or attributes.get("auto_pad", "NOTSET") != "NOTSET"
    ):
        return False
    rank = len(pads) // 2
    around = graph.integers(0, 0, *pads[:rank], 0, 0, *pads[rank:])
    zero = [node.input[2]] if len(node.input) > 2 and node.input[2] else []
    if zero and graph.shape(zero[0]) not in ((), None):
        zero = [graph.reshape(zero[0], [])]
    padded = graph.add("Pad", [node.input[0], around, *zero])
    del attributes["pads"]
    graph.add("ConvInteger", [padded, *node.input[1:]], node.output[0], **attributes)
    return True


def conv_transpose(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """Groups one by one; what `auto_pad` and `output_shape` cut off as a slice."""
    x, w = (graph.shape(name) for name in node.input[:2])
    if x is None or w is None:
        return False
    groups, rank = attributes.get("group", 1), len(x) - 2
    auto = attributes.pop("auto_pad", "NOTSET")
    wanted = attributes.pop("output_shape", None)
    if auto in ("SAME_UPPER", "SAME_LOWER") or wanted:
        _conv_transpose_cut(graph, node, attributes, auto, wanted)
        return True
    if groups == 1:
        return False
    attributes["group"] = 1
    inputs = graph.split(node.input[0], 1, groups, x[1])
    weights = graph.split(node.input[1], 0, groups, w[0])
    pairs = zip(inputs, weights, strict=True)
    parts = [graph.add("ConvTranspose", pair, **attributes) for pair in pairs]
    biased = len(node.input) > 2 and node.input[2]
    joined = graph.add("Concat", parts, None if biased else node.output[0], axis=1)
    if biased:
        bias = graph.reshape(node.input[2], [-1, *[1] * rank])
        graph.add("Add", [joined, bias], node.output[0])
    return True


def _conv_transpose_cut(
    graph: Graph, node: Any, attributes: Attributes, auto: str, wanted: Any
) -> None:
    """Without any padding, and then the part of it that is asked for."""
    x, w = (graph.shape(name) or () for name in node.input[:2])
    rank = len(x) - 2
    strides = attributes.get("strides") or [1] * rank
    dilations = attributes.get("dilations") or [1] * rank
    extra = list(attributes.get("output_padding") or [0] * rank)
    attributes.pop("pads", None)
    for i in range(rank if wanted else 0):
        # What is asked for beyond the last window is zero.
        reached = strides[i] * (x[i + 2] - 1) + (w[i + 2] - 1) * dilations[i] + 1
        extra[i] = max(extra[i], wanted[i] - reached)
    attributes["output_padding"] = extra
    full = graph.add("ConvTranspose", node.input, **attributes)
    starts: list[int] = []
    ends: list[int] = []
    for i in range(rank):
        size = strides[i] * (x[i + 2] - 1) + extra[i] + (w[i + 2] - 1) * dilations[i] + 1
        out = wanted[i] if wanted else x[i + 2] * strides[i]
        total = max(size - out, 0)
        before = total // 2 if auto == "SAME_UPPER" else total - total // 2
        starts.append(before)
        ends.append(before + out)
    axes = graph.integers(*range(2, rank + 2))
    cut = [full, graph.integers(*starts), graph.integers(*ends), axes]
    graph.add("Slice", cut, node.output[0])


def space_to_depth(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """Channels before places in a block, which torch-mlir does not tell from the other order."""
    shape, size = graph.shape(node.input[0]), attributes["blocksize"]
    if attributes.get("mode", "DCR") != "CRD" or shape is None:
        return False
    n, c, h, w = shape
    blocks = graph.reshape(node.input[0], [n, c, h // size, size, w // size, size])
    ordered = graph.add("Transpose", [blocks], perm=[0, 1, 3, 5, 2, 4])
    graph.reshape(ordered, [n, c * size * size, h // size, w // size], node.output[0])
    return True


def cumulative(kind: str) -> Rule:
    """CumSum and CumProd, whose axis is known, or the only one."""

    def rule(graph: Graph, node: Any, attributes: Attributes) -> bool:
        import numpy as np

        x = node.input[0]
        shape, axis = graph.shape(x), graph.value(node.input[1])
        if shape is None or (axis is None and len(shape) != 1):
            return False
        where = 0 if axis is None else int(np.reshape(axis, ())) % len(shape)
        size = shape[where]
        place = np.arange(size)
        row, column = place[:, None], place[None, :]
        before = column < row if attributes.get("exclusive") else column <= row
        if attributes.get("reverse"):
            before = before[::-1, ::-1]
        # Place first, then what is summed over, then what comes after the axis.
        mask = before.reshape(size, size, *[1] * (len(shape) - where - 1))
        wide = graph.reshape(x, [*shape[:where], 1, *shape[where:]])
        neutral = graph.scalar(0 if kind == "ReduceSum" else 1, x)
        chosen = graph.add("Where", [graph.constant(mask), wide, neutral])
        graph.reduce(kind, chosen, [where + 1], False, node.output[0])
        return True

    return rule


def dft(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """Products with the cosines and sines of all pairs of places."""
    import numpy as np

    shape = graph.shape(node.input[0])
    given = [graph.value(name) if name else None for name in node.input]
    given += [None] * (3 - len(given))
    unknown = [
        name for name, v in zip(node.input[1:], given[1:], strict=False) if name and v is None
    ]
    if shape is None or unknown:
        return False
    rank = len(shape)
    default = attributes.get("axis", 1 if graph.opset < 20 else -2)
    axis = int(np.reshape(given[2], ())) if given[2] is not None else default
    axis %= rank
    length = int(np.reshape(given[1], ())) if given[1] is not None else shape[axis]
    onesided, inverse = attributes.get("onesided", 0), attributes.get("inverse", 0)
    count = length // 2 + 1 if onesided and not inverse else length
    used = min(length, shape[axis])
    angle = 2 * pi * (np.arange(used)[:, None] * np.arange(count)[None, :] % length) / length
    scale = 1 / length if inverse else 1.0
    dtype = graph.dtype(node.input[0])
    cosine = graph.constant((np.cos(angle) * scale).astype(dtype))
    sine = graph.constant((np.sin(angle) * scale * (1 if inverse else -1)).astype(dtype))
    order = [i for i in range(rank - 1) if i != axis]
    x = node.input[0] if used == shape[axis] else graph.slice(node.input[0], axis, 0, used)
    parts = graph.split(x, rank - 1, shape[-1], shape[-1])
    lines = [graph.add("Transpose", [part], perm=[*order, rank - 1, axis]) for part in parts]
    real, imaginary = (graph.add("MatMul", [lines[0], w]) for w in (cosine, sine))
    if len(lines) > 1:
        real = graph.add("Sub", [real, graph.add("MatMul", [lines[1], sine])])
        imaginary = graph.add("Add", [imaginary, graph.add("MatMul", [lines[1], cosine])])
    joined = graph.add("Concat", [real, imaginary], axis=rank - 2)
    back = [0] * rank
    for place, dimension in enumerate([*order, rank - 1, axis]):
        back[dimension] = place
    graph.add("Transpose", [joined], node.output[0], perm=back)
    return True


def col2im(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """A transposed convolution whose weights put every element of a block in its place."""
    import numpy as np

    x = graph.shape(node.input[0])
    image, block = (graph.value(name) for name in node.input[1:3])
    if x is None or image is None or block is None:
        return False
    sizes, kernel = [int(v) for v in image], [int(v) for v in block]
    rank, taps = len(sizes), prod(kernel)
    strides = attributes.get("strides") or [1] * rank
    dilations = attributes.get("dilations") or [1] * rank
    pads = attributes.get("pads") or [0] * 2 * rank
    places = [
        (sizes[i] + pads[i] + pads[i + rank] - dilations[i] * (kernel[i] - 1) - 1) // strides[i] + 1
        for i in range(rank)
    ]
    extra = [
        sizes[i]
        + pads[i]
        + pads[i + rank]
        - (strides[i] * (places[i] - 1) + dilations[i] * (kernel[i] - 1) + 1)
        for i in range(rank)
    ]
    channels = x[1] // taps
    dtype = graph.dtype(node.input[0])
    weights = graph.constant(np.eye(taps, dtype=dtype).reshape(taps, 1, *kernel))
    folded = graph.reshape(node.input[0], [x[0] * channels, taps, *places])
    made = graph.add(
        "ConvTranspose",
        [folded, weights],
        strides=strides,
        dilations=dilations,
        output_padding=extra,
    )
    axes = graph.integers(*range(2, rank + 2))
    ends = [pads[i] + sizes[i] for i in range(rank)]
    cut = [made, graph.integers(*pads[:rank]), graph.integers(*ends), axes]
    graph.reshape(graph.add("Slice", cut), [x[0], channels, *sizes], node.output[0])
    return True


RULES: dict[str, Rule] = {
    "MatMul": matmul,
    "MatMulInteger": integer_matmul,
    "QLinearMatMul": integer_matmul,
    "ConvInteger": conv_integer,
    "ConvTranspose": conv_transpose,
    "SpaceToDepth": space_to_depth,
    "CumSum": cumulative("ReduceSum"),
    "CumProd": cumulative("ReduceProd"),
    "DFT": dft,
    "Col2Im": col2im,
}
