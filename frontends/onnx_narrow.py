"""
Types of few bits in an ONNX graph: float8, float4, and integers of four and two bits.

No importer computes in them and neither does a device, but conversions and moves are all that ONNX
lets a graph do with them. So a value is carried as its code, a byte:

    Cast(code -> number)      table[code]
    Cast(x -> float)          the number of thresholds that |x| reaches, and the sign
    Cast(x -> integer)        the low bits

Thresholds lie half-way between neighbours, moved by one step where the tie goes down, so that
rounding is to nearest even and exact.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from xdsl_spirv.frontends.onnx_graph import Graph

FLOATS = {
    "FLOAT8E4M3FN": (7, 0x7F, True),
    "FLOAT8E4M3FNUZ": (7, 0x80, False),
    "FLOAT8E5M2": (7, 0x7F, True),
    "FLOAT8E5M2FNUZ": (7, 0x80, False),
    "FLOAT4E2M1": (3, 0x8, True),
}
"""Bits without the sign, the code of no number (ml_dtypes' choice where there is none), and whether
zero has a sign."""

EXPONENTS = "FLOAT8E8M0"
INTEGERS = {"INT4": 4, "UINT4": 4, "INT2": 2, "UINT2": 2}

MOVES = frozenset(
    (
        *("Identity", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Concat", "Slice"),
        *("Split", "Gather", "Tile", "Expand", "DepthToSpace", "SpaceToDepth", "Where", "Shape"),
    )
)
"""What takes codes as well as numbers."""

CONVERSIONS = frozenset(("Cast", "CastLike", "QuantizeLinear", "DequantizeLinear", "Constant"))
"""What makes numbers of codes, or codes of numbers."""


def names(onnx: Any) -> dict[int, str]:
    """The types of few bits that this onnx knows, by number."""
    kinds = onnx.TensorProto.DataType
    known = dict(kinds.items())
    return {known[n]: n for n in (*FLOATS, EXPONENTS, *INTEGERS) if n in known}


def carry_as_bytes(model: Any) -> Any:
    """
    Rewrite a model that has such types; others are left as they are.

    Raises `ValueError` that names a node which would have to compute in them.
    """
    onnx: Any = import_module("onnx")
    narrow = names(onnx)
    if not _occurs(model, narrow):
        return model
    graph = Graph(model)
    _refuse_arithmetic(graph, narrow)
    graph.apply(
        {
            "CastLike": _cast,
            "Cast": _cast,
            "QuantizeLinear": _quantize,
            "DequantizeLinear": _dequantize,
        }
    )
    byte = onnx.TensorProto.UINT8
    for value in (*model.graph.input, *model.graph.output):
        if value.type.tensor_type.elem_type in narrow:
            value.type.tensor_type.elem_type = byte
    constants = [n for n in model.graph.node if n.op_type == "Constant"]
    held = [n.attribute[0].t for n in constants if n.attribute[0].name == "value"]
    for tensor in (*model.graph.initializer, *held):
        if tensor.data_type in narrow:
            import numpy as np

            codes = onnx.numpy_helper.to_array(tensor).view(np.uint8)
            tensor.CopyFrom(onnx.numpy_helper.from_array(codes, tensor.name))
    del model.graph.value_info[:]
    return model


def _occurs(model: Any, narrow: dict[int, str]) -> bool:
    graph = model.graph
    values = (*graph.input, *graph.output, *graph.value_info)
    types = {value.type.tensor_type.elem_type for value in values}
    types |= {tensor.data_type for tensor in graph.initializer}
    for node in graph.node:
        for attribute in node.attribute:
            types.add(attribute.t.data_type if attribute.name == "value" else 0)
            types.add(attribute.i if attribute.name in ("to", "output_dtype") else 0)
    return bool(types & set(narrow))


def _refuse_arithmetic(graph: Graph, narrow: dict[int, str]) -> None:
    for node in graph.model.graph.node:
        for name in (*node.input, *node.output):
            kind = narrow.get(graph.type(name) or 0)
            if kind is not None and node.op_type not in MOVES | CONVERSIONS:
                raise ValueError(
                    f'error: "{node.name}": it computes in {kind.lower()}, in which only '
                    f'conversions and moves are possible (operator "onnx.{node.op_type}")'
                )


def _kind(graph: Graph, name: str) -> str | None:
    return names(graph.onnx).get(graph.type(name) or 0)


def _cast(graph: Graph, node: Any, attributes: dict[str, Any]) -> bool:
    """Cast and CastLike, where one side has few bits."""
    x, output = node.input[0], node.output[0]
    to: int | None = attributes.get("to") or graph.type(node.input[1])
    target = names(graph.onnx).get(to or 0)
    if to is None or (target is None and _kind(graph, x) is None):
        return False
    number = _decoded(graph, x)
    if target is None:
        graph.cast(number, to, output)
        return True
    _encode(graph, number, target, attributes, output)
    return True


def _decoded(graph: Graph, x: str) -> str:
    """The numbers, in f32, that codes stand for; any other value as it is."""
    kind = _kind(graph, x)
    if kind is None:
        return x
    table = graph.constant(_all_values(graph.onnx, kind))
    return graph.add("Gather", [table, graph.cast(x, graph.onnx.TensorProto.INT32)])


def _all_values(onnx: Any, kind: str) -> Any:
    """The number of each of 256 codes, the bits that a type has not ignored."""
    import numpy as np

    codes = np.arange(256, dtype=np.uint8)
    bits = INTEGERS.get(kind) or (FLOATS[kind][0] + 1 if kind in FLOATS else 8)
    dtype = onnx.helper.tensor_dtype_to_np_dtype(getattr(onnx.TensorProto, kind))
    return (codes & ((1 << bits) - 1)).view(dtype).astype(np.float32)


def _encode(graph: Graph, x: str, kind: str, attributes: dict[str, Any], output: str) -> None:
    """The codes of numbers."""
    types = graph.onnx.TensorProto
    if kind in INTEGERS:
        whole = graph.cast(x, types.INT32)
        mask = graph.scalar_of((1 << INTEGERS[kind]) - 1, types.INT32)
        graph.cast(graph.add("BitwiseAnd", [whole, mask]), types.UINT8, output)
        return
    single = graph.cast(x, types.FLOAT)
    count = _exponent if kind == EXPONENTS else _code
    graph.cast(count(graph, single, kind, attributes), types.UINT8, output)


def _reached(graph: Graph, x: str, thresholds: Any, kind: str = "GreaterOrEqual") -> str:
    """How many of the thresholds a number reaches, as i32."""
    last = graph.add("Unsqueeze", [x, graph.integers(-1)])
    reached = graph.add(kind, [last, graph.constant(thresholds)])
    ones = graph.cast(reached, graph.onnx.TensorProto.INT32)
    return graph.reduce("ReduceSum", ones, [-1], False)


def _exponent(graph: Graph, x: str, kind: str, attributes: dict[str, Any]) -> str:
    """The code of a power of two: the next one (`up`), the nearest, or the one before."""
    import numpy as np

    powers = _all_values(graph.onnx, kind)[:255].astype(np.float64)
    mode = attributes.get("round_mode", "up")
    if mode == "up":
        count = _reached(graph, x, powers[:-1].astype(np.float32), "Greater")
    else:
        steps = powers[1:] if mode == "down" else powers[:-1] * 1.5
        count = _reached(graph, x, steps.astype(np.float32))
    return _unless_nan(graph, x, count, 0xFF)


def _code(graph: Graph, x: str, kind: str, attributes: dict[str, Any]) -> str:
    """The code of a float."""
    bits, nan, signed_zero = FLOATS[kind]
    types = graph.onnx.TensorProto
    zero = graph.scalar_of(0.0, types.FLOAT)
    thresholds = _thresholds(graph.onnx, kind, bool(attributes.get("saturate", 1)))
    count = _reached(graph, graph.add("Abs", [x]), thresholds)
    sign = graph.add("Less", [x, zero])
    if signed_zero:
        one = graph.scalar_of(1.0, types.FLOAT)
        below = graph.add("Less", [graph.add("Div", [one, x]), zero])
        sign = graph.add("Or", [sign, below])
    else:
        none = graph.scalar_of(0, types.INT32)
        sign = graph.add("And", [sign, graph.add("Greater", [count, none])])
        fits = graph.add("Less", [count, graph.scalar_of(nan, types.INT32)])
        sign = graph.add("And", [sign, fits])
    signs = [graph.scalar_of(value, types.INT32) for value in (1 << bits, 0)]
    code = graph.add("Add", [count, graph.add("Where", [sign, *signs])])
    return _unless_nan(graph, x, code, nan)


def _unless_nan(graph: Graph, x: str, code: str, nan: int) -> str:
    unknown = graph.add("IsNaN", [x])
    return graph.add("Where", [unknown, graph.scalar_of(nan, graph.onnx.TensorProto.INT32), code])


def _thresholds(onnx: Any, kind: str, saturate: bool) -> Any:
    """
    The least f32 that rounds to each code from 1 on.

    Without saturation one more follows: from there on the result is no number, or infinity.
    """
    import numpy as np

    bits = FLOATS[kind][0]
    values = _all_values(onnx, kind)[: 1 << bits].astype(np.float64)
    finite = values[np.isfinite(values)]
    steps = [*finite, 2 * finite[-1] - finite[-2]] if not saturate else [*finite]
    found: list[Any] = []
    for code in range(1, len(steps)):
        middle = np.float32((steps[code - 1] + steps[code]) / 2)
        goes_up = code % 2 == 0
        found.append(middle if goes_up else np.nextafter(middle, np.float32(np.inf)))
    return np.array(found, np.float32)


def _quantize(graph: Graph, node: Any, attributes: dict[str, Any]) -> bool:
    """x / scale, rounded and moved by the zero point; floats only rounded."""
    kind = _kind(graph, node.output[0])
    if kind is None:
        return False
    types = graph.onnx.TensorProto
    axis, size = attributes.get("axis", 1), attributes.get("block_size", 0)
    x, scale = node.input[0], spread(graph, node.input[0], node.input[1], axis, size)
    ratio = graph.add("Div", [graph.cast(x, types.FLOAT), graph.cast(scale, types.FLOAT)])
    if kind in INTEGERS:
        ratio = graph.add("Round", [ratio])
        if len(node.input) > 2 and node.input[2]:
            zero = spread(graph, x, _decoded(graph, node.input[2]), axis, size, node.input[2])
            ratio = graph.add("Add", [ratio, zero])
        values = _all_values(graph.onnx, kind)
        ends = [graph.scalar_of(float(v), types.FLOAT) for v in (values.min(), values.max())]
        ratio = graph.add("Clip", [ratio, *ends])
    _encode(graph, ratio, kind, attributes, node.output[0])
    return True


def _dequantize(graph: Graph, node: Any, attributes: dict[str, Any]) -> bool:
    """(x - zero point) * scale."""
    x, scale = node.input[:2]
    if _kind(graph, x) is None:
        return False
    types = graph.onnx.TensorProto
    axis, size = attributes.get("axis", 1), attributes.get("block_size", 0)
    number = _decoded(graph, x)
    if len(node.input) > 2 and node.input[2]:
        zero = spread(graph, x, _decoded(graph, node.input[2]), axis, size, node.input[2])
        number = graph.add("Sub", [number, zero])
    factor = graph.cast(spread(graph, x, scale, axis, size), types.FLOAT)
    product = graph.add("Mul", [number, factor])
    graph.cast(product, graph.type(node.output[0]) or types.FLOAT, node.output[0])
    return True


def spread(graph: Graph, x: str, scale: str, axis: int, size: int, of: str = "") -> str:
    """A scale, or what has its shape (that of `of`), in a form that broadcasts over `x`."""
    shape, given = graph.shape(x), graph.shape(of or scale)
    if shape is None or given is None or len(given) == 0 or given == (1,):
        return scale
    axis %= len(shape)
    if len(given) == 1 and len(shape) > 1:
        return graph.reshape(scale, [-1 if i == axis else 1 for i in range(len(shape))])
    if not size or len(given) != len(shape):
        return scale
    wide = (*given[: axis + 1], size, *given[axis + 1 :])
    repeated = graph.add(
        "Expand",
        [graph.add("Unsqueeze", [scale, graph.integers(axis + 1)]), graph.integers(*wide)],
    )
    flat = graph.reshape(repeated, [*given[:axis], given[axis] * size, *given[axis + 1 :]])
    return flat if given[axis] * size == shape[axis] else graph.slice(flat, axis, 0, shape[axis])
