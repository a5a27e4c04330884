"""
Tests the kernel that the page wrote to `/page`, and writes the result there as JSON.

The page compiles sources itself and writes their SPIR-V to `kernel.spv`.
"""

import json
import os
import tomllib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import xdsl_spirv.tools.kernel_test.compilers as compilers
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.serialization.raw.errors import SPIRVDecodeError
from xdsl_spirv.serialization.text.disassembler import disassemble
from xdsl_spirv.tools.kernel_test.arguments import Buffer
from xdsl_spirv.tools.kernel_test.description import KernelTest
from xdsl_spirv.tools.kernel_test.loading import load_kernel
from xdsl_spirv.tools.kernel_test.problems import Outcome
from xdsl_spirv.tools.kernel_test.reporting import summary
from xdsl_spirv.tools.kernel_test.running import run_test
from xdsl_spirv.tools.kernel_test.starting import describe
from xdsl_spirv.tools.kernel_test.toml_file import beside, parse_test
from xdsl_spirv.tools.settings import describe_settings

WORK = Path("/page")
SECONDS = 20.0
"""Time limit of a launch. It is short because the user waits."""
SHOWN = 1024
"""Number of shown elements of a buffer."""

compilers.compile_source = lambda path, options, entry=None: Path("kernel.spv").read_bytes()
# np.unique calls the large module numpy.ma to test for masked arrays, which do not occur.
np.ma = SimpleNamespace(is_masked=lambda array: False)  # type: ignore[assignment]
os.access = lambda path, mode, **options: os.path.exists(path)  # WASI does not implement it.


def test(name: str, launch: str) -> None:
    """Runs the launch that the text `launch` describes, or a default one, with all checks."""
    os.chdir(WORK)
    _answer(_test(Path(name), launch))


def show(name: str) -> None:
    """Writes the kernel as assembly and in the dialect."""
    os.chdir(WORK)
    kernel = load_kernel(KernelTest(Path(name), Path(name)))
    try:
        dialect = str(kernel.module())
    except SPIRVDecodeError as error:
        dialect = f"The dialect cannot represent this kernel: {error}"
    _answer({"assembly": disassemble(kernel.index.raw), "dialect": dialect})


def _answer(answer: dict[str, Any]) -> None:
    Path("answer.json").write_text(json.dumps(answer))


def _test(path: Path, launch: str) -> dict[str, Any]:
    bare = KernelTest(path, path)
    refusal = ""
    try:
        launch = launch if launch.strip() else _describe(bare)
        data = tomllib.loads(launch) | {"kernel": str(path)}
        described = parse_test(data, beside(path))
        test = replace(described, timeout=min(described.timeout, SECONDS))
    except (ProgramError, tomllib.TOMLDecodeError) as error:
        test, refusal = bare, str(error)
    except Exception:
        test = bare  # The run reports errors of the kernel.
    outcomes = run_test(test)
    last = outcomes[-1]
    refusal = refusal or last.misuse
    problems = {p.text: p for o in outcomes for p in o.problems}.values()
    return {
        "launch": launch,
        "refusal": refusal,
        "summary": "The launch cannot be made" if refusal else summary(outcomes),
        "problems": [problem.as_dict() for problem in problems],
        "notes": list(dict.fromkeys(note for o in outcomes for note in o.notes)),
        "settings": describe_settings(last.settings) if last.settings else "",
        "buffers": _buffers(last),
    }


def _describe(test: KernelTest) -> str:
    """Returns the default launch's description, without the kernel's name."""
    return describe(test, beside(test.kernel)).partition("\n")[2]


def _buffers(outcome: Outcome) -> list[dict[str, Any]]:
    buffers = outcome.arguments.buffers if outcome.arguments and outcome.ran else []
    return [part for buffer in buffers for part in _parts(buffer)]


def _parts(buffer: Buffer) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    for part in buffer.parts:
        values = part.view(buffer.data)
        shown = np.asarray(values.reshape(-1)[:SHOWN], dtype=object).tolist()
        parts.append(
            {
                "name": part.label.removeprefix("buffers."),
                "type": part.leaf.scalar,
                "shape": list(values.shape),
                "values": [f"{v:.6g}" if isinstance(v, float) else str(v) for v in shown],
            }
        )
    return parts
