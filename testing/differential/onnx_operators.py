"""
What a random ONNX graph may hold: ordinary operators with their attributes at their edges.

A draw is a function of a graph, by family. Sizes are small and often 1; axes are negative as often
as not; values hit ties, zeros and the ends of integer types.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xdsl_spirv.testing.differential import onnx_operators_more as more
from xdsl_spirv.testing.differential.onnx_draws import (
    SIGNED,
    UNSIGNED,
    axis_of,
    broadcast_pair,
    flags,
    floats,
    integers,
    pick,
    shape_of,
)
from xdsl_spirv.testing.differential.onnx_graphs import RandomGraph, Value

Draw = Callable[[RandomGraph], Any]

PLAIN = (
    *(
        "Abs",
        "Neg",
        "Exp",
        "Floor",
        "Ceil",
        "Round",
        "Sign",
        "Sin",
        "Cos",
        "Tanh",
        "Erf",
        "Sigmoid",
    ),
    *("Relu", "Softplus", "Softsign", "Mish", "Atan", "Sinh", "Cosh", "Asinh"),
    *("Reciprocal", "HardSwish", "Identity"),
)

UNARY: dict[str, dict[str, Sequence[Any]]] = {
    **{kind: {} for kind in PLAIN},
    "LeakyRelu": {"alpha": (0.0, 0.3, -0.5)},
    "Elu": {"alpha": (1.0, 0.5)},
    "Selu": {"alpha": (1.67, 0.5), "gamma": (1.05, 2.0)},
    "Celu": {"alpha": (1.0, 0.5)},
    "HardSigmoid": {"alpha": (0.2, 0.5), "beta": (0.5, 0.0)},
    "ThresholdedRelu": {"alpha": (1.0, 0.0)},
    "Gelu": {"approximate": ("none", "tanh")},
    "Shrink": {"lambd": (0.5, 0.2), "bias": (0.0, 0.3)},
}

REDUCTIONS = (
    *("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2"),
    *("ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"),
)


def chosen(g: RandomGraph, choices: dict[str, Sequence[Any]]) -> dict[str, Any]:
    """Each attribute left out or given, by chance."""
    return {name: pick(g, values) for name, values in choices.items() if g.rng.random() < 0.7}


def unary(g: RandomGraph) -> Value:
    x = g.input(floats(g, shape_of(g)))
    return step(g, x)


def step(g: RandomGraph, x: Value) -> Value:
    """One operator that keeps the shape."""
    kind = pick(g, list(UNARY))
    return g.node(kind, x, **chosen(g, UNARY[kind]))


def chain(g: RandomGraph) -> None:
    """A few operators in a row, of any shape, perhaps joined again."""
    x = g.input(floats(g, shape_of(g, least=2, most=4)))
    start = x
    for _ in range(int(g.rng.integers(2, 5))):
        x = pick(g, (step, reduce_of, softmax_of, move_of, binary_of))(g, x)
    if x.shape == start.shape and g.rng.random() < 0.5:
        g.node("Add", x, start)


def binary_of(g: RandomGraph, x: Value) -> Value:
    _, shape = broadcast_pair(g, x.shape)
    kind = pick(g, ("Add", "Sub", "Mul", "Max", "Min"))
    other = g.either(floats(g, shape))
    return g.node(kind, *((x, other) if g.rng.random() < 0.5 else (other, x)))


def binary(g: RandomGraph) -> None:
    kind = pick(g, ("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "PRelu", "Mod", "Mean", "Sum"))
    a, b = broadcast_pair(g, shape_of(g))
    first = g.input(floats(g, a))
    if kind == "Pow":
        first = g.node("Abs", first)
    second = floats(g, b)
    if kind == "Div":
        second = np.where(np.abs(second) < 0.1, 1, second).astype(np.float32)
    g.node(kind, first, g.either(second), **({"fmod": 1} if kind == "Mod" else {}))


def comparison(g: RandomGraph) -> None:
    kind = pick(g, ("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"))
    a, b = broadcast_pair(g, shape_of(g))
    dtype = pick(g, (np.float32, np.int32, np.int64, *UNSIGNED, np.int8))
    make = floats if dtype is np.float32 else integers
    g.node(kind, g.input(make(g, a, dtype)), g.either(make(g, b, dtype)))


def integer(g: RandomGraph) -> None:
    """Arithmetic on integers of every sign and size."""
    dtype = pick(g, (*UNSIGNED, *SIGNED))
    kind = pick(g, ("Add", "Sub", "Mul", "Div", "Mod", "Max", "Min", "Clip", "Neg", "Abs", "Cast"))
    a, b = broadcast_pair(g, shape_of(g))
    x = g.input(integers(g, a, dtype))
    if kind in ("Neg", "Abs", "Cast"):
        if kind == "Cast":
            types = (1, 2, 3, 5, 6, 7, 9, 12, 4)
            g.node("Cast", x, to=pick(g, types))
        else:
            g.node(kind, x)
        return
    if kind == "Clip":
        ends = np.sort(integers(g, (2,), dtype))
        bounds = [g.either(end) if g.rng.random() < 0.7 else None for end in ends]
        g.node("Clip", x, *bounds)
        return
    y = integers(g, b, dtype)
    if kind in ("Div", "Mod"):
        y = np.where(y == 0, 1, y).astype(dtype)
        if np.dtype(dtype).kind == "i":
            y = np.where(y == -1, 1, y).astype(dtype)
    fmod = {"fmod": int(g.rng.integers(2))} if kind == "Mod" else {}
    g.node(kind, x, g.either(y), **fmod)


def bits(g: RandomGraph) -> None:
    kind = pick(g, ("BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"))
    dtype = pick(g, UNSIGNED if kind == "BitShift" else (*UNSIGNED, *SIGNED))
    a, b = broadcast_pair(g, shape_of(g))
    x, other = g.input(integers(g, a, dtype)), integers(g, b, dtype)
    if kind == "BitwiseNot":
        g.node(kind, x)
    elif kind == "BitShift":
        other = (other % np.array(8 * other.itemsize, dtype)).astype(dtype)
        g.node(kind, x, g.either(other), direction=pick(g, ("LEFT", "RIGHT")))
    else:
        g.node(kind, x, g.either(other))


def logic(g: RandomGraph) -> None:
    kind = pick(g, ("And", "Or", "Xor", "Not", "Where", "IsNaN", "IsInf"))
    a, b = broadcast_pair(g, shape_of(g))
    if kind == "Where":
        g.node(kind, g.input(flags(g, a)), g.either(floats(g, b)), g.either(floats(g, a)))
    elif kind in ("IsNaN", "IsInf"):
        given = {} if kind == "IsNaN" else {"detect_negative": int(g.rng.integers(2))}
        g.node(kind, g.input(edges(g, a)), **given)
    else:
        values = [g.input(flags(g, a)), g.either(flags(g, b))]
        g.node(kind, *values[: 1 if kind == "Not" else 2])


def edges(g: RandomGraph, shape: tuple[int, ...]) -> Any:
    """Numbers with some infinities and NaN among them."""
    values = floats(g, shape)
    at = g.rng.random(shape) < 0.3
    return np.where(at, g.rng.choice([np.nan, np.inf, -np.inf, 0.0], shape), values).astype("f4")


def nan_kept(g: RandomGraph) -> None:
    """What ONNX says keeps NaN."""
    kind = pick(g, ("Min", "Max", "Clip", "Relu", "LeakyRelu", "Abs", "Add", "Sign", "Identity"))
    a, b = broadcast_pair(g, shape_of(g))
    x = g.input(edges(g, a))
    if kind in ("Min", "Max", "Add"):
        g.node(kind, x, g.input(edges(g, b)))
    elif kind == "Clip":
        low, high = g.constant(np.float32(-0.5)), g.constant(np.float32(0.5))
        g.node(kind, x, *([low, high] if g.rng.random() < 0.5 else [low]))
    else:
        g.node(kind, x)


def float_cast(g: RandomGraph) -> None:
    """Between floats and integers, within what fits."""
    dtype = pick(g, (np.float32, np.float16))
    values = np.round(floats(g, shape_of(g)) * 20, 1).astype(dtype)
    to = pick(g, (2, 3, 6, 7, 9, 10, 1, 12, 4, 5))
    values = np.abs(values) if to in (2, 4, 12) else values
    g.node("Cast", g.input(values), to=to)


def reduce_of(g: RandomGraph, x: Value) -> Value:
    kind = pick(g, REDUCTIONS[:4])
    axes = sorted({axis_of(g, x.rank) % x.rank for _ in range(2)}) if x.rank else []
    given = g.constant(np.array([a - x.rank * g.rng.integers(2) for a in axes], np.int64))
    return g.node(kind, x, given, keepdims=1 if x.rank > 1 else int(g.rng.integers(2)))


def reduction(g: RandomGraph) -> None:
    kind = pick(g, REDUCTIONS)
    dtype = pick(g, (np.float32, np.float32, np.float16, np.int32))
    shape = shape_of(g, most=4)
    values = floats(g, shape, dtype) if dtype is not np.int32 else integers(g, shape, dtype, 5)
    if kind == "ReduceLogSum":
        values = (np.abs(values) + 1).astype(dtype)
    if kind == "ReduceLogSumExp" and dtype is np.float32 and g.rng.random() < 0.5:
        values = (values * 60).astype(dtype)
    axes = sorted({axis_of(g, len(shape)) % len(shape) for _ in range(2)})
    given = np.array([a - len(shape) * g.rng.integers(2) for a in axes], np.int64)
    rest: list[Value | None] = [g.constant(given)] if g.rng.random() < 0.8 else []
    attributes = chosen(g, {"keepdims": (0, 1), "noop_with_empty_axes": (0, 1)})
    g.node(kind, g.input(values), *rest, **attributes)


def arg(g: RandomGraph) -> None:
    shape = shape_of(g)
    dtype = pick(g, (np.float32, np.float32, np.int32, np.uint8, np.int8))
    values = integers(g, shape, dtype, 4) if dtype is not np.float32 else floats(g, shape)
    values = np.round(values).astype(dtype)
    attributes = chosen(g, {"keepdims": (0, 1), "select_last_index": (0, 1)})
    axis = axis_of(g, len(shape))
    g.node(pick(g, ("ArgMax", "ArgMin")), g.input(values), axis=axis, **attributes)


def softmax_of(g: RandomGraph, x: Value) -> Value:
    kind = pick(g, ("Softmax", "LogSoftmax"))
    return g.node(kind, x, **({"axis": axis_of(g, x.rank)} if x.rank else {}))


def softmax(g: RandomGraph) -> None:
    kind = pick(g, ("Softmax", "LogSoftmax", "Hardmax"))
    g.opset = pick(g, (21, 21, 13, 11))
    dtype = pick(g, (np.float32, np.float32, np.float16)) if kind != "Hardmax" else np.float32
    shape = shape_of(g)
    values = floats(g, shape, dtype)
    if kind == "Hardmax":
        values = np.round(values)
    given = {"axis": axis_of(g, len(shape))} if g.rng.random() < 0.8 else {}
    g.node(kind, g.input(values.astype(dtype)), **given)


def move_of(g: RandomGraph, x: Value) -> Value:
    """An operator that moves elements."""
    kind = pick(g, ("Transpose", "Reshape", "Flatten", "Unsqueeze", "Slice", "Concat"))
    if kind == "Transpose":
        return g.node(kind, x, perm=[int(i) for i in g.rng.permutation(x.rank)])
    if kind == "Reshape":
        return g.node(kind, x, g.constant(np.array([x.shape[0] if x.rank else 1, -1])))
    if kind == "Flatten":
        return g.node(kind, x, axis=int(g.rng.integers(-x.rank, x.rank + 1)))
    if kind == "Unsqueeze":
        return g.node(kind, x, g.constant(np.array([g.rng.integers(-x.rank - 1, x.rank + 1)])))
    if kind == "Concat":
        return g.node(kind, x, x, axis=axis_of(g, x.rank)) if x.rank else x
    return more.slice_of(g, x)


DRAWS: dict[str, Draw] = {
    "unary": unary,
    "chain": chain,
    "binary": binary,
    "comparison": comparison,
    "integer": integer,
    "bits": bits,
    "logic": logic,
    "nan": nan_kept,
    "cast": float_cast,
    "reduction": reduction,
    "arg": arg,
    "softmax": softmax,
    **more.DRAWS,
}


def draw(
    rng: np.random.Generator, prefix: str, family: str, open_sizes: bool = False
) -> RandomGraph:
    """A graph of a family; raises `NotComputed` for what onnxruntime does not take."""
    graph = RandomGraph(rng, prefix, open_sizes=open_sizes)
    DRAWS[family](graph)
    return graph
