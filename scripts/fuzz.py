#!/usr/bin/env python3
"""
Feeds damaged and hostile files to all readers, and keeps inputs that cause faults.

    python scripts/fuzz.py 200000                       # about that many inputs
    python scripts/fuzz.py --time 3600 --jobs 8         # one hour
    python scripts/fuzz.py --time 60 --reader onnx --reader gguf
    python scripts/fuzz.py --replay FILE --reader onnx  # one input again, with its traceback

    python scripts/fuzz.py --time 600 --scheduler tcp://host:8786 --jobs 64 --store fuzz.db

Each reader of testing/fuzzing/readers.py gets its share of processor time. The corpus starts with
the tests' files and tests/fuzzing (or the files of `--seeds`). An input that reaches new lines is
mutated further (needs Python 3.12 or later). Faults are exceptions of our own code, more than
`SLOW` seconds or `MEMORY` bytes, and crashes of the process. Two inputs of each class go to
`--out` with the traceback as soon as they are found. summary.json has the figures, updated every
ten seconds and on SIGTERM. The exit status is 1 if there are faults. Batches of inputs are jobs
(docs/tuning.md): `--jobs` of them run concurrently, here or on the workers of a scheduler.
"""

from __future__ import annotations

import argparse
import collections
import hashlib
import json
import random
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xdsl_spirv.jobs.engine import Engine
from xdsl_spirv.jobs.job import Job
from xdsl_spirv.jobs.options import open_engine, open_store, status_of
from xdsl_spirv.jobs.store import Store
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.testing.fuzzing.batch import FUZZ, HANGS, attempt, readers_of, seeds_of
from xdsl_spirv.testing.fuzzing.coverage import Coverage, Line
from xdsl_spirv.tools.options import Options

ROOT = Path(__file__).resolve().parents[1]
CORPUS = ROOT / "tests" / "fuzzing"
READERS = "xdsl_spirv.testing.fuzzing.readers:READERS"

MEMORY = 4 << 30
"""Memory limit of a process in bytes."""

FEWEST, MOST = 20, 1000
"""Limits of the number of inputs of a job, which takes about `TURN` seconds."""
TURN = 0.2

GROWN, GIVEN = 300, 8
"""Maximum number of inputs added to a reader's corpus (more replace older ones), and the number of
added inputs that a job draws."""

TOLD, END = 10.0, 2.0
"""Seconds between summaries, and the grace period of running batches at the end."""


@dataclass
class Work:
    """A reader's progress: number of inputs, time, and inputs added to its corpus."""

    name: str
    share: float
    seconds: float = 0.0
    pace: float = 0.005
    """Seconds per input in the latest batch."""
    inputs: int = 0
    grown: list[bytes] = field(default_factory=list[bytes])

    def grow(self, rng: random.Random, data: bytes) -> None:
        if len(self.grown) < GROWN:
            self.grown.append(data)
        else:
            self.grown[rng.randrange(GROWN)] = data


def class_of(trace: str) -> str:
    """Returns a fault's class: the error's type and the traceback's last line in this package."""
    lines = trace.strip().splitlines()
    ours = [line.strip() for line in lines if "xdsl" in line and line.lstrip().startswith("File")]
    kind = lines[-1].partition(":")[0]
    return f"{kind} {ours[-1] if ours else ''}"


