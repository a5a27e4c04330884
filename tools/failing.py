"""
Handles the failures of all commands: their messages and exit statuses (`__init__.py`).

This module imports very little: an interruption may come in the middle of an import, and its
handler must not start another one.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

from xdsl_spirv.tools import CLOSED, INTERRUPTED, TERMINATED


class Terminated(BaseException):
    """Raised on SIGTERM, so that temporary files are removed while it propagates."""


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Terminated


def end_by_exception() -> None:
    """Makes SIGTERM end this process like Ctrl-C from now on: by an exception."""
    signal.signal(signal.SIGTERM, _terminate)
    sys.unraisablehook = _raise_later


AGAIN = 0.005
"""Seconds of processor time after which a dropped exception is raised again."""


def _raise_later(dropped: sys.UnraisableHookArgs) -> None:
    """
    Raises again the exception that ends the process, if Python dropped it: while an object was
    destroyed, or in a callback of the import system.
    """
    kind = dropped.exc_type
    if kind is not Terminated and kind is not KeyboardInterrupt:
        sys.__unraisablehook__(dropped)
        return

    def interrupt(number: int, frame: FrameType | None) -> NoReturn:
        raise kind

    signal.signal(signal.SIGPROF, interrupt)
    signal.setitimer(signal.ITIMER_PROF, AGAIN)


def open_streams() -> None:
    """Opens the null device for standard streams that the caller has closed (`>&-`)."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, open(os.devnull, mode))


def guarded(run: Callable[[], int], debug: bool) -> int:
    """
    Runs a command; returns its status, or prints a message and returns the status of its exception.

    With `debug` exceptions pass; `SystemExit` always passes.
    """
    try:
        return _run_and_flush(run)
    except KeyboardInterrupt:
        return _print_failure("interrupted", INTERRUPTED)
    except Terminated:
        return _print_failure("terminated", TERMINATED)
    except BrokenPipeError:
        _drop_output()
        return CLOSED
    # ArgSpecParseError of xDSL is a BaseException.
    except BaseException as error:
        if debug or isinstance(error, SystemExit):
            raise
        if isinstance(error.__cause__, KeyboardInterrupt):
            # It came while a class was created, which Python 3.11 reports as an error of the class.
            return _print_failure("interrupted", INTERRUPTED)
        if isinstance(error, OSError) and error.filename is None:
            # At exit, Python would write the rest of the output, and fail again.
            _drop_output()
        from xdsl_spirv.tools.messages import failure

        return _print_failure(*failure(error))


def _run_and_flush(run: Callable[[], int]) -> int:
    """
    Returns or raises like `run`, or raises the error of the system for output that was buffered.
    """
    try:
        return run()
    finally:
        sys.stdout.flush()


def _print_failure(text: str, status: int) -> int:
    # Names come from files: they must not contain control codes for the terminal.
    shown = "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text)
    try:
        sys.stderr.write(f"error: {shown}\n")
    except OSError:
        pass
    return status


def _drop_output() -> None:
    """Discards everything that is written to standard output from now on."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
