"""Defines records for checks and findings. They can be printed, compared and written as JSON."""

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
    "rules": "rules of instructions: active invocations, uniform operands, strides, clusters",
    "undefined": "undefined values that reach a branch, an address, a buffer or a uniform operand",
    "bounds": "accesses outside of buffers, arrays, vectors, or the memory of matrices",
    "alignment": "addresses and strides that are not aligned as the access requires",
    "overlap": "lanes or rows that write one address in one instruction with different values",
    "barriers": "barriers that not all invocations of their scope reach together",
    "progress": (
        "loops that end only if another workgroup makes progress, which Vulkan does not promise"
    ),
    "races": "conflicting accesses without an order between them",
    "permute": "results that depend on the order in which invocations run",
    "choices": "results that depend on an implementation's choice",
    "counters": "saturated, wrapped, infinite, NaN and subnormal results by instruction",
}
"""Maps the name of each check to its purpose. All checks but `counters` find bugs."""

OF_INTEGERS = tuple(f"UNDEF-{number}" for number in ("03", "04", "05", "06", "10", "11", "13"))
"""
Ids of rules for undefined integers. Unlike undefined floats (mostly NaN), undefined integers look
valid.
"""

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
"""Maps the prefix of a rule's id to the check that tests the rule."""


def check_of(rule: str) -> str:
    """Returns the name of the check that tests a rule."""
    return FAMILIES[rule.partition("-")[0]]


@dataclass(frozen=True)
class Place:
    """An invocation of a workgroup. For a subgroup, its first invocation."""

    workgroup: tuple[int, int, int]
    invocation: int

    def __str__(self) -> str:
        x, y, z = self.workgroup
        return f"({x}, {y}, {z}):{self.invocation}"


@dataclass(frozen=True)
class Related:
    """
    Another instruction that a finding mentions, and its `role` in the finding.

    `head` and `detail` are the text before and after the instruction. `line` and `source` have the
    same meaning as in `Finding`.
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
    One bug: the broken rule, the instruction, the invocations and their values.

    - `rule`: id of the rule (docs/rules.md, docs/checks.md).
    - `places`: the first few of the `count` invocations.
    - `times`: number of executions that broke the rule.
    - `source`: location in the source. None without debug information, which `hint` explains.
    - `line`: line in the source or in the parsed text, 0 if unknown.
    - `notes`: text that is printed unchanged.
    - `related`: the notes about other instructions, as records.
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
        """Adds notes. A note about another instruction is also added to `related`."""
        self.notes += map(str, notes)
        self.related += [note for note in notes if isinstance(note, Related)]

    def where(self) -> list[str]:
        """Returns the lines of text that tell the location of the finding."""
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
            lines.append(f"  the instruction broke this rule in {self.times} executions")
        if self.remedy:
            lines.append(f"  {self.remedy}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Allowed:
    """
    A pattern of findings that are not reported. A finding matches if all fields that are given are
    equal.

    `text`, such as a variable's name, only needs to occur in the instruction's text or in a note.
    """

    rule: str = ""
    check: str = ""
    text: str = ""

    def covers(self, finding: Finding) -> bool:
        """True if this entry allows a finding."""
        texts = (finding.text, finding.message, *finding.notes, *finding.values)
        return (
            (not self.rule or self.rule == finding.rule)
            and (not self.check or self.check == finding.check)
            and (not self.text or any(self.text in text for text in texts))
        )


class CheckError(InterpreterError):
    """
    Error raised for the first finding if `Checks.stop` is set. `finding` is the record of the
    finding.
    """

    def __init__(self, finding: Finding):
        self.finding = finding
        place = finding.text or finding.op
        if finding.source is not None:
            place = quoted(finding.source, place)
        elif finding.line:
            place += f" (line {finding.line})"
        super().__init__(f"{finding.rule}: {finding.message}", place, finding.remedy)


class Report:
    """The findings of one or more runs, in the order of discovery."""

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
        """
        True if an instruction already has a finding of this rule. In this case, also counts the
        repetition.
        """
        known = self._known.get((rule, op))
        if known is None:
            return False
        known.times += 1
        return True

    def add(self, finding: Finding, op: object, allow: tuple[Allowed, ...] = ()) -> bool:
        """Records a finding at `op`. Returns False if the finding is allowed."""
        self._known[finding.rule, op] = finding
        if any(allowed.covers(finding) for allowed in allow):
            self.allowed.append(finding)
            return False
        self.findings.append(finding)
        return True

    def where(self, finding: Finding) -> object:
        """Returns the operation of a finding, or None."""
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
        """Returns the findings and counters as plain data."""
        return {
            "findings": [asdict(finding) for finding in self.findings],
            "allowed": [asdict(finding) for finding in self.allowed],
            "counters": self.counters,
        }

    def to_json(self) -> str:
        """Returns the findings and counters as JSON."""
        return json.dumps(self.record(), indent=2)


@dataclass(frozen=True)
class Checks:
    """
    The enabled checks and the report that they fill. docs/checks.md describes each check.

    `allow` lists findings that are intended. With `stop`, the first finding that is not allowed
    raises `CheckError`. `found` is called with each new finding and its operation.
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
    """
    True if undefined integers are reported only where they depend on the contents of buffers. All
    other findings are then left out.
    """
    launches_stand_alone: bool = True
    """
    True if a launch may be tested alone with other component mappings. False if the program
    requires one mapping, or all its launches must use the same one.
    """
    report: Report = field(default_factory=Report, compare=False)
    found: Callable[[Finding, object], None] | None = field(default=None, compare=False)

    def record(self, finding: Finding, op: object) -> None:
        """Reports a finding. With `stop`, raises `CheckError` unless the finding is allowed."""
        if not self.report.add(finding, op, self.allow):
            return
        if self.found is not None:
            self.found(finding, op)
        if self.stop:
            raise CheckError(finding)

    @classmethod
    def all(cls, *, stop: bool = False, allow: tuple[Allowed, ...] = ()) -> Checks:
        """Enables every check that finds bugs: all checks except `counters`."""
        on: dict[str, Any] = {name: name != "counters" for name in CHECKS}
        return cls(**on, stop=stop, allow=allow)

    @classmethod
    def of(cls, names: str, *, stop: bool = False, allow: tuple[Allowed, ...] = ()) -> Checks:
        """
        Parses a list of checks like `races,bounds`, where `all` means every check that finds bugs.

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
