"""
Lowers outlined dispatches to kernel binaries, optionally in several processes.

Passes up to `outline-dispatches` process a module as a whole. Later passes process one kernel at a
time, which several processes can do. Each process is a fork that lowers its part of the kernels
and sends back bytes and texts instead of IR. Similar kernels may be merged into one
(`spirv-share-kernels`), so they are lowered by the same process.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import BinaryIO

from xdsl.context import Context
from xdsl.dialects import gpu
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, IntegerType, ModuleOp, SymbolRefAttr
from xdsl.ir import Attribute, Operation

from xdsl_spirv.compiler.pipeline import Passes
from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.schedule.push_constants import NUMBERS, sizes_of
from xdsl_spirv.passes.kernel.outline_dispatches import KERNELS
from xdsl_spirv.progress import stage
from xdsl_spirv.runtime.manifest import SpecConstant
from xdsl_spirv.runtime.program import KernelCode
from xdsl_spirv.serialization.encode.encoder import encode
from xdsl_spirv.upstream.passes_on_demand import run

Observer = Callable[[str, ModuleOp], None]

FEW = 8
"""Number of kernels below which one process lowers all kernels."""

MOST_JOBS = 8


@dataclass(frozen=True)
class LoweredKernel:
    """
    A `spirv.module` with one entry point.

    `sizes` are the (argument, dimension) pairs that are passed as push constants, in order.
    """

    code: KernelCode
    sizes: tuple[tuple[int, int], ...]
    constants: tuple[SpecConstant, ...]


def usable_processors() -> int:
    """Returns the number of processes for lowering kernels: the usable processors, at most 8."""
    if hasattr(os, "sched_getaffinity"):
        return min(len(os.sched_getaffinity(0)), MOST_JOBS)
    return min(os.cpu_count() or 1, MOST_JOBS)


def lower_kernels(
    module: ModuleOp,
    ctx: Context,
    passes: Passes,
    jobs: int = 1,
    observe: Observer | None = None,
) -> dict[str, LoweredKernel]:
    """
    Runs the passes on a module of outlined kernels. Returns the launched kernels by name.

    With `jobs` above 1, on Linux, forks lower the kernels and the module retains only its
    launches. After any failure in a fork, this process lowers all kernels again and raises the
    error.
    """
    if observe is None and jobs > 1 and sys.platform == "linux":
        parts = parts_of(_functions(module), jobs)
        if len(parts) > 1 and (lowered := _in_forks(module, ctx, passes, parts)) is not None:
            return lowered
    return _lower_kernels(module, ctx, passes, observe)


def _lower_kernels(
    module: ModuleOp, ctx: Context, passes: Passes, observe: Observer | None = None
) -> dict[str, LoweredKernel]:
    run(passes, ctx, module, observe)
    module.verify()
    kernels: dict[str, LoweredKernel] = {}
    for name, kernel in spv.modules_by_name(module).items():
        if name is None:
            continue
        code = KernelCode.of_verified(encode(kernel, names=True))
        pairs = [
            pair for e in spv.entry_points(kernel) for pair in sizes_of(kernel, e.fn.string_value())
        ]
        kernels[name] = LoweredKernel(code, tuple(pairs), spec_constants(kernel))
    return kernels


def parts_of(functions: Sequence[gpu.FuncOp], jobs: int) -> list[list[gpu.FuncOp]]:
    """
    Splits kernels into at most `jobs` parts of about equal work, with equal kernels in one part.

    Fewer than `FEW` kernels are one part, because starting a process takes as long as lowering
    them.
    """
    if len(functions) < FEW:
        return [list(functions)]
    by_likeness: dict[object, list[gpu.FuncOp]] = {}
    for function in functions:
        by_likeness.setdefault(likeness(function), []).append(function)
    parts: list[list[gpu.FuncOp]] = [[] for _ in range(jobs)]
    for group in sorted(by_likeness.values(), key=len, reverse=True):
        min(parts, key=len).extend(group)
    return [part for part in parts if part]


def likeness(function: gpu.FuncOp) -> object:
    """
    Returns a kernel's operations, types and schedules as a key that is equal for kernels that can
    be merged.
    """
    traits: list[object] = []
    for op in function.walk():
        traits.append(op.name)
        traits += [value for name, value in op.attributes.items() if name.startswith("schedule.")]
        traits += [getattr(result.type, "element_type", result.type) for result in op.results]
    return tuple(traits)


def _functions(module: ModuleOp) -> list[gpu.FuncOp]:
    return [op for op in _holder(module) if isinstance(op, gpu.FuncOp)]


def _holder(module: ModuleOp) -> list[Operation]:
    return [
        op
        for holder in module.body.block.ops
        if isinstance(holder, gpu.ModuleOp) and holder.sym_name.data == KERNELS
        for op in holder.body.block.ops
    ]


def _launches(module: ModuleOp) -> list[gpu.LaunchFuncOp]:
    return [op for op in module.walk() if isinstance(op, gpu.LaunchFuncOp)]


Changed = list[tuple[int, SymbolRefAttr, Attribute | None]]
"""(index of a launch, its new kernel, its new numeric arguments) for each changed launch."""


def _in_forks(
    module: ModuleOp,
    ctx: Context,
    passes: Passes,
    parts: Sequence[Sequence[gpu.FuncOp]],
) -> dict[str, LoweredKernel] | None:
    """
    Lowers each part in a fork of this process. Returns None if a fork failed, or if two forks gave
    kernels the same name.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    forks: list[tuple[int, BinaryIO]] = []
    kernels: dict[str, LoweredKernel] = {}
    changes: Changed = []
    waiting = ExitStack()
    try:
        waiting.enter_context(stage(f"compiling in {len(parts)} processes"))
        for part in parts:
            forks.append(_fork(module, ctx, passes, part))
        while forks:
            child, answer = forks[0]
            # A fork writes its whole answer before it exits.
            data = answer.read()
            _, status = os.waitpid(child, 0)
            answer.close()
            del forks[0]
            if status != 0:
                return None
            import pickle

            lowered, changed = pickle.loads(data)
            if kernels.keys() & lowered.keys():
                return None
            kernels |= lowered
            changes += changed
    except OSError:
        # Process or memory limits were reached, so this process lowers all kernels.
        return None
    finally:
        waiting.close()
        for child, answer in forks:
            answer.close()
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    launches = _launches(module)
    for number, kernel, numbers in changes:
        launches[number].kernel = kernel
        if numbers is not None:
            launches[number].attributes[NUMBERS] = numbers
    for op in [op for op in module.body.block.ops if isinstance(op, gpu.ModuleOp)]:
        op.detach()
        op.erase()
    return kernels


