"""
Data races, by the order that the Vulkan memory model gives.

Two accesses to one location by different invocations, one of them a write and not both atomic, race
unless something orders them: program order within an invocation, or a barrier that both passed.
That lanes run in lockstep here orders nothing.

Memory is divided into granules, of the finest step that its accesses take. For each, two words say
who wrote it last and who read it since: a time stamp, and an invocation, or all of a subgroup or of
a workgroup where several did. A barrier moves the horizon of its workgroups (or subgroups) to the
present: what lies before it is ordered for the invocations it joined. There are two horizons, since
a write is seen by others only if it was made available and visible as well: a barrier with
AcquireRelease semantics over the memory's storage class orders reads before writes, and in a module
of the Vulkan memory model it must have MakeAvailable and MakeVisible, and the accesses must be
NonPrivatePointer, to order writes before others' accesses.

Atomics order workgroups: one that acquires (or stands in a module whose memory barriers do) is
taken to see all that every workgroup which released at the same location did before. That is
coarser than the model, and never reports what is ordered.

Who performs a component's access of a cooperative load or store is not known, so it is the whole
scope instance; two such accesses with the same matrix type by the same instance are ordered.
"""

from __future__ import annotations

from math import gcd, prod
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from xdsl_spirv.dialects.spirv import barrier as barriers
from xdsl_spirv.dialects.spirv import kernel
from xdsl_spirv.dialects.spirv import memory as memory_ops
from xdsl_spirv.dialects.spirv.atomic import AtomicOperation
from xdsl_spirv.dialects.spirv.cooperative_matrix import (
    CooperativeMatrixLoadOp,
    CooperativeMatrixStoreOp,
)
from xdsl_spirv.dialects.spirv.cooperative_matrix_tensor import CooperativeMatrixStoreTensorOp
from xdsl_spirv.dialects.spirv.cooperative_vector import (
    CooperativeVectorOuterProductAccumulateOp,
    CooperativeVectorReduceSumAccumulateOp,
    CooperativeVectorStoreOp,
)
from xdsl_spirv.dialects.spirv.enums import MemoryAccess, MemorySemantics, Scope
from xdsl_spirv.dialects.spirv.pointer import CopyMemorySizedOp
from xdsl_spirv.dialects.spirv.structure import AddressOfOp, ModuleOp
from xdsl_spirv.dialects.spirv.tensor_arm import TensorWriteOp
from xdsl_spirv.dialects.spirv.types import UntypedPointerType
from xdsl_spirv.dialects.spirv.vendor import CooperativeMatrixStoreNVOp
from xdsl_spirv.interpreter.checks import places
from xdsl_spirv.interpreter.checks.report import Related
from xdsl_spirv.interpreter.forms import Mask
from xdsl_spirv.interpreter.memory import Memory
from xdsl_spirv.interpreter.numbers import Array
from xdsl_spirv.interpreter.wave import Wave

if TYPE_CHECKING:
    from xdsl_spirv.interpreter.checks.checker import Checker

LANE, SUBGROUP, WORKGROUP, SEVERAL = (kind << 30 for kind in range(4))
KIND = 3 << 30
ATOMIC, PRIVATE = 1 << 29, 1 << 28
ID = PRIVATE - 1
WHO = (1 << 32) - 1

STORES = memory_ops.StoreOp | CooperativeMatrixStoreOp | AtomicOperation
OTHER_STORES = (
    CopyMemorySizedOp
    | kernel.SubgroupBlockWriteOp
    | kernel.AtomicFlag
    | CooperativeMatrixStoreTensorOp
    | CooperativeMatrixStoreNVOp
    | CooperativeVectorStoreOp
    | CooperativeVectorReduceSumAccumulateOp
    | CooperativeVectorOuterProductAccumulateOp
)
"""Extensions' instructions that write through one pointer."""
SYNCHRONIZING = (
    MemorySemantics.Acquire
    | MemorySemantics.Release
    | MemorySemantics.AcquireRelease
    | MemorySemantics.SequentiallyConsistent
)
TRANSPARENT = (
    memory_ops.AccessChainOp,
    memory_ops.InBoundsAccessChainOp,
    memory_ops.PtrAccessChainOp,
    memory_ops.InBoundsPtrAccessChainOp,
    memory_ops.CopyObjectOp,
)


