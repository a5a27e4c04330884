#!/usr/bin/env python3
"""
A matrix multiplication on the interpreter, beside numpy's own, in one run.

    python benchmarks/interpreter.py [--size 512] [--repeat 5]

The kernels are what `linalg-to-spirv` makes of a `linalg.matmul` f16 x f16 -> f32 for a target:
staging through Workgroup memory, barriers, cooperative matrices. Their `spirv.module` is executed
without checks; reading and preparing it counts in, as it would for a user. The same module, read
before, is dispatched without and with all checks (`Checks.all()`), which must find nothing. numpy
multiplies the same operands, converted to binary32 once. Runs alternate, medians count; GFLOP/s are
2 M N K / seconds. Raw times go into benchmarks/results/interpreter.json.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from workloads import matmul

from xdsl_spirv.interpreter import Options, dispatch
from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.runtime import compile_module, run
from xdsl_spirv.runtime.compiler import context, parse_text
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.serialization.target import find_module

RESULT = Path(__file__).resolve().parent / "results" / "interpreter.json"
TARGETS = ("lavapipe", "nvidia-h200")


def dispatcher(program: Program, inputs: dict[str, Any], checked: bool) -> Callable[[], Any]:
    """Dispatches a program's only kernel, with all checks or none; its result."""
    (launch,) = program.manifest.dispatches
    kernel = find_module(parse_text(program.code[launch.kernel].text, ctx=context()))
    (result,) = program.manifest.outputs

    def job() -> Any:
        checks = Checks.all() if checked else None
        made = np.zeros(result.shape, np.float32)
        buffers = inputs | {result.name: made}
        dispatch(
            kernel,
            launch.entry_point,
            launch.grid,
            {(b.set, b.binding): buffers[b.buffer] for b in launch.bindings},
            options=Options(subgroup_size=program.manifest.subgroup_size, checks=checks),
        )
        if checks is not None and checks.report.findings:
            raise SystemExit(f"error: the checks found\n{checks.report}")
        return made

    return job


def main() -> int:
    parser = argparse.ArgumentParser(description="A matmul on the interpreter, beside numpy's.")
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args()
    n: int = arguments.size
    generator = np.random.default_rng(0)
    a, b = (generator.standard_normal((n, n)).astype(np.float16) for _ in range(2))
    wide_a, wide_b = a.astype(np.float32), b.astype(np.float32)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    jobs: dict[str, Callable[[], Any]] = {"numpy": lambda: wide_a @ wide_b}
    for target in TARGETS:
        program = compile_module(parse_text(matmul(n)), target)
        jobs[f"interpreter, {target}"] = lambda p=program: run(p, {"A": a, "B": b})["result0"]
        for checked in (False, True):
            name = f"dispatch, {target}{', all checks' * checked}"
            jobs[name] = dispatcher(program, {"A": a, "B": b}, checked)
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for round in range(arguments.repeat + 1):
        for name, job in jobs.items():
            start = time.perf_counter()
            result = job()
            elapsed = time.perf_counter() - start
            if round:
                times[name].append(elapsed)
            elif np.abs(result - exact).max() > 1e-2:
                raise SystemExit(f"error: {name} is wrong by {np.abs(result - exact).max()}")
    medians = {name: statistics.median(values) for name, values in times.items()}
    rates = {name: 2 * n**3 / seconds / 1e9 for name, seconds in medians.items()}
    for name, seconds in medians.items():
        print(f"{name:34} {seconds:8.4f} s  {rates[name]:8.2f} GFLOP/s")
    record = {
        "what": f"{n}^3 f16 x f16 -> f32 matmul, median of {arguments.repeat} runs",
        "date": datetime.date.today().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "versions": {"python": platform.python_version(), "numpy": np.__version__},
        "seconds": medians,
        "gflops": rates,
        "checks": {
            target: medians[f"dispatch, {target}, all checks"] / medians[f"dispatch, {target}"]
            for target in TARGETS
        },
        "runs": times,
    }
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(record, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
