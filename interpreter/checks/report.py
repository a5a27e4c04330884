"""The checks of a run, and their findings: records that print, compare and become JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, fields
from html import escape
from typing import Any

from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.source.location import SourceLocation, inlined, quoted
from xdsl_spirv.speech import did_you_mean

CHECKS: dict[str, str] = {
    "rules": "dynamic rules of the extensions: full scopes, uniform operands, strides, clusters",
    "undefined": "undefined values that reach a branch, an address, a buffer or a uniform operand",
    "bounds": "accesses outside buffers, arrays, vectors and matrices' memory",
    "alignment": "addresses and strides that are not aligned as the access requires",
    "overlap": "lanes or rows that write one address in one instruction with different values",
    "barriers": "barriers that not all invocations of their scope reach together",
    "progress": "loops that end only if another workgroup goes on, which Vulkan does not promise",
    "races": "conflicting accesses that nothing orders",
    "permute": "results that depend on the order in which invocations run",
    "choices": "results that depend on an implementation's choice",
    "counters": "saturated, wrapped, infinite, NaN and subnormal results by instruction",
}
"""Every check's name and what it finds. All but `counters` find bugs."""

OF_INTEGERS = tuple(f"UNDEF-{number}" for number in ("03", "04", "05", "06", "10", "11", "13"))
"""Rules on integers. Such results look valid, while undefined floats are mostly NaN."""

FAMILIES = {
    **dict.fromkeys(("CM", "DOT", "ROT", "GROUP"), "rules"),
    **dict.fromkeys(("RACE", "ALIAS"), "races"),
    "UNDEF": "undefined",
    "BOUNDS": "bounds",
    "ALIGN": "alignment",
    "OVERLAP": "overlap",
    "BARRIER": "barriers",
    "PROGRESS": "progress",
    "SCHED": "permute",
    "CHOICE": "choices",
}
"""The check that a rule belongs to, by the rule's family."""


def check_of(rule: str) -> str:
    """The check that finds breaches of a rule."""
    return FAMILIES[rule.partition("-")[0]]


@dataclass(frozen=True)
class Place:
    """An invocation, or a subgroup (`invocation` is then its first one's number)."""

    workgroup: tuple[int, int, int]
    invocation: int

    def __str__(self) -> str:
        x, y, z = self.workgroup
        return f"({x}, {y}, {z}):{self.invocation}"


@dataclass(frozen=True)
class Related:
    """
    Another instruction that a finding mentions, with its `role` and place.

    `head` and `tail` are text around it; `line` and `source` are as in a finding.
    """

    role: str
    op: str
    text: str
    line: int = 0
    source: SourceLocation | None = None
    detail: str = ""
    head: str = ""

    def __str__(self) -> str:
        role = f"{self.head}; {self.role}" if self.head else self.role
        if self.source is None:
            place = self.text + (f", line {self.line}" if self.line else "")
            return f"{role}: {place}" + (f", {self.detail}" if self.detail else "")
        place = quoted(self.source, self.text) + (f"   {self.detail}" if self.detail else "")
        return "\n".join([f"{role}: {place}", *inlined(self.source)])


