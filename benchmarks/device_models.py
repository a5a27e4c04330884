"""
Runs models on a device of another machine, after compiling them here, and times PyTorch there.

    python benchmarks/device_models.py prepare DIR [--target nvidia-h200] [--only CASES]
    python benchmarks/device_models.py run DIR [--device vulkan] [-o FILE]

`prepare` needs the models' packages, the importer and onnxruntime. It writes the programs and
onnxruntime's results to DIR. `run` needs numpy and a device. For PyTorch's times it also needs
onnx2torch (transformers for MiniLM, with random weights). The cases are those of `models.py`
(`magika.f16`, for example) and two with sizes that fill a GPU: `ppocr_cls64` with 64 lines of
text, every second one upside down, and `minilm32` with 32 sentences of 128 tokens.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

import minilm
from device_runs import CUDA, WARM_UP, torch, torch_median
from model_variants import half, variant_of
from model_zoo import MODELS, TEXTS, Model, line

from xdsl_spirv.runtime.program import Program
from xdsl_spirv.runtime.vulkan import open_isolated

CASES = (
    *("ppocr_cls.f32", "ppocr_cls.f16", "ppocr_cls.tensor", "ppocr_cls.channel"),
    *("ppocr_cls64.f32", "ppocr_cls64.f16", "ppocr_cls64.channel"),
    *("magika.f32", "magika.f16", "magika.tensor"),
    *("minilm.f32", "minilm.f16", "minilm.tensor", "minilm.channel"),
    *("minilm32.f32", "minilm32.f16"),
)

REPEAT = 20
"""Number of runs for the median of the wall-clock time."""

LARGEST = 8 << 20
"""Largest ONNX model in bytes that `prepare` stores for PyTorch."""


def lines() -> Any:
    images = [line(f"{TEXTS[n % len(TEXTS)]} {n}") for n in range(64)]
    turned = [image[:, :, ::-1, ::-1] if n % 2 else image for n, image in enumerate(images)]
    return np.concatenate(turned)


def orientations(results: Mapping[str, Any]) -> str:
    """Describes the number of lines that are upside down."""
    (scores,) = results.values()
    return f"{int(scores.argmax(1).sum())} of {len(scores)} upside down"


def model_of(name: str) -> Model:
    """Returns a model of the zoo, or the orientation classifier with a batch of 64."""
    listed = next(model for model in MODELS if model.name == name.removesuffix("64"))
    if not name.endswith("64"):
        return listed
    return dataclasses.replace(
        listed,
        name=name,
        inputs=lambda: {"x": lines()},
        meaning=orientations,
        calibration=lambda: [{"x": lines()[::-1].copy()}],
    )


def source_of(case: str) -> tuple[Any, dict[str, Any], Callable[[Mapping[str, Any]], str]]:
    """Returns a case's ONNX model, its inputs and a function that describes its results."""
    name, variant = case.split(".")
    if name != "minilm32":
        model = model_of(name)
        return variant_of(model, variant), model.inputs(), model.meaning
    proto = minilm.build(32, 128)
    known = minilm.SENTENCES
    inputs = minilm.tokens([known[n % len(known)] for n in range(32)], 128)
    same_meaning = model_of("minilm").meaning
    return half(proto, ()) if variant == "f16" else proto, inputs, same_meaning


def prepare(case: str, folder: Path, target: str) -> str:
    """Compiles a case into a folder, with its inputs and onnxruntime's results."""
    from xdsl_spirv.compare.onnxruntime import run_onnxruntime, tolerance_of
    from xdsl_spirv.compiler.model import compile_model
    from xdsl_spirv.frontends import import_onnx

    proto, inputs, meaning = source_of(case)
    serialized = proto.SerializeToString()
    imported = import_onnx(proto)
    tolerance = tolerance_of(imported.module)
    program = compile_model(imported, target)
    program.save(folder / case)
    reference = run_onnxruntime(serialized, inputs, program.manifest.results)
    arrays = {f"in.{name}": value for name, value in inputs.items()}
    arrays |= {f"out.{name}": np.asarray(value) for name, value in reference.results.items()}
    np.savez_compressed(folder / f"{case}.npz", **arrays)  # pyright: ignore[reportArgumentType]
    if len(serialized) < LARGEST:
        (folder / f"{case}.onnx").write_bytes(serialized)
    about = {
        "tolerance": tolerance.relative,
        "derived": str(tolerance),
        "means": meaning(reference.results),
        "onnxruntime_s": reference.seconds,
    }
    (folder / f"{case}.json").write_text(json.dumps(about))
    return f"{case}: {len(program.manifest.dispatches)} dispatches, {len(program.code)} kernels"


