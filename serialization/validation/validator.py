"""Runs all rules and reports all findings with their places, in the module's order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from importlib import import_module
from typing import Any

from xdsl_spirv.serialization.raw.binary import RawModule, decode
from xdsl_spirv.serialization.validation.environment import Environment, find_environment
from xdsl_spirv.serialization.validation.instructions import Instruction
from xdsl_spirv.serialization.validation.module import Module
from xdsl_spirv.serialization.validation.registry import (
    INSTRUCTION_CHECKS,
    MODULE_CHECKS,
    RULES,
    InstructionCheck,
    ModuleCheck,
    Problem,
    Rule,
    Severity,
    declared_rule,
)

GROUPS = (
    "order",
    "ids",
    "capabilities",
    "declarations",
    "operands",
    "composites",
    "bitcasts",
    "calls",
    "memory",
    "pointers",
    "synchronization",
    "control_flow",
    "entry_points",
    "decorations",
    "layouts",
    "vulkan",
    "workgroup_memory",
    "extended",
    "images",
    "graphs",
    "debug",
    "extensions",
)
"""The modules that register rules, in the order of the documentation."""


MAX_FINDINGS = 1000
"""Maximum number of findings. Random bytes could have one in each word."""

MAX_TEXT = 400
"""Maximum length of a finding's cause or remedy in characters. Names in modules may be long."""


VERIFIER = declared_rule("DIA-01", "docs/syntax.md", "The verifier of each operation succeeds.")
WRITABLE = declared_rule("DIA-02", "docs/syntax.md", "A spirv.module can be encoded as a binary.")
"""Rules that are already checked on a `spirv.module` before it is encoded (`of_dialect.py`)."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A broken rule with its place."""

    rule: str
    severity: Severity
    cause: str
    remedy: str
    index: int
    """Index of the instruction. -1 if the finding is about the whole module."""
    word: int
    """Offset of the instruction in words from the start of the module."""
    opcode: int | None = None
    instruction: str | None = None
    id: int = 0
    """Result id of the instruction. 0 if it has no result."""
    name: str | None = None
    """The name that OpName gives the id."""
    source: str | None = None
    """The source position that OpLine gives the instruction, as `file:line:column`."""
    operation: str | None = None
    """The operation's text, if a `spirv.module` was validated."""

    def __str__(self) -> str:
        place = f"word {self.word}"
        if self.instruction is not None:
            called = f" %{self.id}" if self.id else ""
            named = f' "{self.name}"' if self.name else ""
            place += f", instruction {self.index} {self.instruction}{called}{named}"
        if self.source:
            place += f", {self.source}"
        if self.operation:
            place = f"{self.operation.strip()}" if self.index < 0 else f"{place}, {self.operation}"
        return f"{self.severity}: {self.rule}: {self.cause}; {self.remedy} ({place})"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@cache
def rules() -> dict[str, Rule]:
    """Returns all rules by id. At the first call, imports the modules that register rules."""
    for group in GROUPS:
        import_module(f"xdsl_spirv.serialization.validation.{group}")
    return RULES


@cache
def _dispatch() -> tuple[
    dict[str, list[tuple[Rule, InstructionCheck]]], list[tuple[Rule, ModuleCheck]]
]:
    rules()
    table: defaultdict[str, list[tuple[Rule, InstructionCheck]]] = defaultdict(list)
    for rule, names, check in INSTRUCTION_CHECKS:
        for name in names:
            table[name.removeprefix("Op")].append((rule, check))
    return dict(table), list(MODULE_CHECKS)


def environment_of(raw: RawModule) -> Environment:
    """Returns the default environment of a module."""
    return Module(raw).environment


def validate(
    binary: bytes | bytearray | memoryview | RawModule, target_env: str | None = None
) -> list[Finding]:
    """
    Returns the findings in a binary, in the module's order, but at most `MAX_FINDINGS`. The list is
    empty if the binary is valid.

    `target_env` is a key of `ENVIRONMENTS`, by default `vulkan1.3` for shaders and `spv1.6` for
    other modules. Raises `SPIRVDecodeError` if the bytes are not SPIR-V instructions, `ValueError`
    for an unknown environment.
    """
    raw = binary if isinstance(binary, RawModule) else decode(binary)
    m = Module(raw, None if target_env is None else find_environment(target_env))
    findings: dict[Finding, None] = {}
    for rule, problem, at in _problems(m):
        findings[_finding(m, rule, problem, at)] = None
        if len(findings) == MAX_FINDINGS:
            break
    return sorted(findings, key=lambda f: f.index)


LIMIT = Rule(
    "LIMIT-02", "docs/targets.md", "A workgroup uses at most the Workgroup memory of the target."
)


def beyond_memory(raw: RawModule, limit: int, says: str) -> list[Finding]:
    """
    Returns a finding for each entry point that uses more than `limit` bytes of Workgroup memory.
    `says` is part of the finding's text.
    """
    from xdsl_spirv.serialization.validation.workgroup_memory import find_excess

    m = Module(raw)
    return [_finding(m, LIMIT, problem, problem.at) for problem in find_excess(m, limit, says)]


def _problems(m: Module) -> Iterator[tuple[Rule, Problem, Instruction | None]]:
    by_op, of_module = _dispatch()
    vulkan = m.environment.vulkan is not None
    for rule, check in of_module:
        if vulkan or not rule.vulkan:
            for problem in check(m):
                yield rule, problem, problem.at
    for op, instructions in m.by_op.items():
        for rule, check in by_op.get(op, ()):
            if rule.vulkan and not vulkan:
                continue
            for i in instructions:
                if not i.sound:
                    continue  # Rule GRM-01 reports unreadable instructions.
                for problem in check(m, i):
                    yield rule, problem, problem.at or i


def _short(text: str) -> str:
    kept = MAX_TEXT // 2 - 2
    return text if len(text) <= MAX_TEXT else f"{text[:kept]}...{text[-kept:]}"


def _finding(m: Module, rule: Rule, problem: Problem, at: Instruction | None) -> Finding:
    id = problem.rule or rule.id
    cause, remedy = _short(problem.cause), _short(problem.remedy)
    if at is None:
        return Finding(id, rule.severity, cause, remedy, -1, 0)
    name = m.names.get(at.result)
    return Finding(
        rule=id,
        severity=rule.severity,
        cause=cause,
        remedy=remedy,
        index=at.index,
        word=at.offset,
        opcode=at.words[0] & 0xFFFF,
        instruction=f"Op{at.op}",
        id=at.result,
        name=None if name is None else _short(name),
        source=_source(m, at),
    )


def _source(m: Module, at: Instruction) -> str | None:
    line = m.line_of(at.index)
    if line is None:
        return None
    file = m.definitions.get(line.words[1])
    read = file.read if file is not None and file.op == "String" else None
    name = _short(str(read[1].value)) if read else "?"
    return f"{name}:{line.words[2]}:{line.words[3]}"
