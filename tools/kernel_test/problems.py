"""
What a test tells: findings, mismatches and errors in one form, each with its places in the source.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xdsl_spirv.interpreter.checks.report import Finding
from xdsl_spirv.tools.kernel_test.description import KernelTest

MISMATCH = "MISMATCH"
LAUNCH = "LAUNCH"
COMPILE = "COMPILE"
UNMET = "UNMET"

RULES = {
    MISMATCH: "a buffer holds what the test expects",
    LAUNCH: "a launch can be executed",
    COMPILE: "a kernel compiles and decodes",
    UNMET: "a finding or an error that the test expects is there",
}
"""Rules of tests themselves."""


@dataclass(frozen=True)
class Location:
    """A place in a file; `line` and `column` are 0 where they are unknown."""

    file: str
    line: int = 0
    column: int = 0
    text: str = ""
    """The source line, if it is known."""
    message: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.text.strip()}" if self.text.strip() else place


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong; `text` is all that there is to say."""

    rule: str
    message: str
    text: str
    remedy: str = ""
    location: Location | None = None
    related: tuple[Location, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "rule": self.rule,
            "message": self.message,
            "remedy": self.remedy,
            "text": self.text,
            "location": None if self.location is None else vars(self.location),
            "related": [vars(place) for place in self.related],
        }


@dataclass
class Outcome:
    """One launch of a test, or the failure to come to one (`subgroup_size` is then None)."""

    test: KernelTest
    subgroup_size: int | None = None
    problems: list[Problem] = field(default_factory=list[Problem])
    expected: list[Problem] = field(default_factory=list[Problem])
    """Findings that the test asks for."""
    misuse: str = ""
    """Why nothing could be run: the description's fault."""
    notes: list[str] = field(default_factory=list[str])
    compared: int = 0
    """Elements that were compared with an expectation."""
    checked: bool = False
    ran: bool = False
    """Whether the launch came to its end."""
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether the launch ran and did what the test says."""
        return not self.problems and not self.misuse

    @property
    def name(self) -> str:
        """The launch as reports call it."""
        size = "" if self.subgroup_size is None else f"[subgroup {self.subgroup_size}]"
        return self.test.name + size

    def __str__(self) -> str:
        return "\n".join([*(p.text for p in self.problems), *([self.misuse] * bool(self.misuse))])


class Sources:
    """Lines of the source files that are at hand."""

    def __init__(self, kernel: Path):
        self.kernel = kernel
        self._files: dict[str, list[str]] = {}

    def line(self, file: str, number: int) -> str:
        """A line, empty if it is not known."""
        if file not in self._files:
            try:
                text = Path(file).read_text(errors="replace") if file else ""
            except (OSError, ValueError):
                text = ""
            self._files[file] = text.splitlines()
        lines = self._files[file]
        return lines[number - 1] if 0 < number <= len(lines) else ""

    def location(self, file: str, line: int, column: int = 0, message: str = "") -> Location:
        """A place with its line."""
        return Location(file, line, column, self.line(file, line), message)

    def of_finding(self, finding: Finding) -> tuple[Location | None, tuple[Location, ...]]:
        """A finding's place, and those that it speaks of."""
        return self._place(finding), tuple(self._related(finding))

    def _place(self, finding: Finding) -> Location | None:
        if finding.line:
            return self.location(str(self.kernel), finding.line)
        return Location(str(self.kernel))

    def _related(self, finding: Finding) -> Iterator[Location]:
        import re

        for note in finding.notes:
            for match in re.finditer(r"(the other access|stored by|the barrier)\b.*?, line (\d+)",
                                     note):  # fmt: skip
                yield self.location(str(self.kernel), int(match[2]), message=match[1])


def quoted(places: tuple[Location, ...]) -> str:
    """Source lines below a finding."""
    return "\n".join(f"    {p.message + ': ' if p.message else ''}{p}" for p in places if p.text)


def of_finding(finding: Finding, sources: Sources) -> Problem:
    """A finding of the checks."""
    place, related = sources.of_finding(finding)
    lines = [*([place] if place is not None and place.text else []), *related]
    text = "\n".join(filter(None, (str(finding), quoted(tuple(lines)))))
    return Problem(finding.rule, finding.message, text, finding.remedy, place, related)
