r"""
Runs the `onnx` package's node tests and compares the statuses of all cases with a file.

    python scripts/onnx_backend.py                      all cases, compared with the status file
    python scripts/onnx_backend.py --sample 40 --seed 3 some of them
    python scripts/onnx_backend.py --only conv,gemm     cases with one of these words in the name
    python scripts/onnx_backend.py --write              all cases (or some), into the status file
    python scripts/onnx_backend.py --table              failures by reason, into docs/onnx-tests.md
    python scripts/onnx_backend.py --verbose            prints the reason of every failure

| status | meaning |
|---|---|
| `ok` | imported, compiled, executed, within the case's own tolerances |
| `constants` | ok if integer inputs of at most one dimension (shapes, axes) are constants |
| `refused` | the importer refuses the model with a message |
| `unsupported` | imported, and then refused by the compiler with a message |
| `rounded` | beyond the case's tolerances, by at most 4 steps of the largest element |
| `mismatch` | executed, with a different result |
| `slow` | not finished within `--timeout` seconds |
| `crash` | an exception that is not a message to the user |

Cases are compiled for `--target` (lavapipe) and run on the interpreter. `--target reference`
evaluates them as imported, on whole arrays. The exit status is 1 if a status is not the expected
one.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

from xdsl_spirv.jobs.job import INTERPRETER, Job, Result
from xdsl_spirv.jobs.options import open_engine, open_store, status_of
from xdsl_spirv.onnx_backend import REFERENCE, TARGET
from xdsl_spirv.testing.node_cases import Case, Outcome, collect
from xdsl_spirv.tools.options import Options

ROOT = Path(__file__).resolve().parent.parent
EXPECTED = ROOT / "tests" / "frontends" / "onnx_backend_status.txt"
DOCUMENT = ROOT / "docs" / "onnx-tests.md"
BEGIN, END = "<!-- node cases -->\n", "<!-- end of node cases -->\n"
SECONDS, MEMORY = 120.0, 16 << 30
"""Limits of a case in seconds and bytes. The slowest case takes ten seconds on a busy machine."""

FAMILIES = ("matmul", "gemm", "conv", "pool", "softmax", "layer_normalization")
"""Operators that are also counted separately."""

# Running many cases


def progress(what: str, done: int, total: int) -> None:
    """Prints a progress line that overwrites the last one. Prints nothing without a terminal."""
    if sys.stderr.isatty():
        print(f"\r{what} {done} of {total}", end="", file=sys.stderr, flush=True)
        if done == total:
            print(file=sys.stderr)


def run_all(cases: Mapping[str, Case], options: argparse.Namespace) -> dict[str, Outcome]:
    """Returns the outcome of each case. Writes outcomes to `--out` as lines of JSON."""
    outcomes: dict[str, Outcome] = {}
    jobs = (
        Job(
            "node case",
            case.data() | {"name": name, "target": options.target},
            INTERPRETER,
            options.timeout,
            MEMORY,
        )
        for name, case in cases.items()
    )
    with (
        open_engine(options.scheduler, options.jobs) as engine,
        open_store(options.store) as store,
        options.out.open("w") if options.out else nullcontext() as out,
    ):
        for job, result in engine.run(jobs, store):
            name = job.data["name"]
            outcomes[name] = outcome_of(result)
            if out is not None:
                print(json.dumps([name, *outcomes[name]]), file=out, flush=True)
            progress("ran", len(outcomes), len(cases))
    return dict(sorted(outcomes.items()))


def outcome_of(result: Result) -> Outcome:
    """Returns the outcome of a case. The end of its process is a `crash`."""
    if result.ok:
        status, reason = result.value
        return status, reason
    return ("slow" if result.status == "late" else "crash"), f"{result.status}: {result.cause}"


# The status file


def read_expected() -> dict[str, str]:
    """Returns the committed statuses."""
    lines = EXPECTED.read_text().splitlines() if EXPECTED.exists() else []
    return dict(line.split()[:2] for line in lines if line and not line.startswith("#"))


def write_expected(outcomes: dict[str, Outcome]) -> None:
    """Writes the status file: counts, then a line per case. Statuses of other cases stay."""
    lines = EXPECTED.read_text().splitlines() if EXPECTED.exists() else []
    kept = {line.split()[0]: line for line in lines if line and not line.startswith("#")}
    for name, (status, reason) in outcomes.items():
        kept[name] = f"{name} {status} {short(reason)}".strip()
    statuses = {name: line.split()[1] for name, line in kept.items()}
    head = ["# The onnx package's node cases: written by scripts/onnx_backend.py --write"]
    head += [f"# {line}" for line in counted(statuses)]
    EXPECTED.write_text("\n".join([*head, *(kept[name] for name in sorted(kept))]) + "\n")


def short(reason: str) -> str:
    """Returns a reason on one line, without parts that differ between runs."""
    text = re.sub(r"\s+", " ", reason.split("; ")[0])
    return text if len(text) < 200 else text[:197] + "..."


def counted(statuses: dict[str, str]) -> list[str]:
    """Returns lines with the number of cases of each status, for all cases and for families."""
    lines: list[str] = []
    core = {n: s for n, s in statuses.items() if any(family in n for family in FAMILIES)}
    for what, some in (("all", statuses), (" ".join(FAMILIES), core)):
        counts = Counter(some.values())
        said = ", ".join(f"{count} {status}" for status, count in counts.most_common())
        lines.append(f"{what}: {len(some)} cases, {said}")
    return lines


def table() -> str:
    """Returns a Markdown table of failures by status and reason, most cases first."""
    operators: dict[tuple[str, str], Counter[str]] = {}
    for line in EXPECTED.read_text().splitlines():
        name, status, *words = line.split(" ")
        if line.startswith("#") or status == "ok":
            continue
        operator, reason = split_reason(" ".join(words))
        about = operator or re.sub(r"_expanded.*|_\d\w*", "", name.removeprefix("test_"))
        reason = "" if status == "rounded" else reason
        operators.setdefault((status, reason), Counter())[about] += 1
    rows = [
        *counted(read_expected())[:1],
        "",
        "| status | cases | reason | operators, or names of cases |",
        "|---|---|---|---|",
    ]
    order = sorted(operators.items(), key=lambda item: (item[0][0], -item[1].total(), item[0][1]))
    for (status, reason), counts in order:
        words = [f"{n} ({c})" if c > 1 else n for n, c in counts.most_common()]
        names = ", ".join([*words[:9], *([f"{len(words) - 9} more"] if len(words) > 9 else [])])
        rows.append(f"| `{status}` | {counts.total()} | {reason} | {names} |")
    return "\n".join(rows) + "\n"


def split_reason(reason: str) -> tuple[str, str]:
    """Returns the operator in a reason, and the reason without names of values and kernels."""
    text = re.sub(r" in @\w+| \((node|input|output) .*", "", reason)
    text = re.sub(r"^the (input|output) '\w+'", r"an \1", text)
    operator, colon, rest = text.partition(": ")
    if colon and operator.isidentifier() and operator[0].isupper():
        return operator, rest
    return "", text


def write_table() -> None:
    """Updates the table in the documentation."""
    before, _, rest = DOCUMENT.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    DOCUMENT.write_text(before + BEGIN + table() + END + after)


def report(outcomes: dict[str, Outcome], verbose: bool) -> None:
    """Prints counts, and reasons if `verbose`."""
    for line in counted({name: status for name, (status, _) in outcomes.items()}):
        print(line)
    for name, (status, reason) in outcomes.items():
        if status in ("mismatch", "crash", "slow") or (verbose and status != "ok"):
            print(f"{name} {status}: {reason[:300]}")


def chosen(options: argparse.Namespace, names: list[str]) -> list[str]:
    """Returns the names of the cases that the options select."""
    if options.names and options.names.startswith("@"):
        wanted = Path(options.names[1:]).read_text().split()
        return [name for name in wanted if name in set(names)]
    if options.only:
        words = options.only.split(",")
        names = [name for name in names if any(word in name for word in words)]
    if options.names:
        wanted = set(options.names.split(","))
        names = [name for name in names if name in wanted]
    if options.sample:
        names = sorted(random.Random(options.seed).sample(names, min(options.sample, len(names))))
    return names


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs cases and compares their statuses with the expected ones."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[1])
    parser.add_argument("--sample", type=int, help="this many cases, drawn by --seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="cases with one of these words in the name")
    parser.add_argument("--names", help="exactly these cases, or @FILE")
    parser.add_argument("--modules", help="make only the cases of these modules of onnx, quickly")
    parser.add_argument("--target", default=TARGET, help=f"{TARGET}, ..., or {REFERENCE}")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--timeout", type=float, default=SECONDS, help="seconds for one case")
    parser.add_argument("--out", type=Path, help="write outcomes, a line of JSON each")
    parser.add_argument("--outcomes", type=Path, help="take outcomes from such a file, run nothing")
    parser.add_argument("--write", action="store_true", help="write the status file")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument(
        "--table", action="store_true", help="write the table of reasons, run nothing"
    )
    Options("@scheduler")(parser)
    options = parser.parse_args(arguments)
    if options.table:
        write_table()
        return 0
    if options.outcomes:
        lines = map(json.loads, options.outcomes.read_text().splitlines())
        outcomes = {name: (status, reason) for name, status, reason in lines}
        return concluded(dict(sorted(outcomes.items())), options)
    every = collect(options.modules.split(",") if options.modules else None)
    names = chosen(options, list(every))
    started = time.monotonic()
    outcomes = run_all({name: every[name] for name in names}, options)
    print(f"{time.monotonic() - started:.0f} s for {len(names)} cases")
    return concluded(outcomes, options)


def concluded(outcomes: dict[str, Outcome], options: argparse.Namespace) -> int:
    """Reports outcomes, and writes or compares their statuses. Returns the exit status."""
    report(outcomes, options.verbose)
    if options.write:
        write_expected(outcomes)
        return 0
    return compared(outcomes)


def compared(outcomes: dict[str, Outcome]) -> int:
    """Returns 1 if a status is not the expected one."""
    expected = read_expected()
    changed = [name for name, (status, _) in outcomes.items() if expected.get(name) != status]
    for name in changed:
        print(f"CHANGED {name}: {expected.get(name)} -> {': '.join(outcomes[name])[:300]}")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(status_of(main))
