"""
Every gpu.module becomes a spirv.module of the Vulkan memory model.

    gpu.func @f(%a: memref<4x8xf16, #spirv.storage_class<StorageBuffer>>) kernel ...
 ->
    spirv.GlobalVariable @f_arg_0 bind(0, 0) : !spirv.ptr<!spirv.struct<...>, StorageBuffer>
    spirv.func @f() "None" { ... }
    spirv.EntryPoint "GLCompute" @f, @f_arg_0, ...
    spirv.ExecutionMode @f "LocalSize", 128, 1, 1

Argument number i is descriptor set 0, binding i. Dynamic sizes of arguments, which `memref.dim`
asks for, and arguments of type `index` are push constants: `@f_sizes` says which. Loops are marked
DontUnroll where the target says `keep_loops`; quotients that are rounded to integers are corrected
where it does not say `exact_division`. Version, capabilities and extensions are left to
`spirv-update-vce`.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import gpu
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, Region
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from xdsl_spirv.dialects.spirv.enums import ExecutionMode, ExecutionModel, LoopControl
from xdsl_spirv.dialects.spirv.structure import (
    EntryPointOp,
    ExecutionModeOp,
    FuncOp,
    GlobalVariableOp,
)
from xdsl_spirv.dialects.spirv.structure import ModuleOp as SPIRVModuleOp
from xdsl_spirv.passes.analysis.target import TARGET, target_of
from xdsl_spirv.passes.emit.spirv import declare
from xdsl_spirv.passes.refusal import refuse
from xdsl_spirv.passes.spirv.kernel_code import PASS, DeviceHabits, KernelCode
from xdsl_spirv.passes.spirv.kernel_operations import handler_of


@dataclass(frozen=True)
class KernelToSPIRVPass(ModulePass):
    """Converts every gpu.module to a spirv.module, ready for `spirv-update-vce`."""

    name = PASS

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        device = DeviceHabits()
        if TARGET in op.attributes:
            target = target_of(op, self.name)
            control = LoopControl.DontUnroll if target.keep_loops else LoopControl.None_
            device = DeviceHabits(control, target.exact_division)
        for module in [inner for inner in op.body.block.ops if isinstance(inner, gpu.ModuleOp)]:
            Rewriter.replace_op(module, convert_module(module, device), [])


def convert_module(module: gpu.ModuleOp, device: DeviceHabits) -> SPIRVModuleOp:
    """The spirv.module, of the same name, of a gpu.module's kernels."""
    converted = SPIRVModuleOp([], sym_name=module.sym_name.data)
    block = converted.body.block
    entries: list[Operation] = []
    for kernel in module.body.block.ops:
        if not isinstance(kernel, gpu.FuncOp) or kernel.kernel is None:
            refuse(PASS, kernel, "a gpu.module may hold kernels only")
        function, entry = _kernel(kernel, converted, device)
        block.add_op(function)
        entries += entry
    # Built-ins first, by name: a kernel does not depend on which others stand in its module.
    variables = [op for op in block.ops if isinstance(op, GlobalVariableOp)]
    for variable in sorted(variables, key=_order):
        variable.detach()
        declare(converted, variable)
    block.add_ops(entries)
    return converted


def _order(variable: GlobalVariableOp) -> tuple[bool, str]:
    """Built-ins before a kernel's own variables, which stay as they are."""
    own = variable.built_in is None
    return own, "" if own else variable.sym_name.data


def _kernel(
    kernel: gpu.FuncOp, module: SPIRVModuleOp, device: DeviceHabits
) -> tuple[FuncOp, list[Operation]]:
    name = kernel.sym_name.data
    size = kernel.known_block_size
    if size is None:
        refuse(PASS, kernel, "the workgroup size is not known: add gpu.known_block_size")
    code = KernelCode(name, module, handler_of, device)
    block = kernel.body.blocks[0]
    for number, argument in enumerate(block.args):
        code.argument(number, argument, kernel)
    code.sizes(block, kernel)
    code.convert(block)
    function = FuncOp(name, ([], []), Region(code.entry))
    mode = ExecutionModeOp(name, ExecutionMode.LocalSize, [int(v) for v in size.get_values()])
    return function, [EntryPointOp(ExecutionModel.GLCompute, name, list(code.interface)), mode]
