"""
Moves a reshape of a contraction's result behind the elementwise operations that follow.

    %0 = contraction : 12x10                      %0 = contraction : 12x10
    %1 = expand_shape %0 : 3x4x10          ->     %1 = max(%0 + %row, 0) : 12x10
    %2 = max(%1 + %row, 0) : 3x4x10               %2 = expand_shape %1 : 3x4x10

Reshapes cost nothing, but elementwise operations behind a reshape need a second kernel. Each
operand's index map is composed with the reshape. If the reshape merges dimensions, an operand must
have none of them, or all of them in order; then the operand is reshaped, too. Split dimensions have
no restriction. A reshape that undoes another reshape is removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TypeAlias

from xdsl.dialects import linalg, tensor
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, OpResult, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap
from xdsl.rewriter import InsertPoint, Rewriter

from xdsl_spirv.dialects.schedule import SCHEDULE, consecutive
from xdsl_spirv.passes.analysis.contraction import as_contraction
from xdsl_spirv.passes.analysis.linalg_code import (
    drop_units,
    expand_dimensions,
    groups_of,
    make_generic,
    maps_of,
    merge_dimensions,
    merged_groups,
    tensor_type,
)
from xdsl_spirv.passes.analysis.pointwise import is_pointwise
from xdsl_spirv.passes.graph.grouping import is_cheap

Reshape = tensor.ExpandShapeOp | tensor.CollapseShapeOp
Groups = Sequence[Sequence[int]]


def sink_reshapes(block: Block) -> None:
    """Moves reshapes of contractions' results after the elementwise operations that follow."""
    for op in list(block.ops):
        if op.parent_block() is not block or not isinstance(op, Reshape) or _undone(op):
            continue
        reshape: Reshape = _join_reshapes(op)
        while _after_contraction(reshape.src):
            moved = _sunk(reshape)
            if moved is None:
                break
            reshape = moved


def _after_contraction(value: SSAValue) -> bool:
    """True if a contraction computes a tensor, possibly followed by elementwise operations."""
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if not isinstance(value, OpResult):
            continue
        if isinstance(value.op, linalg.ops.GenericOp) and is_pointwise(value.op):
            waiting += [v for v in value.op.inputs if v.has_one_use()]
        elif as_contraction(value.op) is not None:
            return True
    return False


def _undone(op: Reshape) -> bool:
    """Removes a reshape that undoes the previous reshape. Returns True if a reshape was removed."""
    before = op.src.owner
    if not isinstance(before, Reshape) or before.src.type != op.result.type:
        return False
    if not _is_static(op.result.type):
        return False
    Rewriter.replace_op(op, [], [before.src])
    if before.result.first_use is None:
        Rewriter.erase_op(before)
    return True


def _join_reshapes(op: Reshape) -> Reshape:
    """Joins two successive reshapes if both merge dimensions, or both split them."""
    before = op.src.owner
    if type(before) is not type(op) or not op.src.has_one_use():
        return op
    assert isinstance(before, Reshape)
    types = before.src.type, op.src.type, op.result.type
    if not all(map(_is_static, types)):
        return op
    outer, inner = groups_of(op), groups_of(before)
    shape = op.result.type.get_shape()
    few, many = (inner, outer) if isinstance(op, tensor.ExpandShapeOp) else (outer, inner)
    groups = [[axis for place in group for axis in many[place]] for group in few]
    joined = _reshape_like(op, before.src, groups, shape)
    Rewriter.replace_op(op, joined)
    Rewriter.erase_op(before)
    return joined


def _reshape_like(op: Reshape, value: SSAValue, groups: Groups, shape: Sequence[int]) -> Reshape:
    make = expand_dimensions if isinstance(op, tensor.ExpandShapeOp) else merge_dimensions
    return make(value, groups, shape)


