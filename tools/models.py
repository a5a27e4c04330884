"""Implements `compile` and `run` for models: imports, compiles, runs, and prints summaries."""

from __future__ import annotations

import argparse
import errno
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from xdsl_spirv.compare.onnxruntime import (
    Tolerance,
    differences,
    has_onnxruntime,
    run_onnxruntime,
    tolerance_of,
)
from xdsl_spirv.compiler import kept
from xdsl_spirv.compiler.model import Shapes, buffers_of, compile_model, load_model, run_reference
from xdsl_spirv.frontends import is_onnx
from xdsl_spirv.frontends.model import ImportedModel
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.given import DEVICES
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.speech import counted, did_you_mean
from xdsl_spirv.targets import load
from xdsl_spirv.tools.arrays import (
    constants_of,
    dims_of,
    read_array,
    read_inputs,
    states_of,
    write_results,
)
from xdsl_spirv.tools.listing import list_model, list_onnx, list_program
from xdsl_spirv.tools.media import is_media
from xdsl_spirv.tools.options import functions_of, jobs_of, limits_of
from xdsl_spirv.tools.report import note
from xdsl_spirv.tools.running import INTERPRETER, execute_checked, limited
from xdsl_spirv.tools.tracing import tracing

if TYPE_CHECKING:
    from xdsl_spirv.compiler.kernel_jobs import Observer

WORTH_KEEPING = 1.0
"""Minimum seconds of a compilation whose program is cached."""
COMPILED_BY = ("dims", "constants", "states", "context", "function", "functions")
"""Options that affect the compiled program, besides the model's file, target and limits."""

REFERENCE = "reference"
"""Name of a device that runs the imported model without compiling, on whole arrays."""


def read_model(
    arguments: argparse.Namespace, path: str, shapes: Shapes | None = None
) -> ImportedModel:
    """Imports the model of a command, and prints a summary."""
    start = time.perf_counter()
    model = load_model(
        path,
        dims_of(arguments),
        shapes,
        getattr(arguments, "function", None),
        getattr(arguments, "weights", None),
        constants_of(arguments),
        getattr(arguments, "context", None),
        states_of(arguments),
        functions_of(arguments),
        getattr(arguments, "target", None),
    )
    seconds = time.perf_counter() - start
    size = sum(array.nbytes for array in model.weights.values())
    nodes = f"{len(model.nodes)} nodes, " if model.nodes else ""
    print(f"imported in {seconds:.2f} s: {nodes}{len(model.weights)} weights of {size:,} bytes")
    return model


def compile_to(
    model: ImportedModel, arguments: argparse.Namespace, observe: Observer | None = None
) -> Program:
    """Compiles a model, or reads the program from the cache, and prints a summary."""
    start = time.perf_counter()
    path = None if observe or arguments.no_cache else _kept_path(model, arguments)
    program = kept.load(path)
    how = "read from the cache"
    if program is None:
        how = "compiled"
        program = compile_model(
            model,
            arguments.target,
            limits=limits_of(arguments),
            observe=observe,
            jobs=jobs_of(arguments),
        )
        if time.perf_counter() - start > WORTH_KEEPING:
            kept.keep(path, program)
    seconds = time.perf_counter() - start
    manifest = program.manifest
    functions = (manifest, *manifest.functions)
    dispatches = [dispatch for function in functions for dispatch in function.dispatches]
    kernels = {(d.kernel, d.entry_point) for d in dispatches}
    size = sum(len(code.binary) for code in program.code.values())
    paths = Counter(layer.path for layer in program.layers)
    buffers = [buffer for function in functions for buffer in function.buffers]
    temporaries = sum(b.bytes for b in buffers if b.kind == "temporary" and not b.is_dynamic)
    peak = max(function.memory or 0 for function in functions)
    states = {b.name: b.bytes for b in buffers if b.kind == "state"}
    note(target=manifest.target, dispatches=len(dispatches), kernels=len(kernels), paths=paths)
    note(spirv_bytes=size, memory_bytes=peak, temporary_bytes=temporaries, seconds=seconds)
    print(
        f"{how} for {manifest.target} in {seconds:.2f} s: "
        f"{counted(len(dispatches), 'dispatch')} "
        f"({', '.join(f'{count} {path}' for path, count in paths.most_common())}) of "
        f"{counted(len(kernels), 'kernel')}, {size:,} bytes of SPIR-V; temporaries take "
        f"{peak:,} bytes at the peak, {temporaries:,} in sum"
        + (f"; {len(states)} states of {sum(states.values()):,} bytes" if states else "")
    )
    return program


def _kept_path(model: ImportedModel, arguments: argparse.Namespace) -> Path | None:
    """Returns the path of a program in the cache, or None if caching is disabled."""
    file = getattr(arguments, "program", None) or arguments.input
    named = vars(arguments)
    options = {
        "interface": [*map(str, model.inputs), "", *map(str, model.outputs)],
        "limits": str(limits_of(arguments)),
        **{key: str(named.get(key)) for key in COMPILED_BY},
    }
    files = [named["weights"]] if named.get("weights") else []
    for constant in named.get("constants") or ():
        value = constant.partition("=")[2]
        files += [value] if Path(value).is_file() else []
    if is_onnx(file):
        from xdsl_spirv.frontends.onnx_file import external_files

        files += external_files(file)
    return kept.path_for(file, arguments.target, options, files)


def compile(arguments: argparse.Namespace) -> Program:
    """Runs `xdsl-spirv compile` for a model. Writes the program and returns it."""
    model = read_model(arguments, arguments.input)
    with tracing(arguments.trace_passes, arguments.input) as trace:
        observe = trace and trace.observe
        program = compile_to(model, arguments, observe)
    program.save(arguments.output, arguments.text)
    return program


