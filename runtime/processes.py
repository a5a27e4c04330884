"""
Runs a second process that answers messages. It may crash or hang, and is then killed.

Messages are pickled, because both processes run this package on this machine.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

WATCH_SECONDS = 0.5
DEATH_SECONDS = 5.0
"""Seconds to wait for the exit status of a process that closed its pipe."""


class ProcessDied(Exception):
    """Raised if the process ended by itself. `how` is a signal's name or an exit status."""

    def __init__(self, how: str):
        super().__init__(f"the process died ({how})")
        self.how = how


class ProcessLate(Exception):
    """Raised if the process did not answer in time. The process was killed."""


class Process:
    """Runs `python -m MODULE ARGUMENTS` by the command `launcher`, with a pipe per direction."""

    def __init__(
        self,
        module: str,
        *arguments: str,
        launcher: Sequence[str] = (),
        environment: dict[str, str] | None = None,
        quiet: bool = False,
    ):
        """
        Starts the process, with the given variables in its environment. `quiet` discards its
        standard error.
        """
        python = [*launcher, sys.executable] if launcher else python_command()
        self.process = subprocess.Popen(
            [*python, "-P", "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if quiet else None,
            env=same_modules() | (environment or {}),
            # Only the parent handles a terminal's interrupt, even while the child starts.
            start_new_session=True,
        )
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def _listen(self) -> None:
        assert self.process.stdout is not None
        try:
            while True:
                self._answers.put((receive(self.process.stdout),))
        except Exception:
            # The stream ended, possibly within a message.
            self._answers.put(())

    def ask(self, message: object, seconds: float) -> Any:
        """Sends a message and returns the answer. Raises `ProcessDied` or `ProcessLate`."""
        assert self.process.stdin is not None
        if not self.alive:
            raise self._died()
        try:
            send(self.process.stdin, message)
            answer = self._answers.get(timeout=min(seconds, threading.TIMEOUT_MAX))
        except OSError as error:
            raise self._died() from error
        except queue.Empty:
            self.kill()
            raise ProcessLate from None
        except BaseException:
            # After an interrupt, the answer is no longer needed.
            self.kill()
            raise
        if not answer:
            raise self._died()
        return answer[0]

    def _died(self) -> ProcessDied:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(DEATH_SECONDS)
        code = self.process.poll()
        self.kill()
        if code is not None and code < 0:
            return ProcessDied(signal.Signals(-code).name)
        return ProcessDied(f"exit status {code}")

    def kill(self) -> None:
        """Kills the process and its children immediately."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self.alive:
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def wait(self, seconds: float) -> None:
        """Waits up to `seconds` for the process to end."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)


def serve(answer: Callable[[Any], Any], last: Callable[[Any], bool] = lambda _: False) -> None:
    """
    Answers messages in the child process. Ends the process when the parent is gone, or after a
    message for which `last` returns True.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    # A driver's own output must not be mixed with the answers. And a driver that fails to open a
    # device may close file 0 instead.
    messages, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while True:
        try:
            message = receive(messages)
            send(answers, answer(message))
        except (EOFError, BrokenPipeError):
            break
        if last(message):
            break
    # A running kernel would delay the driver's clean-up.
    sys.stderr.flush()
    os._exit(0)


def _end_with(parent: int) -> None:
    """Exits when the parent is gone, even while a kernel runs forever."""
    while os.getppid() == parent:
        time.sleep(WATCH_SECONDS)
    os._exit(1)


def python_command() -> list[str]:
    """
    Returns the command that starts this Python interpreter again.

    If the dynamic linker of another C library started it (to use a newer system's driver), the
    command includes the linker and its options.
    """
    try:
        linker = os.readlink("/proc/self/exe")
        words = Path("/proc/self/cmdline").read_bytes().decode().split("\0")
    except OSError:
        return [sys.executable]
    if not Path(linker).name.startswith("ld"):
        return [sys.executable]
    with_value = ("--argv0", "--library-path", "--preload", "--audit", "--inhibit-rpath")
    count = 1
    while count < len(words) and words[count].startswith("--"):
        count += 2 if words[count] in with_value else 1
    return [linker, *words[1 : count + 1]]


def same_modules() -> dict[str, str]:
    """Returns an environment in which a child process finds the modules of this process."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    return os.environ | {"PYTHONPATH": path}


def send(stream: IO[bytes], value: object) -> None:
    data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    stream.write(struct.pack("<Q", len(data)))
    stream.write(data)
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """Reads the next value that `send` wrote. Raises `EOFError` at the end of the stream."""
    head = stream.read(8)
    if len(head) < 8:
        raise EOFError
    (size,) = struct.unpack("<Q", head)
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return pickle.loads(data)
