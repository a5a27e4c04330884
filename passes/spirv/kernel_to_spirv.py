"""
Converts every gpu.module to a spirv.module of the Vulkan memory model.

    gpu.func @f(%a: memref<4x8xf16, #spirv.storage_class<StorageBuffer>>) kernel ...
 ->
    spirv.GlobalVariable @f_arg_0 bind(0, 0) : !spirv.ptr<!spirv.struct<...>, StorageBuffer>
    spirv.func @f() "None" { ... }
    spirv.EntryPoint "GLCompute" @f, @f_arg_0, ...
    spirv.ExecutionMode @f "LocalSize", 128, 1, 1

Argument i becomes descriptor set 0, binding i. Arguments of type `index`, and dynamic sizes that
`memref.dim` reads, become push constants, listed by `@f_sizes`. Loops are marked DontUnroll if the
target has `keep_loops`. Quotients that are rounded to integers are corrected unless the target has
`exact_division`. `spirv-update-vce` adds version, capabilities and extensions.

Accesses to shared memory are non-private, and barriers make earlier writes available and visible,
as the Vulkan memory model requires.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from xdsl.context import Context
from xdsl.dialects import arith, gpu, memref, scf, vector
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    ModuleOp,
    VectorType,
    i1,
)
from xdsl.ir import Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.scalars.values import Values, element_of
from xdsl_spirv.dialects.schedule import KEEP_LOOP, ElementPtrOp, FlatViewOp, YieldOp, memref_of
from xdsl_spirv.dialects.spirv.memory import MemoryOperand, pointer_type
from xdsl_spirv.dialects.spirv.structure import FuncOp
from xdsl_spirv.dialects.spirv.structure import ModuleOp as SPIRVModuleOp
from xdsl_spirv.passes import copy_with
from xdsl_spirv.passes.analysis.target import TARGET, target_of
from xdsl_spirv.passes.emit.kernel import OF_WORKGROUP_MEMORY, UNROLLED
from xdsl_spirv.passes.emit.spirv import declare
from xdsl_spirv.passes.spirv import kernel_scalars
from xdsl_spirv.passes.spirv.kernel_code import (
    PASS,
    Convert,
    DeviceHabits,
    KernelCode,
    refuse,
    stored_type,
)
from xdsl_spirv.passes.spirv.requirements import operations


@dataclass(frozen=True)
class KernelToSPIRVPass(ModulePass):
    """Converts every gpu.module to a spirv.module, ready for `spirv-update-vce`."""

    name = PASS

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        device = DeviceHabits()
        if TARGET in op.attributes:
            target = target_of(op, self.name)
            control = spv.LoopControl.DontUnroll if target.keep_loops else spv.LoopControl.None_
            device = DeviceHabits(control, target.exact_division)
        for module in [inner for inner in op.body.block.ops if isinstance(inner, gpu.ModuleOp)]:
            Rewriter.replace_op(module, convert_module(module, device), [])


def convert_module(module: gpu.ModuleOp, device: DeviceHabits) -> SPIRVModuleOp:
    """Converts a gpu.module of kernels to a spirv.module of the same name."""
    converted = SPIRVModuleOp([], sym_name=module.sym_name.data)
    block = converted.body.block
    entries: list[Operation] = []
    for kernel in module.body.block.ops:
        if not isinstance(kernel, gpu.FuncOp) or kernel.kernel is None:
            refuse(kernel, "a gpu.module may contain only kernels: move other operations out")
        functions, entry = _kernel(kernel, converted, device)
        block.add_ops(functions)
        entries += entry
    # Built-ins come first, by name, so that a kernel's text does not depend on other kernels of its
    # module.
    variables = [op for op in block.ops if isinstance(op, spv.GlobalVariableOp)]
    for variable in sorted(variables, key=_order):
        variable.detach()
        declare(converted, variable)
    block.add_ops(entries)
    return converted


def _order(variable: spv.GlobalVariableOp) -> tuple[bool, str]:
    """Returns a sort key: built-ins first, by name; then the kernels' variables, in their order."""
    own = variable.built_in is None
    return own, "" if own else variable.sym_name.data


