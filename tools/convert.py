"""
Implements `xdsl-spirv convert`: converts an ONNX model to f16 or 8 bits, and measures how the
results change.

onnxconverter-common and onnxruntime convert the model. Before the converted model is written, its
results are compared with the original's, on the samples of `--calibration` or on random inputs.
The original runs on onnxruntime. The converted model runs on the reference executor, which rounds
like devices.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np

from xdsl_spirv.compiler.model import run_reference
from xdsl_spirv.frontends import import_onnx
from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.frontends.onnx_file import (
    Model,
    element_type,
    fix_dimensions,
    inputs_of,
    read_model,
    shape_of,
)
from xdsl_spirv.progress import noted, stage
from xdsl_spirv.runtime.elements import Array, dtype_of
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.tools.arrays import NO_ARRAYS, dims_of
from xdsl_spirv.tools.output import write
from xdsl_spirv.tools.report import note, note_row

SAMPLES = 2
"""Number of random inputs to compare if no samples are given."""

MOST_BYTES = (1 << 31) - 1
"""Largest size of a model's file, in bytes (the limit of protobuf)."""

OPSET_WITH_AXES, OPSET = 13, 17
"""First ONNX opset with a scale per channel, and the opset to which older models are converted."""

Sample = Mapping[str, Array]


def convert(arguments: argparse.Namespace) -> int:
    """Runs `xdsl-spirv convert`."""
    path: str = arguments.input
    read_model(path)  # Raises an error for a malformed file.
    samples = _samples(arguments)
    original = _module("onnx", "onnx").load(path)
    with tempfile.TemporaryDirectory(prefix="xdsl-spirv-") as name:
        folder = Path(name)
        if arguments.to == "f16":
            converted = _to_f16(original, keep_types=not arguments.all)
        else:
            converted = _to_int8(arguments, samples, folder)
        data = _bytes(converted, path)
        lines = _compare_results(path, converted, samples)
    write(arguments.output, data)
    before = Path(path).stat().st_size
    print(f"{arguments.output}: {len(data):,} bytes, {before:,} before")
    note(output=arguments.output, bytes=len(data), bytes_before=before)
    for line in lines:
        print(line)
    return 0


def _module(name: str, package: str) -> Any:
    try:
        with stage(f"loading {package}"):
            return import_module(name)
    except ImportError as error:
        raise ProgramError(
            f"{package} is not installed", "xdsl-spirv convert", f"pip install {package}"
        ) from error


# Samples


def _samples(arguments: argparse.Namespace) -> list[Sample]:
    if arguments.calibration is None:
        if arguments.to == "int8" and not arguments.dynamic:
            raise ProgramError(
                "the conversion to 8 bits needs samples of the model's inputs",
                "--to int8",
                "give --calibration DIR with inputs as .npz files, or --dynamic for only weights",
            )
        return _random(arguments)
    if arguments.dynamic:
        raise ProgramError(
            "--dynamic converts only weights, without samples",
            "--dynamic",
            "leave out --dynamic or --calibration",
        )
    folder = Path(arguments.calibration)
    files = sorted(folder.glob("*.npz"))
    if not files:
        raise ProgramError(
            "the folder has no .npz files",
            str(folder),
            "give a folder with one .npz file for each run",
        )
    names = {value.name for value in inputs_of(read_model(arguments.input)[0])}
    samples: list[Sample] = []
    for file in files:
        try:
            with np.load(file, allow_pickle=False) as held:
                sample = {name: held[name] for name in held.files}
        except (OSError, *NO_ARRAYS) as error:
            raise ProgramError(
                f"cannot read the sample: {error}", str(file), "write it with numpy.savez"
            ) from error
        if sample.keys() != names:
            raise ProgramError(
                f"the sample contains {', '.join(sample) or 'no arrays'}",
                str(file),
                f"give all inputs by name: {', '.join(sorted(names))}",
            )
        samples.append(sample)
    return samples


def _random(arguments: argparse.Namespace) -> list[Sample]:
    model, _ = read_model(arguments.input)
    fix_dimensions(model, dims_of(arguments))
    generator = np.random.default_rng(0)
    samples: list[Sample] = []
    for _ in range(SAMPLES):
        sample: dict[str, Array] = {}
        for value in inputs_of(model):
            shape, dtype = shape_of(value), dtype_of(element_type(value))
            if any(size < 1 for size in shape):
                raise FrontendError(
                    f"the input {value.name!r} has dynamic sizes", "", "give --dim NAME=SIZE"
                )
            if dtype.kind == "f":
                sample[value.name] = generator.uniform(-1, 1, shape).astype(dtype)
            else:
                sample[value.name] = generator.integers(0, 2, shape).astype(dtype)
        samples.append(sample)
    return samples


# Converters


