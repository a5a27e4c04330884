"""Implements the subcommands `translate` and `interpret`."""

from __future__ import annotations

import argparse

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from xdsl_spirv.compiler.signature import argument_name
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.manifest import INDEX, Buffer
from xdsl_spirv.runtime.modules import ModuleParser, context, parse, verify
from xdsl_spirv.tools.binaries import is_binary, mlir_text, read_binary
from xdsl_spirv.tools.output import check_place, write


def translate(arguments: argparse.Namespace) -> int:
    """Runs `xdsl-spirv translate`: converts between MLIR and binaries, or normalizes a binary."""
    from xdsl_spirv.serialization.encode.target import find_module

    check_place(arguments.output)
    if is_binary(arguments.input) and arguments.unchecked and not arguments.passes:
        module = read_binary(arguments.input, unchecked=True)
    else:
        module = _lower_file(arguments.input, arguments.passes, context())
    if is_binary(arguments.input) and not arguments.output.endswith(".spv"):
        write(arguments.output, mlir_text(module, lines=arguments.lines).encode())
        return 0
    from xdsl_spirv.serialization.encode.encoder import encode

    chosen = find_module(module, arguments.module)
    write(arguments.output, encode(chosen, names=arguments.names, lines=arguments.lines))
    return 0


def interpret(arguments: argparse.Namespace) -> int:
    """Runs `xdsl-spirv interpret`."""
    from xdsl.dialects.builtin import AnyFloat, IndexType, IntegerType, TensorType

    from xdsl_spirv.compiler.host import host_function
    from xdsl_spirv.compiler.signature import names_of
    from xdsl_spirv.dialects.program import inputs_of
    from xdsl_spirv.dialects.schedule.symbolic_sizes import format_size
    from xdsl_spirv.interpreter import interpret as run_module
    from xdsl_spirv.passes.analysis.sizes import extents
    from xdsl_spirv.tools.arrays import read_all_inputs, write_results
    from xdsl_spirv.tools.debugging import (
        LocatingParser,
        interpreting,
        options_of,
        report,
        wants_lines,
    )

    check_place(arguments.output)
    parser = LocatingParser if wants_lines(arguments) else ModuleParser
    module = _lower_file(arguments.input, arguments.passes, context(), parser)
    if any(op.name == "spirv.ARM.Graph" for op in module.walk()):
        from xdsl_spirv.tools.graphs import interpret as interpret_graph

        return interpret_graph(module, arguments)
    if is_binary(arguments.input) or arguments.buffers:
        from xdsl_spirv.tools.kernels import interpret_kernel

        return interpret_kernel(module, arguments)
    function = host_function(module, arguments.function)
    names = names_of(function)
    buffers: list[Buffer] = []
    for i in inputs_of(function):
        argument = function.body.block.args[i]
        name, type = argument_name(argument, i), argument.type
        if isinstance(type, IndexType):
            buffers.append(Buffer(name, "scalar", INDEX, ()))
            continue
        if isinstance(type, AnyFloat | IntegerType):
            buffers.append(Buffer(name, "input", str(type), ()))
            continue
        if not isinstance(type, TensorType):
            raise ProgramError(
                f"{name!r} has type {type}, which the command line cannot give", "", "use tensors"
            )
        shape = tuple(format_size(size, names.name) for size in extents(argument))
        buffers.append(Buffer(name, "input", str(type.element_type), shape))
    inputs = read_all_inputs(arguments, buffers)
    given = [inputs[b.name] for b in buffers]
    with options_of(arguments, module) as options, interpreting(options):
        results = run_module(module, given, function.sym_name.data, options=options)
    write_results(arguments.output, {f"result{i}": result for i, result in enumerate(results)})
    return report(arguments, module, options)


def _lower_file(
    path: str, pipeline: str, ctx: Context, parser: type[ModuleParser] = ModuleParser
) -> ModuleOp:
    """Reads an MLIR file or a binary, and runs a pass pipeline on the module."""
    module = read_binary(path) if is_binary(path) else parse(path, ctx, parser)
    if pipeline:
        from xdsl_spirv.compiler.compiler import pipeline_of

        pipeline_of(pipeline).apply(ctx, module)
        verify(module)
    return module
