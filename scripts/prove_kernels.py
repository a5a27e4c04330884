"""
Runs `xdsl-spirv prove` on the kernels in tests/kernels, and counts proofs and refutations.

A proof is false if the kernel has a bug of the proved kind, or if a random launch that fulfils the
premises (`--launches`) violates the proved property. The exit status is 1 if a proof is false.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

from xdsl_spirv.testing.random_launches import USUAL, find_bugs, tell
from xdsl_spirv.tools.kernel_proving import ask_about, is_proved, limit_work, prove_kernel
from xdsl_spirv.tools.kernel_test.description import QUESTIONS, SUFFIX, KernelTest
from xdsl_spirv.tools.kernel_test.toml_file import read_test

KERNELS = Path(__file__).resolve().parent.parent / "tests/kernels"


def main() -> int:
    """Prints a line for each kernel, and how many kernels have each answer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="of one question")
    parser.add_argument("--question", action="append", choices=list(QUESTIONS), help="ask this")
    parser.add_argument("--most", type=float, default=60.0, help="processor seconds of one kernel")
    parser.add_argument(
        "--launches", type=int, default=0, help="random launches of each proved kernel"
    )
    without = "repeat each proof without each of its premises"
    parser.add_argument("--without", action="store_true", help=without)
    parser.add_argument("names", nargs="*", help="folders of tests/kernels, or files")
    arguments = parser.parse_args()
    counts, false, seconds = Counter[str](), list[str](), list[float]()
    names = arguments.question or list(USUAL)
    files = [Path(name).resolve() for name in arguments.names if Path(name).is_file()]
    for path in files or sorted(KERNELS.glob("*/*.kernel.toml")):
        if not files and arguments.names and path.parent.name not in arguments.names:
            continue
        test = read_test(path) if path.name.endswith(SUFFIX) else KernelTest(path, path)
        start = time.process_time()
        limits = limit_work(arguments.seconds, arguments.most)
        result = prove_kernel(test, (), limits, ask_about(names))
        seconds.append(time.process_time() - start)
        broken = path.name.startswith("broken")
        # A rule about initialization also covers variables, about which no question asks.
        asked = tuple(p for n in names if n in USUAL or result.asked[n] for p in QUESTIONS[n])
        in_question = any(rule.startswith(asked) for rule in test.findings)
        kind = ("broken, asked" if in_question else "broken, not asked") if broken else "right"
        counts[f"{kind}: {result.verdict}"] += 1
        if in_question and result.verdict == "proved":
            false.append(str(path.parent.name))
        if result.verdict == "proved" and arguments.launches:
            premises = (*result.premises, *result.offered)
            ran, found = find_bugs(test, premises, arguments.launches, questions=names)
            counts["random launches of proved kernels"] += ran
            for launch, problem in found[:1]:
                false.append(str(path))
                print(*tell(launch, problem), sep="\n")
        if result.verdict == "proved" and arguments.without:
            texts = (*result.premises, *result.offered)
            plain = replace(test, assume=())
            for text in texts:
                rest = tuple(t for t in texts if t != text)
                needed = not is_proved(
                    plain, rest, limit_work(arguments.seconds, arguments.most), ask_about(names)
                )
                counts[f"premises that a proof {'needs' if needed else 'does not need'}"] += 1
                if not needed:
                    print(f"  {path.parent.name} is proved without {text}", flush=True)
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