class Summary:
    """The record of faults and figures, which is written to disk immediately."""

    def __init__(self, out: Path, arguments: argparse.Namespace):
        self.out = out
        self.readers = readers_of(arguments.readers)
        self.begun = time.monotonic()
        self.outcomes: dict[str, collections.Counter[str]] = {}
        self.seconds: collections.Counter[str] = collections.Counter()
        self.grown: collections.Counter[str] = collections.Counter()
        self.classes: collections.Counter[str] = collections.Counter()
        self.lines: set[Line] = set()
        self.missing: dict[str, str] = {}
        self.seed: int = arguments.seed

    def hear(self, name: str, value: dict[str, Any]) -> list[bytes]:
        """Adds a batch's outcomes. Returns the inputs that reached new lines."""
        if "missing" in value:
            self.missing[name] = value["missing"]
            return []
        self.outcomes.setdefault(name, collections.Counter()).update(value["outcomes"])
        self.seconds[name] += value["seconds"]
        for data, trace in value["found"]:
            self.find(name, data, trace)
        fresh: list[bytes] = []
        for data, listed in value["grown"]:
            lines = {(file, line) for file, line in listed}
            if not self.lines.issuperset(lines):
                self.lines.update(lines)
                self.grown[name] += 1
                self.keep(self.out / "grown" / self.readers[name].seeds, data)
                fresh.append(data)
        return fresh

    def find(self, name: str, data: bytes, trace: str) -> None:
        """Counts a fault. Writes the input to disk if it is among the first of its class."""
        named = f"{name}: {class_of(trace)}"
        self.classes[named] += 1
        if self.classes[named] <= 2:
            path = self.keep(self.out / "findings" / name, data)
            path.with_suffix(".txt").write_text(trace)
            print(f"{path}: {named}", flush=True)

    def keep(self, folder: Path, data: bytes) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{hashlib.sha256(data).hexdigest()[:16]}.bin"
        path.write_bytes(data)
        return path

    @property
    def executions(self) -> int:
        return sum(outcomes.total() for outcomes in self.outcomes.values())

    def figures(self) -> dict[str, Any]:
        readers = {
            name: {
                "executions": outcomes.total(),
                "cpu_seconds": round(self.seconds[name], 1),
                "a_second": round(outcomes.total() / max(self.seconds[name], 0.001)),
                "outcomes": dict(sorted(outcomes.items())),
                "reached_new_lines": self.grown[name],
            }
            for name, outcomes in sorted(self.outcomes.items())
        }
        return {
            "lines_beyond_the_seeds": len(self.lines),
            "executions": self.executions,
            "seconds": round(time.monotonic() - self.begun, 1),
            "seed": self.seed,
            "python": sys.version.split()[0],
            "readers": readers,
            "missing": self.missing,
            "found": dict(self.classes.most_common()),
        }

    def write(self) -> None:
        path = self.out / "summary.json"
        path.with_suffix(".new").write_text(json.dumps(self.figures(), indent=2) + "\n")
        path.with_suffix(".new").replace(path)


class Fuzzer:
    """Runs batches on an engine, by several threads, and chooses the reader of each batch."""

    def __init__(self, arguments: argparse.Namespace, summary: Summary, engine: Engine):
        self.arguments, self.summary, self.engine = arguments, summary, engine
        self.rng = random.Random(arguments.seed)
        readers = readers_of(arguments.readers)
        self.works = [Work(name, readers[name].share) for name in arguments.reader]
        self.given = 0
        """Number of inputs, including those of running batches."""
        self.lock = threading.Lock()
        self.ended = threading.Event()
        self.error: ProgramError | None = None

    def run(self, store: Store | None) -> None:
        """Runs batches until `ended` is set, or until no reader is left."""
        try:
            while not self.ended.is_set() and (turn := self.next_batch()):
                work, job = turn
                ((_, result),) = self.engine.run([job], store)
                if result.ok:
                    self.hear(work, job, result.value)
                    continue
                if not self.ended.is_set():
                    with self.lock:
                        self.summary.find(work.name, b"", f"{result.cause}\n{result.status}")
        except ProgramError as error:
            self.error = error
            self.ended.set()
        except RuntimeError:
            # The engine is closed at the end.
            if not self.ended.is_set():
                raise

    def next_batch(self) -> tuple[Work, Job] | None:
        with self.lock:
            if not self.works:
                return None
            work = min(self.works, key=lambda w: w.seconds / w.share)
            count = max(FEWEST, min(MOST, int(TURN / work.pace)))
            if self.arguments.count:
                count = min(count, max(FEWEST, self.arguments.count - self.given))
            self.given += count
            work.seconds += (expected := count * work.pace)
            first, work.inputs = work.inputs, work.inputs + count
            given = min(GIVEN, len(work.grown))
            data = {
                "readers": self.arguments.readers,
                "reader": work.name,
                "seed": self.arguments.seed,
                "seeds": self.arguments.seeds and str(self.arguments.seeds.resolve()),
                "first": first,
                "count": count,
                "grown": self.rng.sample(work.grown, given),
            }
            return work, Job(FUZZ, data, seconds=4 * HANGS, memory=MEMORY, note=expected)

    def hear(self, work: Work, job: Job, value: dict[str, Any]) -> None:
        with self.lock:
            for data in self.summary.hear(work.name, value):
                work.grow(self.rng, data)
            if "missing" in value:
                self.works = [other for other in self.works if other is not work]
                return
            work.seconds += value["seconds"] - job.note
            work.pace = max(value["seconds"] / value["done"], TURN / MOST)


