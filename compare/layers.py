"""
Finds the first layer of a program whose result differs from its definition.

The source is executed dispatch by dispatch on whole arrays. Every dispatch of the program is then
run separately on the reference contents of its buffers. Errors of earlier layers therefore do not
matter, and no tolerance grows with depth. The allowed error is an interval if every operation of
the dispatch has one (docs/numerics.md), otherwise the estimate for models (docs/onnx-models.md).
Packed operands and transposed weights have no reference. The device computes them, and an error in
them shows in the contraction that reads them.

If intermediate values of onnxruntime are given, the reference's results are compared with them,
too, and later layers start from them. This finds nodes that were imported or rewritten wrongly,
and stops their errors from spreading to later layers.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

from xdsl_spirv.compare.bounds import compare_result
from xdsl_spirv.compare.intervals import tolerances
from xdsl_spirv.compare.onnxruntime import Tolerance, difference, steps, tolerance_of
from xdsl_spirv.compiler.host import host_function
from xdsl_spirv.compiler.pipeline import PREPARED, linalg_to_spirv, split_after
from xdsl_spirv.dialects.schedule import DispatchOp
from xdsl_spirv.interpreter import Options
from xdsl_spirv.interpreter.host.machine import Host
from xdsl_spirv.passes.graph.update_states import UpdateStatesPass
from xdsl_spirv.passes.schedule.paths import PACK
from xdsl_spirv.progress import noted
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.given import bind_inputs
from xdsl_spirv.runtime.layers import Layer
from xdsl_spirv.runtime.manifest import Buffer, Dispatch, Manifest
from xdsl_spirv.runtime.modules import context, parse_text
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.targets import known

Execute = Callable[[Program, Mapping[str, Array]], Mapping[str, Array]]
"""A function that runs a program on the device under test."""


@dataclass(frozen=True)
class LayerComparison:
    """
    Comparison of a dispatch's result with the reference.

    - `share`: the largest ratio of the error to the allowed error.
    - `how`: source of the allowed error (`interval` or `estimate`).
    - `place`: index of the element with the largest ratio.
    - `tensor`: the model's tensor if the reference is compared with onnxruntime, None if a
      kernel's result is compared with the reference.
    """

    number: int
    layer: Layer
    buffer: str
    max_abs: float
    share: float
    how: str
    place: tuple[int, ...]
    actual: Any
    expected: Any
    tensor: str | None = None
    not_finite: int = 0
    """Number of elements of the kernel's result that are NaN or infinite."""

    @property
    def passed(self) -> bool:
        return self.share <= 1

    def _beside_onnxruntime(self, verdict: str) -> str:
        text = f"max abs error {self.max_abs:.3g} beside onnxruntime's {self.tensor!r}"
        if self.passed:
            return f"layer {self.number}: {text}, {verdict}: {self.layer.name}"
        return (
            f"the model differs at layer {self.number}: {text} is {self.share:.3g} times its "
            f"{self.how}; at {list(self.place)} it is {self.actual} instead of {self.expected}: "
            "its import or a rewrite is wrong; no kernel took part in this comparison\n"
            f"  node:     {self.layer.name}\n"
            f"  dispatch: {self.number}, {self.layer.computes}\n"
            f"  kernel:   {self.layer.entry_point}, path {self.layer.path}"
        )

    def __str__(self) -> str:
        verdict = f"{self.share:.2%} of its {self.how}" if self.passed else "BEYOND"
        if self.tensor is not None:
            return self._beside_onnxruntime(verdict)
        text = (
            f"layer {self.number} ({self.layer.path}): max abs error {self.max_abs:.3g}, {verdict}"
        )
        if self.passed:
            return f"{text}: {self.layer.name}"
        return (
            f"layer {self.number} differs: max abs error {self.max_abs:.3g} is {self.share:.3g} "
            f"times its {self.how}; at {list(self.place)} it is {self.actual} instead of "
            f"{self.expected}\n"
            f"  node:     {self.layer.name}\n"
            f"  dispatch: {self.number}, {self.layer.computes}\n"
            f"  kernel:   {self.layer.entry_point}, path {self.layer.path}, "
            f"{self.layer.schedule}"
        )