def _kernel(
    kernel: gpu.FuncOp, module: SPIRVModuleOp, device: DeviceHabits
) -> tuple[list[FuncOp], list[Operation]]:
    """Builds a kernel's functions, and its entry point and execution modes."""
    name = kernel.sym_name.data
    size = kernel.known_block_size
    if size is None:
        refuse(kernel, "the workgroup size is not known: add gpu.known_block_size")
    code = KernelCode(name, module, handler_of, device)
    block = kernel.body.blocks[0]
    for number, argument in enumerate(block.args):
        code.argument(number, argument, kernel)
    code.sizes(block, kernel)
    code.shares_buffers = any(map(_orders_buffers, block.walk()))
    code.convert(block)
    function = FuncOp(name, ([], []), Region(code.entry))
    mode = spv.ExecutionModeOp(
        name, spv.ExecutionMode.LocalSize, [int(v) for v in size.get_values()]
    )
    functions = [function, *code.functions]
    return functions, [
        spv.EntryPointOp(spv.ExecutionModel.GLCompute, name, list(code.interface)),
        mode,
    ]


DIMENSIONS = {gpu.DimensionEnum.X: 0, gpu.DimensionEnum.Y: 1, gpu.DimensionEnum.Z: 2}

COPIED = operations(
    "CompositeConstruct CompositeExtract CompositeInsert Bitcast ControlBarrier SDot SUDot UDot "
    "KHR.CooperativeMatrixLoad KHR.CooperativeMatrixStore KHR.CooperativeMatrixMulAdd FAdd FSub "
    "FMul FNegate IAdd ISub IMul FConvert ConvertSToF ConvertUToF SConvert UConvert "
    "NV.CooperativeMatrixConvert"
)
"""
Operations of `spirv` that are copied: arithmetic on cooperative matrices, conversions of
vectors. They are listed by name, so that only used classes are imported.
"""

COPIED_MODULES = frozenset(
    f"xdsl_spirv.dialects.spirv.{family}" for family in ("atomic", "group", "rotate")
)
"""Modules whose instructions are all copied: of subgroups, and atomic ones."""


def extract(code: KernelCode, op: vector.ExtractOp) -> SSAValue:
    if op.dynamic_position:
        refuse(op, "the operation extracts at a dynamic position: use a constant position")
    return code.add(spv.CompositeExtractOp(code.value(op.vector), op.static_position.get_values()))


def broadcast(code: KernelCode, op: Operation) -> SSAValue | None:
    type = op.results[0].type
    assert isinstance(type, VectorType)
    if isinstance(op.operands[0].type, VectorType) or type.get_num_dims() != 1:
        refuse(op, "only a broadcast of a scalar to a vector of rank 1 is supported")
    construct = spv.CompositeConstructOp([code.value(op.operands[0])] * type.get_shape()[0], type)
    return code.add(construct)


def constant(code: KernelCode, op: Operation) -> SSAValue | None:
    value = op.properties["value"]
    if isinstance(value, IntegerAttr) and isinstance(value.type, IndexType):
        return code.number(value.value.data)
    if not isinstance(value, IntegerAttr | FloatAttr | DenseIntOrFPElementsAttr):
        refuse(op, f"the constant {value} is neither a scalar nor a vector")
    return code.constant(value)


def matrix_constant(code: KernelCode, op: Operation) -> SSAValue | None:
    value = op.properties["value"]
    assert isinstance(value, IntegerAttr | FloatAttr | DenseIntOrFPElementsAttr)
    return code.constant(value, op.results[0].type)


