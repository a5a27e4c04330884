"""Defines the errors for programs that cannot be compiled, read or run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl_spirv.speech import spoken

if TYPE_CHECKING:
    from xdsl_spirv.interpreter.checks import Report


class ProgramError(Exception):
    """
    Raised if a program cannot be compiled, read or run.

    `cause` tells what is wrong, `place` where (a file and field, an argument, an operation), and
    `remedy` what to do.
    """

    status = 1
    """Exit status of a command that ends with this error (`tools/__init__.py`)."""

    def __init__(self, cause: str, place: str = "", remedy: str = ""):
        self.cause = cause
        self.place = place
        self.remedy = remedy
        super().__init__(cause)

    def __str__(self) -> str:
        text = f"{self.cause} ({self.place})" if self.place else self.cause
        return spoken(f"{text}; {self.remedy}" if self.remedy else text)


class UndefinedResultWarning(RuntimeWarning):
    """
    Warns that results of a run without checks depend on undefined integers: a division by 0, a
    shift by the width of the type, a float beyond the integer's range. A device may give other
    results. `report` contains the findings.
    """

    def __init__(self, report: Report):
        self.report = report
        super().__init__(f"results are undefined, so a device may give different ones\n{report}")


class InterpreterWarning(RuntimeWarning):
    """Warns that the interpreter runs a program because no device can."""


class LateError(ProgramError):
    """Raised if a run on the interpreter or a device of this machine exceeds its time limit."""

    status = 4
