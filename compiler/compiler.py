"""
From a module to a program: constants out, the lowering of the target, the host program, the bytes.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import replace

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass, PassPipeline
from xdsl.universe import Universe
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv import __version__
from xdsl_spirv.compiler.host import HostProgram, host_function, read_host
from xdsl_spirv.compiler.kernel_jobs import LoweredKernel, Observer, lower_kernels
from xdsl_spirv.compiler.layers import layers_of
from xdsl_spirv.compiler.pipeline import (
    OUTLINED,
    PREPARED,
    SCHEDULED,
    Passes,
    lowering,
    split_after,
)
from xdsl_spirv.compiler.size_equations import names_of
from xdsl_spirv.compiler.weights import constant_array, give_weights, weights_of
from xdsl_spirv.passes.schedule.paths import PATHS, UNLIMITED, Limits
from xdsl_spirv.runtime.buffers import Assignment, assign, marked
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.layers import Layer
from xdsl_spirv.runtime.modules import context, culprit, parse, text_of
from xdsl_spirv.runtime.program import (
    DYNAMIC_VERSION,
    KERNELS,
    SCHEMA,
    SOURCE,
    STATE_VERSION,
    VERSION,
    WEIGHTS,
    EntryPoint,
    Kernel,
    KernelCode,
    Manifest,
    Program,
)
from xdsl_spirv.targets import load
from xdsl_spirv.upstream.collection import without_collection
from xdsl_spirv.upstream.passes_on_demand import run

DISTRIBUTION = "xdsl-spirv"


class UnknownLayerError(ProgramError):
    """`--only` or `--except` names a layer that there is not."""


@without_collection()
def compile_module(
    source: ModuleOp | str | os.PathLike[str],
    target: str,
    function: str | None = None,
    weights: Mapping[str, Array] | None = None,
    *,
    operators: Mapping[str, str] | None = None,
    limits: Limits = UNLIMITED,
    observe: Observer | None = None,
    jobs: int = 1,
) -> Program:
    """
    Compile a host function of `linalg` on tensors for a target (a name or a target file's path).

    `source` is a module, which is consumed, or an .mlir file. `weights` gives values to arguments
    of the function by name; constants that kernels read become weights too. `operators` are those
    of the model's nodes by name, for `layers`; `limits` bars paths for some layers; `observe` is
    called before the first pass and after each one, with its name and the module. With more than
    one of `jobs`, kernels are lowered by so many processes (on Linux, and if nobody observes).

    Raises `ProgramError` for what no program can hold, `TargetError` for an unknown target, and
    xDSL's errors for invalid IR and for what a pass refuses.
    """
    device = load(target)
    ctx = context()
    module = source if isinstance(source, ModuleOp) else parse(source, ctx)
    name = host_function(module, function).sym_name.data
    if observe is not None:
        observe("", module)
    give_weights(host_function(module, name), weights or {})
    passes: Passes = lowering(target, limits)
    passes = _run_until(PREPARED, passes, module, ctx, observe)
    host = host_function(module, name)
    values, names = weights_of(host), names_of(host)
    # The custom form of a named operation would lose its index maps.
    text = text_of(module, generic=True)
    passes = _run_until(SCHEDULED, passes, module, ctx, observe)
    layers = layers_of(module, operators)
    passes = _run_until(OUTLINED, passes, module, ctx, observe)
    try:
        kernels = lower_kernels(module, ctx, passes, jobs, observe)
    except VerifyException as error:
        raise ProgramError(f"the module is not valid: {error}", culprit(module)) from error
    refuse_unmet(limits, layers)
    sizes = {kernel: lowered.sizes for kernel, lowered in kernels.items()}
    host_program = read_host(host_function(module, name), values, sizes, names)
    values |= {n: constant_array(op.value) for n, op in host_program.constants.items()}
    launched = [launch.dispatch for launch in host_program.launches]
    dispatches = marked(host_program.buffers, launched)
    scalars = any(buffer.kind == "scalar" for buffer in host_program.buffers)
    dynamic = scalars or any(buffer.is_dynamic for buffer in host_program.buffers)
    # Where temporaries lie is known when their sizes are.
    assigned = (
        Assignment(host_program.buffers, 0, 0)
        if dynamic
        else assign(host_program.buffers, dispatches)
    )
    values = {b.name: b.accept(values[b.name]) for b in host_program.buffers if b.kind == "weight"}
    launched_kernels, code = _kernels(host_program, kernels)
    manifest = Manifest(
        schema=SCHEMA,
        version=STATE_VERSION if scalars else DYNAMIC_VERSION if dynamic else VERSION,
        generator=f"{DISTRIBUTION} {__version__}",
        target=device.name,
        subgroup_size=device.subgroup_size,
        function=name,
        arguments=host_program.arguments,
        results=host_program.results,
        buffers=assigned.buffers,
        kernels=launched_kernels,
        dispatches=dispatches,
        weights=WEIGHTS if values else None,
        source=SOURCE,
        memory=assigned.needed or None,
        equal=tuple(names.equations),
        limits=tuple(names.limits),
    )
    named = [
        replace(layer, entry_point=dispatch.entry_point)
        for layer, dispatch in zip(layers, dispatches, strict=True)
    ]
    return Program(manifest, code, values, text, tuple(named))


def _run_until(
    last: str,
    passes: Passes,
    module: ModuleOp,
    ctx: Context,
    observe: Observer | None,
) -> Passes:
    """Run the passes up to the last one of a name; returns those behind it."""
    first, rest = split_after(passes, last)
    run(first, ctx, module, observe)
    return rest


def refuse_unmet(limits: Limits, layers: Iterable[Layer]) -> None:
    """Raises `ProgramError` for a pattern of `--only` or `--except` that no layer matched."""
    names = [node for layer in layers if layer.path in PATHS for node in layer.nodes]
    if unmet := limits.unmet(names):
        raise UnknownLayerError(
            f"no layer that multiplies is called {unmet[0]!r}",
            f"layers: {', '.join(names) or 'none'}",
            "name one of them, or use wildcards",
        )


def _kernels(
    host_program: HostProgram, lowered: Mapping[str, LoweredKernel]
) -> tuple[tuple[Kernel, ...], dict[str, KernelCode]]:
    """The kernels that the host launches, with their bytes."""
    entry_points: dict[str, dict[str, EntryPoint]] = {}
    for launch in host_program.launches:
        name = launch.dispatch.entry_point
        points = entry_points.setdefault(launch.dispatch.kernel, {})
        points[name] = EntryPoint(name, launch.workgroup_size)
    kernels: list[Kernel] = []
    for name, points in entry_points.items():
        binary = f"{KERNELS}/{name}.spv"
        kernels.append(Kernel(name, binary, None, tuple(points.values()), lowered[name].constants))
    return tuple(kernels), {name: lowered[name].code for name in entry_points}


def pipeline_of(text: str) -> PassPipeline:
    """A pass pipeline as `xdsl-opt -p` takes it; raises `ProgramError` for one that is wrong."""
    passes = Universe.get_multiverse().all_passes
    with said_of_passes(passes):
        return PassPipeline.parse_spec(passes, text)


@contextmanager
def said_of_passes(known: Iterable[str]) -> Generator[None]:
    """Turns what xDSL raises for a wrong pipeline into `ProgramError`; `known` are the passes."""
    try:
        yield
    except ValueError as error:
        # xDSL says a mistake of the user's as it says its own.
        message = str(error)
        unknown = re.match(r"Unrecognized passes: \['([^']*)'", message)
        if unknown is None:
            raise ProgramError(
                message, "the pass pipeline", "see `xdsl-spirv opt --help`"
            ) from None
        close = difflib.get_close_matches(unknown[1], known, 3)
        remedy = f"did you mean {' or '.join(close)}?" if close else "see `xdsl-spirv opt --help`"
        raise ProgramError(f"there is no pass {unknown[1]!r}", "", remedy) from None


def subgroup_size_for(passes: Iterable[ModulePass]) -> int:
    """Invocations of a subgroup for what these passes make: as their target has it; 32 without."""
    named = (getattr(model_pass, "target", "") for model_pass in passes)
    return next((load(name).subgroup_size for name in named if name), 32)