def built_in(which: spv.BuiltIn) -> Convert:
    """Returns the conversion to a built-in, or to a component if the operation has a dimension."""

    def convert(code: KernelCode, op: Operation) -> SSAValue:
        dimension = op.properties.get("dimension")
        component = DIMENSIONS[dimension.data] if isinstance(dimension, gpu.DimensionAttr) else None
        return code.built_in(which, component)

    return convert


def barrier(code: KernelCode, op: Operation) -> SSAValue | None:
    code.insert(spv.ControlBarrierOp(spv.Scope.Workgroup, spv.Scope.Workgroup, OF_WORKGROUP_MEMORY))


def _orders_buffers(op: Operation) -> bool:
    """True for a barrier that makes stores to buffers visible in the workgroup."""
    if not isinstance(op, spv.ControlBarrierOp):
        return False
    return spv.MemorySemantics.UniformMemory in op.memory_semantics.data


def flat_view(code: KernelCode, op: Operation) -> SSAValue | None:
    code.bases[op.results[0]] = code.bases[op.operands[0]]


def element_pointer(
    code: KernelCode, memory: SSAValue, indices: Sequence[SSAValue]
) -> spv.AccessChainOp:
    """Returns an access chain to a memref's element: row-major, inside the buffer's struct."""
    linear: SSAValue = code.number(0)
    shape = memref_of(memory).get_shape()
    for position, (size, index) in enumerate(zip(shape, indices, strict=True)):
        index = code.value(index)
        if position == 0:
            linear = index
            continue
        scaled = code.pure(spv.IMulOp, linear, code.number(size))
        linear = code.pure(spv.IAddOp, scaled, index)
    base = code.bases[memory]
    in_struct = pointer_type(base).storage_class.data == spv.StorageClass.StorageBuffer
    path = [code.number(0), linear] if in_struct else [linear]
    chain = spv.AccessChainOp(base, path)
    code.insert(chain)
    return chain


def _memory_operand(code: KernelCode, pointer: SSAValue) -> MemoryOperand | None:
    """
    Returns NonPrivatePointer for memory that invocations share: Workgroup memory, and buffers if
    the kernel has a barrier for them. Otherwise None.
    """
    is_workgroup = pointer_type(pointer).storage_class.data == spv.StorageClass.Workgroup
    if not (is_workgroup or code.shares_buffers):
        return None
    return MemoryOperand.of(spv.MemoryAccess.NonPrivatePointer)


def element_ptr(code: KernelCode, op: ElementPtrOp) -> SSAValue:
    return element_pointer(code, op.memref, op.indices).result


def load(code: KernelCode, op: memref.LoadOp) -> SSAValue:
    """Loads an element. A Boolean is a byte in memory."""
    pointer = element_pointer(code, op.memref, op.indices).result
    value = code.add(spv.LoadOp(pointer, memory=_memory_operand(code, pointer)))
    if element_of(op.results[0].type) == i1:
        v = Values(code, value.type)
        value = v.test(spv.INotEqualOp, value, v.number(0))
    return value


def store(code: KernelCode, op: memref.StoreOp) -> None:
    """Stores an element. A Boolean is a byte in memory, 0 or 1."""
    pointer = element_pointer(code, op.memref, op.indices).result
    value, type = code.value(op.value), op.value.type
    if element_of(type) == i1:
        v = Values(code, stored_type(type))
        value = v.select(value, v.number(1), v.number(0))
    code.insert(spv.StoreOp(pointer, value, memory=_memory_operand(code, pointer)))


def same(code: KernelCode, op: Operation) -> SSAValue | None:
    """Copies an operation of `spirv`, with converted operands. Returns its result."""
    copy = copy_with(op, code.operands(op))
    code.insert(copy)
    code.values |= zip(op.results, copy.results, strict=True)


