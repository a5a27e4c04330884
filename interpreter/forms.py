"""
The run-time forms of values, by type.

Every value stands over three leading axes (workgroup of the chunk, subgroup, lane), each full or,
where the value is uniform along it, of length 1. After them:

| type | value |
|---|---|
| scalar | array (w, s, l) |
| vector, matrix, array of those | array (w, s, l, ...) with one axis for each dimension, outermost
first |
| struct, array of anything else | tuple of the members' values |
| cooperative matrix of Subgroup scope | array (w, s, rows, columns): one matrix for each subgroup |
| cooperative matrix of Workgroup scope | array (w, 1, rows, columns) |
| pointer | `Pointer` or `VariablePointer` of memory.py |

A cooperative matrix of 16-bit or 8-bit floats is carried as binary32, whose values include theirs,
so that a MulAdd converts nothing; every function that makes such a value rounds it to the component
type first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

import numpy as np

from xdsl_spirv.dialects.spirv.enums import CooperativeMatrixUse, Scope
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.numbers import F32, F64, DType, is_float

Mask: TypeAlias = Any
"""None if all lanes of the chunk are active, else a bool array over (w, s, l)."""


@dataclass(frozen=True)
class Plain:
    """A scalar (`shape` empty), or a nest of vectors and arrays of scalars."""

    dtype: DType
    shape: tuple[int, ...] = ()


@dataclass(frozen=True)
class CooperativeMatrix:
    """
    A matrix that the invocations of `scope` hold together. `dtype` is that of its components; `use`
    (A, B or accumulator) may decide the component mapping.
    """

    dtype: DType
    rows: int
    columns: int
    scope: Scope
    use: CooperativeMatrixUse = CooperativeMatrixUse.MatrixAccumulatorKHR

    @property
    def carrier(self) -> DType:
        """The dtype of the array that represents the matrix."""
        return F32 if is_float(self.dtype) and self.dtype != F64 else self.dtype


@dataclass(frozen=True)
class Composite:
    """A struct, or an array whose elements are not plain."""

    members: tuple[Form, ...]


@dataclass(frozen=True)
class Opaque:
    """
    A pointer, a memref, or anything else that no instruction looks into; `null` makes its null
    value, if the type has one.
    """

    name: str
    null: Callable[[], Any] | None = None


Form: TypeAlias = Plain | CooperativeMatrix | Composite | Opaque


def zeros(form: Form) -> Any:
    """The null value, uniform."""
    if isinstance(form, Plain):
        return np.zeros((1, 1, 1, *form.shape), form.dtype)
    if isinstance(form, CooperativeMatrix):
        return np.zeros((1, 1, form.rows, form.columns), form.carrier)
    if isinstance(form, Composite):
        return tuple(zeros(member) for member in form.members)
    if form.null is None:
        raise InterpreterError(f"{form.name} has no null value")
    return form.null()


def lane_bytes(form: Form, lanes: int) -> float:
    """
    An upper bound of a value's bytes per invocation; `lanes` invocations share a matrix.
    """
    if isinstance(form, Plain):
        return prod(form.shape) * form.dtype.itemsize
    if isinstance(form, CooperativeMatrix):
        return form.rows * form.columns * form.carrier.itemsize / lanes
    if isinstance(form, Composite):
        return sum(lane_bytes(member, lanes) for member in form.members)
    return 8


def within(mask: Mask, lanes: Any) -> Any:
    """Returns the lanes of a mask that are active, too."""
    return lanes if mask is None else mask & lanes


def spread(mask: Mask, form: Form) -> Mask:
    """A mask over (w, s, l), shaped to broadcast with a plain value or a cooperative matrix."""
    if isinstance(form, Plain):
        return mask.reshape(mask.shape + (1,) * len(form.shape)) if form.shape else mask
    if isinstance(form, CooperativeMatrix) and form.scope == Scope.Workgroup:
        return mask.any(axis=(1, 2), keepdims=True)[..., None]
    return mask.any(axis=2, keepdims=True)[..., None]


Merge: TypeAlias = Callable[[Mask, Any, Any], Any]


def merger(form: Form) -> Merge:
    """
    Returns `merge(mask, new, old)`, which takes the new value where the mask is set, else the old
    one.
    """
    if isinstance(form, Plain) and not form.shape:
        return np.where
    if isinstance(form, Plain | CooperativeMatrix):
        return lambda mask, new, old: np.where(spread(mask, form), new, old)
    if isinstance(form, Composite):
        members = [merger(member) for member in form.members]
        return lambda mask, new, old: tuple(
            merge(mask, n, o) for merge, n, o in zip(members, new, old, strict=True)
        )
    return lambda mask, new, old: new.merge(mask, old)
