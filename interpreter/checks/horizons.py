"""
Tracks what barriers order: for each workgroup and subgroup, the time before which all is ordered.

A control barrier moves a horizon to the present. There are four horizons: a write must not only
happen before another invocation's read, it must also have been made available and then visible to
the reader, and the accesses themselves or barriers may do either:

- EXECUTION: accesses before this horizon happen before later ones;
- AVAILABLE: barriers have made available all writes before this horizon;
- VISIBLE: barriers have made visible all writes before it that the accesses themselves made
  available;
- SEEN: barriers have made all writes before it available, and later visible.
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
    """
    The horizons of a chunk at one time, by storage and kind. The arrays are never changed later.
    """

    first: int
    groups: Array
    near: Array
    moved: bool
    """True if there was a barrier since the chunk began."""


class Horizons:
    """
    The horizons of one chunk: `groups` (storage, kind, w), `near` (storage, kind, w, s), and `low`,
    the minimum for each storage and kind.
    """

    def __init__(self, accessors: Accessors, start: int):
        workgroups, subgroups, _ = accessors.lanes.shape
        self.first, self.moved = accessors.first, False
        self.subgroups_each = accessors.subgroups_each
        self.groups = np.full((STORAGES, 4, workgroups), start, np.int64)
        self.near = np.full((STORAGES, 4, workgroups, subgroups), start, np.int64)
        self.low = np.full((STORAGES, 4), start, np.int64)

    def snapshot(self) -> Snapshot:
        """Returns the present horizons."""
        return Snapshot(self.first, self.groups, self.near, self.moved)

    def barrier(self, semantics: Semantics, level: int, mask: Mask, now: int) -> None:
        """
        Moves the horizons at a control barrier of subgroups or workgroups, whose invocations
        arrived at `now`.
        """
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
    """Masks of the workgroups and of the subgroups that have active invocations."""
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
