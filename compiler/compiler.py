"""Compiles a module to a program: runs the target's passes, reads host functions, encodes code."""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass, PassPipeline
from xdsl.universe import Universe
from xdsl.utils.exceptions import PassFailedException, VerifyException

from xdsl_spirv import __version__
from xdsl_spirv.compiler.host import (
    HostFunction,
    HostProgram,
    host_function,
    host_functions,
    read_host,
)
from xdsl_spirv.compiler.kernel_jobs import LoweredKernel, Observer, lower_kernels
from xdsl_spirv.compiler.layers import layers_of, relies_on_component_map
from xdsl_spirv.compiler.pipeline import (
    OUTLINED,
    PREPARED,
    SCHEDULED,
    Passes,
    lowering,
    split_after,
)
from xdsl_spirv.compiler.signature import Names, argument_name, names_of
from xdsl_spirv.dialects.program import STATE, VALUE
from xdsl_spirv.passes.schedule.paths import PATHS, UNLIMITED, Limits
from xdsl_spirv.progress import stage
from xdsl_spirv.runtime.buffers import Assignment, assign, marked
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.layers import Layer
from xdsl_spirv.runtime.manifest import (
    KERNELS,
    PADDING,
    PLAIN,
    SCHEMA,
    SHARED,
    SOURCE,
    VERSION,
    WEIGHTS,
    Buffer,
    EntryPoint,
    Function,
    Kernel,
    Manifest,
)
from xdsl_spirv.runtime.modules import context, culprit, parse, text_of
from xdsl_spirv.runtime.program import KernelCode, Program, program_requires, push_constant_bytes
from xdsl_spirv.speech import did_you_mean
from xdsl_spirv.targets import Target, load
from xdsl_spirv.upstream.collection import without_collection
from xdsl_spirv.upstream.passes_on_demand import run

DISTRIBUTION = "xdsl-spirv"


class RefusedError(ProgramError, PassFailedException):
    """A `ProgramError` for a program that a pass refuses. It is also a `PassFailedException`."""


class UnknownLayerError(ProgramError):
    """Raised if `--only` or `--except` names a layer that does not exist."""


@contextmanager
def _refusing() -> Generator[None]:
    """Raises a `RefusedError` in place of a pass's error that leaves the `with` block."""
    try:
        yield
    except PassFailedException as error:
        raise RefusedError(str(error)) from error


@without_collection()
@stage("compiling")
@_refusing()
def compile_module(
    source: ModuleOp | str | os.PathLike[str],
    target: str,
    function: str | None = None,
    weights: Mapping[str, Array] | None = None,
    *,
    functions: Sequence[str] = (),
    operators: Mapping[str, str] | None = None,
    limits: Limits = UNLIMITED,
    observe: Observer | None = None,
    jobs: int = 1,
) -> Program:
    """
    Compiles host functions of `linalg` on tensors for a target (a name or a target file's path).

    `source` is an .mlir file, or a module, which is consumed. With several `functions` the program
    contains all of them; weights and states of the same name are shared. `weights` gives values to
    arguments by name. Constants that kernels read become weights, too. `operators` maps node names
    to the model's operators, for `layers`. `limits` excludes kinds of kernels for some layers.
    `observe` is called with a name and the module: before the first pass and after each pass. With
    `jobs` above 1, kernels are lowered by this many processes (on Linux, without `observe`).

    Raises `ProgramError` for an unsupported module or a refusal by a pass, `TargetError` for an
    unknown target, and xDSL's errors for invalid IR.
    """
    device = load(target)
    ctx = context()
    module = source if isinstance(source, ModuleOp) else parse(source, ctx)
    chosen = [host_function(module, name).sym_name.data for name in functions or [function]]
    if functions:
        _keep_only(module, chosen)
    if observe is not None:
        observe("", module)
    declared = {name: _argument_names(host_function(module, name)) for name in chosen}
    _give(module, chosen, weights or {})
    passes: Passes = lowering(target, limits)
    passes = _run_until(PREPARED, passes, module, ctx, observe)
    facts = {name: _Facts.derive(host_function(module, name)) for name in chosen}
    # The custom syntax of a named operation omits its index maps.
    text = text_of(module, generic=True)
    passes = _run_until(SCHEDULED, passes, module, ctx, observe)
    layers = [
        layer for name in chosen for layer in layers_of(host_function(module, name), operators)
    ]
    relies = relies_on_component_map(module)
    passes = _run_until(OUTLINED, passes, module, ctx, observe)
    try:
        kernels = lower_kernels(module, ctx, passes, jobs, observe)
    except VerifyException as error:
        raise ProgramError(f"the module is not valid: {error}", culprit(module)) from error
    refuse_unmet(limits, layers)
    hosts = [facts[name].read(host_function(module, name), kernels) for name in chosen]
    if len(hosts) > 1:
        from xdsl_spirv.compiler.functions import share_buffers

        hosts = share_buffers(hosts, declared)
    program = _program(hosts, facts, kernels, layers, text, device, target if relies else None)
    _refuse_large_weights(program, device)
    return program


