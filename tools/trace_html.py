"""
A trace as one self-contained page: what each pass changed, function by function, as a diff.

Long constants are elided here; the text files have them. A function that a pass changed opens at a
click. What would make the page too long to open is counted, and left to the files.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from html import escape

from xdsl_spirv.tools.page import page
from xdsl_spirv.tools.trace import Stage, Trace, file_of

LONG_CONSTANT = re.compile(r"dense<([^<>]{80,})>|dense_resource<[^<>]{80,}>")

MOST_LINES = 400
"""Lines of one diff."""

MOST_COMPARED = 6000
"""Lines of a function up to which it is compared line by line."""

MOST_CHARACTERS = 8_000_000
"""Of all diffs."""

STYLE = """
details { border: 1px solid var(--line); border-radius: 4px; margin: .3rem 0; }
summary { padding: .25rem .6rem; cursor: pointer; } summary .soft { float: right; }
pre { margin: 0; padding: .4rem .6rem; overflow-x: auto; border-top: 1px solid var(--line); }
ins, del { display: block; text-decoration: none; } ins { background: var(--added);
  color: var(--added-ink); } del { background: var(--removed); color: var(--removed-ink); }
.hunk { display: block; color: var(--soft); }
nav a { display: inline-block; margin-right: .8rem; } nav { margin: 1rem 0; }
"""


def page_of(trace: Trace) -> str:
    """The page."""
    changed = [n for n in range(1, len(trace.stages)) if _differs(trace.stages, n)]
    links = "".join(
        f'<a href="#stage-{n}">{escape(trace.stages[n].name)}</a>' for n in [0, *changed]
    )
    same = [s.name for n, s in enumerate(trace.stages) if n and n not in changed]
    parts = [f"<h1>Passes over {escape(trace.title)}</h1>"]
    if trace.failure is not None:
        parts.append(f'<p class="bad"><b>Refused:</b> {escape(trace.failure)}</p>')
    parts.append(f"<nav>{links}</nav>")
    if same:
        parts.append(f'<p class="soft">changed nothing: {escape(", ".join(same))}</p>')
    budget = MOST_CHARACTERS
    for number in [0, *changed] if trace.stages else []:
        section = _section(trace.stages, number, budget)
        budget -= len(section)
        parts.append(section)
    return page(f"Passes over {trace.title}", "".join(parts), STYLE)


def _differs(stages: Sequence[Stage], number: int) -> bool:
    return stages[number].units != stages[number - 1].units


def _section(stages: Sequence[Stage], number: int, budget: int) -> str:
    """What a pass changed."""
    stage = stages[number]
    before = stages[number - 1].units if number else {}
    names = [name for name in before if name not in stage.units]
    names += [name for name, text in stage.units.items() if before.get(name) != text]
    parts: list[str] = []
    length = 0
    for position, name in enumerate(names):
        if length > budget:
            left = len(names) - position
            parts.append(f'<p class="soft">{left} more: see the text files.</p>')
            break
        part = _diff(name, before.get(name), stage.units.get(name), is_open=len(names) == 1)
        length += len(part)
        parts.append(part)
    file = file_of(number, stage)
    return (
        f'<h2 id="stage-{number}">{escape(stage.name)} <a class="soft" href="{escape(file)}">text'
        f"</a></h2>{''.join(parts)}"
    )


def _diff(name: str, before: str | None, after: str | None, is_open: bool) -> str:
    old, new = _lines(before), _lines(after)
    if before is None:
        what, shown = f"new, {len(new)} lines", _whole(new, "ins")
    elif after is None:
        what, shown = f"gone, {len(old)} lines", _whole(old, "del")
    elif max(len(old), len(new)) > MOST_COMPARED:
        what, shown = f"{len(old)} lines become {len(new)}", _whole(new, "ins")
    else:
        diff = list(difflib.unified_diff(old, new, lineterm="", n=2))[2:]
        added = sum(line.startswith("+") for line in diff)
        removed = sum(line.startswith("-") for line in diff)
        what, shown = f"+{added} -{removed}", "".join(_marked(diff[:MOST_LINES]))
        shown += _more(len(diff))
    mark = " open" if is_open else ""
    return (
        f"<details{mark}><summary><code>{escape(name)}</code>"
        f'<span class="soft">{what}</span></summary><pre>{shown}</pre></details>'
    )


def _lines(text: str | None) -> list[str]:
    return [] if text is None else LONG_CONSTANT.sub(_elided, text).splitlines()


def _elided(literal: re.Match[str]) -> str:
    return f"dense<... {len(literal[0])} characters ...>"


def _whole(lines: Sequence[str], tag: str) -> str:
    shown = "".join(f"<{tag}>{escape(line) or ' '}</{tag}>" for line in lines[:MOST_LINES])
    return shown + _more(len(lines))


def _more(count: int) -> str:
    if count <= MOST_LINES:
        return ""
    return f'<span class="hunk">... {count - MOST_LINES} more lines: see the text file</span>'


def _marked(diff: Iterable[str]) -> Iterable[str]:
    for line in diff:
        text = escape(line[1:]) or " "
        if line.startswith("@@"):
            yield f'<span class="hunk">{escape(line)}</span>'
        elif line.startswith("+"):
            yield f"<ins>+{text}</ins>"
        elif line.startswith("-"):
            yield f"<del>-{text}</del>"
        else:
            yield f" {text}\n"
