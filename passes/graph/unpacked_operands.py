"""
Fuses the dequantization of weights that are stored in blocks into the contraction of the weights.

    %w = linalg.generic (n, b, h, j) of planes       %w = linalg.generic (n, b, h, j) of planes
    %r = collapse_shape %w : n x k              ->
    sum over k of %x[m, k] * %r[n, k]                sum over b, h, j of
                                                       %x[m, 32 * b + 16 * h + j] * %w[n, b, h, j]

The loop over K is split into one loop for each collapsed dimension, so that each element of the
operand is computed from one element of each plane. A plane is a tensor with one part of each block,
such as the scales (`analysis/unpacking`). Every contraction gets a copy of the operation that
unpacks its weights, so that the weights are never stored as floats.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod
from operator import add

from xdsl.dialects import linalg, tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap
from xdsl.rewriter import InsertPoint, Rewriter

from xdsl_spirv.passes.analysis.contraction import Contraction
from xdsl_spirv.passes.analysis.linalg_code import groups_of, make_generic, maps_of, tensor_type
from xdsl_spirv.passes.analysis.pointwise import is_permutation, is_pointwise, moves_only
from xdsl_spirv.passes.analysis.unpacking import unpacks
from xdsl_spirv.passes.analysis.values import erase_dead


@dataclass(frozen=True)
class _Source:
    """
    The operation that unpacks an operand, and the loops that index each dimension of its result.

    `walks` has (loop of the contraction, part of that loop) for each loop of the operation.
    `parts` has the sizes of the parts of each loop that is split.
    """

    op: linalg.ops.GenericOp
    empty: tensor.EmptyOp
    walks: tuple[tuple[int, int], ...]
    parts: dict[int, tuple[int, ...]]


def with_unpacked_operands(contraction: Contraction) -> linalg.ops.GenericOp | None:
    """Returns a contraction that unpacks an operand from planes; None if no operand is unpacked."""
    op = contraction.op
    assert isinstance(op, linalg.ops.GenericOp)
    for number in range(2):
        source = _source_of(contraction, number)
        if source is not None:
            return _replace_operand(contraction, number, source)
    return None


def _source_of(contraction: Contraction, number: int) -> _Source | None:
    """Finds the operation that unpacks an operand, through operations that only move elements."""
    map = contraction.maps[number]
    value = (contraction.a, contraction.b)[number]
    loops = [e.position for e in map.results if isinstance(e, AffineDimExpr)]
    if len(loops) != len(map.results) or len(set(loops)) != len(loops):
        return None
    walks = [(loop, 0) for loop in loops]
    parts: dict[int, tuple[int, ...]] = {}
    while isinstance(owner := value.owner, Operation):
        if isinstance(owner, linalg.ops.GenericOp) and unpacks(owner):
            empty = owner.outputs[0].owner
            if not isinstance(empty, tensor.EmptyOp):
                return None
            *_, write = (attribute.data for attribute in owner.get_indexing_maps())
            by_loop = zip(write.results, walks, strict=True)
            ordered = sorted(by_loop, key=lambda pair: pair[0].position)  # pyright: ignore
            return _Source(owner, empty, tuple(walk for _, walk in ordered), parts)
        moved = _walk_operand(owner, walks, parts, contraction.groups[3])
        if moved is None:
            return None
        walks = moved
        value = owner.operands[0]
    return None


def _walk_operand(
    op: Operation,
    walks: Sequence[tuple[int, int]],
    parts: dict[int, tuple[int, ...]],
    k: range,
) -> list[tuple[int, int]] | None:
    """
    Returns the loops that index the operand of a reshape or transposition, given `walks`, the loops
    that index its result. Returns None if that is impossible.
    """
    if isinstance(op, tensor.CollapseShapeOp):
        shape, groups = tensor_type(op.src).get_shape(), groups_of(op)
        result: list[tuple[int, int]] = []
        for walk, group in zip(walks, groups, strict=True):
            sizes = tuple(shape[d] for d in group)
            if len(group) == 1:
                result.append(walk)
                continue
            if DYNAMIC_INDEX in sizes or walk[0] not in k or walk[0] in parts:
                return None
            parts[walk[0]] = sizes
            result += [(walk[0], part) for part in range(len(group))]
        return result
    if isinstance(op, linalg.ops.TransposeOp):
        order = list(op.permutation.get_values())
        return [walks[order.index(d)] for d in range(len(order))]
    if not isinstance(op, linalg.ops.GenericOp) or not is_pointwise(op) or not moves_only(op):
        return None
    if len(op.inputs) != 1:
        return None
    read, write = (attribute.data for attribute in op.get_indexing_maps())
    if not is_permutation(read) or len(read.results) != len(write.results):
        return None
    at = {e.position: walk for e, walk in zip(write.results, walks, strict=True)}  # pyright: ignore
    return [at[e.position] for e in read.results]  # pyright: ignore[reportAttributeAccessIssue]


def _replace_operand(
    contraction: Contraction, number: int, source: _Source
) -> linalg.ops.GenericOp:
    op = contraction.op
    assert isinstance(op, linalg.ops.GenericOp)
    copy = _in_order(source.op, source.empty)
    Rewriter.insert_op(copy, InsertPoint.before(op))
    unpack = copy[-1]
    first: dict[int, int] = {}
    count = 0
    for loop in range(len(contraction.sizes)):
        first[loop] = count
        count += len(source.parts.get(loop, (0,)))
    old = [_number(first[loop], source.parts.get(loop, (1,))) for loop in first]
    maps = [
        map.replace_dims_and_symbols(old, [], count, 0)
        for map in (*contraction.maps[:2], contraction.maps[2])
    ]
    maps[number] = AffineMap(
        count, 0, tuple(AffineDimExpr(first[loop] + part) for loop, part in source.walks)
    )
    operands: list[SSAValue] = [contraction.a, contraction.b]
    operands[number] = unpack.results[0]
    generic = make_generic(operands, op.outputs, maps, op.body.clone(), like=op)
    Rewriter.replace_op(op, generic)
    erase_dead((contraction.a, contraction.b)[number])
    return generic


def _in_order(op: linalg.ops.GenericOp, empty: tensor.EmptyOp) -> list[Operation]:
    """
    Returns copies of an operation and of its empty output. The copy's result has its dimensions in
    the order of the loops.
    """
    *reads, write = maps_of(op)
    type = tensor_type(op.results[0])
    shape, rank = type.get_shape(), len(op.iterator_types)
    places = [e.position for e in write.results if isinstance(e, AffineDimExpr)]
    order = [places.index(loop) for loop in range(rank)]
    open_dimensions = [d for d, size in enumerate(shape) if size == DYNAMIC_INDEX]
    dynamic = dict(zip(open_dimensions, empty.dynamic_sizes, strict=True))
    ordered = TensorType(type.element_type, [shape[d] for d in order])
    start = tensor.EmptyOp([dynamic[d] for d in order if d in dynamic], ordered)
    maps = *reads, AffineMap.identity(rank)
    generic = make_generic(op.inputs, start.tensor, maps, op.body.clone())
    generic.location = op.location
    return [start, generic]


def _number(first: int, sizes: Sequence[int]) -> AffineExpr:
    """Returns the row-major index of an iteration of loops with these sizes."""
    terms = (AffineDimExpr(first + n) * prod(sizes[n + 1 :]) for n in range(len(sizes)))
    return reduce(add, terms, AffineExpr.constant(0))