def _refuse_large_weights(program: Program, device: Target) -> None:
    """Raises `ProgramError` for a weight that is larger than the largest buffer of the target."""
    most = device.storage_buffer_max_bytes
    for name, array in program.weights.items():
        if array.nbytes > most:
            raise ProgramError(
                f"the weight has {array.nbytes:,} bytes, but {device.name} supports {most:,}",
                f"weight {name!r}",
                "compile for a target with larger buffers, or quantize the weight to fewer bits",
            )


def _program(
    hosts: Sequence[HostFunction],
    facts: Mapping[str, _Facts],
    kernels: Mapping[str, LoweredKernel],
    layers: Sequence[Layer],
    text: str,
    device: Target,
    component_map: str | None,
) -> Program:
    """
    Builds a program from host functions and kernels. The first function is the program's main
    function.
    """
    values: dict[str, Array] = {}
    first, *others = [_record(host, facts[host.name].names, values) for host in hosts]
    launched_kernels, code = _kernels([host.host for host in hosts], kernels)
    manifest = Manifest(
        schema=SCHEMA,
        version=VERSION if any(record.loops for record in (first, *others)) else PLAIN,
        generator=f"{DISTRIBUTION} {__version__}",
        target=device.name,
        subgroup_size=device.subgroup_size,
        function=first.function,
        arguments=first.arguments,
        results=first.results,
        buffers=first.buffers,
        kernels=launched_kernels,
        dispatches=first.dispatches,
        weights=WEIGHTS if values else None,
        source=SOURCE,
        memory=first.memory,
        equal=first.equal,
        limits=first.limits,
        loops=first.loops,
        component_map=component_map,
        functions=tuple(others),
        padding=PADDING,
    )
    binaries = {name: kernel.binary for name, kernel in code.items()}
    manifest = replace(manifest, requires=program_requires(manifest, binaries))
    dispatches = [dispatch for record in (first, *others) for dispatch in record.dispatches]
    named = [
        replace(layer, entry_point=dispatch.entry_point)
        for layer, dispatch in zip(layers, dispatches, strict=True)
    ]
    return Program(manifest, code, values, text, tuple(named))


def _keep_only(module: ModuleOp, chosen: Sequence[str]) -> None:
    """Erases functions that are not chosen and not called, because they cannot run."""
    for other in host_functions(module):
        if other.sym_name.data not in chosen:
            other.detach()
            other.erase()


def _argument_names(host: FuncOp) -> set[str]:
    return {argument_name(argument, i) for i, argument in enumerate(host.body.block.args)}


def _give(module: ModuleOp, chosen: Sequence[str], weights: Mapping[str, Array]) -> None:
    """Sets each function's weights. Raises `ProgramError` for names that no function has."""
    if not weights:
        return
    from xdsl_spirv.compiler.weights import give_weights

    hosts = [host_function(module, name) for name in chosen]
    known = set[str]().union(*map(_argument_names, hosts))
    for number, host in enumerate(hosts):
        own = _argument_names(host) | (set(weights) - known if number == 0 else set())
        give_weights(host, {name: array for name, array in weights.items() if name in own})


@dataclass(frozen=True)
class _Facts:
    """Facts about a function, collected before its operations become dispatches."""

    weights: dict[str, Array]
    states: dict[str, Array]
    names: Names

    @staticmethod
    def derive(host: FuncOp) -> _Facts:
        noted = {key for entry in host.arg_attrs or () for key in entry.data}
        if noted.isdisjoint((VALUE, STATE)):
            return _Facts({}, {}, names_of(host))
        from xdsl_spirv.compiler.weights import first_values_of, weights_of

        return _Facts(weights_of(host), first_values_of(host), names_of(host))

    def read(self, host: FuncOp, kernels: Mapping[str, LoweredKernel]) -> HostFunction:
        sizes = {kernel: lowered.sizes for kernel, lowered in kernels.items()}
        read = read_host(host, self.weights, sizes, self.names)
        constants: dict[str, Array] = {}
        if read.constants:
            from xdsl_spirv.compiler.weights import constant_array

            constants = {n: constant_array(op.value) for n, op in read.constants.items()}
        return HostFunction(host.sym_name.data, read, self.weights | self.states | constants)


def _record(function: HostFunction, names: Names, values: dict[str, Array]) -> Function:
    """Builds a function's manifest record, and adds its weights and states to `values`."""
    host = function.host
    dispatches = marked(host.buffers, [launch.dispatch for launch in host.launches], host.loops)
    buffers = tuple(_fill_buffer(buffer, function.values, values) for buffer in host.buffers)
    dynamic = bool(host.loops) or any(
        buffer.is_dynamic or buffer.kind == "scalar" for buffer in buffers
    )
    # Offsets of temporaries are assigned at run time if sizes are dynamic.
    assigned = Assignment(buffers, 0, 0) if dynamic else assign(buffers, dispatches)
    return Function(
        function=function.name,
        arguments=host.arguments,
        results=host.results,
        buffers=assigned.buffers,
        dispatches=dispatches,
        memory=assigned.needed or None,
        equal=tuple(names.equations),
        limits=tuple(names.limits),
        loops=host.loops,
    )


