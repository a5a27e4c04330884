"""
Values of a subgroup or a workgroup in a row, and back.

Group instructions see (w, groups, members, ...): the subgroup's lanes, or all invocations of the
workgroup in the order of their local index.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xdsl_spirv.dialects.spirv.enums import Scope
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.numbers import Array
from xdsl_spirv.interpreter.wave import Wave


@dataclass(frozen=True)
class Group:
    """The scope of a group instruction: Subgroup, or Workgroup as one long subgroup."""

    workgroup: bool

    def row(self, value: Array, wave: Wave) -> Array:
        """(w, groups, members, ...) with all members present."""
        if not self.workgroup:
            if value.shape[2] == wave.lanes:
                return value
            return np.broadcast_to(value, (*value.shape[:2], wave.lanes, *value.shape[3:]))
        shape = (value.shape[0], wave.subgroups, wave.lanes, *value.shape[3:])
        full = np.broadcast_to(value, shape)
        return full.reshape(shape[0], 1, wave.subgroups * wave.lanes, *shape[3:])

    def spread(self, row: Array, wave: Wave) -> Array:
        """A row back over (w, s, l); one value for all members stays one."""
        if not self.workgroup or row.shape[2] == 1:
            return row
        return row.reshape(row.shape[0], wave.subgroups, wave.lanes, *row.shape[3:])

    def members(self, wave: Wave) -> int:
        """How many invocations a group has room for."""
        return wave.subgroups * wave.lanes if self.workgroup else wave.lanes

    def invocations(self, wave: Wave) -> int:
        """How many invocations a full group has."""
        return wave.geometry.invocations if self.workgroup else wave.lanes

    def ids(self, wave: Wave) -> Array:
        """(1, 1, members): each member's number."""
        return np.arange(self.members(wave), dtype=np.int64).reshape(1, 1, -1)

    def active(self, wave: Wave) -> Array:
        """(w, groups, members) of the active ones."""
        return self.row(wave.active(), wave)


def group_of(scope: Scope) -> Group:
    """The group of an execution scope."""
    if scope not in (Scope.Subgroup, Scope.Workgroup):
        raise InterpreterError(
            f"group instructions of scope {scope.name} are not executed",
            remedy="use the scope Subgroup or Workgroup",
        )
    return Group(scope == Scope.Workgroup)


def take_members(row: Array, source: Array) -> Array:
    """`row` at member numbers (w, groups, members); numbers outside read member 0."""
    count = row.shape[2]
    source = np.where((source >= 0) & (source < count), source, 0)
    lead = np.broadcast_shapes(row.shape[:2], source.shape[:2])
    row = np.broadcast_to(row, lead + row.shape[2:])
    source = np.broadcast_to(source, lead + source.shape[2:])
    extra = (1,) * (row.ndim - 3)
    return np.take_along_axis(row, source.reshape(source.shape + extra), axis=2)
