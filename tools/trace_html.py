"""
A trace as one self-contained page: what each pass changed, function by function, side by side.

It begins with a table of the passes. One pass is shown at a time (keys go forth and back), for all
of the module or for one node of the model. Long constants are elided here; the text files have
them. Changes that would make the page too long to open are counted, and left to the files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape

from xdsl_spirv.tools.ir_diff import Row, diff, hunks, summary
from xdsl_spirv.tools.page import heading, page
from xdsl_spirv.tools.trace import DECLARATIONS, Stage, Trace, file_of
from xdsl_spirv.tools.trace_labels import Labels

LONG_CONSTANT = re.compile(r"dense<([^<>]{80,})>|dense_resource<[^<>]{80,}>")

MOST_LINES = 400
"""Lines of one diff."""

MOST_COMPARED = 6000
"""Lines of a function up to which it is compared line by line."""

MOST_CHARACTERS = 8_000_000
"""Most characters of all diffs."""

OPEN = 3
"""Number of changed functions up to which all of them are open at first."""

TOLD = 4
"""Number of changed functions that the table of passes names."""


@dataclass
class _Writer:
    """Writes the sections of a trace; `nodes` are the numbers of those that can be followed."""

    stages: Sequence[Stage]
    nodes: Mapping[str, int]
    budget: int = MOST_CHARACTERS
    rows: list[str] = field(default_factory=list[str])
    """Rows of the table of passes."""

    def section(self, number: int) -> str:
        """The section of a pass's changes."""
        stage = self.stages[number]
        before = self.stages[number - 1] if number else Stage("", "", {})
        names = [name for name in before.units if name not in stage.units]
        names += [n for n, text in stage.units.items() if before.units.get(n) != text]
        told: list[str] = []
        parts: list[str] = []
        for position, name in enumerate(names):
            if self.budget <= 0:
                parts.append(f"<p>{len(names) - position} more: see the text file.</p>")
                told.append("...")
                break
            what, part = self._unit(name, before, stage, len(names) <= OPEN)
            self.budget -= len(part)
            told.append(f"{name} {what}")
            parts.append(part)
        file = escape(file_of(number, stage))
        if len(told) > TOLD:
            told = [*told[:TOLD], f"and {len(names) - TOLD} more"]
        self._tell(number, stage.name, ", ".join(told) if number else "")
        return (
            f'<section class="stage" id="stage-{number}" data-name="{escape(stage.name)}">'
            f'<h2>{escape(stage.name)} <a class="soft" href="{file}">text</a></h2>'
            f'<p class="nothing soft" hidden>changed nothing of it</p>{"".join(parts)}</section>'
        )

    def _tell(self, number: int, name: str, told: str) -> None:
        said = escape(told) or '<span class="soft">as it was read</span>'
        link = f'<a href="#stage-{number}">{escape(name)}</a>'
        self.rows.append(f'<tr data-stage="{len(self.rows)}"><td>{link}</td><td>{said}</td></tr>')

    def _unit(self, name: str, before: Stage, after: Stage, few: bool) -> tuple[str, str]:
        """The change of a function, in few characters and as a block that opens at a click."""
        old, new = _lines(before.units.get(name)), _lines(after.units.get(name))
        if name not in before.units or name not in after.units:
            there = new or old
            what = f"{'new' if new else 'gone'}, {len(there)} lines"
            rows = [
                Row("added", None, n) if new else Row("removed", n, None) for n in range(len(there))
            ]
            shown = self._table([rows], old, new, before, after, name)
        elif max(len(old), len(new)) > MOST_COMPARED:
            what = f"{len(old)} lines become {len(new)}"
            rows = [Row("added", None, n) for n in range(len(new))]
            shown = self._table([rows], old, new, before, after, name)
        else:
            rows = diff(old, new)
            what = summary(rows)
            shown = self._table(list(hunks(rows)), old, new, before, after, name)
        is_source = not before.units
        mark = " open" if few and not is_source else ""
        numbers = self._numbers_of(name, before, after)
        lines = int(name in after.labels or name in before.labels)
        return what, (
            f'<details class="unit"{mark} data-lines="{lines}"{_data(numbers)}><summary>'
            f'<code>{escape(name)}</code> <span class="soft">{what}</span></summary>{shown}'
            f"</details>"
        )

    def _numbers_of(self, name: str, before: Stage, after: Stage) -> set[int]:
        """The nodes that a unit is about."""
        kernel = name.removesuffix(DECLARATIONS)
        labels = set[str]()
        for stage in (before, after):
            labels |= stage.kernels.get(kernel, set())
            labels.update(label for line in stage.labels.get(name, ()) for label in line)
        return self._numbers(labels)

    def _numbers(self, labels: set[str] | Labels) -> set[int]:
        return {self.nodes[label] for label in labels if label in self.nodes}

    def _table(
        self,
        parts: Sequence[Sequence[Row]],
        old: Sequence[str],
        new: Sequence[str],
        before: Stage,
        after: Stage,
        name: str,
    ) -> str:
        left, right = before.labels.get(name, []), after.labels.get(name, [])
        lines: list[str] = []
        for part in parts:
            first = next((row.new for row in part if row.new is not None), 0)
            if first:
                lines.append(f'<tr class="skip"><td colspan="2">line {first + 1}</td></tr>')
            for row in _side_by_side(part):
                was, becomes = set(_at(left, row.old)), set(_at(right, row.new))
                if row.kind == "changed" and was and becomes and not was & becomes:
                    # Lines of two nodes: whoever follows one wants none of the other.
                    lines.append(_pair(replace(row, new=None), old, new, self._numbers(was)))
                    lines.append(_pair(replace(row, old=None), old, new, self._numbers(becomes)))
                    continue
                lines.append(_pair(row, old, new, self._numbers(was | becomes)))
        shown = "".join(lines[:MOST_LINES])
        if len(lines) > MOST_LINES:
            shown += _more(len(lines) - MOST_LINES)
        return f'<table class="diff">{shown}</table>'


