"""
Runs the compute scripts of VK-GL-CTS and Amber on the interpreter with all checks.

    python scripts/amber.py VK-GL-CTS/external/vulkancts/data/vulkan/amber amber/tests/cases
    python scripts/amber.py FOLDER --only memory_model --lavapipe
    python scripts/amber.py FOLDER --every 5 --seconds 60

The folders belong to checkouts of the user. A script is *right* if all its expectations hold and
no check reports anything, *wrong* if an expectation fails, *accused* if only a check reports
something. A script is *refused* if it uses features that testing/amber.py or the tools here do not
support. Refusals are counted by reason. With --lavapipe, scripts that are not right also run on
lavapipe. The exit status is 1 if any script is wrong or accused.
"""

from __future__ import annotations

import argparse
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from xdsl_spirv.interpreter import InterpreterError, Options, dispatch  # noqa: E402
from xdsl_spirv.interpreter.checks import Checks  # noqa: E402
from xdsl_spirv.serialization.decode.decoder import decode  # noqa: E402
from xdsl_spirv.serialization.raw.errors import SPIRVDecodeError  # noqa: E402
from xdsl_spirv.serialization.text.assembler import assemble  # noqa: E402
from xdsl_spirv.testing import amber, vkscript  # noqa: E402
from xdsl_spirv.testing.dispatches import Dispatch, read_results, write_jobs  # noqa: E402
from xdsl_spirv.tools.kernel_test.compilers import CompileError, compile_source  # noqa: E402
from xdsl_spirv.tools.kernel_test.description import Compile  # noqa: E402

SUBGROUP = 32
"""Subgroup size for scripts that do not request a size."""

COMPUTE = re.compile(r"SHADER compute|^\[compute shader", re.M)

Runner = Callable[[bytes, amber.Pipeline, tuple[int, int, int], amber.Script], None]


class Refused(Exception):
    """Raised if a script cannot run here. The message is the reason."""


@dataclass
class Outcome:
    kind: str
    detail: str = ""


def binary_of(shader: amber.Shader) -> bytes:
    """Returns the binary of a shader. Raises `Refused` if it is not available."""
    if shader.language == "SPIRV-ASM":
        return assemble(shader.text).encode()
    if shader.language != "GLSL":
        raise Refused(f"shaders in {shader.language} cannot be compiled")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "shader.comp"
        path.write_text(shader.text)
        try:
            environment = (shader.target_env or "vulkan1.1").replace("spv", "spirv")
            return compile_source(path, Compile(target_env=environment))
        except CompileError as error:
            raise Refused(
                f"glslang refuses the shader: {str(error).splitlines()[-1][:80]}"
            ) from error


def read(path: Path) -> amber.Script:
    """Parses a script in either of Amber's languages. Raises `Unsupported`."""
    text = path.read_text(errors="replace")
    return (vkscript if "[test]" in text else amber).parse(text, path.parent)


def perform(script: amber.Script, run: Runner) -> Iterator[str]:
    """Runs a script's commands. Yields each expectation that does not hold."""
    binaries = {name: binary_of(shader) for name, shader in script.shaders.items()}
    for command in script.commands:
        if isinstance(command, amber.Run):
            pipeline = script.pipelines[command.pipeline]
            run(binaries[pipeline.shader], pipeline, command.grid, script)
        elif isinstance(command, amber.Write):
            data = script.buffers[command.buffer].data
            data[command.offset : command.offset + len(command.data)] = command.data
        else:
            yield from amber.failures(script, command)


def interpreter(checks: Checks) -> Runner:
    def run(
        binary: bytes, pipeline: amber.Pipeline, grid: tuple[int, int, int], script: amber.Script
    ) -> None:
        buffers, images = script.arguments(pipeline)
        push = b"" if pipeline.push is None else script.buffers[pipeline.push].data.tobytes()
        options = Options(subgroup_size=pipeline.subgroup_size or SUBGROUP, checks=checks)
        dispatch(
            *(decode(binary), pipeline.entry, grid, buffers, pipeline.constants, push),
            options=options,
            images=images,
        )

    return run


