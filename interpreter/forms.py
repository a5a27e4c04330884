"""
Defines the run-time representation (form) of the values of each type.

Every value has three leading axes (w, s, l): workgroup of the chunk, subgroup, lane. An axis has
length 1 if the value is uniform along it. The remaining axes depend on the type:

| type | value |
|---|---|
| scalar | array (w, s, l) |
| vector, matrix, array of these | array (w, s, l, ...): one axis per dimension, outermost first |
| struct, other array | tuple of the members' values |
| cooperative matrix of Subgroup scope | array (w, s, rows, columns): one matrix for each subgroup |
| cooperative matrix of Workgroup scope | array (w, 1, rows, columns) |
| pointer | `Pointer` or `VariablePointer` of memory.py |

A cooperative matrix of 16-bit or 8-bit floats is stored as binary32, so that a MulAdd needs no
conversion. Every function that creates such a value rounds it to the component type.
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
"""
Mask of the active lanes: a bool array (workgroup, subgroup, lane). None means that all are active.
"""


@dataclass(frozen=True)
class Plain:
    """Representation of a scalar (empty `shape`), or of nested vectors and arrays of scalars."""

    dtype: DType
    shape: tuple[int, ...] = ()


@dataclass(frozen=True)
class CooperativeMatrix:
    """
    Representation of a matrix that the invocations of `scope` share. `dtype` is the type of its
    components. `use` (A, B or accumulator) may influence the component mapping.
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
    """Representation of a struct, or of an array of structs, pointers or cooperative matrices."""

    members: tuple[Form, ...]


@dataclass(frozen=True)
class Opaque:
    """Representation of a pointer or another value without accessible parts, with a null value."""

    name: str
    null: Callable[[], Any] | None = None


Form: TypeAlias = Plain | CooperativeMatrix | Composite | Opaque


def zeros(form: Form) -> Any:
    """Returns the null value of a representation, uniform over all invocations."""
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
    Returns an upper bound of a value's bytes per invocation. A matrix is shared by `lanes`
    invocations.
    """
    if isinstance(form, Plain):
        return prod(form.shape) * form.dtype.itemsize
    if isinstance(form, CooperativeMatrix):
        return form.rows * form.columns * form.carrier.itemsize / lanes
    if isinstance(form, Composite):
        return sum(lane_bytes(member, lanes) for member in form.members)
    return 8


def within(mask: Mask, lanes: Any) -> Any:
    """Returns the intersection of the masks `lanes` and `mask`."""
    return lanes if mask is None else mask & lanes


def spread(mask: Mask, form: Form) -> Mask:
    """Reshapes a lane mask so that it broadcasts with a value of this representation."""
    if isinstance(form, Plain):
        return mask.reshape(mask.shape + (1,) * len(form.shape)) if form.shape else mask
    if isinstance(form, CooperativeMatrix) and form.scope == Scope.Workgroup:
        return mask.any(axis=(1, 2), keepdims=True)[..., None]
    return mask.any(axis=2, keepdims=True)[..., None]


Merge: TypeAlias = Callable[[Mask, Any, Any], Any]


def merger(form: Form) -> Merge:
    """Returns `merge(mask, new, old)`, which selects the new value where the mask is set."""
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