def _fork(
    module: ModuleOp, ctx: Context, passes: Passes, part: Sequence[gpu.FuncOp]
) -> tuple[int, BinaryIO]:
    """Forks a process that lowers kernels. Returns its process id, and the pipe for its answer."""
    reading, writing = os.pipe()
    try:
        child = os.fork()
    except OSError:
        os.close(reading)
        os.close(writing)
        raise
    if child:
        os.close(writing)
        return child, os.fdopen(reading, "rb")
    status = 1
    try:
        import pickle

        with os.fdopen(writing, "wb") as answer:
            pickle.dump(_part(module, ctx, passes, part), answer, pickle.HIGHEST_PROTOCOL)
        status = 0
    finally:
        # The parent repeats the error. Its exit handlers must not run in the fork.
        os._exit(status)


def _part(
    module: ModuleOp, ctx: Context, passes: Passes, part: Sequence[gpu.FuncOp]
) -> tuple[dict[str, LoweredKernel], Changed]:
    """Lowers the kernels in `part`. Returns the lowered kernels, and the launches that changed."""
    mine = {function.sym_name.data for function in part}
    for function in _functions(module):
        if function.sym_name.data not in mine:
            function.detach()
            function.erase()
    before = [launch.kernel.nested_references.data[-1].data for launch in _launches(module)]
    kernels = _lower_kernels(module, ctx, passes)
    changed: Changed = [
        (number, launch.kernel, launch.attributes.get(NUMBERS))
        for number, (launch, name) in enumerate(zip(_launches(module), before, strict=True))
        if name in mine
    ]
    return kernels, changed


def spec_constants(module: Operation) -> tuple[SpecConstant, ...]:
    """Returns the specialization constants of a module that have an id, in order of id."""
    constants: list[SpecConstant] = []
    for op in module.walk():
        if not isinstance(op, spv.SpecConstantOp):
            continue
        default = op.default_value
        if op.spec_id is None or not isinstance(default, IntegerAttr | FloatAttr):
            continue
        value: int | float | bool = default.value.data
        if default.type == IntegerType(1):
            value = bool(value)
        name = op.sym_name.data
        constants.append(SpecConstant(op.spec_id, str(default.type), value, name))
    return tuple(sorted(constants, key=lambda constant: constant.id))
