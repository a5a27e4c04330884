"""
Executes structured `linalg` operations on whole arrays, from index maps and bodies.

A body that multiplies and adds is a contraction: floats are multiplied and accumulated in binary64
and rounded once to the result's type; integers are exact modulo 2^N. Any other body is evaluated
over all parallel loops at once, separately for each iteration of the reduction loops. Each of its
operations rounds its result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects import arith, cf, linalg, tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Block, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.ir.affine.affine_expr import AffineDimExpr
from xdsl.ir.region_utils import iter_used_values_defined_above

from xdsl_spirv.interpreter import numbers
from xdsl_spirv.interpreter.code import WAVE, Compiler
from xdsl_spirv.interpreter.context import Context
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.host.affine import Space, loop_sizes
from xdsl_spirv.interpreter.host.machine import Host, host, on_arrays
from xdsl_spirv.interpreter.host.windows import sum_of_products
from xdsl_spirv.interpreter.kernel.control_flow import body_of
from xdsl_spirv.interpreter.kernel.memref import gathered
from xdsl_spirv.interpreter.numbers import F32, F64, I64, Array, DType
from xdsl_spirv.interpreter.semantics import Function, action
from xdsl_spirv.upstream.linalg_packing import PackOp, SoftmaxOp, UnpackOp
from xdsl_spirv.upstream.linalg_winograd import Winograd

PARALLEL = "parallel"


class Points:
    """The index space of the loops. A running body receives it in place of a batch."""

    def __init__(self, indexes: Sequence[Array]):
        self.indexes = indexes
        self.mask = None
        self.partial = False


@action(linalg.ops.IndexOp)
def index(op: linalg.ops.IndexOp, context: Context) -> Function:
    """Returns the index of a loop at every point."""
    loop = op.dim.value.data
    return lambda points: points.indexes[loop]


@host(LinalgStructuredOperation)
def run_structured(
    machine: Host, op: LinalgStructuredOperation, operands: Sequence[Any]
) -> list[Any]:
    """Runs a structured operation on its inputs and outputs. Returns the new outputs."""
    maps = [attribute.data for attribute in op.get_indexing_maps()]
    kinds = [str(attribute.data) for attribute in op.get_iterator_types()]
    arrays = [np.asarray(operand) for operand in operands]
    count = len(op.operands) - len(op.outputs)
    sizes = loop_sizes(maps, [array.shape for array in arrays])
    roles = contraction_roles(op.body.block) if count == 2 and len(op.outputs) == 1 else None
    if roles is not None:
        results = [contract(arrays, maps, kinds, sizes, roles, op.body.block)]
    else:
        body = body_for(machine, op.body.block)
        results = reduce_points(body.bind_captured(machine), arrays, maps, kinds, sizes, count)
    return results


@on_arrays(SoftmaxOp)
def softmax(op: SoftmaxOp, x: Array, _: Array) -> Array:
    """Computes the softmax along the operation's dimension, and rounds the result once."""
    axis = op.dimension.value.data
    with np.errstate(invalid="ignore"):
        wide = np.exp(x.astype(F64) - x.astype(F64).max(axis=axis, keepdims=True))
        return (wide / wide.sum(axis=axis, keepdims=True)).astype(x.dtype)


@on_arrays(Winograd)
def winograd(op: Winograd, x: Array, out: Array) -> Array:
    """
    Multiplies each tile by a matrix on the left and a matrix on the right, in binary64, and rounds
    once.
    """
    left, right = (np.array(matrix) for matrix in op.matrices())
    (down, across), wide = op.steps(), x.astype(F64)
    match op.NUMBER:
        case 0:
            result = np.einsum("ah,fhwc,bw->abcf", left, wide, right)
        case 1:
            size = left.shape[1], right.shape[1]
            tiles = np.lib.stride_tricks.sliding_window_view(wide, size, (1, 2))
            tiles = tiles[:, ::down, ::across][:, : out.shape[2], : out.shape[3]]
            result = np.einsum("ai,ntwcij,bj->abtwnc", left, tiles, right)
        case _:
            parts = np.einsum("ya,abtwnf,zb->ntywzf", left, wide, right)
            result = parts.reshape(out.shape) + out.astype(F64)
    return result.astype(out.dtype)


