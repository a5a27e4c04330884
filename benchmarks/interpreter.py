#!/usr/bin/env python3
"""
Times kernels on the interpreter, numpy and lavapipe.

    python benchmarks/interpreter.py [--size 512] [--repeat 5]

- `cooperative, TARGET`: `linalg.matmul` f16 x f16 -> f32 lowered by `linalg-to-spirv`, with
  staging through Workgroup memory, barriers and cooperative matrices.
- `packed dot`: int8 x int8 -> i32 by `SDot` on packed bytes.
- `scalar f16, f32 sums`: f16 operands, scalars multiplied and added in f32.
- `scalar f16`: the same in f16, rounded after each instruction.

The last three are from hand_kernels.py. Each kernel runs without checks and with all checks
(`Checks.all()`), which must find nothing. numpy multiplies the same matrices in binary32, which is
exact for the bytes. lavapipe (`make lavapipe`) runs the same modules if it is installed, timed
from submission to idle. Runs alternate; figures are medians; G/s are 2 N^3 / seconds. The script
also measures the time of an instruction in a kernel of 64 invocations, and the peak memory of a
launch with several memory budgets. Results go to benchmarks/results/interpreter.json.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hand_kernels as kernels
import numpy as np
from workloads import matmul
from xdsl.dialects.builtin import ModuleOp

from xdsl_spirv.compiler import compile_module
from xdsl_spirv.dialects.spirv.structure import ModuleOp as SPIRVModuleOp
from xdsl_spirv.interpreter import MemoryBudget, Options, dispatch
from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.passes.spirv.update_vce import UpdateVCEPass
from xdsl_spirv.runtime.modules import context, parse_text
from xdsl_spirv.serialization.decode.decoder import decode
from xdsl_spirv.serialization.encode.encoder import encode
from xdsl_spirv.serialization.encode.target import find_module
from xdsl_spirv.testing.dispatches import Dispatch, write_jobs

HERE = Path(__file__).resolve().parent
RESULT = HERE / "results" / "interpreter.json"
DEVICE = HERE.parent / "tests" / "vulkan" / "device.py"
TARGETS = ("lavapipe", "nvidia-h200")
BUDGETS = (1, 4, 16, 64, 256)
MEBI = 1 << 20


@dataclass
class Row:
    """A kernel for c = a b on buffers a, b and c. `tolerance` is the allowed error of c."""

    name: str
    module: SPIRVModuleOp
    entry: str
    grid: tuple[int, int, int]
    subgroup: int
    a: Any
    b: Any
    c: Any
    exact: Any
    numpy: Callable[[], Any]
    tolerance: float = 0.0
    on_lavapipe: bool = True

    def dispatch(self, checks: Checks | None = None, memory: MemoryBudget | None = None) -> None:
        options = Options(
            subgroup_size=self.subgroup, checks=checks, memory=memory or MemoryBudget()
        )
        buffers = {(0, 0): self.a, (0, 1): self.b, (0, 2): self.c}
        dispatch(self.module, self.entry, self.grid, buffers, options=options)
        if checks is not None and checks.report.findings:
            raise SystemExit(f"error: {self.name}: the checks found\n{checks.report}")

    def verify(self, result: Any) -> None:
        worst = np.abs(result.astype(np.float64) - self.exact).max()
        if worst > self.tolerance:
            raise SystemExit(f"error: {self.name} differs by {worst}, more than {self.tolerance}")


def module_of(text: str) -> SPIRVModuleOp:
    """Parses a handwritten kernel and adds version, capabilities and extensions."""
    module: ModuleOp = parse_text(text, ctx=context())
    UpdateVCEPass().apply(context(), module)
    return find_module(module)


def rows(n: int) -> list[Row]:
    """Returns every kernel of the benchmark for n x n x n."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((n, n)).astype(np.float16) for _ in range(2))
    wide_a, wide_b = a.astype(np.float32), b.astype(np.float32)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    listed: list[Row] = []
    for target in TARGETS:
        program = compile_module(parse_text(matmul(n)), target)
        (launch,) = program.manifest.dispatches
        module = decode(program.code[launch.kernel].binary)
        order = [binding.buffer for binding in launch.bindings]
        assert [(binding.set, binding.binding) for binding in launch.bindings] == [
            (0, 0),
            (0, 1),
            (0, 2),
        ], order
        listed.append(
            Row(
                f"cooperative, {target}",
                module,
                launch.entry_point,
                launch.grid,
                program.manifest.subgroup_size,
                a,
                b,
                np.zeros((n, n), np.float32),
                exact,
                lambda: wide_a @ wide_b,
                1e-2,
                target == "lavapipe",
            )
        )
    bytes_a, bytes_b = (rng.integers(-128, 128, (n, n), np.int8) for _ in range(2))
    float_a, float_b = bytes_a.astype(np.float32), bytes_b.astype(np.float32)
    grid = kernels.grid(n)
    listed.append(
        Row(
            "packed dot", module_of(kernels.packed_dot(n)), "main", grid, 8, bytes_a,
            np.ascontiguousarray(bytes_b.T), np.zeros((n, n), np.int32),
            bytes_a.astype(np.float64) @ bytes_b, lambda: float_a @ float_b,
        )
    )  # fmt: skip
    turned = np.ascontiguousarray(b.T)
    for name, wide, tolerance in (("scalar f16, f32 sums", True, 1e-2), ("scalar f16", False, 4.0)):
        listed.append(
            Row(
                name, module_of(kernels.scalar_half(n, wide)), "main", grid, 8, a, turned,
                np.zeros((n, n), np.float32 if wide else np.float16), exact,
                lambda: wide_a @ wide_b, tolerance,
            )
        )  # fmt: skip
    return listed


