"""One error for a program that cannot be made, read or run: cause, place, and what to do."""

from __future__ import annotations

from xdsl_spirv.speech import spoken


class ProgramError(Exception):
    """
    A compiled program cannot be made, read or run.

    `cause` says what is wrong, `place` where (a file and field, an argument, an operation),
    `remedy` what to do about it.
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


class LateError(ProgramError):
    """A run here, as on a device, takes more time than it is given."""

    status = 4
