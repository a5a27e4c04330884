"""Runs a program's dispatches in order, over buffers that exist for the duration of the run."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from xdsl_spirv.progress import noted
from xdsl_spirv.runtime.elements import Array, dtype_of
from xdsl_spirv.runtime.errors import ProgramError, UndefinedResultWarning
from xdsl_spirv.runtime.given import bind_inputs, push_constant_bytes, unknown_device
from xdsl_spirv.runtime.manifest import GIVEN
from xdsl_spirv.runtime.memory import EMPTY_BYTES, refuse_beyond_memory

if TYPE_CHECKING:
    from xdsl.ir import Operation

    from xdsl_spirv.interpreter import Options
    from xdsl_spirv.interpreter.checks import Checks
    from xdsl_spirv.interpreter.spirv.module import Compiled
    from xdsl_spirv.runtime.program import KernelCode, Program

Buffers = dict[str, Array]

FILLED = (*GIVEN, "weight", "state")
"""Kinds of buffers that have contents before the first dispatch."""


def run(
    program: Program,
    inputs: Mapping[str, Any],
    device: str = "interpreter",
    checks: Checks | None = None,
    times: list[float] | None = None,
) -> dict[str, Array]:
    """
    Runs a program. Returns its results by name (`result0`, ...), in the source function's order.

    `device` is `interpreter`, `vulkan` or `vulkan:N`. Vulkan runs in a separate process until this
    process ends, so that later calls find the device open and the program loaded. On the
    interpreter, `checks` detect undefined behaviour (docs/checks.md) and fill their report, and
    `times` receives the seconds of each dispatch. Without checks, a result that depends on an
    undefined integer causes an `UndefinedResultWarning`.

    Raises `ProgramError` for inputs that do not fit (see `bind_inputs`) and for an unknown device,
    and the device's own errors (`InterpreterError`, `VulkanError`).
    """
    program = program.function()
    if device.partition(":")[0] == "vulkan" and checks is None:
        from xdsl_spirv.runtime.vulkan.kept import kept_device

        with kept_device(device) as opened:
            return opened.execute(program, inputs)
    if device != "interpreter":
        raise _not_here(device, checks)
    return run_in_place(program, inputs, program.first_values(), checks, times)


def run_in_place(
    program: Program,
    inputs: Mapping[str, Array],
    states: Mapping[str, Array],
    checks: Checks | None = None,
    times: list[float] | None = None,
) -> dict[str, Array]:
    """Runs a program on the interpreter, like `run`, and updates the states in place."""
    program = program.at(inputs)
    refuse_beyond_memory(b for b in program.manifest.buffers if b.offset is None)
    buffers: Buffers = bind_inputs(program, inputs) | program.weights | dict(states)
    buffers |= empty_buffers(program)
    _run_interpreter(program, buffers, checks, times)
    return {buffer.name: buffers[buffer.name] for buffer in program.manifest.outputs}


def empty_buffers(program: Program) -> Buffers:
    """Returns new outputs and temporaries. Temporaries share memory if the program has offsets."""
    manifest = program.manifest
    memory = np.zeros(manifest.memory or 0, np.uint8)
    buffers: Buffers = {}
    for buffer in manifest.buffers:
        if buffer.kind in FILLED:
            continue
        if buffer.offset is None:
            buffers[buffer.name] = np.zeros(buffer.sizes, dtype_of(buffer.type))
            continue
        piece = memory[buffer.offset : buffer.offset + buffer.bytes]
        buffers[buffer.name] = piece.view(dtype_of(buffer.type)).reshape(buffer.sizes)
    return buffers


def _not_here(device: str, checks: Checks | None) -> ProgramError:
    if device.partition(":")[0] == "vulkan" and checks is not None:
        return ProgramError(
            f"the device {device} cannot check for undefined behaviour",
            "",
            "run on the interpreter",
        )
    return unknown_device(device)


@dataclass(frozen=True)
class Kernel:
    """A kernel's decoded module, and its operations compiled for the interpreter."""

    module: Operation
    compiled: Compiled
    words: frozenset[tuple[int, int]]
    """(set, binding) of the buffers that the kernel reads as 32-bit words."""

    @cached_property
    def depends_on_data(self) -> bool:
        """
        True if some contents of the kernel's buffers would make an integer undefined, such as a
        quotient by 0.
        """
        from xdsl_spirv.interpreter.checks.sources import depends_on_data

        return any(map(depends_on_data, self.module.walk()))


KEPT = 256
"""Number of kernel modules that are cached by their bytes, to decode equal kernels once."""
_kept: dict[bytes, Kernel] = {}


def _kernel(code: KernelCode, file: str) -> Kernel:
    """Returns the kernel of a binary. Raises `ProgramError` for a damaged binary."""
    from xdsl_spirv.interpreter.spirv.module import Compiled, word_bindings
    from xdsl_spirv.serialization.decode.decoder import decode
    from xdsl_spirv.serialization.raw.errors import SPIRVDecodeError

    kernel = _kept.get(code.binary)
    if kernel is None:
        try:
            module = decode(code.binary, unchecked=code.verified)
            kernel = Kernel(module, Compiled(), word_bindings(module))
        except SPIRVDecodeError as error:
            raise ProgramError(
                str(error), file, "run `xdsl-spirv validate` to find the fault"
            ) from error
        while len(_kept) >= KEPT:
            _kept.pop(next(iter(_kept)), None)
        _kept[code.binary] = kernel
    return kernel


