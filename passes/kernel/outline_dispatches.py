"""
Moves each dispatch out of the host function into a kernel that the host launches.

    %r = schedule.dispatch(%A, %B) {         %a = bufferization.to_buffer %A
      ^bb0(%x, %y): ...                ->    %d = memref.alloc()
      schedule.yield %c }                    gpu.launch_func @kernels::@matmul args(%a, %b, %d)
                                             %r = bufferization.to_tensor %d

In the kernel, a `schedule.collective` contains the dispatch's operations on buffers. The kernel
arguments are the inputs, then the results. Intermediate values become a `memref.alloc` that exists
in registers only. Equal dispatches share a kernel. A scheduled contraction outside of a dispatch
is first enclosed in one.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import arith, bufferization, gpu, memref
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    IndexType,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
)
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from xdsl_spirv.dialects.schedule import CONSIDERED, SCHEDULE, DispatchOp
from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, is_dynamic, static
from xdsl_spirv.passes import NotPossible, refuse
from xdsl_spirv.passes.analysis.contraction import NotAContraction, contraction_of
from xdsl_spirv.passes.analysis.linalg_code import tensor_type
from xdsl_spirv.passes.analysis.sizes import SizeCode, extent
from xdsl_spirv.passes.analysis.target import target_of
from xdsl_spirv.passes.graph.form_dispatches import form_contraction
from xdsl_spirv.passes.kernel.kernel_body import KernelBody, buffer_type
from xdsl_spirv.passes.schedule.kinds import KernelPlan, ScheduleDoesNotFit, plan_of, root_of
from xdsl_spirv.targets import Target

KERNELS = "kernels"
"""Name of the gpu.module that contains the kernels."""


@dataclass(frozen=True)
class OutlineDispatchesPass(ModulePass):
    """Moves scheduled dispatches into a gpu.module and launches them from the host."""

    name = "outline-dispatches"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = target_of(op, self.name)
        for root in [inner for inner in op.walk() if SCHEDULE in inner.attributes]:
            self._enclose(root)
        for inner in op.walk():
            inner.attributes.pop(CONSIDERED, None)
        kernels = _Kernels()
        for dispatch in [inner for inner in op.walk() if isinstance(inner, DispatchOp)]:
            self._outline(dispatch, target, kernels)
        if kernels.functions:
            op.attributes["gpu.container_module"] = UnitAttr()
            op.body.block.add_op(
                gpu.ModuleOp.create(
                    properties={"sym_name": StringAttr(KERNELS)},
                    regions=[Region(Block(kernels.functions))],
                )
            )

    def _outline(self, dispatch: DispatchOp, target: Target, kernels: _Kernels) -> None:
        root = root_of(dispatch)
        if root is None:
            refuse(
                self.name, dispatch, "the dispatch has no scheduled operation: run assign-schedule"
            )
        try:
            plan = plan_of(root, target)
            body = _body_of(dispatch, plan)
            grid = body.grid_of(plan)
        except (NotAContraction, ScheduleDoesNotFit) as error:
            refuse(self.name, root, str(error))
        except NotPossible as error:
            refuse(self.name, error.op, str(error))
        name = kernels.name_of(plan, body, grid)
        _launch(dispatch, body, name, (*grid, plan.invocations, 1, 1))

    def _enclose(self, root: Operation) -> None:
        if isinstance(root, DispatchOp) or isinstance(root.parent_op(), DispatchOp):
            return
        if not isinstance(root, LinalgStructuredOperation) or not root.res:
            refuse(
                self.name,
                root,
                "the operation has a schedule, so it must be a contraction of tensors",
            )
        try:
            form_contraction(contraction_of(root), alone=True)
        except NotAContraction as error:
            refuse(self.name, root, str(error))


def _body_of(dispatch: DispatchOp, plan: KernelPlan) -> KernelBody:
    """Builds the kernel's region: a `LoopsBody` for kernels with loops, else a `KernelBody`."""
    if not plan.has_loops:
        return KernelBody(dispatch, plan.product)
    from xdsl_spirv.passes.loops.body import LoopsBody

    return LoopsBody(dispatch, plan.product)