def _sunk(reshape: Reshape) -> Reshape | None:
    """
    Moves a reshape after its only user. Returns the new reshape, or None if that is impossible.
    """
    types = (reshape.src.type, reshape.result.type)
    if not reshape.src.has_one_use() or not all(_is_static(type) for type in types):
        return None
    use = reshape.result.get_user_of_unique_use()
    if not isinstance(use, linalg.ops.GenericOp) or not is_pointwise(use):
        return None
    *maps, written = maps_of(use)
    result = use.results[0].type
    if SCHEDULE in use.attributes or not isinstance(result, TensorType):
        return None
    source = tensor_type(reshape.src)
    rank = len(reshape.result.type.get_shape())
    identity = AffineMap.identity(rank)
    own = [map for value, map in zip(use.inputs, maps, strict=True) if value is reshape.result]
    if written != identity or own != [identity] or use.parent_block() != reshape.parent_block():
        return None
    groups = groups_of(reshape)
    places = [
        _compose_map(value, map, groups, reshape)
        for value, map in zip(use.inputs, maps, strict=True)
    ]
    inputs: list[SSAValue] = []
    read: list[AffineMap] = []
    if any(place is None for place in places):
        return None
    for value, place in zip(use.inputs, places, strict=True):
        assert place is not None
        dims, views = place
        for view in views:
            Rewriter.insert_op(view, InsertPoint.before(use))
            value = view.result
        inputs.append(reshape.src if value is reshape.result else value)
        read.append(AffineMap(len(source.get_shape()), 0, tuple(map(AffineDimExpr, dims))))
    return _replace_use(use, reshape, inputs, read)


def _replace_use(
    use: linalg.ops.GenericOp,
    reshape: Reshape,
    inputs: Sequence[SSAValue],
    read: Sequence[AffineMap],
) -> Reshape:
    source, target = tensor_type(reshape.src), tensor_type(use.results[0])
    rank = len(source.get_shape())
    type = TensorType(target.element_type, source.get_shape())
    empty = tensor.EmptyOp((), type)
    maps = *read, AffineMap.identity(rank)
    generic = make_generic(inputs, empty.tensor, maps, use.body.clone())
    generic.location = use.location
    groups = groups_of(reshape)
    moved = _reshape_like(reshape, generic.results[0], groups, target.get_shape())
    Rewriter.replace_op(use, [empty, generic, moved], [moved.result])
    Rewriter.erase_op(reshape)
    return moved


def _is_static(type: object) -> bool:
    return isinstance(type, TensorType) and all(size >= 0 for size in type.get_shape())


Place: TypeAlias = tuple[list[int], list[Reshape]]
"""The loops that index a reshaped operand, and the reshapes to apply to the operand."""


def _compose_map(value: SSAValue, map: AffineMap, groups: Groups, reshape: Reshape) -> Place | None:
    """Returns the `Place` of an operand for the reshaped loops; None if there is none."""
    if value is reshape.result:
        return list(range(len(tensor_type(reshape.src).get_shape()))), []
    if not isinstance(value.type, TensorType):
        return ([], []) if not map.results else None
    if not _is_static(value.type):
        return None
    views: list[Reshape] = []
    if not all(isinstance(result, AffineDimExpr) for result in map.results):
        view = drop_units(value, map)
        if view is None:
            return None
        views, value = [view], view.result
    named = [e.position for e in map.results if isinstance(e, AffineDimExpr)]
    if len(set(named)) != len(named):
        return None
    if isinstance(reshape, tensor.ExpandShapeOp):
        return _merge_dimensions(value, named, groups, views)
    return _split_dimensions(value, named, groups, tensor_type(reshape.src).get_shape(), views)


def _merge_dimensions(
    value: SSAValue, named: list[int], groups: Groups, views: list[Reshape]
) -> Place | None:
    """
    Merges the dimensions `named` of an operand, as `groups` says. Returns None if they are not
    whole groups in order.
    """
    shape, dims = tensor_type(value).get_shape(), merged_groups(named, groups)
    if dims is None:
        return None
    if len(dims) == len(named):
        return dims, views
    if is_cheap(value):
        return None
    own = consecutive(len(groups[number]) for number in dims)
    sizes = [prod(shape[axis] for axis in group) for group in own]
    return dims, [*views, merge_dimensions(value, own, sizes)]


def _split_dimensions(
    value: SSAValue,
    named: list[int],
    groups: Groups,
    shape: Sequence[int],
    views: list[Reshape],
) -> Place | None:
    dims = [axis for number in named for axis in groups[number]]
    if len(dims) == len(named):
        return dims, views
    if is_cheap(value):
        return None
    own = consecutive(len(groups[number]) for number in named)
    return dims, [*views, expand_dimensions(value, own, [shape[axis] for axis in dims])]
