"""
From a module to a program: constants out, the lowering of the target, the host's plan, the bytes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from io import StringIO
from pathlib import Path

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.parser import Parser
from xdsl.passes import ModulePass, PassPipeline
from xdsl.printer import Printer
from xdsl.universe import Universe
from xdsl.utils.arg_spec import ArgSpec
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.passes.refusal import place
from xdsl_spirv.runtime.buffers import assign, marked
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.fold import fold
from xdsl_spirv.runtime.host import HostPlan, host_function, plan
from xdsl_spirv.runtime.program import (
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
from xdsl_spirv.runtime.specialization import spec_constants
from xdsl_spirv.runtime.weights import (
    argument_name,
    constant_array,
    lift_constants,
    mark_weights,
)
from xdsl_spirv.serialization.encoder import encode
from xdsl_spirv.serialization.target import find_module
from xdsl_spirv.targets import load
from xdsl_spirv.universe import UNIVERSE

BEFORE = ("unroll-host-loops", "own-results")
"""What a host function needs that becomes a program, beside the lowering of what it computes."""

QUANTIZED = "linalg-quantized-to-contraction"
"""Comes before the last folding: the sums of weights that it asks for are known then."""

LOWERING = "linalg-to-spirv"
DISTRIBUTION = "xdsl-spirv"


def context() -> Context:
    """A context with every dialect that `xdsl-opt` would find, each loaded when it is met."""
    ctx = Context()
    for name, factory in Universe.get_multiverse().all_dialects.items():
        ctx.register_dialect(name, factory)
    return ctx


def parse(
    source: str | os.PathLike[str], ctx: Context | None = None, parser: type[Parser] = Parser
) -> ModuleOp:
    """
    Parse and verify the MLIR file `source`, by another parser if one is given.

    Raises `ProgramError` if it cannot be read, and xDSL's errors if it is no valid module.
    """
    path = Path(source)
    try:
        text = path.read_text()
    except OSError as error:
        raise ProgramError(
            f"cannot read the input: {error.strerror}", str(path), "give an .mlir file"
        ) from error
    except UnicodeDecodeError as error:
        raise ProgramError("the input is not text", str(path), "give an .mlir file") from error
    return parse_text(text, str(path), ctx, parser)


def parse_text(
    text: str,
    name: str = "<text>",
    ctx: Context | None = None,
    parser: type[Parser] = Parser,
) -> ModuleOp:
    """Parse and verify MLIR text; `name` is what errors call it."""
    chosen = parser(ctx or context(), text, name)
    try:
        module = chosen.parse_module()
    except VerifyException as error:
        # An attribute or a type that is made where it stands, before any operation has it.
        line = text.count("\n", 0, chosen.pos) + 1
        raise ProgramError(f"the module is not valid: {error}", f"{name}:{line}") from error
    verify(module)
    return module


def verify(module: ModuleOp) -> None:
    """Verify a module; raises `ProgramError` that names the operation at fault."""
    try:
        module.verify()
    except VerifyException as error:
        raise ProgramError(f"the module is not valid: {error}", _culprit(module)) from error


def _culprit(module: ModuleOp) -> str:
    for op in module.walk():
        try:
            op.verify(verify_nested_ops=False)
        except VerifyException:
            return place(op)
    return ""


def compile_module(
    source: ModuleOp | str | os.PathLike[str],
    target: str,
    function: str | None = None,
    weights: Mapping[str, Array] | None = None,
) -> Program:
    """
    Compile a host function of `linalg` on tensors for a target (a name or a target file's path).

    `source` is a module, which is consumed, or an .mlir file. `weights` gives values to arguments
    of the function by name; constants that kernels read become weights too.

    Raises `ProgramError` for what no program can hold, `TargetError` for an unknown target, and
    xDSL's errors for invalid IR and for what a pass refuses.
    """
    device = load(target)
    ctx = context()
    module = source if isinstance(source, ModuleOp) else parse(source, ctx)
    host = host_function(module, function)
    name = host.sym_name.data
    values = _named(host, weights or {}) | lift_constants(host, ctx)
    for before in BEFORE:
        UNIVERSE.all_passes[before]()().apply(ctx, module)
    values = fold(module, name, values, ctx)
    mark_weights(host, values)
    _run(QUANTIZED, target, module, ctx)
    values = fold(module, name, values, ctx)
    mark_weights(host, values)
    # The custom form of a named operation would lose its index maps.
    text = text_of(module, generic=True)
    _run(LOWERING, target, module, ctx)
    verify(module)
    host_plan = plan(host_function(module, name), values)
    values |= {n: constant_array(op.value, ctx) for n, op in host_plan.constants.items()}
    launched = [launch.dispatch for launch in host_plan.launches]
    dispatches = marked(host_plan.buffers, launched)
    assigned = assign(host_plan.buffers, dispatches)
    values = {b.name: b.accept(values[b.name]) for b in host_plan.buffers if b.kind == "weight"}
    kernels, code = _kernels(module, host_plan)
    manifest = Manifest(
        schema=SCHEMA,
        version=VERSION,
        generator=f"{DISTRIBUTION} {version(DISTRIBUTION)}",
        target=device.name,
        subgroup_size=device.subgroup_size,
        function=name,
        arguments=host_plan.arguments,
        results=host_plan.results,
        buffers=assigned.buffers,
        kernels=kernels,
        dispatches=dispatches,
        weights=WEIGHTS if values else None,
        source=SOURCE,
        memory=assigned.needed or None,
    )
    return Program(manifest, code, values, text)


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


def text_of(op: Operation, generic: bool = False) -> str:
    """An operation as MLIR text."""
    output = StringIO()
    Printer(stream=output, print_generic_format=generic).print_op(op)
    return output.getvalue() + "\n"


def _kernels(
    module: ModuleOp, host_plan: HostPlan
) -> tuple[tuple[Kernel, ...], dict[str, KernelCode]]:
    """The kernels that the plan launches, with their bytes."""
    entry_points: dict[str, dict[str, EntryPoint]] = {}
    for launch in host_plan.launches:
        name = launch.dispatch.entry_point
        found = entry_points.setdefault(launch.dispatch.kernel, {})
        found[name] = EntryPoint(name, launch.workgroup_size)
    kernels: list[Kernel] = []
    code: dict[str, KernelCode] = {}
    for name, found in entry_points.items():
        spirv_module = find_module(module, name)
        code[name] = KernelCode(encode(spirv_module, names=True), text_of(spirv_module))
        binary, text = f"{KERNELS}/{name}.spv", f"{KERNELS}/{name}.mlir"
        constants = spec_constants(spirv_module)
        kernels.append(Kernel(name, binary, text, tuple(found.values()), constants))
    return tuple(kernels), code


def pipeline_of(text: str) -> PassPipeline:
    """A pass pipeline as `xdsl-opt -p` takes it."""
    return PassPipeline.parse_spec(Universe.get_multiverse().all_passes, text)


def subgroup_size_for(passes: Iterable[ModulePass]) -> int:
    """Invocations of a subgroup for what these passes make: as their target has it; 32 without."""
    named = (getattr(each, "target", "") for each in passes)
    return next((load(name).subgroup_size for name in named if name), 32)