def _split(op: PackOp | UnpackOp, rank: int) -> list[int]:
    inner = [2 * position + 1 for position in op.positions]
    return [2 * axis for axis in op.order(rank)] + inner


def _tiles(op: PackOp | UnpackOp, rank: int, given: Sequence[Array]) -> list[int]:
    """
    Returns the tile size of each dimension of the unpacked tensor. The tile size of an untiled
    dimension is 1.
    """
    left, tiles = iter(given), [1] * rank
    for position, tile in zip(op.positions, op.tiles, strict=True):
        tiles[position] = int(next(left)) if tile == DYNAMIC_INDEX else tile
    return tiles


@on_arrays(PackOp)
def pack(op: PackOp, x: Array, dest: Array, *rest: Array) -> Array:
    """
    Splits dimensions into tiles, whose elements become the last dimensions. Pads incomplete tiles.
    """
    padding, given = (rest[0], rest[1:]) if op.padding_value is not None else (None, rest)
    tiles, order = _tiles(op, x.ndim, given), _split(op, x.ndim)
    lacking = [(0, -size % tile) for size, tile in zip(x.shape, tiles, strict=True)]
    if padding is None and any(high for _, high in lacking):
        raise InterpreterError(
            "linalg.pack must pad incomplete tiles, but has no padding_value",
            op,
            "add a padding_value",
        )
    whole = np.pad(x, lacking, constant_values=0 if padding is None else padding.item())
    pairs = [n for size, t in zip(whole.shape, tiles, strict=True) for n in (size // t, t)]
    packed = whole.reshape(pairs).transpose([*order, *_of_one(order, x.ndim)])
    return _fitting(op, packed.reshape(packed.shape[: dest.ndim]), dest)


@on_arrays(UnpackOp)
def unpack(op: UnpackOp, x: Array, dest: Array, *given: Array) -> Array:
    """Converts a tensor of tiles to a plain tensor, without the padding."""
    tiles, order = _tiles(op, dest.ndim, given), _split(op, dest.ndim)
    inner = tuple(tiles[position] for position in op.positions)
    if x.shape[dest.ndim :] != inner:
        raise InterpreterError(
            f"the input of linalg.unpack must have tiles of shape {inner}, not "
            f"{x.shape[dest.ndim :]}",
            op,
        )
    order = [*order, *_of_one(order, dest.ndim)]
    pairs = [0] * 2 * dest.ndim
    for at, size in zip(order, [*x.shape, *[1] * len(order)], strict=False):
        pairs[at] = size
    apart = x.reshape([pairs[at] for at in order]).transpose(np.argsort(order))
    whole = apart.reshape([n * t for n, t in zip(pairs[::2], tiles, strict=True)])
    return _fitting(op, whole[tuple(slice(size) for size in dest.shape)].copy(), dest)


def _fitting(op: PackOp | UnpackOp, result: Array, dest: Array) -> Array:
    if result.shape != dest.shape:
        made, given = ("x".join(map(str, array.shape)) for array in (result, dest))
        raise InterpreterError(f"{op.name} gives {made} elements, but its output has {given}", op)
    return result


def _of_one(order: Sequence[int], rank: int) -> list[int]:
    """
    Returns the odd positions below 2 * `rank` that are missing in `order`. They are the tile
    dimensions of untiled dimensions.
    """
    return [at for at in range(1, 2 * rank, 2) if at not in order]


Evaluate: TypeAlias = Callable[[Points, Sequence[Array]], list[Array]]


def body_for(machine: Host, block: Block) -> Body:
    """Returns a block's compiled body, cached in `machine`."""
    body = machine.bodies.get(block)
    if body is None:
        body = machine.bodies[block] = Body(machine.context, block)
    return body


@action(tensor.ExtractOp)
def extract(op: tensor.ExtractOp, context: Context) -> Function:
    """Gathers one element of a tensor for each point. Masked points read an arbitrary element."""
    return gathered


@action(cf.AssertOp)
def assertion(op: cf.AssertOp, context: Context) -> Function:
    """Checks that a condition holds at every point."""
    text = op.msg.data

    def check(points: Points, condition: Array) -> None:
        failed = ~condition.astype(bool)
        if points.mask is not None:
            failed = failed & points.mask
        if failed.any():
            raise InterpreterError(f"an assertion of the program failed: {text}")

    return check


@on_arrays(cf.AssertOp)
def host_assertion(op: cf.AssertOp, condition: Array) -> None:
    """Raises `InterpreterError` if the condition does not hold."""
    if not condition:
        raise InterpreterError(f"an assertion of the program failed: {op.msg.data}", op)


class Body:
    """A `linalg` body, compiled to run on arrays over the iteration space."""

    def __init__(self, context: Context, block: Block):
        compiler = Compiler(context)
        region = block.parent
        assert region is not None
        self.captured = list(dict.fromkeys(iter_used_values_defined_above(region)))
        self.slots = [compiler.outside(value) for value in self.captured]
        self.arguments = [compiler.keep(argument) for argument in block.args]
        self.steps, self.yielded, _ = body_of(compiler, block)
        self.template = compiler.template

    def bind_captured(self, machine: Host) -> Evaluate:
        """Binds the values that the body uses from outside to their present values in `machine`."""
        values = [machine.value(captured) for captured in self.captured]
        return lambda points, arguments: self(points, arguments, values)

    def __call__(
        self, points: Points, arguments: Sequence[Array], captured: Sequence[Array] = ()
    ) -> list[Array]:
        env = self.template.copy()
        env[WAVE] = points
        for slot, value in zip(self.slots, captured, strict=True):
            env[slot] = value
        for slot, argument in zip(self.arguments, arguments, strict=True):
            env[slot] = argument
        self.steps.run(env)
        return [env[slot] for slot in self.yielded]


def reduce_points(
    body: Evaluate,
    arrays: Sequence[Array],
    maps: Sequence[AffineMap],
    kinds: Sequence[str],
    sizes: Sequence[int],
    count: int,
) -> list[Array]:
    """
    Evaluates a body for each iteration of the reduction loops in order, over all parallel loops at
    once.
    """
    parallel = [loop for loop, kind in enumerate(kinds) if kind == PARALLEL]
    reduction = [loop for loop, kind in enumerate(kinds) if kind != PARALLEL]
    space = Space(sizes, parallel)
    results, outputs = list(arrays[count:]), maps[count:]
    walked = [n for n, map in enumerate(outputs) if map.used_dims() & {*reduction}]
    """Outputs whose index map has a reduction loop. They are read and stored at each iteration."""

    def read(number: int, point: Mapping[int, int]) -> Array:
        element = space.operand(results[number], outputs[number], point)
        return np.broadcast_to(element, space.full_shape)

    current = [array if n in walked else read(n, {}) for n, array in enumerate(results)]
    inputs = list(zip(arrays[:count], maps[:count], strict=True))
    for indexes in product(*(range(sizes[loop]) for loop in reduction)):
        point = dict(zip(reduction, indexes, strict=True))
        for number in walked:
            current[number] = read(number, point)
        arguments = [space.operand(array, map, point) for array, map in inputs]
        points = Points([space.index(loop, point) for loop in range(len(sizes))])
        current = body(points, [*arguments, *current])
        for number in walked:
            value = current[number]
            results[number] = place(value, results[number], outputs[number], space, point)
    return [
        array if number in walked else place(current[number], array, outputs[number], space)
        for number, array in enumerate(results)
    ]


def place(
    value: Array, like: Array, map: AffineMap, space: Space, point: Mapping[int, int] | None = None
) -> Array:
    """Stores a value over the parallel loops in an output, through the output's index map."""
    result = like.copy()
    value = np.broadcast_to(value, space.full_shape)
    target = space.operand(np.arange(like.size).reshape(like.shape), map, point or {})
    result.reshape(-1)[np.broadcast_to(target, space.full_shape)] = value
    return result


Roles = tuple[bool, bool]
"""
Two bools, for operands a and b of a contraction: True for a sign-extended operand, False for a
zero-extended one.
"""


def contraction_roles(block: Block) -> Roles | None:
    """
    Returns how a and b are extended in a body `out + cast(a) * cast(b)`. Returns None for other
    bodies.
    """
    if len(block.args) != 3 or block.last_op is None or len(block.last_op.operands) != 1:
        return None
    add = block.last_op.operands[0].owner
    if not isinstance(add, arith.AddfOp | arith.AddiOp):
        return None
    sides = [add.lhs, add.rhs]
    if block.args[2] not in sides:
        return None
    sides.remove(block.args[2])
    multiply = sides[0].owner
    if not isinstance(multiply, arith.MulfOp | arith.MuliOp):
        return None
    factors = [_cast_argument(side) for side in (multiply.lhs, multiply.rhs)]
    if None in factors or len(list(block.ops)) > 5:
        return None
    (first, first_sign), (second, second_sign) = factors  # pyright: ignore
    if {first, second} != {block.args[0], block.args[1]}:
        return None
    return (first_sign, second_sign) if first is block.args[0] else (second_sign, first_sign)


def _cast_argument(value: SSAValue) -> tuple[SSAValue, bool] | None:
    """
    Returns the block argument that a value extends, and True if the extension is signed. Returns
    None for other values.
    """
    owner = value.owner
    if isinstance(owner, Block):
        return value, True
    if isinstance(owner, arith.ExtFOp | arith.ExtSIOp):
        source, sign = owner.operands[0], True
    elif isinstance(owner, arith.ExtUIOp):
        source, sign = owner.operands[0], False
    else:
        return None
    return (source, sign) if isinstance(source.owner, Block) else None


def contract(
    arrays: Sequence[Array],
    maps: Sequence[AffineMap],
    kinds: Sequence[str],
    sizes: Sequence[int],
    roles: Roles,
    block: Block,
) -> Array:
    """Computes `out` plus the sum of a * b over the reduction loops."""
    a, b, out = arrays
    dtype = out.dtype
    if numbers.is_float(dtype):
        total = _sum(a.astype(F64), b.astype(F64), maps, kinds, sizes)
        total = total + out.astype(F64)
        return (
            total.astype(F32).astype(dtype)
            if numbers.is_small_float(dtype)
            else total.astype(dtype)
        )
    extended = [
        numbers.integer_to_integer(I64, sign)(array)
        for array, sign in zip((a, b), roles, strict=True)
    ]
    return (_exact_sum(extended, maps, kinds, sizes) + out).astype(dtype)


def _exact_sum(
    arrays: Sequence[Array], maps: Sequence[AffineMap], kinds: Sequence[str], sizes: Sequence[int]
) -> Array:
    """
    Sums products of integers modulo 2^64. Uses binary64 for speed if it represents all sums
    exactly.
    """
    count = int(np.prod([s for s, kind in zip(sizes, kinds, strict=True) if kind != PARALLEL]))
    bound = count
    for array in arrays:
        low, high = int(array.min(initial=0)), int(array.max(initial=0))
        bound *= max(-low, high, 1)
    if bound < 1 << 53:
        wide = [array.astype(F64) for array in arrays]
        return _sum(wide[0], wide[1], maps, kinds, sizes).astype(I64)
    return _sum(arrays[0], arrays[1], maps, kinds, sizes)


def _sum(
    a: Array, b: Array, maps: Sequence[AffineMap], kinds: Sequence[str], sizes: Sequence[int]
) -> Array:
    """Returns the sum of products in the operands' dtype and the output's shape."""
    out = _loops(maps[2])
    if out is not None:
        product_sum = sum_of_products(a, b, maps, sizes, out)
        if product_sum is not None:
            return product_sum
    parallel = [loop for loop, kind in enumerate(kinds) if kind == PARALLEL]
    reduction = [loop for loop, kind in enumerate(kinds) if kind != PARALLEL]
    space = Space(sizes, parallel)
    total = np.zeros(space.full_shape, a.dtype)
    for indexes in product(*(range(sizes[loop]) for loop in reduction)):
        point = dict(zip(reduction, indexes, strict=True))
        total = total + space.operand(a, maps[0], point) * space.operand(b, maps[1], point)
    shape = [sizes[loop] for loop in _loops(maps[2]) or ()]
    order = [space.axes.index(loop) for loop in _loops(maps[2]) or ()]
    if len(shape) != len(space.axes):
        raise InterpreterError(
            f"a contraction's output must be indexed by single loops, not by {maps[2]}"
        )
    return total.reshape(space.shape).transpose(order)


def _loops(map: AffineMap) -> list[int] | None:
    """
    Returns the loops that index the dimensions. Returns None if the map computes an index or
    repeats a loop.
    """
    loops = [expr.position for expr in map.results if isinstance(expr, AffineDimExpr)]
    return loops if len(loops) == len(map.results) == len(set(loops)) else None


def convert(number: Array, dtype: DType) -> Array:
    """Converts a fill value to the output's type."""
    if number.dtype == dtype:
        return number
    if numbers.is_float(dtype) and numbers.is_float(number.dtype):
        return numbers.float_to_float(number.dtype, dtype)(number)
    if numbers.is_float(dtype):
        return numbers.integer_to_float(dtype, sign=True)(number)
    if numbers.is_float(number.dtype):
        return numbers.float_to_integer(dtype, sign=True)(number)
    return numbers.integer_to_integer(dtype, sign=True)(number)


on_arrays(linalg.ops.FillOp)(
    lambda op, number, output: np.full_like(output, convert(number, output.dtype))
)
on_arrays(linalg.ops.CopyOp)(
    lambda op, source, output: np.broadcast_to(convert(source, output.dtype), output.shape).copy()
)


@on_arrays(linalg.ops.TransposeOp)
def transpose(op: linalg.ops.TransposeOp, source: Array, output: Array) -> Array:
    """Permutes dimensions: dimension i of the result is dimension permutation[i] of the input."""
    axes = [int(axis) for axis in op.permutation.get_values()]
    return source.transpose(axes).copy()


@on_arrays(linalg.ops.BroadcastOp)
def broadcast(op: linalg.ops.BroadcastOp, source: Array, output: Array) -> Array:
    """Repeats the input along new dimensions."""
    axes = sorted(int(axis) for axis in op.dimensions.get_values())
    return np.broadcast_to(np.expand_dims(source, axes), output.shape).copy()


@host(linalg.ops.ReduceOp)
def reduce(machine: Host, op: linalg.ops.ReduceOp, operands: Sequence[Any]) -> list[Any]:
    """Reduces dimensions with the operation's body, one element after the other."""
    source, output = operands
    dims = [int(axis) for axis in op.dimensions.get_values()]
    rank = source.ndim
    kinds = ["reduction" if axis in dims else PARALLEL for axis in range(rank)]
    whole = AffineMap.identity(rank)
    kept = tuple(AffineDimExpr(axis) for axis in range(rank) if axis not in dims)
    maps = [whole, AffineMap(rank, 0, kept)]
    body = Body(machine.context, op.region.block)
    return reduce_points(body, [source, output], maps, kinds, source.shape, 1)
