"""
Lowers outlined dispatches to the bytes of their kernels, in several processes if asked.

Up to `outline-dispatches` passes look at a module as a whole. The rest takes one kernel at a time,
and may be done by several processes: each is a fork that keeps its part of the kernels, runs the
same passes, and sends back bytes and texts instead of IR. Only kernels that are alike can become
one (`spirv-share-kernels`), so these stay together.
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
from xdsl_spirv.runtime.program import KernelCode, SpecConstant
from xdsl_spirv.serialization.encode.encoder import encode
from xdsl_spirv.upstream.passes_on_demand import run

Observer = Callable[[str, ModuleOp], None]

FEW = 8
"""Kernels that one process lowers before others are ready."""

MOST_JOBS = 8


@dataclass(frozen=True)
class LoweredKernel:
    """
    A `spirv.module` of one entry point.

    `sizes` are the arguments and dimensions that it is passed as push constants, in their order.
    """

    code: KernelCode
    sizes: tuple[tuple[int, int], ...]
    constants: tuple[SpecConstant, ...]


def usable_processors() -> int:
    """The number of processes that may lower kernels: the processors, at most 8."""
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
    Runs the passes on a module of outlined kernels. Returns the kernels that its launches name.

    With more than one of `jobs`, where the system can fork (Linux), the module keeps its launches
    only. Any failure there is repeated in this process, which raises what the passes raise.
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
        code = KernelCode(encode(kernel, names=True))
        pairs = [
            pair for e in spv.entry_points(kernel) for pair in sizes_of(kernel, e.fn.string_value())
        ]
        kernels[name] = LoweredKernel(code, tuple(pairs), spec_constants(kernel))
    return kernels


def parts_of(functions: Sequence[gpu.FuncOp], jobs: int) -> list[list[gpu.FuncOp]]:
    """
    Splits kernels into at most this many parts of about equal work; equal kernels go into one
    part.

    A few kernels are one part: starting a process takes as long as lowering a few of them.
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
    """Returns a kernel's operations, types and schedules: mergeable kernels have equal ones."""
    traits: list[object] = []
    for op in function.walk():
        traits.append(op.name)
        traits += [value for name, value in op.attributes.items() if name.startswith("schedule.")]
        traits += [getattr(result.type, "element_type", result.type) for result in op.results]
    return tuple(traits)


def _functions(module: ModuleOp) -> list[gpu.FuncOp]:
    return [op for op in _holder(module) if isinstance(op, gpu.FuncOp)]


def _holder(module: ModuleOp) -> list[Operation]:
    """The body of the kernels' gpu.module."""
    return [
        op
        for holder in module.body.block.ops
        if isinstance(holder, gpu.ModuleOp) and holder.sym_name.data == KERNELS
        for op in holder.body.block.ops
    ]


def _launches(module: ModuleOp) -> list[gpu.LaunchFuncOp]:
    return [op for op in module.walk() if isinstance(op, gpu.LaunchFuncOp)]


Changed = list[tuple[int, SymbolRefAttr, Attribute | None]]
"""Launches by number: the kernel that each has now, and its numbers."""


def _in_forks(
    module: ModuleOp,
    ctx: Context,
    passes: Passes,
    parts: Sequence[Sequence[gpu.FuncOp]],
) -> dict[str, LoweredKernel] | None:
    """The kernels, each part lowered by a fork; None if one failed or two agreed on a name."""
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
            # A fork writes its whole answer at its end.
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
        # There are no more processes or no memory for them: this process lowers all kernels.
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
    """
    Forks a process that lowers a part. Returns its id, and the pipe that its answer comes through.
    """
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
        # The parent raises the error again; the exit handlers of the parent must not run here.
        os._exit(status)


def _part(
    module: ModuleOp, ctx: Context, passes: Passes, part: Sequence[gpu.FuncOp]
) -> tuple[dict[str, LoweredKernel], Changed]:
    """Lowers some of the kernels. Returns them, and the changes of the launches of them."""
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
    """The specialization constants of a module that have an id, in the order of their ids."""
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
