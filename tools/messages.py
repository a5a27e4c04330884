"""
Makes messages for users from the errors of all layers: cause, place, and what to do.

An exception that is not listed is reported as a defect of this package.
"""

from __future__ import annotations

import os
from pathlib import Path

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
from xdsl_spirv.speech import did_you_mean
from xdsl_spirv.targets import TargetError
from xdsl_spirv.tools import ENVIRONMENT, OURSELVES, REFUSED, of_the_system


def failure(error: BaseException) -> tuple[str, int]:
    """Returns the message of an error, and the exit status of the process."""
    known = message(error)
    if known is not None:
        known = _with_similar_file(known, error)
    if known is None:
        if isinstance(error, OSError):
            return _of_the_system(error)
        said = str(error).strip().partition("\n")[0]
        return (
            f"xdsl-spirv itself has a defect: {type(error).__name__}: {said}; run it "
            "again with --debug for the traceback, and report it"
        ), OURSELVES
    if isinstance(error, MemoryError):
        return known, ENVIRONMENT
    status = error.status if isinstance(error, ProgramError) else REFUSED
    if status == REFUSED and isinstance(error.__cause__, OSError):
        status = of_the_system(error.__cause__)[0]
    return known, status


def _with_similar_file(text: str, error: BaseException) -> str:
    """Returns a message about a missing file with the names of similar files."""
    cause = error.__cause__
    if not isinstance(cause, FileNotFoundError) or cause.filename is None:
        return text
    path = Path(os.fsdecode(cause.filename))
    while not path.parent.exists():
        path = path.parent
    try:
        names = os.listdir(path.parent)
    except OSError:
        return text
    remedy = did_you_mean(path.name, names)
    return f"{text}; {remedy}" if remedy else text


def _of_the_system(error: OSError) -> tuple[str, int]:
    """Returns message and exit status. An `OSError` without a file is about the output."""
    status, remedy = of_the_system(error)
    reason = error.strerror or str(error)
    if error.filename is None:
        return f"cannot write the output: {reason}; {remedy}", status
    return f"{str(error.filename)!r}: {reason}; {remedy}", status


def message(error: BaseException) -> str | None:
    """Returns a message if a user can cause the error, or None for a defect of this package."""
    match error:
        case InterpreterError():
            return str(ProgramError(error.cause, error.where, error.remedy))
        case ParseError():
            return f"the input cannot be parsed\n{error}".rstrip()
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
        case MemoryError():
            return "out of memory; use smaller inputs"
        case _:
            return None
