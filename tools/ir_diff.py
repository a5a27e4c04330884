"""
Compares the lines of a module's text before and after a pass: a diff that ignores renumbered
values.

A printer numbers values in order, so one new operation renames all later values. Lines that differ
only in such names are equal if every name on one side always corresponds to the same name on the
other; other lines are paired by kinds of operations (`arith.addi` and `spirv.IAdd`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

Kind = Literal["same", "renamed", "changed", "removed", "added"]

NAME = re.compile(r"[%^][A-Za-z0-9_$.\-]+")
DEFINED = re.compile(r"(%[A-Za-z0-9_$.\-]+)(?::\d+)?(?:, %[A-Za-z0-9_$.\-]+(?::\d+)?)* =")
OPERATION = re.compile(r'^\s*(?:%[^=]*= )?"?([a-z_]+\.[A-Za-z_.0-9]+)"?')
HEADER = re.compile(r"^\s*(?:\^|\"?[a-z_]+\.func\b)")
NUMBER = re.compile(r"[Cc]onstant\b[^0-9\-]*(-?[0-9.]+(?:e[+-]?[0-9]+)?|true|false)")

EXACT = 2000
"""
Number of lines up to which any line may begin a match; in longer texts, frequent lines may not.
"""

SYNONYMS = {
    "for": "loop",
    "if": "selection",
    "return": "return",
    "index_cast": "bitcast",
    "divui": "udiv",
    "divsi": "sdiv",
    "remui": "umod",
    "remsi": "srem",
    "minui": "umin",
    "maxui": "umax",
    "minsi": "smin",
    "maxsi": "smax",
    "extf": "fconvert",
    "truncf": "fconvert",
    "extui": "uconvert",
    "extsi": "sconvert",
    "trunci": "uconvert",
    "sitofp": "convertstof",
    "uitofp": "convertutof",
    "fptosi": "convertftos",
    "thread_id": "workgroupid",
    "extract": "compositeextract",
    "insert": "compositeinsert",
    "from_elements": "compositeconstruct",
    "barrier": "controlbarrier",
}
"""Names in SPIR-V for operations of other dialects, if their letters do not show it."""


@dataclass(frozen=True)
class Row:
    """A line of the old text, of the new one, or a pair of both, by their numbers."""

    kind: Kind
    old: int | None
    new: int | None


def diff(old: Sequence[str], new: Sequence[str]) -> list[Row]:
    """Returns the rows of both texts, in order."""
    rows = list(
        _align_lines([_mask_values(t) for t in old], [_mask_values(t) for t in new], old, new)
    )
    return list(_judge_rows(rows, old, new))


def differs(rows: Sequence[Row]) -> bool:
    """True if more than names changed."""
    return any(row.kind in ("changed", "removed", "added") for row in rows)


def counts(rows: Sequence[Row]) -> tuple[int, int, int]:
    """Returns the numbers of added, removed, and changed lines."""
    kinds = [row.kind for row in rows]
    return kinds.count("added"), kinds.count("removed"), kinds.count("changed")


def summary(rows: Sequence[Row]) -> str:
    """
    Returns a short summary: `+3 -2 ~1`.

    >>> summary(diff(["a", "b"], ["a", "c", "d"])), summary([])
    ('+2 -1', 'no change')
    """
    marked = zip("+-~", counts(rows), strict=True)
    return " ".join(f"{mark}{count}" for mark, count in marked if count) or "no change"


def hunks(rows: Sequence[Row], context: int = 2) -> Iterator[list[Row]]:
    """Returns changed parts, each with unchanged lines around it."""
    changed = [n for n, row in enumerate(rows) if row.kind not in ("same", "renamed")]
    start = end = -1
    for number in changed:
        if start < 0 or number - context > end:
            if start >= 0:
                yield list(rows[start : end + 1])
            start = max(0, number - context)
        end = min(len(rows) - 1, number + context)
    if start >= 0:
        yield list(rows[start : end + 1])


def _mask_values(line: str) -> str:
    return NAME.sub(lambda name: name[0][0], line.strip())


def _matcher(old: Sequence[str], new: Sequence[str]) -> SequenceMatcher[str]:
    return SequenceMatcher(None, old, new, autojunk=max(len(old), len(new)) > EXACT)


def _align_lines(
    masked_old: Sequence[str], masked_new: Sequence[str], old: Sequence[str], new: Sequence[str]
) -> Iterator[Row]:
    for tag, a, b, c, d in _matcher(masked_old, masked_new).get_opcodes():
        if tag == "equal":
            yield from (Row("same", a + i, c + i) for i in range(b - a))
            continue
        keys_old = [_does(line) for line in old[a:b]]
        keys_new = [_does(line) for line in new[c:d]]
        for inner, e, f, g, h in _matcher(keys_old, keys_new).get_opcodes():
            if inner == "equal":
                yield from (Row("changed", a + e + i, c + g + i) for i in range(f - e))
                continue
            yield from (Row("removed", a + i, None) for i in range(e, f))
            yield from (Row("added", None, c + i) for i in range(g, h))


def _does(line: str) -> str:
    """Returns the kind of an operation, by the letters of its name, and the value of a constant."""
    operation = OPERATION.match(line)
    if operation is None:
        return _mask_values(line)
    last = operation[1].rpartition(".")[2].lower()
    letters = "".join(sorted(SYNONYMS.get(last, last).replace("_", "")))
    number = NUMBER.search(line)
    return f"{letters} {float(number[1])}" if number and _is_number(number[1]) else letters


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _judge_rows(rows: Sequence[Row], old: Sequence[str], new: Sequence[str]) -> Iterator[Row]:
    """Classifies rows of equal lines: the same, renamed, or really changed."""
    forth: dict[str, str] = {}
    back: dict[str, str] = {}
    for row in rows:
        if row.old is None or row.new is None:
            yield row
            continue
        before, after = old[row.old], new[row.new]
        if row.kind == "changed":
            _pair(NAME.findall(_defining(before)), NAME.findall(_defining(after)), forth, back)
            yield row
            continue
        left, right = NAME.findall(before), NAME.findall(after)
        _pair(NAME.findall(_defining(before)), NAME.findall(_defining(after)), forth, back)
        agree = all(
            forth.setdefault(a, b) == b and back.setdefault(b, a) == a
            for a, b in zip(left, right, strict=True)
        )
        kind: Kind = "same" if before == after else "renamed"
        yield Row(kind if agree else "changed", row.old, row.new)


def _defining(line: str) -> str:
    """Returns the parts of a line that define names."""
    if HEADER.match(line):
        return line
    return " ".join(match[0] for match in DEFINED.finditer(line))


def _pair(
    left: Sequence[str], right: Sequence[str], forth: dict[str, str], back: dict[str, str]
) -> None:
    """Records that these names correspond to each other from here on."""
    for a, b in zip(left, right, strict=False):
        back.pop(forth.pop(a, ""), None)
        forth.pop(back.pop(b, ""), None)
        forth[a], back[b] = b, a
