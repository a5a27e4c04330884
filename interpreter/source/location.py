"""Represents a location in a kernel's source, and formats it for messages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

LONGEST = 160
"""Maximum number of characters of a source line that a message quotes."""


@dataclass(frozen=True)
class SourceLocation:
    """
    A line of a source file, counted from 1. `column` is 0 if it is unknown.

    `text` is the line itself if the module contains its source, otherwise "". `function` is the
    source name of the function, if it is known. `inlined_at` is the location of the call, if an
    optimizer inlined the function.
    """

    file: str
    line: int
    column: int = 0
    text: str = ""
    function: str = ""
    inlined_at: SourceLocation | None = None

    @property
    def position(self) -> str:
        """The location as `file:line:column`. Leaves out unknown parts."""
        column = f":{self.column}" if self.column else ""
        return f"{shown(self.file)}:{self.line}{column}"

    def __str__(self) -> str:
        return f"{self.position}: {self.text}" if self.text else self.position

    def is_in(self, file: str) -> bool:
        """True if the location is in a file. `file` is the file's name, or the end of its path."""
        return self.file == file or self.file.replace("\\", "/").endswith(f"/{file}")

    def chain(self) -> Iterator[SourceLocation]:
        """Yields the locations of the inlined calls, innermost first."""
        place = self.inlined_at
        while place is not None:
            yield place
            place = place.inlined_at


def quoted(source: SourceLocation, text: str) -> str:
    """
    Formats a source location with the text of its line. Without that text, shows the instruction's
    text.
    """
    return str(source) if source.text else f"{source.position} ({text})"


def inlined(source: SourceLocation) -> list[str]:
    """Lists the calls through which an inlined instruction was reached, one per line."""
    return [f"  called at {place}" for place in source.chain()]


def shown(text: str) -> str:
    """
    Shortens a text of a module so that it fits on one terminal line. Removes control characters.
    """
    clean = "".join(c if c.isprintable() else " " for c in text.replace("\t", "    ")).strip()
    return clean if len(clean) <= LONGEST else clean[: LONGEST - 3] + "..."
