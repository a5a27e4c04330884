"""
Checks on a device that a lost device and an endless kernel end with an error message.

    python scripts/device_lost.py --target nvidia-h200 [-o device-lost.json]

The kernel of a compiled program is replaced, first by one that writes through invalid device
addresses, then by an endless loop. `xdsl-spirv run` must end with the status for device errors,
one line that describes the error, no traceback and no remaining process. The original program must
give right results before, between and after these runs. A Python process that does the same
through `open_isolated` must survive and be able to continue. A GPU reports VK_ERROR_DEVICE_LOST; a
CPU driver (lavapipe) crashes instead, and the message must say so.

Do not share the device while this runs: losing it may end other processes' work.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

import numpy as np

from xdsl_spirv.compiler import compile_module
from xdsl_spirv.runtime import Program
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.modules import parse_text
from xdsl_spirv.runtime.processes import python_command
from xdsl_spirv.runtime.vulkan.errors import DeviceLostError, DeviceTimeoutError
from xdsl_spirv.runtime.vulkan.worker import open_isolated
from xdsl_spirv.serialization.text.assembler import assemble
from xdsl_spirv.testing.endless_kernels import FOREVER, LOST

SIZE = 64
TEXT = """
func.func @main(%A: tensor<NxNxf32>, %B: tensor<NxNxf32>) -> tensor<NxNxf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<NxNxf32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<NxNxf32>) -> tensor<NxNxf32>
  %r = linalg.matmul ins(%A, %B : tensor<NxNxf32>, tensor<NxNxf32>)
                     outs(%i : tensor<NxNxf32>) -> tensor<NxNxf32>
  return %r : tensor<NxNxf32>
}
""".replace("N", str(SIZE))

LOST_SAYS = ("VK_ERROR_DEVICE_LOST", "the driver's process died")
LATE_SAYS = ("did not finish within", "VK_ERROR_DEVICE_LOST")


def replaced(program: Path, kernel: str, folder: Path) -> Path:
    """Copies a program and replaces its kernel."""
    shutil.copytree(program, folder)
    (path,) = (folder / "kernels").glob("*.spv")
    path.write_bytes(assemble(kernel.replace("NAME", path.stem)).encode())
    return folder


def command(program: Path, device: str, seconds: float, check: bool) -> dict[str, Any]:
    """Runs a program by `xdsl-spirv run` in a separate process, and returns its outcome."""
    words = [*python_command(), "-m", "xdsl_spirv.tools.main", "run", str(program)]
    # Without --unsafe, kernels with device addresses are refused.
    words += ["--random", "3", "--device", device, "--timeout", str(seconds), "--unsafe"]
    mark, begun = uuid.uuid4().hex, time.perf_counter()
    done = subprocess.run(
        [*words, *(["--check"] if check else [])],
        capture_output=True,
        text=True,
        timeout=seconds + 240,
        check=False,
        env=os.environ | {"DEVICE_LOST_MARK": mark},
    )
    return {
        "status": done.returncode,
        "said": done.stderr.strip().splitlines(),
        "seconds": round(time.perf_counter() - begun, 2),
        "left": marked(mark),
    }


def marked(mark: str) -> list[str]:
    """Returns the running processes whose environment contains `mark`."""
    folders: list[str] = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark.encode() in path.read_bytes():
                folders.append(path.parent.name)
        except OSError:
            continue
    return folders


def failed_as(outcome: dict[str, Any], phrases: tuple[str, ...]) -> bool:
    """
    True if a command failed with a device error in one line that contains one of the phrases, and
    left no process.
    """
    said: list[str] = outcome["said"]
    return (
        outcome["status"] == 4
        and len(said) == 1
        and said[0].startswith("error: ")
        and any(phrase in said[0] for phrase in phrases)
        and not outcome["left"]
    )


def in_this_process(good: Program, bad: Program, device: str, seconds: float) -> dict[str, Any]:
    """
    Runs `bad` and then `good` through `open_isolated`.

    Returns the error, and facts about the worker and the second run.
    """
    generator = np.random.default_rng(0)
    a, b = (generator.integers(-3, 4, (SIZE, SIZE)).astype(np.float32) for _ in range(2))
    outcome: dict[str, Any] = {"error": "", "right": False}
    try:
        with open_isolated(device, timeout=seconds) as opened:
            outcome["worker"] = opened.worker.process.pid
            opened.execute(bad, {"A": a, "B": b})
    except (DeviceLostError, DeviceTimeoutError) as error:
        outcome["error"] = f"{type(error).__name__}: {error}"
    except ProgramError as error:
        outcome["error"] = f"not expected: {type(error).__name__}: {error}"
    outcome["worker_alive"] = Path(f"/proc/{outcome.get('worker', 0)}").exists()
    with open_isolated(device, timeout=seconds) as opened:
        (result,) = opened.execute(good, {"A": a, "B": b}).values()
    outcome["right"] = bool(np.array_equal(result, a @ b))
    return outcome


def tried(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Returns the facts of every step. `passed` has True for each step that ended as required."""
    good = folder / "good"
    program = compile_module(parse_text(TEXT), options.target)
    program.save(good)
    facts: dict[str, Any] = {"before": command(good, options.device, 60, True)}
    passed = facts["passed"] = {"before": facts["before"]["status"] == 0}
    for name, kernel, phrases in (("lost", LOST, LOST_SAYS), ("late", FOREVER, LATE_SAYS)):
        bad = replaced(good, kernel, folder / name)
        facts[name] = command(bad, options.device, options.seconds, False)
        passed[name] = failed_as(facts[name], phrases)
        after = facts[f"after {name}"] = command(good, options.device, 60, True)
        passed[f"after {name}"] = after["status"] == 0
        own = facts[f"{name} by the library"] = in_this_process(
            program, Program.load(bad, unsafe=True), options.device, options.seconds
        )
        kinds = ("DeviceLostError", "DeviceTimeoutError")
        passed[f"{name} by the library"] = (
            own["error"].startswith(kinds) and own["right"] and not own["worker_alive"]
        )
    return facts


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="nvidia-h200")
    parser.add_argument("--device", default="vulkan")
    parser.add_argument("--seconds", type=float, default=10, help="for a kernel (%(default)g)")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args(arguments)
    os.environ.pop("XDSL_SPIRV_DEVICE", None)
    with tempfile.TemporaryDirectory() as name:
        facts = tried(options, Path(name))
    text = json.dumps(facts, indent=1)
    print(text)
    if options.output is not None:
        options.output.write_text(text + "\n")
    return 0 if all(facts["passed"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
