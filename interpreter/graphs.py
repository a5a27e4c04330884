"""
Executes graphs of TOSA 1.0 operators on whole numpy arrays.

`OPERATORS` maps each operator to a function of arrays. The result must have the shape and the type
that the graph declares. Integer sums and products are exact. f32 sums use numpy's order, which
TOSA permits. An i48 accumulator has 64 bits here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import as_strided
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr, IntegerAttr, IntegerType
from xdsl.ir import Attribute, Operation, SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.scalars.meanings import error_function
from xdsl_spirv.interpreter.errors import InterpreterError

Array: TypeAlias = np.ndarray[Any, Any]


class Refused(Exception):
    """Error raised if an operator's result is undefined."""


def numpy_type(element: Attribute) -> np.dtype[Any]:
    """Returns the numpy type of a tensor's elements. Raises `InterpreterError` if unsupported."""
    name = str(element)
    names = {"i1": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64"}
    names |= {"f16": "float16", "f32": "float32"}
    if name not in names:
        raise InterpreterError(f"graphs with elements of {name} are not supported")
    return np.dtype(names[name])


def run_graph(
    graph: spv.GraphOp, inputs: Sequence[Array], constants: Mapping[int, Array] | None = None
) -> list[Array]:
    """
    Runs a graph on its inputs and returns its outputs.

    `constants` holds an array for each OpGraphConstantARM, by its id. Raises `InterpreterError`
    for arrays of wrong shapes or types, and for results that TOSA leaves undefined.
    """
    arguments = graph.body.block.args
    if len(inputs) != len(arguments):
        raise InterpreterError(
            f"the graph has {len(arguments)} inputs, but {len(inputs)} were given",
            remedy="give one array for each input of the graph",
        )
    values: dict[SSAValue, Array] = {}
    for index, (argument, array) in enumerate(zip(arguments, inputs, strict=True)):
        values[argument] = _check_array(f"input {index}", argument.type, array)
    left = {value: len(list(value.uses)) for op in graph.body.block.ops for value in op.operands}
    for op in graph.body.block.ops:
        if isinstance(op, spv.GraphOutputsOp):
            return [values[value] for value in op.operands]
        values[op.results[0]] = _value(op, values, constants or {})
        for value in op.operands:
            left[value] -= 1
            if not left[value]:
                values.pop(value, None)
    raise InterpreterError("the graph has no spirv.ARM.GraphOutputs")


def _check_array(what: str, type_: Attribute, array: Array) -> Array:
    assert isinstance(type_, spv.TensorArmType)  # the operations' constraints
    wanted = numpy_type(type_.element_type)
    if array.dtype != wanted or array.shape != type_.extents:
        raise InterpreterError(
            f"{what} must be {type_}, not {array.dtype} of shape {list(array.shape)}"
        )
    return array


def _value(
    op: Operation, values: Mapping[SSAValue, Array], constants: Mapping[int, Array]
) -> Array:
    type_ = op.results[0].type
    if isinstance(op, spv.GraphConstantOp):
        number = op.graph_constant_id.value.data
        if number not in constants:
            raise InterpreterError(
                f"no array was given for the graph's constant {number}",
                op,
                "give it in constants={...}",
            )
        return _check_array(f"constant {number}", type_, constants[number])
    if not isinstance(op, spv.TosaOp):
        return _constant(op)
    execute = OPERATORS.get(type(op))
    if execute is None:
        raise InterpreterError(f"{op.name} is not supported", op)
    try:
        with np.errstate(all="ignore"):
            result = execute(op, *(values[operand] for operand in op.operands))
        assert isinstance(type_, spv.TensorArmType)
        return _check_array("the result", type_, np.asarray(result, numpy_type(type_.element_type)))
    except (Refused, ValueError, IndexError, InterpreterError) as error:
        raise InterpreterError(f"{op.name}: {error}", op) from error


def _constant(op: Operation) -> Array:
    type_ = op.results[0].type
    if not isinstance(type_, spv.TensorArmType):
        raise InterpreterError(f"{op.name} of {type_} is not supported in a graph", op)
    value, wanted = op.properties.get("value"), numpy_type(type_.element_type)
    if op.name == "spirv.ConstantNull":
        return np.zeros(type_.extents, wanted)
    if isinstance(value, IntegerAttr | FloatAttr):
        return np.full(type_.extents, value.value.data, wanted)
    if isinstance(value, DenseIntOrFPElementsAttr):
        return np.frombuffer(value.data.data, wanted).reshape(type_.extents)
    raise InterpreterError(f"{op.name} is not supported in a graph", op)


# Element by element.

Execute: TypeAlias = Callable[..., Array]


def _elementwise(function: Callable[..., Any]) -> Execute:
    return lambda op, *arrays: function(*arrays)


def _wide(function: Callable[..., Any]) -> Execute:
    """Wraps a function so that it computes f16 in f32 and rounds once."""

    def execute(op: spv.TosaOp, *arrays: Array) -> Array:
        kept = arrays[0].dtype
        return function(*(a.astype(np.float32) if kept == np.float16 else a for a in arrays))

    return execute


def _extreme(propagating: Any, ignoring: Any) -> Execute:
    def execute(op: spv.TosaOp, a: Array, b: Array) -> Array:
        ignore = op.number("nan_mode") == spv.NaNMode.Ignore
        return (ignoring if ignore else propagating)(a, b)

    return execute


def _clamp(op: spv.TosaOp, x: Array) -> Array:
    low, high = (np.asarray(op.number(name), x.dtype) for name in ("min_val", "max_val"))
    if op.number("nan_mode") == spv.NaNMode.Ignore:
        return np.fmin(np.fmax(x, low), high)
    return np.minimum(np.maximum(x, low), high)


def _multiply(op: spv.TosaOp, a: Array, b: Array, shift: Array) -> Array:
    if a.dtype.kind == "f":
        return a * b
    product, by = a.astype(np.int64) * b.astype(np.int64), int(shift[0])
    if by:
        product = (product + (1 << (by - 1))) >> by
    return _check_range(product, np.int32)


def _check_range(x: Array, type_: Any) -> Array:
    """
    Casts an array to a type. Refuses values out of range, for which TOSA leaves the result
    undefined.
    """
    bounds = np.iinfo(type_)
    if x.size and (x.min() < bounds.min or x.max() > bounds.max):
        raise Refused(f"the result overflows {np.dtype(type_)}, which is undefined")
    return x.astype(type_)


def _sum(function: Any) -> Execute:
    """Wraps a function that computes a sum or a difference, so that it refuses overflow."""

    def execute(op: spv.TosaOp, a: Array, b: Array) -> Array:
        if a.dtype.kind == "f":
            return function(a, b)
        return _check_range(function(a.astype(np.int64), b.astype(np.int64)), a.dtype)

    return execute


def _divide(op: spv.TosaOp, a: Array, b: Array) -> Array:
    if not b.all():
        raise Refused("a division by zero is undefined")
    wide = np.abs(a.astype(np.int64)) // np.abs(b.astype(np.int64))
    return _check_range(np.where((a < 0) != (b < 0), -wide, wide), np.int32)


def _shift_right(op: spv.TosaOp, a: Array, b: Array) -> Array:
    shifted = a >> b
    if op.number("round"):
        shifted = shifted + np.where(b > 0, (a >> np.maximum(b - 1, 0)) & 1, 0).astype(a.dtype)
    return shifted


def _unsigned_shift_right(op: spv.TosaOp, a: Array, b: Array) -> Array:
    return (a.view(f"u{a.dtype.itemsize}") >> b.view(f"u{b.dtype.itemsize}")).view(a.dtype)


def _leading_zeros(op: spv.TosaOp, x: Array) -> Array:
    bits = x.view(np.uint32).astype(np.float64)
    return np.where(bits == 0, 32, 31 - np.floor(np.log2(np.maximum(bits, 1))))


def _negate(op: spv.TosaOp, x: Array, zero: Array, out_zero: Array) -> Array:
    if x.dtype.kind == "f":
        return -x
    y = -(x.astype(np.int64) - int(zero[0])) + int(out_zero[0])
    bounds = np.iinfo(x.dtype)
    return np.clip(y, bounds.min, bounds.max) if x.dtype.itemsize < 4 else _check_range(y, x.dtype)


def _table(op: spv.TosaOp, x: Array, table: Array) -> Array:
    if x.dtype == np.int8:
        return table[x.astype(np.int64) + 128]
    number = x.astype(np.int64) + 32768
    place, fraction = number >> 7, number & 127
    base, following = table[place].astype(np.int64), table[place + 1].astype(np.int64)
    return (base << 7) + (following - base) * fraction


def _cast(op: spv.TosaOp, x: Array) -> Array:
    type_ = op.result.type
    assert isinstance(type_, spv.TensorArmType)
    wanted = numpy_type(type_.element_type)
    if {x.dtype.kind, wanted.kind} == {"b", "f"}:
        raise Refused("TOSA casts neither bool to floats nor floats to bool")
    if wanted == np.bool_:
        return x != 0
    if x.dtype.kind == "f" and wanted.kind == "i":
        if np.isnan(x).any():
            raise Refused("a cast of NaN to an integer is undefined")
        bounds = np.iinfo(wanted)
        return np.clip(np.rint(x.astype(np.float64)), bounds.min, bounds.max).astype(wanted)
    return x.astype(wanted)


def _rescale(op: spv.TosaOp, x: Array, multiplier: Array, shift: Array, *zeros: Array) -> Array:
    """
    Scales integers by TOSA's apply_scale_32 or apply_scale_16. The scale is one per channel or one
    for all.
    """
    type_ = op.result.type
    assert isinstance(type_, spv.TensorArmType)
    wanted = numpy_type(type_.element_type)
    flags = ("input_unsigned", "output_unsigned")
    of_input, of_output = (bool(op.number(flag)) for flag in flags)
    zero, out_zero = (
        int(z.view(f"u{z.dtype.itemsize}")[0] if unsigned else z[0])
        for z, unsigned in zip(zeros, (of_input, of_output), strict=True)
    )
    value = (x.view(f"u{x.dtype.itemsize}") if of_input else x).astype(np.int64) - zero
    by, scale = shift.astype(np.int64), multiplier.astype(np.int64)
    if ((by < 2) | (by > 62)).any():
        raise Refused("a shift must be from 2 to 62")
    half = np.int64(1) << (by - 1)
    if op.number("rounding_mode") == spv.RoundingMode.DoubleRound:
        half = half + np.where(by > 31, np.where(value >= 0, 1 << 30, -(1 << 30)), 0)
    result = ((value * scale + half) >> by) + out_zero
    kind = "u" if of_output else "i"
    bounds = np.iinfo(f"{kind}{wanted.itemsize}")
    return np.clip(result, bounds.min, bounds.max).astype(f"{kind}{wanted.itemsize}").view(wanted)


# Windows and products.


def _windows(
    x: Array, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> Array:
    """
    Returns a view of a padded tensor (batch, spatial dimensions, channel) with the axes (batch,
    output positions, kernel positions, channel).
    """
    spatial = x.shape[1:-1]
    places = [
        (extent - (k - 1) * d - 1) // s + 1
        for extent, k, s, d in zip(spatial, kernel, stride, dilation, strict=True)
    ]
    inner = x.strides[1:-1]
    strides = [n * s for n, s in zip(inner, stride, strict=True)]
    steps = [n * d for n, d in zip(inner, dilation, strict=True)]
    return as_strided(
        x,
        (x.shape[0], *places, *kernel, x.shape[-1]),
        (x.strides[0], *strides, *steps, x.strides[-1]),
        writeable=False,
    )


def _pad_spatial(x: Array, pad: Sequence[int], fill: Any) -> Array:
    pairs = [(0, 0), *zip(pad[::2], pad[1::2], strict=True), (0, 0)]
    return np.pad(x, pairs, constant_values=fill)


def _subtract_zero(x: Array, zero: Array) -> Array:
    """Subtracts the zero point exactly, in the type that is used for sums."""
    if x.dtype.kind == "f":
        return x.astype(np.float32)
    return x.astype(np.int64) - int(zero[0])


def _as_result(op: spv.TosaOp, x: Array) -> Array:
    """Converts sums to the result's type. Refuses sums that do not fit."""
    type_ = op.result.type
    assert isinstance(type_, spv.TensorArmType)
    if isinstance(type_.element_type, IntegerType):
        return _check_range(x, numpy_type(type_.element_type))
    return x


def _convolve(
    op: spv.TosaOp, x: Array, weight: Array, bias: Array, x_zero: Array, w_zero: Array
) -> Array:
    padded = _pad_spatial(_subtract_zero(x, x_zero), op.vector("pad"), 0)
    kernel = weight.shape[1:-1]
    windows = _windows(padded, kernel, op.vector("stride"), op.vector("dilation"))
    rank = len(kernel)
    flat = windows.reshape(math.prod(windows.shape[: rank + 1]), -1)
    products = flat @ _subtract_zero(weight, w_zero).reshape(weight.shape[0], -1).T
    return _as_result(op, products.reshape(*windows.shape[: rank + 1], weight.shape[0]) + bias)


def _convolve_depthwise(
    op: spv.TosaOp, x: Array, weight: Array, bias: Array, x_zero: Array, w_zero: Array
) -> Array:
    padded = _pad_spatial(_subtract_zero(x, x_zero), op.vector("pad"), 0)
    windows = _windows(padded, weight.shape[:2], op.vector("stride"), op.vector("dilation"))
    sums = np.einsum("nhwijc,ijcm->nhwcm", windows, _subtract_zero(weight, w_zero), optimize=True)
    return _as_result(op, sums.reshape(*sums.shape[:3], -1) + bias)


def _convolve_transposed(
    op: spv.TosaOp, x: Array, weight: Array, bias: Array, x_zero: Array, w_zero: Array
) -> Array:
    type_, (down, right) = op.result.type, op.vector("stride")
    assert isinstance(type_, spv.TensorArmType)
    above, _, before, _ = pad = op.vector("out_pad")
    numbers, weights = _subtract_zero(x, x_zero), _subtract_zero(weight, w_zero)
    batch, height, width, channels = type_.extents
    whole = np.zeros((batch, height - sum(pad[:2]), width - sum(pad[2:]), channels), numbers.dtype)
    for i, j in np.ndindex(*weight.shape[1:3]):
        part = numbers @ weights[:, i, j].T
        whole[:, i : i + x.shape[1] * down : down, j : j + x.shape[2] * right : right] += part
    result = np.zeros(type_.extents, numbers.dtype) + 0
    inside = whole[:, max(-above, 0) :, max(-before, 0) :]
    top, left = max(above, 0), max(before, 0)
    inside = inside[:, : height - top, : width - left]
    result[:, top : top + inside.shape[1], left : left + inside.shape[2]] = inside
    return _as_result(op, result + bias)


def _matmul(op: spv.TosaOp, a: Array, b: Array, a_zero: Array, b_zero: Array) -> Array:
    return _as_result(op, _subtract_zero(a, a_zero) @ _subtract_zero(b, b_zero))


def _max_pool(op: spv.TosaOp, x: Array) -> Array:
    least = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    kernel = op.vector("kernel")
    windows = _windows(
        _pad_spatial(x, op.vector("pad"), least), kernel, op.vector("stride"), (1, 1)
    )
    ignore = op.number("nan_mode") == spv.NaNMode.Ignore
    return (np.fmax if ignore else np.maximum).reduce(windows, axis=(3, 4))


def _avg_pool(op: spv.TosaOp, x: Array, zero: Array, out_zero: Array) -> Array:
    kernel, stride, pad = op.vector("kernel"), op.vector("stride"), op.vector("pad")
    sums = _windows(_pad_spatial(_subtract_zero(x, zero), pad, 0), kernel, stride, (1, 1)).sum(
        axis=(3, 4)
    )
    ones = _pad_spatial(np.ones((1, *x.shape[1:3], 1), np.int64), pad, 0)
    counts = _windows(ones, kernel, stride, (1, 1)).sum(axis=(3, 4))
    if x.dtype.kind == "f":
        return sums / counts.astype(np.float32)
    # TOSA's reciprocal_scale: 2^(30 + k) / count, rounded up.
    bits = np.array([32 - int(c - 1).bit_length() for c in counts.ravel()]).reshape(counts.shape)
    power = 32 - bits
    scale = ((np.int64(1) << 30) + 1 << power) // counts
    shift = 30 + power
    y = ((sums * scale + (np.int64(1) << (shift - 1))) >> shift) + int(out_zero[0])
    bounds = np.iinfo(x.dtype)
    return np.clip(y, bounds.min, bounds.max)


# Shapes and places.


def _reduce(function: Any, ignoring: Any = None) -> Execute:
    def execute(op: spv.TosaOp, x: Array) -> Array:
        ignore = "nan_mode" in op.properties and op.number("nan_mode") == spv.NaNMode.Ignore
        chosen = ignoring if ignore else function
        wide = x.astype(np.float32) if x.dtype == np.float16 else x
        if x.dtype.kind == "i" and function in (np.add, np.multiply):
            wide = x.astype(np.int64)
        return _as_result(op, chosen.reduce(wide, axis=int(op.number("axis")), keepdims=True))

    return execute


def _argmax(op: spv.TosaOp, x: Array) -> Array:
    if op.number("nan_mode") == spv.NaNMode.Ignore and x.dtype.kind == "f":
        x = np.where(np.isnan(x), -np.inf, x)
    return x.argmax(axis=int(op.number("axis")))


def _pad(op: spv.TosaOp, x: Array, padding: Array, fill: Array) -> Array:
    return np.pad(x, padding.reshape(-1, 2).tolist(), constant_values=fill[0])


def _slice(op: spv.TosaOp, x: Array, start: Array, size: Array) -> Array:
    return x[tuple(slice(a, a + n) for a, n in zip(start.tolist(), size.tolist(), strict=True))]


def _check_indices(indices: Array, count: int) -> Array:
    if indices.size and (indices.min() < 0 or indices.max() >= count):
        raise Refused(
            f"an index is outside the range from 0 to {count - 1}, so the result is undefined"
        )
    return indices


def _gather(op: spv.TosaOp, values: Array, indices: Array) -> Array:
    places = _check_indices(indices, values.shape[1])
    return np.take_along_axis(values, places[:, :, None], axis=1)


def _scatter(op: spv.TosaOp, values: Array, indices: Array, rows: Array) -> Array:
    result, places = values.copy(), _check_indices(indices, values.shape[1])
    np.put_along_axis(result, places[:, :, None], rows, axis=1)
    return result


def _resize(op: spv.TosaOp, x: Array, scale: Array, offset: Array, border: Array) -> Array:
    nearest = op.number("mode") == spv.ResizeMode.NearestNeighbor
    result = x.astype(np.int64 if x.dtype.kind == "i" else np.float32)
    for axis in (1, 2):
        n, d = (int(v) for v in scale[2 * axis - 2 : 2 * axis])
        extent = x.shape[axis]
        count = ((extent - 1) * n - int(offset[axis - 1]) + int(border[axis - 1])) // d + 1
        at = np.arange(count) * d + int(offset[axis - 1])
        first, fraction = at // n, at % n
        low, high = (np.clip(p, 0, extent - 1) for p in (first, first + 1))
        if nearest:
            result = result.take(np.where(fraction * 2 < n, low, high), axis)
            continue
        shape = [1] * 4
        shape[axis] = count
        part = fraction.reshape(shape)
        if x.dtype.kind == "i":
            result = result.take(low, axis) * (n - part) + result.take(high, axis) * part
        else:
            part = (part / n).astype(np.float32)
            result = result.take(low, axis) * (1 - part) + result.take(high, axis) * part
    return result


OPERATORS: Mapping[type[spv.TosaOp], Execute] = {
    spv.TosaArgMaxOp: _argmax,
    spv.TosaAvgPool2DOp: _avg_pool,
    spv.TosaConv2DOp: _convolve,
    spv.TosaConv3DOp: _convolve,
    spv.TosaDepthwiseConv2DOp: _convolve_depthwise,
    spv.TosaMatMulOp: _matmul,
    spv.TosaMaxPool2DOp: _max_pool,
    spv.TosaTransposeConv2DOp: _convolve_transposed,
    spv.TosaClampOp: _clamp,
    spv.TosaErfOp: _wide(error_function),
    spv.TosaSigmoidOp: _wide(lambda x: 1 / (1 + np.exp(-x))),
    spv.TosaTanhOp: _wide(np.tanh),
    spv.TosaAddOp: _sum(np.add),
    spv.TosaSubOp: _sum(np.subtract),
    spv.TosaArithmeticRightShiftOp: _shift_right,
    spv.TosaBitwiseAndOp: _elementwise(np.bitwise_and),
    spv.TosaBitwiseOrOp: _elementwise(np.bitwise_or),
    spv.TosaBitwiseXorOp: _elementwise(np.bitwise_xor),
    spv.TosaBitwiseNotOp: _elementwise(np.bitwise_not),
    spv.TosaIntDivOp: _divide,
    spv.TosaLogicalAndOp: _elementwise(np.logical_and),
    spv.TosaLogicalOrOp: _elementwise(np.logical_or),
    spv.TosaLogicalXorOp: _elementwise(np.logical_xor),
    spv.TosaLogicalNotOp: _elementwise(np.logical_not),
    spv.TosaLogicalLeftShiftOp: _elementwise(np.left_shift),
    spv.TosaLogicalRightShiftOp: _unsigned_shift_right,
    spv.TosaMaximumOp: _extreme(np.maximum, np.fmax),
    spv.TosaMinimumOp: _extreme(np.minimum, np.fmin),
    spv.TosaMulOp: _multiply,
    spv.TosaPowOp: _wide(np.power),
    spv.TosaTableOp: _table,
    spv.TosaAbsOp: _elementwise(np.abs),
    spv.TosaCeilOp: _elementwise(np.ceil),
    spv.TosaFloorOp: _elementwise(np.floor),
    spv.TosaClzOp: _leading_zeros,
    spv.TosaCosOp: _wide(np.cos),
    spv.TosaSinOp: _wide(np.sin),
    spv.TosaExpOp: _wide(np.exp),
    spv.TosaLogOp: _wide(np.log),
    spv.TosaNegateOp: _negate,
    spv.TosaReciprocalOp: _wide(lambda x: 1 / x),
    spv.TosaRsqrtOp: _wide(lambda x: 1 / np.sqrt(x)),
    spv.TosaSelectOp: _elementwise(np.where),
    spv.TosaEqualOp: _elementwise(np.equal),
    spv.TosaGreaterOp: _elementwise(np.greater),
    spv.TosaGreaterEqualOp: _elementwise(np.greater_equal),
    spv.TosaReduceAllOp: _reduce(np.logical_and),
    spv.TosaReduceAnyOp: _reduce(np.logical_or),
    spv.TosaReduceMaxOp: _reduce(np.maximum, np.fmax),
    spv.TosaReduceMinOp: _reduce(np.minimum, np.fmin),
    spv.TosaReduceProductOp: _reduce(np.multiply),
    spv.TosaReduceSumOp: _reduce(np.add),
    spv.TosaConcatOp: lambda op, *arrays: np.concatenate(arrays, int(op.number("axis"))),
    spv.TosaPadOp: _pad,
    spv.TosaReshapeOp: lambda op, x, shape: x.reshape(shape.tolist()),
    spv.TosaReverseOp: lambda op, x: np.flip(x, int(op.number("axis"))),
    spv.TosaSliceOp: _slice,
    spv.TosaTileOp: lambda op, x, multiples: np.tile(x, multiples.tolist()),
    spv.TosaTransposeOp: lambda op, x: x.transpose(op.vector("perms")),
    spv.TosaGatherOp: _gather,
    spv.TosaScatterOp: _scatter,
    spv.TosaResizeOp: _resize,
    spv.TosaCastOp: _cast,
    spv.TosaRescaleOp: _rescale,
}
"""Maps each operator to its function. FFT2D and RFFT2D are not supported."""
