"""
Tracks, for each workgroup and subgroup, the time before which barriers order all accesses.

This time is called a horizon. A control barrier moves it to the present. A write must happen before
another invocation's read, must be made available, and must then be made visible to the reader. The
accesses themselves or barriers may do the last two. There are therefore four horizons:

- EXECUTION: accesses before this horizon happen before later ones;
- AVAILABLE: barriers have made all writes before this horizon available;
- VISIBLE: barriers have made visible all writes before this horizon that became available without a
  barrier;
- SEEN: barriers have made all writes before this horizon available and then visible.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xdsl_spirv.interpreter.checks.accessors import SAME_SUBGROUP, SAME_WORKGROUP, Accessors
from xdsl_spirv.interpreter.checks.memory_model import Semantics
from xdsl_spirv.interpreter.forms import Mask
from xdsl_spirv.interpreter.numbers import Array

EXECUTION, AVAILABLE, VISIBLE, SEEN = range(4)
STORAGES = 3


@dataclass(frozen=True)
class Snapshot:
    """A copy of the horizons at one moment. The arrays are never changed later."""

    first: int
    groups: Array
    near: Array
    moved: bool
    """True if any of the workgroups has executed a barrier."""


class Horizons:
    """
    The horizons of one chunk of workgroups: the times before which barriers order all accesses.

    `groups` has the axes (storage, kind of horizon, workgroup); `near` has a further axis
    (subgroup). `low` is the minimum over all workgroups.
    """

    def __init__(self, accessors: Accessors, start: int):
        workgroups, subgroups, _ = accessors.lanes.shape
        self.first, self.moved = accessors.first, False
        self.subgroups_each = accessors.subgroups_each
        self.groups = np.full((STORAGES, 4, workgroups), start, np.int64)
        self.near = np.full((STORAGES, 4, workgroups, subgroups), start, np.int64)
        self.low = np.full((STORAGES, 4), start, np.int64)

    def snapshot(self) -> Snapshot:
        """Returns a copy of the current horizons."""
        return Snapshot(self.first, self.groups, self.near, self.moved)

    def barrier(self, semantics: Semantics, level: int, mask: Mask, now: int) -> None:
        """Records a control barrier that the lanes of `mask` reached at time `now`."""
        self.moved = True
        level = min(level, semantics.scope if semantics.release | semantics.acquire else level)
        self.groups, self.near = self.groups.copy(), self.near.copy()
        groups, near = _touched_groups(mask, self.near.shape[2:])
        for storage in range(STORAGES):
            bit = 1 << storage
            released = semantics.release & bit and semantics.acquire & bit
            if released and level >= SAME_SUBGROUP:
                _move(self.near[storage], near, now, semantics, SAME_SUBGROUP)
            if released and level >= SAME_WORKGROUP:
                _move(self.groups[storage], groups, now, semantics, SAME_WORKGROUP)
        self.low = self.groups.min(axis=2)


def _touched_groups(mask: Mask, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Returns masks of the workgroups and of the subgroups that have active invocations."""
    if mask is None:
        return np.ones(shape[:1], np.bool_), np.ones(shape, np.bool_)
    near = np.broadcast_to(mask.any(axis=2), shape)
    return near.any(axis=1), near


def _move(kinds: Array, where: Array, now: int, semantics: Semantics, level: int) -> None:
    kinds[EXECUTION][where] = now
    if semantics.available >= level:
        kinds[AVAILABLE][where] = now
    if semantics.visible >= level:
        kinds[VISIBLE][where] = now
        kinds[SEEN][where] = np.maximum(kinds[SEEN], kinds[AVAILABLE])[where]
