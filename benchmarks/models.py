"""
Converts, quantizes, compiles and runs real models. Compares them with onnxruntime and IREE.

    python benchmarks/models.py [--only ppocr_cls,minilm.f16] [--variants f32,channel]
        [--devices reference,interpreter,vulkan] [--target lavapipe] [--iree] [--json FILE]

Models come from `model_zoo.py`, variants from `model_variants.py`. A model is skipped with a
message if its package is not installed. Every case runs in its own process, so that its peak
memory is measured and a crash or hang ends no other case. In a network that quantizes activations,
one changed last bit may change the answer. Such results may also differ as much as onnxruntime's
own results when float parameters move by one unit in the last place (`within_spread`).

The device `reference` runs a model as imported, on whole arrays. `program` only compiles it. Other
devices run the program compiled for the target. With `--iree`, `iree-compile` compiles the same
model, and the result for lavapipe runs, too.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import platform
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from iree_models import beside_iree
from model_variants import VARIANTS, missing, nudged, variant_of
from model_zoo import MODELS, Model

from xdsl_spirv.compare.onnxruntime import Tolerance, differences, run_onnxruntime, tolerance_of
from xdsl_spirv.compiler.kernel_jobs import usable_processors
from xdsl_spirv.compiler.model import compile_model, run_reference
from xdsl_spirv.frontends import import_onnx
from xdsl_spirv.runtime.execution import run
from xdsl_spirv.runtime.processes import python_command
from xdsl_spirv.runtime.program import Program

TIMEOUT = 3000
"""Time limit of a case in seconds."""

REPEAT = 5
"""Number of runs of onnxruntime and of a device for the median."""

NUDGES = 4
"""Number of reference runs with changed last bits, for models that quantize activations."""

WITHOUT_KERNELS = ("reference", "program")
"""Devices that run no kernels: evaluation on whole arrays, and compilation only."""

COSINES = {"minilm.f32": 0.9999, "minilm.f16": 0.999}
"""Least cosine of the results, in addition to the tolerance."""

PATHS = (
    ("cooperative matrix, int8", r"CooperativeMatrixMulAdd .*xi8,"),
    ("cooperative matrix", r"CooperativeMatrixMulAdd"),
    ("dot", r"\.(S|U|SU)Dot(AccSat)? "),
    ("rotate", r"GroupNonUniformRotate"),
)
"""Kinds of instructions, and regular expressions that find them. The first match counts."""


def paths_of(program: Program) -> dict[str, int]:
    """Returns the number of dispatches by kind of instructions. Scalar contractions are `fma`."""
    kinds: dict[str, str] = {}
    for code in program.code.values():
        for part in code.text.split("spirv.func @")[1:]:
            name = part[: part.index("(")]
            path = next((path for path, sign in PATHS if re.search(sign, part)), None)
            fma = "fma, int8" if re.search(r"SConvert .*i8", part) else "fma"
            is_contraction = re.match(r"(batch_)?(convolution|matmul|contraction)", name)
            kinds[name] = path or (fma if is_contraction else "loops")
    counts = Counter(kinds.get(d.entry_point, "loops") for d in program.manifest.dispatches)
    return dict(counts.most_common())


def spread_of(proto: Any, inputs: Any, expected: Mapping[str, Any]) -> dict[str, float]:
    """Returns the largest change of each result when the parameters' last bits change."""
    spread = dict.fromkeys(expected, 0.0)
    for seed in range(NUDGES):
        moved = nudged(proto, seed).SerializeToString()
        for name, result in run_onnxruntime(moved, inputs, list(expected)).results.items():
            spread[name] = max(spread[name], float(abs(result - expected[name]).max()))
    return spread


