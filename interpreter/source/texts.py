"""
Stores the text of source files that a module contains, by file and line.

Lines are counted as the compiler counts them: `#line` sets the number of the following line, and
may set its file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

DIRECTIVE = re.compile(r'\s*#\s*(?:line\s+)?(\d{1,9})(?:\s+(?:"([^"]*)"|(\d+)))?')
"""Pattern of `#line NUMBER` and, in HLSL and some GLSL, `#line NUMBER "FILE"`."""


class Texts:
    """
    Source lines by file name and line number. If a line is given several times, the first text is
    used.
    """

    def __init__(self) -> None:
        self._parts: list[tuple[str, list[str]]] = []
        self._lines: dict[tuple[str, int], str] | None = None

    def add(self, file: str, text: str) -> None:
        """Adds the text of a file."""
        self._parts.append((file, [text]))
        self._lines = None

    def extend(self, text: str) -> None:
        """Appends to the text that was added last."""
        if self._parts:
            self._parts[-1][1].append(text)
            self._lines = None

    def line(self, file: str, number: int) -> str:
        """Returns a line, or "" if it is not known."""
        if self._lines is None:
            self._lines = {}
            for name, parts in self._parts:
                for place, line in numbered(name, "".join(parts)):
                    self._lines.setdefault(place, line)
        return self._lines.get((file, number), "")

    def __bool__(self) -> bool:
        return any("".join(parts) for _, parts in self._parts)


def numbered(file: str, text: str) -> Iterator[tuple[tuple[str, int], str]]:
    """Yields ((file, line number), line) as the compiler counts lines."""
    number = 0
    for line in text.split("\n"):
        number += 1
        directive = DIRECTIVE.match(line) if "#" in line else None
        if directive is None:
            yield (file, number), line.rstrip("\r")
            continue
        number = int(directive[1]) - 1
        file = file if directive[2] is None else directive[2]
