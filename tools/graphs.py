"""Implements the commands on graph programs: `compile --form graph`, `run` and `interpret`."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterable

from xdsl.dialects.builtin import ModuleOp

from xdsl_spirv.compiler.graph_files import GRAPH_FOLDER, VGF, GraphProgram, load, save
from xdsl_spirv.compiler.linalg_to_graph import graph_of_model
from xdsl_spirv.dialects import spv
from xdsl_spirv.interpreter.graphs import run_graph
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.given import VARIABLE, unknown_device
from xdsl_spirv.runtime.manifest import Buffer
from xdsl_spirv.tools.arrays import read_all_inputs, write_results
from xdsl_spirv.tools.models import read_model
from xdsl_spirv.tools.output import check_place
from xdsl_spirv.tools.report import note
from xdsl_spirv.tools.running import INTERPRETER, limited, open_named


def compile_graph(arguments: argparse.Namespace) -> None:
    """Runs `xdsl-spirv compile model.onnx --form graph`."""
    _refuse(arguments, REFUSED_BY_COMPILE)
    (check_place if arguments.output.endswith(VGF) else GRAPH_FOLDER.check_place)(arguments.output)
    model = read_model(arguments, arguments.input)
    start = time.perf_counter()
    program = graph_of_model(model)
    save(program, arguments.output)
    operators = sum(isinstance(op, spv.TosaOp) for op in program.graph.walk())
    size = sum(array.nbytes for array in program.constants.values())
    seconds = time.perf_counter() - start
    note(operators=operators, constants=len(program.constants), seconds=seconds)
    print(
        f"a graph of {operators} operators, {len(program.constants)} constants of {size:,} bytes, "
        f"in {seconds:.2f} s"
    )


REFUSED_BY_COMPILE = ("disassembly", "drivers", "functions", "prove", "target", "text",
                      "trace_passes")  # fmt: skip
REFUSED_BY_RUN = ("check", "compare_layers", "list", "load_state", "profile", "sanitize",
                  "save_state", "statistics", "time")  # fmt: skip
"""Options of `run` that graph programs do not support."""


def _refuse(arguments: argparse.Namespace, names: Iterable[str]) -> None:
    for name in names:
        if getattr(arguments, name):
            option = f"--{name.replace('_', '-')}"
            raise ProgramError("graph programs do not support the option", option, "leave it out")


def run(arguments: argparse.Namespace) -> int:
    """Runs `xdsl-spirv run` for a graph program, on a device or on the interpreter."""
    _refuse(arguments, REFUSED_BY_RUN)
    program = load(arguments.program)
    device = arguments.device or os.environ.get(VARIABLE) or INTERPRETER
    if device == INTERPRETER:
        with limited(arguments):
            return _execute(program, arguments)
    if device.partition(":")[0] != "vulkan":
        raise unknown_device(device)
    inputs = read_all_inputs(arguments, program.buffers)
    with open_named(device, arguments, graphs=True) as opened:
        results = program.run_opened(opened, inputs)
        print(f"ran on vulkan:{opened.info.index} ({opened.info.name})", file=sys.stderr)
    write_results(arguments.output, results)
    return 0


def interpret(module: ModuleOp, arguments: argparse.Namespace) -> int:
    """Runs `xdsl-spirv interpret` for a module with a graph; the graph's constants are inputs."""
    graph = next(op for op in module.walk() if isinstance(op, spv.GraphOp))
    inputs = [f"input_{k}" for k in range(len(graph.function_type.inputs))]
    outputs = [f"output_{k}" for k in range(len(graph.function_type.outputs))]
    return _execute(GraphProgram(graph, {}, inputs, outputs), arguments)


def _execute(program: GraphProgram, arguments: argparse.Namespace) -> int:
    graph, buffers = program.graph, program.buffers
    given: dict[str, int] = {}
    for op in graph.body.block.ops:
        if (
            isinstance(op, spv.GraphConstantOp)
            and (number := op.graph_constant_id.value.data) not in program.constants
        ):
            given[f"constant_{number}"] = number
            type_ = op.result.type
            assert isinstance(type_, spv.TensorArmType)
            element = str(type_.element_type)
            buffers.append(Buffer(f"constant_{number}", "input", element, type_.extents))
    arrays = read_all_inputs(arguments, buffers)
    constants = program.constants | {number: arrays[name] for name, number in given.items()}
    narrow = program.narrow(arrays)
    results = run_graph(graph, [narrow[name] for name in program.inputs], constants)
    write_results(arguments.output, dict(zip(program.outputs, results, strict=True)))
    return 0
