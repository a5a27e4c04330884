"""
Represents the invocations that execute together: all lanes of a chunk of workgroups.

In addition to its operands, an instruction may read this state of a batch: the shape of the chunk,
the mask of active lanes, the workgroup ids, and the memory of the module's variables.

Lanes execute in lockstep: each instruction is executed for all active lanes before the next one
starts. Everything written before a barrier is therefore in memory when an invocation passes the
barrier, and barriers do nothing. A schedule (schedule.py) splits the invocations into several
batches.
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
    """The shape of a launch: the grid, the workgroup size and the subgroup size."""

    grid: Triple
    workgroup: Triple
    lanes: int

    @property
    def invocations(self) -> int:
        """Number of invocations of one workgroup."""
        x, y, z = self.workgroup
        return x * y * z

    @property
    def subgroups(self) -> int:
        """Number of subgroups of one workgroup. The last subgroup may be partly filled."""
        return -(-self.invocations // self.lanes)

    @property
    def workgroups(self) -> int:
        """Number of workgroups of the grid."""
        x, y, z = self.grid
        return x * y * z


class Batch:
    """
    Workgroups of a launch that execute together, and the state of their execution.

    `first` and `last` (exclusive) are the range of their linear indices. A batch made by `Batch.of`
    may skip workgroups in the range.

    - `mask`: the active lanes, None if all are active.
    - `partial`: True if lanes have diverged, so that new values must be merged with older ones.
    - `existing`: the lanes that exist, None if all exist.
    - `departures`: number of divergent returns, breaks and continues.
    - `nobody`: True if no lane is left in the region.
    - `pauses`: True if execution may be suspended (suspension.py).
    - `resuming`: the frames in which a suspended batch continues, outermost frame last.
    - `apart`: True if other batches run invocations of the same workgroups. The batch then stops at
      barriers.
    - `meets`: the lanes that execute the next barrier together, also lanes of these other batches.
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
        """Returns a copy of the batch with only these subgroups (by index) of each workgroup."""
        batch = copy(self)
        batch.subgroups = numbers.size
        batch.local_index = self.local_index[:, numbers]
        batch.mask = None if self.mask is None else self.mask[:, numbers]
        batch.existing = batch.mask
        return batch

    def lanes_only(self, lanes: Array) -> Batch:
        """Returns a copy of the batch in which only the invocations of the mask `lanes` exist."""
        batch = copy(self)
        batch.mask = batch.existing = lanes
        return batch

    @property
    def shape(self) -> Triple:
        """Shape of the chunk: (workgroups, subgroups, lanes)."""
        return self.workgroups, self.subgroups, self.lanes

    def active(self) -> Array:
        """Returns the mask of active lanes as a bool array that broadcasts to the chunk's shape."""
        return np.ones((1, 1, 1), np.bool_) if self.mask is None else self.mask

    def local_ids(self) -> tuple[Array, Array, Array]:
        """Returns (x, y, z) of LocalInvocationId, each an array (1, subgroup, lane)."""
        x, y, _ = self.geometry.workgroup
        index = self.local_index
        return index % I32.type(x), index // I32.type(x) % I32.type(y), index // I32.type(x * y)

    def lane_ids(self) -> Array:
        """Returns SubgroupLocalInvocationId as an array (1, 1, lane)."""
        return np.arange(self.lanes, dtype=I32).reshape(1, 1, -1)

    def subgroup_ids(self) -> Array:
        """Returns SubgroupId as an array (1, subgroup, 1)."""
        return self.local_index[:, :, :1] // I32.type(self.lanes)
