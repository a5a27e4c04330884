"""
A rule is a small function under an id; this is the list of all rules and the type of their
findings.

A rule says what breaks it and what to do; where it stands (words, names, source lines) is added by
whoever runs the rules, so that no rule forgets it. Rules of one instruction are registered for the
instructions' names and run on each; rules of the whole module run once. A rule reads the indexed
module and nothing else, and must not assume that another rule holds: any id may be undefined and
any instruction in the wrong place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from xdsl_spirv.serialization.validation.instructions import Instruction
    from xdsl_spirv.serialization.validation.module import Module


class Severity(StrEnum):
    """An error makes the module invalid, a warning does not."""

    ERROR = "error"
    WARNING = "warning"


class Problem(NamedTuple):
    """A broken rule: the cause, what to do, and the instruction if it is not the one given."""

    cause: str
    remedy: str
    at: Instruction | None = None
    rule: str = ""
    """Another rule's id, where one check serves several."""


Problems: TypeAlias = Iterable[Problem]
InstructionCheck: TypeAlias = "Callable[[Module, Instruction], Problems]"
ModuleCheck: TypeAlias = "Callable[[Module], Problems]"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: its id, where the specification states it, and the sentence it checks."""

    id: str
    section: str
    says: str
    vulkan: bool = False
    """Whether the rule is Vulkan's and holds in its environments only."""
    severity: Severity = Severity.ERROR


RULES: dict[str, Rule] = {}
"""Every universal rule by id, in the order of registration."""

INSTRUCTION_CHECKS: list[tuple[Rule, tuple[str, ...], InstructionCheck]] = []
MODULE_CHECKS: list[tuple[Rule, ModuleCheck]] = []


def _new(id: str, section: str, says: str, vulkan: bool, severity: Severity) -> Rule:
    if id in RULES:
        raise ValueError(f"two rules are called {id}")
    RULES[id] = Rule(id, section, says, vulkan, severity)
    return RULES[id]


def _first_paragraph(check: Callable[..., Problems]) -> str:
    """The docstring's first paragraph on one line."""
    return " ".join((check.__doc__ or "").partition("\n\n")[0].split())


def instruction_rule(
    id: str,
    section: str,
    names: str,
    *,
    says: str = "",
    vulkan: bool = False,
    severity: Severity = Severity.ERROR,
) -> Callable[[InstructionCheck], InstructionCheck]:
    """
    Registers a function that checks one instruction at a time; its docstring is the rule's text.

    `names` are the instructions' names without `Op`, apart by blanks; empty for all instructions.
    """

    def register(check: InstructionCheck) -> InstructionCheck:
        rule = _new(id, section, says or _first_paragraph(check), vulkan, severity)
        INSTRUCTION_CHECKS.append((rule, tuple(f"Op{n}" for n in names.split()), check))
        return check

    return register


def module_rule(
    id: str,
    section: str,
    *,
    vulkan: bool = False,
    severity: Severity = Severity.ERROR,
) -> Callable[[ModuleCheck], ModuleCheck]:
    """Registers a function that checks a whole module; its docstring is the rule's text."""

    def register(check: ModuleCheck) -> ModuleCheck:
        rule = _new(id, section, _first_paragraph(check), vulkan, severity)
        MODULE_CHECKS.append((rule, check))
        return check

    return register


def declared_rule(id: str, section: str, says: str) -> str:
    """A rule that another one's function checks with its own; returns the id."""
    return _new(id, section, says, False, Severity.ERROR).id
