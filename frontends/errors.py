"""Defines the error for a model that cannot be imported."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from xdsl_spirv.speech import spoken


class FrontendError(Exception):
    """
    Raised if a model file is malformed or incomplete, or contains something that the importers do
    not support.

    `cause` describes the problem, `place` the file, node or input, and `remedy` a solution. `kind`
    groups causes for statistics. `operator` and `node` identify the faulty node.
    """

    def __init__(
        self,
        cause: str,
        place: str = "",
        remedy: str = "",
        kind: str = "refused",
        operator: str | None = None,
        node: str | None = None,
    ):
        self.cause = cause
        self.place = place
        self.remedy = remedy
        self.kind = kind
        self.operator = operator
        self.node = node
        super().__init__(cause)

    def __str__(self) -> str:
        text = f"{self.cause} ({self.place})" if self.place else self.cause
        return spoken(f"{text}; {self.remedy}" if self.remedy else text)


def import_needed(name: str, extra: str) -> Any:
    """
    Imports a package. If the package is missing, raises a `FrontendError` that names the extra to
    install.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise FrontendError(
            f"{name} cannot be imported: {error}",
            "",
            f"pip install 'xdsl-spirv[{extra}]'",
            "missing",
        ) from error


UNFORESEEN = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NotImplementedError,
    RecursionError,
    TypeError,
    ValueError,
)
"""Exceptions that a malformed node may raise, for example because operands are missing."""
