"""
Child processes that end when this process ends for any reason.

A tool that hangs on a module would otherwise keep a processor busy after its caller was killed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

SCRIPT = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() != int(sys.argv[1]):
    os._exit(1)
os.execvp(sys.argv[2], sys.argv[2:])
"""
"""PR_SET_PDEATHSIG lasts beyond exec; the parent may be gone before it is set."""


def with_parent(command: Sequence[str]) -> list[str]:
    """Wraps a command, so that on Linux it ends with the thread that starts it."""
    if sys.platform != "linux":
        return list(command)
    return [sys.executable, "-I", "-S", "-c", SCRIPT, str(os.getpid()), *command]