def page_of(trace: Trace) -> str:
    """Returns the page of a trace."""
    stages = trace.stages
    changed = [n for n in range(1, len(stages)) if stages[n].units != stages[n - 1].units]
    same = [s.name for n, s in enumerate(stages) if n and n not in changed]
    nodes = _nodes(stages)
    writer = _Writer(stages, {name: number for number, name in enumerate(nodes)})
    sections = [writer.section(number) for number in ([0, *changed] if stages else [])]
    parts = [heading("Passes over ", trace.title)]
    if trace.failure is not None:
        parts.append(f'<p class="bad"><b>Refused:</b> {escape(trace.failure)}</p>')
    parts.append(
        f'<div class="scroll"><table class="passes"><tr><th>pass</th><th>changed</th></tr>'
        f"{''.join(writer.rows)}</table></div>"
    )
    if same:
        parts.append(f'<p class="soft">changed nothing: {escape(", ".join(same))}</p>')
    parts += [_bar(nodes), *sections] if sections else []
    scripted = "trace" if sections else ""
    return page(f"Passes over {trace.title}", "".join(parts), ("trace",), scripted)


def _bar(nodes: Sequence[str]) -> str:
    """The bar for navigation and for choosing a node."""
    options = "".join(
        f'<option value="{n}">{escape(name)}</option>' for n, name in enumerate(nodes)
    )
    follow = (
        f'<label>follow <select><option value="">everything</option>{options}</select></label>'
        if nodes
        else ""
    )
    return (
        '<div class="place"></div><div class="bar" hidden>'
        '<button title="left arrow">&lsaquo; back</button>'
        '<button title="right arrow">next &rsaquo;</button><b></b>'
        f"<button></button>{follow}</div>"
    )


def _nodes(stages: Sequence[Stage]) -> list[str]:
    """
    Names that can be followed: names of the source's lines, those that kernels compute if any do.
    """
    if not stages:
        return []
    lines = (line for labels in stages[0].labels.values() for line in labels)
    names = dict.fromkeys(label for line in lines for label in line)
    computed = {name for stage in stages for labels in stage.kernels.values() for name in labels}
    return [name for name in names if not computed or name in computed]


def _at(labels: Sequence[Labels], line: int | None) -> Labels:
    return labels[line] if line is not None and line < len(labels) else ()


def _side_by_side(rows: Sequence[Row]) -> Iterator[Row]:
    """Rows, in which a removed line stands beside the added one in its place."""
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


def _pair(row: Row, old: Sequence[str], new: Sequence[str], nodes: set[int]) -> str:
    kept = row.kind in ("same", "renamed")
    left = "" if row.old is None else _mark_line(old[row.old], "span" if kept else "del")
    right = "" if row.new is None else _mark_line(new[row.new], "span" if kept else "ins")
    return f'<tr class="{row.kind}"{_data(nodes)}><td>{left}</td><td>{right}</td></tr>'


def _mark_line(line: str, tag: str) -> str:
    return f"<{tag}>{escape(line) or ' '}</{tag}>"


def _data(numbers: set[int]) -> str:
    return f' data-n="{" ".join(map(str, sorted(numbers)))}"' if numbers else ""


def _more(count: int) -> str:
    said = f"... {count} more lines: see the text file"
    return f'<tr class="skip"><td colspan="2">{said}</td></tr>'


def _lines(text: str | None) -> list[str]:
    return [] if text is None else LONG_CONSTANT.sub(_elide_literal, text).splitlines()


def _elide_literal(literal: re.Match[str]) -> str:
    return f"dense<... {len(literal[0])} characters ...>"
