"""Compiles models with `iree-compile` for Vulkan and runs them on a device of this machine."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from xdsl_spirv.compare.onnxruntime import Tolerance, difference
from xdsl_spirv.runtime.processes import python_command

TARGETS = ("llvmpipe", "vp_android_baseline_2022", "ampere")
"""IREE's target options in the order in which they are tried; the first is lavapipe's."""

COMPILE_LIMIT, RUN_LIMIT = 600, 60
"""Time limits in seconds."""

REPEAT = 5


def beside_iree(
    proto: Any,
    inputs: Mapping[str, Any],
    expected: Mapping[str, Any],
    tolerance: Tolerance,
    device: str | None,
) -> dict[str, Any]:
    """
    Returns IREE's compile time of a model for each target, or the reason of a failure.

    If `device` is given (`vulkan`, for example), the module for lavapipe runs on the device. Its
    results are compared with the expected ones, with the same `tolerance` as ours.
    """
    from onnx import save

    importer, compiler = (_tool(name) for name in ("iree-import-onnx", "iree-compile"))
    if importer is None or compiler is None:
        return {"error": "not installed (pip install iree-base-compiler)"}
    row: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="xdsl-spirv-iree-") as name:
        source, module, out = (Path(name, file) for file in ("m.onnx", "m.mlir", "m.vmfb"))
        save(_raw(proto), source)
        for target in TARGETS:
            flags = ["--iree-hal-target-device=vulkan", f"--iree-vulkan-target={target}"]
            commands = (
                [importer, str(source), "-o", str(module)],
                [compiler, str(module), *flags, "-o", str(out)],
            )
            row[target] = _compiled(commands)
            if "error" in row[target]:
                continue
            if device is not None and target == TARGETS[0]:
                row[target] |= _run(Path(name), module, out, inputs, expected, tolerance, device)
            break
    return row


def _raw(proto: Any) -> Any:
    """Stores a model's tensors as raw bytes: IREE reads float16 in no other form."""
    from onnx import numpy_helper

    copy = type(proto)()
    copy.CopyFrom(proto)
    for tensor in copy.graph.initializer:
        if not tensor.HasField("raw_data"):
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))
    return copy


def _tool(name: str) -> str | None:
    beside = Path(sys.executable).parent / name
    return str(beside) if beside.exists() else shutil.which(name)


def _compiled(commands: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Returns wall-clock and processor seconds of the commands, or the first error."""
    start, before = time.perf_counter(), os.times()
    for command in commands:
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_LIMIT)
        except subprocess.TimeoutExpired:
            return {"error": f"more than {COMPILE_LIMIT} s"}
        if done.returncode:
            return {"error": _reason(done.stderr)}
    wall, after = time.perf_counter() - start, os.times()
    cpu = sum(after[2:4]) - sum(before[2:4])
    return {"compile_s": round(wall, 2), "compile_cpu_s": round(cpu, 2)}


def _reason(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line.partition("error:")[2].strip() for line in lines if "error:" in line]
    if lines and lines[0].startswith("Traceback"):
        errors = [line for line in lines[1:] if "Error:" in line]
    return next((said for said in (*errors, *lines) if said), "failed")[:200]


def _run(
    folder: Path,
    module: Path,
    program: Path,
    inputs: Mapping[str, Any],
    expected: Mapping[str, Any],
    tolerance: Tolerance,
    device: str,
) -> dict[str, Any]:
    """Returns the seconds of the first run, the median of later runs, and the results' error."""
    spec = find_spec("iree._runtime_libs")
    if spec is None or not spec.submodule_search_locations:
        return {"run_error": "not installed (pip install iree-base-runtime)"}
    libraries = Path(spec.submodule_search_locations[0])
    function = re.search(r'func\.func @"?([^"(]+)"?\(', module.read_text())
    assert function is not None
    given = [f"--module={program}", f"--device={device}", f"--function={function[1]}"]
    for number, value in enumerate(inputs.values()):
        np.save(folder / f"in{number}.npy", value)
        given.append(f"--input=@{folder}/in{number}.npy")
    results = [folder / f"out{number}.npy" for number in range(len(expected))]
    # Starts Python as this process was started: with the C library that the driver needs.
    *starter, _ = python_command()
    options = [f"--output=@{output}" for output in results]
    start = time.perf_counter()
    error = _error([*starter, str(libraries / "iree-run-module"), *given, *options])
    first = time.perf_counter() - start
    if error is not None:
        return {"run_error": error}
    record: dict[str, Any] = {"first_s": round(first, 2)}
    off = [
        difference(name, np.load(path), value, tolerance)
        for path, (name, value) in zip(results, expected.items(), strict=True)
    ]
    record["max_abs"] = max(output.max_abs for output in off)
    record["cosine"] = min(output.cosine for output in off)
    record["passed"] = all(output.passed for output in off)
    out = folder / "times.json"
    counts = [f"--benchmark_repetitions={REPEAT}", "--benchmark_min_time=1x"]
    form = [f"--benchmark_out={out}", "--benchmark_out_format=json"]
    error = _error([*starter, str(libraries / "iree-benchmark-module"), *given, *counts, *form])
    if error is not None:
        return record | {"run_error": error}
    rows = json.loads(out.read_text())["benchmarks"]
    (median,) = (row["real_time"] for row in rows if row.get("aggregate_name") == "median")
    return record | {"run_s": round(median / 1e3, 4)}


def _error(command: Sequence[str]) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_LIMIT)
    except subprocess.TimeoutExpired:
        return f"more than {RUN_LIMIT} s"
    return _reason(done.stderr) if done.returncode else None
