"""Defines the error that is raised for a wrong program or a wrong argument."""

from __future__ import annotations

from xdsl.ir import Operation

from xdsl_spirv.interpreter.source import SourceLocation, hint_of, in_source, source_of
from xdsl_spirv.interpreter.source.location import inlined, quoted


def place_of(op: Operation) -> str:
    """Returns the names of an operation and of the functions and modules around the operation."""
    names = [op.name]
    parent = op.parent_op()
    while parent is not None:
        symbol = parent.properties.get("sym_name") or parent.attributes.get("sym_name")
        if symbol is not None:
            names.append(f"{parent.name} @{getattr(symbol, 'data', symbol)}")
        parent = parent.parent_op()
    return " in ".join(names)


class InterpreterError(Exception):
    """
    Raised for a program that cannot be executed, or for wrong inputs.

    `cause` tells what is wrong, `place` where (an operation or an argument of the call), and
    `remedy` what to do. `source` is the operation's source location, if debug information contains
    it.
    """

    def __init__(self, cause: str, place: Operation | str | None = None, remedy: str = ""):
        self.cause = cause
        self.source: SourceLocation | None = None
        self.hint = ""
        self.place: str | None = None
        if isinstance(place, Operation):
            self.at(place)
        else:
            self.place = place
        self.remedy = remedy
        super().__init__(cause)

    def at(self, op: Operation) -> InterpreterError:
        """Sets the place to `op` if the error has no place yet. Returns the error itself."""
        if self.place is None:
            self.place, self.source = place_of(op), source_of(op)
            self.cause, self.hint = in_source(op, self.cause), hint_of(op)
        return self

    @property
    def where(self) -> str:
        """Returns the location for a message: the source location if known, otherwise `place`."""
        if self.source is None:
            return f"{self.place} ({self.hint})" if self.hint else self.place or ""
        return "\n  ".join([quoted(self.source, self.place or ""), *inlined(self.source)])

    def __str__(self) -> str:
        text = self.cause
        if self.where:
            text += f"\n  at {self.where}"
        if self.remedy:
            text += f"\n  {self.remedy}"
        return text
