"""
Candidates of a search as programs: compiled ahead in processes of their own, or here, one by one.

Compiling takes longer than timing on a fast device, and Python compiles on one core. A candidate
that cannot be compiled, for whatever cause, is an answer like another one.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from xdsl_spirv.compiler.compiler import compile_module
from xdsl_spirv.dialects.schedule import ContractionAttr
from xdsl_spirv.passes.schedule.tuned import give_schedules, parse_schedule
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.modules import parse_text
from xdsl_spirv.runtime.processes import python_command, receive, same_modules, send
from xdsl_spirv.runtime.program import Program

COMPILE_SECONDS = 120.0
"""How long a candidate may be compiled in another process."""

Compiled = Program | ProgramError


@dataclass(frozen=True)
class Source:
    """A module, its target, and the contraction in it whose schedule is searched."""

    text: str
    target: str
    key: str


def compiled(source: Source, schedule: str) -> Compiled:
    """The module's program with a schedule, or why there is none."""
    try:
        module = parse_text(source.text)
        give_schedules(module, {source.key: parse_schedule(schedule)})
        return compile_module(module, source.target)
    except ProgramError as error:
        return ProgramError(error.cause, error.place, error.remedy)
    except Exception as error:
        return ProgramError(f"{type(error).__name__}: {error}"[:300])


class Compiler:
    """Compiles candidates; with several `jobs` in processes that `close` ends."""

    def __init__(self, jobs: int = 1):
        self.jobs = jobs
        self.threads: ThreadPoolExecutor | None = None
        self._mine = threading.local()
        self._started: list[_Process] = []

    def each(
        self, source: Source, schedules: Sequence[ContractionAttr]
    ) -> Iterator[tuple[ContractionAttr, Compiled]]:
        """Every schedule with its program, or why there is none, in order."""
        if self.jobs == 1:
            for schedule in schedules:
                yield schedule, compiled(source, str(schedule))
            return
        if self.threads is None:
            self.threads = ThreadPoolExecutor(self.jobs)
        begun = [
            self.threads.submit(self._there, source, str(candidate)) for candidate in schedules
        ]
        for schedule, result in zip(schedules, begun, strict=True):
            yield schedule, result.result()

    def _there(self, source: Source, schedule: str) -> Compiled:
        """What this thread's process makes of a candidate."""
        process: _Process | None = getattr(self._mine, "process", None)
        if process is None or process.ended:
            process = self._mine.process = _Process()
            self._started.append(process)
        return process.compiled(source, schedule)

    def close(self) -> None:
        """End the processes; closing twice does nothing."""
        if self.threads is not None:
            self.threads.shutdown(wait=False, cancel_futures=True)
        for process in self._started:
            process.kill()
        self._started.clear()
        self.threads = None


class _Process:
    """`tools/tuning/compile_server.py` at work."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [*python_command(), "-P", "-m", "xdsl_spirv.tools.tuning.compile_server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=same_modules(),
            # An interrupt from the terminal is this process's affair, even while the other begins.
            start_new_session=True,
        )

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    def compiled(self, source: Source, schedule: str) -> Compiled:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        deadline = threading.Timer(COMPILE_SECONDS, self.process.kill)
        deadline.daemon = True
        deadline.start()
        try:
            send(self.process.stdin, (source, schedule))
            return receive(self.process.stdout)
        except (OSError, EOFError, ValueError):
            self.kill()
            return ProgramError(f"its compiler died, or took more than {COMPILE_SECONDS:g} s")
        finally:
            deadline.cancel()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
