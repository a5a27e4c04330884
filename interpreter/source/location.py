"""A place in the source of a kernel, and its form in messages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

LONGEST = 160
"""Number of characters of a source line that a message quotes."""


@dataclass(frozen=True)
class SourceLocation:
    """
    A line of a source file, from 1; `column` is 0 if it is unknown.

    `text` is the line itself where the module carries its source, otherwise empty. `function` is
    the function's name in the source, if debug information has it. `inlined_at` is the place of the
    call, if an optimizer has put a called function's instructions into its caller.
    """

    file: str
    line: int
    column: int = 0
    text: str = ""
    function: str = ""
    inlined_at: SourceLocation | None = None

    @property
    def position(self) -> str:
        """`file:line:column`, without the parts that are unknown."""
        column = f":{self.column}" if self.column else ""
        return f"{shown(self.file)}:{self.line}{column}"

    def __str__(self) -> str:
        return f"{self.position}: {self.text}" if self.text else self.position

    def is_in(self, file: str) -> bool:
        """True if the place is in a file, given by its name or the end of its path."""
        return self.file == file or self.file.replace("\\", "/").endswith(f"/{file}")

    def chain(self) -> Iterator[SourceLocation]:
        """The places of the calls that were inlined, innermost first."""
        place = self.inlined_at
        while place is not None:
            yield place
            place = place.inlined_at


def quoted(source: SourceLocation, text: str) -> str:
    """Writes a place in the source with its line's text, or else with the instruction."""
    return str(source) if source.text else f"{source.position} ({text})"


def inlined(source: SourceLocation) -> list[str]:
    """Lists the calls through which an inlined instruction was reached, a line each."""
    return [f"  called at {place}" for place in source.chain()]


def shown(text: str) -> str:
    """Shortens a text of a module for one line of a terminal, without control characters."""
    clean = "".join(c if c.isprintable() else " " for c in text.replace("\t", "    ")).strip()
    return clean if len(clean) <= LONGEST else clean[: LONGEST - 3] + "..."
