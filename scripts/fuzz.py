#!/usr/bin/env python3
"""
Reads damaged and hostile modules until something breaks, and keeps what broke.

    python scripts/fuzz.py 200000  # that many inputs
    python scripts/fuzz.py 200000 a.spv b.spv  # damages these modules, not those of .corpus
    python scripts/fuzz.py --time 60 --seed 7 --jobs 2  # a minute's worth, by two processes

Every input is decoded and encoded by the raw layer, at 50 microseconds. One in 20 also goes to each
of the slower readers, a hundred times as slow: text there and back, the dialect there and back, the
dialect by way of its text, the validator. Half of what the last three get is grammatical and means
something else. Of the files, the slower readers damage those of up to 2 kB, where a change is as
likely to matter as anywhere.

A finding is written to tests/serialization/corpus/, where the tests read it ever after, and the
exit status is 1. The same seed and files give the same inputs.
"""

from __future__ import annotations

import argparse
import collections
import gc
import hashlib
import multiprocessing
import random
import resource
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path

from xdsl_spirv.testing.mutation import (
    check,
    check_bytes,
    check_dialect,
    check_printed,
    check_validation,
    in_lengths,
    mutate,
    mutate_words,
)
from xdsl_spirv.testing.sampling import sample_module
from xdsl_spirv.testing.semantic_mutation import mutate_meaning

ROOT = Path(__file__).resolve().parents[1]
CORPUS = ROOT / "tests" / "serialization" / "corpus"
SLOW = 1.0
"""Seconds of processor time that no input of up to 100 kB may take in one reader."""

MEMORY = 4 << 30
"""Bytes of address space of a process: what asks for more breaks, not the machine."""

BATCH = 1_000
"""Inputs of one seed; a batch is a unit of work and of progress."""

Reader = Callable[[bytes], str]
Outcomes = collections.Counter[tuple[str, str]]
SHARE = 20
"""Each of the slower readers takes one input of so many, unless `--share` says otherwise."""

SMALL = 2_000
"""Bytes of the largest module that is damaged for the slower readers."""

READERS: dict[str, Reader] = {
    "text": check,
    "dialect": check_dialect,
    "printed": check_printed,
    "validator": check_validation,
}


def make(rng: random.Random, seeds: list[bytes]) -> bytes:
    """An input for the raw layer, which looks at lengths only."""
    choice = rng.randrange(20)
    if choice == 0:
        return rng.randbytes(rng.randrange(200))
    if choice == 1:
        return rng.choice(seeds)[:20] + rng.randbytes(rng.randrange(200))
    if choice < 6:
        return in_lengths(rng, rng.choice(seeds))
    return mutate_words(rng, rng.choice(seeds))


def make_readable(rng: random.Random, seeds: list[bytes], name: str) -> bytes:
    """An input of which a slower reader sees more than its header."""
    choice = rng.randrange(8)
    if choice == 0:
        return make(rng, seeds)
    if choice == 1:
        return mutate(rng, sample_module(rng, rng.randrange(30)).encode())
    if name != "text" and choice < 5:
        return mutate_meaning(rng, rng.choice(seeds))
    return mutate(rng, rng.choice(seeds))


def keep(data: bytes) -> Path:
    CORPUS.mkdir(exist_ok=True)
    path = CORPUS / f"{hashlib.sha256(data).hexdigest()[:16]}.bin"
    path.write_bytes(data)
    return path


def attempt(name: str, reader: Reader, data: bytes) -> str:
    """What a reader says of an input; `BROKEN` if it broke or took too long."""
    before = time.process_time()
    try:
        outcome = reader(data)
    except Exception:
        print(f"{name} broke on {keep(data)}:\n{traceback.format_exc()}", flush=True)
        return "BROKEN"
    if time.process_time() - before > SLOW:
        print(f"{name} took {time.process_time() - before:.1f} s: {keep(data)}", flush=True)
        return "BROKEN"
    return outcome


def batch(job: tuple[int, int], seeds: list[bytes], share: int) -> Outcomes:
    """Reads so many inputs of one seed; counts by reader and outcome."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    seed, count = job
    rng = random.Random(seed)
    sampled = [sample_module(rng, 40).encode() for _ in range(20)]
    seeds = seeds + sampled
    small = [data for data in seeds if len(data) <= SMALL] + sampled
    outcomes: Outcomes = collections.Counter()
    gc.collect()
    gc.freeze()  # The grammar and the dialect stay: no later collection needs to look at them.
    for _ in range(count):
        outcomes["raw", attempt("raw", check_bytes, make(rng, seeds))] += 1
        for name, reader in READERS.items():
            if rng.randrange(share) == 0:
                given = make_readable(rng, small, name)
                outcomes[name, attempt(name, reader, given)] += 1
    return outcomes


def report(outcomes: Outcomes, seconds: float) -> str:
    inputs = sum(n for (name, _), n in outcomes.items() if name == "raw")
    lines = [f"{inputs} inputs in {seconds:.0f} s"]
    for reader in ("raw", *READERS):
        found = {o: n for (name, o), n in sorted(outcomes.items()) if name == reader}
        said = ", ".join(f"{n} {outcome}" for outcome, n in found.items())
        lines.append(f"  {reader:9} {sum(found.values()):8} executions: {said}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[1])
    parser.add_argument("count", type=int, nargs="?", default=10_000)
    parser.add_argument(
        "seeds", type=Path, nargs="*", help="modules to damage; else what make_corpus.py has made"
    )
    parser.add_argument("--time", type=float, help="stop after about this many seconds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument(
        "--share", type=int, default=SHARE, help="slower readers: 1 input of so many"
    )
    arguments = parser.parse_intermixed_args()
    paths = arguments.seeds or sorted((ROOT / ".corpus").glob("*/*.spv"))
    seeds = [path.read_bytes() for path in paths]
    starts = range(0, arguments.count, BATCH)
    jobs = [
        (arguments.seed * 1_000_003 + k, min(BATCH, arguments.count - s))
        for k, s in enumerate(starts)
    ]
    outcomes: Outcomes = collections.Counter()
    start = shown = time.perf_counter()
    with multiprocessing.Pool(arguments.jobs) as pool:
        for done in pool.imap_unordered(partial(batch, seeds=seeds, share=arguments.share), jobs):
            outcomes += done
            now = time.perf_counter()
            if now - shown > 60:
                shown = now
                print(report(outcomes, now - start), flush=True)
            if arguments.time and now - start > arguments.time:
                break
    print(report(outcomes, time.perf_counter() - start))
    return 1 if any(outcome == "BROKEN" for _, outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
