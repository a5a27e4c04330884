"""
Delta debugging: leaves out groups of a case's parts, large ones first, as long as it still fails.

The search is a function of the case and the verdicts alone: it takes the first candidate in order
that fails, however many are tried at a time. So a search that is started again goes the same way
through the stored verdicts, and on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from xdsl_spirv.tools.kernel_test.description import KernelTest


@dataclass(frozen=True)
class Case:
    """Something that fails: a file's name and contents, and a kernel's launch."""

    name: str
    data: bytes
    test: KernelTest | None = None


@dataclass(frozen=True)
class Edits:
    """
    One way to make a case smaller: what can be left out, and the case without some of that.

    `without` returns None where no case is left.
    """

    name: str
    parts: Callable[[Case], Sequence[Any]]
    without: Callable[[Case, Sequence[Any]], Case | None]


Candidates: TypeAlias = Iterable[tuple[int, Case]]
FirstFailing: TypeAlias = Callable[[str, Candidates], tuple[int, Case] | None]
"""Returns the first of numbered candidates of a way that fails as the original did."""


def search(case: Case, ways: Sequence[Edits], first_failing: FirstFailing) -> Case:
    """The case when no way makes it smaller any more."""
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