MESSAGES = {
    "RACE-01": "a {} and an earlier {} of {} are not ordered",
    "RACE-02": "a {} and an earlier {} of {} are ordered, but one of them is private",
    "RACE-03": "a {} and an earlier {} of {} are not ordered by the barrier between them",
    "together": "several invocations write one place of {2} at once",
}

REMEDIES = {
    "RACE-01": "put a barrier between them, or use atomics",
    "RACE-02": "access what invocations share with NonPrivatePointer",
    "RACE-03": "give the barrier a scope that holds both, and AcquireRelease with the memory's "
    "class, MakeAvailable and MakeVisible",
}


def root_of(pointer: SSAValue) -> str | None:
    """The module's variable that a pointer is into, None if that is not obvious."""
    owner = pointer.owner
    while isinstance(owner, TRANSPARENT):
        owner = owner.operands[0].owner
    return owner.variable.string_value() if isinstance(owner, AddressOfOp) else None


def written_variables(module: Operation) -> set[str] | None:
    """The variables that anything may write, None if that may be any."""
    found: set[str] = set()
    for op in module.walk():
        if isinstance(op, STORES):
            root = root_of(op.pointer)  # pyright: ignore
        elif isinstance(op, memory_ops.CopyMemoryOp):
            root = root_of(op.target)
        elif isinstance(op, OTHER_STORES):
            root = root_of(op.operands[0])
            if root is None:
                return None
        elif isinstance(op, TensorWriteOp):
            return None
        else:
            continue
        if root is not None:
            found.add(root)
        elif isinstance(op, AtomicOperation) or _may_alias(op):
            return None
    return found


def _may_alias(op: Operation) -> bool:
    from xdsl_spirv.interpreter.spirv.memory import has_bytes, pointer_type

    pointer = op.target if isinstance(op, memory_ops.CopyMemoryOp) else op.operands[0]
    return isinstance(pointer.type, UntypedPointerType) or has_bytes(pointer_type(pointer))


