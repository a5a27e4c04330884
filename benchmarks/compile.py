"""
Measures the time to compile a matmul to SPIR-V as a whole process, and iree-compile's time.

Both compilers get the same 1024 x 1024 x 1024 f16 x f16 -> f32 `linalg.matmul`. Each run is a new
process, and the runs of the two compilers alternate. Figures are medians of wall-clock time and of
processor time, which depends less on the load of the machine. Python's bytecode is cached, as
after an installation. `make bench` installs IREE's compiler in a separate virtual environment.

    benchmarks/compile.py [--runs 11] [--iree PATH]     benchmarks/results/compile.json
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from workloads import matmul

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
SIZE = 1024
IREE_FLAGS = ["--iree-hal-target-device=vulkan", "--iree-vulkan-target=ampere"]


ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}

MODULES = """
import sys
from xdsl_spirv.tools.main import main
main({arguments})
print(*(name for name in sys.modules if name.startswith("xdsl_spirv")))
"""


def seconds(command: Sequence[str | Path]) -> tuple[float, float]:
    """Returns wall-clock and processor time of a process. Prints its messages if it fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    done = run(command)
    elapsed = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"error: {command[0]} failed: {done.stderr[-2000:]}")
    return elapsed, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def run(command: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(c) for c in command], capture_output=True, text=True, check=False, env=ENVIRONMENT
    )


def modules_loaded(command: Sequence[str | Path]) -> int:
    """Returns the number of xdsl_spirv modules that a command imports."""
    code = MODULES.format(arguments=[str(c) for c in command[1:]])
    return len(run([sys.executable, "-c", code]).stdout.splitlines()[-1].split())


def main() -> int:
    parser = argparse.ArgumentParser(description="Compile time against iree-compile.")
    parser.add_argument("--runs", type=int, default=11)
    parser.add_argument("--iree", default=ROOT / ".venv/iree/bin/iree-compile", type=Path)
    arguments = parser.parse_args()
    iree = shutil.which(arguments.iree)
    if iree is None:
        sys.exit(f"error: {arguments.iree} does not exist; run `make bench`")
    ours = Path(sys.executable).parent / "xdsl-spirv"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = folder / "matmul.mlir"
        source.write_text(matmul(SIZE))
        commands: dict[str, list[str | Path]] = {
            target: [ours, "compile", source, "--target", target, "-o", folder / target]
            for target in ("nvidia-h200", "lavapipe")
        }
        commands["iree-compile"] = [iree, source, *IREE_FLAGS, "-o", folder / "iree.vmfb"]
        commands["python -c pass"] = [sys.executable, "-c", "pass"]
        opt, kernel = ours.with_name("xdsl-opt"), f"kernels/matmul_{SIZE}x{SIZE}x{SIZE}.spv"
        commands["xdsl-opt (parse and print)"] = [opt, source, "-o", folder / "out.mlir"]
        commands["xdsl-opt --help"] = [opt, "--help"]
        commands["xdsl-spirv --help"] = [ours, "--help"]
        commands["xdsl-spirv validate"] = [ours, "validate", folder / "nvidia-h200" / kernel]
        for command in commands.values():
            seconds(command)
        wall: dict[str, list[float]] = {name: [] for name in commands}
        processor: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(arguments.runs):
            for name, command in commands.items():
                elapsed, used = seconds(command)
                wall[name].append(elapsed)
                processor[name].append(used)
        modules = modules_loaded(commands["nvidia-h200"])
    medians = {name: statistics.median(values) for name, values in wall.items()}
    processor_medians = {name: statistics.median(values) for name, values in processor.items()}
    ratio = medians["nvidia-h200"] / medians["iree-compile"]
    processor_ratio = processor_medians["nvidia-h200"] / processor_medians["iree-compile"]
    for name, median in medians.items():
        print(f"{name:28} {median:.3f} s, processor {processor_medians[name]:.3f} s")
    print(f"ratio to iree-compile: {ratio:.2f}, of the processor's time {processor_ratio:.2f}")
    print(f"our modules loaded: {modules}")
    RESULTS.mkdir(exist_ok=True)
    result = {
        "what": f"whole-process compile of a {SIZE}^3 f16 -> f32 matmul, seconds",
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "iree": version(iree),
        "iree_flags": IREE_FLAGS,
        "runs": wall,
        "medians": medians,
        "ratio_nvidia_h200_to_iree": ratio,
        "processor_runs": processor,
        "processor_medians": processor_medians,
        "processor_ratio_nvidia_h200_to_iree": processor_ratio,
        "modules_loaded": modules,
    }
    (RESULTS / "compile.json").write_text(json.dumps(result, indent=2) + "\n")
    return 0


def version(iree: str) -> str:
    text = subprocess.run([iree, "--version"], capture_output=True, text=True, check=True).stdout
    return next(line.strip() for line in text.splitlines() if "version" in line)


if __name__ == "__main__":
    sys.exit(main())
