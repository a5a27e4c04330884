"""
The invocations that run together: a chunk of workgroups, all their subgroups and lanes.

A batch holds the state that an instruction may read in addition to its operands: the shape of the
chunk, the mask of active lanes, the positions of the workgroups in the grid, and the memory of the
module's variables.

Lanes execute in lockstep: each instruction is done for every active lane before the next begins. So
whatever an invocation wrote before a barrier is in memory when any other invocation passes it, and
barriers do nothing. A schedule (schedule.py) splits the invocations into several batches.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from xdsl_spirv.interpreter.forms import Mask
from xdsl_spirv.interpreter.numbers import I32, Array

Triple: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True)
class Geometry:
    """The shape of a launch: workgroups, invocations of a workgroup, lanes of a subgroup."""

    grid: Triple
    workgroup: Triple
    lanes: int

    @property
    def invocations(self) -> int:
        """Invocations of one workgroup."""
        x, y, z = self.workgroup
        return x * y * z

    @property
    def subgroups(self) -> int:
        """Subgroups of one workgroup, the last one perhaps partly filled."""
        return -(-self.invocations // self.lanes)

    @property
    def workgroups(self) -> int:
        """Workgroups of the grid."""
        x, y, z = self.grid
        return x * y * z


class Batch:
    """
    The workgroups `first` to `last` (exclusive) of a launch, by their linear index.

    A batch made by `Batch.of` may have gaps between its workgroups; `first` is the lowest index.
    `mask` is None while all lanes are active. `partial` is set in a region whose lanes have
    diverged: a value that outlives its block must then be merged with the older one. `existing`
    masks the lanes that exist. `departures` counts divergent returns, breaks and continues;
    `nobody` is True when no lane is left in the region.

    A batch that `pauses` may stop (suspension.py); `resuming` holds the frames in which it must
    continue, the next one last. `apart` is True if other invocations of its workgroups are in other
    batches, so that it stops at barriers; `meets` holds the lanes of all such batches that execute
    the barrier at which it continues.
    """

    def __init__(self, geometry: Geometry, first: int, last: int):
        self._begin(geometry, np.arange(first, last, dtype=np.int64))

    @classmethod
    def of(cls, geometry: Geometry, numbers: Array) -> Batch:
        """Creates a batch from ascending linear indices of workgroups."""
        batch = cls.__new__(cls)
        batch._begin(geometry, numbers.astype(np.int64))
        return batch

    def _begin(self, geometry: Geometry, numbers: Array) -> None:
        self.geometry = geometry
        self.first = int(numbers[0]) if numbers.size else 0
        self.workgroups = numbers.size
        self.subgroups = geometry.subgroups
        self.lanes = geometry.lanes
        self.partial = False
        self.nobody = False
        self.departures = 0
        self.globals: list[Any] = []
        self.pauses = False
        self.apart = False
        self.meets: Array | None = None
        self.resuming: list[Any] = []
        linear = numbers[:, None, None]
        gx, gy, _ = geometry.grid
        self.workgroup_ids = tuple(
            axis.astype(I32) for axis in (linear % gx, linear // gx % gy, linear // (gx * gy))
        )
        size = self.subgroups * self.lanes
        self.local_index = np.arange(size, dtype=I32).reshape(1, self.subgroups, self.lanes)
        self.mask: Mask = None
        if size != geometry.invocations:
            self.mask = self.local_index < geometry.invocations
        self.existing = self.mask

    def subgroups_only(self, numbers: Array) -> Batch:
        """Returns a batch of some subgroups of each workgroup."""
        batch = copy(self)
        batch.subgroups = numbers.size
        batch.local_index = self.local_index[:, numbers]
        batch.mask = None if self.mask is None else self.mask[:, numbers]
        batch.existing = batch.mask
        return batch

    def lanes_only(self, lanes: Array) -> Batch:
        """Returns a batch of some invocations of each workgroup, selected by a mask."""
        batch = copy(self)
        batch.mask = batch.existing = lanes
        return batch

    @property
    def shape(self) -> Triple:
        """(workgroups, subgroups, lanes) of the chunk."""
        return self.workgroups, self.subgroups, self.lanes

    def active(self) -> Array:
        """The mask as a bool array, broadcastable to the chunk."""
        return np.ones((1, 1, 1), np.bool_) if self.mask is None else self.mask

    def local_ids(self) -> tuple[Array, Array, Array]:
        """LocalInvocationId's three components over (1, subgroup, lane)."""
        x, y, _ = self.geometry.workgroup
        index = self.local_index
        return index % I32.type(x), index // I32.type(x) % I32.type(y), index // I32.type(x * y)

    def lane_ids(self) -> Array:
        """SubgroupLocalInvocationId over (1, 1, lane)."""
        return np.arange(self.lanes, dtype=I32).reshape(1, 1, -1)

    def subgroup_ids(self) -> Array:
        """SubgroupId over (1, subgroup, 1)."""
        return self.local_index[:, :, :1] // I32.type(self.lanes)
