"""
Implements `xdsl-spirv explain`: shows how a model is compiled for a device, without running it.

The exit status is 1 if a node is not supported. The table of nodes then shows the node and the
reason.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import cast

from xdsl.utils.exceptions import DiagnosticException

from xdsl_spirv.compiler.compiler import UnknownLayerError
from xdsl_spirv.compiler.model import compile_model, load_model
from xdsl_spirv.frontends import is_onnx
from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.frontends.model import Node
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.manifest import to_json
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.targets import known, load
from xdsl_spirv.tools.comparison import Comparison, comparison_of
from xdsl_spirv.tools.explain_text import text_of
from xdsl_spirv.tools.explanation import Explanation, explanation_of, refused
from xdsl_spirv.tools.machine_code import codes_of, drivers_of
from xdsl_spirv.tools.output import check_place, write
from xdsl_spirv.tools.report import is_wanted, note
from xdsl_spirv.tools.run_times import Measured

FORMATS = ("text", "json", "html")
SUFFIXES = {".json": "json", ".html": "html", ".htm": "html"}


def explain(arguments: argparse.Namespace) -> int:
    """Runs `xdsl-spirv explain`."""
    for place in (arguments.output, arguments.chrome_trace, arguments.node_data):
        check_place(place)
    drivers = drivers_of(arguments)
    if arguments.target is None and drivers and not Path(arguments.input).is_dir():
        arguments.target = drivers[0].target
    if arguments.target is None and not Path(arguments.input).is_dir():
        from xdsl_spirv.runtime.vulkan.own_target import own_target

        arguments.target = own_target(arguments.device)
    if arguments.list:
        from xdsl_spirv.tools.models import list_values

        return list_values(arguments)
    chosen = format_of(arguments)
    compares = bool(arguments.against or arguments.against_target)
    if arguments.against_profile and not compares:
        raise ProgramError(
            "--against-profile needs a comparison", "--against-profile", "give --against, too"
        )
    explained = explanation(arguments)
    if compares:
        compared = comparison_of(explained, explanation(_other(arguments)))
        supported, data = compared.supported, compared
        shown = rendered_comparison(compared, chosen, arguments.sort)
    else:
        supported, data = explained.supported, explained
        shown = rendered(explained, chosen, arguments.sort, arguments.group)
    if arguments.output is None:
        print(shown, end="")
    else:
        write(arguments.output, shown.encode())
        print(f"wrote {arguments.output}", file=sys.stderr)
    if is_wanted():
        note(**cast(dict[str, object], to_json(data)))
    _export(explained, arguments)
    return 0 if supported else 1


def _other(arguments: argparse.Namespace) -> argparse.Namespace:
    """Returns the arguments of the command for the second side of a comparison."""
    other = argparse.Namespace(**vars(arguments))
    other.input = arguments.against or arguments.input
    other.target = arguments.against_target
    other.profile = arguments.against_profile
    if Path(other.input).is_dir():
        other.dims, other.only, other.excluded, other.allow = [], [], [], None
    elif other.target is None:
        # The target of a compiled program may be unknown here, so only a model inherits it.
        other.target = arguments.target
    return other


def rendered_comparison(comparison: Comparison, format: str, order: str = "order") -> str:
    """Formats a comparison as text, JSON or an HTML page."""
    if format == "json":
        return json.dumps(to_json(comparison), indent=1) + "\n"
    if format == "html":
        from xdsl_spirv.tools.comparison_html import page_of

        return page_of(comparison)
    from xdsl_spirv.tools.comparison_text import text_of as compared_text

    return compared_text(comparison, order)


def _export(explanation: Explanation, arguments: argparse.Namespace) -> None:
    """Writes the files of `--chrome-trace` and `--node-data`, if requested."""
    if arguments.chrome_trace:
        from xdsl_spirv.tools.chrome_trace import chrome_trace

        trace = json.dumps(chrome_trace(explanation), indent=1) + "\n"
        write(arguments.chrome_trace, trace.encode())
    if arguments.node_data:
        from xdsl_spirv.tools.node_data import node_data

        data = json.dumps(node_data(explanation, _graph(arguments)), indent=1) + "\n"
        write(arguments.node_data, data.encode())


def _graph(arguments: argparse.Namespace) -> str:
    """Returns the name of an ONNX file's graph, or the function's name for other files."""
    if not is_onnx(arguments.input):
        return arguments.function or "main"
    from xdsl_spirv.frontends.onnx_file import read_model

    return read_model(arguments.input)[0].graph.name or "<main>"


def format_of(arguments: argparse.Namespace) -> str:
    """Returns the format that `--format` or the suffix of the output file requests."""
    by_name = SUFFIXES.get(Path(arguments.output or "").suffix, "text")
    return arguments.format or by_name


def rendered(
    explanation: Explanation, format: str, order: str = "order", group: bool = False
) -> str:
    """Formats an explanation as text, JSON or HTML. `rows_of` explains `order` and `group`."""
    if format == "json":
        return json.dumps(to_json(explanation), indent=1) + "\n"
    if format == "html":
        from xdsl_spirv.tools.explain_html import page_of

        return page_of(explanation)
    return text_of(explanation, order, group)


def explanation(arguments: argparse.Namespace) -> Explanation:
    """Explains a model, or a compiled program in a directory."""
    path = arguments.input
    if Path(path).is_dir():
        return _of_program(path, arguments)
    target = load(arguments.target)
    original = original_nodes(path)
    try:
        from xdsl_spirv.tools.models import constants_of, dims_of, given_shapes, states_of

        model = load_model(
            path,
            dims_of(arguments),
            given_shapes(arguments),
            arguments.function,
            arguments.weights,
            constants_of(arguments),
            getattr(arguments, "context", None),
            states_of(arguments),
            target=arguments.target,
        )
    except FrontendError as error:
        if error.operator is None:
            raise
        reasons, tried = _refused_nodes(path, arguments)
        return refused(path, target, original, reasons, [str(error)], tried)
    from xdsl_spirv.tools.options import jobs_of, limits_of

    before = model.module.clone()
    try:
        program = compile_model(
            model, arguments.target, limits=limits_of(arguments), jobs=jobs_of(arguments)
        )
    except UnknownLayerError:
        raise
    except (DiagnosticException, ProgramError) as error:
        from xdsl_spirv.tools.coverage import refused_layers

        reasons = refused_layers(before, model.function, model.weights, arguments.target)
        return refused(path, target, original, reasons, [str(error)])
    explained = explanation_of(program, path, target, original, model.nodes)
    return _measure_layers(explained, program, arguments)


def _of_program(path: str, arguments: argparse.Namespace) -> Explanation:
    if arguments.only or arguments.excluded or arguments.dims or arguments.allow:
        raise ProgramError(
            "the program is already compiled", path, "name the model, or leave out its options"
        )
    program = Program.load(path)
    if not program.layers:
        raise ProgramError(
            "the program does not describe its dispatches",
            path,
            "compile it again: `xdsl-spirv compile` writes layers.json",
        )
    named = arguments.target or known(program.manifest.target)
    if arguments.target is not None and load(named).name != program.manifest.target:
        raise ProgramError(
            f"the program was compiled for {program.manifest.target}, not for {named}",
            path,
            "leave --target out, or give the path of the model",
        )
    if arguments.function is not None:
        program = program.function(arguments.function)
    return _measure_layers(explanation_of(program, path, load(named)), program, arguments)


def original_nodes(path: str) -> list[Node]:
    """Returns the nodes that an ONNX file contains, or an empty list for other files."""
    if not is_onnx(path):
        return []
    from xdsl_spirv.frontends import onnx_file

    model, _ = onnx_file.read_model(path)
    onnx_file.name_nodes(model)
    return [Node(n.name, n.op_type, tuple(n.input), tuple(n.output)) for n in model.graph.node]


def _refused_nodes(
    path: str, arguments: argparse.Namespace
) -> tuple[dict[str, str], frozenset[str]]:
    """Returns the reasons for refused nodes by name, and the names of the nodes that were tried."""
    from xdsl_spirv.frontends.coverage import refused_nodes
    from xdsl_spirv.tools.models import dims_of, given_shapes

    return refused_nodes(path, dims_of(arguments), given_shapes(arguments))


def _measure_layers(
    explanation: Explanation, program: Program, arguments: argparse.Namespace
) -> Explanation:
    """Adds each dispatch's measured time to an explanation, given a device or a profile file."""
    if drivers := drivers_of(arguments):
        codes = codes_of(program, drivers, arguments.disassembly)
        explanation = replace(explanation, code=codes)
    if arguments.profile:
        from xdsl_spirv.tools.run_times import read_times

        if arguments.device is not None:
            raise ProgramError("the times are already measured", "--device", "leave it out")
        dispatches = program.function(arguments.function).manifest.dispatches
        return with_times(explanation, read_times(arguments.profile, dispatches))
    if arguments.device is None:
        return explanation
    from xdsl_spirv.tools.arrays import read_inputs
    from xdsl_spirv.tools.running import times_of

    arguments.random = 0
    program = program.function()
    inputs = read_inputs(arguments, program.manifest.inputs)
    return with_times(explanation, times_of(program, inputs, arguments))


def with_times(explanation: Explanation, measured: Measured) -> Explanation:
    """Adds measured times of the dispatches, and of a run with its copies, to an explanation."""
    layers = tuple(
        replace(entry, measured_seconds=time)
        for entry, time in zip(explanation.layers, measured.seconds, strict=True)
    )
    return replace(explanation, layers=layers, device=measured.device, phases=measured.phases)
