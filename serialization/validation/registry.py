"""
Registers all rules. A rule has an id, and is a function that yields problems.

A problem has a cause and a remedy. The validator adds the place (words, names, source lines). Rules
of one instruction are registered for instruction names, and run on each such instruction. Rules of
the whole module run once. A rule must not rely on other rules: any id may be undefined, and any
instruction may be misplaced.
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
    """Severity of a broken rule. Only an error makes the module invalid."""

    ERROR = "error"
    WARNING = "warning"


class Problem(NamedTuple):
    """
    A broken rule: the cause, the remedy, and the instruction if it differs from the checked one.
    """

    cause: str
    remedy: str
    at: Instruction | None = None
    rule: str = ""
    """The id of the broken rule. Given if the check covers several rules."""


Problems: TypeAlias = Iterable[Problem]
InstructionCheck: TypeAlias = "Callable[[Module, Instruction], Problems]"
ModuleCheck: TypeAlias = "Callable[[Module], Problems]"


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: its id, its section of the specification, and its statement."""

    id: str
    section: str
    says: str
    vulkan: bool = False
    """True if the rule applies only in Vulkan environments."""
    severity: Severity = Severity.ERROR


RULES: dict[str, Rule] = {}
"""All rules by id, in the order of registration."""

INSTRUCTION_CHECKS: list[tuple[Rule, tuple[str, ...], InstructionCheck]] = []
MODULE_CHECKS: list[tuple[Rule, ModuleCheck]] = []


def _new(id: str, section: str, says: str, vulkan: bool, severity: Severity) -> Rule:
    if id in RULES:
        raise ValueError(f"two rules are called {id}")
    RULES[id] = Rule(id, section, says, vulkan, severity)
    return RULES[id]


def _first_paragraph(check: Callable[..., Problems]) -> str:
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
    Registers a function that checks one instruction. If `says` is empty, the function's docstring
    is the text of the rule.

    `names` are instruction names without `Op`, separated by blanks. If it is empty, the rule is for
    all instructions.
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
    """Registers a function that checks a whole module. Its docstring is the text of the rule."""

    def register(check: ModuleCheck) -> ModuleCheck:
        rule = _new(id, section, _first_paragraph(check), vulkan, severity)
        MODULE_CHECKS.append((rule, check))
        return check

    return register


def declared_rule(id: str, section: str, says: str) -> str:
    """Registers a rule that is checked by the function of another rule. Returns the id."""
    return _new(id, section, says, False, Severity.ERROR).id