def _fill_buffer(buffer: Buffer, given: Mapping[str, Array], values: dict[str, Array]) -> Buffer:
    """
    Checks the contents of a weight or state, and adds them to `values`. If all elements of a state
    are equal, the returned buffer record contains their value instead.
    """
    if buffer.kind not in SHARED:
        return buffer
    array = buffer.accept(given[buffer.name])
    if buffer.kind == "state" and (number := _only_number(array)) is not None:
        return replace(buffer, first=number)
    values[buffer.name] = array
    return buffer


def _only_number(array: Array) -> int | float | None:
    """
    Returns the value of all elements of an array with equal elements. Returns None if elements
    differ, or if JSON cannot represent the value.
    """
    if not array.size or array.tobytes() != array.reshape(-1)[:1].tobytes() * array.size:
        return None
    number = array.reshape(-1)[0].item()
    number = int(number) if isinstance(number, bool) else number
    if not isinstance(number, int | float) or number != number or abs(number) == float("inf"):
        return None
    # -0.0 is not treated as zero.
    return None if number == 0 and str(number).startswith("-") else number


def _run_until(
    last: str,
    passes: Passes,
    module: ModuleOp,
    ctx: Context,
    observe: Observer | None,
) -> Passes:
    """
    Runs the passes up to and including the last pass named `last`. Returns the remaining passes.
    """
    first, rest = split_after(passes, last)
    run(first, ctx, module, observe)
    return rest


def refuse_unmet(limits: Limits, layers: Sequence[Layer]) -> None:
    """
    Raises `ProgramError` for limits without effect: a pattern of `--only` or `--except` that
    matches no layer, or allowed arithmetic that no layer uses.
    """
    paths = {considered.path for layer in layers for considered in layer.considered}
    if limits.allowed and limits.allowed not in paths:
        remedy = f"leave out --allow {limits.allowed}"
        raise ProgramError(
            f"{limits.allowed} changes nothing: no product of f32 has at least 16 rows and columns",
            "the model",
            remedy,
        )
    names = [node for layer in layers if layer.path in PATHS for node in layer.nodes]
    if unmet := limits.unmet(names):
        raise UnknownLayerError(
            f"no layer with a multiplication is named {unmet[0]!r}",
            f"layers: {', '.join(names) or 'none'}",
            did_you_mean(unmet[0], names, "name one of them, or use wildcards"),
        )


def _kernels(
    hosts: Iterable[HostProgram], lowered: Mapping[str, LoweredKernel]
) -> tuple[tuple[Kernel, ...], dict[str, KernelCode]]:
    entry_points: dict[str, dict[str, EntryPoint]] = {}
    for launch in (launch for host in hosts for launch in host.launches):
        name = launch.dispatch.entry_point
        points = entry_points.setdefault(launch.dispatch.kernel, {})
        pushed = push_constant_bytes(launch.dispatch)
        pushed = max(pushed, points[name].push_constant_bytes if name in points else 0)
        points[name] = EntryPoint(name, launch.workgroup_size, pushed)
    kernels: list[Kernel] = []
    for name, points in entry_points.items():
        binary = f"{KERNELS}/{name}.spv"
        kernels.append(Kernel(name, binary, None, tuple(points.values()), lowered[name].constants))
    return tuple(kernels), {name: lowered[name].code for name in entry_points}


def pipeline_of(text: str) -> PassPipeline:
    """
    Parses a pass pipeline in the syntax of `xdsl-opt -p`. Raises `ProgramError` if it is wrong.
    """
    passes = Universe.get_multiverse().all_passes
    with converting_pass_errors(passes):
        return PassPipeline.parse_spec(passes, text)


@contextmanager
def converting_pass_errors(known: Iterable[str]) -> Generator[None]:
    """
    Raises a `ProgramError` in place of the errors that xDSL raises for a wrong pass pipeline.
    `known` are the names of all passes.
    """
    try:
        yield
    except ValueError as error:
        # xDSL raises the same exceptions for a user's mistake as for its own defects.
        message = str(error)
        unknown = re.match(r"Unrecognized passes: \['([^']*)'", message)
        if unknown is None:
            raise ProgramError(
                message, "the pass pipeline", "see `xdsl-spirv opt --help`"
            ) from None
        remedy = did_you_mean(unknown[1], known, "see `xdsl-spirv opt --help`")
        raise ProgramError(f"there is no pass {unknown[1]!r}", "", remedy) from None


def target_for(passes: Iterable[ModulePass]) -> str:
    """Returns the name of the first target that a pass names, or "" if there is none."""
    named = (getattr(model_pass, "target", "") for model_pass in passes)
    return next((name for name in named if name), "")


def subgroup_size_for(passes: Iterable[ModulePass]) -> int:
    """Returns the subgroup size of the passes' target, or 32 without a target."""
    name = target_for(passes)
    return load(name).subgroup_size if name else 32