def _run_interpreter(
    program: Program,
    buffers: Buffers,
    checks: Checks | None = None,
    times: list[float] | None = None,
) -> None:
    from xdsl_spirv.interpreter import Options

    kernels = {
        kernel.name: _kernel(program.code[kernel.name], kernel.binary)
        for kernel in program.manifest.kernels
    }
    manifest = program.manifest
    options = Options(subgroup_size=manifest.subgroup_size, checks=checks)
    if manifest.component_map is not None:
        options = _with_map(options, manifest.component_map)
        _dispatch_all(program, kernels, buffers, options, times)
        return
    if checks is None or not checks.choices or len(manifest.dispatches) == 1:
        _dispatch_all(program, kernels, buffers, options, times)
        return
    given = {b.name: buffers[b.name] for b in program.manifest.buffers if b.kind in FILLED}
    given |= {b.name: buffers[b.name].copy() for b in program.manifest.states}
    alone = replace(checks, launches_stand_alone=False)
    _dispatch_all(program, kernels, buffers, replace(options, checks=alone))
    _explore_mappings(program, kernels, given, buffers, options)


def _with_map(options: Options, target: str) -> Options:
    """
    Returns the options of a run on the interpreter, with a target's map from matrix components to
    invocations. The kernels depend on this map, so the checks do not try other maps.

    Raises `ProgramError` for an unknown target.
    """
    from xdsl_spirv.targets import TargetError, load

    try:
        load(target)
    except TargetError as error:
        raise ProgramError(str(error), "program.json.component_map") from error
    checks = options.checks
    if checks is not None:
        checks = replace(checks, launches_stand_alone=False)
    return replace(options, component_mapping=target, checks=checks)


def _dispatch_all(
    program: Program,
    kernels: Mapping[str, Kernel],
    buffers: Buffers,
    options: Options,
    times: list[float] | None = None,
) -> None:
    from xdsl_spirv.interpreter import dispatch
    from xdsl_spirv.interpreter.checks.report import Checks

    dispatches = program.manifest.dispatches
    undefined = None
    for launch in noted("running on the interpreter", dispatches, lambda d: d.entry_point):
        start = time.perf_counter()
        kernel = kernels[launch.kernel]
        bound = {(b.set, b.binding): b.buffer for b in launch.bindings}
        padded = {
            name: _in_whole_words(buffers[name])
            for place, name in bound.items()
            if place in kernel.words and buffers[name].nbytes % WORD_BYTES
        }
        chosen = options
        if options.checks is None and kernel.depends_on_data:
            undefined = undefined or Checks(undefined=True, of_data=True)
            chosen = replace(options, checks=undefined)
        dispatch(
            kernel.module,
            launch.entry_point,
            launch.workgroups,
            {place: _bound_part(padded.get(name, buffers[name])) for place, name in bound.items()},
            spec_constants={c.id: c.value for c in launch.spec_constants},
            push_constants=push_constant_bytes(launch),
            options=chosen,
            compiled=kernel.compiled,
        )
        for name, octets in padded.items():
            array = buffers[name]
            if array.flags.writeable:
                array[...] = octets[: array.nbytes].view(array.dtype).reshape(array.shape)
        if times is not None:
            times.append(time.perf_counter() - start)
    if undefined is not None and undefined.report.findings:
        warnings.warn(UndefinedResultWarning(undefined.report), stacklevel=5)


WORD_BYTES = 4


def _in_whole_words(buffer: Array) -> Array:
    """Copies a buffer's bytes, padded with zeros to a whole word as on a device."""
    octets = np.zeros(-(-buffer.nbytes // WORD_BYTES) * WORD_BYTES, np.uint8)
    octets[: buffer.nbytes] = np.ascontiguousarray(buffer).reshape(-1).view(np.uint8)
    return octets


def _bound_part(buffer: Array) -> Array:
    """Returns the bytes that are bound for a buffer. They are never empty."""
    return buffer if buffer.nbytes else np.zeros(EMPTY_BYTES, np.uint8)


def _explore_mappings(
    program: Program,
    kernels: Mapping[str, Kernel],
    given: Buffers,
    own: Buffers,
    options: Options,
) -> None:
    """
    Runs a program with several maps from matrix components to invocations, and reports results that
    differ.

    The program is run as a whole, because a kernel may read fragments that another kernel packs.
    """
    from xdsl_spirv.interpreter.checks import Finding
    from xdsl_spirv.interpreter.checks.choices import mappings_of, sees_components

    checks = options.checks
    modules = [kernel.module for kernel in kernels.values()]
    op = next(filter(None, map(sees_components, modules)), None)
    if op is None or checks is None:
        return
    for mapping in mappings_of(modules, options.subgroup_size):
        if mapping == options.component_mapping:
            continue
        again = given | empty_buffers(program)
        again |= {b.name: given[b.name].copy() for b in program.manifest.states}
        plain = replace(options, checks=None, component_mapping=mapping)
        _dispatch_all(program, kernels, again, plain)
        for buffer in (*program.manifest.outputs, *program.manifest.states):
            if own[buffer.name].tobytes() == again[buffer.name].tobytes():
                continue
            finding = Finding(
                "CHOICE-01",
                op.name,
                f"the result {buffer.name!r} changes with the component mapping {mapping}",
                "make the result independent of an implementation's choice",
            )
            checks.record(finding, op)
