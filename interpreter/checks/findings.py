"""Collects findings of a checked launch, origins of undefined values, and divergent branches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.ir import Operation

from xdsl_spirv.interpreter.batch import Batch
from xdsl_spirv.interpreter.checks import places
from xdsl_spirv.interpreter.checks.report import OF_INTEGERS, Checks, Finding, Related, check_of
from xdsl_spirv.interpreter.checks.shadow import LAST_ORIGIN, Shadow, by_lane
from xdsl_spirv.interpreter.checks.sources import depends_on_data
from xdsl_spirv.interpreter.context import Context
from xdsl_spirv.interpreter.forms import Form, Mask, within
from xdsl_spirv.interpreter.memory import Memory
from xdsl_spirv.interpreter.numbers import Array
from xdsl_spirv.interpreter.source.source_map import in_source, map_of

SHOWN = 4
"""Maximum number of invocations that a finding lists."""


@dataclass
class Origin:
    """
    Instruction that produces undefined values, with the reason, and the operands of one invocation.
    """

    op: Operation
    rule: str
    message: str
    values: list[str]


class Findings:
    """Records each rule of SPIR-V that an instruction of the current batch breaks."""

    def __init__(self, context: Context, checks: Checks):
        self.context = context
        self.checks = checks
        self.report = checks.report
        self.origins: list[Origin | None] = [None]
        self._numbers: dict[tuple[Operation, str], int] = {}
        self.partings: dict[Operation, list[Array]] = {}
        self.batch: Batch = None  # pyright: ignore
        self.existing: Mask = None

    def origin(self, op: Operation, rule: str, message: str) -> int:
        """
        Returns the number that marks parts which this instruction makes undefined. The first call
        assigns it.

        Instructions share the last value when all others are in use. Returns 0, which means
        "defined", if the enabled checks ignore the instruction.
        """
        if self.checks.of_data and not (rule in OF_INTEGERS and depends_on_data(op)):
            return 0
        number = self._numbers.get((op, rule))
        if number is not None:
            return number
        if len(self.origins) <= LAST_ORIGIN:
            self.origins.append(Origin(op, rule, message, []))
        else:
            self.origins[LAST_ORIGIN] = None
        number = self._numbers[op, rule] = len(self.origins) - 1
        return number

    def example(self, number: int, where: Array, values: Mapping[str, Any]) -> None:
        """
        Stores an example for a note: the operands of the first invocation of the mask `where`.
        """
        origin = self.origins[number]
        if origin is not None and not origin.values:
            lanes = self.lanes(where)
            shown = np.argwhere(lanes)[:1]
            if len(shown):
                origin.values += places.values_at(values, list(shown), lanes.shape)

    def find_undefined(
        self, op: Operation, what: str, shadow: Shadow, mask: Mask, form: Form | None = None
    ) -> bool:
        """
        Reports a value with an undefined part in an active lane. Returns True if there is such a
        part.

        `what` names the value in the message. `shadow` is the value's mask of undefined parts.
        Without `form`, the mask has the shape (workgroup, subgroup, lane).
        """
        if shadow is None:
            return False
        if form is not None:
            shadow = by_lane(shadow, form)
        where = within(mask, shadow != 0)
        if not where.any():
            return False
        numbers = [int(n) for n in np.unique(np.where(where, shadow, 0)) if n]
        first = self.origins[numbers[0]] if numbers[0] < len(self.origins) else None
        rule = "UNDEF-01" if first is None else first.rule
        self.find(
            rule,
            op,
            f"{what} is undefined" + (f": {first.message}" if first else ""),
            where=where,
            notes=lambda: [note for n in numbers[:SHOWN] for note in self.origin_notes(n)],
            remedy="check the index against the number of elements"
            if check_of(rule) == "bounds"
            else "give it a defined value on every path that leads here",
        )
        return True

    def origin_notes(self, number: int) -> list[str | Related]:
        """Returns notes that tell where an undefined value comes from."""
        origin = self.origins[number] if number < len(self.origins) else None
        if origin is None:
            several = "an unknown instruction: the program has too many that make undefined values"
            never = "a variable that was never written"
            return [f"it comes from {several if number == LAST_ORIGIN else never}"]
        return [places.relate("it comes from", origin.op, origin.message), *origin.values]

    def lanes(self, where: Array) -> Array:
        """
        Returns the existing invocations for which a condition of shape (workgroup, subgroup, lane)
        is true.

        In a function that is called for each component of a matrix, the last axis is not a lane.
        The condition then applies to all invocations that hold the matrix.
        """
        if where.shape[2] not in (1, self.batch.shape[2]):
            where = where.any(axis=2, keepdims=True)
        lanes = np.broadcast_to(where, self.batch.shape)
        return lanes if self.existing is None else lanes & self.existing

    def find(
        self,
        rule: str,
        op: Operation,
        message: str,
        *,
        where: Array,
        values: Mapping[str, Any] | None = None,
        notes: Callable[[], Sequence[str | Related]] | None = None,
        remedy: str,
    ) -> None:
        """
        Records that an instruction breaks a rule in the invocations of the mask `where`, if the
        check of the rule is on. The finding shows `values` for the first invocations. `notes` is
        called only for a new finding.
        """
        if not getattr(self.checks, check_of(rule)) or self.report.seen(rule, op):
            return
        if self.checks.of_data and rule not in OF_INTEGERS:
            return
        finding = Finding(rule, op.name, in_source(op, message), remedy)
        places.locate(finding, op)
        lanes = self.lanes(where)
        shown = np.argwhere(lanes)[:SHOWN]
        finding.count = int(lanes.sum())
        finding.places = [places.place(self.batch, *index) for index in shown]
        if values:
            finding.values = places.values_at(values, list(shown), lanes.shape)
        if notes is not None:
            finding.note(*notes())
        self.checks.record(finding, op)

    def find_active(
        self,
        rule: str,
        op: Operation,
        message: str,
        where: Array,
        mask: Mask,
        *,
        values: Mapping[str, Any] | None = None,
        remedy: str,
    ) -> bool:
        """Records a finding for active invocations only. Returns True if one broke the rule."""
        where = within(mask, where)
        if not where.any():
            return False
        self.find(rule, op, message, where=where, values=values, remedy=remedy)
        return True

    def spot(self, memory: Memory, byte: int) -> str:
        """Describes a byte of a memory, with the variable's source name if it is known."""
        name = self.part(memory, byte)
        return f"at `{name}` (byte {byte})" if name else f"at byte {byte}"

    def part(self, memory: Memory, byte: int) -> str:
        """Returns the source name of the variable at a byte, or "" if the name is not known."""
        source = map_of(self.context.module)
        return (
            "" if source is None else source.names.element(memory.label, byte, self.context.lengths)
        )

    def note_parting(self, op: Operation, masks: list[Array]) -> None:
        """Records a branch that sent lanes to different blocks."""
        self.partings.pop(op, None)
        self.partings[op] = masks

    def who_parted(self, here: Array, missing: Array) -> list[Related]:
        """
        Describes the last branch that sent lanes of `here` and lanes of `missing` to different
        blocks, if there is one.
        """
        for op, masks in reversed(self.partings.items()):
            sides = [(bool((here & m).any()), bool((missing & m).any())) for m in masks]
            if any(a for a, _ in sides) and any(b and not a for a, b in sides):
                return [places.relate("the branch that split the invocations", op)]
        return []

    def missing(self, mask: Mask, axes: tuple[int, ...]) -> Array | None:
        """
        Returns the inactive invocations of subgroups (or workgroups) that have active ones, or
        None.
        """
        if mask is None or mask is self.existing:
            return None
        active = np.broadcast_to(mask, self.batch.shape)
        some = active.any(axis=axes, keepdims=True)
        missing = some & ~active
        if self.existing is not None:
            missing = missing & self.existing
        return missing if missing.any() else None

    def form(self, op: Operation, number: int) -> Form:
        """Returns the run-time representation of the operand of index `number`."""
        return self.context.form(op.operands[number].type)
