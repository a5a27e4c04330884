"""The error for a model that cannot be imported: cause, place, and what to do."""

from __future__ import annotations

from xdsl_spirv.speech import spoken


class FrontendError(Exception):
    """
    A model file is broken, incomplete, or contains something that the importers do not support.

    `cause` says what is wrong, `place` where (the file, a node, an input), `remedy` what to do.
    `kind` sorts the causes for statistics; `operator` and `node` are the ones at fault.
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
"""Exceptions that readers raise for broken nodes, for example for missing operands."""