def compared(
    model: Model,
    case: str,
    results: Mapping[str, Any],
    expected: Any,
    tolerance: Tolerance,
    spread: Mapping[str, float],
) -> dict[str, Any]:
    measured = differences(results, expected, tolerance)
    cosine = min(d.cosine for d in measured)
    passed = all(d.passed for d in measured) and cosine >= COSINES.get(case, 0)
    near = all(d.passed or d.max_abs <= spread.get(d.name, 0) for d in measured)
    return {
        "max_abs": max(d.max_abs for d in measured),
        "share": max(d.max_abs / d.allowed if d.allowed else d.max_abs for d in measured),
        "cosine": cosine,
        "means": model.meaning(results),
        "passed": passed,
        "within_spread": near and not passed,
    }


def measure(
    model: Model, variant: str, devices: Sequence[str], target: str, iree: bool = False
) -> dict[str, Any]:
    """Imports and compiles a model, runs it on the devices and compares the results."""
    case, inputs = f"{model.name}.{variant}", model.inputs()
    proto = variant_of(model, variant)
    names = [value.name for value in proto.graph.output]
    serialized = proto.SerializeToString()
    started, cpu_started = time.perf_counter(), time.process_time()
    imported = import_onnx(proto)
    ready, cpu_ready = time.perf_counter(), time.process_time()
    tolerance = tolerance_of(imported.module)
    runs = [run_onnxruntime(serialized, inputs, names) for _ in range(REPEAT)]
    expected = runs[0].results
    spread = spread_of(proto, inputs, expected) if tolerance.quantized else {}
    figures: dict[str, Any] = {
        "model": model.name,
        "variant": variant,
        "nodes": len(imported.nodes),
        "import_s": round(ready - started, 2),
        "import_cpu_s": round(cpu_ready - cpu_started, 3),
        "tolerance": tolerance.relative,
        "onnxruntime_s": round(statistics.median(entry.seconds for entry in runs), 4),
        "spread": max(spread.values(), default=0.0),
        "means": model.meaning(expected),
        "devices": {},
    }
    if "reference" in devices:
        start = time.perf_counter()
        results = run_reference(imported, inputs)
        figures["devices"]["reference"] = {
            "run_s": round(time.perf_counter() - start, 2),
            **compared(model, case, results, expected, tolerance, spread),
        }
    if any(device != "reference" for device in devices):
        start, cpu = time.perf_counter(), sum(os.times()[:4])
        program = compile_model(imported, target, jobs=usable_processors())
        figures["compile_s"] = round(time.perf_counter() - start, 2)
        figures["compile_cpu_s"] = round(sum(os.times()[:4]) - cpu, 2)
        figures |= described(program)
        for device in devices:
            if device not in WITHOUT_KERNELS:
                results, seconds = executed(program, inputs, device)
                figures["devices"][device] = seconds | compared(
                    model, case, results, expected, tolerance, spread
                )
    if iree:
        device = next((entry for entry in devices if entry.startswith("vulkan")), None)
        figures["iree"] = beside_iree(proto, inputs, expected, tolerance, device)
    return figures


def described(program: Program) -> dict[str, Any]:
    manifest = program.manifest
    return {
        "dispatches": len(manifest.dispatches),
        "dispatches_per_run": sum(not dispatch.once for dispatch in manifest.dispatches),
        "kernels": len({(d.kernel, d.entry_point) for d in manifest.dispatches}),
        "paths": paths_of(program),
        "spirv_bytes": sum(len(code.binary) for code in program.code.values()),
        "temporaries": sum(b.bytes for b in manifest.buffers if b.kind == "temporary"),
        "memory": manifest.memory or 0,
    }


def executed(program: Program, inputs: Any, device: str) -> tuple[Any, dict[str, float]]:
    start, cpu = time.perf_counter(), time.process_time()
    if device == "interpreter":
        results = run(program, inputs)
        seconds_of = {"run_s": time.perf_counter() - start, "cpu_s": time.process_time() - cpu}
        return results, {what: round(value, 2) for what, value in seconds_of.items()}
    from xdsl_spirv.runtime.vulkan.worker import open_isolated

    with open_isolated(device, timeout=TIMEOUT) as opened:
        results = opened.execute(program, inputs)
        first = time.perf_counter() - start
        seconds: list[float] = []
        for _ in range(REPEAT):
            start = time.perf_counter()
            opened.execute(program, inputs)
            seconds.append(time.perf_counter() - start)
    return results, {"first_s": round(first, 2), "run_s": round(statistics.median(seconds), 4)}


