"""Builds the `linalg.generic` operations and the reshapes that several passes write."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from xdsl.dialects import linalg, tensor
from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, IntegerAttr, TensorType, i64
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.ir.affine import AffineMap


def make_generic(
    inputs: Sequence[SSAValue],
    out: SSAValue,
    maps: Iterable[AffineMap],
    body: Region | Block,
    kinds: Iterable[IteratorTypeAttr] | None = None,
) -> linalg.ops.GenericOp:
    """Builds a generic; without kinds, loops that the output does not name are reductions."""
    of_operands = list(maps)
    if kinds is None:
        last, kind = of_operands[-1], IteratorTypeAttr
        kinds = [
            kind.parallel() if n in last.used_dims() else kind.reduction()
            for n in range(last.num_dims)
        ]
    return linalg.ops.GenericOp(
        inputs,
        [out],
        body if isinstance(body, Region) else Region(body),
        ArrayAttr(map(AffineMapAttr, of_operands)),
        ArrayAttr(kinds),
        [out.type],
    )


def _reassociation(groups: Iterable[Iterable[int]]) -> ArrayAttr[ArrayAttr[IntegerAttr]]:
    return ArrayAttr(ArrayAttr(IntegerAttr(n, i64) for n in group) for group in groups)


def split_dimension(value: SSAValue, axis: int, *counts: int) -> tensor.ExpandShapeOp:
    """Splits a dimension of known size in parts, each in parts, and so on, by these counts."""
    assert isinstance(value.type, TensorType)
    shape, more = list(value.type.get_shape()), len(counts)
    groups = [[n + more * (n > axis)] for n in range(len(shape))]
    groups[axis] = list(range(axis, axis + more + 1))
    shape[axis : axis + 1] = [*counts, shape[axis] // prod(counts)]
    type = TensorType(value.type.element_type, shape)
    return tensor.ExpandShapeOp(value, [], _reassociation(groups), shape, type)


def merge_dimensions(
    value: SSAValue, groups: Iterable[Iterable[int]], type: Attribute
) -> tensor.CollapseShapeOp:
    """Merges each group of dimensions to one."""
    return tensor.CollapseShapeOp.create(
        operands=[value],
        properties={"reassociation": _reassociation(groups)},
        result_types=[type],
    )
