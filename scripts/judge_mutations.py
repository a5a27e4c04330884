#!/usr/bin/env python3
"""
Validates mutated modules with our validator and spirv-val, and counts disagreements by class.

    python scripts/judge_mutations.py 20000 --jobs 2       # mutates the validator's cases
    python scripts/judge_mutations.py 20000 a.spv b.spv --seed 7
    python scripts/judge_mutations.py 200000 --scheduler tcp://host:8786 --store judged.db

Three quarters of the modules have one semantic mutation, the others several of any kind. The class
of a disagreement is our rule if only we refuse the module, otherwise spirv-val's message.
docs/validation.md explains the known classes. The script also counts modules that the dialect
refuses, or reads back unchanged after printing.
"""

from __future__ import annotations

import argparse
import collections
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from xdsl_spirv.jobs.job import Job
from xdsl_spirv.jobs.options import open_engine, open_store, status_of
from xdsl_spirv.serialization.text.assembler import assemble
from xdsl_spirv.tools.options import Options

ROOT = Path(__file__).resolve().parents[1]
TOGETHER = 20
"""Number of modules in a job."""
SECONDS = 120.0
"""Time limit of a job."""


def cases() -> list[bytes]:
    """Returns the valid modules that the validator's tests mutate."""
    folder = ROOT / "tests" / "serialization" / "validation" / "cases"
    texts = (path.read_text().split("; ---")[0] for path in sorted(folder.glob("*.spvasm")))
    return [assemble(text).encode() for text in texts]


def jobs(modules: Sequence[bytes], seeds: range) -> Iterator[Job]:
    for first in seeds[::TOGETHER]:
        some = range(first, min(first + TOGETHER, seeds.stop))
        listed = [[seed, modules[seed % len(modules)]] for seed in some]
        yield Job("judge", {"cases": listed}, seconds=SECONDS, note=first)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[1])
    parser.add_argument("count", type=int)
    parser.add_argument("modules", type=Path, nargs="*")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--time", type=float, help="stop after about this many seconds")
    Options("@scheduler")(parser)
    arguments = parser.parse_args()
    modules = [path.read_bytes() for path in arguments.modules] or cases()
    first = arguments.seed * 1_000_003
    seeds = range(first, first + arguments.count)
    verdicts: collections.Counter[str] = collections.Counter()
    dialect: collections.Counter[str] = collections.Counter()
    classes: collections.Counter[str] = collections.Counter()
    example: dict[str, str] = {}
    start = time.perf_counter()
    with (
        open_engine(arguments.scheduler, arguments.jobs) as engine,
        open_store(arguments.store) as store,
    ):
        for job, result in engine.run(jobs(modules, seeds), store):
            if not result.ok:
                dialect[f"BROKEN, seeds from {job.note}: {result.status}: {result.cause}"] += 1
                continue
            for verdict, printed, text in result.value:
                verdicts[verdict] += 1
                dialect[printed] += 1
                if text:
                    known, _, seed = text.rpartition(" | ")
                    classes[known] += 1
                    example.setdefault(known, seed)
            if arguments.time and time.perf_counter() - start > arguments.time:
                break
    print(f"{verdicts.total()} modules; verdicts (ours, spirv-val's): {dict(verdicts)}")
    print(f"the dialect: {dict(dialect)}")
    for name, count in classes.most_common():
        print(f"{count} | {name} | seed {example[name]}")
    return int(any(name.startswith(("NEW", "BROKEN")) for name in (*classes, *dialect)))


if __name__ == "__main__":
    sys.exit(status_of(main))
