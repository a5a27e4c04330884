"""
The kind of job `fuzz`: damaged inputs for one reader, each made of its number and the seeds alone.

Whoever has the job's data can make an input again. A batch that kills its process or hangs is run
once more `apart`: every input in a process of its own, which says which one it was.
"""

from __future__ import annotations

import gc
import os
import pickle
import random
import select
import signal
import time
import traceback
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

from xdsl_spirv.testing.fuzzing.coverage import Coverage
from xdsl_spirv.testing.fuzzing.damage import damage_bytes
from xdsl_spirv.testing.fuzzing.readers import Reader
from xdsl_spirv.testing.fuzzing.seeds import all_of, in_folder
from xdsl_spirv.tools.failing import OURSELVES
from xdsl_spirv.tools.messages import failure

FUZZ = "fuzz"

SLOW = 5.0
"""Seconds of processor time that no input may take in one reader."""
HANGS = 30.0
"""Seconds after which a process that is still at one input is ended."""
LARGEST = 1 << 16
"""Bytes of an input; what was damaged often is cut."""
BATCH_SECONDS = 1.0
"""A batch ends after so much processor time, however many inputs are left."""


class Late(Exception):
    """An input takes too long."""


def _late(number: int, frame: FrameType | None) -> None:
    raise Late


def readers_of(place: str) -> Mapping[str, Reader]:
    """The table `module:name`."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


@cache
def seeds_of(kind: str, folder: str | None) -> tuple[bytes, ...]:
    """The files of a kind in a folder; without one, those of this checkout."""
    return tuple(all_of(kind) if folder is None else in_folder(Path(folder) / kind))


def attempt(reader: Reader, data: bytes) -> tuple[str, str]:
    """What became of an input, and the traceback if that is a fault."""
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
        # xDSL's ArgSpecParseError is one.
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        outcome = "refused"
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    seconds = time.process_time() - before
    if seconds > SLOW:
        return "BROKEN", f"it took {seconds:.1f} s\nSlow"
    return outcome, ""


def attempt_apart(reader: Reader, data: bytes) -> tuple[str, str]:
    """As `attempt`, in a process of its own: what dies or hangs is a fault, too."""
    reading, writing = os.pipe()
    process = os.fork()
    if not process:
        with suppress(BaseException):
            os.write(writing, pickle.dumps(attempt(reader, data)))
        os._exit(0)
    os.close(writing)
    answered, _, _ = select.select([reading], [], [], HANGS)
    if not answered:
        os.kill(process, signal.SIGKILL)
    with os.fdopen(reading, "rb") as answer:
        content = answer.read() if answered else b""
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    if not answered:
        return "BROKEN", f"it hangs for {HANGS:g} s\nHangs"
    return pickle.loads(content) if content else ("BROKEN", f"status {status}\nDied")


@cache
def _warm(place: str, name: str, folder: str | None) -> Coverage:
    """The coverage of this process, which has read one of a reader's seeds."""
    reader = readers_of(place)[name]
    attempt(reader, seeds_of(reader.seeds, folder)[0])  # Imports are not the first input's time.
    gc.collect()
    gc.freeze()  # The grammar and the dialect stay: no later collection needs to look at them.
    return _coverage()


@cache
def _coverage() -> Coverage:
    return Coverage()


def input_of(data: Mapping[str, Any], number: int) -> bytes:
    """The input of a number; what grew of damage may be no file: then any bytes."""
    reader = readers_of(data["readers"])[data["reader"]]
    seeds = [*seeds_of(reader.seeds, data["seeds"]), *data["grown"]]
    rng = random.Random(f"{data['seed']} {data['reader']} {number}")
    try:
        return reader.damage(rng, seeds)[:LARGEST]
    except Exception:
        return damage_bytes(rng, rng.choice(seeds))[:LARGEST]


def fuzz(data: Mapping[str, Any]) -> dict[str, Any]:
    """
    Outcomes by name, faults with their tracebacks, inputs that reached lines that none had reached
    in this process, and how many of the batch's inputs were `done`.
    """
    reader = readers_of(data["readers"])[data["reader"]]
    try:
        coverage = _warm(data["readers"], data["reader"], data["seeds"])
    except ImportError as error:
        return {"missing": str(error)}
    once = attempt_apart if data["apart"] else attempt
    outcomes: Counter[str] = Counter()
    faults: list[list[Any]] = []
    grown: list[list[Any]] = []
    begun, done = time.process_time(), 0
    while done < data["count"] and time.process_time() - begun < BATCH_SECONDS:
        damaged = input_of(data, data["first"] + done)
        coverage.news()
        outcome, trace = once(reader, damaged)
        outcomes[outcome] += 1
        done += 1
        if trace:
            faults.append([damaged, trace])
        elif lines := coverage.news():
            grown.append([damaged, [[file, line] for file, line in lines]])
    spent = time.process_time() - begun
    return {
        "outcomes": dict(outcomes),
        "found": faults,
        "grown": grown,
        "done": done,
        "seconds": round(spent, 4),
    }
