"""
The process that a `Compiler` starts: it compiles candidates until its standard input ends.

It is a program of its own, since what is pickled between the two must be known by one module name.
"""

from __future__ import annotations

import os
import signal
import sys

from xdsl_spirv.runtime.processes import receive, send
from xdsl_spirv.tools.tuning.candidates import compiled


def main() -> None:
    """Answer each (source, schedule) with a program or why there is none."""
    # An interrupt is the caller's affair; what is printed must not end up between the answers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        while True:
            send(answers, compiled(*receive(sys.stdin.buffer)))
    except (EOFError, BrokenPipeError):
        pass


if __name__ == "__main__":
    main()
