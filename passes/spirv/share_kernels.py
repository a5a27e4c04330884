"""
`spirv-share-kernels`: kernels that differ in numbers only become one, which is passed the numbers.

    gpu.launch_func @f::@f ...       %c = spirv.Constant 0.25 : f32
    gpu.launch_func @g::@g ...       %c = spirv.Constant 0.5 : f32
 ->
    gpu.launch_func @f::@f ... {schedule.numbers = [0.25 : f32]}
    gpu.launch_func @f::@f ... {schedule.numbers = [0.5 : f32]}
    spirv.GlobalVariable @f_numbers {schedule.numbers} : !spirv.ptr<!spirv.struct<(f32 [0]), Block>,
                                                                    PushConstant>

Layers of a network are alike: quantized ones differ in scales and zero points, and kernels whose
shapes only decide how many workgroups there are differ in nothing. A number that all have stays a
constant; those that differ become members of a block of push constants, one for each set of places
that agree. A driver then has fewer kernels to compile, and a program fewer to store. What is a
number and no address is said in `alike`. Kernels with dynamic sizes have such a block already and
are shared only where they are equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import gpu
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, SymbolRefAttr, VectorType, f32, i8, i32
from xdsl.dialects.builtin import ModuleOp as BuiltinModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from xdsl_spirv.dialects.schedule.numbers import NUMBER_BYTES, NUMBERS, mark_numbers
from xdsl_spirv.dialects.spirv.composite import CompositeConstructOp
from xdsl_spirv.dialects.spirv.constants import ConstantOp
from xdsl_spirv.dialects.spirv.conversion import SConvertOp
from xdsl_spirv.dialects.spirv.enums import Decoration, StorageClass
from xdsl_spirv.dialects.spirv.memory import AccessChainOp, LoadOp, VariableOp
from xdsl_spirv.dialects.spirv.module import ModuleOp
from xdsl_spirv.dialects.spirv.structure import (
    AddressOfOp,
    EntryPointOp,
    FuncOp,
    GlobalVariableOp,
    entry_points,
)
from xdsl_spirv.dialects.spirv.types import PointerType, StructType
from xdsl_spirv.passes.spirv.alike import Number, Written, written

NAME = "spirv-share-kernels"

MOST_NUMBERS = 32
"""Push constants that every Vulkan device has room for: 128 bytes."""


@dataclass(frozen=True)
class ShareKernelsPass(ModulePass):
    """Makes kernels that differ in numbers only one kernel, which is passed the numbers."""

    name = NAME

    def apply(self, ctx: Context, op: BuiltinModuleOp) -> None:
        launches: dict[tuple[str, str], list[gpu.LaunchFuncOp]] = {}
        for launch in op.walk():
            if isinstance(launch, gpu.LaunchFuncOp):
                launches.setdefault(_key(launch), []).append(launch)
        groups: dict[tuple[object, ...], list[_Kernel]] = {}
        for module in [each for each in op.body.block.ops if isinstance(each, ModuleOp)]:
            entries = list(entry_points(module))
            if len(entries) != 1 or module.sym_name is None:
                continue
            entry = entries[0].fn.string_value()
            calls = launches.get((module.sym_name.data, entry), [])
            if calls:
                kernel = _Kernel(module, entry, calls, written(module, entry))
                groups.setdefault((_has_block(module), *kernel.written.key), []).append(kernel)
        for group in groups.values():
            if len(group) > 1:
                _share(group)


@dataclass
class _Kernel:
    """A module of one entry point, who launches it, and what it is without its numbers."""

    module: ModuleOp
    entry: str
    launches: list[gpu.LaunchFuncOp]
    written: Written


def _key(launch: gpu.LaunchFuncOp) -> tuple[str, str]:
    return launch.kernel.root_reference.data, launch.kernel.nested_references.data[-1].data


def _has_block(module: ModuleOp) -> bool:
    """Whether a module has push constants already."""
    return any(
        isinstance(op, GlobalVariableOp) and op.type.storage_class.data == StorageClass.PushConstant
        for op in module.body.block.ops
    )


def _share(group: Sequence[_Kernel]) -> None:
    """Make a group of kernels that are the same but for numbers one, or those of them that fit."""
    first = group[0]
    if _has_block(first.module):
        equal: dict[tuple[Number, ...], list[_Kernel]] = {}
        for kernel in group:
            equal.setdefault(kernel.written.numbers, []).append(kernel)
        for kernels in equal.values():
            _launch_first(kernels, [()] * len(kernels))
        return
    columns = list(zip(*(kernel.written.numbers for kernel in group), strict=True))
    differing = list(dict.fromkeys(column for column in columns if len(set(column)) > 1))
    if len(differing) > MOST_NUMBERS:
        return
    if differing:
        _take_numbers(first, columns, differing)
    _launch_first(group, list(zip(*differing, strict=True)) or [()] * len(group))


def _launch_first(group: Sequence[_Kernel], numbers: Sequence[Sequence[Number]]) -> None:
    """Launch the first kernel of a group instead of each, with the numbers of each."""
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
    """Read numbers from a block of push constants instead of constants."""
    types = [f32 if column[0].type == f32 else i32 for column in differing]
    offsets = [NUMBER_BYTES * n for n in range(len(types))]
    struct = StructType(types, offsets, [], [Decoration.Block])
    pointer = PointerType(struct, StorageClass.PushConstant)
    variable = GlobalVariableOp(f"{kernel.entry}_numbers", pointer)
    mark_numbers(variable)
    block = kernel.module.body.block
    function = next(op for op in block.ops if isinstance(op, FuncOp))
    block.insert_op_before(variable, function)
    for op in block.ops:
        if isinstance(op, EntryPointOp):
            names = [*op.interface.data, SymbolRefAttr(variable.sym_name.data)]
            op.properties["interface"] = ArrayAttr(names)
    reader = _Reader(function.body.blocks[0], variable)
    for hole, column in zip(kernel.written.holes, columns, strict=True):
        if column not in differing:
            continue
        old = hole.op.operands[hole.index]
        number = reader.number(differing.index(column), column[0])
        hole.op.operands[hole.index] = reader.as_type(number, old)
    reader.erase_unused()


class _Reader:
    """Reads numbers once, at the start of a kernel."""

    def __init__(self, block: Block, variable: GlobalVariableOp):
        self.block = block
        variables = [op for op in block.ops if isinstance(op, VariableOp)]
        self._after: Operation | None = variables[-1] if variables else None
        self._address = self._add(AddressOfOp(variable))
        self._numbers: dict[int, SSAValue] = {}
        self._typed: dict[tuple[SSAValue, object], SSAValue] = {}
        self._replaced: dict[Operation, None] = {}

    def _add(self, op: Operation) -> SSAValue:
        if self._after is None:
            assert self.block.first_op is not None
            self.block.insert_op_before(op, self.block.first_op)
        else:
            self.block.insert_op_after(op, self._after)
        self._after = op
        return op.results[0]

    def number(self, member: int, like: Number) -> SSAValue:
        """A member of the block, as a number of a type; bytes are passed as words."""
        if member not in self._numbers:
            index = self._add(ConstantOp(IntegerAttr(member, i32)))
            value = self._add(LoadOp(self._add(AccessChainOp(self._address, [index]))))
            if like.type == i8:
                value = self._add(SConvertOp(value, i8))
            self._numbers[member] = value
        return self._numbers[member]

    def as_type(self, number: SSAValue, old: SSAValue) -> SSAValue:
        """What stands for a constant: the number, or a splat of it."""
        assert isinstance(old.owner, ConstantOp)
        self._replaced[old.owner] = None
        if old.type == number.type:
            return number
        key = (number, old.type)
        if key not in self._typed:
            count = old.type.get_shape()[0] if isinstance(old.type, VectorType) else 1
            self._typed[key] = self._add(CompositeConstructOp([number] * count, old.type))
        return self._typed[key]

    def erase_unused(self) -> None:
        """Erase the constants that nobody reads any more."""
        for op in self._replaced:
            if not op.results[0].uses:
                op.detach()
                op.erase()
