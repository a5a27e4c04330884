#!/usr/bin/env python3
"""
Reads damaged and hostile modules until something breaks, and keeps what broke.

    python scripts/fuzz.py 200000  # that many executions
    python scripts/fuzz.py 200000 a.spv b.spv  # damages these modules too
    python scripts/fuzz.py --time 60 --seed 7  # a minute's worth

A finding is written to tests/serialization/corpus/, where the tests read it ever after, and the
exit status is 1.
"""

from __future__ import annotations

import argparse
import collections
import hashlib
import random
import sys
import time
import traceback
from pathlib import Path

from xdsl_spirv.serialization.mutation import check, in_lengths, mutate
from xdsl_spirv.serialization.sampling import sample_module

CORPUS = Path(__file__).resolve().parents[1] / "tests" / "serialization" / "corpus"
SLOW = 1.0
"""Seconds of processor time that no input of up to 100 kB may take."""


def make(rng: random.Random, seeds: list[bytes]) -> bytes:
    """One input: mostly a damaged module, sometimes a sampled one, random words or bytes."""
    choice = rng.randrange(20)
    if choice == 0:
        return rng.randbytes(rng.randrange(200))
    if choice == 1:
        return rng.choice(seeds)[:20] + rng.randbytes(rng.randrange(200))
    if choice < 6:
        return in_lengths(rng, rng.choice(seeds))
    if choice < 8:
        return mutate(rng, sample_module(rng, rng.randrange(30)).encode())
    return mutate(rng, rng.choice(seeds))


def keep(data: bytes) -> Path:
    CORPUS.mkdir(exist_ok=True)
    path = CORPUS / f"{hashlib.sha256(data).hexdigest()[:16]}.bin"
    path.write_bytes(data)
    return path


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[1])
    parser.add_argument("count", type=int, nargs="?", default=10_000)
    parser.add_argument("seeds", type=Path, nargs="*", help="modules to damage")
    parser.add_argument("--time", type=float, help="stop after this many seconds")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_intermixed_args()
    rng = random.Random(arguments.seed)
    seeds = [path.read_bytes() for path in arguments.seeds]
    seeds += [sample_module(rng, 40).encode() for _ in range(20)]
    outcomes: collections.Counter[str] = collections.Counter()
    start = time.perf_counter()
    done = 0
    for done in range(1, arguments.count + 1):
        data = make(rng, seeds)
        before = time.process_time()
        try:
            outcome = check(data)
        except Exception:
            traceback.print_exc()
            print(f"kept as {keep(data)}")
            outcome = "BROKEN"
        if time.process_time() - before > SLOW:
            print(f"took {time.process_time() - before:.1f} s, kept as {keep(data)}")
            outcome = "BROKEN"
        outcomes[outcome] += 1
        if arguments.time and time.perf_counter() - start > arguments.time:
            break
    seconds = time.perf_counter() - start
    summary = ", ".join(f"{n} {name}" for name, n in sorted(outcomes.items()))
    print(f"{done} executions in {seconds:.0f} s ({done / seconds:.0f} a second): {summary}")
    return 1 if outcomes["BROKEN"] else 0


if __name__ == "__main__":
    sys.exit(main())
