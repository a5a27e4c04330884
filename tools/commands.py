"""
What each subcommand does: read, call the library, write whole files or nothing.
"""

from __future__ import annotations

import argparse
import io
import math
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from xdsl_spirv.runtime.compiler import compile_module, context, parse, verify
from xdsl_spirv.runtime.elements import Array, dtype_of
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.program import Buffer, Program
from xdsl_spirv.runtime.weights import argument_name, load_weights
from xdsl_spirv.serialization.files import write_atomically


def compile(arguments: argparse.Namespace) -> int:
    """`xdsl-spirv compile`."""
    weights = load_weights(Path(arguments.weights)) if arguments.weights else None
    program = compile_module(arguments.input, arguments.target, arguments.function, weights)
    program.save(arguments.output)
    for dispatch in program.manifest.dispatches:
        size = len(program.code[dispatch.kernel].binary)
        grid = "x".join(map(str, dispatch.grid))
        print(
            f"{dispatch.kernel}.{dispatch.entry_point}: {grid} workgroups, {size} bytes of SPIR-V"
        )
    return 0


def run(arguments: argparse.Namespace) -> int:
    """`xdsl-spirv run`: exit status 1 if a result is beyond its bound."""
    from xdsl_spirv.runtime.execution import run as run_program

    program = Program.load(arguments.program)
    inputs = _inputs(arguments, program.manifest.inputs)
    results = run_program(program, inputs, arguments.device)
    comparisons = []
    if arguments.check:
        from xdsl_spirv.runtime.check import check

        comparisons = check(program, inputs, results)
    _output(arguments.output, results)
    for comparison in comparisons:
        print(comparison)
    return 0 if all(comparison.passed for comparison in comparisons) else 1


def translate(arguments: argparse.Namespace) -> int:
    """`xdsl-spirv translate`."""
    from xdsl_spirv.serialization.encoder import encode
    from xdsl_spirv.serialization.target import find_module

    module = _lowered(arguments.input, arguments.passes, context())
    chosen = find_module(module, arguments.module)
    _write(arguments.output, encode(chosen, names=arguments.names, lines=arguments.lines))
    return 0


def interpret(arguments: argparse.Namespace) -> int:
    """`xdsl-spirv interpret`."""
    from xdsl.dialects.builtin import TensorType

    from xdsl_spirv.interpreter import interpret as run_module
    from xdsl_spirv.runtime.host import host_function

    module = _lowered(arguments.input, arguments.passes, context())
    function = host_function(module, arguments.function)
    buffers: list[Buffer] = []
    for i, argument in enumerate(function.body.block.args):
        name, type = argument_name(argument, i), argument.type
        if not isinstance(type, TensorType) or -1 in type.get_shape():
            raise ProgramError(f"{name!r} is of type {type}", "", "use tensors of static shape")
        buffers.append(Buffer(name, "input", str(type.element_type), type.get_shape()))
    inputs = _inputs(arguments, buffers)
    missing = [b for b in buffers if b.name not in inputs]
    if missing:
        raise ProgramError(
            f"the input {missing[0].name!r} is missing",
            ", ".join(f"{b.name}: {b}" for b in buffers),
            f"give --input {missing[0].name}=x.npy, or --random SEED",
        )
    results = run_module(
        module,
        [inputs[b.name] for b in buffers],
        function.sym_name.data,
        subgroup_size=arguments.subgroup_size,
    )
    _output(arguments.output, {f"result{i}": result for i, result in enumerate(results)})
    return 0


def _lowered(path: str, pipeline: str, ctx: Context) -> ModuleOp:
    """The module of an MLIR file after a pass pipeline."""
    module = parse(path, ctx)
    if pipeline:
        from xdsl.passes import PassPipeline
        from xdsl.universe import Universe

        passes = Universe.get_multiverse().all_passes
        PassPipeline.parse_spec(passes, pipeline).apply(ctx, module)
        verify(module)
    return module


def _inputs(arguments: argparse.Namespace, buffers: Iterable[Buffer]) -> dict[str, Array]:
    """The arrays of `--input`, checked, and random ones for the rest if asked for."""
    expected = {buffer.name: buffer for buffer in buffers}
    wanted = ", ".join(f"{name}: {buffer}" for name, buffer in expected.items()) or "none"
    inputs: dict[str, Array] = {}
    for text in arguments.input:
        name, equals, path = text.partition("=")
        if not equals:
            raise ProgramError(f"--input {text} has no file", "", "write --input NAME=x.npy")
        if name not in expected:
            raise ProgramError(f"there is no input {name!r}", f"inputs: {wanted}", "rename it")
        inputs[name] = expected[name].accept(_read_array(path))
    if arguments.random is not None:
        generator = np.random.default_rng(arguments.random)
        for name, buffer in expected.items():
            inputs.setdefault(name, _random(generator, buffer))
    return inputs


def _random(generator: np.random.Generator, buffer: Buffer) -> Array:
    dtype = dtype_of(buffer.type)
    if dtype.kind in "iu":
        return generator.integers(-8 if dtype.kind == "i" else 0, 8, buffer.shape).astype(dtype)
    return generator.uniform(-1, 1, buffer.shape).astype(dtype)


def _read_array(path: str) -> Array:
    try:
        loaded = np.load(path, allow_pickle=False)
    except OSError as error:
        raise ProgramError(
            f"cannot read the input: {error.strerror or error}", path, "give a .npy file"
        ) from error
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ProgramError(
            "the input is not a numpy array", path, "write it with numpy.save"
        ) from error
    if not isinstance(loaded, np.ndarray):
        raise ProgramError("the input holds several arrays", path, "write it with numpy.save")
    return loaded


def _output(path: str | None, results: Mapping[str, Array]) -> None:
    """Write the results, or say what they are."""
    for name, result in results.items():
        shape = "x".join([*map(str, result.shape), result.dtype.name])
        print(f"{name}: {shape}{_summary(result)}")
    if path is not None:
        archive = io.BytesIO()
        np.savez(archive, allow_pickle=False, **dict(results))
        _write(path, archive.getvalue())


def _summary(result: Array) -> str:
    if result.size == 0:
        return ""
    values = result.astype(np.float64)
    low, mean, high = float(values.min()), float(values.mean()), float(values.max())
    shown = [f"{x:.6g}" if math.isfinite(x) else str(x) for x in (low, mean, high)]
    return f", from {shown[0]} to {shown[2]}, mean {shown[1]}"


def _write(path: str, data: bytes) -> None:
    try:
        write_atomically(path, data)
    except OSError as error:
        raise ProgramError(
            f"cannot write the output: {error.strerror}", path, "name another file"
        ) from error
