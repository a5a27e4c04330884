"""Collects the reasons for lowering paths as numbered notes, without duplicates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl_spirv.tools.explanation_data import ExplainedLayer


@dataclass(frozen=True)
class Note:
    """A reason for or against a lowering path, and the dispatches to which the reason applies."""

    number: int
    path: str
    taken: bool
    reason: str
    dispatches: tuple[int, ...]


def notes_of(layers: Sequence[ExplainedLayer]) -> list[Note]:
    """Returns the reasons against faster paths, then the reasons for the chosen paths."""
    groups: dict[tuple[bool, str, str], list[int]] = {}
    for entry in layers:
        for considered in entry.layer.considered:
            key = (considered.taken, considered.path, considered.reason)
            groups.setdefault(key, []).append(entry.dispatch)
    ordered = sorted(groups.items(), key=lambda group: group[0][0])
    return [
        Note(number, path, taken, reason, tuple(dispatches))
        for number, ((taken, path, reason), dispatches) in enumerate(ordered, 1)
    ]


def notes_by_dispatch(notes: Sequence[Note]) -> dict[int, list[int]]:
    """Maps the index of a dispatch to the numbers of its notes."""
    numbers: dict[int, list[int]] = {}
    for note in notes:
        for dispatch in note.dispatches:
            numbers.setdefault(dispatch, []).append(note.number)
    return numbers
