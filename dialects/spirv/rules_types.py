"""
The exception for broken static rules, and the rules that a cooperative matrix type checks.

Modules of types import this module. `rules.py` imports the types.
"""

from __future__ import annotations

from typing import NoReturn

from xdsl.dialects.builtin import (
    IntegerType,
    _FloatType,  # pyright: ignore[reportPrivateUsage]
)
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException


class RuleViolation(VerifyException):
    """A broken rule of docs/rules.md: its id, the cause and the remedy."""

    def __init__(self, rule: str, cause: str, remedy: str):
        super().__init__(f"{rule}: {cause}; {remedy}")
        self.rule = rule
        self.cause = cause
        self.remedy = remedy


def refuse(rule: str, cause: str, remedy: str) -> NoReturn:
    """Raises a `RuleViolation` with the text `CM-20: cause; remedy`."""
    raise RuleViolation(rule, cause, remedy)


def is_integer(type_: Attribute) -> bool:
    """True for SPIR-V integers, which do not include `i1`, SPIR-V's Boolean."""
    return isinstance(type_, IntegerType) and type_.width.data > 1


def cm_04_component_type(component: Attribute) -> None:
    """CM-04: the component type must be a scalar numeric type."""
    if not is_integer(component) and not isinstance(component, _FloatType):
        refuse(
            "CM-04",
            "a cooperative matrix's component type must be a scalar numerical type, "
            f"not {component}",
            "use an integer or floating-point type",
        )


def cm_05_constant(what: str, value: int) -> None:
    """CM-05: a known number of rows or columns must be from 1 to the largest 32-bit integer."""
    if not 0 < value < 2**32:
        refuse(
            "CM-05",
            f"a cooperative matrix's {what} must be a 32-bit integer of at least 1, not {value}",
            "give a number, or a specialization constant's @name",
        )
