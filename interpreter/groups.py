"""
Converts values between the axes (subgroup, lane) and a single axis over the members of a group.

Group instructions work on arrays (workgroup, group, member, ...). The members are the subgroup's
lanes, or all invocations of the workgroup by local index.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xdsl_spirv.dialects.spirv.enums import Scope
from xdsl_spirv.interpreter.batch import Batch
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.numbers import Array


@dataclass(frozen=True)
class Group:
    """
    The set of invocations that execute a group instruction together. A workgroup is treated as one
    large subgroup.
    """

    workgroup: bool

    def row(self, value: Array, batch: Batch) -> Array:
        """
        Converts a value from the axes (workgroup, subgroup, lane, ...) to (workgroup, group,
        member, ...).

        The member axis always has its full length, also for a uniform value.
        """
        if not self.workgroup:
            if value.shape[2] == batch.lanes:
                return value
            return np.broadcast_to(value, (*value.shape[:2], batch.lanes, *value.shape[3:]))
        shape = (value.shape[0], batch.subgroups, batch.lanes, *value.shape[3:])
        full = np.broadcast_to(value, shape)
        return full.reshape(shape[0], 1, batch.subgroups * batch.lanes, *shape[3:])

    def spread(self, row: Array, batch: Batch) -> Array:
        """
        Converts the axes (workgroup, group, member, ...) back to (workgroup, subgroup, lane, ...).
        A uniform value needs no change.
        """
        if not self.workgroup or row.shape[2] == 1:
            return row
        return row.reshape(row.shape[0], batch.subgroups, batch.lanes, *row.shape[3:])

    def members(self, batch: Batch) -> int:
        """
        Returns the number of members in a group, including places without an invocation in a partly
        filled subgroup.
        """
        return batch.subgroups * batch.lanes if self.workgroup else batch.lanes

    def invocations(self, batch: Batch) -> int:
        """Returns the number of invocations in a full group."""
        return batch.geometry.invocations if self.workgroup else batch.lanes

    def ids(self, batch: Batch) -> Array:
        """Returns the index of each member in its group, as an array (1, 1, member)."""
        return np.arange(self.members(batch), dtype=np.int64).reshape(1, 1, -1)

    def active(self, batch: Batch) -> Array:
        """Returns a mask (workgroup, group, member) of the active members."""
        return self.row(batch.active(), batch)


def group_of(scope: Scope) -> Group:
    """Returns the group of an execution scope: Subgroup or Workgroup."""
    if scope not in (Scope.Subgroup, Scope.Workgroup):
        raise InterpreterError(
            f"group instructions of scope {scope.name} are not supported",
            remedy="use the scope Subgroup or Workgroup",
        )
    return Group(scope == Scope.Workgroup)


def take_members(row: Array, source: Array) -> Array:
    """Gathers from `row` by the member indices `source`. An invalid index reads member 0."""
    count = row.shape[2]
    source = np.where((source >= 0) & (source < count), source, 0)
    lead = np.broadcast_shapes(row.shape[:2], source.shape[:2])
    row = np.broadcast_to(row, lead + row.shape[2:])
    source = np.broadcast_to(source, lead + source.shape[2:])
    extra = (1,) * (row.ndim - 3)
    return np.take_along_axis(row, source.reshape(source.shape + extra), axis=2)