class _Kernels:
    """The kernels that were created so far. Equal dispatches share a kernel."""

    def __init__(self) -> None:
        self.functions: list[Operation] = []
        self._known: dict[tuple[object, ...], list[gpu.FuncOp]] = {}
        self._taken: set[str] = set()

    def name_of(self, plan: KernelPlan, body: KernelBody, grid: Sequence[Size]) -> str:
        """Returns the name of the kernel with this body; adds the kernel if it is new."""
        block = body.block
        # Bodies can only be equal if their dynamic sizes print equally.
        sizes = f"{grid}, {plan.invocations}"
        key = (*block.arg_types, sizes, *(op.name for op in block.walk()))
        for other in self._known.get(key, []):
            from xdsl_spirv.upstream.equality import is_same

            if is_same(other.body, body.region):
                return other.sym_name.data
        # The original name of another kernel may end in a number.
        name = plan.kernel_name
        names = (f"{name}_{number}" if number else name for number in itertools.count())
        free = next(candidate for candidate in names if candidate not in self._taken)
        self._taken.add(free)
        function = gpu.FuncOp(
            free,
            (list(block.arg_types), []),
            body.region,
            kernel=True,
            known_block_size=(plan.invocations, 1, 1),
            known_grid_size=None if any(map(is_dynamic, grid)) else static(grid),
        )
        self._known.setdefault(key, []).append(function)
        self.functions.append(function)
        return free


def _launch(dispatch: DispatchOp, body: KernelBody, name: str, sizes: Sequence[Size]) -> None:
    """Launches a kernel; `sizes` are the numbers of workgroups and of invocations."""
    given = zip(dispatch.body.block.args, dispatch.inputs, strict=True)
    code = SizeCode(Builder(InsertPoint.before(dispatch)).insert, dict(given))
    buffers: list[Operation] = [
        bufferization.ToBufferOp.create(operands=[value], result_types=[buffer_type(value.type)])
        for value in body.inputs
    ]
    results = [
        _result(dispatch, number, value, code) for number, value in enumerate(dispatch.yielded)
    ]
    static_sizes = sorted({size for size in sizes if not is_dynamic(size)})
    constants = {size: arith.ConstantOp(IntegerAttr(size, IndexType())) for size in static_sizes}
    numbers = [code.value(size) if is_dynamic(size) else constants[size].result for size in sizes]
    arguments: list[SSAValue | Operation] = [*buffers, *results, *body.numbers]
    launch = gpu.LaunchFuncOp(
        SymbolRefAttr(KERNELS, [name]), numbers[:3], numbers[3:], kernelOperands=arguments
    )
    launch.location = dispatch.location
    tensors = [bufferization.ToTensorOp(result.results[0], restrict=True) for result in results]
    Rewriter.replace_op(
        dispatch,
        [*buffers, *results, *constants.values(), launch, *tensors],
        [tensor.results[0] for tensor in tensors],
    )


def _result(dispatch: DispatchOp, number: int, value: SSAValue, code: SizeCode) -> Operation:
    """Allocates the result's memory, or reuses the operand that the result updates."""
    type = buffer_type(value.type)
    if number not in dispatch.updates:
        return memref.AllocOp(_sizes(dispatch, value, code), (), type)
    updated = dispatch.inputs[dispatch.updates[number]]
    return bufferization.ToBufferOp.create(operands=[updated], result_types=[type])


def _sizes(dispatch: DispatchOp, value: SSAValue, code: SizeCode) -> list[SSAValue]:
    shape = tensor_type(value).get_shape()
    sizes = {n: extent(value, n) for n, size in enumerate(shape) if size == DYNAMIC_INDEX}
    for dimension, size in sizes.items():
        asked = size.extents if is_dynamic(size) else ()
        if not all(isinstance(extent.value, BlockArgument) for extent in asked):
            cause = f"the size of result dimension {dimension} is unknown before the kernel runs"
            refuse(OutlineDispatchesPass.name, dispatch, cause)
    return [code.value(size) for size in sizes.values()]
