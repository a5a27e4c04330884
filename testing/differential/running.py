"""Runs a kernel on the interpreter, encodes it for a device, and compares two runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from xdsl_spirv.dialects.spirv.structure import ModuleOp as SPIRVModuleOp
from xdsl_spirv.interpreter import Options, dispatch
from xdsl_spirv.interpreter.options import Rounding
from xdsl_spirv.passes.spirv.update_vce import UpdateVCEPass
from xdsl_spirv.runtime.modules import context, parse_text
from xdsl_spirv.serialization.encode.encoder import encode
from xdsl_spirv.serialization.encode.target import find_module
from xdsl_spirv.testing.differential.kernel import Kernel, Output
from xdsl_spirv.testing.differential.legal import spacing, subnormal, within
from xdsl_spirv.testing.differential.types import Array
from xdsl_spirv.testing.dispatches import Dispatch

Buffers = dict[int, Array]


@cache
def _context() -> Context:
    return context()


def module_of(kernel: Kernel) -> SPIRVModuleOp:
    """Returns the kernel's module with version, capabilities and extensions."""
    module: ModuleOp = parse_text(kernel.text(), ctx=_context())
    UpdateVCEPass().apply(_context(), module)
    return find_module(module)


def buffers_of(kernel: Kernel) -> Buffers:
    """Returns copies of the kernel's buffers by index."""
    text = kernel.text()
    return {
        i: buffer.array.copy() for i, buffer in enumerate(kernel.buffers) if f"@b{i} bind" in text
    }


def interpret(
    kernel: Kernel,
    module: SPIRVModuleOp | None = None,
    subgroup_size: int | None = None,
    rounding: Rounding = "nearest-even",
) -> Buffers:
    """Returns the buffers after a run on the interpreter with a given subgroup size."""
    buffers = buffers_of(kernel)
    dispatch(
        module or module_of(kernel),
        "main",
        kernel.machine.groups,
        {(0, i): array for i, array in buffers.items()},
        spec_constants=kernel.spec_constants,
        push_constants=kernel.push_constants,
        options=Options(
            subgroup_size=subgroup_size or kernel.machine.subgroup, bfloat16_rounding=rounding
        ),
    )
    return buffers


def choices(kernel: Kernel, module: SPIRVModuleOp | None = None) -> list[Buffers]:
    """
    Returns the buffers of runs with other legal behaviour: here, bfloat16 rounding toward zero.
    """
    if "bf16" not in kernel.text():
        return []
    return [interpret(kernel, module, rounding="toward-zero")]


def job_of(kernel: Kernel, module: SPIRVModuleOp | None = None) -> Dispatch:
    """Returns the launch of the kernel as a job for a device."""
    return Dispatch(
        encode(module or module_of(kernel)),
        "main",
        kernel.machine.groups,
        {(0, i): array for i, array in buffers_of(kernel).items()},
        subgroup_size=kernel.machine.subgroup,
        spec_constants=kernel.spec_constants,
        push_constants=kernel.push_constants,
    )


@dataclass(frozen=True)
class Disagreement:
    """An output with an illegal difference. `index` is the position of its first wrong element."""

    kernel: Kernel
    output: Output
    index: tuple[int, ...]
    expected: object
    results: Array
    """The device's values of the whole output."""
    wrong: Array
    """Mask of the wrong elements."""

    def __str__(self) -> str:
        where = ", ".join(map(str, self.index))
        inputs = [self.kernel.buffers[i].array for i in self.output.operands]
        shown = "; ".join(str(_element(a, self.index)) for a in inputs)
        return (
            f"{self.kernel.family} {self.kernel.seed}: {self.output.what}: element [{where}] is "
            f"{self.results[self.index]} on the device, {self.expected} on the interpreter"
            f"{f' for {shown}' if shown else ''} ({self.wrong.sum()} elements differ; legal: "
            f"{self.output.legal.why})"
        )


def _element(array: Array, index: tuple[int, ...]) -> object:
    return array[index[0]].tolist() if index[0] < len(array) else None


def disagreements(
    kernel: Kernel,
    expected: Mapping[int, Array],
    results: Mapping[int, Array],
    others: Sequence[Mapping[int, Array]] = (),
) -> list[Disagreement]:
    """
    Returns every output with an illegal difference between two runs.

    `others` are the runs of `choices`. An output is also legal if it agrees completely with one of
    them.
    """
    differences: list[Disagreement] = []
    for output in kernel.outputs:
        if output.buffer not in expected:
            continue
        truth = _used(expected[output.buffer], output.used)
        result = _used(results[output.buffer], output.used)
        wrongs = [_wrong(kernel, output, result, run) for run in (expected, *others)]
        if all(wrong.any() for wrong in wrongs):
            first = tuple(map(int, np.argwhere(wrongs[0])[0]))
            differences.append(Disagreement(kernel, output, first, truth[first], result, wrongs[0]))
    return differences


def _wrong(kernel: Kernel, output: Output, result: Array, expected: Mapping[int, Array]) -> Array:
    truth = _used(expected[output.buffer], output.used)
    wrong = ~within(result, truth, _allowed_error(kernel, output, truth, expected))
    if output.legal.others is not None:
        wrong &= result != output.legal.others(*_operands(kernel, output))
    return wrong & _claimed_elements(kernel, output, truth.shape)


def _used(array: Array, used: int) -> Array:
    return array[..., :used] if array.ndim > 1 else array


def _claimed_elements(kernel: Kernel, output: Output, shape: tuple[int, ...]) -> Array:
    operands = [kernel.buffers[i].array for i in output.operands]
    claimed = np.ones(shape, bool)
    if output.legal.flush:
        for operand in operands:
            rows = ~subnormal(operand).reshape(len(operand), -1).any(axis=1)
            claimed &= rows.reshape(-1, *[1] * (len(shape) - 1))
    if output.legal.domain is not None:
        wide = _operands(kernel, output)
        claimed &= np.broadcast_to(output.legal.domain(*wide), shape)
    return claimed


def _operands(kernel: Kernel, output: Output) -> list[Array]:
    """Returns the operands in binary64 without padding, one row per invocation."""
    arrays = [kernel.buffers[i] for i in output.operands]
    return [
        buffer.array[:, : 3 if "<3x" in buffer.element else None].astype(np.float64)
        for buffer in arrays
    ]


def _allowed_error(
    kernel: Kernel, output: Output, truth: Array, buffers: Mapping[int, Array]
) -> Array:
    if truth.dtype.kind != "f":
        return np.zeros(truth.shape)
    flushed = float(np.finfo(truth.dtype).tiny) if output.legal.flush else 0.0
    if output.legal.bound is None:
        return np.full(truth.shape, flushed) if flushed else np.zeros(truth.shape)
    wide = truth.astype(np.float64)
    with np.errstate(all="ignore"):
        bound = output.legal.bound(wide, *_operands(kernel, output))
        return bound + spacing(wide, truth.dtype) + flushed
