"""
Encodes who accessed a memory location: one invocation, a subgroup, a workgroup, or several
workgroups.

A history has room for one code per location. Several readers are therefore recorded as the smallest
group that contains all of them. A code consists of the kind of group, the index of the group in the
launch, and two flags of the access: atomic and private.
"""

from __future__ import annotations

from math import prod
from typing import TypeAlias

import numpy as np

from xdsl_spirv.interpreter.batch import Batch
from xdsl_spirv.interpreter.numbers import Array

LANE, SUBGROUP, WORKGROUP, SEVERAL = (kind << 30 for kind in range(4))
KIND = 3 << 30
ATOMIC, PRIVATE = 1 << 29, 1 << 28
NUMBER = PRIVATE - 1
IDENTITY = KIND | NUMBER
WHO = (1 << 32) - 1
"""Mask of the accessor code in a history word. The time stamp is in the bits above."""

Triple: TypeAlias = tuple[int, int, int]

SAME_INVOCATION, SAME_SUBGROUP, SAME_WORKGROUP, SAME_DEVICE = range(4)
"""Smallest scope that contains two accessors, numbered from the narrowest to the widest."""


class Accessors:
    """Computes and compares the accessor codes of the invocations of one chunk of workgroups."""

    def __init__(self, batch: Batch):
        shape = batch.shape
        self.grid = batch.geometry.grid
        self.lanes_each, self.subgroups_each = batch.lanes, batch.subgroups
        self.per_workgroup = batch.subgroups * batch.lanes
        self.invocations, self.count = batch.geometry.invocations, batch.geometry.workgroups
        self.first = batch.first
        first = batch.first * self.per_workgroup
        self.lanes = first + np.arange(prod(shape), dtype=np.int64).reshape(shape)
        self.subgroups = SUBGROUP | (self.lanes[:, :, :1] // batch.lanes)
        self.workgroups = WORKGROUP | (self.lanes[:, :1, :1] // self.per_workgroup)

    def group_of(self, codes: Array) -> Array:
        """Returns the workgroup index of each accessor code, or -1 for several workgroups."""
        codes = np.asarray(codes, np.int64)
        kind, number = codes & KIND, codes & NUMBER
        group = np.where(kind == LANE, number // self.per_workgroup, number)
        group = np.where(kind == SUBGROUP, number // self.subgroups_each, group)
        return np.where(kind == SEVERAL, -1, group)

    def subgroup_of(self, codes: Array) -> Array:
        """Returns the subgroup index of each accessor code, or -1 for several subgroups."""
        codes = np.asarray(codes, np.int64)
        kind, number = codes & KIND, codes & NUMBER
        own = np.where(kind == SUBGROUP, number, -1)
        return np.where(kind == LANE, number // self.lanes_each, own)

    def lane_of(self, codes: Array) -> Array:
        """
        Returns the first invocation that each code of accessors stands for. The result is -1 for
        the code of several workgroups.
        """
        kind, number = codes & KIND, codes & NUMBER
        lane = np.where(kind == SUBGROUP, number * self.lanes_each, number)
        lane = np.where(kind == WORKGROUP, number * self.per_workgroup, lane)
        return np.where(kind == SEVERAL, -1, lane)

    def wider(self, code: int) -> list[int]:
        """
        Returns the accessor codes of the subgroup and of the workgroup that contain an accessor.
        """
        kind, number = code & KIND, code & NUMBER
        if kind == LANE:
            return [SUBGROUP | number // self.lanes_each, WORKGROUP | number // self.per_workgroup]
        return [WORKGROUP | number // self.subgroups_each] if kind == SUBGROUP else []

    def members(self, code: int) -> list[int]:
        """
        Returns the codes one level below: the subgroups of a workgroup, or the invocations of a
        subgroup.
        """
        kind, number = code & KIND, code & NUMBER
        if kind == SUBGROUP:
            start = number * self.lanes_each
            lanes = range(start, start + self.lanes_each)
            return [lane for lane in lanes if lane % self.per_workgroup < self.invocations]
        if kind == WORKGROUP:
            start = number * self.subgroups_each
            return [SUBGROUP | n for n in range(start, start + self.subgroups_each)]
        return [WORKGROUP | n for n in range(self.count)] if kind == SEVERAL else []

    def distance(self, a: Array, b: Array) -> Array:
        """Returns the smallest scope (`SAME_INVOCATION`, ...) that contains both accessors."""
        a, b = np.broadcast_arrays(a, b)
        groups, others = self.group_of(a), self.group_of(b)
        near, far = self.subgroup_of(a), self.subgroup_of(b)
        same = np.where((groups == others) & (groups >= 0), SAME_WORKGROUP, SAME_DEVICE)
        same = np.where((near == far) & (near >= 0), SAME_SUBGROUP, same)
        return np.where(self.are_one_invocation(a, b), SAME_INVOCATION, same)

    def between(self, a: int, b: int) -> int:
        """Returns the smallest scope (`SAME_INVOCATION`, ...) that contains both invocations."""
        a, b = a & NUMBER, b & NUMBER
        if a == b:
            return SAME_INVOCATION
        if a // self.lanes_each == b // self.lanes_each:
            return SAME_SUBGROUP
        return SAME_WORKGROUP if a // self.per_workgroup == b // self.per_workgroup else SAME_DEVICE

    @staticmethod
    def are_one_invocation(a: Array, b: Array) -> Array:
        """Returns a mask that is True where both accessor codes stand for one invocation."""
        return ((a & KIND) == LANE) & (((a ^ b) & IDENTITY) == 0)

    def join(self, a: Array, b: Array) -> Array:
        """
        Returns the code of the smallest group that contains both accessors, with the later of their
        time stamps.
        """
        first, second = a & WHO, b & WHO
        flags = first & second & ATOMIC | (first | second) & PRIVATE
        groups = self.group_of(first), self.group_of(second)
        subgroups = self.subgroup_of(first), self.subgroup_of(second)
        in_subgroup = (subgroups[0] == subgroups[1]) & (subgroups[0] >= 0)
        in_group = (groups[0] == groups[1]) & (groups[0] >= 0)
        who = np.where(in_group, WORKGROUP | groups[0], SEVERAL)
        who = np.where(in_subgroup, SUBGROUP | subgroups[0], who)
        who = np.where((first ^ second) & IDENTITY == 0, first & IDENTITY, who)
        return np.maximum(a >> 32, b >> 32) << 32 | who | flags

    def are_in(self, codes: Array) -> Array:
        """
        Returns a mask of the chunk's invocations that the accessor codes contain. The codes must be
        all of invocations, all of subgroups, or all of workgroups.
        """
        numbers = np.unique(codes & NUMBER)
        kind = int(codes.reshape(-1)[0]) & KIND
        own = {LANE: self.lanes, SUBGROUP: self.subgroups}.get(kind, self.workgroups)
        return np.isin(own & NUMBER, numbers)

    def name(self, code: int) -> str:
        """Describes an accessor code for a message."""
        kind, number = code & KIND, code & NUMBER
        if kind == LANE:
            workgroup, lane = divmod(number, self.per_workgroup)
            return f"invocation {lane} of workgroup {self.workgroup(workgroup)}"
        if kind == SUBGROUP:
            workgroup, subgroup = divmod(number, self.subgroups_each)
            return f"subgroup {subgroup} of workgroup {self.workgroup(workgroup)}"
        if kind == WORKGROUP:
            return f"several invocations of workgroup {self.workgroup(number)}"
        return "several workgroups"

    def workgroup(self, number: int) -> Triple:
        """Converts the linear index of a workgroup to its position in the grid."""
        x, y, _ = self.grid
        return number % x, number // x % y, number // (x * y)
