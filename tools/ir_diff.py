"""
Compares the text of a module before and after a pass, ignoring renumbered values.

Two lines that differ only in value names are equal if the names correspond one to one in both
texts. Other lines are paired if they have operations of the same kind (`arith.addi` and
`spirv.IAdd`).
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
Maximum number of lines of texts that are compared exactly. For longer texts, frequent lines are
ignored, which is faster.
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
"""Maps operation names of other dialects to the names of their SPIR-V counterparts."""


@dataclass(frozen=True)
class Row:
    """A row of a diff: numbers of a removed line, an added line, or a pair of equal lines."""

    kind: Kind
    old: int | None
    new: int | None


def diff(old: Sequence[str], new: Sequence[str]) -> list[Row]:
    """Compares two texts, and returns the rows of their diff in order."""
    rows = list(
        _align_lines([_mask_values(t) for t in old], [_mask_values(t) for t in new], old, new)
    )
    return list(_judge_rows(rows, old, new))


def differs(rows: Sequence[Row]) -> bool:
    """True if any row differs in more than value names."""
    return any(row.kind in ("changed", "removed", "added") for row in rows)


def counts(rows: Sequence[Row]) -> tuple[int, int, int]:
    """Returns the numbers of added, removed and changed lines."""
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
    """Yields the changed rows in groups, each with unchanged rows as context."""
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
    """Returns a key for pairing lines with similar operations and equal constants."""
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
    """Yields the rows of a diff. A pair of similar lines becomes equal, renamed or changed."""
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
    """Returns the names that a line defines, joined by spaces; for a header, the line itself."""
    if HEADER.match(line):
        return line
    return " ".join(match[0] for match in DEFINED.finditer(line))


def _pair(
    left: Sequence[str], right: Sequence[str], forth: dict[str, str], back: dict[str, str]
) -> None:
    """Records in `forth` (old -> new) and `back` (new -> old) which value names correspond."""
    for a, b in zip(left, right, strict=False):
        back.pop(forth.pop(a, ""), None)
        forth.pop(back.pop(b, ""), None)
        forth[a], back[b] = b, a
