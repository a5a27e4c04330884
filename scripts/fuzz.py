#!/usr/bin/env python3
"""
Gives readers damaged and hostile files until something breaks, and keeps what broke.

    python scripts/fuzz.py 200000                       # about that many inputs
    python scripts/fuzz.py --time 3600 --jobs 8         # an hour's worth
    python scripts/fuzz.py --time 60 --reader onnx --reader gguf
    python scripts/fuzz.py --replay FILE --reader onnx  # one input again, with its traceback

Each reader of testing/fuzzing/readers.py gets its share of the processor's time. It begins with
what the tests are made of and with tests/fuzzing (or the files of `--seeds`); an input that reaches
lines no other has reached is damaged further (Python 3.12 and later, which tell). Reported are
faults of ours, what takes more than `SLOW` seconds or `MEMORY` bytes, and what ends the process:
two inputs of each kind go to `--out`, with the traceback, as soon as they are found. summary.json
has the figures, renewed every ten seconds and on SIGTERM. The exit status is 1 if anything was
found.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import gc
import hashlib
import json
import mmap
import multiprocessing
import random
import resource
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from xdsl_spirv.testing.fuzzing.coverage import Coverage, Line
from xdsl_spirv.testing.fuzzing.damage import damage_bytes
from xdsl_spirv.testing.fuzzing.readers import READERS, Reader
from xdsl_spirv.tools.failing import OURSELVES
from xdsl_spirv.tools.messages import failure

ROOT = Path(__file__).resolve().parents[1]
CORPUS = ROOT / "tests" / "fuzzing"
SLOW = 5.0
"""Seconds of processor time that no input may take in one reader."""

HANGS = 30.0
"""Seconds after which a process that is still at one input is ended."""

MEMORY = 4 << 30
"""Bytes of address space of a process: what asks for more breaks, not the machine."""

BATCH = 100
"""Inputs of one reader before the next one's turn."""

LARGEST = 1 << 16
"""Bytes of an input; what was damaged often is cut."""

GROWN = 300
"""Inputs that a reader's corpus grows by, in a process; then one takes an older one's place."""

TOLD = 10.0
"""Seconds between summaries."""


class Late(Exception):
    """An input takes too long."""


@dataclass
class Work:
    """A reader in one process: what it damages, and what came of it."""

    name: str
    reader: Reader
    seeds: list[bytes]
    seconds: float = 0.0
    first: int = 0
    """How many of the seeds are files; the rest has grown."""

    def __post_init__(self) -> None:
        self.first = len(self.seeds)

    def damaged(self, rng: random.Random) -> bytes:
        """An input; what grew of damage may be no file that can be taken apart: then any bytes."""
        try:
            return self.reader.damage(rng, self.seeds)[:LARGEST]
        except Exception:
            return damage_bytes(rng, rng.choice(self.seeds))[:LARGEST]

    def grow(self, rng: random.Random, data: bytes) -> None:
        if len(self.seeds) - self.first < GROWN:
            self.seeds.append(data)
        else:
            self.seeds[rng.randrange(self.first, len(self.seeds))] = data


def seeds_of(kind: str, folder: Path | None) -> list[bytes]:
    """The files of a kind in a folder; without one, those of this checkout."""
    from xdsl_spirv.testing.fuzzing.seeds import all_of, in_folder

    return all_of(kind) if folder is None else in_folder(folder / kind)


def attempt(reader: Reader, data: bytes) -> tuple[str, str]:
    """What became of an input, and the traceback if that is a fault."""
    before = time.process_time()
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


def class_of(trace: str) -> str:
    """Findings of one class: the error's kind, and the last line of ours that it went through."""
    lines = trace.strip().splitlines()
    ours = [line.strip() for line in lines if "xdsl" in line and line.lstrip().startswith("File")]
    kind = lines[-1].partition(":")[0]
    return f"{kind} {ours[-1] if ours else ''}"


