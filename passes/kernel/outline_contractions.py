"""
Each scheduled contraction leaves the host function and becomes a kernel that the host launches.

    %0 = linalg.fill ins(%cst) outs(%e)      %a = bufferization.to_buffer %A
    %1 = linalg.generic ins(%A, %B)     ->   %d = memref.alloc()
           outs(%0)                          gpu.launch_func @kernels::@matmul args(%a, %b, %d)
                                             %1 = bufferization.to_tensor %d

In the kernel the contraction stands in a `schedule.collective` on the kernel's buffers: A, B, the
initial value where it is read, the result. An initial value that is known to be zero is not read:
the kernel fills instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects import arith, bufferization, gpu, linalg, memref, tensor
from xdsl.dialects.builtin import (
    AnyFloat,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    ModuleOp,
    StringAttr,
    SymbolRefAttr,
    TensorType,
    UnitAttr,
)
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.utils.hints import isa

from xdsl_spirv.dialects.schedule import SCHEDULE, CollectiveOp, ContractionAttr, PaddedViewOp
from xdsl_spirv.dialects.spirv.attributes import StorageClassAttr
from xdsl_spirv.dialects.spirv.enums import StorageClass
from xdsl_spirv.passes.constants import is_zero
from xdsl_spirv.passes.refusal import refuse
from xdsl_spirv.passes.schedule.contraction import (
    Contraction,
    NotAContraction,
    canonical_form,
    contraction_of,
    shape_of,
    storage,
)
from xdsl_spirv.passes.schedule.fit import ScheduleDoesNotFit, check
from xdsl_spirv.passes.schedule.plan import Plan, plan
from xdsl_spirv.passes.schedule.target import target_of

KERNELS = "kernels"
"""The gpu.module that holds the kernels."""

_ABSORBED = (linalg.ops.FillOp, tensor.EmptyOp, tensor.PadOp, arith.ConstantOp)
"""What makes an initial value or a padding that the kernel does itself."""

STORAGE_BUFFER = StorageClassAttr(StorageClass.StorageBuffer)


@dataclass(frozen=True)
class OutlineContractionsPass(ModulePass):
    """Moves scheduled contractions into a gpu.module and launches them from the host."""

    name = "outline-contractions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = target_of(op, self.name)
        kernels = _Kernels()
        roots = [each for each in op.walk() if SCHEDULE in each.attributes]
        for root in roots:
            schedule = root.attributes[SCHEDULE]
            if not isinstance(root, LinalgStructuredOperation) or not root.res:
                refuse(self.name, root, "only a contraction of tensors can be outlined")
            if not isinstance(schedule, ContractionAttr):
                refuse(self.name, root, f"{schedule} is not a #schedule.contraction")
            try:
                made = plan(contraction_of(root), schedule, target)
                check(made)
            except (NotAContraction, ScheduleDoesNotFit) as error:
                refuse(self.name, root, str(error))
            _launch(made, kernels)
        if kernels.functions:
            op.attributes["gpu.container_module"] = UnitAttr()
            op.body.block.add_op(
                gpu.ModuleOp.create(
                    properties={"sym_name": StringAttr(KERNELS)},
                    regions=[Region(Block(kernels.functions))],
                )
            )


class _Kernels:
    """The kernels made so far; equal contractions share one."""

    def __init__(self) -> None:
        self.functions: list[Operation] = []
        self._names: dict[tuple[object, ...], str] = {}

    def name_of(self, made: Plan, zero: bool) -> str:
        """The kernel that computes it, written if there is none yet."""
        contraction = made.contraction
        key = (
            contraction.types,
            contraction.sizes,
            contraction.maps,
            contraction.layouts,
            made.schedule,
            zero,
        )
        name = self._names.get(key)
        if name is None:
            name = _name(contraction)
            taken = sum(each.startswith(name) for each in self._names.values())
            name += f"_{taken}" if taken else ""
            self._names[key] = name
            self.functions.append(_kernel(name, made, zero))
        return name


def _buffer(value: SSAValue, space: Attribute | None = None) -> MemRefType:
    type = value.type
    assert isa(type, TensorType)
    if space is None:
        return MemRefType(type.element_type, type.get_shape())
    return MemRefType(type.element_type, type.get_shape(), memory_space=space)


def _name(contraction: Contraction) -> str:
    """`matmul_MxNxK`, `batch_matmul_BxMxNxK`, `convolution_MxNxK`."""
    kind = "convolution" if contraction.is_convolution else "matmul"
    sizes = [contraction.m, contraction.n, contraction.k]
    if contraction.batch > 1:
        kind, sizes = f"batch_{kind}", [contraction.batch, *sizes]
    return f"{kind}_{'x'.join(map(str, sizes))}"


def _operand(value: SSAValue, argument: SSAValue) -> tuple[list[Operation], SSAValue]:
    """What stands for an operand in the kernel: its buffer, with zeros around it if need be."""
    stored, low = storage(value)
    if stored is value:
        return [], argument
    sizes = zip(shape_of(value), shape_of(stored), low, strict=True)
    view = PaddedViewOp(argument, low, [padded - size - before for padded, size, before in sizes])
    view.result.name_hint = f"{argument.name_hint}_padded"
    return [view], view.result


def _kernel(name: str, made: Plan, zero: bool) -> gpu.FuncOp:
    contraction = made.contraction
    inputs = [storage(value)[0] for value in (contraction.a, contraction.b)]
    values = [*inputs, *([] if zero else [contraction.init])]
    types = [_buffer(value, STORAGE_BUFFER) for value in (*values, contraction.init)]
    block = Block(arg_types=types)
    args = block.args
    for arg, hint in zip(args, ("a", "b", "d") if zero else ("a", "b", "c", "d"), strict=True):
        arg.name_hint = hint
    start = _fill(args[-1]) if zero else [linalg.ops.CopyOp([args[2]], [args[3]], [])]
    views_a, a = _operand(contraction.a, args[0])
    views_b, b = _operand(contraction.b, args[1])
    root = canonical_form(contraction, a, b, args[-1])
    root.attributes[SCHEDULE] = made.schedule
    block.add_ops([CollectiveOp([*start, *views_a, *views_b, root]), gpu.ReturnOp([])])
    return gpu.FuncOp(
        name,
        (types, []),
        Region(block),
        kernel=True,
        known_block_size=(made.invocations, 1, 1),
        known_grid_size=made.grid,
    )


def _fill(result: SSAValue) -> list[Operation]:
    type = result.type
    assert isa(type, MemRefType)
    element = type.element_type
    integer = isinstance(element, IntegerType)
    zero = arith.ConstantOp(
        IntegerAttr(0, element) if integer else FloatAttr(0.0, cast(AnyFloat, element))
    )
    return [zero, linalg.ops.FillOp([zero.result], [result], [])]


def _launch(made: Plan, kernels: _Kernels) -> None:
    """Replace the contraction by buffers and a launch."""
    contraction, root = made.contraction, made.contraction.op
    init = contraction.init
    zero = is_zero(init)
    name = kernels.name_of(made, zero)
    inputs = [contraction.a, contraction.b]
    values = [*(storage(value)[0] for value in inputs), *([] if zero else [init])]
    buffers: list[Operation] = [
        bufferization.ToBufferOp.create(operands=[value], result_types=[_buffer(value)])
        for value in values
    ]
    result = memref.AllocOp((), (), _buffer(init))
    sizes = [*made.grid, made.invocations, 1, 1]
    constants = {size: arith.ConstantOp(IntegerAttr(size, IndexType())) for size in set(sizes)}
    dims = [constants[size] for size in sizes]
    launch = gpu.LaunchFuncOp(
        SymbolRefAttr(KERNELS, [name]),
        dims[:3],
        dims[3:],
        kernelOperands=[*buffers, result],
    )
    tensor_op = bufferization.ToTensorOp(result, restrict=True)
    ordered = [constants[size] for size in sorted(constants)]
    Rewriter.replace_op(root, [*buffers, result, *ordered, launch, tensor_op])
    for value in (*inputs, *([init] if zero else [])):
        _erase_unused(value)


def _erase_unused(value: SSAValue) -> None:
    """Erase what made the value, and what made that, as far as nobody else uses it."""
    op = value.owner
    if not isinstance(op, _ABSORBED) or any(result.first_use for result in op.results):
        return
    operands = list(op.operands)
    op.detach()
    op.erase()
    for operand in operands:
        _erase_unused(operand)
