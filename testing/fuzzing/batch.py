"""
The job kind `fuzz`: damaged inputs for one reader.

The job's data determines each input, so that it can be reproduced. A forked process reads the
inputs and reports each result immediately. If the process dies or hangs, the first unreported
input is the cause, and another process continues after that input.
"""

from __future__ import annotations

import gc
import os
import random
import signal
import time
import traceback
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Any

from xdsl_spirv.testing.fuzzing.coverage import Coverage, Line
from xdsl_spirv.testing.fuzzing.damage import damage_bytes
from xdsl_spirv.testing.fuzzing.readers import Reader
from xdsl_spirv.testing.fuzzing.seeds import all_of, in_folder
from xdsl_spirv.tools import OURSELVES
from xdsl_spirv.tools.messages import failure

FUZZ = "fuzz"

SLOW = 5.0
"""Processor time, in seconds, that one input may take."""
HANGS = 30.0
"""Seconds after which a process is killed if it does not finish an input."""
LARGEST = 1 << 16
"""Maximum size of an input in bytes. Larger inputs are cut."""
BATCH_SECONDS = 1.0
"""Limit of processor time of a batch in seconds. Remaining inputs are skipped."""
DIED = "died"


class Late(Exception):
    """Error for an input that takes too long."""


def _late(number: int, frame: FrameType | None) -> None:
    raise Late


def readers_of(place: str) -> Mapping[str, Reader]:
    """Imports a table of readers, given as `module:name`."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


@cache
def seeds_of(kind: str, folder: str | None) -> tuple[bytes, ...]:
    """Returns the files of a kind in a folder. By default, takes them from this checkout."""
    return tuple(all_of(kind) if folder is None else in_folder(Path(folder) / kind))


def attempt(reader: Reader, data: bytes) -> tuple[str, str]:
    """Returns the outcome of an input, and the traceback of a fault."""
    before = time.process_time()
    signal.signal(signal.SIGVTALRM, _late)
    signal.setitimer(signal.ITIMER_VIRTUAL, SLOW)
    try:
        outcome = reader.read(data)
    except (Exception, RecursionError) as error:
        if reader.strict or isinstance(error, Late | MemoryError):
            return "BROKEN", traceback.format_exc()
        if failure(error)[1] == OURSELVES:
            return "BROKEN", traceback.format_exc()
        outcome = "refused"
    except BaseException as error:
        # xDSL's ArgSpecParseError is a BaseException.
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        outcome = "refused"
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    seconds = time.process_time() - before
    if seconds > SLOW:
        return "BROKEN", f"it took {seconds:.1f} s\nSlow"
    return outcome, ""


@cache
def _coverage() -> Coverage:
    return Coverage()


@cache
def _warm(place: str, name: str, folder: str | None) -> None:
    """Reads one of a reader's seeds, so that the first input's time does not include imports."""
    reader = readers_of(place)[name]
    attempt(reader, seeds_of(reader.seeds, folder)[0])
    gc.collect()
    gc.freeze()  # Garbage collections need not examine the grammar and the dialect.


def input_of(data: Mapping[str, Any], number: int) -> bytes:
    """
    Returns input number `number`, a damaged seed. If the kind's own damage fails, changes bytes of
    a seed.
    """
    reader = readers_of(data["readers"])[data["reader"]]
    seeds = [*seeds_of(reader.seeds, data["seeds"]), *data["grown"]]
    rng = random.Random(f"{data['seed']} {data['reader']} {number}")
    try:
        return reader.damage(rng, seeds)[:LARGEST]
    except Exception:
        return damage_bytes(rng, rng.choice(seeds))[:LARGEST]


SEEN: set[Line] = set()
"""Lines that were executed for inputs of earlier jobs in this process."""


def _read(data: Mapping[str, Any], first: int, results: Connection) -> None:
    """
    Runs a reader on the inputs from number `first` on. Sends each result, and finally the processor
    time in seconds.
    """
    reader, coverage = readers_of(data["readers"])[data["reader"]], _coverage()
    begun, number, last = time.process_time(), first, data["first"] + data["count"]
    while number < last and time.process_time() - begun < BATCH_SECONDS:
        damaged = input_of(data, number)
        coverage.news()
        outcome, trace = attempt(reader, damaged)
        fresh = [] if trace else [line for line in coverage.news() if line not in SEEN]
        SEEN.update(fresh)
        results.send((outcome, trace, fresh))
        number += 1
    results.send(time.process_time() - begun)


@dataclass
class Batch:
    """
    Results of a job: number of inputs by outcome, tracebacks of faults, and inputs that reached new
    lines.
    """

    data: Mapping[str, Any]
    done: int = 0
    seconds: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter[str])
    damages: list[list[Any]] = field(default_factory=list[list[Any]])
    grown: list[list[Any]] = field(default_factory=list[list[Any]])

    def stretch(self) -> None:
        """
        Reads inputs in a child process, until the process ends or the time of the batch is over.
        """
        results, sending = Pipe(duplex=False)
        process = os.fork()
        if not process:
            with suppress(BaseException):
                _read(self.data, self.data["first"] + self.done, sending)
            os._exit(0)
        sending.close()
        how = self._hear(results)
        if how:
            os.kill(process, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        if how:
            self._add("BROKEN", f"status {status}\nDied" if how == DIED else how, [])

    def _hear(self, results: Connection) -> str:
        """
        Receives the results of the child process. If some are missing, returns how the process
        ended.
        """
        while results.poll(HANGS):
            try:
                told = results.recv()
            except EOFError:
                return DIED
            if isinstance(told, float):
                self.seconds += told
                return ""
            self._add(*told)
        return f"the input hangs for {HANGS:g} s\nHangs"

    def _add(self, outcome: str, trace: str, lines: list[Line]) -> None:
        damaged = input_of(self.data, self.data["first"] + self.done) if trace or lines else b""
        self.done += 1
        self.outcomes[outcome] += 1
        SEEN.update(lines)
        if trace:
            self.damages.append([damaged, trace])
        elif lines:
            self.grown.append([damaged, [list(line) for line in lines]])


def fuzz(data: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a batch's results: the number of inputs `done`, or the name of a missing module."""
    try:
        _warm(data["readers"], data["reader"], data["seeds"])
    except ImportError as error:
        return {"missing": str(error)}
    _coverage()
    batch, begun = Batch(data), time.monotonic()
    batch.stretch()
    while (
        batch.damages
        and not batch.seconds
        and batch.done < data["count"]
        and time.monotonic() - begun < HANGS
    ):
        batch.stretch()
    return {
        "outcomes": dict(batch.outcomes),
        "found": batch.damages,
        "grown": batch.grown,
        "done": batch.done,
        "seconds": round(batch.seconds, 4),
    }