def for_loop(code: KernelCode, loop: scf.ForOp) -> None:
    """Converts scf.for to spirv.mlir.loop."""
    arguments = loop.body.block.args

    def body(index: SSAValue, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
        for before, after in zip(arguments, (index, *carried), strict=True):
            after.name_hint = before.name_hint
            code.values[before] = after
        return code.convert(loop.body.block)

    for argument in arguments:
        code.type(argument.type, loop)
    bounds = code.value(loop.lb), code.value(loop.ub), code.value(loop.step)
    initial = [code.value(value) for value in loop.iter_args]
    control = (
        spv.LoopControl.DontUnroll if KEEP_LOOP in loop.attributes else code.device.loop_control
    )
    control = spv.LoopControl.Unroll if UNROLLED in loop.attributes else control
    results = code.loop(bounds, initial, body, spv.SLessThanOp, control)
    code.values |= zip(loop.results, results, strict=True)


def if_branch(code: KernelCode, branch: scf.IfOp) -> None:
    """Converts scf.if to spirv.mlir.selection."""
    types = [code.type(type, branch) for type in branch.result_types]
    regions = (branch.true_region, branch.false_region)
    arms = [partial(code.convert, region.block) if region.blocks else None for region in regions]
    results = code.choose(code.value(branch.cond), types, arms)
    code.values |= zip(branch.results, results, strict=True)


def nothing(code: KernelCode, op: Operation) -> SSAValue | None:
    """Writes nothing for a terminator, which the conversion of its parent operation handles."""


def return_(code: KernelCode, op: Operation) -> SSAValue | None:
    code.insert(spv.ReturnOp())


HANDLERS: dict[type[Operation], Convert] = {
    **kernel_scalars.HANDLERS,
    arith.ConstantOp: constant,
    vector.ExtractOp: extract,
    vector.BroadcastOp: broadcast,
    spv.ConstantOp: matrix_constant,
    gpu.BlockIdOp: built_in(spv.BuiltIn.WorkgroupId),
    gpu.GridDimOp: built_in(spv.BuiltIn.NumWorkgroups),
    gpu.ThreadIdOp: built_in(spv.BuiltIn.LocalInvocationId),
    gpu.SubgroupIdOp: built_in(spv.BuiltIn.SubgroupId),
    gpu.LaneIdOp: built_in(spv.BuiltIn.SubgroupLocalInvocationId),
    gpu.SubgroupSizeOp: built_in(spv.BuiltIn.SubgroupSize),
    gpu.BarrierOp: barrier,
    gpu.ReturnOp: return_,
    memref.AllocOp: KernelCode.allocation,
    memref.AllocaOp: KernelCode.allocation,
    memref.DimOp: KernelCode.size,
    memref.LoadOp: load,
    memref.StoreOp: store,
    FlatViewOp: flat_view,
    ElementPtrOp: element_ptr,
    scf.ForOp: for_loop,
    scf.IfOp: if_branch,
    scf.YieldOp: nothing,
    YieldOp: nothing,
}
"""Conversions by exact type, so that each operation takes one dictionary lookup."""


FUNCTIONS = ("schedule.each_element", "schedule.reduce_rows")
"""Operations with a region that computes a matrix's elements. They occur in few kernels."""


def handler_of(kind: type[Operation]) -> Convert | None:
    """Returns the conversion of a class of operations; None if there is none."""
    if kind.name in COPIED or kind.__module__ in COPIED_MODULES:
        return same
    if kind.name in FUNCTIONS:
        from xdsl_spirv.passes.spirv import kernel_functions

        return kernel_functions.HANDLERS[kind]
    if kind not in HANDLERS and kind.name.startswith(("arith.", "math.")):
        # Imported late: most kernels use none of GLSL.std.450's many instructions.
        from xdsl_spirv.passes.spirv import kernel_integers

        if kind in kernel_integers.HANDLERS:
            return kernel_integers.HANDLERS[kind]
        from xdsl_spirv.passes.spirv import kernel_math

        return kernel_math.HANDLERS.get(kind)
    return HANDLERS.get(kind)
