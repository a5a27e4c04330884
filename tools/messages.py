"""
What a user is told: cause, place, and what to do, whichever layer of the house said no.

An error that is not listed here is a bug of ours, and said to be one.
"""

from __future__ import annotations

from xdsl.utils.exceptions import (
    ArgSpecParseError,
    DiagnosticException,
    ParseError,
    UnregisteredConstructException,
    VerifyException,
)

from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.interpreter import InterpreterError
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.serialization.raw.errors import SPIRVDecodeError
from xdsl_spirv.targets import TargetError


def message(error: BaseException) -> str | None:
    """The message of an error that a user can cause; None for a bug of ours."""
    match error:
        case InterpreterError():
            return str(ProgramError(error.cause, error.where, error.remedy))
        case ParseError():
            return f"the input does not parse\n{error}".rstrip()
        case VerifyException():
            return f"the module is not valid: {error}"
        case SPIRVDecodeError():
            return f"the binary cannot be read: {error}"
        case (
            FrontendError()
            | ProgramError()
            | TargetError()
            | DiagnosticException()
            | ArgSpecParseError()
        ):
            return str(error)
        case UnregisteredConstructException():
            return str(error)
        case KeyboardInterrupt():
            return "interrupted"
        case MemoryError():
            return "out of memory; use smaller inputs"
        case _:
            return None