def on_lavapipe(
    binary: bytes, pipeline: amber.Pipeline, grid: tuple[int, int, int], script: amber.Script
) -> None:
    """Runs one dispatch of a script on lavapipe. Raises `Refused` if it fails."""
    buffers, images = script.arguments(pipeline)
    push = b"" if pipeline.push is None else script.buffers[pipeline.push].data.tobytes()
    constants = {id: int(value) for id, value in pipeline.constants.items()}
    lavapipe_dispatch(
        Dispatch(binary, pipeline.entry, grid, buffers, None, constants, push, images)
    )


def lavapipe_dispatch(job: Dispatch) -> None:
    """Runs a dispatch in a separate process. Raises `Refused` if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        write_jobs(Path(folder), [job])
        runner = ROOT / "tests" / "vulkan" / "device.py"
        command = [ROOT / ".lavapipe" / "run", sys.executable, runner, "run", folder]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        if done.returncode or read_results(Path(folder), [job]) != 1:
            raise Refused((done.stderr.strip().splitlines() or ["no result"])[-1][:100])


def attempt(path: Path) -> Outcome:
    """Runs a script on the interpreter and returns its outcome."""
    checks = Checks.all()
    try:
        script = read(path)
        wrong = list(perform(script, interpreter(checks)))
    except (amber.Unsupported, Refused) as error:
        return Outcome("refused", str(error))
    except SPIRVDecodeError as error:
        return Outcome("refused", f"not decoded: {str(error).partition(' (at')[0][:100]}")
    except InterpreterError as error:
        return Outcome("refused", str(error).splitlines()[0].partition(" (")[0][:100])
    except TimeoutError:
        return Outcome("refused", "too slow")
    except Exception as error:
        return Outcome("wrong", f"{type(error).__name__}: {error}")
    findings = sorted({finding.rule for finding in checks.report})
    if wrong:
        return Outcome("wrong", f"{wrong[0]} {findings or ''}")
    return Outcome("accused", ", ".join(findings)) if findings else Outcome("right")


def lavapipe(path: Path) -> str:
    """Runs a script on lavapipe and returns its outcome as text."""
    try:
        wrong = list(perform(read(path), on_lavapipe))
    except (amber.Unsupported, Refused, subprocess.TimeoutExpired) as error:
        return f"not run: {error}"
    return wrong[0] if wrong else "right"


def _give_up(*_: object) -> None:
    raise TimeoutError


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[1])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--only", default="", help="scripts whose path has this in it")
    parser.add_argument("--every", type=int, default=1, help="each n-th script only")
    parser.add_argument("--seconds", type=int, default=300, help="that a script may take")
    parser.add_argument("--lavapipe", action="store_true", help="run what is not right there, too")
    given = parser.parse_args()
    paths = [
        path
        for folder in given.folders
        for path in sorted(p for p in folder.rglob("*") if p.suffix in (".amber", ".vkscript"))
        if given.only in str(path) and COMPUTE.search(path.read_text(errors="replace"))
    ][:: given.every]
    counts, reasons = Counter[str](), Counter[str]()
    signal.signal(signal.SIGALRM, _give_up)
    start = time.monotonic()
    for path in paths:
        signal.alarm(given.seconds)
        with np.errstate(all="ignore"):
            outcome = attempt(path)
        signal.alarm(0)
        counts[outcome.kind] += 1
        if outcome.kind == "refused":
            reasons[outcome.detail] += 1
        elif outcome.kind != "right":
            beside = f"; lavapipe: {lavapipe(path)}" if given.lavapipe else ""
            print(f"{path}: {outcome.kind}: {outcome.detail}{beside}", flush=True)
    print(f"{len(paths)} scripts in {time.monotonic() - start:.0f} s: {dict(counts)}")
    for reason, count in reasons.most_common():
        print(f"  {count} refused: {reason}")
    return int(bool(counts["wrong"] or counts["accused"]))


if __name__ == "__main__":
    sys.exit(main())
