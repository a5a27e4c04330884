"""
Runs compute shaders of other compilers' binaries on the interpreter with all checks.

    python scripts/run_modules.py .corpus/slang .suites/wgpu --lavapipe
    python scripts/run_modules.py FOLDER --every 10 --seconds 60

scripts/make_corpus.py makes the folders. Each entry point runs as one workgroup with generated
buffers and zeros as push constants. A shader is *right* if no check reports anything and *found*
if one does; generated integers are bad indices, so many shaders are *found*. It is *refused* if
the interpreter lacks one of its features, and *at fault* for any other exception. A finding
without a source line is listed if its module has lines. With --lavapipe, shaders without a finding
also run there, and memory is compared. The exit status is 1 for a fault, a difference, or a listed
finding.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))
sys.path.insert(0, str(ROOT / "scripts"))

from amber import Refused, lavapipe_dispatch  # noqa: E402

from xdsl_spirv.dialects.spirv.enums import ExecutionModel  # noqa: E402
from xdsl_spirv.dialects.spirv.structure import EntryPointOp, ModuleOp  # noqa: E402
from xdsl_spirv.interpreter import InterpreterError, Options  # noqa: E402
from xdsl_spirv.interpreter.checks import Checks  # noqa: E402
from xdsl_spirv.interpreter.checks.report import Finding  # noqa: E402
from xdsl_spirv.interpreter.source.debug_info import SET  # noqa: E402
from xdsl_spirv.serialization.decode.decoder import decode  # noqa: E402
from xdsl_spirv.serialization.raw import binary  # noqa: E402
from xdsl_spirv.serialization.raw.errors import SPIRVDecodeError  # noqa: E402
from xdsl_spirv.serialization.raw.operands import opcode_of  # noqa: E402
from xdsl_spirv.testing.differential import optimized  # noqa: E402
from xdsl_spirv.testing.dispatches import Dispatch  # noqa: E402

SUBGROUP = 8
"""Subgroup size of lavapipe."""
GRID = (1, 1, 1)
Memory = Mapping[optimized.Place, np.ndarray[Any, np.dtype[Any]]]


def entries(module: ModuleOp) -> list[str]:
    """Returns the compute entry points of a module."""
    found = [op for op in module.body.block.ops if isinstance(op, EntryPointOp)]
    return [
        op.fn.root_reference.data
        for op in found
        if op.execution_model.data is ExecutionModel.GLCompute
    ]


def has_lines(data: bytes) -> bool:
    """True if a binary contains line information."""
    return opcode_of("OpLine") in binary.decode(data).opcodes or SET.encode() in data


def run(case: optimized.Case, module: ModuleOp, entry: str) -> tuple[list[Finding], Memory]:
    """Returns the findings of a run with all checks, and the memory after the run."""
    checks = Checks.all()
    options = Options(checks=checks, max_steps=optimized.STEPS, subgroup_size=SUBGROUP)
    memory = optimized.run_module(case, module, options, entry)
    return list(checks.report), memory


def compare_with_lavapipe(case: optimized.Case, entry: str, expected: Memory) -> str:
    """
    Runs a shader on lavapipe, and compares memory with `expected`. Returns "equal", the difference,
    or the reason why it did not run.
    """
    buffers: dict[Any, Any] = {place: array.copy() for place, array in case.buffers.items()}
    job = Dispatch(case.binary, entry, GRID, buffers, push_constants=case.push_constants)
    try:
        lavapipe_dispatch(job)
    except (Refused, TimeoutError, subprocess.TimeoutExpired) as error:
        return f"not run: {type(error).__name__}: {error}"
    wrong = [
        place for place, array in buffers.items() if not optimized.same(array, expected[place])
    ]
    return f"buffers {wrong} differ" if wrong else "equal"


def attempt(data: bytes, entry: str, lavapipe: bool) -> tuple[str, str]:
    """Runs one entry point. Returns the kind of its outcome and the detail."""
    try:
        case = optimized.made_up_case(data)
        findings, memory = run(case, decode(data), entry)
    except (InterpreterError, SPIRVDecodeError) as error:
        return "refused", str(error).splitlines()[0].partition(" (")[0][:100]
    except TimeoutError:
        return "refused", "too slow"
    except Exception as error:
        return "at fault", f"{type(error).__name__}: {str(error)[:200]}"
    if findings:
        nowhere = [f for f in findings if f.source is None] if has_lines(data) else []
        if nowhere:
            return "no line", f"{nowhere[0].rule} at {nowhere[0].text}: {nowhere[0].message}"
        return "found", ", ".join(sorted({finding.rule for finding in findings}))
    compared = compare_with_lavapipe(case, entry, memory) if lavapipe else "not compared"
    if compared.startswith("buffers"):
        return "differs", compared
    return "right", compared


def _stop_waiting(*_: object) -> None:
    raise TimeoutError


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[1])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--every", type=int, default=1, help="each n-th module only")
    parser.add_argument("--start", type=int, default=0, help="the first of them")
    parser.add_argument("--seconds", type=int, default=60, help="that a shader may take")
    parser.add_argument("--lavapipe", action="store_true", help="run what is right there, too")
    given = parser.parse_args()
    signal.signal(signal.SIGALRM, _stop_waiting)
    bad = 0
    for folder in given.folders:
        counts, details = Counter[str](), Counter[tuple[str, str]]()
        start = time.monotonic()
        for path in sorted(folder.rglob("*.spv"))[given.start :: given.every]:
            data = path.read_bytes()
            try:
                names = entries(decode(data, unchecked=True))
            except SPIRVDecodeError as error:
                details["refused", f"not decoded: {str(error).partition(' (at')[0][:100]}"] += 1
                continue
            for name in names:
                signal.alarm(given.seconds)
                with np.errstate(all="ignore"):
                    kind, detail = attempt(data, name, given.lavapipe)
                signal.alarm(0)
                counts[kind] += 1
                details[kind, detail] += 1
                if kind in ("at fault", "differs", "no line"):
                    bad += 1
                    print(f"{path} {name}: {kind}: {detail}", flush=True)
        print(f"{folder}: {dict(counts)} in {time.monotonic() - start:.0f} s")
        for (kind, detail), count in details.most_common():
            print(f"  {count} {kind}: {detail}")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
