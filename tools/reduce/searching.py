"""
Implements delta debugging: removes groups of parts, large ones first, while the case still fails.

The result does not depend on the number of parallel tries. A restarted search replays the stored
verdicts, and continues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from xdsl_spirv.tools.kernel_test.description import KernelTest


@dataclass(frozen=True)
class Case:
    """A failing case: a file's name and contents, and a kernel's launch."""

    name: str
    data: bytes
    test: KernelTest | None = None


@dataclass(frozen=True)
class Edits:
    """
    A kind of edit: a function that lists the parts of a case, and a function that removes parts.

    `without` returns None if an edit is impossible.
    """

    name: str
    parts: Callable[[Case], Sequence[Any]]
    without: Callable[[Case, Sequence[Any]], Case | None]


Candidates: TypeAlias = Iterable[tuple[int, Case]]
FirstFailing: TypeAlias = Callable[[str, Candidates], tuple[int, Case] | None]
"""
Function that returns the first candidate that fails like the original, with its index, or None. The
text names the kind of edit.
"""


def search(case: Case, ways: Sequence[Edits], first_failing: FirstFailing) -> Case:
    """
    Tries the edits `ways` in turn, until none makes the case smaller. Returns the smallest failing
    case.
    """
    while True:
        before = case
        for way in ways:
            case = _leave_out(case, way, first_failing)
        if case == before:
            return case


def _leave_out(case: Case, way: Edits, first_failing: FirstFailing) -> Case:
    parts = way.parts(case)
    size = len(parts)
    while size:
        at = 0
        while at < len(parts):
            found = first_failing(way.name, _candidates(case, way, parts, at, size))
            if found is None:
                break
            at, case = found
            parts = way.parts(case)
        size = min(size // 2, len(parts))
    return case


def _candidates(
    case: Case, way: Edits, parts: Sequence[Any], start: int, size: int
) -> Iterable[tuple[int, Case]]:
    for at in range(start, len(parts), size):
        candidate = way.without(case, parts[at : at + size])
        if candidate is not None and candidate != case:
            yield at, candidate