def compare_layers(
    program: Program,
    inputs: Mapping[str, Array],
    execute: Execute,
    target: str | None = None,
    theirs: Mapping[tuple[int, int], tuple[str, Array]] | None = None,
) -> Generator[LayerComparison]:
    """
    Runs each dispatch of a program separately and yields the comparison of each result with the
    reference.

    `target` is the file of a target without a known name. `theirs` maps (layer index, result
    index) to the names and values of the model's tensors. Raises `ProgramError` for a program
    without source or without descriptions of its layers.
    """
    program = program.function().at(inputs)
    references = _references(program, target or known(program.manifest.target))
    machine = Host(references.module, Options(), launches=False)
    values: dict[str, Array] = dict(bind_inputs(program, inputs)) | program.weights
    values |= program.first_values()
    given = [values[name] for name in program.manifest.arguments]
    block = references.function.body.block
    arguments: dict[SSAValue, Any] = dict(zip(block.args, given, strict=True))
    steps = _results(machine, references.function, arguments)
    carried = _Carried()
    dispatches = noted("comparing layers", program.manifest.dispatches, lambda d: d.entry_point)
    for number, dispatch in enumerate(dispatches):
        layer = program.layers[number]
        alone = single(program, number)
        alone.weights |= {b.name: values[b.name] for b in alone.manifest.states}
        results = execute(alone, {b.name: values[b.name] for b in alone.manifest.inputs})
        if layer.path == PACK or _turns_a_weight(program, number):
            values |= results
            continue
        op, read, expected = next(steps)
        names = [b.buffer for b in dispatch.bindings][-layer.results :]
        tolerance = carried.through(op)
        for position, (name, truth) in enumerate(zip(names, expected, strict=True)):
            shaped = results[name].reshape(truth.shape)
            yield _compare_layer(number, layer, name, shaped, truth, op, read, position)
            own = (theirs or {}).get((number, position))
            if own is not None and own[1].shape == truth.shape and own[1].dtype == truth.dtype:
                interval = partial(_allowed_error, op, read, truth, position)
                yield _compare_tensor(number, layer, name, truth, own, tolerance, interval)
                # Later layers start from onnxruntime's value, so that errors do not add up.
                carried.known(op.outputs[position])
                # The copy has the same memory layout, because numpy's sums depend on the layout.
                truth = np.empty_like(truth)
                np.copyto(truth, own[1])
                arguments[op.outputs[position]] = truth
            buffer = program.manifest.buffer(name)
            values[name] = truth.view(results[name].dtype).reshape(buffer.sizes)


def _turns_a_weight(program: Program, number: int) -> bool:
    """
    True if a dispatch only copies a weight to another layout, and runs once for all later runs of
    the program.
    """
    dispatch, layer = program.manifest.dispatches[number], program.layers[number]
    made = program.manifest.buffer(dispatch.bindings[-1].buffer)
    return dispatch.once and layer.computes == "copy" and made.kind == "temporary"


class _Carried:
    """Errors of values relative to their largest elements, propagated through dispatches."""

    def __init__(self) -> None:
        self._of: dict[SSAValue, Tolerance] = {}

    def of(self, value: SSAValue) -> Tolerance:
        """
        Returns the error of a value. The error of a value outside dispatches is the largest error
        of its operands.
        """
        if value in self._of or isinstance(value.owner, Block):
            return self._of.get(value, NONE)
        tolerances = [self.of(operand) for operand in value.owner.operands]
        return max(tolerances, key=lambda tolerance: tolerance.relative, default=NONE)

    def through(self, op: DispatchOp) -> Tolerance:
        """
        Computes and stores the error of a dispatch's results, including the errors of its operands.
        Returns the error.
        """
        own = tolerance_of(op)
        held = max(
            (self.of(v) for v in op.operands),
            key=lambda tolerance: tolerance.relative,
            default=NONE,
        )
        quantized = held.quantized + own.quantized
        plain = sum(t.relative - steps(t.quantized) for t in (held, own))
        carried = Tolerance(
            plain + steps(quantized),
            held.contractions + own.contractions,
            held.others + own.others,
            quantized,
        )
        for result in op.outputs:
            self._of[result] = carried
        return carried

    def known(self, result: SSAValue) -> None:
        """Sets a result's error to zero, because onnxruntime's value replaces the result."""
        self._of[result] = NONE


NONE = Tolerance(0.0, 0, 0, 0)

COARSE = 2.0**-8
"""Error, relative to the largest element, above which a node is reported as wrong."""


def _compare_tensor(
    number: int,
    layer: Layer,
    name: str,
    truth: Array,
    own: tuple[str, Array],
    tolerance: Tolerance,
    interval: Callable[[], Array | None],
) -> LayerComparison:
    """
    Compares the reference's result `truth` with onnxruntime's, which has rounding errors, too.
    `own` is the model's tensor and onnxruntime's value of it; `tolerance` is the estimated error.

    An estimate does not cover differences of large numbers. Elements beyond the estimate are
    therefore accepted within twice the interval, or within `COARSE` if there is no interval. The
    aim is to find wrong nodes.
    """
    tensor, theirs = own
    rough = difference(name, truth, theirs, tolerance)
    allowed, how = np.full(theirs.shape, rough.allowed), "estimate"
    if not rough.passed and theirs.dtype.kind == "f":
        wide, how = interval(), "interval"
        if wide is None:
            largest = float(np.abs(theirs[np.isfinite(theirs)]).max(initial=0.0))
            wide, how = np.full(theirs.shape, COARSE * largest), "coarse limit"
        allowed = np.maximum(allowed, 2 * wide + rough.allowed)
    return _compare(number, layer, name, truth, theirs, allowed, how, tensor)


