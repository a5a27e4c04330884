"""
One error for everything a program or its caller can get wrong: cause, place, and what to do.
"""

from __future__ import annotations

from xdsl.ir import Operation


def place_of(op: Operation) -> str:
    """The operation and the functions and modules around it, outermost last."""
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
    A program cannot be executed, or was given the wrong inputs.

    `cause` says what is wrong, `place` where (an operation, or an argument of the call), `remedy`
    what to do about it.
    """

    def __init__(self, cause: str, place: Operation | str | None = None, remedy: str = ""):
        self.cause = cause
        self.place = place_of(place) if isinstance(place, Operation) else place
        self.remedy = remedy
        super().__init__(cause)

    def at(self, op: Operation) -> InterpreterError:
        """This error, placed at `op` if it has no place yet."""
        if self.place is None:
            self.place = place_of(op)
        return self

    def __str__(self) -> str:
        text = self.cause
        if self.place:
            text += f"\n  at {self.place}"
        if self.remedy:
            text += f"\n  {self.remedy}"
        return text