@stage("converting to f16")
def _to_f16(model: Model, *, keep_types: bool) -> Model:
    float16 = _module("onnxconverter_common.float16", "onnxconverter-common")
    try:
        with catch_warnings():  # one for each number that f16 rounds
            simplefilter("ignore")
            return float16.convert_float_to_float16(model, keep_io_types=keep_types)
    except Exception as error:
        raise ProgramError(
            f"onnxconverter-common cannot convert the model: {_first_line(error)}",
            "--to f16",
            "use the model in f32",
        ) from error


class _Reader:
    """Iterates over samples, as onnxruntime's calibration requires."""

    def __init__(self, samples: Sequence[Sample]):
        self.samples = iter(samples)

    def get_next(self) -> Sample | None:
        return next(self.samples, None)


@stage("quantizing to int8")
def _to_int8(arguments: argparse.Namespace, samples: Sequence[Sample], folder: Path) -> Model:
    quantization = _module("onnxruntime.quantization", "onnxruntime")
    types = quantization.QuantType
    target = folder / "int8.onnx"
    try:
        if arguments.dynamic:
            quantization.quantize_dynamic(
                arguments.input, target, per_channel=True, weight_type=types.QInt8
            )
        else:
            prepared = folder / "prepared.onnx"
            newer = _of_an_opset_with_axes(arguments.input, folder)
            quantization.quant_pre_process(newer, prepared, skip_symbolic_shape=True)
            quantization.quantize_static(
                prepared,
                target,
                _Reader(samples),
                quant_format=quantization.QuantFormat.QDQ,
                per_channel=True,
                activation_type=types.QUInt8,
                weight_type=types.QInt8,
            )
    except Exception as error:
        raise ProgramError(
            f"onnxruntime cannot quantize the model: {_first_line(error)}",
            arguments.input,
            "use the model in f32, or --to f16",
        ) from error
    return _module("onnx", "onnx").load(target)


def _of_an_opset_with_axes(path: str, folder: Path) -> str:
    """Converts an older model to `OPSET`, because opsets before 13 have one scale per tensor."""
    onnx = _module("onnx", "onnx")
    model = onnx.load(path)
    versions = [entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")]
    if not versions or versions[0] >= OPSET_WITH_AXES:
        return path
    from onnx import version_converter

    newer = str(folder / "newer.onnx")
    onnx.save(version_converter.convert_version(model, OPSET), newer)
    return newer


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _bytes(model: Model, path: str) -> bytes:
    if model.ByteSize() > MOST_BYTES:
        raise ProgramError(
            f"the converted model has more than {MOST_BYTES} bytes, the limit of an ONNX file",
            path,
            "convert a smaller model",
        )
    return model.SerializeToString()


# Comparison


def _compare_results(path: str, converted: Model, samples: Sequence[Sample]) -> list[str]:
    """
    Compares the converted model with the model at `path`, on samples. Returns a line for the
    largest change of each result. Refuses infinity and NaN.
    """
    runtime = _module("onnxruntime", "onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    session = runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    worst: dict[str, tuple[float, float]] = {}
    for sample in noted("comparing samples", samples, lambda _: ""):
        wanted = session.run(None, dict(sample))
        results = _ours(converted, sample)
        for output, expected in zip(session.get_outputs(), wanted, strict=True):
            error, cosine = _distance(output.name, np.asarray(expected), results[output.name])
            known = worst.get(output.name, (0.0, 1.0))
            worst[output.name] = max(known[0], error), min(known[1], cosine)
    width = max(map(len, worst))
    for name, (error, cosine) in worst.items():
        note_row("results", {"name": name, "largest_difference": error, "cosine": cosine})
    return [
        f"output {name:{width}}  largest difference {error:.2g} of the largest element, "
        f"cosine {cosine:.6f}"
        for name, (error, cosine) in worst.items()
    ]


def _ours(model: Model, sample: Sample) -> dict[str, Array]:
    """
    Computes the converted model's results, with each tensor rounded to its type like on a device.

    onnxruntime is not used, because it computes in f32 if a result in f16 overflows.
    """
    shapes = {name: array.shape for name, array in sample.items()}
    copy = type(model)()
    copy.CopyFrom(model)
    types = {value.name: dtype_of(element_type(value)) for value in inputs_of(copy)}
    imported = import_onnx(copy, shapes=shapes)
    with np.errstate(over="ignore"):
        given = {name: array.astype(types[name]) for name, array in sample.items()}
    return run_reference(imported, given)


def _distance(name: str, wanted: Array, got: Array) -> tuple[float, float]:
    a, b = wanted.astype(np.float64).reshape(-1), got.astype(np.float64).reshape(-1)
    if np.isfinite(a).all() and not np.isfinite(b).all():
        raise ProgramError(
            f"the converted model's result {name!r} is not finite",
            "its values exceed the range of the type",
            "convert a model whose layers are normalized, or use the model in f32",
        )
    largest, lengths = np.abs(a).max(initial=0.0), np.linalg.norm(a) * np.linalg.norm(b)
    cosine = float(a @ b / lengths) if lengths else 1.0
    return float(np.abs(a - b).max(initial=0.0) / (largest or 1.0)), cosine