def run(arguments: argparse.Namespace) -> int:
    """Runs `xdsl-spirv run` for a model. Returns 1 if a result exceeds its tolerance."""
    path = arguments.program
    if not Path(path).is_file():
        missing = FileNotFoundError(errno.ENOENT, "the file does not exist", path)
        raise ProgramError(
            "cannot read the model: the file does not exist", path, "correct the file name"
        ) from missing
    if arguments.list:
        arguments.input = path
        return list_values(arguments)
    refuse_unknown(arguments)
    model = read_model(arguments, path, given_shapes(arguments))
    if not arguments.inputs and arguments.random is None:
        arguments.random = 0
        print("inputs: random, seed 0 (give --input NAME=x.npy for others)")
    inputs = read_inputs(arguments, buffers_of(model))
    missing = [value for value in model.inputs if value.name not in inputs]
    if missing:
        raise ProgramError(
            f"the input {missing[0].name!r} is missing",
            ", ".join(map(str, model.inputs)),
            f"give --input {missing[0].name}=x.npy, or --random SEED",
        )
    if arguments.compare_layers:
        from xdsl_spirv.tools.layerwise import compare as compare_layers

        program = compile_to(model, arguments)
        theirs = None
        if is_onnx(path) and not arguments.no_compare and has_onnxruntime():
            from xdsl_spirv.compare.onnx_layers import onnxruntime_values

            given = {**inputs, **onnx_constants(arguments, path)}
            theirs = onnxruntime_values(path, given, model.nodes, program.layers)
        return compare_layers(program, inputs, arguments, theirs)
    compared = is_onnx(path) and not arguments.no_compare
    tolerance = tolerance_of(model.module) if compared else None
    results, sound = results_of(arguments, model, inputs)
    if tolerance is not None:
        given = {**inputs, **onnx_constants(arguments, path)}
        sound &= compare(path, given, results, tolerance) == 0
    return 0 if sound else 1


def onnx_constants(arguments: argparse.Namespace, path: str) -> dict[str, Array]:
    """Returns the inputs that `--constant` fixes, in the file's types, for onnxruntime."""
    from xdsl_spirv.frontends.onnx_file import as_inputs, read_model

    constants = constants_of(arguments)
    return dict(as_inputs(read_model(path)[0], constants)) if constants else {}


def refuse_unknown(arguments: argparse.Namespace) -> None:
    """Raises `ProgramError` for an unknown device, target or limit."""
    limits_of(arguments)
    jobs_of(arguments)
    if arguments.device == REFERENCE and (arguments.check or arguments.sanitize):
        raise ProgramError(
            "the reference runs no kernels that can be checked",
            "--device reference",
            "leave out --device, or the checks",
        )
    kind = (arguments.device or INTERPRETER).partition(":")[0]
    known = (INTERPRETER, REFERENCE, "vulkan")
    if kind not in known:
        raise ProgramError(
            f"there is no device {arguments.device!r}",
            "",
            did_you_mean(arguments.device, known, f"use one of {', '.join((*DEVICES, REFERENCE))}"),
        )
    if not arguments.target:
        # Loads the Vulkan layer only if no target is named.
        from xdsl_spirv.runtime.vulkan.own_target import own_target

        arguments.target = own_target(arguments.device)
    load(arguments.target)


def given_shapes(arguments: argparse.Namespace) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of the `--input` arrays, to which the model's dynamic sizes are fixed."""
    shapes: dict[str, tuple[int, ...]] = {}
    for text in arguments.inputs:
        name, equals, path = text.partition("=")
        if equals and not path.isdecimal() and not is_media(path):
            shapes[name] = read_array(path, name).shape
    return shapes


def results_of(
    arguments: argparse.Namespace, model: ImportedModel, inputs: Mapping[str, Array]
) -> tuple[dict[str, Array], bool]:
    """
    Runs a model, and compiles it first unless the device is the reference.

    Returns the results, and False if a check failed.
    """
    if arguments.device == REFERENCE:
        start = time.perf_counter()
        with limited(arguments):
            results = run_reference(model, inputs)
        print(f"run on the reference in {time.perf_counter() - start:.2f} s")
        write_results(arguments.output, results)
        return results, True
    program = compile_to(model, arguments)
    start = time.perf_counter()
    results, sound = execute_checked(program, inputs, arguments)
    print(f"run in {time.perf_counter() - start:.2f} s")
    return results, sound


def compare(
    path: str, inputs: Mapping[str, Array], results: Mapping[str, Array], tolerance: Tolerance
) -> int:
    """Compares results with onnxruntime's, if it is installed. Returns the exit status."""
    if not has_onnxruntime():
        print("not compared: onnxruntime is not installed (pip install onnxruntime)")
        return 0
    expected = run_onnxruntime(path, inputs, list(results))
    print(f"compared with {expected.how} ({expected.seconds:.3f} s), tolerance {tolerance}")
    differing = differences(results, expected.results, tolerance)
    note(compared_with=expected.how, comparisons=differing)
    for difference in differing:
        print(difference)
    return 0 if all(difference.passed for difference in differing) else 1


def list_values(arguments: argparse.Namespace) -> int:
    """Prints the inputs and outputs of `explain`'s program or model. Returns the exit status."""
    if Path(arguments.input).is_dir():
        return list_program(Program.load(arguments.input))
    if is_onnx(arguments.input):
        return list_onnx(arguments.input, dims_of(arguments))
    return list_model(read_model(arguments, arguments.input, given_shapes(arguments)))