def fuzz(arguments: argparse.Namespace) -> int:
    arguments.out.mkdir(parents=True, exist_ok=True)
    summary = Summary(arguments.out, arguments)
    with (
        open_engine(arguments.scheduler, arguments.jobs) as engine,
        open_store(arguments.store) as store,
    ):
        fuzzer = Fuzzer(arguments, summary, engine)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda n, _: fuzzer.ended.set())
        threads = [
            threading.Thread(target=fuzzer.run, args=(store,), daemon=True)
            for _ in range(arguments.jobs)
        ]
        for thread in threads:
            thread.start()
        told = time.monotonic()
        while any(thread.is_alive() for thread in threads) and not fuzzer.ended.wait(0.05):
            if time.monotonic() - told > TOLD:
                with fuzzer.lock:
                    summary.write()
                told = time.monotonic()
            if arguments.count and summary.executions >= arguments.count:
                break
            if arguments.time and time.monotonic() - summary.begun > arguments.time:
                break
        fuzzer.ended.set()
        for thread in threads:
            thread.join(END / len(threads))
        with fuzzer.lock:
            summary.write()
            print(json.dumps(summary.figures(), indent=2))
    if fuzzer.error is not None:
        raise fuzzer.error
    return 1 if summary.classes else 0


def replay(arguments: argparse.Namespace) -> int:
    """Runs a reader on one input."""
    status = 0
    for name in arguments.reader:
        reader = readers_of(arguments.readers)[name]
        outcome, trace = attempt(reader, arguments.replay.read_bytes())
        print(f"{name}: {outcome}\n{trace}".rstrip())
        status |= bool(trace)
    return status


def reduce(arguments: argparse.Namespace, names: Sequence[str]) -> int:
    """Copies to tests/fuzzing those inputs of a folder that reach new lines."""
    if sys.version_info < (3, 12):
        raise SystemExit(
            "error: --reduce needs Python 3.12 or later, which can report executed lines"
        )
    for name in names:
        reader, coverage = readers_of(arguments.readers)[name], Coverage()
        for data in seeds_of(reader.seeds, arguments.seeds and str(arguments.seeds)):
            attempt(reader, data)
        coverage.news()
        grown = (arguments.reduce / reader.seeds).glob("*.bin")
        for path in sorted(grown, key=lambda p: p.stat().st_size):
            attempt(reader, data := path.read_bytes())
            if coverage.news():
                (CORPUS / reader.seeds).mkdir(parents=True, exist_ok=True)
                (CORPUS / reader.seeds / path.name).write_bytes(data)
        coverage.end()
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().splitlines()[0])
    parser.add_argument(
        "count", type=int, nargs="?", default=0, help="about this many inputs in all"
    )
    parser.add_argument("--time", type=float, default=0, help="stop after this many seconds")
    parser.add_argument("--reader", action="append", help="all, if not given")
    parser.add_argument("--readers", default=READERS, metavar="MODULE:NAME", help="a table of them")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seeds", type=Path, help="a folder of sound files by kind")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=ROOT / "fuzz-output")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="read this input again")
    parser.add_argument("--reduce", type=Path, metavar="GROWN", help="into tests/fuzzing")
    Options("@scheduler")(parser)
    arguments = parser.parse_args()
    known = list(readers_of(arguments.readers))
    if unknown := set(arguments.reader or ()) - set(known):
        parser.error(
            f"there is no reader {', '.join(sorted(unknown))}; the readers are {', '.join(known)}"
        )
    arguments.reader = arguments.reader or known
    if arguments.replay is not None:
        return replay(arguments)
    if arguments.reduce is not None:
        return reduce(arguments, arguments.reader)
    if not arguments.count and not arguments.time:
        arguments.count = 10_000
    return fuzz(arguments)


if __name__ == "__main__":
    sys.exit(status_of(main))
