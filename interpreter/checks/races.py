"""
Finds data races under the order that the Vulkan memory model guarantees.

Two accesses by different invocations to one location race if at least one is a write, they are not
both atomic, and they are not location-ordered. Location-ordered means that the first happens before
the second, and that its value was made available and visible to the second. Lockstep execution does
not count as an order.

The order is tested in two steps. The first step compares all accesses of an instruction with the
times before which barriers order all accesses (horizons.py). This suffices in most launches. The
second step tests the remaining pairs exactly: by the semantics of each access (memory_model.py),
the order of barriers, and the order that atomics give (knowledge.py).

The specification does not say which invocation accesses a component in a cooperative load or store.
The whole scope instance (such as the subgroup) therefore counts as the accessor. Two such accesses
to the same matrix type by the same instance are ordered.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.ir import Operation

from xdsl_spirv.dialects.spirv import barrier as barriers
from xdsl_spirv.dialects.spirv import kernel
from xdsl_spirv.dialects.spirv.atomic import AtomicOperation
from xdsl_spirv.dialects.spirv.enums import Scope
from xdsl_spirv.interpreter.batch import Batch
from xdsl_spirv.interpreter.checks import horizons as kinds
from xdsl_spirv.interpreter.checks.accesses import Access, Conflicts, Layout
from xdsl_spirv.interpreter.checks.accessors import (
    ATOMIC,
    IDENTITY,
    KIND,
    LANE,
    PRIVATE,
    SAME_DEVICE,
    SAME_SUBGROUP,
    SAME_WORKGROUP,
    WHO,
    Accessors,
)
from xdsl_spirv.interpreter.checks.findings import Findings
from xdsl_spirv.interpreter.checks.history import HELD, Histories, History, Region
from xdsl_spirv.interpreter.checks.horizons import STORAGES, Horizons
from xdsl_spirv.interpreter.checks.knowledge import Atomic, Barrier, Knowledge
from xdsl_spirv.interpreter.checks.knowledge_tables import LEVELS, ROWS, row
from xdsl_spirv.interpreter.checks.memory_model import (
    BUFFERS,
    IMAGES,
    WORKGROUPS,
    Facts,
    MemoryModel,
    level_of,
    weakest_store,
)
from xdsl_spirv.interpreter.checks.race_reports import (
    HIDDEN,
    KEPT_PRIVATE,
    NARROW,
    OPEN,
    ORDERED,
    RaceReports,
)
from xdsl_spirv.interpreter.forms import Mask
from xdsl_spirv.interpreter.numbers import Array

CONTROL = barriers.ControlBarrierOp | kernel.SplitBarrier
"""Control barriers: instructions at which invocations wait for each other."""

OF_CHUNK = ("batch", "accessors", "horizons")
"""Names of the attributes that are saved and restored if other workgroups run in between."""


class Races:
    """The race check of a launch: the order of its accesses, and the search for races."""

    def __init__(self, checker: Findings):
        self.checker = checker
        module = checker.context.module
        self.model = MemoryModel(checker.context)
        self.histories = Histories(checker.context.written)
        ops = list(module.walk())
        self.near_barriers = any(
            Scope.Subgroup in (op.execution_scope.data, op.memory_scope.data)
            for op in ops
            if isinstance(op, CONTROL)
        )
        fenced = any(self._is_fence(op) for op in ops)
        self.knowledge = Knowledge(self._needs_knowledge(ops), fenced)
        self.reports = RaceReports(self)
        self.stamp = self.arrived = 1
        self.log: list[Operation | None] = [None, None]
        self.facts: list[Facts | None] = [None, None]
        self.available = np.zeros(1024, np.int8)
        self.passed: list[tuple[int, Operation]] = []
        self.started = False

    def _needs_knowledge(self, ops: list[Operation]) -> bool:
        """True if a module has instructions other than control barriers that order accesses."""
        model = self.model
        atomics = [op for op in ops if isinstance(op, AtomicOperation | kernel.AtomicFlag)]
        fences = [op for op in ops if self._is_fence(op)]
        words = [model.semantics(op) for op in (*atomics, *fences)]
        words += [model.semantics(op, "unequal_semantics") for op in atomics]
        named = 0
        for word in words:
            named |= word.release | word.acquire
        bare = any(isinstance(op, CONTROL) and named & ~model.semantics(op).both for op in ops)
        both = any(word.release for word in words) and any(word.acquire for word in words)
        return both and bool(atomics or bare)

    def _is_fence(self, op: Operation) -> bool:
        """True for a memory barrier, or a control barrier that orders memory beyond its scope."""
        if isinstance(op, CONTROL):
            return self.model.semantics(op).scope > level_of(op.execution_scope.data)
        return isinstance(op, barriers.MemoryBarrierOp)

    def start(self, batch: Batch) -> None:
        """Starts a chunk of workgroups whose accesses are not ordered yet."""
        self.batch = batch
        self.accessors = Accessors(batch)
        self.horizons = Horizons(self.accessors, self.stamp)
        if not self.started:
            self.started = True
            self.histories.bind(self.checker.context.memories.all())
            self.weakest = [weakest_store(self.model, s) for s in range(STORAGES)]
            self.narrow = [self._has_narrow_atomics(storage) for storage in range(STORAGES)]
        self.knowledge.start(self.accessors)

    def chunk(self) -> dict[str, Any]:
        """Returns the state of the workgroups that run now. Pass it to `resume` later."""
        return {name: getattr(self, name) for name in OF_CHUNK}

    def resume(self, chunk: dict[str, Any]) -> None:
        """Restores the state of workgroups that were suspended while others ran."""
        for name, value in chunk.items():
            setattr(self, name, value)

    def _has_narrow_atomics(self, storage: int) -> bool:
        """
        True if the module has an atomic whose scope does not contain all invocations that can
        access `storage`.
        """
        wanted = SAME_WORKGROUP if storage == WORKGROUPS else SAME_DEVICE
        atomics = (
            op for op in self.checker.context.module.walk() if isinstance(op, AtomicOperation)
        )
        return any(level_of(op.memory_scope.data) < wanted for op in atomics)

    def tick(self, op: Operation, facts: Facts | None = None) -> int:
        """Advances the clock, logs the instruction, and returns its time."""
        self.stamp += 1
        self.log.append(op)
        self.facts.append(facts)
        if facts is not None and facts.available:
            if self.stamp >= self.available.size:
                self.available = np.resize(self.available, 2 * self.stamp)
                self.available[self.stamp :] = 0
            self.available[self.stamp] = facts.available
        return self.stamp

    def barrier(self, op: Any, mask: Mask, since: int | None = None) -> None:
        """Records a control barrier. `since` is the time of arrival at a split barrier, or None."""
        now = self.tick(op)
        self.passed.append((now, op))
        semantics, level = self.model.semantics(op), level_of(op.execution_scope.data)
        if self.knowledge.active:
            self._log_barrier(op, mask, level, self._is_fence(op))
        self.horizons.barrier(semantics, level, mask, now if since is None else since)

    def fence(self, op: Operation, mask: Mask) -> None:
        """Records a memory barrier. Its semantics apply to the atomics and barriers around it."""
        self.tick(op)
        if self.knowledge.active:
            self._log_barrier(op, mask, 0, True)

    def _log_barrier(self, op: Operation, mask: Mask, level: int, fences: bool) -> None:
        lanes = self.accessors.lanes
        lanes = lanes.reshape(-1) if mask is None else lanes[np.broadcast_to(mask, lanes.shape)]
        semantics, local = self.model.semantics(op), self.horizons.snapshot()
        self.knowledge.add(Barrier(op, self.stamp, semantics, lanes, local, level, fences))

    def synchronize(
        self, access: Any, mask: Mask, wrote: Array, reads: bool, semantics: tuple[str, str]
    ) -> None:
        """Records an executed atomic. `wrote` is a mask of the invocations that changed memory."""
        shadow = access.memory.shadow
        history = None if shadow is None else shadow.known
        if not self.knowledge.active or history is None:
            return
        shape = self.batch.shape
        bytes_at = access.items * access.dtype.itemsize + history.offset
        if history.region.rows == "workgroup":
            bytes_at = bytes_at + np.arange(shape[0])[:, None, None] * history.region.size
        active = np.ones(shape, np.bool_) if mask is None else np.broadcast_to(mask, shape)
        model, op = self.model, access.op
        self.knowledge.add(
            Atomic(
                op,
                self.stamp,
                model.facts(op, True).scope,
                reads,
                id(history.region),
                np.broadcast_to(bytes_at, shape)[active],
                self.accessors.lanes[active],
                np.broadcast_to(wrote, shape)[active],
                (model.semantics(op, semantics[0]), model.semantics(op, semantics[1])),
                self.horizons.snapshot(),
            )
        )

    def note(self, history: History, access: Access) -> None:
        """Records accesses, and reports accesses that race with earlier ones."""
        region = history.region
        region.refine(access.granule)
        access.memory, access.offset = history.memory, history.offset
        facts = self.model.facts(access.op, access.write)
        storage = IMAGES if history.memory.image is not None else BUFFERS
        storage = WORKGROUPS if region.rows == "workgroup" else storage
        if not access.write and self._can_wait(region, access, storage, facts):
            region.held.append((self.tick(access.op, facts), history, access))
            if len(region.held) > HELD:
                self._store_held(region)
            return
        self._store_held(region)
        index, who = self._flatten(history, access)
        if not index.size:
            return
        flags = ATOMIC if access.atomic else PRIVATE if facts.private else 0
        if flags:
            who = who | flags
        stamp = self.tick(access.op, facts)
        now = stamp << 32 | who
        self._compare(region, "writes", index, who, storage, access, facts)
        self._note_variable(region, access, facts, index, who, now)
        if not access.write:
            self._read(region, index, now, who, storage, access.layout)
            region.last["reads"] = stamp
            return
        self._compare(region, "reads", index, who, storage, access, facts)
        region.last["writes"] = stamp
        if access.atomic:
            self._change(region, index, now)
            return
        region.words["writes"][index] = now
        back = region.words["writes"].take(index)
        clash = back != now
        if clash.any():
            conflicts = Conflicts("writes", clash, index, who, back)
            self.reports.together(region, access, conflicts, index)
        else:
            access.apart = int(who.flat[0]) & KIND == LANE

    def _can_wait(self, region: Region, access: Access, storage: int, facts: Facts) -> bool:
        """
        True if a read need not be recorded before the next write. This requires that a barrier
        orders all earlier writes, and that a later barrier will order the read.
        """
        if storage != WORKGROUPS or access.atomic or self.model.vulkan or len(region.names) > 1:
            return False
        horizons, kind = self.horizons, self._horizon("writes", storage, False, facts)
        after_writes = region.last["writes"] < horizons.low[storage, kind]
        return after_writes and self._is_coarse(storage)

    def _is_coarse(self, storage: int) -> bool:
        """
        True if accesses to this storage are ordered only by barriers that all workgroups have
        passed.
        """
        if storage != WORKGROUPS or self.near_barriers or self.knowledge.active:
            return False
        horizons = self.horizons
        groups = horizons.groups[storage, kinds.EXECUTION]
        return int(horizons.low[storage, kinds.EXECUTION]) == int(groups.max())

    def _store_held(self, region: Region) -> None:
        """Records the delayed reads that no barrier has ordered."""
        held, region.held = region.held, []
        for stamp, history, access in held:
            if stamp < self.horizons.low[WORKGROUPS, kinds.EXECUTION]:
                continue
            index, who = self._flatten(history, access)
            if index.size:
                self._read_coarsely(region, index, stamp << 32 | who, access.layout)
                region.last["reads"] = stamp

    def _note_variable(
        self, region: Region, access: Access, facts: Facts, index: Array, who: Array, now: Array
    ) -> None:
        """Checks whether one location is accessed through several variables."""
        if len(region.names) < 2:
            return
        own = f"reads through {facts.variable}"
        if not access.write:
            region.words_of(own)[index] = now
            return
        for which in [name for name in region.words if name.startswith("reads through")]:
            if which != own:
                earlier = region.words[which][index]
                self.reports.aliases(region, access, facts, "reads", index, who, earlier)

    def _flatten(self, history: History, access: Access) -> tuple[Array, Array]:
        """
        Converts accesses to two arrays: indices of byte ranges (n, ...) and accessor codes (n, 1,
        ...). Sets `access.layout`.
        """
        region, items, mask = history.region, access.items, access.mask
        factor = access.granule // region.granule
        if factor > 1:
            items = items[..., None] * factor + np.arange(factor)
        if history.offset:
            items = items + history.offset // region.granule
        accessors = self.accessors
        if access.scope is not None:
            near = access.scope == Scope.Subgroup
            who = accessors.subgroups if near else accessors.workgroups
            if mask is not None:
                mask = mask.any(axis=2 if near else (1, 2), keepdims=True)
        elif items.shape[2] not in (1, self.batch.shape[2]):
            # Lanes stand for a matrix's components, so the accessor is the matrix's whole scope.
            who = accessors.workgroups if items.shape[1] == 1 else accessors.subgroups
        elif not access.write and mask is None and items.shape[2] == 1 and self.batch.lanes > 1:
            who = accessors.subgroups
        else:
            who = accessors.lanes
        tail = items.shape[3:]
        lead = np.broadcast_shapes(items.shape[:3], who.shape)
        if region.rows == "workgroup":
            rows = np.arange(lead[0]) * region.length
            items = items + rows.reshape(-1, *(1,) * (items.ndim - 1))
        items = np.broadcast_to(items, lead + tail)
        who = np.broadcast_to(who, lead)
        if mask is None:
            access.layout = lead, None, tail
            return items.reshape(-1, *tail), _column(who.reshape(-1), tail)
        chosen = np.broadcast_to(mask, lead)
        access.layout = lead, chosen, tail
        return items[chosen], _column(who[chosen], tail)

    # First step: horizons.

    def _compare(
        self,
        region: Region,
        which: str,
        index: Array,
        who: Array,
        storage: int,
        access: Access,
        facts: Facts,
    ) -> None:
        kind = self._horizon(which, storage, access.write, facts)
        several = len(region.names) > 1
        first = 1
        if storage == WORKGROUPS and not facts.private and not several:
            first = int(self.horizons.low[storage, kind])
        if region.last[which] < first:
            return
        earlier = region.words[which].take(index)
        if int(earlier.max()) < first << 32:
            return
        if several and which == "writes":
            self.reports.aliases(region, access, facts, which, index, who, earlier)
        where = self._is_open(earlier, who, storage, kind)
        if not where.any():
            return
        conflicts = Conflicts(which, where, index, who, earlier)
        if not self.reports.repeats(access.op):
            verdicts = self._judge(region, conflicts, storage, access, facts)
            self.reports.conflicts(region, access, facts, conflicts, verdicts)

    def _horizon(self, which: str, storage: int, write: bool, facts: Facts) -> int:
        """Returns the kind of horizon (barrier time) before which earlier accesses are ordered."""
        if which == "reads":
            return kinds.EXECUTION
        available = self.weakest[storage] >= SAME_WORKGROUP
        if write or facts.visible >= SAME_WORKGROUP:
            return kinds.EXECUTION if available else kinds.AVAILABLE
        return kinds.VISIBLE if available else kinds.SEEN

    def _is_open(self, earlier: Array, who: Array, storage: int, kind: int) -> Array:
        """Returns a mask of the earlier accesses that no barrier orders, or that are private."""
        accessors = self.accessors
        if int(who.flat[0]) & KIND == LANE and not ((earlier ^ who) & IDENTITY).any():
            return np.zeros(earlier.shape, np.bool_)
        before = earlier & WHO
        alone = accessors.are_one_invocation(before, who)
        if not self.narrow[storage]:
            alone |= (before & who & ATOMIC) != 0
        others = (earlier != 0) & ~alone
        if not others.any():
            return others
        group = accessors.group_of(who)
        ordered = earlier >> 32 < self.horizons.groups[storage, kind][group - accessors.first]
        if storage != WORKGROUPS:
            ordered &= group == accessors.group_of(before)
        if self.near_barriers:
            ordered |= self._precedes_barrier(earlier, who, storage, kind)
        ordered &= ((before | who) & PRIVATE) == 0
        return others & ~ordered

    def _precedes_barrier(self, earlier: Array, who: Array, storage: int, kind: int) -> Array:
        """Returns a mask of the accesses that the same subgroup made before its last barrier."""
        stamp, subgroup = earlier >> 32, self.accessors.subgroup_of(who)
        near = self.horizons.near[storage, kind].reshape(-1)
        start = self.accessors.first * self.accessors.subgroups_each
        own = np.clip(subgroup - start, 0, near.size - 1)
        same = (subgroup >= 0) & (subgroup == self.accessors.subgroup_of(earlier & WHO))
        return same & (stamp < near[own])

    # Second step: pairs that horizons do not order.

    def _judge(
        self, region: Region, conflicts: Conflicts, storage: int, access: Access, facts: Facts
    ) -> Array:
        verdicts = self._judge_singles(region, conflicts, storage, access.write, facts)
        if conflicts.which == "writes" and not access.write:
            # A value stays visible to an invocation that an earlier read made visible.
            reads = region.words["reads"][conflicts.index]
            again = self.accessors.are_one_invocation(reads, conflicts.who)
            again &= reads >> 32 > conflicts.earlier >> 32
            for number in np.flatnonzero(again & (verdicts == HIDDEN)):
                seen = self.facts[int(reads[number]) >> 32]
                if seen is not None and seen.visible:
                    verdicts[number] = ORDERED
        return verdicts

    def _judge_singles(
        self, region: Region, conflicts: Conflicts, storage: int, write: bool, facts: Facts
    ) -> Array:
        """
        Returns a verdict for each conflict: the worst verdict over the recorded accesses by single
        invocations.
        """
        words, who = conflicts.earlier, conflicts.who
        joined = (words & KIND) != LANE
        if not self.knowledge.active or not joined.any():
            return self._verdicts(words, who, conflicts.which, storage, write, facts)
        where, singles = region.singles_at(conflicts.which, conflicts.index[joined], words[joined])
        places = np.concatenate([np.flatnonzero(~joined), np.flatnonzero(joined)[where]])
        singles_of_places = np.concatenate([words[~joined], singles])
        single_verdicts = self._verdicts(
            singles_of_places, who[places], conflicts.which, storage, write, facts
        )
        verdicts = np.zeros(words.size, np.int64)
        # The least ordered of several accesses gives the verdict and appears in the message.
        worst = np.lexsort((single_verdicts == OPEN, single_verdicts != ORDERED))
        verdicts[places[worst]] = single_verdicts[worst]
        conflicts.earlier[places[worst]] = singles_of_places[worst]
        return verdicts

    def _verdicts(
        self, words: Array, who: Array, which: str, storage: int, write: bool, facts: Facts
    ) -> Array:
        stamps, before = words >> 32, words & WHO
        accessors = self.accessors
        distance = accessors.distance(before & IDENTITY, who & IDENTITY)
        known_stamps = np.where(stamps < self.available.size, stamps, 0)
        available = self.available[known_stamps]
        times = self._times(words, who, storage)
        happens = stamps[:, None] <= times
        before_now = happens[:, 0]
        if which == "reads":
            reached = before_now
        else:
            by_itself = available >= distance
            reached = before_now & by_itself
            if not write:
                reached &= facts.visible >= distance
            reached |= self._is_shown(happens, available, SAME_DEVICE if write else facts.visible)
        atomic = (before & who & ATOMIC) != 0
        private = ((before | who) & PRIVATE) != 0
        verdicts = np.where(reached, ORDERED, np.where(before_now, HIDDEN, OPEN))
        verdicts = np.where((before_now | reached) & private, KEPT_PRIVATE, verdicts)
        if atomic.any():
            # Atomics on one location are ordered with each other if both scopes contain both
            # invocations.
            scopes = np.array([self._atomic_scope(int(stamp)) for stamp in stamps])
            holds = np.minimum(scopes, facts.scope) >= distance
            verdicts = np.where(atomic & holds, ORDERED, verdicts)
            verdicts = np.where(atomic & (verdicts != ORDERED), NARROW, verdicts)
        return np.where(accessors.are_one_invocation(before, who), ORDERED, verdicts)

    def _atomic_scope(self, stamp: int) -> int:
        facts = self.facts[stamp]
        return SAME_DEVICE if facts is None else facts.scope

    @staticmethod
    def _is_shown(happens: Array, available: Array, visible: int) -> Array:
        """
        Returns a mask of the earlier writes that were made available, and visible at level
        `visible`.

        `happens` states for each write and each of the `ROWS` whether the write is ordered before
        the read. `available` is the level to which each write itself makes its data available.
        """
        shown = np.zeros(available.shape, np.bool_)
        for m in range(LEVELS):
            here = np.zeros_like(shown)
            for k in range(visible + 1):
                here |= happens[:, row(m, k)]
            shown |= here & (available >= m)
        return shown

    def _times(self, words: Array, who: Array, storage: int) -> Array:
        """
        Returns `ROWS` time stamps for each earlier access in `words`.

        Each row stands for one meaning of "ordered before the accesses of `who`". Accesses up to
        the row's time stamp are ordered.
        """
        times = np.zeros((words.size, ROWS), np.int64)
        accessors, before = self.accessors, words & IDENTITY
        group, subgroup = accessors.group_of(who), accessors.subgroup_of(who)
        near = self.horizons.near[storage].reshape(4, -1)
        start = accessors.first * accessors.subgroups_each
        own = np.clip(subgroup - start, 0, near.shape[1] - 1)
        same_group = group == accessors.group_of(before)
        if storage == WORKGROUPS:
            same_group[:] = True
        same_subgroup = (subgroup >= 0) & (subgroup == accessors.subgroup_of(before))
        local = (
            (SAME_WORKGROUP, same_group, self.horizons.groups[storage][:, group - accessors.first]),
            (SAME_SUBGROUP, same_subgroup, near[:, own]),
        )
        for level, holds, ends in local:
            # A horizon is exclusive: accesses at its own time are not ordered.
            ends = np.where(holds, ends - 1, 0)
            pairs = [(0, kinds.EXECUTION), (row(0, 0), kinds.SEEN), (row(level, 0), kinds.VISIBLE)]
            pairs += [(row(0, k), kinds.AVAILABLE) for k in range(SAME_SUBGROUP, level + 1)]
            for number, kind in pairs:
                times[:, number] = np.maximum(times[:, number], ends[kind])
        if self.knowledge.active:
            self.knowledge.replay()
            lanes = accessors.lane_of(who & IDENTITY)
            times = np.maximum(times, self.knowledge.rows(lanes, before, storage))
        return times

    # Recording readers.

    def _read(
        self,
        region: Region,
        index: Array,
        now: Array,
        who: Array,
        storage: int,
        layout: Layout,
    ) -> None:
        if self._is_coarse(storage):
            self._read_coarsely(region, index, now, layout)
            return
        earlier = region.words["reads"].take(index)
        low = int(self.horizons.low[storage, kinds.EXECUTION])
        fresh = earlier >= low << 32 if storage == WORKGROUPS else earlier != 0
        if fresh.any():
            fresh = fresh & self._is_open(earlier, who, storage, kinds.EXECUTION)
            region.keep_last(index, now, earlier, fresh)
        region.join("reads", index, now, earlier, fresh, self.accessors, self.knowledge.active)

    def _change(self, region: Region, index: Array, now: Array) -> None:
        """
        Records the writers of an atomic for byte ranges (granules). If the earlier writer was
        atomic, too, records the smallest group that contains both writers.
        """
        earlier = region.words["writes"].take(index)
        fresh = (earlier & ATOMIC) != 0
        region.join("writes", index, now, earlier, fresh, self.accessors, self.knowledge.active)

    def _read_coarsely(self, region: Region, index: Array, now: Array, layout: Layout) -> None:
        def whole_groups(where: Array) -> Array:
            lead, chosen, tail = layout
            codes = np.broadcast_to(self.accessors.workgroups, lead)
            codes = _column(codes.reshape(-1) if chosen is None else codes[chosen], tail)
            shared = now & ~np.int64(WHO) | codes | now & PRIVATE
            return np.broadcast_to(shared, where.shape)[where]

        low = int(self.horizons.low[WORKGROUPS, kinds.EXECUTION])
        several, new = None, now
        if region.last["reads"] >= low:
            earlier = region.words["reads"].take(index)
            several = region.keep_last(index, now, earlier, earlier >= low << 32)
        if several is not None:
            new = np.broadcast_to(now, several.shape).copy()
            new[several] = whole_groups(several)
        words = region.words["reads"]
        words[index] = new
        clash = words.take(index) != new
        if clash.any():
            words[np.broadcast_to(index, clash.shape)[clash]] = whole_groups(clash)


def _column(who: Array, tail: tuple[int, ...]) -> Array:
    return who.reshape(-1, *(1,) * len(tail))