def on_lavapipe(kernels: list[Row], repeat: int) -> dict[str, list[float]]:
    """Returns seconds of each run on lavapipe by kernel; empty if lavapipe is missing."""
    launcher = Path(os.environ.get("XDSL_SPIRV_LAVAPIPE", HERE.parent / ".lavapipe")) / "run"
    if not launcher.exists():
        print(f"lavapipe is left out: there is no {launcher}")
        return {}
    chosen = [row for row in kernels if row.on_lavapipe]
    jobs = [
        Dispatch(
            encode(row.module),
            row.entry,
            row.grid,
            {(0, 0): row.a, (0, 1): row.b, (0, 2): np.zeros_like(row.c)},
            subgroup_size=row.subgroup,
        )
        for row in chosen
    ]
    times: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_jobs(folder, jobs)
        listed = json.loads((folder / "jobs.json").read_text())
        for job in listed:
            job["repeat"] = repeat + 1
        (folder / "jobs.json").write_text(json.dumps(listed))
        subprocess.run([launcher, sys.executable, DEVICE, "run", folder], check=True)
        for number, row in enumerate(chosen):
            with np.load(folder / f"{number}.out.npz") as stored:
                row.verify(stored["arr_2"])
            seconds = json.loads((folder / f"{number}.seconds.json").read_text())
            times[f"{row.name}, on lavapipe"] = seconds[1:]
    return times


def timed(listed: list[Row], repeat: int) -> dict[str, list[float]]:
    """Returns the seconds of each run by kernel: by numpy, without checks, and with all checks."""
    times: dict[str, list[float]] = {}
    for round in range(repeat + 1):
        for row in listed:
            ways: dict[str, Callable[[], Any]] = {
                f"{row.name}, numpy": row.numpy,
                row.name: row.dispatch,
                f"{row.name}, all checks": lambda row=row: row.dispatch(Checks.all()),
            }
            for name, way in ways.items():
                row.c[...] = 0
                start = time.perf_counter()
                way()
                elapsed = time.perf_counter() - start
                if not name.endswith("numpy"):
                    row.verify(row.c)
                if round:
                    times.setdefault(name, []).append(elapsed)
    return times


def instruction_seconds(repeat: int) -> float:
    """Returns the seconds of one instruction, for a workgroup of 64 invocations."""
    text, count = kernels.small_loop(2000)
    module, data = module_of(text), np.arange(64, dtype=np.int32)
    seconds: list[float] = []
    for _ in range(repeat + 1):
        start = time.perf_counter()
        dispatch(module, "main", (1, 1, 1), {(0, 0): data})
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[1:]) / count


def peaks(listed: list[Row]) -> dict[str, dict[str, float]]:
    """Returns peak MiB of a launch minus its buffers, by kernel and by memory budget in MiB."""
    megabytes: dict[str, dict[str, float]] = {}
    for row in listed[:3]:
        megabytes[row.name] = {}
        for budget in BUDGETS:
            tracemalloc.start()
            row.dispatch(memory=MemoryBudget(budget * MEBI))
            megabytes[row.name][str(budget)] = round(tracemalloc.get_traced_memory()[1] / MEBI, 1)
            tracemalloc.stop()
    return megabytes


def main() -> int:
    parser = argparse.ArgumentParser(description="The interpreter beside numpy and lavapipe.")
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args()
    n: int = arguments.size
    listed = rows(n)
    times = timed(listed, arguments.repeat) | on_lavapipe(listed, arguments.repeat)
    medians = {name: statistics.median(values) for name, values in times.items()}
    rates = {name: 2 * n**3 / seconds / 1e9 for name, seconds in medians.items()}
    ratios = {row.name: medians[f"{row.name}, all checks"] / medians[row.name] for row in listed}
    for name, seconds in sorted(medians.items()):
        print(f"{name:40} {seconds:9.4f} s {rates[name]:9.2f} G/s")
    for name, ratio in ratios.items():
        print(f"{name:40} {ratio:9.2f} times as long with all checks")
    instruction = instruction_seconds(arguments.repeat)
    print(f"an instruction of 64 invocations: {instruction * 1e6:.2f} us")
    memory = peaks(listed)
    for name, peak in memory.items():
        print(f"{name:40} MiB at the peak by budget: {peak}")
    record = {
        "what": f"{n}^3, medians of {arguments.repeat} runs; G/s are 2 N^3 / seconds",
        "date": datetime.date.today().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "load": round(os.getloadavg()[0], 1),
        "versions": {"python": platform.python_version(), "numpy": np.__version__},
        "seconds": medians,
        "giga_per_second": rates,
        "all_checks_times_as_long": ratios,
        "microseconds_of_an_instruction_of_64_invocations": instruction * 1e6,
        "peak_mebibytes_by_budget": memory,
        "runs": times,
    }
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(record, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