def _compare(
    number: int,
    layer: Layer,
    name: str,
    computed: Array,
    truth: Array,
    allowed: Array,
    how: str,
    tensor: str | None = None,
) -> LayerComparison:
    found = compare_result(name, computed, truth, allowed)
    place = found.place
    actual, wanted = (computed[place], truth[place]) if truth.size else (None, None)
    return LayerComparison(
        *(number, layer, name, found.max_abs, found.share, how, place, actual, wanted),
        tensor=tensor,
        not_finite=found.not_finite if tensor is None else 0,
    )


@dataclass(frozen=True)
class _References:
    module: ModuleOp
    function: FuncOp


def _references(program: Program, target: str) -> _References:
    """
    Compiles the program's source up to the pass that forms dispatches. Returns the module and its
    host function.
    """
    manifest = program.manifest
    if program.source is None or not program.layers:
        raise ProgramError(
            "the program contains no MLIR source to compare its layers with",
            "program.json",
            "compile it again",
        )
    ctx = context()
    module = parse_text(program.source, manifest.source or "source", ctx)
    _, lowering = split_after(linalg_to_spirv(target), PREPARED)
    forming, _ = split_after(lowering, UpdateStatesPass.name)
    for forming_pass in forming:
        forming_pass.apply(ctx, module)
    return _References(module, host_function(module, manifest.function))


Step = tuple[DispatchOp, list[Array], list[Array]]
"""(dispatch, its operands, its results)."""


def _results(machine: Host, function: FuncOp, env: dict[SSAValue, Any]) -> Generator[Step]:
    for op in function.body.block.ops:
        if isinstance(op, ReturnOp):
            return
        operands = [env[value] for value in op.operands]
        with machine.frame(env), np.errstate(all="ignore"):
            results = list(machine.evaluate(op, operands))
        env |= zip(op.results, results, strict=True)
        if isinstance(op, DispatchOp):
            yield op, operands, [np.asarray(result) for result in results]


def _compare_layer(
    number: int,
    layer: Layer,
    name: str,
    computed: Array,
    truth: Array,
    op: DispatchOp,
    read: list[Array],
    position: int,
) -> LayerComparison:
    allowed = _allowed_error(op, read, truth, position)
    how = "interval"
    if allowed is None:
        how = "estimate"
        rough = difference(name, computed, truth, tolerance_of(op))
        allowed = np.full(truth.shape, rough.allowed)
    return _compare(number, layer, name, computed, truth, allowed, how)


def _allowed_error(op: DispatchOp, read: list[Array], truth: Array, position: int) -> Array | None:
    """
    Returns each element's allowed error by interval arithmetic, or None if it is unknown. `read`
    are the dispatch's operands, `truth` is the exact result with index `position`.
    """
    try:
        return np.asarray(
            tolerances(_inline_dispatch(op, position), "main", read, [truth])[0], np.float64
        )
    except ProgramError:
        return None


def _inline_dispatch(op: DispatchOp, position: int) -> ModuleOp:
    """Returns a module whose host function computes one result of a dispatch on tensors."""
    outer = Block(arg_types=[value.type for value in op.inputs])
    copy = op.clone(dict(zip(op.inputs, outer.args, strict=True)))
    body = copy.body.detach_block(copy.body.block)
    last = body.last_op
    assert last is not None
    result = last.operands[position]
    last.detach()
    last.erase()
    body.add_op(ReturnOp(result))
    inputs = list(body.arg_types)
    return ModuleOp([FuncOp("main", (inputs, [result.type]), Region(body))])


def single(program: Program, number: int) -> Program:
    """
    Makes a program from one dispatch. Buffers that the dispatch reads become inputs, buffers that
    it writes become results.
    """
    manifest = program.manifest
    dispatch: Dispatch = replace(manifest.dispatches[number], once=False)
    names = list(dict.fromkeys(b.buffer for b in dispatch.bindings))
    written = [b.buffer for b in dispatch.bindings][-program.layers[number].results :]
    buffers = tuple(_alone(manifest.buffer(name), name in written) for name in names)
    kernels = tuple(k for k in manifest.kernels if k.name == dispatch.kernel)
    alone: Manifest = replace(
        manifest,
        arguments=tuple(b.name for b in buffers if b.kind == "input"),
        results=tuple(written),
        buffers=buffers,
        kernels=kernels,
        dispatches=(dispatch,),
        weights=None,
        source=None,
        memory=None,
    )
    return Program(alone, {dispatch.kernel: program.code[dispatch.kernel]})


def _alone(buffer: Buffer, is_written: bool) -> Buffer:
    """
    Returns a buffer for a program of one dispatch: an output if it is written, otherwise an input.
    A written state remains a state, whose initial contents the caller gives.
    """
    if buffer.kind == "state" and is_written:
        return replace(buffer, first=None)
    return replace(buffer, kind="output" if is_written else "input", offset=None, first=None)
