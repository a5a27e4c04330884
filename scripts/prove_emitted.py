"""
Runs `xdsl-spirv prove` on the kernels that the compiler emits, and counts the verdicts.

The kernels are the same as in `kernel_hashes.py`: matrix multiplications on all targets, the
`linalg` inputs of the FileCheck tests, and (`--models`) the models of installed packages. Each is
proved for the grid, buffers and sizes of its dispatches, for all contents, and for all values of
dynamic sizes. The exit status is 1 if a kernel is refuted.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kernel_hashes

from xdsl_spirv.runtime.program import Program
from xdsl_spirv.tools.kernel_proving import limit_work
from xdsl_spirv.tools.program_proving import list_launches, prove_launch


def programs(options: argparse.Namespace) -> Iterator[tuple[str, Program]]:
    """Yields the compiled cases. Refused cases are skipped."""
    made: list[Program] = []

    def keep(program: Program) -> dict[str, str]:
        made.append(program)
        return {}

    kernel_hashes.kernels = keep
    cases = itertools.chain(
        kernel_hashes.matmuls(),
        kernel_hashes.filechecks(),
        kernel_hashes.onnx_models() if options.models else (),
    )
    first, step = map(int, options.part.split("/"))
    for number, (name, run) in enumerate(cases):
        if number % step == first and re.search(options.only, name):
            kernel_hashes.result_of(run)
            for program in made:
                yield name, program
            made.clear()


def cause_of(line: str) -> str:
    """Returns the reason of a verdict without numbers and locations."""
    line = re.sub(r"^(line \d+|[\w.]+): ", "", line)
    return re.sub(r"\d+(\.\d+)?", "N", re.sub(r"\(.*", "", line))[:100]


def main() -> int:
    """Prints a line for each launch, then the number of launches by verdict and by cause."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="a regular expression for the cases' names")
    parser.add_argument("--models", action="store_true", help="models of installed packages, too")
    parser.add_argument("--seconds", type=float, default=2.0, help="of one question")
    parser.add_argument("--most", type=float, default=30.0, help="processor seconds of one kernel")
    parser.add_argument("--part", default="0/1", help="I/N: every Nth case, from number I")
    parser.add_argument("--output", type=Path, help="write the verdicts as JSON")
    options = parser.parse_args()
    counts, causes, seconds = Counter[str](), Counter[str](), list[float]()
    seen, answers = set[Any](), list[dict[str, Any]]()
    for name, program in programs(options):
        for launch in list_launches(program):
            binary = program.code[launch.dispatch.kernel].binary
            key = (binary, launch.key())
            if key in seen:
                continue
            seen.add(key)
            start = time.process_time()
            result = prove_launch(binary, launch, limit_work(options.seconds, options.most))
            seconds.append(time.process_time() - start)
            kind = "open sizes" if launch.manifest.is_dynamic else "known sizes"
            counts[f"{kind}: {result.verdict}"] += 1
            answers.append({"case": name, "kernel": launch.dispatch.kernel, "kind": kind,
                            "verdict": result.verdict, "seconds": round(seconds[-1], 2),
                            "lines": result.lines, "offered": result.offered})  # fmt: skip
            shown = "; ".join(result.lines[:2] or result.offered)
            told = f"{seconds[-1]:6.1f} {name} {launch.dispatch.kernel}: {result.verdict}"
            print(f"{told}: {shown}"[:300], flush=True)
            if result.verdict != "proved":
                causes[cause_of(result.lines[0])] += 1
    for cause, times in causes.most_common():
        print(f"not proved, {times} times: {cause}")
    for name, times in sorted(counts.items()):
        print(f"{name}: {times}")
    if seconds:
        ordered = sorted(seconds)
        late = ordered[int(len(ordered) * 0.95)]
        print(f"seconds: median {ordered[len(ordered) // 2]:.1f}, 95 %: {late:.1f}")
    if options.output:
        options.output.write_text(json.dumps(answers, indent=1) + "\n")
    return int(any("refuted" in name for name in counts))


if __name__ == "__main__":
    raise SystemExit(main())
