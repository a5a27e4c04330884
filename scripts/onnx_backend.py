"""
The `onnx` package's own node tests: what becomes of each of its cases, against what is expected.

    python scripts/onnx_backend.py                      all cases, compared with the status file
    python scripts/onnx_backend.py --sample 40 --seed 3 some of them
    python scripts/onnx_backend.py --only conv,gemm     those whose names hold one of these words
    python scripts/onnx_backend.py --write              all cases (or some), into the status file
    python scripts/onnx_backend.py --table              what is not ok by reason, into docs/onnx.md
    python scripts/onnx_backend.py --verbose            with the reason of everything that is not ok

| status | meaning |
|---|---|
| `ok` | imported, compiled, its kernels executed, within the case's own tolerances |
| `constants` | ok once the integer inputs of at most one dimension (shapes, axes) are constants |
| `refused` | the importer says no |
| `unsupported` | imported, and then refused by us, with a message |
| `rounded` | beyond the case's tolerances, by no more than 4 steps of the largest element |
| `mismatch` | executed, with another result |
| `slow` | not done within `--timeout` seconds |
| `crash` | an exception that is no message to the user |

Cases are compiled for `--target` (lavapipe) and run on the interpreter; `--target reference`
executes them as imported, on whole arrays. Exit status 1 if any status is not the expected one.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import re
import sys
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
import onnx_cases

ROOT = Path(__file__).resolve().parent.parent
EXPECTED = ROOT / "tests" / "frontends" / "onnx_backend_status.txt"
DOCUMENT = ROOT / "docs" / "onnx.md"
BEGIN, END = "<!-- node cases -->\n", "<!-- end of node cases -->\n"
TARGET = "lavapipe"
REFERENCE = "reference"
SECONDS = 120.0
"""For one case; the slowest takes ten on a busy machine."""

STEPS = {"bfloat16": 2**-7, "float16": 2**-10, "float32": 2**-23}
"""The distance of 1 from the next number of a type."""

ROUNDINGS = 4
"""So many steps at the size of the largest element may several roundings cost."""

FAMILIES = ("matmul", "gemm", "conv", "pool", "softmax", "layer_normalization")
"""What is counted apart: the work that kernels are for."""

Outcome = tuple[str, str]
"""A status, and the reason if it is not ok."""


# One case


def outcome(case: Any, target: str) -> Outcome:
    """The status of a case; that with constants counts if it is refused as it is."""
    first = attempt(case, {}, target)
    constants = onnx_cases.constants_of(onnx_cases.inputs_of(case))
    if first[0] not in ("refused", "unsupported") or not constants:
        return first
    second = attempt(case, constants, target)
    if second[0] == "ok":
        return "constants", first[1]
    return first if second[0] in ("refused", "unsupported") else second


def attempt(case: Any, constants: dict[str, Any], target: str) -> Outcome:
    """What becomes of a case, some of whose inputs may be constants."""
    from xdsl.utils.exceptions import DiagnosticException, VerifyException

    from xdsl_spirv.frontends import FrontendError, import_onnx
    from xdsl_spirv.interpreter import InterpreterError
    from xdsl_spirv.runtime.errors import ProgramError

    inputs = {n: a for n, a in onnx_cases.inputs_of(case).items() if n not in constants}
    try:
        shapes = {name: array.shape for name, array in inputs.items()}
        model = import_onnx(case.model, shapes=shapes, constants=constants)
        results = execute(model, inputs, target)
        wrong = first_difference(case, results, onnx_cases.expected_of(case))
    except FrontendError as error:
        return "refused", str(error)
    except (ProgramError, InterpreterError, DiagnosticException, VerifyException) as error:
        return "unsupported", str(error)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno}"
        return "crash", f"{type(error).__name__}: {error} ({where})"
    return wrong or ("ok", "")


def execute(model: Any, inputs: dict[str, Any], target: str) -> list[Any]:
    """The results in the order of the outputs."""
    from xdsl_spirv.compiler.model import compile_model, run_reference
    from xdsl_spirv.runtime.execution import run

    if target == REFERENCE:
        return list(run_reference(model, inputs).values())
    found = run(compile_model(model, target), inputs)
    return [found[value.name] for value in model.outputs]


def first_difference(case: Any, results: list[Any], expected: Sequence[Any]) -> Outcome | None:
    """What is wrong with the results; nothing if they are as the case wants them."""
    rounded: Outcome | None = None
    for number, (found, truth) in enumerate(zip(results, expected, strict=True)):
        if found.shape != truth.shape or found.dtype != truth.dtype:
            words = f"{found.dtype}{found.shape}, not {truth.dtype}{truth.shape}"
            return "mismatch", f"result {number}: {words}"
        if truth.dtype.kind in "biu":
            if not np.array_equal(found, truth):
                count = int(np.sum(found != truth))
                return "mismatch", f"result {number} differs in {count} elements"
            continue
        a, b = found.astype(np.float64), truth.astype(np.float64)
        if np.allclose(a, b, case.rtol, case.atol, equal_nan=True):
            continue
        with np.errstate(all="ignore"):
            largest = float(np.nanmax(np.abs(a - b)))
            words = f"result {number}: largest difference {largest:.3g}"
            most = ROUNDINGS * STEPS.get(truth.dtype.name, 0.0) * float(np.nanmax(np.abs(b)))
        if not np.allclose(a, b, 0.0, most, equal_nan=True):
            return "mismatch", words
        rounded = ("rounded", words)
    return rounded


# Many cases


def progress(what: str, done: int, total: int) -> None:
    """A line that is written over; nothing where nobody watches."""
    if sys.stderr.isatty():
        print(f"\r{what} {done} of {total}", end="", file=sys.stderr, flush=True)
        if done == total:
            print(file=sys.stderr)


def serve(connection: Connection, cases: dict[str, Any], target: str) -> None:
    """A process that runs cases by name as long as its parent lives."""
    np.seterr(all="ignore")
    parent = os.getppid()
    while True:
        # Its siblings hold copies of the pipe, so that the parent's death does not close it.
        while not connection.poll(5):
            if os.getppid() != parent:
                return
        connection.send(outcome(cases[connection.recv()], target))


class Runner:
    """A process for one case after another, started anew when a case ends it or takes too long."""

    def __init__(self, cases: dict[str, Any], target: str, seconds: float):
        self.cases, self.target, self.seconds = cases, target, seconds
        self.process: Any = None
        self.connection: Any = None

    def run(self, name: str) -> Outcome:
        if self.process is None:
            self.connection, other = multiprocessing.Pipe()
            arguments = (other, self.cases, self.target)
            self.process = multiprocessing.get_context("fork").Process(target=serve, args=arguments)
            self.process.start()
            other.close()
        try:
            self.connection.send(name)
            if self.connection.poll(self.seconds):
                return self.connection.recv()
        except (EOFError, OSError):
            self.close()
            return "crash", "the process ended"
        self.close()
        return "slow", f"not done within {self.seconds:g} s"

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.connection.close()
            self.process = None


def run_all(
    cases: dict[str, Any], target: str, jobs: int, seconds: float, out: Path | None
) -> dict[str, Outcome]:
    """The outcome of each case, several at once; to `out` as they come, a line of JSON each."""
    runners: SimpleQueue[Runner] = SimpleQueue()
    for _ in range(jobs):
        runners.put(Runner(cases, target, seconds))
    found: dict[str, Outcome] = {}

    def one(name: str) -> None:
        runner = runners.get()
        try:
            found[name] = runner.run(name)
        finally:
            runners.put(runner)
        if stream is not None:
            print(json.dumps([name, *found[name]]), file=stream, flush=True)
        progress("ran", len(found), len(cases))

    with ExitStack() as stack:
        stream = stack.enter_context(out.open("w")) if out is not None else None
        pool = stack.enter_context(ThreadPoolExecutor(jobs))
        for _ in pool.map(one, cases):
            pass
    for _ in range(jobs):
        runners.get().close()
    return dict(sorted(found.items()))


# The status file


def read_expected() -> dict[str, str]:
    """The committed statuses."""
    lines = EXPECTED.read_text().splitlines() if EXPECTED.exists() else []
    return dict(line.split()[:2] for line in lines if line and not line.startswith("#"))


def write_expected(found: dict[str, Outcome]) -> None:
    """The status file: counts, then a line for each case; what was not run stays as it was."""
    lines = EXPECTED.read_text().splitlines() if EXPECTED.exists() else []
    kept = {line.split()[0]: line for line in lines if line and not line.startswith("#")}
    for name, (status, reason) in found.items():
        kept[name] = f"{name} {status} {short(reason)}".strip()
    statuses = {name: line.split()[1] for name, line in kept.items()}
    head = ["# The onnx package's node cases: written by scripts/onnx_backend.py --write"]
    head += [f"# {line}" for line in counted(statuses)]
    EXPECTED.write_text("\n".join([*head, *(kept[name] for name in sorted(kept))]) + "\n")


def short(reason: str) -> str:
    """A reason on one line, without what differs from run to run."""
    text = re.sub(r"\s+", " ", reason.split("; ")[0])
    return text if len(text) < 200 else text[:197] + "..."


def counted(statuses: dict[str, str]) -> list[str]:
    """How many cases have each status: all of them, and the families'."""
    lines: list[str] = []
    core = {n: s for n, s in statuses.items() if any(family in n for family in FAMILIES)}
    for what, some in (("all", statuses), (" ".join(FAMILIES), core)):
        counts = Counter(some.values())
        said = ", ".join(f"{count} {status}" for status, count in counts.most_common())
        lines.append(f"{what}: {len(some)} cases, {said}")
    return lines


