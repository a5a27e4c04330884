"""
Operators of random ONNX graphs that move elements, slide windows, or multiply matrices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xdsl_spirv.testing.differential.onnx_draws import (
    axis_of,
    flags,
    floats,
    integers,
    pick,
    shape_of,
)
from xdsl_spirv.testing.differential.onnx_graphs import NotComputed, RandomGraph, Value


def reshape(g: RandomGraph) -> None:
    kind = pick(g, ("Reshape", "Squeeze", "Unsqueeze", "Flatten", "Expand", "Tile", "Transpose"))
    shape = shape_of(g)
    x, rank = g.input(floats(g, shape)), len(shape)
    if kind == "Reshape":
        wanted = [0, -1] if rank > 1 and g.rng.random() < 0.5 else [-1, *shape[1:], 1]
        g.node(kind, x, g.constant(np.array(wanted)))
    elif kind == "Squeeze":
        ones = [i - rank * int(g.rng.integers(2)) for i, size in enumerate(shape) if size == 1]
        g.node(kind, x, *([g.constant(np.array(ones, np.int64))] if ones else []))
    elif kind == "Unsqueeze":
        axes = sorted({int(g.rng.integers(rank + 2)) for _ in range(2)})
        if len(axes) == 2:
            g.node(kind, x, g.constant(np.array(axes) - (rank + 2) * g.rng.integers(2)))
    elif kind == "Flatten":
        g.node(kind, x, axis=int(g.rng.integers(-rank, rank + 1)))
    elif kind == "Expand":
        wanted = [int(g.rng.integers(1, 4)) if s == 1 else s for s in shape]
        front = [2] if g.rng.random() < 0.3 else []
        g.node(kind, x, g.constant(np.array([*front, *wanted])))
    elif kind == "Tile":
        g.node(kind, x, g.constant(g.rng.integers(1, 4, rank)))
    else:
        perm = [int(i) for i in g.rng.permutation(rank)]
        g.node(kind, x, **({"perm": perm} if g.rng.random() < 0.8 else {}))


def slice_of(g: RandomGraph, x: Value) -> Value:
    """Bounds from far before the start to far beyond the end, in steps of either sign."""
    if not x.rank:
        return x
    for _ in range(20):
        axis = axis_of(g, x.rank)
        size = x.shape[axis]
        ends = (-1000, -size - 1, -size, -1, 0, 1, size // 2, size - 1, size, size + 1, 1000)
        start, end = int(pick(g, ends)), int(pick(g, (*ends, -(1 << 62), 1 << 62)))
        by = int(pick(g, (1, 1, 2, -1, -2, -3)))
        if _length(start, end, by, size):
            given = [g.constant(np.array([v], np.int64)) for v in (start, end, axis, by)]
            return g.node("Slice", x, *given)
    return x


def _length(start: int, end: int, by: int, size: int) -> int:
    start, end = (v + size if v < 0 else v for v in (start, end))
    if by > 0:
        return len(range(min(max(start, 0), size), min(max(end, 0), size), by))
    return len(range(min(max(start, 0), size - 1), min(max(end, -1), size - 1), by))


def slices(g: RandomGraph) -> None:
    slice_of(g, g.input(floats(g, shape_of(g, most=3))))


def pad(g: RandomGraph) -> None:
    shape = shape_of(g, most=3)
    mode = pick(g, ("constant", "constant", "reflect", "edge", "wrap"))
    most = [3 if mode in ("constant", "edge") else max(size - 1, 0) for size in shape]
    pads = [int(g.rng.integers(0, min(m, 3) + 1)) for m in (*most, *most)]
    given = [g.constant(np.array(pads, np.int64))]
    if mode == "constant" and g.rng.random() < 0.6:
        given.append(g.constant(np.float32(pick(g, (0.5, -1.0)))))
    g.node("Pad", g.input(floats(g, shape)), *given, mode=mode)


def gather(g: RandomGraph) -> None:
    kind = pick(g, ("Gather", "GatherElements", "GatherND", "Split", "Concat", "ReverseSequence"))
    shape = shape_of(g, least=2)
    x, rank = g.input(floats(g, shape)), len(shape)
    axis = axis_of(g, rank)
    size = shape[axis]
    if kind == "Gather":
        index = g.rng.integers(-size, size, shape_of(g, 0, 2)).astype(pick(g, (np.int64, np.int32)))
        g.node(kind, x, g.either(index), axis=axis)
    elif kind == "GatherElements":
        wanted = list(shape)
        wanted[axis] = int(g.rng.integers(1, 5))
        g.node(kind, x, g.either(g.rng.integers(-size, size, wanted)), axis=axis)
    elif kind == "GatherND":
        depth = int(g.rng.integers(1, rank + 1))
        index = np.stack([g.rng.integers(-s, s, (2, 3)) for s in shape[:depth]], -1)
        g.node(kind, x, g.either(index))
    elif kind == "Split":
        count = int(g.rng.integers(1, size + 1))
        g.nodes_of(kind, x, outputs=count, axis=axis, num_outputs=count)
    elif kind == "Concat":
        wanted = list(shape)
        wanted[axis] = int(g.rng.integers(1, 4))
        g.node(kind, x, g.either(floats(g, wanted)), axis=axis)
    else:
        lengths = g.rng.integers(1, shape[0] + 1, shape[1])
        g.node(kind, x, g.either(lengths), time_axis=0, batch_axis=1)


def scatter(g: RandomGraph) -> None:
    kind = pick(g, ("ScatterElements", "ScatterND", "OneHot", "TopK", "CumSum", "Trilu", "EyeLike"))
    shape = shape_of(g, least=2, most=3)
    axis = axis_of(g, len(shape))
    size, x = shape[axis], floats(g, shape)
    reduction = pick(g, ("none", "add", "max"))
    if kind == "ScatterElements":
        count = int(g.rng.integers(1, size + 1))
        wanted = list(shape)
        wanted[axis] = count
        order = np.argsort(g.rng.random(shape), axis=axis)
        index = np.take(order, range(count), axis=axis) - size * int(g.rng.integers(2))
        given = [g.input(x), g.either(index), g.either(floats(g, wanted))]
        g.node(kind, *given, axis=axis, reduction=reduction)
    elif kind == "ScatterND":
        index = g.rng.permutation(shape[0])[: max(shape[0] // 2, 1), None]
        given = [g.input(x), g.either(index), g.either(floats(g, (len(index), *shape[1:])))]
        g.node(kind, *given, reduction=reduction)
    elif kind == "OneHot":
        depth = int(g.rng.integers(1, 5))
        index = g.input(g.rng.integers(-depth, depth + 1, shape[:2]))
        values = g.constant(np.array([0.5, 2.0], np.float32))
        g.node(kind, index, g.constant(np.array(depth)), values, axis=pick(g, (-1, 0, 1)))
    elif kind == "TopK":
        count = g.constant(np.array([int(g.rng.integers(1, size + 1))]))
        largest = int(g.rng.integers(2))
        g.nodes_of(kind, g.input(x), count, outputs=2, axis=axis, largest=largest)
    elif kind == "CumSum":
        given = {k: int(g.rng.integers(2)) for k in ("exclusive", "reverse")}
        g.node(kind, g.input(x), g.constant(np.array(axis)), **given)
    elif kind == "Trilu":
        diagonal = g.constant(np.array(int(g.rng.integers(-3, 4))))
        g.node(kind, g.input(x), diagonal, upper=int(g.rng.integers(2)))
    else:
        g.node("EyeLike", g.input(floats(g, shape[:2])), k=int(g.rng.integers(-2, 3)))


def image(g: RandomGraph, dtype: Any = np.float32, rank: int = 2) -> Any:
    """A few channels of a small image."""
    sizes = [int(g.rng.integers(4, 9)) for _ in range(rank)]
    shape = (int(g.rng.integers(1, 3)), pick(g, (1, 2, 4)), *sizes)
    if np.dtype(dtype).kind == "f":
        return floats(g, shape, dtype)
    return integers(g, shape, dtype)


def window(g: RandomGraph, rank: int, pool: bool = False) -> dict[str, Any]:
    """Kernel, strides, dilations and padding."""
    kernel = [int(g.rng.integers(1, 4)) for _ in range(rank)]
    attributes: dict[str, Any] = {"kernel_shape": kernel}
    if g.rng.random() < 0.5:
        attributes["strides"] = [int(g.rng.integers(1, 4)) for _ in range(rank)]
    if g.rng.random() < 0.25:
        attributes["dilations"] = [int(g.rng.integers(1, 3)) for _ in range(rank)]
    auto = g.rng.random()
    if auto < 0.2 and "dilations" not in attributes:
        attributes["auto_pad"] = pick(g, ("SAME_UPPER", "SAME_LOWER", "VALID"))
    elif auto < 0.75:
        most = [k - 1 if pool else 2 for k in kernel]
        attributes["pads"] = [int(g.rng.integers(0, m + 1)) for m in (*most, *most)]
    return attributes


def pool(g: RandomGraph) -> None:
    kind = pick(g, ("MaxPool", "MaxPool", "AveragePool", "LpPool", "GlobalMaxPool"))
    dtype = pick(g, (np.float32, np.float32, np.float16, np.uint8, np.int8))
    dtype = dtype if kind == "MaxPool" else pick(g, (np.float32, np.float16))
    rank = pick(g, (2, 2, 2, 1, 3))
    x = g.input(image(g, dtype, rank))
    if kind == "GlobalMaxPool":
        g.node(pick(g, ("GlobalMaxPool", "GlobalAveragePool")), x)
        return
    given = window(g, rank, pool=True)
    if g.rng.random() < 0.4 and "auto_pad" not in given:
        given["ceil_mode"] = 1
    if kind == "AveragePool" and g.rng.random() < 0.5:
        given["count_include_pad"] = 1
    if kind == "LpPool" and g.rng.random() < 0.5:
        given["p"] = pick(g, (1, 2, 3))
    g.nodes_of(kind, x, outputs=2 if kind == "MaxPool" and g.rng.random() < 0.4 else 1, **given)


def convolution(g: RandomGraph) -> None:
    kind = pick(g, ("Conv", "Conv", "ConvTranspose"))
    rank = pick(g, (2, 2, 1))
    x = image(g, rank=rank)
    channels, given = x.shape[1], window(g, rank)
    group = pick(g, [n for n in (1, 1, 2, channels) if channels % n == 0])
    out = group * int(g.rng.integers(1, 4))
    first = (out, channels // group) if kind == "Conv" else (channels, out // group)
    w = floats(g, (*first, *given["kernel_shape"]))
    rest = [g.constant(floats(g, (out,)))] if g.rng.random() < 0.6 else []
    if kind == "ConvTranspose" and "strides" in given and g.rng.random() < 0.4:
        given["output_padding"] = [int(g.rng.integers(0, s)) for s in given["strides"]]
    g.node(kind, g.input(x), g.either(w), *rest, group=group, **given)


def product(g: RandomGraph) -> None:
    kind = pick(g, ("Gemm", "Gemm", "MatMul", "MatMul", "Einsum"))
    m, k, n = (int(v) for v in g.rng.integers(1, 8, 3))
    if kind == "Gemm":
        given = {name: int(g.rng.integers(2)) for name in ("transA", "transB")}
        given |= {name: pick(g, (1.0, 2.0, -0.5, 0.0)) for name in ("alpha", "beta")}
        a = floats(g, (k, m) if given["transA"] else (m, k))
        b = floats(g, (n, k) if given["transB"] else (k, n))
        wide = pick(g, ((n,), (1, n), (m, 1), (m, n), (1,), ()))
        rest = [g.either(floats(g, wide))] if g.rng.random() < 0.6 else []
        g.node(kind, g.input(a), g.either(b), *rest, **given)
    elif kind == "MatMul":
        left = pick(g, ((k,), (m, k), (3, m, k), (1, 3, m, k), (2, 1, m, k)))
        right = pick(g, ((k,), (k, n), (3, k, n), (2, 3, k, n)))
        g.node(kind, g.input(floats(g, left)), g.either(floats(g, right)))
    else:
        a, b = floats(g, (2, m, k)), floats(g, (2, k, n))
        equation = pick(g, ("bmk,bkn->bmn", "bmk,bkn->bnm", "bmk,bkn->mn", "bmk,bkn->b"))
        g.node(kind, g.input(a), g.either(b), equation=equation)


def normalization(g: RandomGraph) -> None:
    kind = pick(
        g,
        (
            *("LayerNormalization", "InstanceNormalization", "BatchNormalization", "LRN"),
            *("GroupNormalization", "LpNormalization", "MeanVarianceNormalization"),
        ),
    )
    x = image(g)
    channels = x.shape[1]
    scale, bias = (g.constant(floats(g, (channels,))) for _ in range(2))
    if kind == "LayerNormalization":
        axis = axis_of(g, 4)
        wide = x.shape[axis:] if axis else x.shape
        rest = [g.constant(floats(g, wide)) for _ in range(int(g.rng.integers(1, 3)))]
        g.node(kind, g.input(x), *rest, axis=axis)
    elif kind == "InstanceNormalization":
        g.node(kind, g.input(x), scale, bias)
    elif kind == "BatchNormalization":
        mean = g.constant(floats(g, (channels,)))
        spread = g.constant((np.abs(floats(g, (channels,))) + 0.5).astype(np.float32))
        g.node(kind, g.input(x), scale, bias, mean, spread)
    elif kind == "LRN":
        g.node(kind, g.input(x), size=pick(g, (1, 3)), alpha=0.1, beta=0.6, bias=1.5)
    elif kind == "GroupNormalization":
        groups = pick(g, [n for n in (1, 2, 4) if channels % n == 0])
        g.node(kind, g.input(x), scale, bias, num_groups=groups)
    elif kind == "LpNormalization":
        g.node(kind, g.input(x), axis=axis_of(g, 4), p=pick(g, (1, 2)))
    else:
        g.node(kind, g.input(x))


def depth(g: RandomGraph) -> None:
    size = pick(g, (2, 3))
    channels = pick(g, (1, 2, 3))
    h, w = (int(v) for v in g.rng.integers(1, 5, 2))
    if g.rng.random() < 0.3:
        x = floats(g, (1, channels, h * size, w * size))
        g.node("SpaceToDepth", g.input(x), blocksize=size)
        return
    x = floats(g, (2, channels * size * size, h, w))
    g.node("DepthToSpace", g.input(x), blocksize=size, mode=pick(g, ("DCR", "CRD")))


def resize(g: RandomGraph) -> None:
    x = image(g)
    old = g.rng.random()
    mode = pick(g, ("nearest", "linear"))
    if old < 0.3:
        g.opset = 9 if old < 0.15 else 10
        scales = np.array([1, 1, *pick(g, ((2, 2), (1.5, 2), (2, 3), (1, 2)))], np.float32)
        g.node("Upsample" if g.opset == 9 else "Resize", g.input(x), g.constant(scales), mode=mode)
        return
    corner = pick(g, ("half_pixel", "asymmetric", "pytorch_half_pixel", "align_corners"))
    given: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": corner}
    if mode == "nearest":
        given["nearest_mode"] = pick(g, ("round_prefer_floor", "floor", "ceil"))
    sizes = np.array([*x.shape[:2], *(int(s * pick(g, (0.5, 1, 2, 3))) for s in x.shape[2:])])
    if g.rng.random() < 0.5:
        g.node("Resize", g.input(x), None, None, g.constant(sizes), **given)
        return
    scales = (sizes / np.array(x.shape)).astype(np.float32)
    g.node("Resize", g.input(x), None, g.constant(scales), **given)


def recurrent(g: RandomGraph) -> None:
    kind = pick(g, ("RNN", "GRU", "LSTM"))
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind]
    length, batch, size, hidden = (int(v) for v in g.rng.integers(1, 5, 4))
    direction = pick(g, ("forward", "forward", "reverse", "bidirectional"))
    ways = 2 if direction == "bidirectional" else 1
    x = g.input(floats(g, (length, batch, size)))
    w = g.constant(floats(g, (ways, gates * hidden, size)))
    r = g.constant(floats(g, (ways, gates * hidden, hidden)))
    rest: list[Value | None] = [None, None, None]
    if g.rng.random() < 0.6:
        rest[0] = g.constant(floats(g, (ways, 2 * gates * hidden)))
    if g.rng.random() < 0.4:
        rest[1] = g.either(g.rng.integers(1, length + 1, batch).astype(np.int32))
    if g.rng.random() < 0.5:
        rest[2] = g.either(floats(g, (ways, batch, hidden)))
        if kind == "LSTM":
            rest.append(g.either(floats(g, (ways, batch, hidden))))
    given: dict[str, Any] = {"direction": direction, "hidden_size": hidden}
    if g.rng.random() < 0.25:
        given["clip"] = 0.5
    if kind == "GRU" and g.rng.random() < 0.5:
        given["linear_before_reset"] = 1
    if g.rng.random() < 0.3:
        names = {"RNN": ["Relu"], "GRU": ["HardSigmoid", "Softsign"]}
        given["activations"] = names.get(kind, ["Sigmoid", "Relu", "Tanh"]) * ways
    g.nodes_of(kind, x, w, r, *rest, outputs=3 if kind == "LSTM" else 2, **given)


def constants(g: RandomGraph) -> None:
    """Shapes and ranges."""
    kind = pick(g, ("Range", "ConstantOfShape", "Shape", "Size", "Compress"))
    shape = shape_of(g)
    if kind == "Range":
        ends = [np.float32(v) for v in (1.0, 7.0, 1.5)] if g.rng.random() < 0.5 else [9, -2, -3]
        constant = g.node(kind, *(g.constant(np.array(v)) for v in ends))
        g.node("Mul", constant, g.input(constant.array))
    elif kind == "Compress":
        condition = flags(g, (shape[0],))
        if not condition.any():
            raise NotComputed("nothing is left")
        g.node(kind, g.input(floats(g, shape)), g.constant(condition), axis=0)
    elif kind == "ConstantOfShape":
        constant = g.node(kind, g.constant(np.array(shape)))
        g.node("Add", constant, g.input(floats(g, shape)))
    else:
        x = g.input(floats(g, shape))
        g.node("Mul", g.node(kind, g.node("Abs", x)), g.input(np.array([3], np.int64)))


def quantized_matrix(g: RandomGraph, shape: tuple[int, ...], dtype: Any, most: int = 256) -> Any:
    return integers(g, shape, dtype, most)


def zero_point(g: RandomGraph, dtype: Any) -> Any:
    return np.array(pick(g, (0, 128, 100, 255) if dtype is np.uint8 else (0, 5, -128, 127)), dtype)


BYTES = (np.uint8, np.int8)


def quantize(g: RandomGraph) -> None:
    kind = pick(g, ("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"))
    shape = shape_of(g)
    if kind == "DynamicQuantizeLinear":
        g.nodes_of(kind, g.input(floats(g, shape)), outputs=3)
        return
    dtype = pick(g, BYTES)
    axis = axis_of(g, len(shape))
    of_channels = g.rng.random() < 0.4
    wide = (shape[axis],) if of_channels else ()
    scale = (np.abs(floats(g, wide)) * 0.02 + 0.01).astype(np.float32)
    zero: Any = None
    if g.rng.random() < 0.7:
        zero = g.constant(np.full(wide, zero_point(g, dtype), dtype))
    elif kind == "QuantizeLinear":
        dtype = np.uint8
    x = floats(g, shape) if kind == "QuantizeLinear" else integers(g, shape, dtype)
    rest = [zero] if zero is not None else []
    g.node(kind, g.input(x), g.constant(scale), *rest, **({"axis": axis} if of_channels else {}))


def integer_product(g: RandomGraph) -> None:
    kind = pick(g, ("MatMulInteger", "ConvInteger", "QLinearMatMul"))
    first, second = pick(g, BYTES), pick(g, BYTES)
    most = 63
    if kind == "ConvInteger":
        given = window(g, 2)
        shapes = (1, 2, 6, 5), (3, 2, *given["kernel_shape"])
    else:
        given = {}
        shapes = pick(g, (((3, 6), (6, 5)), ((2, 3, 6), (6, 5)), ((2, 3, 6), (2, 6, 4))))
    a, b = (integers(g, s, d, most) for s, d in zip(shapes, (first, second), strict=True))
    if kind == "QLinearMatMul":
        scales = [g.constant(np.float32(v)) for v in (0.02, 0.03, 0.05)]
        zeros = [g.constant(zero_point(g, d)) for d in (first, second, first)]
        given_all = [g.input(a), scales[0], zeros[0], g.either(b), scales[1], zeros[1]]
        g.node(kind, *given_all, scales[2], zeros[2])
        g.step = 1.0
        return
    values = [
        g.constant((zero_point(g, d) // 4).astype(d)) if g.rng.random() < 0.6 else None
        for d in (first, second)
    ]
    while values and values[-1] is None:
        values.pop()
    product = g.node(kind, g.input(a), g.either(b), *values, **given)
    if g.rng.random() < 0.5:
        g.node("Mul", g.node("Cast", product, to=1), g.constant(np.float32(0.01)))


def qdq(g: RandomGraph) -> None:
    """A convolution or product between dequantized operands, perhaps quantized again."""
    first, second = pick(g, BYTES), pick(g, BYTES)
    given = window(g, 2)
    x = floats(g, (1, 3, 6, 6))
    w = integers(g, (4, 3, *given["kernel_shape"]), second, 256)
    sx, zx = g.constant(np.float32(0.02)), g.constant(zero_point(g, first))
    d = g.node("DequantizeLinear", g.node("QuantizeLinear", g.input(x), sx, zx), sx, zx)
    if g.rng.random() < 0.4:
        sw = g.constant(np.array([0.01, 0.02, 0.005, 0.03], np.float32))
        zw = g.constant(np.full(4, 0 if second is np.int8 else 128, second))
        f = g.node("DequantizeLinear", g.constant(w), sw, zw, axis=0)
    else:
        sw, zw = g.constant(np.float32(0.01)), g.constant(zero_point(g, second))
        f = g.node("DequantizeLinear", g.constant(w), sw, zw)
    bias = [g.constant(floats(g, (4,)))] if g.rng.random() < 0.5 else []
    convolved = g.node("Conv", d, f, *bias, **given)
    if g.rng.random() < 0.6:
        convolved = g.node("Relu", convolved) if g.rng.random() < 0.5 else convolved
        sy, zy = g.constant(np.float32(0.11)), g.constant(zero_point(g, first))
        g.step = 0.11
        q = g.node("QuantizeLinear", convolved, sy, zy)
        g.node("DequantizeLinear", q, sy, zy)


DRAWS: dict[str, Callable[[RandomGraph], Any]] = {
    "reshape": reshape,
    "slice": slices,
    "pad": pad,
    "gather": gather,
    "scatter": scatter,
    "pool": pool,
    "convolution": convolution,
    "product": product,
    "normalization": normalization,
    "depth": depth,
    "resize": resize,
    "recurrent": recurrent,
    "constants": constants,
    "quantize": quantize,
    "integer_product": integer_product,
    "qdq": qdq,
}
