"""
Tests if a result depends on the order in which invocations run.

The first workgroups of a launch run again, unchecked, under several schedules (schedule.py). Their
buffers are compared with the buffers of the lockstep run. Any difference is reported, because a
program without data races gives the same bits in every order. Programs with atomics that do not
commute, or whose results are used, are exempt.

If the check `races` is on, other schedules run only after it found a race. A difference that the
racing memory can cause is added to the finding of the race. Any other difference is a new finding.
A program that fails even without checks is not run again, because that failure is reported or
allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from xdsl.ir import Operation

from xdsl_spirv.dialects.spirv import atomic
from xdsl_spirv.dialects.spirv.enums import StorageClass
from xdsl_spirv.dialects.spirv.structure import GlobalVariableOp, UntypedGlobalVariableOp
from xdsl_spirv.interpreter.checks import places
from xdsl_spirv.interpreter.checks.influence import Influence
from xdsl_spirv.interpreter.checks.report import Finding, Related
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.memories import Place, copy_buffers
from xdsl_spirv.interpreter.numbers import Array
from xdsl_spirv.interpreter.options import Options, Schedule
from xdsl_spirv.interpreter.pointers import (
    DIRECT_STORES,
    accessed_pointer,
    is_write,
    probable_root,
    storage_of,
)
from xdsl_spirv.interpreter.source.source_map import map_of

Run: TypeAlias = Callable[[Options, dict[Place, Array], int], object]
"""A function that runs some of the first workgroups with the given options on the given buffers."""

SEEDS = (1, 2, 3)
"""Seeds of the schedules that are run."""
WITNESSES = 2
"""Number of workgroups of a large launch that run again to demonstrate a race."""
SHOWN = 3
"""Maximum number of differing elements that a finding lists."""
ORDERED = ("races", "overlap", "barriers")
"""Names of the checks that report accesses without an order."""
COMMUTING = (
    atomic.AtomicIAddOp,
    atomic.AtomicISubOp,
    atomic.AtomicSMinOp,
    atomic.AtomicUMinOp,
    atomic.AtomicSMaxOp,
    atomic.AtomicUMaxOp,
    atomic.AtomicAndOp,
    atomic.AtomicOrOp,
    atomic.AtomicXorOp,
    atomic.AtomicIIncrementOp,
    atomic.AtomicIDecrementOp,
)
"""
Atomics that commute: their order does not change the memory, only the values that they return.
"""


class Permuted:
    """Runs a module's first workgroups in other orders, and reports results that differ."""

    def __init__(self, module: Operation, options: Options):
        assert options.checks is not None
        self.module = module
        self.checks = options.checks
        self.report = options.checks.report
        self.known = len(self._causes())
        self.plain = replace(options, checks=None, debug=None, print=lambda text: None)

    def explore(
        self,
        buffers: Mapping[Place, Array],
        results: Mapping[Place, Array] | None,
        run: Run,
        sample: int,
    ) -> None:
        """
        Runs other schedules and compares their buffers with `results`. If `results` is None,
        compares with a lockstep run of the first `sample` workgroups.
        """
        causes = self._causes()[self.known :]
        if not causes and (self.checks.races or depends_on_order(self.module)):
            return
        count, seeds = sample, SEEDS
        if causes and results is None:
            count, seeds = 1 if self._are_local(causes) else WITNESSES, SEEDS[:1]

        def outcome(options: Options) -> dict[Place, Array]:
            copies = copy_buffers(buffers)
            run(options, copies, count)
            return copies

        try:
            own = outcome(self.plain) if results is None else results
        except InterpreterError:
            return
        for seed in seeds:
            try:
                other = outcome(replace(self.plain, schedule=Schedule(seed)))
            except InterpreterError as error:
                self._failed(error, seed, causes, outcome)
                return
            if self._compare(own, other, seed, causes):
                return

    def _are_local(self, causes: list[Finding]) -> bool:
        """
        True if all findings are about Workgroup memory, so that one workgroup is enough to
        reproduce them.
        """
        ops = [self.report.where(cause) for cause in causes]
        return all(
            isinstance(op, Operation)
            and storage_of(accessed_pointer(op, is_write(op))) == StorageClass.Workgroup
            for op in ops
        )

    def _compare(
        self,
        own: Mapping[Place, Array],
        other: Mapping[Place, Array],
        seed: int,
        causes: list[Finding],
    ) -> bool:
        """Reports the first difference between two runs. Returns True if there is one."""
        for place, array in own.items():
            different = _bytes(array) != _bytes(other[place])
            if not different.any():
                continue
            shared = [p for p, a in own.items() if np.may_share_memory(a, array)]
            reasons = self._reasons(shared, causes)
            if reasons or not (causes and depends_on_order(self.module)):
                self._tell(place, array, other[place], different, seed, reasons)
                return True
        return False

    def _reasons(self, shared: list[Place], causes: list[Finding]) -> list[Finding]:
        """Returns the findings whose memory can influence the buffers `shared`."""
        if not causes:
            return []
        influence = Influence(self.module)
        names = {name for place in shared for name in names_of(self.module, place)}
        reasons: list[Finding] = []
        for cause in causes:
            op = self.report.where(cause)
            if not isinstance(op, Operation) or influence.reaches(op, names):
                reasons.append(cause)
        return reasons

    def _causes(self) -> list[Finding]:
        findings = (*self.report.findings, *self.report.allowed)
        return [finding for finding in findings if finding.check in ORDERED]

    def _tell(
        self,
        place: Place,
        own: Array,
        other: Array,
        different: Array,
        seed: int,
        causes: list[Finding],
    ) -> None:
        elements = different.reshape(own.size, -1).any(axis=1)
        numbers = np.flatnonzero(elements)
        source = map_of(self.module)
        assert source is not None
        names = source.names
        a, b = own.reshape(-1), other.reshape(-1)
        values = [
            f"{names.buffer_element(place, int(n), a.itemsize)} is {a[n]} in lockstep, "
            f"{b[n]} in schedule {seed}"
            for n in numbers[:SHOWN]
        ]
        stores = stores_to(self.module, place)
        notes = [places.relate("stored by", op) for op in stores]
        of = names.buffer(place)
        message = f"{len(numbers)} elements of {of} depend on the order in which invocations run"
        self._add(message, values, notes, stores[0] if stores else None, causes)

    def _failed(
        self,
        error: InterpreterError,
        seed: int,
        causes: list[Finding],
        outcome: Callable[[Options], object],
    ) -> None:
        """Reports that the program fails under a schedule although it completes in lockstep."""
        try:
            outcome(self.plain)
        except InterpreterError:
            return
        message = "the program fails in another order of invocations"
        self._add(message, [f"schedule {seed}: {error}"], [], None, causes)

    def _add(
        self,
        message: str,
        values: list[str],
        notes: list[Related],
        op: Operation | None,
        causes: list[Finding],
    ) -> None:
        """
        Adds a note to the finding that explains a difference. Without such a finding, adds a new
        one at `op`.
        """
        if causes:
            causes[0].note(f"{message}:", *values, *notes)
            return
        if self.report.seen("SCHED-01", op):
            return
        finding = Finding(
            "SCHED-01",
            self.module.name if op is None else op.name,
            message,
            "put a barrier between a write and another invocation's access to the same memory; "
            "the check `races` names the accesses",
        )
        if op is not None:
            places.locate(finding, op)
        finding.values = values
        finding.note(*notes[1:])
        self.checks.record(finding, op)


def _bytes(array: Array) -> Array:
    """Views an array as bytes of shape (elements, bytes of an element)."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(array.size, -1)


def depends_on_order(module: Operation) -> bool:
    """True if a module has atomics whose order may legally change its results."""
    return any(
        _depends_on_order(op) for op in module.walk() if isinstance(op, atomic.AtomicOperation)
    )


def _depends_on_order(op: Operation) -> bool:
    return not isinstance(op, COMMUTING) or any(result.first_use for result in op.results)


def names_of(module: Operation, place: Place) -> set[str]:
    """Returns the names of the variables that are bound to a (set, binding)."""
    return {
        op.sym_name.data
        for op in module.regions[0].block.ops
        if isinstance(op, GlobalVariableOp | UntypedGlobalVariableOp)
        and op.descriptor_set is not None
        and op.binding is not None
        and (op.descriptor_set.value.data, op.binding.value.data) == place
    }


def stores_to(module: Operation, place: Place) -> list[Operation]:
    """Returns the stores that probably write the buffer at a (set, binding)."""
    names = names_of(module, place)
    return [
        op
        for op in module.walk()
        if isinstance(op, DIRECT_STORES) and probable_root(op.operands[0]) in names
    ]