class Notes:
    """What a process is at, where its parent sees it although the process is gone."""

    def __init__(self):
        self.memory = mmap.mmap(-1, LARGEST + 64)

    def write(self, number: int, data: bytes) -> None:
        head = f"{number} {len(data)} {time.monotonic()}\n".encode()
        self.memory[: len(head)] = head
        self.memory[64 : 64 + len(data)] = data

    def read(self) -> tuple[int, bytes, float]:
        """The reader's number, its input, and since when; -1 before there was any."""
        head = bytes(self.memory[:64]).partition(b"\n")[0].split()
        if len(head) != 3:
            return -1, b"", time.monotonic()
        return int(head[0]), bytes(self.memory[64 : 64 + int(head[1])]), float(head[2])


def _late(number: int, frame: FrameType | None) -> None:
    raise Late


@dataclass(frozen=True)
class Process:
    """One process of the fuzzer: which readers, and which random numbers."""

    readers: tuple[str, ...]
    seed: int
    seeds: Path | None

    def run(self, notes: Notes, queue: Any) -> None:
        """Work until it is ended; the queue gets findings, what has grown, and counts."""
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        signal.signal(signal.SIGVTALRM, _late)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        rng = random.Random(self.seed)
        works = list(self._works(queue))
        gc.collect()
        gc.freeze()  # The grammar and the dialect stay: no later collection needs to look at them.
        coverage = Coverage()
        queue.put(("ready", [work.name for work in works], self.seed))
        while works:
            work = min(works, key=lambda w: w.seconds / w.reader.share)
            self._batch(work, rng, coverage, notes, queue)

    def _works(self, queue: Any) -> Iterator[Work]:
        for name in self.readers:
            reader = READERS[name]
            try:
                seeds = seeds_of(reader.seeds, self.seeds)
                attempt(reader, seeds[0])  # What it imports is not the first input's time.
            except ImportError as error:
                queue.put(("missing", name, str(error)))
                continue
            yield Work(name, reader, seeds)

    def _batch(
        self, work: Work, rng: random.Random, coverage: Coverage, notes: Notes, queue: Any
    ) -> None:
        number = list(READERS).index(work.name)
        outcomes: collections.Counter[str] = collections.Counter()
        begun = time.process_time()
        for _ in range(BATCH):
            data = work.damaged(rng)
            notes.write(number, data)
            coverage.news()
            outcome, trace = attempt(work.reader, data)
            outcomes[outcome] += 1
            if trace:
                queue.put(("found", work.name, data, trace))
            elif lines := coverage.news():
                work.grow(rng, data)
                queue.put(("grown", work.name, data, lines))
        spent = time.process_time() - begun
        work.seconds += spent
        queue.put(("counts", work.name, dict(outcomes), spent))


class Summary:
    """What was found, on disk as soon as it is known."""

    def __init__(self, out: Path, arguments: argparse.Namespace):
        self.out = out
        self.begun = time.monotonic()
        self.outcomes: dict[str, collections.Counter[str]] = {}
        self.seconds: collections.Counter[str] = collections.Counter()
        self.grown: collections.Counter[str] = collections.Counter()
        self.classes: collections.Counter[str] = collections.Counter()
        self.lines: set[Line] = set()
        self.missing: dict[str, str] = {}
        self.seed: int = arguments.seed

    def hear(self, kind: str, name: str, *rest: Any) -> None:
        """A message of a process."""
        if kind == "counts":
            self.outcomes.setdefault(name, collections.Counter()).update(rest[0])
            self.seconds[name] += rest[1]
        elif kind == "found":
            self.find(name, *rest)
        elif kind == "grown":
            data, lines = rest
            if not self.lines.issuperset(lines):
                self.lines.update(lines)
                self.grown[name] += 1
                self.keep(self.out / "grown" / READERS[name].seeds, data)
        elif kind == "missing":
            self.missing[name] = rest[0]

    def find(self, name: str, data: bytes, trace: str) -> None:
        """Keep the first inputs of a class."""
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