def table() -> str:
    """What is not ok by status and reason, most cases first: rows of Markdown."""
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
        "| status | cases | reason | of |",
        "|---|---|---|---|",
    ]
    order = sorted(operators.items(), key=lambda item: (item[0][0], -item[1].total(), item[0][1]))
    for (status, reason), counts in order:
        words = [f"{n} ({c})" if c > 1 else n for n, c in counts.most_common()]
        names = ", ".join([*words[:9], *([f"{len(words) - 9} more"] if len(words) > 9 else [])])
        rows.append(f"| `{status}` | {counts.total()} | {reason} | {names} |")
    return "\n".join(rows) + "\n"


def split_reason(reason: str) -> tuple[str, str]:
    """The operator that a reason names, and the reason without names of values and kernels."""
    text = re.sub(r" in @\w+| \((node|input|output) .*", "", reason)
    text = re.sub(r"^the (input|output) '\w+'", r"an \1", text)
    operator, colon, rest = text.partition(": ")
    if colon and operator.isidentifier() and operator[0].isupper():
        return operator, rest
    return "", text


def write_table() -> None:
    """Bring the table in the documentation up to date."""
    before, _, rest = DOCUMENT.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    DOCUMENT.write_text(before + BEGIN + table() + END + after)


def report(found: dict[str, Outcome], verbose: bool) -> None:
    """Counts, and reasons if they are asked for."""
    for line in counted({name: status for name, (status, _) in found.items()}):
        print(line)
    for name, (status, reason) in found.items():
        if status in ("mismatch", "crash", "slow") or (verbose and status != "ok"):
            print(f"{name} {status}: {reason[:300]}")