class Granules:
    """Who wrote and who read each granule of a memory last; see the module's docstring."""

    def __init__(self, memory: Memory, unit: int):
        self.memory = memory
        self.unit = unit
        self.length = -(-memory.data.shape[1] // unit)
        self.writes = np.zeros(memory.data.shape[0] * self.length, np.int64)
        self.reads = np.zeros_like(self.writes)

    def refine(self, unit: int) -> None:
        """Divide the granules so that steps of `unit` bytes are whole ones."""
        finer = gcd(self.unit, unit)
        if finer == self.unit:
            return
        factor = self.unit // finer
        rows = self.memory.data.shape[0]
        length = -(-self.memory.data.shape[1] // finer)
        for name in ("writes", "reads"):
            old = getattr(self, name).reshape(rows, self.length)
            setattr(self, name, np.repeat(old, factor, axis=1)[:, :length].reshape(-1).copy())
        self.unit, self.length = finer, length


class Access:
    """One instruction's accesses: elements of `unit` bytes by number, over (w, s, l, ...)."""

    def __init__(
        self,
        op: Operation,
        items: Array,
        unit: int,
        mask: Mask,
        *,
        write: bool = False,
        atomic: bool = False,
        scope: Scope | None = None,
    ):
        self.op = op
        self.items = items
        self.unit = unit
        self.mask = mask
        self.write = write
        self.atomic = atomic
        self.scope = scope


class Races:
    """The order of a launch's accesses."""

    def __init__(self, checker: Checker):
        self.checker = checker
        module = checker.unit.module
        self.vulkan = isinstance(module, ModuleOp) and "Vulkan" in str(
            module.properties.get("memory_model", "")
        )
        self.written = written_variables(module)
        self.fences = any(isinstance(op, barriers.MemoryBarrierOp) for op in module.walk())
        self.near_barriers = any(
            isinstance(op, barriers.ControlBarrierOp | kernel.SplitBarrier)
            and Scope.Subgroup in (op.execution_scope.data, op.memory_scope.data)
            for op in module.walk()
        )
        self.stamp = self.arrived = 1
        self.log: list[Operation | None] = [None, None]
        self.passed: list[tuple[int, Operation]] = []
        self.known: Array | None = None
        self.released: dict[tuple[int, int], dict[int, int]] = {}

    def start(self, wave: Wave) -> None:
        """A chunk of workgroups: nothing is ordered yet."""
        shape = wave.shape
        each = wave.subgroups * wave.lanes
        self.wave = wave
        self.each = each
        first = wave.first * each
        self.lane_codes = first + np.arange(prod(shape), dtype=np.int64).reshape(shape)
        self.subgroup_codes = SUBGROUP | (self.lane_codes[:, :, :1] // wave.lanes)
        self.group_codes = WORKGROUP | (self.lane_codes[:, :1, :1] // each)
        # By storage (Workgroup memory or buffers) and by what is ordered (execution, or all).
        start = self.stamp
        self.horizon = np.full((2, 2, shape[0]), start, np.int64)
        self.low = np.full((2, 2), start, np.int64)
        self.near = np.full((2, 2, shape[0], shape[1]), start, np.int64)

    def tracks(self, label: str) -> bool:
        """Whether anything writes the variable that a memory's label names."""
        if self.written is None:
            return True
        name = label.partition("@")[2].partition(" ")[0]
        return name in self.written

    # Order.

    def tick(self, op: Operation) -> int:
        """The next time stamp."""
        self.stamp += 1
        self.log.append(op)
        return self.stamp

    def barrier(self, op: Any, mask: Mask, since: int | None = None) -> None:
        """
        The invocations of a scope wait for each other; of a barrier in two halves, `since` is when
        they came to the first.
        """
        self.passed.append((self.tick(op), op))
        semantics = op.memory_semantics.data
        if not semantics & SYNCHRONIZING:
            return
        flags = MemorySemantics
        shown = flags.MakeAvailable | flags.MakeVisible
        full = not self.vulkan or (semantics & shown) == shown
        spaces = ((0, flags.WorkgroupMemory), (1, flags.UniformMemory))
        scope, memory_scope = op.execution_scope.data, op.memory_scope.data
        for space, flag in spaces:
            if not semantics & flag:
                continue
            for level in (0, 1) if full else (0,):
                now = self.stamp if since is None else since
                self._move(space, level, scope, memory_scope, mask, now)

    def _move(
        self, space: int, level: int, scope: Scope, memory_scope: Scope, mask: Mask, now: int
    ) -> None:
        near = self.near[space, level]
        if mask is None:
            near[:] = now
        else:
            near[np.broadcast_to(mask.any(axis=2), near.shape)] = now
        if scope == Scope.Subgroup or memory_scope == Scope.Subgroup:
            return
        horizon = self.horizon[space, level]
        if mask is None:
            horizon[:] = now
        else:
            horizon[np.broadcast_to(mask.any(axis=(1, 2)), horizon.shape)] = now
        self.low[space, level] = horizon.min()

    def synchronize(self, op: Any, location: Array, groups: Array) -> None:
        """An atomic: workgroups see what was released at the same locations before."""
        semantics = getattr(op, "semantics", None) or getattr(op, "equal_semantics", None)
        if not self.fences and (semantics is None or not semantics.data & SYNCHRONIZING):
            return
        count = self.wave.geometry.workgroups
        if self.known is None:
            self.known = np.zeros((count, count) if count <= 2048 else (1, 1), np.int64)
        if self.known.shape[0] != count:
            self.known[:] = self.stamp
            return
        for place, group in sorted(set(zip(location.tolist(), groups.tolist(), strict=True))):
            released = self.released.setdefault((id(op.pointer.type), place), {})
            released[group] = self.stamp
            for other, stamp in released.items():
                self.known[group, other] = max(self.known[group, other], stamp)

    # Accesses.

    def note(self, granules: Granules, access: Access) -> None:
        """Record accesses, and report those that nothing orders."""
        granules.refine(access.unit)
        index, who = self._flatten(granules, access)
        if not index.size:
            return
        if access.atomic:
            who = who | ATOMIC
        private = self.vulkan and not access.atomic and not _non_private(access.op)
        if private:
            who = who | PRIVATE
        now = self.tick(access.op) << 32 | who
        space = 0 if granules.memory.rows == "workgroup" else 1
        self._compare(granules, "writes", index, who, space, access, private)
        if access.write:
            self._compare(granules, "reads", index, who, space, access, private)
            granules.writes[index] = now
            if not access.atomic:
                self._same_time(granules, index, now, access)
        else:
            self._read(granules, index, now, who, space)
        if access.atomic:
            self.synchronize(access.op, index.reshape(-1), self._group_of(who).reshape(-1))

    def _flatten(self, granules: Granules, access: Access) -> tuple[Array, Array]:
        """Granules (n, ...) and who touches them (n, 1, ...)."""
        items, mask = access.items, access.mask
        factor = access.unit // granules.unit
        if factor > 1:
            items = items[..., None] * factor + np.arange(factor)
        if access.scope is not None:
            who = self.subgroup_codes if access.scope == Scope.Subgroup else self.group_codes
            if mask is not None:
                mask = mask.any(axis=2 if access.scope == Scope.Subgroup else (1, 2), keepdims=True)
        elif not access.write and mask is None and items.shape[2] == 1 and self.wave.lanes > 1:
            who = self.subgroup_codes
        else:
            who = self.lane_codes
        tail = items.shape[3:]
        lead = np.broadcast_shapes(items.shape[:3], who.shape)
        if granules.memory.rows == "workgroup":
            rows = np.arange(lead[0]) * granules.length
            items = items + rows.reshape(-1, *(1,) * (items.ndim - 1))
        items = np.broadcast_to(items, lead + tail)
        self.layout = lead, None if mask is None else np.broadcast_to(mask, lead), tail
        if mask is None:
            return items.reshape(-1, *tail), _column(np.broadcast_to(who, lead).reshape(-1), tail)
        chosen = np.broadcast_to(mask, lead)
        return items[chosen], _column(np.broadcast_to(who, lead)[chosen], tail)

    def _compare(
        self,
        granules: Granules,
        which: str,
        index: Array,
        who: Array,
        space: int,
        access: Access,
        private: bool,
    ) -> None:
        earlier = getattr(granules, which)[index]
        level = 1 if which == "writes" else 0
        if space == 0 and not private:
            if not (earlier >= int(self.low[0, level]) << 32).any():
                return
        elif not earlier.any():
            return
        conflict, private_conflict = self._conflicts(earlier, who, space, level)
        if conflict.any():
            self._report(granules, access, which, index, who, earlier, conflict, "RACE-01")
        elif which == "writes" and private_conflict.any():
            self._report(granules, access, which, index, who, earlier, private_conflict, "RACE-02")

    def _group_of(self, who: Array) -> Array:
        """The workgroup of a code; -1 for several."""
        kind, number = who & KIND, who & ID
        group = np.where(kind == LANE, number // self.each, number)
        group = np.where(kind == SUBGROUP, number // self.wave.subgroups, group)
        return np.where(kind == SEVERAL, -1, group)

    def _subgroup_of(self, who: Array) -> Array:
        """The subgroup of a code; -1 for several."""
        kind, number = who & KIND, who & ID
        return np.where(
            kind == LANE, number // self.wave.lanes, np.where(kind == SUBGROUP, number, -1)
        )

    def _conflicts(self, earlier: Array, who: Array, space: int, level: int) -> tuple[Array, Array]:
        """Where an earlier access is not ordered, and where it is, but one of them is private."""
        stamp, before = earlier >> 32, earlier & WHO
        shared = (earlier != 0) & ~(
            ((before & KIND) == LANE) & ((who & KIND) == LANE) & ((before & ID) == (who & ID))
        )
        atomic = (before & ATOMIC != 0) & (who & ATOMIC != 0)
        group, old_group = self._group_of(who), self._group_of(before)
        local = group - self.wave.first
        if space == 0:
            same_group = np.ones(earlier.shape, np.bool_)
        else:
            same_group = group == old_group
        ordered = same_group & (stamp < self.horizon[space, level][local])
        ordered |= self._near(earlier, who, space, level)
        if self.known is not None and self.known.shape[0] > 1:
            ordered |= (old_group >= 0) & (stamp <= self.known[group, old_group])
        elif self.known is not None:
            ordered[:] = True
        private = ((before | who) & PRIVATE) != 0
        return shared & ~atomic & ~ordered, shared & ~atomic & ordered & private

    def _near(self, earlier: Array, who: Array, space: int, level: int) -> Array:
        """Where an earlier access was of the same subgroup, and a barrier of it lies between."""
        stamp, subgroup = earlier >> 32, self._subgroup_of(who)
        near = self.near[space, level].reshape(-1)
        own = np.clip(subgroup - self.wave.first * self.wave.subgroups, 0, near.size - 1)
        same = (subgroup >= 0) & (subgroup == self._subgroup_of(earlier & WHO))
        return same & (stamp < near[own])

    def _read(self, granules: Granules, index: Array, now: Array, who: Array, space: int) -> None:
        """Keep who read: one invocation, or the smallest group that holds all readers."""
        earlier = granules.reads[index]
        low = int(self.low[0, 0])
        fresh = earlier >= low << 32 if space == 0 else earlier != 0
        coarse = space == 0 and not self.near_barriers and low == int(self.horizon[0, 0].max())
        if coarse:
            self._read_coarsely(granules, index, now, earlier, fresh)
            return
        if fresh.any():
            group = self._group_of(who)
            same = (group == self._group_of(earlier & WHO)) | (space == 0)
            local = group - self.wave.first
            fresh = fresh & ~(same & (earlier >> 32 < self.horizon[space, 0][local]))
            if self.near_barriers:
                # What is ordered before this read is ordered before whatever this one is.
                fresh = fresh & ~self._near(earlier, who, space, 0)
            now = np.where(fresh, self._join(earlier, now), now)
        granules.reads[index] = now
        back = granules.reads[index]
        clash = back != now
        if clash.any():
            joined = self._join(np.broadcast_to(back, clash.shape)[clash], _full(now, clash)[clash])
            granules.reads[np.broadcast_to(index, clash.shape)[clash]] = joined
            # Of three groups one may have lost its part: whoever still differs is joined again.
            again = granules.reads[index]
            wider = self._join(again, np.broadcast_to(now, again.shape))
            granules.reads[index] = np.maximum(again, wider)

    def _read_coarsely(
        self, granules: Granules, index: Array, now: Array, earlier: Array, fresh: Array
    ) -> None:
        """As `_read` where nothing but barriers of whole workgroups orders accesses."""
        lead, chosen, tail = self.layout
        codes = np.broadcast_to(self.group_codes, lead)
        codes = _column(codes.reshape(-1) if chosen is None else codes[chosen], tail)
        flags = now & PRIVATE
        shared = now & ~np.int64(WHO) | codes | flags
        several = fresh & ((earlier ^ now) & (KIND | ID) != 0)
        new = np.where(several, shared, now) if several.any() else now
        granules.reads[index] = new
        back = granules.reads[index]
        clash = back != new
        if clash.any():
            places = np.broadcast_to(index, clash.shape)[clash]
            granules.reads[places] = np.broadcast_to(shared, clash.shape)[clash]

    def _join(self, a: Array, b: Array) -> Array:
        """The code of all readers that two codes stand for, at the time of the later."""
        first, second = a & WHO, b & WHO
        flags = first & second & ATOMIC | (first | second) & PRIVATE
        groups = self._group_of(first), self._group_of(second)
        subgroups = self._subgroup_of(first), self._subgroup_of(second)
        same_lane = (first & (KIND | ID)) == (second & (KIND | ID))
        in_subgroup = (subgroups[0] == subgroups[1]) & (subgroups[0] >= 0)
        in_group = (groups[0] == groups[1]) & (groups[0] >= 0)
        who = np.where(
            same_lane,
            first & (KIND | ID),
            np.where(
                in_subgroup,
                SUBGROUP | subgroups[0],
                np.where(in_group, WORKGROUP | groups[0], SEVERAL),
            ),
        )
        return np.maximum(a >> 32, b >> 32) << 32 | who | flags

    def _same_time(self, granules: Granules, index: Array, now: Array, access: Access) -> None:
        """Several invocations that write one location in one instruction."""
        back = granules.writes[index]
        clash = back != now
        if clash.any():
            full = _full(now, clash)
            self._report(
                granules, access, "writes", index, full & WHO, back, clash, "RACE-01", together=True
            )

    # Findings.

    def _report(
        self,
        granules: Granules,
        access: Access,
        which: str,
        index: Array,
        who: Array,
        earlier: Array,
        conflict: Array,
        rule: str,
        together: bool = False,
    ) -> None:
        index, who = np.broadcast_to(index, conflict.shape), np.broadcast_to(who, conflict.shape)
        hits = np.argwhere(conflict)
        first = next(
            (h for h in map(tuple, hits[:64]) if not self._allowed(access, who[h], earlier[h])),
            None,
        )
        if first is None:
            return
        code, stamp = int(earlier[first]) & WHO, int(earlier[first]) >> 32
        other = self.log[stamp]
        assert other is not None
        memory = granules.memory
        barrier = next((op for t, op in self.passed if t > stamp), None)
        if barrier is not None and rule == "RACE-01" and self._same_group(int(who[first]), code):
            rule = "RACE-03"
        kinds = ("write" if access.write else "read", "write" if which == "writes" else "read")
        message = MESSAGES["together" if together else rule].format(*kinds, memory.label)
        byte = int(index[first]) % granules.length * granules.unit
        lanes = np.unique(who[conflict] & ID)

        where = np.isin(self.lane_codes & ID, lanes)
        if (int(who[first]) & KIND) == SUBGROUP:
            where = np.isin(self.subgroup_codes & ID, lanes)
        elif (int(who[first]) & KIND) == WORKGROUP:
            where = np.isin(self.group_codes & ID, lanes)
        self.checker.find(
            "races",
            rule,
            access.op,
            message,
            where=where,
            notes=lambda: self._notes(
                self.checker.spot(memory, byte), other, code, barrier if rule == "RACE-03" else None
            ),
            remedy=REMEDIES[rule],
        )

    def _notes(
        self, spot: str, other: Operation, code: int, barrier: Operation | None
    ) -> list[Related]:
        by = f"by {self._name(code)}"
        found = [places.relate("the other access", other, by, head=spot)]
        if barrier is not None:
            found.append(places.relate("the barrier", barrier))
        return found

    def _same_group(self, who: int, other: int) -> bool:
        groups = self._group_of(np.array([who, other]))
        return bool(groups[0] == groups[1])

    def _allowed(self, access: Access, who: Any, earlier: Any) -> bool:
        """Whether two matrix accesses by one scope instance are of one type, hence in order."""
        other = self.log[int(earlier) >> 32]
        matrix = other is not None and _matrix_type(other)
        same = (int(earlier) ^ int(who)) & (KIND | ID) == 0
        return bool(matrix) and matrix == _matrix_type(access.op) and same

    def _name(self, code: int) -> str:
        kind, number = code & KIND, code & ID
        if kind == LANE:
            workgroup, lane = divmod(number, self.each)
            return f"invocation {lane} of workgroup {self._workgroup(workgroup)}"
        if kind == SUBGROUP:
            workgroup, subgroup = divmod(number, self.wave.subgroups)
            return f"subgroup {subgroup} of workgroup {self._workgroup(workgroup)}"
        if kind == WORKGROUP:
            return f"several invocations of workgroup {self._workgroup(number)}"
        return "several workgroups"

    def _workgroup(self, number: int) -> tuple[int, int, int]:
        x, y, _ = self.wave.geometry.grid
        return number % x, number // x % y, number // (x * y)


def _matrix_type(op: Operation) -> Any:
    if isinstance(op, CooperativeMatrixLoadOp):
        return op.result.type
    return op.object.type if isinstance(op, CooperativeMatrixStoreOp) else None


def _column(who: Array, tail: tuple[int, ...]) -> Array:
    return who.reshape(-1, *(1,) * len(tail))


def _full(now: Array, like: Array) -> Array:
    return np.broadcast_to(now, like.shape)


def _non_private(op: Operation) -> bool:
    """Whether an access may be ordered with other invocations' under the Vulkan memory model."""
    names = ("memory_access", "memory_operand", "source_memory_access")
    flags = [op.properties.get(name) for name in names]
    return any(getattr(flag, "data", 0) & MemoryAccess.NonPrivatePointer for flag in flags if flag)