def run(case: str, folder: Path, device: Any) -> dict[str, Any]:
    """Runs a prepared case, compares its results and times the device (GPU and wall-clock ms)."""
    program = Program.load(folder / case)
    arrays = np.load(folder / f"{case}.npz")
    inputs = {name[3:]: arrays[name] for name in arrays.files if name.startswith("in.")}
    about = json.loads((folder / f"{case}.json").read_text())
    start = time.perf_counter()
    results = device.execute(program, inputs)
    record: dict[str, Any] = {"case": case, "first_s": round(time.perf_counter() - start, 3)}
    walls: list[float] = []
    for _ in range(REPEAT):
        start = time.perf_counter()
        device.execute(program, inputs)
        walls.append(time.perf_counter() - start)
    times = device.times(program, 11, WARM_UP)
    # Dispatches that depend only on weights run when a program is loaded, not in every run.
    dispatches = program.manifest.dispatches
    every = [time for time, of in zip(times, dispatches, strict=True) if not of.once]
    slowest = sorted(every, key=lambda timing: -timing.median)[:6]
    record |= {
        "dispatches": len(every),
        "once": len(times) - len(every),
        "kernels": len(program.code),
        "gpu_ms": round(sum(timing.median for timing in every) / 1e6, 4),
        "wall_ms": round(statistics.median(walls) * 1e3, 3),
        "slowest_us": [(timing.entry_point, round(timing.median / 1e3, 1)) for timing in slowest],
        "results": {},
    }
    for name, result in results.items():
        wanted = arrays[f"out.{name}"].astype(np.float64)
        largest = float(np.abs(wanted).max())
        error = float(np.abs(result.astype(np.float64) - wanted).max())
        norms = np.linalg.norm(result.astype(np.float64)) * np.linalg.norm(wanted)
        record["results"][name] = {
            "max_abs": error,
            "largest": largest,
            "cosine": float(result.ravel().astype(np.float64) @ wanted.ravel() / norms),
            "passed": bool(error <= about["tolerance"] * largest),
        }
    record["ok"] = all(timing["passed"] for timing in record["results"].values())
    return record | about


def torch_times(case: str, folder: Path) -> dict[str, Any]:
    """Returns PyTorch's eager times in milliseconds by CUDA events, without transfers."""
    if not CUDA or case.rpartition(".")[2] not in ("f32", "f16"):
        return {}
    try:
        call = _bert(case) if case.startswith("minilm") else _converted(case, folder)
    except (
        Exception
    ) as error:  # A converter may raise any exception. The record contains the message.
        return {"torch_error": f"{type(error).__name__}: {error}"[:300]}
    if call is None:
        return {}
    with torch.no_grad():
        median = torch_median(torch, call)
    return {"torch_ms": round(median, 4), "torch": torch.__version__}


def _bert(case: str) -> Callable[[], Any]:
    transformers = import_module("transformers")
    config = transformers.BertConfig(
        hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536
    )
    model = transformers.BertModel(config).cuda().eval()
    model = model.half() if case.endswith("f16") else model
    size = (32, 128) if case.startswith("minilm32") else (4, 16)
    tokens = torch.randint(0, 30000, size).cuda()
    mask = torch.ones_like(tokens)
    return lambda: model(input_ids=tokens, attention_mask=mask)


def _converted(case: str, folder: Path) -> Callable[[], Any] | None:
    name, variant = case.split(".")
    path = folder / f"{name}.f32.onnx"
    if not path.exists():
        return None
    model = import_module("onnx2torch").convert(str(path)).cuda().eval()
    arrays = np.load(folder / f"{name}.f32.npz")
    given = [torch.from_numpy(arrays[n]).cuda() for n in arrays.files if n.startswith("in.")]
    wanted = [arrays[n] for n in arrays.files if n.startswith("out.")]
    with torch.no_grad():
        outputs = model(*given)
    outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
    for one, other in zip(outputs, wanted, strict=True):
        if not np.allclose(one.cpu().numpy(), other, rtol=1e-2, atol=1e-2):
            raise ValueError("PyTorch's results differ from onnxruntime's")
    if variant == "f16":
        model = model.half()
        given = [tensor.half() if tensor.is_floating_point() else tensor for tensor in given]
    return lambda: model(*given)


def _write(path: Path, target: str, device: str, records: Sequence[Any]) -> None:
    document = {
        "what": "ONNX models compiled for the target and run through Vulkan, compared with "
        "onnxruntime on a CPU; gpu_ms is the sum of the medians of the dispatches of every run, "
        "wall_ms the median of whole runs with inputs and outputs moved, first_s the first run "
        "with pipelines made; torch_ms is PyTorch eager by CUDA events, without transfers",
        "date": datetime.date.today().isoformat(),
        "target": target,
        "device": device,
        "records": list(records),
    }
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
        json.dump(document, file, indent=1)
    Path(file.name).replace(path)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", 1)[0])
    parser.add_argument("action", choices=("prepare", "run"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--target", default="nvidia-h200", help="what to compile for")
    parser.add_argument("--device", default="vulkan", help="where to run")
    parser.add_argument("--only", default="", help="cases, separated by commas")
    parser.add_argument("-o", "--output", type=Path, help="where to write the figures")
    options = parser.parse_args()
    chosen = [named for named in options.only.split(",") if named] or CASES
    folder: Path = options.folder
    if options.action == "prepare":
        folder.mkdir(parents=True, exist_ok=True)
        for case in chosen:
            print(prepare(case, folder, options.target), flush=True)
        return 0
    records: list[dict[str, Any]] = []
    for case in (named for named in chosen if (folder / named).is_dir()):
        device = open_isolated(options.device)
        try:
            record = run(case, folder, device) | torch_times(case, folder)
        except (ValueError, RuntimeError) as error:
            record = {"case": case, "ok": False, "error": f"{type(error).__name__}: {error}"[:500]}
        name = device.info.name
        device.close()
        records.append(record)
        print(json.dumps(record), flush=True)
        if options.output is not None:
            _write(options.output, options.target, name, records)
    return 0 if records and all(record["ok"] for record in records) else 1


if __name__ == "__main__":
    sys.exit(main())
