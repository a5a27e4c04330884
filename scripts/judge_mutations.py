#!/usr/bin/env python3
"""
Judges damaged modules beside spirv-val, and counts where the two disagree, by class.

    python scripts/judge_mutations.py 20000 --jobs 2       # of the validator's cases
    python scripts/judge_mutations.py 20000 a.spv b.spv --seed 7

Each module has one change of meaning, a quarter of them several of any kind. A class of
disagreement is a rule of ours that spirv-val does not know, or what spirv-val says where we say
nothing; docs/validation.md argues those that are known. What the dialect makes of it is counted,
too: refused, or printed and read again to the same words.
"""

from __future__ import annotations

import argparse
import collections
import multiprocessing
import random
import re
import sys
import time
from pathlib import Path

from xdsl_spirv.serialization.raw.errors import SPIRVDecodeError
from xdsl_spirv.serialization.text.assembler import assemble
from xdsl_spirv.serialization.validation import Severity, validate
from xdsl_spirv.serialization.validation.differences import known_difference
from xdsl_spirv.testing.mutation import check_printed, mutate
from xdsl_spirv.testing.semantic_mutation import mutate_meaning
from xdsl_spirv.tools.khronos import spirv_val

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = "vulkan1.3"
NUMBERS = re.compile(r"'?\d+\[%[^\]]*\]'?|%?\d+|'[^']*'")


def judged(job: tuple[int, bytes]) -> tuple[str, str, str]:
    """The verdicts, what the dialect makes of it, and the class of a disagreement with its text."""
    seed, data = job
    rng = random.Random(seed)
    changed = mutate(rng, data) if seed % 4 == 0 else mutate_meaning(rng, data)
    theirs = spirv_val(changed, ENVIRONMENT)
    try:
        ours = [f for f in validate(changed, ENVIRONMENT) if f.severity is Severity.ERROR]
        refusal = f"{ours[0].rule}: {ours[0].cause}" if ours else ""
        rule, cause = (ours[0].rule, ours[0].cause) if ours else ("", "")
    except SPIRVDecodeError as error:
        refusal, rule, cause = str(error), "decode", error.cause
    verdict = ("refused" if refusal else "valid") + (", refused" if theirs else ", valid")
    text = ""
    if bool(refusal) != bool(theirs):
        said = theirs.splitlines()[0] if theirs else cause
        known = known_difference(rule, said, ENVIRONMENT)
        plain = NUMBERS.sub("N", said)[:110]
        text = f"{'known' if known else 'NEW'} | {rule or 'spirv-val'} | {known or plain} | {seed}"
    try:
        printed = check_printed(changed)
    except Exception as error:
        printed = f"BROKEN, seed {seed}: {type(error).__name__}: {error}"
    return verdict, printed, text


def cases() -> list[bytes]:
    """The valid modules that the validator's tests begin with."""
    folder = ROOT / "tests" / "serialization" / "validation" / "cases"
    texts = (path.read_text().split("; ---")[0] for path in sorted(folder.glob("*.spvasm")))
    return [assemble(text).encode() for text in texts]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[1])
    parser.add_argument("count", type=int)
    parser.add_argument("modules", type=Path, nargs="*")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--time", type=float, help="stop after about this many seconds")
    arguments = parser.parse_args()
    modules = [path.read_bytes() for path in arguments.modules] or cases()
    first = arguments.seed * 1_000_003
    jobs = ((seed, modules[seed % len(modules)]) for seed in range(first, first + arguments.count))
    verdicts: collections.Counter[str] = collections.Counter()
    dialect: collections.Counter[str] = collections.Counter()
    classes: collections.Counter[str] = collections.Counter()
    seeds: dict[str, str] = {}
    start = time.perf_counter()
    with multiprocessing.Pool(arguments.jobs) as pool:
        for verdict, printed, text in pool.imap_unordered(judged, jobs, 20):
            verdicts[verdict] += 1
            dialect[printed] += 1
            if text:
                known, _, seed = text.rpartition(" | ")
                classes[known] += 1
                seeds.setdefault(known, seed)
            if arguments.time and time.perf_counter() - start > arguments.time:
                break
    print(f"{sum(verdicts.values())} modules; ours, spirv-val's: {dict(verdicts)}")
    print(f"the dialect: {dict(dialect)}")
    for name, count in classes.most_common():
        print(f"{count} | {name} | seed {seeds[name]}")
    return int(any(name.startswith(("NEW", "BROKEN")) for name in (*classes, *dialect)))


if __name__ == "__main__":
    sys.exit(main())
