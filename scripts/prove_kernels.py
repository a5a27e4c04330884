"""
Asks `xdsl-spirv prove` of the kernels in tests/kernels: how many are proved, refuted, unknown.

A false proof is one of a kernel whose bug is a question's. Exit status 1 if there is one.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from pathlib import Path

from xdsl_spirv.prove.solvers import Limits
from xdsl_spirv.tools.kernel_proving import RULES, prove_kernel
from xdsl_spirv.tools.kernel_test.toml_file import read_test

KERNELS = Path(__file__).resolve().parent.parent / "tests/kernels"


def main() -> int:
    """Prints a line for each kernel and the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="of one question")
    parser.add_argument("names", nargs="*", help="folders of tests/kernels (all)")
    arguments = parser.parse_args()
    counts, false, seconds = Counter[str](), list[str](), list[float]()
    asked = tuple(prefix for prefixes in RULES.values() for prefix in prefixes)
    for path in sorted(KERNELS.glob("*/*.kernel.toml")):
        if arguments.names and path.parent.name not in arguments.names:
            continue
        test, start = read_test(path), time.perf_counter()
        result = prove_kernel(test, (), Limits(arguments.seconds, work=1_000_000))
        seconds.append(time.perf_counter() - start)
        broken = path.name.startswith("broken")
        in_question = any(rule.startswith(asked) for rule in test.findings)
        kind = ("broken, asked" if in_question else "broken, not asked") if broken else "right"
        counts[f"{kind}: {result.verdict}"] += 1
        if in_question and result.verdict == "proved":
            false.append(str(path.parent.name))
        shown = "; ".join(result.lines[:2] or result.offered)
        print(
            f"{seconds[-1]:6.1f} {path.parent.name} {kind}: {result.verdict}: {shown}", flush=True
        )
    for name, number in sorted(counts.items()):
        print(f"{name}: {number}")
    ordered = sorted(seconds)
    print(f"seconds: median {ordered[len(ordered) // 2]:.1f}, most {ordered[-1]:.1f}")
    print(f"false proofs: {len(false)} {' '.join(false)}")
    return int(bool(false))


if __name__ == "__main__":
    raise SystemExit(main())