def chosen(options: argparse.Namespace, names: list[str]) -> list[str]:
    """The cases that the options ask for."""
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
    """Run cases and compare their statuses with the expected ones."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[1])
    parser.add_argument("--sample", type=int, help="so many cases, chosen by --seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="words, of which one is in the name")
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
    options = parser.parse_args(arguments)
    if options.table:
        write_table()
        return 0
    if options.outcomes:
        lines = map(json.loads, options.outcomes.read_text().splitlines())
        found = {name: (status, reason) for name, status, reason in lines}
        return concluded(dict(sorted(found.items())), options)
    modules = options.modules.split(",") if options.modules else None
    every = onnx_cases.collect(modules)
    names = chosen(options, list(every))
    started = time.monotonic()
    cases = {name: every[name] for name in names}
    found = run_all(cases, options.target, options.jobs, options.timeout, options.out)
    print(f"{time.monotonic() - started:.0f} s for {len(names)} cases")
    return concluded(found, options)


def concluded(found: dict[str, Outcome], options: argparse.Namespace) -> int:
    """Report outcomes, and write or compare their statuses."""
    report(found, options.verbose)
    if options.write:
        write_expected(found)
        return 0
    return compared(found)


def compared(found: dict[str, Outcome]) -> int:
    """1 if a status is not the expected one."""
    expected = read_expected()
    changed = [name for name, (status, _) in found.items() if expected.get(name) != status]
    for name in changed:
        print(f"CHANGED {name}: {expected.get(name)} -> {': '.join(found[name])[:300]}")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
