"""
Records of ONNX's operators for random graphs: elementwise, shapes, reductions.

A record draws one node. Sizes are small, often 1 and sometimes 0. Half of the axes are negative.
Attributes have edge values. `bound` is the allowed difference of a float result: none (`exact`),
relative to each element (`each`), or relative to the largest element (`sum`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from xdsl_spirv.testing.differential.onnx_draws import TYPES, Draw, Operand, drawn
from xdsl_spirv.testing.differential.onnx_graphs import Value
from xdsl_spirv.testing.differential.onnx_references import NotComputed, tensor_type


@dataclass(frozen=True)
class Record:
    """An operator, with a function that draws a random node."""

    name: str
    domain: str
    draw: Callable[[Draw], Any]
    bound: str
    chains: bool
    """True if the first operand may be the result of any other node."""


RECORDS: dict[tuple[str, str], Record] = {}

Choices = tuple[Any, ...]


def record(
    names: str,
    draw: Callable[[Draw], Any],
    bound: str = "each",
    domain: str = "",
    chains: bool = True,
) -> None:
    """Declares operators that share one function for drawing nodes."""
    for name in names.split():
        RECORDS[domain, name] = Record(name, domain, draw, bound, chains)


def apart_from_zero(x: Operand) -> Operand:
    """Returns an operand that is valid as a divisor: integers other than 0 and -1."""

    def remake(shape: tuple[int, ...]) -> Any:
        values = x.remake(shape)
        if values.dtype.kind not in "iu":
            return values
        bad = (values == 0) | (values == (-1 if values.dtype.kind == "i" else 0))
        return np.where(bad, 3, values).astype(values.dtype)

    return Operand(remake(x.shape), remake)


# Elementwise

UNARY = (
    "Abs Neg Exp Log Sqrt Ceil Floor Round Sin Cos Tan Asin Acos Atan Sinh Cosh Tanh Asinh Acosh "
    "Atanh Erf Relu Sigmoid Softsign Softplus Sign Reciprocal HardSwish Mish Not BitwiseNot IsNaN "
    "Identity"
)
record(UNARY, lambda d: d.add(d.main()))
record(
    "Abs Neg Ceil Floor Round Relu Sign Not BitwiseNot IsNaN Identity",
    lambda d: d.add(d.main()),
    "exact",
)
record("LeakyRelu", lambda d: d.add(d.main(), alpha=(0.0, 0.3, -0.5, 2.0)))
record("Elu Celu", lambda d: d.add(d.main(), alpha=(1.0, 0.5, 2.0)))
record("Selu", lambda d: d.add(d.main(), alpha=(1.67, 0.5), gamma=(1.05, 2.0)))
record("ThresholdedRelu", lambda d: d.add(d.main(), alpha=(1.0, 0.0, -0.5)), "exact")
record("HardSigmoid", lambda d: d.add(d.main(), alpha=(0.2, 0.5, -1.0), beta=(0.5, 0.0)))
record("Shrink", lambda d: _shrink(d))
record("Gelu", lambda d: d.add(d.main(), approximate=("none", "tanh")))
record("Swish", lambda d: d.add(d.main(), alpha=(1.0, 0.5, -2.0)))
record("SwiGLU", lambda d: d.add(*d.several(2), alpha=(1.0, 0.5)))
record("IsInf", lambda d: d.add(d.main(), detect_negative=(0, 1), detect_positive=(0, 1)), "exact")
record(
    "Add Sub Mul Equal Less Greater LessOrEqual GreaterOrEqual And Or Xor BitwiseAnd BitwiseOr "
    "BitwiseXor",
    lambda d: d.add(*d.several(2)),
    "exact",
)
record("Mod", lambda d: _mod(d))
record("Max Min", lambda d: d.add(*d.several(d.number(1, 3))), "exact")
record("Sum Mean", lambda d: d.add(*d.several(d.number(1, 3))), "sum")
record("PRelu", lambda d: _prelu(d))
record("Where", lambda d: _where(d), "exact")
record("Pow", lambda d: _pow(d))
record("BitShift", lambda d: _shift(d), "exact")
record("Clip", lambda d: _clip(d), "exact")
record("Cast", lambda d: _cast(d), "exact")
record("CastLike", lambda d: d.add(_castable(d), d.values(1, d.shape())), "exact")
record("Dropout", lambda d: _dropout(d), "exact")


def _shrink(d: Draw) -> None:
    x = d.main(low=-20, high=20) if d.dtype().kind in "iu" else d.main()
    if x.array.dtype.kind in "iu" and np.abs(x.array.astype(float)).max(initial=0) > 100:
        raise NotComputed("Shrink of integers above 100 may overflow in onnxruntime")
    d.add(x, lambd=(0.5, 0.2, 1.5), bias=(0.0, 0.25))


def _prelu(d: Draw) -> None:
    x = d.main(least=1)
    d.add(x, d.values(1, d.narrowed(x.shape)))


def _dropout(d: Draw) -> None:
    # Before opset 12, the mask of a Dropout that drops nothing is undefined.
    d.add(d.main(), outputs=d.number(1, 2) if d.schema.since_version >= 12 else 1, seed=(3,))


def _mod(d: Draw) -> None:
    x = d.main()
    fmod = 1 if d.dtype().kind == "f" else d.number(0, 1)
    d.add(x, apart_from_zero(d.values(1, d.narrowed(x.shape))), fmod=fmod)


def _divide(d: Draw) -> None:
    x = d.main()
    d.add(x, apart_from_zero(d.values(1, d.narrowed(x.shape))))


record("Div", _divide)


def _where(d: Draw) -> None:
    shape = d.shape()
    d.add(d.values(0, d.narrowed(shape)), d.values(1, shape), d.values(1, d.narrowed(shape)))


def _pow(d: Draw) -> None:
    x = d.main(low=-3, high=3) if d.pool or d.dtype().kind in "iu" else d.main()
    if d.schema.since_version > 7 and d.chance(0.3):
        d.use(d.pick([t for t in d.allowed(1) if t.kind in "iu"]), 1)
    elif d.schema.since_version > 7:
        d.use(d.dtype(0), 1)
    exponent = d.pick((2.0, 3.0, 0.5, -1.0, 1.0, 0.0))
    kind = d.dtype(1)
    low = 0.0 if d.dtype(0).kind in "iu" else -4.0
    whole = np.array(abs(exponent) if kind.kind in "iu" or not low else exponent).astype(kind)
    if d.chance(0.5):
        d.add(x, Operand(whole, lambda shape: whole))
    else:
        d.add(x, d.values(1, d.narrowed(x.shape), low, 4))


def _shift(d: Draw) -> None:
    x = d.main()
    by = d.values(1, d.narrowed(x.shape), 0, 8 * d.dtype().itemsize - 1)
    d.add(x, by, direction=d.pick(("LEFT", "RIGHT")))


def _clip(d: Draw) -> None:
    x = d.main()
    ends = np.sort(drawn(d.graph, d.dtype(), (2,), None, None).astype(np.float64))
    if d.dtype().kind in "iu":
        ends = np.sort(drawn(d.graph, d.dtype(), (2,), None, None))
    low, high = (Operand(np.asarray(e).astype(d.dtype()), lambda _, e=e: e) for e in ends)
    old = "min" in d.schema.attributes
    if old and not np.isfinite(ends).all():
        raise NotComputed("the generator makes no Clip with infinite attributes")
    d.add(x, min=low if d.chance(0.7) else None, max=high if d.chance(0.7) else None)


def _castable(d: Draw, to: np.dtype[Any] | None = None) -> Operand | Value:
    """Returns numbers that every type can represent. Other conversions are undefined."""
    target = to if to is not None else d.dtype(1)
    if d.pool and d.pool[-1].array.dtype.kind not in "iub" and target.kind in "iu":
        raise NotComputed("a computed float may not fit the integer type of a conversion")
    if d.dtype(0).kind in "iub" and target.kind in "iub":
        return d.main()
    if target.kind not in "iu":
        return d.main(low=-100, high=100) if d.dtype(0).kind in "iu" else d.main()
    return d.main(low=0 if target.kind == "u" else -100, high=100)


def _cast(d: Draw) -> None:
    to = d.pick(list(TYPES.values()))
    x = _castable(d, to)
    d.add(x, to=tensor_type(np.empty(0, to)))


# Shapes


def _reshape(d: Draw) -> None:
    x = d.main()
    sizes = list(x.shape)
    if len(sizes) > 1 and d.chance(0.5):
        at = d.number(0, len(sizes) - 2)
        sizes[at : at + 2] = [sizes[at] * sizes[at + 1]]
    for at in [i for i, s in enumerate(sizes) if s in (4, 6, 8) and d.chance(0.5)][:1]:
        sizes[at : at + 1] = [2, sizes[at] // 2]
    if d.chance(0.3):
        sizes.insert(d.number(0, len(sizes)), 1)
    if sizes and d.chance(0.4) and 0 not in sizes:
        sizes[d.number(0, len(sizes) - 1)] = -1
    for i in range(min(len(sizes), x.rank)):
        if sizes[i] == x.shape[i] and sizes[i] and d.chance(0.2):
            sizes[i] = 0
    allowzero = 1 if 0 in x.shape and 0 in sizes and -1 not in sizes else None
    d.add(x, np.array(sizes, np.int64), allowzero=allowzero)


def _squeeze(d: Draw) -> None:
    x = d.main()
    ones = [i for i, s in enumerate(x.shape) if s == 1]
    if d.chance(0.3) and not d.graph.open_sizes:
        d.add(x)
        return
    if not ones:
        raise NotComputed("Squeeze needs an operand with a dimension of size 1")
    kept = [i - x.rank * d.number(0, 1) for i in ones if d.chance(0.7)] or [ones[0]]
    d.add(x, axes=np.array(kept))


def _unsqueeze(d: Draw) -> None:
    x = d.main(most=3)
    count = d.number(1, 2)
    rank = x.rank + count
    axes = [int(a) - rank * d.number(0, 1) for a in d.rng.permutation(rank)[:count]]
    if d.schema.since_version < 11:
        axes = [a % rank for a in axes]
    d.add(x, axes=np.array(axes))


def _transpose(d: Draw) -> None:
    x = d.main()
    perm = [int(i) for i in d.rng.permutation(x.rank)]
    d.add(x, perm=perm if perm and d.chance(0.8) else None)


def _flatten(d: Draw) -> None:
    x = d.main()
    low = 0 if d.schema.since_version < 11 else -x.rank
    d.add(x, axis=(d.number(low, x.rank),))


def _expand(d: Draw) -> None:
    x = d.main()
    sizes = [d.size() if s == 1 and d.chance(0.6) else s for s in x.shape]
    sizes = [1 if d.chance(0.2) else s for s in sizes]
    d.add(x, np.array(([d.size()] if d.chance(0.3) else []) + sizes, np.int64))


def _tile(d: Draw) -> None:
    x = d.main()
    d.add(x, np.array([d.pick((1, 1, 2, 3, 0 if d.chance(0.1) else 1)) for _ in x.shape], np.int64))


def _concat(d: Draw) -> None:
    x = d.main(least=1)
    axis = d.axis(x.rank)
    low = axis % x.rank if d.schema.since_version < 11 else axis
    others = [
        d.values(0, [d.size() if i == axis % x.rank else s for i, s in enumerate(x.shape)])
        for _ in range(d.number(0, 2))
    ]
    d.add(*d.rng.permutation(np.array([x, *others, None], object)[:-1]), axis=low)


def _split(d: Draw) -> None:
    x = d.main(least=1)
    axis = d.axis(x.rank)
    size = x.shape[axis]
    if d.schema.since_version < 11:
        axis %= x.rank
    if d.chance(0.5) and size:
        count = d.number(1, min(3, size))
        new = d.schema.since_version >= 18
        if not new and size % count:
            raise NotComputed("before opset 18, Split needs parts of equal size")
        d.add(x, outputs=count, axis=axis, num_outputs=count if new else None)
        return
    cuts = sorted(d.number(0, size) for _ in range(d.number(0, 2)))
    parts = np.diff([0, *cuts, size])
    d.add(x, outputs=len(parts), axis=axis, split=parts)


def _slice(d: Draw) -> None:
    x = d.main(least=1)
    axes = d.axes(x.rank)
    starts, ends, steps = [], [], []
    old = d.schema.since_version < 10
    for axis in axes:
        size = x.shape[axis]
        step = 1 if old else d.pick((1, 1, 2, 3, -1, -2))
        start = d.pick((0, 1, -1, -2, size, -size, 1000, size - 1, -1000))
        end = d.pick((size, -1, 1, size - 1, 2**31 - 1, 2**63 - 1, -(2**31), -size - 1, 1000))
        starts, ends, steps = [*starts, start], [*ends, end], [*steps, step]
    if old:
        axes = [a % x.rank for a in axes]
    numbers = {"starts": starts, "ends": ends, "axes": axes, "steps": steps}
    if axes == list(range(len(axes))) and d.chance(0.5):
        del numbers["axes"]
    if set(steps) == {1} and d.chance(0.5):
        del numbers["steps"]
    arrays: dict[str, Any] = {n: np.array(v, np.int64) for n, v in numbers.items()}
    d.add(x, **arrays)


def _pad(d: Draw) -> None:
    x = d.main(least=1)
    mode = d.pick(("constant", "constant", "reflect", "edge", "wrap"))
    if mode == "wrap" and d.schema.since_version < 19:
        raise NotComputed("Pad with mode 'wrap' needs opset 19")
    low = -1 if d.chance(0.3) else 0
    most = max(0, min([2, *(s - 1 for s in x.shape)])) if mode != "constant" else 3
    axes = d.axes(x.rank) if d.chance(0.3) and d.schema.since_version >= 18 else None
    count = 2 * (x.rank if axes is None else len(axes))
    pads = np.array([d.number(max(low, -most), max(most, 0)) for _ in range(count)], np.int64)
    value = d.values(2, (), -3, 3) if mode == "constant" and d.chance(0.6) else None
    if "value" in d.schema.attributes:
        d.add(x, pads=pads, value=(1.5, 0.0), mode=(mode,))
        return
    axes_given = None if axes is None else np.array(axes)
    d.add(x, pads, value, axes_given, mode=(mode,))


def _depth_to_space(d: Draw) -> None:
    block = d.number(1, 3)
    x = d.values(0, (d.size(), block * block * d.number(1, 2), d.size(), d.size()))
    d.add(x, blocksize=block, mode=("DCR", "CRD"))


def _space_to_depth(d: Draw) -> None:
    block = d.number(1, 3)
    d.add(d.values(0, (d.size(), 2, block * d.size(), block * d.size())), blocksize=block)


def _range(d: Draw) -> None:
    """
    Adds a Range to the graph. Its operands are constants, because they determine the result's
    shape.
    """
    d.graph.static_share = 1.0
    start, delta = d.number(-5, 5), d.pick((1, 2, -1, -3))
    values = [start, start + delta * d.number(-1, 6) + d.number(0, 1), delta]
    d.add(*(Operand(np.array(v).astype(d.dtype()), lambda _: np.array(0)) for v in values))


def _constant_of_shape(d: Draw) -> None:
    kind = d.pick(list(TYPES.values()))
    value = d.graph.constant(np.zeros(1, kind))
    del d.graph.constants[value.name]
    helper: Any = __import__("onnx.numpy_helper").numpy_helper
    number = drawn(d.graph, kind, (1,), None, None)
    d.add(np.array(d.shape(), np.int64), value=(helper.from_array(number),))


def _shape(d: Draw) -> None:
    x = d.main()
    d.add(x, start=(d.number(-x.rank - 1, x.rank + 1),), end=(d.number(-x.rank - 1, x.rank + 1),))


def _center_crop_pad(d: Draw) -> None:
    x = d.main(least=1)
    axes = d.axes(x.rank) if d.chance(0.5) else None
    count = x.rank if axes is None else len(axes)
    d.add(x, np.array([d.number(1, 9) for _ in range(count)]), axes=axes)


record("Reshape", _reshape, "exact")
record("Squeeze", _squeeze, "exact")
record("Unsqueeze", _unsqueeze, "exact")
record("Transpose", _transpose, "exact")
record("Flatten", _flatten, "exact")
record("Expand", _expand, "exact")
record("Tile", _tile, "exact")
record("Concat", _concat, "exact")
record("Split", _split, "exact")
record("Slice", _slice, "exact")
record("Pad", _pad, "exact")
record("DepthToSpace", _depth_to_space, "exact")
record("SpaceToDepth", _space_to_depth, "exact")
record("Range", _range, "each", chains=False)
record("ConstantOfShape", _constant_of_shape, "exact", chains=False)
record("Shape", _shape, "exact", chains=False)
record("Size", lambda d: d.add(d.main()), "exact", chains=False)
record("CenterCropPad", _center_crop_pad, "exact")


# Reductions and normalizations


def _reduce(d: Draw) -> None:
    # The logarithm of a negative number is NaN, which is not an integer.
    low = 1 if d.name == "ReduceLogSum" else -9
    x = d.main(low=low, high=9) if d.dtype().kind in "iu" else d.main()
    if d.name == "ReduceLogSumExp" and x.array.dtype.kind in "iu":
        raise NotComputed("onnxruntime computes ReduceLogSumExp of integers wrongly")
    if d.name in ("ReduceL2", "ReduceLogSum") and x.array.dtype.kind == "i" and d.pool:
        raise NotComputed("a root or logarithm of a sum that overflows is undefined")
    if d.name == "ReduceMean" and x.array.dtype.kind in "iu" and d.pool:
        if x.array.size and np.abs(x.array.astype(np.float64)).max() > 2**50:
            raise NotComputed("the references round means of integers above 2^50 in f64")
    axes = d.axes(x.rank, some=d.chance(0.9))
    if "axes" in d.schema.attributes and d.schema.since_version < 11:
        axes = [a % x.rank for a in axes]
    given = None if d.chance(0.2) or ("axes" in d.schema.attributes and not axes) else axes
    named: dict[str, Any] = {"axes": np.array(given, np.int64)} if given is not None else {}
    d.add(x, keepdims=(0, 1), noop_with_empty_axes=(0, 1), **named)


def _arg(d: Draw) -> None:
    x = d.main(least=1)
    if d.pool and np.isnan(x.array.astype(float)).any():
        raise NotComputed("ArgMax and ArgMin of NaN are undefined")
    axis = d.axis(x.rank)
    axis = axis % x.rank if d.schema.since_version < 11 else axis
    d.add(x, axis=(axis,), keepdims=(0, 1), select_last_index=(0, 1))


def _softmax(d: Draw) -> None:
    x = d.main(least=1)
    if d.name == "Hardmax" and d.schema.since_version < 13 and d.dtype() != np.float32:
        raise NotComputed("no reference supports Hardmax of this type before opset 13")
    axis = d.axis(x.rank)
    d.add(x, axis=(axis % x.rank if d.schema.since_version < 11 else axis,))


def _layer_norm(d: Draw) -> None:
    x = d.main(least=1)
    axis = d.axis(x.rank)
    shape = x.shape[axis:]
    d.use(d.dtype(0), 1)
    bias = [d.values(1, shape)] if d.name == "LayerNormalization" and d.chance(0.6) else []
    d.add(x, d.values(1, shape), *bias, axis=axis, epsilon=(1e-5, 1e-2))


def _of_channels(d: Draw, count: int, **named: Any) -> None:
    x = d.main(least=2 if d.name == "BatchNormalization" else 3, most=5)
    for position in range(1, count + 1):
        if d.dtype(0) in d.allowed(position):
            d.use(d.dtype(0), position)
    rest = [d.values(i, x.shape[1:2]) for i in range(1, min(count, 3) + 1)]
    variance = [d.values(4, x.shape[1:2], 0.1, 4)] if count > 3 else []
    d.add(x, *rest, *variance, epsilon=(1e-5, 1e-2), **named)


def _group_norm(d: Draw) -> None:
    groups, per_group = d.number(1, 3), d.number(1, 2)
    x = d.values(0, (d.size(), groups * per_group, *d.shape(1, 2)))
    count = groups if d.schema.since_version < 21 else groups * per_group
    d.add(x, d.values(0, (count,)), d.values(0, (count,)), num_groups=groups, epsilon=(1e-5, 0.1))


def _cumulative(d: Draw) -> None:
    x = d.main(least=1)
    axis = np.array(d.axis(x.rank)).astype(d.pick((np.int32, np.int64)))
    d.add(x, axis, exclusive=(0, 1), reverse=(0, 1))


REDUCTIONS = (
    "ReduceSum ReduceMean ReduceProd ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSum ReduceLogSumExp"
)
record(REDUCTIONS, _reduce, "sum")
record("ReduceMax ReduceMin", _reduce, "exact")
record("ArgMax ArgMin", _arg, "exact")
record("Softmax LogSoftmax", _softmax, "sum")
record("Hardmax", _softmax, "exact")
record("LayerNormalization RMSNormalization", _layer_norm, "sum")
record("BatchNormalization", lambda d: _of_channels(d, 4), "sum")
record("InstanceNormalization", lambda d: _of_channels(d, 2), "sum")
record("GroupNormalization", _group_norm, "sum")
record("LpNormalization", lambda d: _lp(d), "sum")
record("MeanVarianceNormalization", lambda d: d.add(d.main(4, 4), axes=([0, 2, 3], [1])), "sum")
record("CumSum CumProd", _cumulative, "sum")
record("LRN", lambda d: _response(d), "sum")


def _response(d: Draw) -> None:
    x = d.main(4, 4)
    if d.dtype() == np.float64:
        raise NotComputed("onnx's evaluator computes LRN of f64 wrongly")
    d.add(x, size=d.pick((1, 3, 5)), alpha=(0.1, 1e-4), beta=(0.75, 0.5), bias=(1.0, 2.0))


def _lp(d: Draw) -> None:
    x = d.main(least=1)
    d.add(x, axis=(d.axis(x.rank),), p=(1, 2))
