"""Represents findings, mismatches and errors of a test as problems with source locations."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xdsl_spirv.interpreter.checks.report import Finding
from xdsl_spirv.interpreter.source import SourceLocation
from xdsl_spirv.tools.kernel_test.description import KernelTest

if TYPE_CHECKING:
    from xdsl_spirv.tools.kernel_test.arguments import Arguments

MISMATCH = "MISMATCH"
LAUNCH = "LAUNCH"
COMPILE = "COMPILE"
UNMET = "UNMET"
UNPROVED = "UNPROVED"

MAX_SOURCE = 16 << 20
"""Maximum size of a source file that reports quote, in bytes."""

RULES = {
    MISMATCH: "a buffer contains the expected values",
    LAUNCH: "a launch can be executed",
    COMPILE: "a kernel compiles and decodes",
    UNMET: "a finding or an error that the test expects occurs",
    UNPROVED: ("the test's questions about all launches are proved under the test's premises"),
}
"""Rules about a test as a whole, by id."""


@dataclass(frozen=True)
class Location:
    """A location in a file; an unknown `line` or `column` is 0."""

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
    """A problem of a test; `text` is the complete message."""

    rule: str
    message: str
    text: str
    remedy: str = ""
    location: Location | None = None
    related: tuple[Location, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Returns the problem as data for a JSON report."""
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
    """The outcome of a launch or a proof. `subgroup_size` is None if nothing was launched."""

    test: KernelTest
    subgroup_size: int | None = None
    problems: list[Problem] = field(default_factory=list[Problem])
    expected: list[Problem] = field(default_factory=list[Problem])
    """Findings that the test expects."""
    misuse: str = ""
    """The fault of the description, if this fault is the reason why nothing ran."""
    notes: list[str] = field(default_factory=list[str])
    compared: int = 0
    """Number of elements that were compared with expected values."""
    checked: bool = False
    ran: bool = False
    """True if the launch completed."""
    arguments: Arguments | None = None
    """The launch's buffers with their final contents."""
    seconds: float = 0.0
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    """Settings that affect the verdict (`tools/settings.py`); empty if nothing was launched."""
    proof: dict[str, Any] | None = None
    """The questions, the verdict and the premises of a proof; None for a launch."""

    @property
    def passed(self) -> bool:
        """True if the launch or proof ran and met all expectations."""
        return not self.problems and not self.misuse

    @property
    def name(self) -> str:
        """Name of the outcome in reports."""
        if self.proof is not None:
            return f"{self.test.name}[proof]"
        size = "" if self.subgroup_size is None else f"[subgroup {self.subgroup_size}]"
        return self.test.name + size

    def __str__(self) -> str:
        return "\n".join([*(p.text for p in self.problems), *([self.misuse] * bool(self.misuse))])


class Sources:
    """Reads source files for reports, if they are available."""

    def __init__(self, kernel: Path):
        self.kernel = kernel
        self._files: dict[str, list[str]] = {}

    def line(self, file: str, number: int) -> str:
        """Returns the text of a line, or an empty text if the file is not available."""
        if file not in self._files:
            self._files[file] = self._read(file)
        lines = self._files[file]
        return lines[number - 1] if 0 < number <= len(lines) else ""

    def _read(self, file: str) -> list[str]:
        """Reads a file below the kernel's folder; refuses other paths that a module names."""
        try:
            path = Path(file).resolve()
            near = path.is_relative_to(self.kernel.resolve().parent)
            if not near or not path.is_file() or path.stat().st_size > MAX_SOURCE:
                return []
            return path.read_text(errors="replace").splitlines()
        except (OSError, ValueError, RuntimeError):
            return []

    def location(self, file: str, line: int, column: int = 0, message: str = "") -> Location:
        """
        Makes a location with the text of its line. `message` is the text that reports show there.
        """
        return Location(file, line, column, self.line(file, line), message)

    def place(self, source: SourceLocation | None, line: int, message: str = "") -> Location | None:
        """Makes the location of a finding: in the source, else in the file with the module."""
        if source is not None:
            text = source.text or self.line(source.file, source.line)
            return Location(source.file, source.line, source.column, text, message)
        return self.location(str(self.kernel), line, message=message) if line else None


def of_finding(finding: Finding, sources: Sources) -> Problem:
    """Converts a finding of the interpreter's checks to a problem."""
    place = sources.place(finding.source, finding.line) or Location(str(sources.kernel))
    related = [
        sources.place(other.source, other.line, ", ".join(filter(None, (other.role, other.detail))))
        for other in finding.related
    ]
    places = tuple(other for other in related if other is not None)
    return Problem(finding.rule, finding.message, str(finding), finding.remedy, place, places)
