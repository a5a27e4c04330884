"""
Writes a trace of passes as one self-contained page, with side-by-side diffs of functions.

The page begins with a table of the passes, and shows one pass at a time, for the whole module or
for one node of the model. Long constants are shortened, and changes are left out if the page would
become too long.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from xdsl_spirv.tools.ir_diff import Row, diff, hunks, summary
from xdsl_spirv.tools.page import render_page
from xdsl_spirv.tools.trace import DECLARATIONS, Stage, Trace, file_of
from xdsl_spirv.tools.trace_labels import Labels

LONG_CONSTANT = re.compile(r"dense<([^<>]{80,})>|dense_resource<[^<>]{80,}>")

MOST_LINES = 400
"""Maximum length of a function's diff, in lines."""

MOST_COMPARED = 6000
"""Maximum length of a function that is compared line by line, in lines."""

MOST_CHARACTERS = 8_000_000
"""Maximum number of characters of all diffs on the page."""

OPEN = 3
"""Largest number of changed functions that are initially expanded."""

TOLD = 4
"""Maximum number of changed functions that the table of passes names."""


@dataclass(frozen=True)
class _Line:
    """A row of a diff: old and new text, and the model's nodes of the row."""

    kind: str
    old: str | None = None
    new: str | None = None
    nodes: frozenset[int] = frozenset()

    @property
    def characters(self) -> int:
        """Number of characters on the page, including about 60 characters of markup."""
        return 60 + len(self.old or "") + len(self.new or "")


@dataclass(frozen=True)
class _Unit:
    """The change of a function: a summary and the lines of the diff."""

    name: str
    change: str
    nodes: frozenset[int]
    followed: bool
    """True if the lines have nodes of the model, so that the page can filter them."""
    lines: Sequence[_Line]


@dataclass
class _Section:
    number: int
    name: str
    file: str
    summary: str = ""
    open: bool = False
    left_out: int = 0
    """Number of changed functions that are not shown on the page."""
    units: list[_Unit] = field(default_factory=list[_Unit])


@dataclass
class _Writer:
    """Makes the sections of a page; `nodes` maps the selectable nodes to their numbers."""

    stages: Sequence[Stage]
    nodes: Mapping[str, int]
    budget: int = MOST_CHARACTERS

    def section(self, number: int) -> _Section:
        stage = self.stages[number]
        before = self.stages[number - 1] if number else Stage("", "", {})
        names = [name for name in before.units if name not in stage.units]
        names += [n for n, text in stage.units.items() if before.units.get(n) != text]
        section = _Section(number, stage.name, file_of(number, stage))
        section.open = len(names) <= OPEN and number > 0
        told: list[str] = []
        for position, name in enumerate(names):
            if self.budget <= 0:
                section.left_out = len(names) - position
                told.append("...")
                break
            unit = self._unit(name, before, stage)
            self.budget -= sum(line.characters for line in unit.lines)
            told.append(f"{name} {unit.change}")
            section.units.append(unit)
        if len(told) > TOLD:
            told = [*told[:TOLD], f"and {len(names) - TOLD} more"]
        section.summary = ", ".join(told) if number else ""
        return section

    def _unit(self, name: str, before: Stage, after: Stage) -> _Unit:
        old, new = _lines(before.units.get(name)), _lines(after.units.get(name))
        if name not in before.units or name not in after.units:
            there = new or old
            change = f"{'new' if new else 'gone'}, {len(there)} lines"
            parts = [
                [
                    Row("added", None, n) if new else Row("removed", n, None)
                    for n in range(len(there))
                ]
            ]
        elif max(len(old), len(new)) > MOST_COMPARED:
            change = f"{len(old)} lines become {len(new)}"
            parts = [[Row("added", None, n) for n in range(len(new))]]
        else:
            rows = diff(old, new)
            change, parts = summary(rows), list(hunks(rows))
        lines = list(self._diff_lines(parts, old, new, before, after, name))
        if len(lines) > MOST_LINES:
            more = _Line("skip", f"... {len(lines) - MOST_LINES} more lines: see the text file")
            lines = [*lines[:MOST_LINES], more]
        followed = name in after.labels or name in before.labels
        return _Unit(name, change, self._numbers_of(name, before, after), followed, lines)

    def _numbers_of(self, name: str, before: Stage, after: Stage) -> frozenset[int]:
        """Returns the numbers of the model's nodes in a function or kernel."""
        kernel = name.removesuffix(DECLARATIONS)
        labels = set[str]()
        for stage in (before, after):
            labels |= stage.kernels.get(kernel, set())
            labels.update(label for line in stage.labels.get(name, ()) for label in line)
        return self._numbers(labels)

    def _numbers(self, labels: set[str] | Labels) -> frozenset[int]:
        return frozenset(self.nodes[label] for label in labels if label in self.nodes)

    def _diff_lines(
        self,
        parts: Sequence[Sequence[Row]],
        old: Sequence[str],
        new: Sequence[str],
        before: Stage,
        after: Stage,
        name: str,
    ) -> Iterator[_Line]:
        left, right = before.labels.get(name, []), after.labels.get(name, [])

        def line(row: Row, labels: set[str]) -> _Line:
            was = None if row.old is None else old[row.old]
            becomes = None if row.new is None else new[row.new]
            return _Line(row.kind, was, becomes, self._numbers(labels))

        for part in parts:
            first = next((row.new for row in part if row.new is not None), 0)
            if first:
                yield _Line("skip", f"line {first + 1}")
            for row in _side_by_side(part):
                was, becomes = set(_at(left, row.old)), set(_at(right, row.new))
                if row.kind == "changed" and was and becomes and not was & becomes:
                    # Lines of different nodes are shown separately.
                    yield line(replace(row, new=None), was)
                    yield line(replace(row, old=None), becomes)
                else:
                    yield line(row, was | becomes)


