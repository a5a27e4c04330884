"""Represents the memory accesses of one instruction and their conflicts with earlier accesses."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from xdsl.ir import Operation

from xdsl_spirv.dialects.spirv.enums import Scope
from xdsl_spirv.interpreter.forms import Mask
from xdsl_spirv.interpreter.memory import Memory
from xdsl_spirv.interpreter.numbers import Array

Layout: TypeAlias = tuple[tuple[int, ...], Mask, tuple[int, ...]]
"""
Tuple of the leading shape of the accesses, the mask of active invocations, and the shape of the
remaining axes.
"""


class Access:
    """The accesses of one instruction. `items` has the element indices of every invocation."""

    def __init__(
        self,
        op: Operation,
        items: Array,
        granule: int,
        mask: Mask,
        *,
        write: bool = False,
        atomic: bool = False,
        scope: Scope | None = None,
    ):
        self.op = op
        self.items = items
        self.granule = granule
        self.mask = mask
        self.write = write
        self.atomic = atomic
        self.scope = scope
        self.memory: Memory = None  # pyright: ignore
        self.offset = 0
        """Offset of the memory from the start of its region, in bytes."""
        self.new: Callable[[], Array] | None = None
        """Computes the values that a store writes. `old` computes the values that it overwrites."""
        self.old: Callable[[], Array] | None = None
        self.layout: Layout = (), None, ()
        self.apart = False
        """True if the race check found that no two invocations of a store write one location."""


class Conflicts:
    """Pairs of a new and an earlier access to the same bytes, with the codes of both accessors."""

    def __init__(self, which: str, where: Array, index: Array, who: Array, earlier: Array):
        self.which = which
        self.where = where
        chosen = np.nonzero(where)
        self.index = np.broadcast_to(index, where.shape)[chosen]
        self.who = np.broadcast_to(who, where.shape)[chosen]
        self.earlier = np.broadcast_to(earlier, where.shape)[chosen]

    def pick(self, chosen: Array) -> Conflicts:
        """Returns the conflicts that the mask `chosen` selects."""
        picked = object.__new__(Conflicts)
        picked.which = self.which
        picked.where = self.where.copy()
        picked.where[self.where] = chosen
        picked.index, picked.who = self.index[chosen], self.who[chosen]
        picked.earlier = self.earlier[chosen]
        return picked