class Fleet:
    """The processes; one that hangs or dies has its input kept and is started again."""

    def __init__(self, arguments: argparse.Namespace, summary: Summary):
        self.arguments = arguments
        self.summary = summary
        self.queue: Any = multiprocessing.SimpleQueue()
        self.started = 0
        self.running: list[tuple[Any, Notes]] = []

    def start(self) -> None:
        a = self.arguments
        process = Process(tuple(a.reader), a.seed * 1_000_003 + self.started, a.seeds)
        self.started += 1
        notes = Notes()
        worker = multiprocessing.Process(target=process.run, args=(notes, self.queue), daemon=True)
        worker.start()
        self.running.append((worker, notes))

    def watch(self) -> None:
        """Hear what there is, then look at every process."""
        while not self.queue.empty():
            kind, *rest = self.queue.get()
            if kind != "ready":
                self.summary.hear(kind, *rest)
        for worker, notes in list(self.running):
            number, data, since = notes.read()
            hangs = time.monotonic() - since > HANGS
            if worker.is_alive() and not hangs:
                continue
            self.running.remove((worker, notes))
            if worker.exitcode == 0:
                continue
            how = f"it hangs for {HANGS} s\nHangs" if hangs else f"status {worker.exitcode}\nDied"
            worker.kill()
            worker.join()
            if number >= 0:
                self.summary.find(list(READERS)[number], data, how)
                self.start()

    def end(self) -> None:
        for worker, _ in self.running:
            worker.kill()


def fuzz(arguments: argparse.Namespace) -> int:
    arguments.out.mkdir(parents=True, exist_ok=True)
    summary = Summary(arguments.out, arguments)
    fleet = Fleet(arguments, summary)
    ended: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda n, _: ended.append(n))
    for _ in range(arguments.jobs):
        fleet.start()
    told = time.monotonic()
    while fleet.running and not ended:
        time.sleep(0.05)
        fleet.watch()
        if time.monotonic() - told > TOLD:
            summary.write()
            told = time.monotonic()
        if arguments.count and summary.executions >= arguments.count:
            break
        if arguments.time and time.monotonic() - summary.begun > arguments.time:
            break
    fleet.end()
    with contextlib.suppress(EOFError):
        fleet.watch() if not fleet.running else None
    summary.write()
    print(json.dumps(summary.figures(), indent=2))
    return 1 if summary.classes else 0


def replay(names: Sequence[str], path: Path) -> int:
    """Read one input again."""
    signal.signal(signal.SIGVTALRM, _late)
    status = 0
    for name in names:
        outcome, trace = attempt(READERS[name], path.read_bytes())
        print(f"{name}: {outcome}\n{trace}".rstrip())
        status |= bool(trace)
    return status


def reduce(names: Sequence[str], grown: Path, seeds: Path | None) -> int:
    """Keep what of `grown` reaches lines that neither the seeds do nor what is kept before it."""
    if sys.version_info < (3, 12):
        raise SystemExit("error: only Python 3.12 and later tell which lines run")
    signal.signal(signal.SIGVTALRM, _late)
    for name in names:
        reader, coverage = READERS[name], Coverage()
        for data in seeds_of(reader.seeds, seeds):
            attempt(reader, data)
        coverage.news()
        for path in sorted((grown / reader.seeds).glob("*.bin"), key=lambda p: p.stat().st_size):
            attempt(reader, data := path.read_bytes())
            if coverage.news():
                (CORPUS / reader.seeds).mkdir(parents=True, exist_ok=True)
                (CORPUS / reader.seeds / path.name).write_bytes(data)
        coverage.end()
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().splitlines()[0])
    parser.add_argument("count", type=int, nargs="?", default=0, help="about so many inputs in all")
    parser.add_argument("--time", type=float, default=0, help="stop after so many seconds")
    parser.add_argument("--reader", action="append", choices=READERS, help="all, if not given")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seeds", type=Path, help="a folder of sound files by kind")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=ROOT / "fuzz-output")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="read this input again")
    parser.add_argument("--reduce", type=Path, metavar="GROWN", help="into tests/fuzzing")
    arguments = parser.parse_args()
    arguments.reader = arguments.reader or list(READERS)
    if arguments.replay is not None:
        return replay(arguments.reader, arguments.replay)
    if arguments.reduce is not None:
        return reduce(arguments.reader, arguments.reduce, arguments.seeds)
    if not arguments.count and not arguments.time:
        arguments.count = 10_000
    return fuzz(arguments)


if __name__ == "__main__":
    sys.exit(main())
