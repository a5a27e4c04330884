"""
Implements memory without bytes: Function, Private and Input variables, and pointers to them.

A store replaces the value of a variable. Variables that are only loaded and stored as a whole
therefore cost nothing. A pointer to a part of a variable consists of the variable and a path of
indices. A component of a cooperative matrix is accessed through the option `component_mapping`
(CM-18).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from xdsl_spirv.dialects.spirv.enums import Scope
from xdsl_spirv.interpreter import component_maps
from xdsl_spirv.interpreter.batch import Batch
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.forms import Composite, CooperativeMatrix, Form, Mask, Plain, merger
from xdsl_spirv.interpreter.numbers import Array
from xdsl_spirv.interpreter.options import Mapping

Path: TypeAlias = tuple[Any, ...]
"""Indices, outermost first. An index is an int, or an integer array if it differs between lanes."""


class Variable:
    """A variable of one batch. `shadow` marks the undefined parts of its value, if checked."""

    __slots__ = ("form", "shadow", "value")

    def __init__(self, form: Form, value: Any = None):
        self.form = form
        self.value = value
        self.shadow: Any = None


class VariablePointer:
    """A variable and the path to a part of it."""

    __slots__ = ("path", "variable")

    def __init__(self, variable: Variable, path: Path = ()):
        self.variable = variable
        self.path = path

    def merge(self, mask: Mask, old: Any) -> VariablePointer:
        """
        Returns a pointer that is this one in the lanes of the mask and `old` elsewhere. Both have
        the same variable.
        """
        if old is None or old is self:
            return self
        if old.variable is not self.variable or len(old.path) != len(self.path):
            raise InterpreterError(
                "a pointer refers to different variables in diverged invocations",
                remedy="access each variable in its own branch",
            )
        path = [
            np.where(mask, new, before) for new, before in zip(self.path, old.path, strict=True)
        ]
        return VariablePointer(self.variable, tuple(path))


def component_position(
    form: CooperativeMatrix, mapping: Mapping, batch: Batch, index: Any
) -> tuple[Array, Array]:
    """
    Returns the row-major position of component `index` of each lane, and a mask of the lanes that
    have this component.
    """
    whole = form.scope == Scope.Workgroup
    lanes = batch.geometry.invocations if whole else batch.lanes
    lane = batch.local_index if whole else batch.lane_ids()
    number = np.asarray(index, np.int64)
    if component_maps.fragment(mapping, form, lanes) is None:
        exists = (number * lanes + lane < form.rows * form.columns) & (lane < lanes)
    else:
        exists = (number < component_maps.count(mapping, form, lanes)) & (lane < lanes)
    position = component_maps.positions(mapping, form, lanes, lane.astype(np.int64), number)
    return np.where(exists, position, 0), exists


def extract_component(
    form: CooperativeMatrix, mapping: Mapping, batch: Batch, matrix: Array, index: Any
) -> Array:
    """Returns component `index` of each lane. Returns 0 in lanes that have fewer components."""
    position, exists = component_position(form, mapping, batch, index)
    flat = matrix.reshape(*matrix.shape[:2], -1)
    lead = np.broadcast_shapes(flat.shape[:2], position.shape[:2])
    flat = np.broadcast_to(flat, lead + flat.shape[2:])
    position = np.broadcast_to(position, lead + position.shape[2:])
    components = np.take_along_axis(flat, position, axis=2)
    return np.where(exists, components, 0).astype(form.dtype, copy=False)


def insert_component(
    form: CooperativeMatrix,
    mapping: Mapping,
    batch: Batch,
    matrix: Array,
    index: Any,
    component: Array,
    mask: Mask,
) -> Array:
    """
    Replaces component `index` in active lanes. If lanes share the component, the value of the first
    lane is stored.
    """
    position, exists = component_position(form, mapping, batch, index)
    if mask is not None:
        exists = exists & mask
    flat = matrix.reshape(*matrix.shape[:2], -1)
    shape = np.broadcast_shapes(position.shape, exists.shape, component.shape, (*flat.shape[:2], 1))
    whole = form.scope == Scope.Workgroup
    matrices = (shape[0], 1) if whole else shape[:2]
    result = np.broadcast_to(flat, matrices + flat.shape[2:]).copy()
    chosen = np.nonzero(np.broadcast_to(exists, shape))
    row = np.zeros_like(chosen[1]) if whole else chosen[1]
    values = np.broadcast_to(component, shape)[chosen].astype(form.carrier)
    # numpy stores the last of several values for one index.
    places = (chosen[0], row, np.broadcast_to(position, shape)[chosen])
    result[tuple(place[::-1] for place in places)] = values[::-1]
    return result.reshape(*matrices, form.rows, form.columns)


Part: TypeAlias = Callable[[Batch, Any, Sequence[Any]], Any]


def read_part(form: Form, mapping: Mapping, batch: Batch, value: Any, path: Sequence[Any]) -> Any:
    """Returns the part of a value at a path of indices."""
    if not path:
        return value
    index, *rest = path
    if isinstance(form, CooperativeMatrix):
        return extract_component(form, mapping, batch, value, index)
    if isinstance(form, Composite):
        numbers = chosen_members(form, index)
        first, *others = [
            read_part(form.members[number], mapping, batch, value[number], rest)
            for number in numbers
        ]
        if not others:
            return first
        merge = merger(part_form(form.members[0], rest))
        for number, part in zip(numbers[1:], others, strict=True):
            first = merge(index == number, part, first)
        return first
    assert isinstance(form, Plain)
    return read_part(
        Plain(form.dtype, form.shape[1:]), mapping, batch, take_element(value, index), rest
    )


def write_part(
    form: Form,
    mapping: Mapping,
    batch: Batch,
    value: Any,
    path: Sequence[Any],
    new: Any,
    mask: Mask,
) -> Any:
    """Returns the value with the part at a path replaced in the active lanes."""
    if not path:
        return new if mask is None else merger(form)(mask, new, value)
    index, *rest = path
    if isinstance(form, CooperativeMatrix):
        return insert_component(form, mapping, batch, value, index, new, mask)
    if isinstance(form, Composite):
        numbers, members = chosen_members(form, index), list(value)
        for number in numbers:
            lanes = mask
            if not isinstance(index, int) and index.size > 1:
                lanes = index == number if mask is None else mask & (index == number)
            member = form.members[number]
            members[number] = write_part(member, mapping, batch, value[number], rest, new, lanes)
        return tuple(members)
    assert isinstance(form, Plain)
    inner = Plain(form.dtype, form.shape[1:])
    part = take_element(value, index) if rest or mask is not None else None
    part = write_part(inner, mapping, batch, part, rest, new, mask)
    return put_element(value, index, part, batch.shape)


def chosen_members(form: Composite, index: Any) -> Sequence[int]:
    """Returns the indices of the members that `index` selects in any lane."""
    if isinstance(index, int):
        return (index,)
    count = len(form.members)
    members = [number for number in np.unique(index).tolist() if 0 <= number < count]
    if not members:
        raise InterpreterError(f"index {index.reshape(-1)[0]} is outside an array of {count}")
    if len(members) > 1 and holds_matrix(form.members[0]):
        raise InterpreterError(
            "the index into an array of cooperative matrices differs between invocations",
            remedy="index the array uniformly",
        )
    return members


def holds_matrix(form: Form) -> bool:
    """True if values of this representation contain a cooperative matrix."""
    if isinstance(form, Composite):
        return any(map(holds_matrix, form.members))
    return isinstance(form, CooperativeMatrix)


def part_form(form: Form, path: Sequence[Any]) -> Form:
    """
    Returns the representation of the part of a value at a path. All elements of an array have the
    same one.
    """
    for index in path:
        if isinstance(form, Composite):
            form = form.members[index if isinstance(index, int) else 0]
        elif isinstance(form, CooperativeMatrix):
            form = Plain(form.dtype)
        elif isinstance(form, Plain):
            form = Plain(form.dtype, form.shape[1:])
    return form


def take_element(value: Array, index: Any) -> Array:
    """Returns element `index` along the outermost dimension of a vector or array."""
    if isinstance(index, int) or index.size == 1:
        return value[:, :, :, in_bounds(index if isinstance(index, int) else index.item(), value)]
    lead = np.broadcast_shapes(value.shape[:3], index.shape)
    value = np.broadcast_to(value, lead + value.shape[3:])
    index = np.broadcast_to(np.clip(index, 0, value.shape[3] - 1), lead)
    index = index.reshape(lead + (1,) * (value.ndim - 3)).astype(np.int64)
    return np.take_along_axis(value, index, axis=3)[:, :, :, 0]


def put_element(value: Array, index: Any, element: Array, shape: tuple[int, ...]) -> Array:
    """Returns a vector or array in which element `index` of the outermost dimension is replaced."""
    lead = np.broadcast_shapes(value.shape[:3], element.shape[:3])
    if not isinstance(index, int) and index.size > 1:
        lead = np.broadcast_shapes(lead, index.shape)
    result = np.broadcast_to(value, lead + value.shape[3:]).copy()
    if isinstance(index, int) or index.size == 1:
        number = in_bounds(index if isinstance(index, int) else index.item(), value)
        result[:, :, :, number] = element
        return result
    count = value.shape[3]
    inside = (index >= 0) & (index < count)
    chosen = np.nonzero(np.broadcast_to(inside, lead))
    where = np.broadcast_to(index, lead)[chosen]
    result[(*chosen, where)] = np.broadcast_to(element, lead + element.shape[3:])[chosen]
    return result


def in_bounds(index: Any, value: Array) -> int:
    """
    Returns a uniform index into a vector or array. Raises `InterpreterError` if it is out of
    bounds.
    """
    number, count = int(index), value.shape[3]
    if not 0 <= number < count:
        raise InterpreterError(f"index {number} is outside an array or vector of {count}")
    return number