@dataclass
class Finding:
    """
    One bug: what rule is broken, by which instruction, in which invocations, with which values.

    `rule` is a rule's id (docs/rules.md, docs/checks.md); `places` are the first few invocations of
    `count`; `times` is how often the instruction ran and broke it. `source` is the instruction's
    place in the source, None without debug information; `hint` says what would give it. `line` is
    that of the text which the module was parsed from, or of the source, 0 if unknown. `notes` are
    printed as they are; of those that speak of another instruction, `related` has the parts.
    """

    check: str = field(init=False)
    rule: str
    op: str
    message: str
    remedy: str = ""
    function: str = ""
    line: int = 0
    text: str = ""
    source: SourceLocation | None = None
    hint: str = ""
    places: list[Place] = field(default_factory=list[Place])
    count: int = 0
    values: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])
    related: list[Related] = field(default_factory=list[Related])
    times: int = 1

    def __post_init__(self) -> None:
        self.check = check_of(self.rule)

    def note(self, *notes: str | Related) -> None:
        """Add notes; notes about another instruction are also kept in `related`."""
        self.notes += map(str, notes)
        self.related += [note for note in notes if isinstance(note, Related)]

    def where(self) -> list[str]:
        """The lines that tell the place of the finding."""
        text = self.text or self.op
        if self.source is not None:
            return [f"at {quoted(self.source, text)}", *inlined(self.source)]
        where = f"@{self.function}" if self.function else ""
        return [f"at {text} in {where}" + (f", line {self.line}" if self.line else "")]

    def __str__(self) -> str:
        lines = [f"{self.rule}: {self.message}", *(f"  {line}" for line in self.where())]
        if self.places:
            first = ", ".join(map(str, self.places))
            more = f" and {self.count - len(self.places)} more" * (self.count > len(self.places))
            lines.append(f"  in (workgroup):invocation {first}{more}")
        lines += [f"  {value}" for value in self.values]
        lines += [f"  {line}" for note in self.notes for line in note.split("\n")]
        if self.times > 1:
            lines.append(f"  {self.times} times")
        if self.remedy:
            lines.append(f"  {self.remedy}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Allowed:
    """
    A finding that is not reported: every given field must equal the finding's.

    `text` need only be contained in the instruction's text or a note: a variable's name, say.
    """

    rule: str = ""
    check: str = ""
    text: str = ""

    def covers(self, finding: Finding) -> bool:
        """Whether a finding is allowed."""
        texts = (finding.text, finding.message, *finding.notes, *finding.values)
        return (
            (not self.rule or self.rule == finding.rule)
            and (not self.check or self.check == finding.check)
            and (not self.text or any(self.text in text for text in texts))
        )


class CheckError(InterpreterError):
    """The first finding, where `Checks.stop` asks for an error; `finding` is the record."""

    def __init__(self, finding: Finding):
        self.finding = finding
        place = finding.text or finding.op
        if finding.source is not None:
            place = quoted(finding.source, place)
        elif finding.line:
            place += f" (line {finding.line})"
        super().__init__(f"{finding.rule}: {finding.message}", place, finding.remedy)


class Report:
    """The findings of one or more runs, in the order in which they were made."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.allowed: list[Finding] = []
        self.counters: dict[str, dict[str, int]] = {}
        self._known: dict[tuple[str, object], Finding] = {}

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    def seen(self, rule: str, op: object) -> bool:
        """Counts a repetition of a finding; returns False if there is no such finding yet."""
        known = self._known.get((rule, op))
        if known is None:
            return False
        known.times += 1
        return True

    def add(self, finding: Finding, op: object, allow: tuple[Allowed, ...] = ()) -> bool:
        """Records a finding of `op`; returns False if it is an allowed one."""
        self._known[finding.rule, op] = finding
        if any(allowed.covers(finding) for allowed in allow):
            self.allowed.append(finding)
            return False
        self.findings.append(finding)
        return True

    def where(self, finding: Finding) -> object:
        """The operation that a finding is about."""
        return next((op for (_, op), known in self._known.items() if known is finding), None)

    def __str__(self) -> str:
        parts = [str(finding) for finding in self.findings]
        for name, counts in self.counters.items():
            parts.append(f"{name}: " + ", ".join(f"{n} {what}" for what, n in counts.items()))
        parts += dict.fromkeys(finding.hint for finding in self.findings if finding.hint)
        allowed = f", {len(self.allowed)} allowed" if self.allowed else ""
        count = len(self.findings)
        parts.append(f"{count} finding{'s' * (count != 1)}{allowed}")
        return "\n".join(parts)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def record(self) -> dict[str, Any]:
        """The findings and counters as plain data."""
        return {
            "findings": [asdict(finding) for finding in self.findings],
            "allowed": [asdict(finding) for finding in self.allowed],
            "counters": self.counters,
        }

    def to_json(self) -> str:
        """The findings and counters as JSON."""
        return json.dumps(self.record(), indent=2)


@dataclass(frozen=True)
class Checks:
    """
    The checks to make, and the report that they fill; docs/checks.md describes each.

    `allow` lists findings that are intended. With `stop` the first finding that is not allowed
    raises `CheckError`; `found` is called with each, and its operation, as it is made.
    """

    rules: bool = False
    undefined: bool = False
    bounds: bool = False
    alignment: bool = False
    overlap: bool = False
    barriers: bool = False
    progress: bool = False
    races: bool = False
    permute: bool = False
    choices: bool = False
    counters: bool = False
    stop: bool = False
    allow: tuple[Allowed, ...] = ()
    of_data: bool = False
    """Only find undefined integers that some contents of buffers cause."""
    launches_stand_alone: bool = True
    """Also report launches that depend on the mapping although the program does not."""
    report: Report = field(default_factory=Report, compare=False)
    found: Callable[[Finding, object], None] | None = field(default=None, compare=False)

    def record(self, finding: Finding, op: object) -> None:
        """Report a finding of `op`; with `stop` raise the first that is not allowed."""
        if not self.report.add(finding, op, self.allow):
            return
        if self.found is not None:
            self.found(finding, op)
        if self.stop:
            raise CheckError(finding)

    @classmethod
    def all(cls, *, stop: bool = False, allow: tuple[Allowed, ...] = ()) -> Checks:
        """Every check that finds bugs: all but the counters."""
        on: dict[str, Any] = {name: name != "counters" for name in CHECKS}
        return cls(**on, stop=stop, allow=allow)

    @classmethod
    def of(cls, names: str, *, stop: bool = False, allow: tuple[Allowed, ...] = ()) -> Checks:
        """
        The checks of a list like `races,bounds`; `all` is all that find bugs.

        Raises `InterpreterError` for an unknown name.
        """
        on = cls.all() if "all" in names.split(",") else cls()
        chosen: dict[str, Any] = {f.name: getattr(on, f.name) for f in fields(on)}
        chosen = {name: value for name, value in chosen.items() if name in CHECKS}
        for name in filter(None, (part.strip() for part in names.split(","))):
            if name != "all" and name not in CHECKS:
                raise InterpreterError(
                    f"there is no check {name!r}",
                    "checks",
                    did_you_mean(name, CHECKS, f"use all, or some of {', '.join(CHECKS)}"),
                )
            if name != "all":
                chosen[name] = True
        return cls(**chosen, stop=stop, allow=allow)
