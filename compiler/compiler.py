"""
From a module to a program: constants out, the lowering of the target, the host's plan, the bytes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib.metadata import version

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass, PassPipeline
from xdsl.universe import Universe
from xdsl.utils.arg_spec import ArgSpec
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.compiler.fold import fold
from xdsl_spirv.compiler.host import HostPlan, host_function, plan
from xdsl_spirv.compiler.kernel_jobs import LoweredKernel, Observer, lower_kernels, text_of
from xdsl_spirv.compiler.layers import layers_of
from xdsl_spirv.compiler.signature import argument_name
from xdsl_spirv.compiler.size_equations import names_of
from xdsl_spirv.compiler.weights import constant_array, lift_constants, mark_weights, note_ranges
from xdsl_spirv.passes.kernel.outline_dispatches import OutlineDispatchesPass
from xdsl_spirv.passes.pipeline import linalg_to_spirv
from xdsl_spirv.passes.schedule.paths import PATHS, UNLIMITED, Limits
from xdsl_spirv.runtime.buffers import Assignment, assign, marked
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.layers import Layer
from xdsl_spirv.runtime.modules import context, culprit, parse
from xdsl_spirv.runtime.program import (
    DYNAMIC_VERSION,
    KERNELS,
    SCHEMA,
    SOURCE,
    VERSION,
    WEIGHTS,
    EntryPoint,
    Kernel,
    KernelCode,
    Manifest,
    Program,
)
from xdsl_spirv.targets import load
from xdsl_spirv.universe import UNIVERSE
from xdsl_spirv.upstream.collection import without_collection

UNROLLING, COPIES = "unroll-host-loops", "own-results"
"""What a host function needs that becomes a program, beside the lowering of what it computes."""

OUTLINING = OutlineDispatchesPass.name
"""Before it every dispatch has its schedule, and still computes on tensors."""

QUANTIZED = "linalg-quantized-to-contraction"
"""Comes before the last folding: the sums of weights that it asks for are known then."""

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
    values = prepare(module, name, weights or {}, ctx, target)
    names = names_of(host_function(module, name))
    # The custom form of a named operation would lose its index maps.
    text = text_of(module, generic=True)
    layers, kernels = lower(module, ctx, target, operators, observe, jobs, limits)
    refuse_unmet(limits, layers)
    sizes = {kernel: found.sizes for kernel, found in kernels.items()}
    host_plan = plan(host_function(module, name), values, sizes, names)
    values |= {n: constant_array(op.value, ctx) for n, op in host_plan.constants.items()}
    launched = [launch.dispatch for launch in host_plan.launches]
    dispatches = marked(host_plan.buffers, launched)
    dynamic = any(buffer.is_dynamic for buffer in host_plan.buffers)
    # Where temporaries lie is known when their sizes are.
    assigned = (
        Assignment(host_plan.buffers, 0, 0) if dynamic else assign(host_plan.buffers, dispatches)
    )
    values = {b.name: b.accept(values[b.name]) for b in host_plan.buffers if b.kind == "weight"}
    launched_kernels, code = _kernels(host_plan, kernels)
    manifest = Manifest(
        schema=SCHEMA,
        version=DYNAMIC_VERSION if dynamic else VERSION,
        generator=f"{DISTRIBUTION} {version(DISTRIBUTION)}",
        target=device.name,
        subgroup_size=device.subgroup_size,
        function=name,
        arguments=host_plan.arguments,
        results=host_plan.results,
        buffers=assigned.buffers,
        kernels=launched_kernels,
        dispatches=dispatches,
        weights=WEIGHTS if values else None,
        source=SOURCE,
        memory=assigned.needed or None,
        equal=tuple(names.equations),
    )
    named = [
        replace(layer, entry_point=dispatch.entry_point)
        for layer, dispatch in zip(layers, dispatches, strict=True)
    ]
    return Program(manifest, code, values, text, tuple(named))


def prepare(
    module: ModuleOp, name: str, weights: Mapping[str, Array], ctx: Context, target: str
) -> dict[str, Array]:
    """Constants out of a host function, what can be computed now computed; returns the weights."""
    host = host_function(module, name)
    values = _named(host, weights) | lift_constants(host, ctx)
    UNIVERSE.all_passes[UNROLLING]()().apply(ctx, module)
    values = fold(module, name, values, ctx)
    mark_weights(host, values)
    _run(QUANTIZED, target, module, ctx)
    values = fold(module, name, values, ctx)
    # Last: a result that was folded is a weight, and has to be copied.
    UNIVERSE.all_passes[COPIES]()().apply(ctx, module)
    mark_weights(host, values)
    note_ranges(host, values)
    return values


def lower(
    module: ModuleOp,
    ctx: Context,
    target: str,
    operators: Mapping[str, str] | None = None,
    observe: Observer | None = None,
    jobs: int = 1,
    limits: Limits = UNLIMITED,
) -> tuple[list[Layer], dict[str, LoweredKernel]]:
    """Run the lowering for a target: layers, in the order of the dispatches, and kernels."""
    passes = list(linalg_to_spirv(target, limits))
    outlining = next(n for n, each in enumerate(passes) if each.name == OUTLINING)
    if observe is not None:
        observe("constants folded", module)
    for each in passes[:outlining]:
        each.apply(ctx, module)
        if observe is not None:
            observe(each.name, module)
    layers = layers_of(module, operators)
    passes[outlining].apply(ctx, module)
    if observe is not None:
        observe(OUTLINING, module)
    try:
        return layers, lower_kernels(module, ctx, passes[outlining + 1 :], jobs, observe)
    except VerifyException as error:
        raise ProgramError(f"the module is not valid: {error}", culprit(module)) from error


def refuse_unmet(limits: Limits, layers: Iterable[Layer]) -> None:
    """Raises `ProgramError` for a pattern of `--only` or `--except` that no layer matched."""
    names = [node for layer in layers if layer.path in PATHS for node in layer.nodes]
    if unmet := limits.unmet(names):
        raise UnknownLayerError(
            f"no layer that multiplies is called {unmet[0]!r}",
            f"layers: {', '.join(names) or 'none'}",
            "name one of them, or use wildcards",
        )


def _run(name: str, target: str, module: ModuleOp, ctx: Context) -> None:
    """Apply a pass that is told the target."""
    chosen = UNIVERSE.all_passes[name]().from_spec(ArgSpec(name, {"target": (target,)}))
    chosen.apply(ctx, module)


def _named(host: FuncOp, weights: Mapping[str, Array]) -> dict[str, Array]:
    """The given weights; raises `ProgramError` for one that no argument is called after."""
    arguments = [argument_name(a, i) for i, a in enumerate(host.body.block.args)]
    for name in weights:
        if name not in arguments:
            raise ProgramError(
                f"the weight {name!r} belongs to no argument",
                f"arguments: {', '.join(arguments)}",
                "rename the tensor or the argument",
            )
    return dict(weights)


def _kernels(
    host_plan: HostPlan, lowered: Mapping[str, LoweredKernel]
) -> tuple[tuple[Kernel, ...], dict[str, KernelCode]]:
    """The kernels that the plan launches, with their bytes."""
    entry_points: dict[str, dict[str, EntryPoint]] = {}
    for launch in host_plan.launches:
        name = launch.dispatch.entry_point
        found = entry_points.setdefault(launch.dispatch.kernel, {})
        found[name] = EntryPoint(name, launch.workgroup_size)
    kernels: list[Kernel] = []
    for name, found in entry_points.items():
        binary, text = f"{KERNELS}/{name}.spv", f"{KERNELS}/{name}.mlir"
        kernels.append(Kernel(name, binary, text, tuple(found.values()), lowered[name].constants))
    return tuple(kernels), {name: lowered[name].code for name in entry_points}


def pipeline_of(text: str) -> PassPipeline:
    """A pass pipeline as `xdsl-opt -p` takes it."""
    return PassPipeline.parse_spec(Universe.get_multiverse().all_passes, text)


def subgroup_size_for(passes: Iterable[ModulePass]) -> int:
    """Invocations of a subgroup for what these passes make: as their target has it; 32 without."""
    named = (getattr(each, "target", "") for each in passes)
    return next((load(name).subgroup_size for name in named if name), 32)
