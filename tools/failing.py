"""
Converts exceptions of the commands to messages and exit statuses (see `tools/__init__.py`).

The module imports very little, because an interruption may occur in the middle of an import.
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
    """Makes SIGTERM raise an exception in this process, like Ctrl-C."""
    signal.signal(signal.SIGTERM, _terminate)
    sys.unraisablehook = _raise_later


AGAIN = 0.005
"""Processor time in seconds after which a dropped exception is raised again."""


def _raise_later(dropped: sys.UnraisableHookArgs) -> None:
    """Raises an interruption again if Python dropped it in a destructor or an import callback."""
    kind = dropped.exc_type
    if kind is not Terminated and kind is not KeyboardInterrupt:
        sys.__unraisablehook__(dropped)
        return

    def interrupt(number: int, frame: FrameType | None) -> NoReturn:
        raise kind

    signal.signal(signal.SIGPROF, interrupt)
    signal.setitimer(signal.ITIMER_PROF, AGAIN)


def open_streams() -> None:
    """Opens the null device in place of standard streams that the caller closed (`>&-`)."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, open(os.devnull, mode))


def guarded(run: Callable[[], int], debug: bool) -> int:
    """
    Runs a command and returns its exit status. Prints a message for an exception and returns the
    exception's status.

    `SystemExit` is not caught. With `debug`, no exception except an interruption or a closed pipe
    is caught.
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
            # Python 3.11 wraps an interruption of a class statement in another exception.
            return _print_failure("interrupted", INTERRUPTED)
        if isinstance(error, OSError) and error.filename is None:
            # Python would flush the output at exit, and fail again.
            _drop_output()
        from xdsl_spirv.tools.messages import failure

        return _print_failure(*failure(error))


def _run_and_flush(run: Callable[[], int]) -> int:
    """Runs a command and flushes its output. Raises an `OSError` if the flush fails."""
    try:
        return run()
    finally:
        sys.stdout.flush()


def _print_failure(text: str, status: int) -> int:
    # Names from files must not contain control codes for the terminal.
    shown = "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text)
    try:
        sys.stderr.write(f"error: {shown}\n")
    except OSError:
        pass
    return status


def _drop_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
