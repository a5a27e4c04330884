"""
The `onnx` package's own node tests: what becomes of each of its cases, against what is expected.

    python scripts/onnx_backend.py                      all cases, compared with the status file
    python scripts/onnx_backend.py --sample 40 --seed 3 some of them
    python scripts/onnx_backend.py --only conv,gemm     those whose names hold one of these words
    python scripts/onnx_backend.py --write              all cases (or some), into the status file
    python scripts/onnx_backend.py --write --missing    those that are not in it yet
    python scripts/onnx_backend.py --verbose            with the reason of everything that is not ok

| status | meaning |
|---|---|
| `ok` | imported, executed, within the case's own tolerances |
| `constants` | ok once the integer inputs of at most one dimension (shapes, axes) are constants |
| `refused` | the front end says no: torch-mlir lacks the operator, or a type has no buffer |
| `unsupported` | imported, and then refused by us, with a message |
| `mismatch` | executed, with another result |
| `crash` | an exception that is no message to the user |

Cases are executed as imported, on whole arrays (`--device reference`), or compiled for `--target`
and run on the interpreter. Exit status 1 if any status is not the expected one.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
EXPECTED = ROOT / "tests" / "frontends" / "onnx_backend_status.txt"
CHUNK = 20
SECONDS_A_CHUNK = 1500

FAMILIES = ("matmul", "gemm", "conv", "pool", "softmax", "layer_normalization")
"""What is counted apart: the work that kernels are for."""


def collect() -> list[Any]:
    """All node cases, by name; the package makes them in memory."""
    node: Any = import_module("onnx.backend.test.case.node")
    cases = {case.name: case for case in node.collect_testcases(None)}
    return [cases[name] for name in sorted(cases)]


def outcome(case: Any, worker: Any, target: str | None) -> tuple[str, str]:
    """The status of a case, and the reason if it is not ok."""
    first = attempt(case, worker, target, bind=False)
    if first[0] not in ("refused", "unsupported"):
        return first
    second = attempt(case, worker, target, bind=True)
    return ("constants", "") if second[0] == "ok" else first


def array_of(value: Any) -> Any:
    """An array of a case, some of which are tensors of the format."""
    if hasattr(value, "data_type"):
        return import_module("onnx.numpy_helper").to_array(value)
    return np.asarray(value)


def decides_shapes(array: Any) -> bool:
    """Whether an input may be a shape, axes or the like."""
    return array.ndim <= 1 and array.dtype in (np.int32, np.int64)


def attempt(case: Any, worker: Any, target: str | None, bind: bool) -> tuple[str, str]:
    """The status of a case, with the inputs that may decide shapes as constants or not."""
    from xdsl.utils.exceptions import DiagnosticException, VerifyException

    from xdsl_spirv.frontends import FrontendError, import_onnx
    from xdsl_spirv.interpreter import InterpreterError
    from xdsl_spirv.runtime.errors import ProgramError

    try:
        for arrays, expected in case.data_sets:
            names = [value.name for value in case.model.graph.input]
            inputs = {n: array_of(a) for n, a in zip(names, arrays, strict=False)}
            fixed = {n: a for n, a in inputs.items() if bind and decides_shapes(a)}
            if bind and not fixed:
                return "refused", "nothing to fix"
            inputs = {n: a for n, a in inputs.items() if n not in fixed}
            proto = type(case.model)()
            proto.CopyFrom(case.model)
            model = import_onnx(
                proto,
                shapes={n: a.shape for n, a in inputs.items()},
                constants=fixed,
                dynamic=True,
                worker=worker,
                find_crashes=False,
            )
            results = execute(model, inputs, target)
            wrong = first_difference(case, results, expected)
            if wrong:
                return "mismatch", wrong
    except FrontendError as error:
        return "refused", str(error)
    except (ProgramError, InterpreterError, DiagnosticException, VerifyException) as error:
        return "unsupported", str(error)
    except Exception as error:
        return "crash", f"{type(error).__name__}: {error}"
    return "ok", ""


def execute(model: Any, inputs: dict[str, Any], target: str | None) -> list[Any]:
    """The results in the order of the outputs."""
    from xdsl_spirv.runtime.execution import run
    from xdsl_spirv.runtime.model import compile_model, run_reference

    if target is None:
        return list(run_reference(model, inputs).values())
    return list(run(compile_model(model, target), inputs).values())


def first_difference(case: Any, results: list[Any], expected: Sequence[Any]) -> str:
    """What is wrong with the results; nothing if they are as the case wants them."""
    for number, (found, wanted) in enumerate(zip(results, expected, strict=True)):
        truth = array_of(wanted)
        if found.shape != truth.shape or found.dtype != truth.dtype:
            return f"result {number}: {found.dtype}{found.shape}, not {truth.dtype}{truth.shape}"
        if truth.dtype.kind in "biu":
            if not np.array_equal(found, truth):
                return f"result {number} differs in {int(np.sum(found != truth))} elements"
            continue
        a, b = found.astype(np.float64), truth.astype(np.float64)
        if not np.allclose(a, b, case.rtol, case.atol, equal_nan=True):
            return f"result {number}: largest difference {np.nanmax(np.abs(a - b)):.3g}"
    return ""


def run_chunk(names: list[str], target: str | None) -> None:
    """In a process of its own: one line of JSON for each case."""
    from xdsl_spirv.frontends.torch_mlir_process import TorchMLIR

    wanted = set(names)
    with TorchMLIR(timeout=60) as worker:
        for case in collect():
            if case.name in wanted:
                status, reason = outcome(case, worker, target)
                print(json.dumps([case.name, status, reason]), flush=True)


def run_all(
    names: list[str], target: str | None, write: bool = False
) -> dict[str, tuple[str, str]]:
    """
    The outcome of each case; a case that ends its process is a crash, and the rest go on.

    With `write` the status file is brought up to date after every chunk.
    """
    found: dict[str, tuple[str, str]] = {}
    left = list(names)
    while left:
        chunk = left[:CHUNK]
        command = [sys.executable, __file__, "--chunk", ",".join(chunk)]
        command += ["--target", target] if target else []
        reason = "the process ended"
        try:
            done = subprocess.run(
                command, stdout=subprocess.PIPE, text=True, timeout=SECONDS_A_CHUNK, check=False
            )
            lines = done.stdout.splitlines()
        except subprocess.TimeoutExpired as error:
            lines = (error.stdout or b"").decode().splitlines()
            reason = "the process did not finish"
        for line in lines:
            if line.startswith('["'):
                name, status, why = json.loads(line)
                found[name] = (status, why)
        rest = [name for name in chunk if name not in found]
        if rest:
            found[rest[0]] = ("crash", reason)
        left = [name for name in left if name not in found]
        if write:
            write_expected(found)
        print(f"\r{len(found)} of {len(names)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return found


def read_expected() -> dict[str, str]:
    """The committed statuses."""
    lines = EXPECTED.read_text().splitlines() if EXPECTED.exists() else []
    return dict(line.split() for line in lines if line and not line.startswith("#"))


def write_expected(found: dict[str, tuple[str, str]]) -> None:
    """The status file: counts, then a line for each case; what was not run stays as it was."""
    statuses = read_expected() | {name: status for name, (status, _) in found.items()}
    counts = Counter(statuses.values())
    head = [
        "# The onnx package's node cases: written by scripts/onnx_backend.py --write",
        f"# onnx {import_module('onnx').__version__}: {len(statuses)} cases, "
        + ", ".join(f"{n} {status}" for status, n in counts.most_common()),
    ]
    lines = [f"{name} {statuses[name]}" for name in sorted(statuses)]
    EXPECTED.write_text("\n".join([*head, *lines]) + "\n")


def report(found: dict[str, tuple[str, str]], verbose: bool) -> None:
    """Counts, and reasons if they are asked for."""
    counts = Counter(status for status, _ in found.values())
    print(f"{len(found)} cases: " + ", ".join(f"{n} {s}" for s, n in counts.most_common()))
    core = {n: s for n, (s, _) in found.items() if any(f in n for f in FAMILIES)}
    if core:
        ok = sum(status == "ok" for status in core.values())
        print(f"{' '.join(FAMILIES)}: {ok} of {len(core)} ok")
    for name, (status, reason) in sorted(found.items()):
        if status in ("mismatch", "crash") or (verbose and status != "ok"):
            print(f"{name} {status}: {reason[:300]}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run cases and compare their statuses with the expected ones."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[1])
    parser.add_argument("--sample", type=int, help="so many cases, chosen by --seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="words, of which one is in the name")
    parser.add_argument("--missing", action="store_true", help="those without a status yet")
    parser.add_argument("--names", help="exactly these cases")
    parser.add_argument("--target", help="compile, and run on the interpreter")
    parser.add_argument("--write", action="store_true", help="write the status file")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--chunk", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.chunk:
        run_chunk(options.chunk.split(","), options.target)
        return 0
    names = [case.name for case in collect()]
    if options.only:
        names = [name for name in names if any(word in name for word in options.only.split(","))]
    if options.names:
        names = [name for name in names if name in set(options.names.split(","))]
    if options.sample:
        names = sorted(random.Random(options.seed).sample(names, min(options.sample, len(names))))
    if options.missing:
        names = [name for name in names if name not in read_expected()]
    found = run_all(names, options.target, options.write)
    report(found, options.verbose)
    if options.write:
        return 0
    expected = read_expected()
    changed = [name for name in names if expected.get(name) != found[name][0]]
    for name in changed:
        print(f"CHANGED {name}: {expected.get(name)} -> {': '.join(found[name])[:300]}")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