def page_of(trace: Trace) -> str:
    """Returns the HTML page of a trace."""
    stages = trace.stages
    changed = [n for n in range(1, len(stages)) if stages[n].units != stages[n - 1].units]
    nodes = _nodes(stages)
    writer = _Writer(stages, {name: number for number, name in enumerate(nodes)})
    sections = [writer.section(number) for number in ([0, *changed] if stages else [])]
    return render_page(
        "trace",
        f"Passes over {trace.title}",
        ("trace",),
        "trace" if sections else "",
        nodes=nodes,
        same=[s.name for n, s in enumerate(stages) if n and n not in changed],
        sections=sections,
        trace=trace,
    )


def _nodes(stages: Sequence[Stage]) -> list[str]:
    """Returns the selectable nodes: nodes that kernels compute, or else all nodes of the source."""
    if not stages:
        return []
    lines = (line for labels in stages[0].labels.values() for line in labels)
    names = dict.fromkeys(label for line in lines for label in line)
    computed = {name for stage in stages for labels in stage.kernels.values() for name in labels}
    return [name for name in names if not computed or name in computed]


def _at(labels: Sequence[Labels], line: int | None) -> Labels:
    return labels[line] if line is not None and line < len(labels) else ()


def _side_by_side(rows: Sequence[Row]) -> Iterator[Row]:
    """Yields the rows, with each removed line next to the added line that replaces it."""
    position = 0
    while position < len(rows):
        removed = _run(rows, position, "removed")
        added = _run(rows, position + len(removed), "added")
        if not removed and not added:
            yield rows[position]
            position += 1
            continue
        for number in range(max(len(removed), len(added))):
            old = removed[number].old if number < len(removed) else None
            new = added[number].new if number < len(added) else None
            yield Row("changed", old, new)
        position += len(removed) + len(added)


def _run(rows: Sequence[Row], start: int, kind: str) -> list[Row]:
    end = start
    while end < len(rows) and rows[end].kind == kind:
        end += 1
    return list(rows[start:end])


def _lines(text: str | None) -> list[str]:
    return [] if text is None else LONG_CONSTANT.sub(_elide_literal, text).splitlines()


def _elide_literal(literal: re.Match[str]) -> str:
    return f"dense<... {len(literal[0])} characters ...>"
