"""
Random chains of nodes on dynamic sizes, in the forms that exporters write.

They contain padding, sums along dynamic dimensions, broadcasts from sizes of 1, and dynamic
dimensions whose size can only be 1.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from xdsl_spirv.testing.differential.onnx_graphs import OPEN, RandomGraph, Value
from xdsl_spirv.testing.differential.onnx_references import Array, NotComputed

Step = Callable[[RandomGraph, Value], Value]

SIZES = (1, 1, 2, 3, 4, 5, 8)
"""Sizes of static dimensions."""


def open_chain(g: RandomGraph) -> None:
    """Fills the graph with 2 to 5 nodes. The first input has one or two dynamic dimensions."""
    g.open_sizes = True
    rank = int(g.rng.integers(1, 5))
    shape = [_pick(g, SIZES) for _ in range(rank)]
    for axis, size in zip(g.rng.permutation(rank)[:2], (OPEN[0], OPEN[1]), strict=False):
        if size == OPEN[0] or g.rng.random() < 0.4:
            shape[axis] = size
    value = _input(g, shape)
    for _ in range(int(g.rng.integers(2, 6))):
        try:
            value = STEPS[int(g.rng.integers(len(STEPS)))](g, value)
        except NotComputed:
            continue
    if not g.nodes:
        raise NotComputed("no node could be added to the graph")


def _pick(g: RandomGraph, choices: tuple[int, ...]) -> int:
    return int(g.rng.choice(choices))


def _numbers(g: RandomGraph, *shape: int) -> Array:
    return g.rng.standard_normal(shape).astype(np.float32)


def _input(g: RandomGraph, shape: list[int]) -> Value:
    return g.input(_numbers(g, *shape), lambda other: _numbers(g, *other))


def _axis(g: RandomGraph, x: Value) -> int:
    if not x.rank:
        raise NotComputed("a scalar has no axis to choose")
    return int(g.rng.integers(x.rank))


def _integers(g: RandomGraph, numbers: list[int]) -> Value:
    return g.constant(np.array(numbers, np.int64))


def _function(g: RandomGraph, x: Value) -> Value:
    return g.node(str(g.rng.choice(["Sin", "Tanh", "Relu", "Abs", "Sigmoid"])), x)


def _softmax(g: RandomGraph, x: Value) -> Value:
    return g.node("Softmax", x, axis=_axis(g, x))


def _reduce(g: RandomGraph, x: Value) -> Value:
    kind = str(g.rng.choice(["ReduceSum", "ReduceMean", "ReduceMax", "ReduceL2"]))
    keep = int(g.rng.integers(2))
    return g.node(kind, x, _integers(g, [_axis(g, x)]), keepdims=keep)


def _centre(g: RandomGraph, x: Value) -> Value:
    mean = g.node("ReduceMean", x, _integers(g, [_axis(g, x)]), keepdims=1)
    return g.node(str(g.rng.choice(["Sub", "Mul"])), x, mean)


def _pad(g: RandomGraph, x: Value) -> Value:
    mode = str(g.rng.choice(["constant", "constant", "constant", "edge", "reflect", "wrap"]))
    pads = g.rng.integers(0, 3, 2 * x.rank).tolist()
    value = g.constant(np.float32(g.rng.choice([0, 1.5, -2]))) if mode == "constant" else None
    return g.node("Pad", x, _integers(g, pads), value, mode=mode)


def _spread(g: RandomGraph, x: Value) -> Value:
    """Appends an operation on x and a constant that broadcast to each other."""
    shape = [1 if s in OPEN or g.rng.random() < 0.5 else s for s in x.shape]
    shape = [_pick(g, SIZES) for _ in range(int(g.rng.integers(2)))] + shape
    return g.node(str(g.rng.choice(["Add", "Mul", "Max"])), x, g.constant(_numbers(g, *shape)))


def _join(g: RandomGraph, x: Value) -> Value:
    return g.node("Concat", x, g.node("Neg", x), axis=_axis(g, x))


def _transpose(g: RandomGraph, x: Value) -> Value:
    if not x.rank:
        raise NotComputed("a scalar cannot be transposed")
    return g.node("Transpose", x, perm=g.rng.permutation(x.rank).tolist())


def _product(g: RandomGraph, x: Value) -> Value:
    if not x.rank or x.shape[-1] in OPEN:
        raise NotComputed("a product with a constant needs a static summed dimension")
    return g.node("MatMul", x, g.constant(_numbers(g, x.shape[-1], _pick(g, SIZES))))


def _gram(g: RandomGraph, x: Value) -> Value:
    if x.rank < 2:
        raise NotComputed("a product needs a tensor with at least two dimensions")
    order = [*range(x.rank - 2), x.rank - 1, x.rank - 2]
    other = g.node("Transpose", x, perm=order)
    return g.node("MatMul", *((x, other) if g.rng.random() < 0.5 else (other, x)))


def _outer(g: RandomGraph, x: Value) -> Value:
    """
    Adds a product of x and another value. The summed dimension is dynamic in one operand and 1 in
    the other.
    """
    width = x.shape[-1] if x.rank and x.shape[-1] not in OPEN else 1
    row = _input(g, [1, 3])
    g.ones[row.name] = (0,)
    product = g.node("Gemm", row, g.constant(_numbers(g, 1, width)), transA=1)
    return g.node("Add", x, g.node("ReduceSum", product, _integers(g, [0]), keepdims=0))


def _slice(g: RandomGraph, x: Value) -> Value:
    axis = _axis(g, x)
    begin, step = int(g.rng.integers(-2, 2)), int(g.rng.choice([1, 2, -1]))
    end = int(g.rng.choice([-1, 2**31, -(2**31)]))
    bounds = [_integers(g, [number]) for number in (begin, end, axis, step)]
    return g.node("Slice", x, *bounds)


STEPS: tuple[Step, ...] = (
    *(_function, _softmax, _reduce, _centre, _pad, _pad, _pad, _spread, _join),
    *(_transpose, _product, _gram, _outer, _slice),
)
