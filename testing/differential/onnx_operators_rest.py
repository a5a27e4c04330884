"""Records of ONNX's operators for random graphs: recurrence, attention, signals, control flow."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import ml_dtypes
import numpy as np

from xdsl_spirv.testing.differential.onnx_draws import TYPES, Draw, Operand
from xdsl_spirv.testing.differential.onnx_graphs import Value
from xdsl_spirv.testing.differential.onnx_operators import record
from xdsl_spirv.testing.differential.onnx_operators_more import products, spatial, window
from xdsl_spirv.testing.differential.onnx_references import NotComputed, tensor_type

# Quantization

BYTES = (np.uint8, np.int8)


def given(array: Any) -> Operand:
    """Returns an operand that always has these values. Its shape cannot change."""
    return Operand(np.asarray(array), lambda _: np.asarray(array))


def scale(d: Draw, shape: Any = (), dtype: Any = np.float32) -> Operand:
    whole = np.dtype(dtype).kind in "iu"
    return d.values(0, shape, *((1, 9) if whole else (0.01, 0.1)), dtype)


def zero_point(d: Draw, dtype: Any, shape: Any = ()) -> Operand:
    if np.dtype(dtype).kind == "i" and d.chance(0.5):
        return given(np.zeros(shape, dtype))
    return d.values(0, shape, None if d.chance(0.5) else 120, None, dtype)


def _axis_and_shape(d: Draw, x: Any) -> tuple[Any, Any, dict[str, Any]]:
    """
    Returns the shape of random scales for x, the axis that they vary along (or None), and this axis
    as an attribute.
    """
    if x.rank and d.schema.since_version >= 13 and d.chance(0.4):
        axis = d.axis(x.rank)
        return (x.shape[axis],), axis, {"axis": axis}
    return (), None, {}


def _quantize(d: Draw) -> None:
    x = d.main()
    if d.dtype(0) != np.float32:
        d.use(np.float32) if not d.pool else None
        x = d.main()
    if d.dtype(0) == ml_dtypes.bfloat16 and d.schema.since_version < 23:
        raise NotComputed("QuantizeLinear of bfloat16 is undefined before opset 23")
    shape, _, named = _axis_and_shape(d, x)
    kinds = [t for t in d.allowed(2) if t.itemsize == 1 or d.schema.since_version >= 21]
    dtype = d.pick(kinds)
    zero = zero_point(d, dtype, shape) if dtype != np.uint8 or d.chance(0.7) else None
    d.add(x, scale(d, shape, d.dtype(0)), zero, **named)


def _dequantize(d: Draw) -> None:
    x = d.main(**({"low": -1000, "high": 1000} if d.dtype(0).itemsize == 4 else {}))
    shape, _, named = _axis_and_shape(d, x)
    zero = zero_point(d, d.dtype(0), shape) if d.chance(0.7) else None
    if d.dtype(0) == np.int32:
        zero = None
    d.add(x, scale(d, shape), zero, **named)


def _product_of_bytes(d: Draw) -> None:
    if d.name == "MatMulInteger":
        a, b = products(d)
        if len(a) < 2 or len(b) < 2:
            raise NotComputed("products of bytes are only drawn for matrices")
        named: dict[str, Any] = {}
    else:
        rank = d.number(1, 2)
        named = window(d, rank)
        a = (1, 2, *spatial(d, rank))
        b = (3, 2, *named["kernel_shape"])
    zeros = [zero_point(d, d.dtype(i), ()) for i in range(d.number(0, 2))]
    d.add(d.values(0, a), d.values(1, b), *zeros, **named)


def _qlinear_matmul(d: Draw) -> None:
    a, b = products(d)
    if len(a) < 2 or len(b) < 2:
        raise NotComputed("products of bytes are only drawn for matrices")
    kinds = [d.pick(BYTES)] * 3
    pairs = [(scale(d), zero_point(d, k)) for k in kinds]
    out = (scale(d, dtype=np.float32).array * 40).astype(np.float32), pairs[2][1]
    d.add(
        d.values(0, a, dtype=kinds[0]),
        *pairs[0],
        d.values(0, b, dtype=kinds[1]),
        *pairs[1],
        given(out[0]),
        out[1],
    )


def _qlinear_conv(d: Draw) -> None:
    rank = d.number(1, 2)
    named = window(d, rank)
    groups, kind = d.pick((1, 1, 2)), d.pick(BYTES)
    x = d.values(0, (1, groups * 2, *spatial(d, rank)), dtype=kind)
    w = d.values(0, (groups * 2, 2, *named["kernel_shape"]), dtype=d.pick((np.int8, kind)))
    channels = (groups * 2,) if d.chance(0.5) else ()
    zero = (
        zero_point(d, w.array.dtype) if not channels else given(np.zeros(channels, w.array.dtype))
    )
    bias = [d.values(0, (groups * 2,), -500, 500, np.int32)] if d.chance(0.5) else []
    d.add(
        x,
        scale(d),
        zero_point(d, kind),
        w,
        scale(d, channels),
        zero,
        given(scale(d).array * np.float32(20)),
        zero_point(d, kind),
        *bias,
        group=groups,
        **named,
    )


record("QuantizeLinear", _quantize, "exact")
record("DequantizeLinear", _dequantize)
record("DynamicQuantizeLinear", lambda d: _dynamic(d), "exact", chains=False)


def _dynamic(d: Draw) -> None:
    d.add(d.values(0, d.shape()), outputs=3)


record("MatMulInteger ConvInteger", _product_of_bytes, "exact", chains=False)
record("QLinearMatMul", _qlinear_matmul, "exact", chains=False)
record("QLinearConv", _qlinear_conv, "exact", chains=False)


# Recurrence

ACTIVATIONS = ("Tanh", "Sigmoid", "Relu", "Softsign", "Softplus", "HardSigmoid", "Elu", "LeakyRelu")
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def _recurrent(d: Draw) -> None:
    gates = GATES[d.name]
    direction = d.pick(("forward", "reverse", "bidirectional"))
    ways = 2 if direction == "bidirectional" else 1
    hidden, size, time, batch = d.number(1, 3), d.number(1, 3), d.number(1, 4), d.number(1, 3)
    layout = d.number(0, 1) if d.schema.since_version >= 14 and d.chance(0.3) else 0
    x = d.values(0, (batch, time, size) if layout else (time, batch, size))
    w, r = d.values(1, (ways, gates * hidden, size)), d.values(2, (ways, gates * hidden, hidden))
    bias = d.values(3, (ways, 2 * gates * hidden)) if d.chance(0.6) else None
    # onnx's evaluator supports neither lengths nor clip.
    by_evaluator = layout or d.dtype() == np.float64
    lengths = d.values(4, (batch,), 1, time) if d.chance(0.3) and not by_evaluator else None
    state = (batch, ways, hidden) if layout else (ways, batch, hidden)
    initial = d.values(5, state) if d.chance(0.4) else None
    rest: list[Any] = [initial]
    if d.name == "LSTM":
        rest += [d.values(6, state) if d.chance(0.4) else None]
        rest += [d.values(7, (ways, 3 * hidden)) if d.chance(0.3) else None]
    named: dict[str, Any] = {"linear_before_reset": (0, 1)} if d.name == "GRU" else {}
    if d.chance(0.3):
        count = {"RNN": 1, "GRU": 2, "LSTM": 3}[d.name] * ways
        named["activations"] = [d.pick(ACTIVATIONS[:5]) for _ in range(count)]
    outputs = [d.chance(0.8) for _ in range(3 if d.name == "LSTM" else 2)]
    results = d.add(
        x,
        w,
        r,
        bias,
        lengths,
        *rest,
        outputs=outputs if any(outputs) else len(outputs),
        hidden_size=hidden,
        direction=(direction,) if ways == 1 and direction == "forward" else direction,
        layout=layout or None,
        clip=None if by_evaluator else (0.4,),
        **named,
    )
    largest = max(float(np.abs(value.array).max(initial=0)) for value in results)
    if "Softplus" in named.get("activations", ()) and largest > 80:
        raise NotComputed("onnxruntime's Softplus overflows above 80")


record("RNN GRU LSTM", _recurrent, "sum", chains=False)


# Attention and other operators of transformers


def _attention(d: Draw) -> None:
    heads, group = d.number(1, 2), d.number(1, 2)
    batch, size, rows, keys, values = (d.number(1, 3) for _ in range(5))
    shapes = [
        (batch, heads * group, rows, size),
        (batch, heads, keys, size),
        (batch, heads, keys, values),
    ]
    named: dict[str, Any] = {}
    if d.chance(0.4):
        shapes = [(b, s, h * n) for b, h, s, n in shapes]
        named = {"q_num_heads": heads * group, "kv_num_heads": heads}
    mask = None
    if d.chance(0.4):
        d.use(d.pick((np.bool_, d.dtype(0))), 3)
        mask = d.values(3, (rows, keys))
        if d.dtype(3) == np.bool_:
            mask.array[..., 0] = True
            mask = given(mask.array)
    d.use(d.dtype(0), 1)
    d.use(d.dtype(0), 2)
    d.add(
        *(d.values(i, s) for i, s in enumerate(shapes)),
        mask,
        # We skip masked scores, but ONNX's definition propagates their NaN.
        is_causal=(0,) if d.graph.edges else (0, 1),
        scale=(0.5,),
        softcap=(2.0,),
        **named,
    )


def _rotary(d: Draw) -> None:
    batch, heads, time, size = d.number(1, 2), d.number(1, 2), d.number(1, 3), 2 * d.number(1, 3)
    caches = [d.values(0, (4, size // 2)) for _ in range(2)]
    places = d.values(3, (batch, time), 0, 3)
    d.add(d.values(0, (batch, heads, time, size)), *caches, places, interleaved=(0, 1))


def _tensor_scatter(d: Draw) -> None:
    batch, most, time, size = d.number(1, 2), d.number(2, 4), d.number(1, 2), d.number(1, 3)
    at = d.values(2, (batch,), 0, most - time)
    d.add(
        d.values(0, (batch, most, size)),
        d.values(0, (batch, time, size)),
        at if d.chance(0.7) else None,
        axis=-2,
        mode=("linear", "circular"),
    )


def _loss(d: Draw) -> None:
    batch, classes, rest = d.number(1, 3), d.number(1, 4), d.shape(0, 2)
    target = d.values(1, (batch, *rest), 0, classes - 1)
    weight = d.values(2, (classes,), 0.1, 2, d.dtype(0)) if d.chance(0.5) else None
    d.add(
        d.values(0, (batch, classes, *rest)),
        target,
        weight,
        reduction=("none", "sum", "mean"),
        ignore_index=(0, -1),
    )


record("Attention", _attention, "sum", chains=False)
record("RotaryEmbedding", _rotary, "sum", chains=False)
record("TensorScatter", _tensor_scatter, "exact", chains=False)
record("NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss", _loss, "sum", chains=False)


# Signals


def _dft(d: Draw) -> None:
    shape = (d.number(1, 2), d.number(2, 6), d.number(1, 2))
    inverse = d.number(0, 1) if shape[2] == 2 else 0
    onesided = d.number(0, 1) if inverse or shape[2] == 1 else 0
    axis: dict[str, Any] = {"axis": np.array(1) if d.schema.since_version >= 20 else 1}
    d.add(d.values(0, shape), inverse=inverse, onesided=onesided, **axis)


def _stft(d: Draw) -> None:
    length, frame = d.number(8, 12), d.number(3, 6)
    hasWindow = d.chance(0.5)
    d.add(
        d.values(0, (1, length, 1)),
        np.array(d.number(1, 4)),
        d.values(0, (frame,)) if hasWindow else None,
        None if hasWindow else np.array(frame),
        onesided=(0, 1),
    )


def _mel(d: Draw) -> None:
    edges = [np.array(edge, np.float32) for edge in (100.0, 3000.0)]
    d.add(np.array(d.number(2, 5)), np.array(16), np.array(8000), *edges)


record("DFT", _dft, "sum", chains=False)
record("STFT", _stft, "sum", chains=False)
record(
    "HannWindow HammingWindow BlackmanWindow",
    lambda d: d.add(np.array(d.number(1, 8)), periodic=(0, 1)),
    "sum",
    chains=False,
)
record("MelWeightMatrix", _mel, "sum", chains=False)


def _bit_cast(d: Draw) -> None:
    x = d.main()
    same = [t for t in TYPES.values() if t.itemsize == x.array.dtype.itemsize and t != np.bool_]
    d.add(x, to=tensor_type(np.empty(0, d.pick(same))))


record("BitCast", _bit_cast, "exact")


def _boxes(d: Draw) -> None:
    count = d.number(1, 6)
    corners = d.rng.random((1, count, 4)).astype(np.float32)
    corners[..., 2:] += corners[..., :2]
    scores = d.values(1, (1, d.number(1, 2), count), 0, 1)
    limits = (np.array([d.number(1, 3)]), np.array([0.5], np.float32), np.array([0.2], np.float32))
    constants = [d.graph.constant(a) for a in (corners, scores.array, *limits)]
    d.add(*constants, center_point_box=(0, 1))


record("NonMaxSuppression", _boxes, "exact", chains=False)


# Control flow


def _constant(d: Draw) -> None:
    helper: Any = import_module("onnx.numpy_helper")
    dtype = d.pick(list(TYPES.values()))
    array = d.values(0, d.shape(), dtype=dtype).array if d.schema.inputs else None
    array = np.asarray(d.rng.standard_normal(d.shape())).astype(dtype) if array is None else array
    d.add(value=helper.from_array(array))


def _declare_value(name: str, array: Any) -> Any:
    helper: Any = import_module("onnx.helper")
    return helper.make_tensor_value_info(name, tensor_type(array), array.shape)


def _inner(d: Draw, kind: str, *names: str) -> Any:
    helper: Any = import_module("onnx.helper")
    number = d.number(0, 1 << 20)
    return helper.make_node(kind, list(names[:-1]), [names[-1]], name=f"inner{kind}{number}")


def _if(d: Draw) -> None:
    helper: Any = import_module("onnx.helper")
    shape = d.shape(0, 3)
    x = d.graph.input(d.rng.standard_normal(shape).astype(np.float32))
    branches: dict[str, Any] = {}
    for side, kind in (("then_branch", d.pick(("Abs", "Neg", "Exp"))), ("else_branch", "Relu")):
        out = f"{d.graph.prefix}{side}{len(d.graph.nodes)}"
        branches[side] = helper.make_graph(
            [_inner(d, kind, x.name, out)], side, [], [_declare_value(out, x.array)]
        )
    condition = d.graph.either(np.array(d.chance(0.5)))
    _add_with_graph(d, [condition], [x], **branches)


def _add_with_graph(
    d: Draw, operands: list[Value | None], outer: list[Value], outputs: int = 1, **named: Any
) -> None:
    """Adds to the graph a node whose subgraphs read the values `outer` of the graph."""
    helper: Any = import_module("onnx.helper")
    from xdsl_spirv.testing.differential.onnx_references import model_of, run_model

    g = d.graph
    number = len(g.nodes)
    names = [f"{g.prefix}y{number}.{i}" for i in range(outputs)]
    node = helper.make_node(
        d.name,
        [v.name if v else "" for v in operands],
        names,
        name=f"{g.prefix}{d.name}{number}",
        **named,
    )
    values = {v.name: v.array for v in (*operands, *outer) if v is not None}
    inputs = [_declare_value(n, a) for n, a in values.items()]
    empty = [helper.make_empty_tensor_value_info(n) for n in names]
    arrays = run_model(model_of([node], inputs, empty, {}, g.opset), values)
    g.nodes.append(node)
    g.read.update(values)
    g.results |= {n: np.asarray(a) for n, a in zip(names, arrays, strict=True)}


def _loop(d: Draw) -> None:
    """
    Adds a loop to the graph that sums until a condition holds. It also collects the sums of all
    iterations.
    """
    helper: Any = import_module("onnx.helper")
    g, shape = d.graph, d.shape(0, 2)
    x = g.input(d.rng.standard_normal(shape).astype(np.float32))
    step = g.input(np.float32(0.5))
    limit = g.input(np.float32(d.number(0, 4)))
    p = f"{g.prefix}loop{len(g.nodes)}"
    nodes = [
        _inner(d, "Add", f"{p}state", step.name, f"{p}next"),
        _inner(d, "Identity", f"{p}next", f"{p}scan"),
    ]
    stops = d.chance(0.5)
    if stops:
        nodes += [
            helper.make_node("ReduceMax", [f"{p}next"], [f"{p}most"], keepdims=0),
            _inner(d, "Less", f"{p}most", limit.name, f"{p}go"),
        ]
    else:
        nodes.append(_inner(d, "Identity", f"{p}cond", f"{p}go"))
    flag = np.array(True)
    body = helper.make_graph(
        nodes,
        "body",
        [
            _declare_value(f"{p}i", np.array(0)),
            _declare_value(f"{p}cond", flag),
            _declare_value(f"{p}state", x.array),
        ],
        [
            _declare_value(f"{p}go", flag),
            _declare_value(f"{p}next", x.array),
            *([] if stops else [_declare_value(f"{p}scan", x.array)]),
        ],
    )
    count = g.constant(np.array(d.number(0 if stops else 1, 4)))
    _add_with_graph(
        d,
        [count, g.constant(flag), x],
        [step, limit] if stops else [step],
        outputs=1 if stops else 2,
        body=body,
    )


def _scan(d: Draw) -> None:
    helper: Any = import_module("onnx.helper")
    if d.schema.since_version < 9:
        raise NotComputed("Scan with a batch dimension (before opset 9) is not drawn")
    g, inner, axis = d.graph, d.shape(1, 2), d.number(0, 1)
    state = g.input(d.rng.standard_normal(inner).astype(np.float32))
    time = d.number(1, 4)
    whole = (*inner[:axis], time, *inner[axis:])
    x = g.input(d.rng.standard_normal(whole).astype(np.float32))
    p = f"{g.prefix}scan{len(g.nodes)}"
    body = helper.make_graph(
        [_inner(d, "Add", f"{p}s", f"{p}x", f"{p}n"), _inner(d, "Tanh", f"{p}n", f"{p}y")],
        "body",
        [_declare_value(f"{p}s", state.array), _declare_value(f"{p}x", state.array)],
        [_declare_value(f"{p}n", state.array), _declare_value(f"{p}y", state.array)],
    )
    directions = [d.number(0, 1)]
    # onnxruntime divides by 0 when it transposes an empty result.
    along = d.number(0, 1) if 0 not in inner else 0
    _add_with_graph(
        d,
        [state, x],
        [],
        outputs=2,
        body=body,
        num_scan_inputs=1,
        scan_input_axes=[axis],
        scan_input_directions=directions,
        scan_output_axes=[along],
        scan_output_directions=[d.number(0, 1)],
    )


record("Constant", _constant, "exact", chains=False)
record("If", _if, chains=False)
record("Loop", _loop, chains=False)
record("Scan", _scan, chains=False)

RANDOM = "RandomNormal RandomNormalLike RandomUniform RandomUniformLike Multinomial Bernoulli"
LISTS = (
    "SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength "
    "SequenceMap SplitToSequence ConcatFromSequence Optional OptionalGetElement OptionalHasElement"
)
TRAINING = "ai.onnx.preview.training"
EXCEPTIONS: dict[tuple[str, str], str] = {
    **{("", name): "no two references draw the same numbers" for name in RANDOM.split()},
    **{
        ("", name): "its values are not tensors; onnx's node cases cover it"
        for name in LISTS.split()
    },
    **{
        (TRAINING, name): "it is a training step; onnx's node cases cover it"
        for name in ("Adagrad", "Adam", "Momentum")
    },
}
"""Maps operators that the importer supports but random graphs do not contain to the reason."""