def about(options: Any) -> dict[str, Any]:
    """Returns the circumstances of the figures: date, machine, versions, load."""
    names = ("onnxruntime", "iree-base-compiler", "onnx", "numpy")
    versions: dict[str, str] = {}
    for name in names:
        with contextlib.suppress(PackageNotFoundError):
            versions[name] = version(name)
    facts: dict[str, Any] = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="minutes"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "load": [round(load, 1) for load in os.getloadavg()],
        "python": platform.python_version(),
        "versions": versions,
        "target": options.target,
        "shader_cache": "off" if os.environ.get("MESA_SHADER_CACHE_DISABLE") else "on",
    }
    if "vulkan" in options.devices:
        from xdsl_spirv.runtime.vulkan.worker import open_isolated

        with open_isolated("vulkan") as device:
            info = device.info
            facts["device"] = f"{info.name}, {info.driver} {info.driver_version}"
    return facts


def in_a_process(case: str, options: Any) -> dict[str, Any]:
    name, _, variant = case.partition(".")
    with tempfile.TemporaryDirectory(prefix="xdsl-spirv-model-") as folder:
        out = Path(folder, "figures.json")
        command = [*python_command(), __file__, "--case", case, "--json", str(out)]
        command += ["--devices", options.devices, "--target", options.target]
        if options.iree:
            command.append("--iree")
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            return {"model": name, "variant": variant, "error": f"more than {TIMEOUT} s"}
        if not out.exists():
            last = [line for line in done.stderr.splitlines() if line.strip()] or ["crashed"]
            return {"model": name, "variant": variant, "error": last[-1][:400]}
        return json.loads(out.read_text())


def one_case(case: str, options: Any) -> int:
    name, _, variant = case.partition(".")
    model = next(model_case for model_case in MODELS if model_case.name == name)
    devices = options.devices.split(",")
    figures = measure(model, variant, devices, options.target, options.iree)
    figures["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    Path(options.json).write_text(json.dumps(figures))
    return 0


def cases(options: Any) -> list[str]:
    """Returns the requested cases that can run. Prints the reason for each other case."""
    wanted = set(options.only.split(",")) if options.only else None
    names: list[str] = []
    for model in MODELS:
        absent = model.missing()
        for variant in model.variants:
            case = f"{model.name}.{variant}"
            if wanted is not None and not {model.name, case} & wanted:
                continue
            if variant not in options.variants.split(","):
                continue
            needed = absent or missing(variant)
            if needed is not None:
                print(f"{case}: left out, pip install --no-deps {needed}", file=sys.stderr)
                continue
            names.append(case)
    return names


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a line for each case. Returns 1 if a case fails or exceeds its tolerance."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[1])
    parser.add_argument("--only", help="models, or cases as minilm.f16, separated by commas")
    parser.add_argument("--variants", default=",".join(VARIANTS), help="separated by commas")
    parser.add_argument("--devices", default="interpreter", help="program: compile only")
    parser.add_argument("--target", default="lavapipe", help="what to compile for")
    parser.add_argument("--iree", action="store_true", help="the same with IREE")
    parser.add_argument("--json", help="where to write the figures")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.case:
        return one_case(options.case, options)
    rows: list[dict[str, Any]] = []
    report: dict[str, Any] = {"about": about(options), "rows": rows}
    for case in cases(options):
        load = os.getloadavg()[0]
        rows.append(in_a_process(case, options) | {"load": round(load, 1)})
        print(json.dumps(rows[-1]), flush=True)
        if options.json:
            Path(options.json).write_text(json.dumps(report, indent=1) + "\n")
    ran = [device for row in rows for device in row.get("devices", {}).values()]
    right = all(record["passed"] or record["within_spread"] for record in ran)
    return 0 if right and not any("error" in row for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
