"""
`spirv-share-kernels`: merges kernels that differ only in constants, which become push constants.

    gpu.launch_func @f::@f ...       %c = spirv.Constant 0.25 : f32
    gpu.launch_func @g::@g ...       %c = spirv.Constant 0.5 : f32
 ->
    gpu.launch_func @f::@f ... {schedule.numbers = [0.25 : f32]}
    gpu.launch_func @f::@f ... {schedule.numbers = [0.5 : f32]}
    spirv.GlobalVariable @f_numbers {schedule.numbers} : !spirv.ptr<!spirv.struct<(f32 [0]), Block>,
                                                                    PushConstant>

Many layers of a network differ only in constants: quantized layers in scales and zero points,
other layers only in the number of workgroups. So drivers compile fewer kernels, and programs store
fewer. A constant that is equal in all kernels stays a constant. Constants that differ become
members of a block of push constants; constants that are equal to each other in every kernel share
a member. `kernel_template` finds the constants that may differ. Kernels with dynamic sizes already
have a block of push constants and are merged only if they are equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import gpu
from xdsl.dialects.builtin import ArrayAttr, SymbolRefAttr, VectorType, f32, i8, i32
from xdsl.dialects.builtin import ModuleOp as BuiltinModuleOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from xdsl_spirv.dialects.schedule.push_constants import NUMBER_BYTES, NUMBERS, mark_numbers
from xdsl_spirv.dialects.spirv.composite import CompositeConstructOp
from xdsl_spirv.dialects.spirv.constants import ConstantOp
from xdsl_spirv.dialects.spirv.control_flow import enclosing_function
from xdsl_spirv.dialects.spirv.conversion import SConvertOp
from xdsl_spirv.dialects.spirv.enums import Decoration, StorageClass
from xdsl_spirv.dialects.spirv.memory import AccessChainOp, LoadOp, VariableOp
from xdsl_spirv.dialects.spirv.module import ModuleOp
from xdsl_spirv.dialects.spirv.structure import EntryPointOp, FuncOp, GlobalVariableOp, entry_points
from xdsl_spirv.dialects.spirv.types import PointerType, StructType
from xdsl_spirv.passes.emit.spirv import SpirvEmitter, declare
from xdsl_spirv.passes.spirv.kernel_template import KernelTemplate, Number, template_of
from xdsl_spirv.passes.spirv.split_entry_points import kernel_of

NAME = "spirv-share-kernels"

MOST_NUMBERS = 32
"""Number of 32-bit push constants that every Vulkan device supports (128 bytes)."""


@dataclass(frozen=True)
class ShareKernelsPass(ModulePass):
    """Merges kernels that differ only in constants; the constants become push constants."""

    name = NAME

    def apply(self, ctx: Context, op: BuiltinModuleOp) -> None:
        launches: dict[tuple[str, str], list[gpu.LaunchFuncOp]] = {}
        for launch in op.walk():
            if isinstance(launch, gpu.LaunchFuncOp):
                launches.setdefault(kernel_of(launch), []).append(launch)
        groups: dict[tuple[object, ...], list[_Kernel]] = {}
        for module in [inner for inner in op.body.block.ops if isinstance(inner, ModuleOp)]:
            entries = list(entry_points(module))
            if len(entries) != 1 or module.sym_name is None:
                continue
            entry = entries[0].fn.string_value()
            calls = launches.get((module.sym_name.data, entry), [])
            if calls:
                kernel = _Kernel(module, entry, calls, template_of(module, entry))
                groups.setdefault((_has_block(module), *kernel.template.key), []).append(kernel)
        for group in groups.values():
            if len(group) > 1:
                _share(group)


@dataclass
class _Kernel:
    """A module of one entry point, its launches, and its template."""

    module: ModuleOp
    entry: str
    launches: list[gpu.LaunchFuncOp]
    template: KernelTemplate


def _has_block(module: ModuleOp) -> bool:
    return any(
        isinstance(op, GlobalVariableOp) and op.type.storage_class.data == StorageClass.PushConstant
        for op in module.body.block.ops
    )


def _share(group: Sequence[_Kernel]) -> None:
    """Merges the kernels of a group, if push constants have room for the constants that differ."""
    first = group[0]
    if _has_block(first.module):
        equal: dict[tuple[Number, ...], list[_Kernel]] = {}
        for kernel in group:
            equal.setdefault(kernel.template.numbers, []).append(kernel)
        for kernels in equal.values():
            _launch_first(kernels, [()] * len(kernels))
        return
    columns = list(zip(*(kernel.template.numbers for kernel in group), strict=True))
    differing = list(dict.fromkeys(column for column in columns if len(set(column)) > 1))
    if len(differing) > MOST_NUMBERS:
        return
    if differing:
        _take_numbers(first, columns, differing)
    _launch_first(group, list(zip(*differing, strict=True)) or [()] * len(group))


def _launch_first(group: Sequence[_Kernel], numbers: Sequence[Sequence[Number]]) -> None:
    """Makes all launches of a group launch its first kernel, with the constants of each kernel."""
    first = group[0]
    assert first.module.sym_name is not None
    for kernel, given in zip(group, numbers, strict=True):
        for launch in kernel.launches:
            launch.kernel = SymbolRefAttr(first.module.sym_name.data, [first.entry])
            if given:
                launch.attributes[NUMBERS] = ArrayAttr(given)
        if kernel is not first:
            kernel.module.detach()
            kernel.module.erase()


def _take_numbers(
    kernel: _Kernel,
    columns: Sequence[tuple[Number, ...]],
    differing: Sequence[tuple[Number, ...]],
) -> None:
    """
    Replaces constants by loads from a block of push constants, which has a member for each column
    in `differing`. `columns` has, for each constant of the template, its values in all kernels.
    """
    types = [f32 if column[0].type == f32 else i32 for column in differing]
    offsets = [NUMBER_BYTES * n for n in range(len(types))]
    struct = StructType(types, offsets, [], [Decoration.Block])
    pointer = PointerType(struct, StorageClass.PushConstant)
    variable = GlobalVariableOp(f"{kernel.entry}_numbers", pointer)
    mark_numbers(variable)
    declare(kernel.module, variable)
    block = kernel.module.body.block
    for op in block.ops:
        if isinstance(op, EntryPointOp):
            names = [*op.interface.data, SymbolRefAttr(variable.sym_name.data)]
            op.properties["interface"] = ArrayAttr(names)
    emitters: dict[Operation, SpirvEmitter] = {}
    for hole, column in zip(kernel.template.holes, columns, strict=True):
        if column not in differing:
            continue
        old = hole.op.operands[hole.index]
        function = enclosing_function(hole.op)
        assert function is not None, "a constant that kernels differ in is not in a function"
        if function not in emitters:
            emitters[function] = _at_top(function, kernel.module)
        emitter = emitters[function]
        member = _member(emitter, variable, differing.index(column), column[0], old.type)
        hole.op.operands[hole.index] = member
        if isinstance(old.owner, ConstantOp) and not old.first_use:
            Rewriter.erase_op(old.owner)


def _at_top(function: FuncOp, module: ModuleOp) -> SpirvEmitter:
    """Returns an emitter at the start of a function, after its variables."""
    entry = function.body.blocks[0]
    variables = [op for op in entry.ops if isinstance(op, VariableOp)]
    place = InsertPoint.at_start(entry)
    return SpirvEmitter(place, module, variables[-1] if variables else None)


def _member(
    emitter: SpirvEmitter, variable: GlobalVariableOp, number: int, like: Number, type: Attribute
) -> SSAValue:
    """
    Loads member `number` of the block as a scalar or a splat of type `type`. If the number `like`
    is a byte, the member is a word that contains the byte.
    """
    address, index = emitter.address(variable), emitter.index(number)
    chain = emitter.once(("chain", number), lambda: AccessChainOp(address, [index]))
    value = emitter.once(("word", number), lambda: LoadOp(chain))
    if like.type == i8:
        word = value
        value = emitter.once(("byte", number), lambda: SConvertOp(word, i8))
    if type == value.type:
        return value
    count = type.get_shape()[0] if isinstance(type, VectorType) else 1
    return emitter.once((value, type), lambda: CompositeConstructOp([value] * count, type))
