"""
Holds the state of a kernel's conversion to `spirv`: values, constants, built-ins and buffers.

Indices become 32-bit integers: every buffer must have fewer than 2^31 elements. This module checks
static sizes; dynamic sizes are push constants and are checked before the launch. Each value is
converted once. Constants, addresses of variables and built-ins are written once, at the start of
the function.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    FixedBitwidthType,
    IndexType,
    IntegerAttr,
    LocationAttr,
    MemRefType,
    UnknownLoc,
    VectorType,
    i1,
    i8,
    i32,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.schedule import FlatViewOp, bit_width, memref_of
from xdsl_spirv.dialects.schedule.push_constants import SIZE_BYTES, mark_sizes
from xdsl_spirv.dialects.spirv.structure import FuncOp
from xdsl_spirv.passes import refusals
from xdsl_spirv.passes.emit.spirv import SpirvEmitter, declare
from xdsl_spirv.passes.spirv.requirements import MOVES

PASS = "kernel-to-spirv"
refuse = refusals(PASS)

MAX_ELEMENTS = 2**31 - 1
"""Maximum number of elements of a buffer: indices are compared as signed 32-bit integers."""

MAX_SIZES = 32
"""Number of 32-bit push constants that every Vulkan device supports (128 bytes)."""

Compute: TypeAlias = "Callable[[KernelCode, Any], SSAValue]"
"""A function that writes the instructions for an operation and returns its result."""

Convert: TypeAlias = "Callable[[KernelCode, Any], SSAValue | None]"
"""A function that writes the instructions for an operation; returns the new value, if any."""


@dataclass(frozen=True)
class DeviceHabits:
    """Properties of a device that change the code of its kernels."""

    loop_control: spv.LoopControl = spv.LoopControl.None_
    exact_division: bool = True


class KernelCode(SpirvEmitter):
    """Writes a function's body. `interface` has the symbols of the variables in use."""

    def __init__(
        self,
        name: str,
        module: spv.ModuleOp,
        handler_of: Callable[[type[Operation]], Convert | None],
        device: DeviceHabits,
    ):
        super().__init__(InsertPoint.at_end(Block()), module)
        self.name = name
        self.device = device
        self.handler_of = handler_of
        self.interface: dict[str, None] = {}
        self.location: LocationAttr = UnknownLoc()
        self.values: dict[SSAValue, SSAValue] = {}
        self.bases: dict[SSAValue, SSAValue] = {}
        """The pointer to the variable that holds each memref."""
        self.functions: list[FuncOp] = []
        """Functions that the kernel calls."""
        self.arguments: dict[SSAValue, int] = {}
        self.shares_buffers = False
        """True if the workgroup's invocations read elements of buffers that others stored."""
        self._sizes: tuple[spv.GlobalVariableOp, dict[tuple[int, int], int]] | None = None

    def convert(self, block: Block) -> list[SSAValue]:
        """Converts all operations of a block. Returns the operands of its terminator."""
        for op in block.ops:
            handler = self.handler_of(type(op))
            self.location = op.location
            if handler is None:
                refuse(op, "kernels have no conversion of this operation to spirv: lower it first")
            value = handler(self, op)
            if value is not None:
                self.values[op.results[0]] = value
            for result in op.results:
                if result.name_hint and result in self.values:
                    self._name(self.values[result], result.name_hint)
        last = block.last_op
        assert last is not None
        return [self.value(operand) for operand in last.operands]

    def insert(self, op: Operation, depth: int = -1) -> None:
        """Inserts an operation at the source location of the operation that is being converted."""
        op.location = self.location
        super().insert(op, depth)

    def _name(self, value: SSAValue, name: str) -> None:
        """Names a value, except where spirv-val counts a name as a use of an 8- or 16-bit type."""
        owner, type = value.owner, value.type
        element = type.element_type if isinstance(type, VectorType) else type
        small = isinstance(element, FixedBitwidthType) and element.bitwidth < 32
        if not (small and isinstance(owner, Operation) and owner.name in MOVES):
            value.name_hint = name

    def value(self, value: SSAValue) -> SSAValue:
        return self.values[value]

    def operands(self, op: Operation) -> list[SSAValue]:
        return [self.values[operand] for operand in op.operands]

    def type(self, type: Attribute, op: Operation) -> Attribute:
        """Converts a type to its `spirv` type."""
        if isinstance(type, IndexType):
            return i32
        if isinstance(type, VectorType) and isinstance(type.element_type, IndexType):
            return VectorType(i32, type.get_shape())
        if isinstance(type, MemRefType):
            refuse(op, f"a kernel cannot have values of type {type}")
        return type

    def address(self, variable: spv.ModuleVariable) -> SSAValue:
        self.interface[variable.sym_name.data] = None
        return super().address(variable)

    def argument(self, number: int, argument: SSAValue, op: Operation) -> None:
        """Binds an argument: an index, or a storage buffer at set 0 and binding `number`."""
        type = argument.type
        if isinstance(type, IndexType):
            self.arguments[argument] = number
            return
        if (
            not isinstance(type, MemRefType)
            or storage_class(type) != spv.StorageClass.StorageBuffer
        ):
            refuse(
                op,
                f"argument {number} must be a memref in #spirv.storage_class<StorageBuffer>, "
                f"not {type}",
            )
        check_size(type, op)
        views = {
            use.operation.results[0].type
            for use in argument.uses
            if isinstance(use.operation, FlatViewOp)
        }
        passive = FlatViewOp | memref.DimOp
        plain = any(not isinstance(use.operation, passive) for use in argument.uses)
        if len(views) + plain > 1:
            refuse(op, f"argument {number} is viewed as several element types: use one")
        seen = next(iter(views), type)
        assert isinstance(seen, MemRefType)
        pointer = spv.PointerType(
            _buffer_struct(seen, read_only=not _is_written(argument)),
            spv.StorageClass.StorageBuffer,
        )
        name = f"{self.name}_arg_{number}"
        variable = declare(self.module, spv.GlobalVariableOp(name, pointer, bind=(0, number)))
        # The variable is in the interface even if it is not used, because the launch binds it.
        self.bases[argument] = self.address(variable)
        self.arguments[argument] = number

    def sizes(self, block: Block, kernel: Operation) -> None:
        """
        Declares push constants for the index arguments and the dynamic sizes that a kernel reads.
        """
        numbers: dict[tuple[int, int], int] = {}
        for op in block.walk():
            if isinstance(op, memref.DimOp) and isinstance(pair := self._find_size(op), tuple):
                numbers.setdefault(pair, len(numbers))
        given = [v for v in block.args if isinstance(v.type, IndexType) and v.first_use is not None]
        for value in given:
            numbers[self.arguments[value], 0] = len(numbers)
        if not numbers:
            return
        if len(numbers) > MAX_SIZES:
            refuse(
                kernel,
                f"a kernel reads {len(numbers)} dynamic sizes; push constants hold {MAX_SIZES}: "
                f"make some sizes static",
            )
        offsets = [SIZE_BYTES * n for n in range(len(numbers))]
        struct = spv.StructType([i32] * len(numbers), offsets, [], [spv.Decoration.Block])
        pointer = spv.PointerType(struct, spv.StorageClass.PushConstant)
        variable = declare(self.module, spv.GlobalVariableOp(f"{self.name}_sizes", pointer))
        mark_sizes(variable, list(numbers))
        self._sizes = variable, numbers
        for value in given:
            self.values[value] = self._pushed((self.arguments[value], 0))

    def _find_size(self, op: memref.DimOp) -> int | tuple[int, int]:
        """Returns a static size, or argument index and dimension of a dynamic size."""
        number, type = op.index.owner, op.source.type
        constant = number.value if isinstance(number, arith.ConstantOp) else None
        if not isinstance(constant, IntegerAttr) or not isinstance(type, MemRefType):
            refuse(op, "the operation reads the size of a computed dimension: use a constant")
        dimension = constant.value.data
        if (size := type.get_shape()[dimension]) != DYNAMIC_INDEX:
            return size
        if op.source not in self.arguments:
            refuse(op, "only sizes of arguments can be read: pass this size as an argument")
        return self.arguments[op.source], dimension

    def size(self, op: memref.DimOp) -> SSAValue:
        """Returns the size of an argument's dimension: a constant or a push constant."""
        known = self._find_size(op)
        return self.number(known) if isinstance(known, int) else self._pushed(known)

    def _pushed(self, pair: tuple[int, int]) -> SSAValue:
        assert self._sizes is not None
        variable, members = self._sizes
        path = [self.number(members[pair])]
        chain = self.once(("member", pair), lambda: spv.AccessChainOp(self.address(variable), path))
        return self.once(("size", pair), lambda: spv.LoadOp(chain))

    def allocation(self, op: memref.AllocOp | memref.AllocaOp) -> None:
        """Allocates Workgroup memory as a global variable."""
        type = memref_of(op.memref)
        if storage_class(type) != spv.StorageClass.Workgroup:
            refuse(op, f"{type} is allocated in a kernel: use #spirv.storage_class<Workgroup>")
        count = check_size(type, op)
        if count == DYNAMIC_INDEX:
            refuse(op, f"{type} has a dynamic shape: Workgroup memory needs a static one")
        number = sum(name.startswith(f"{self.name}_workgroup_") for name in self.interface)
        pointer = spv.PointerType(
            spv.ArrayType(count, stored_type(type.element_type)), spv.StorageClass.Workgroup
        )
        name = f"{self.name}_workgroup_{number}"
        variable = declare(self.module, spv.GlobalVariableOp(name, pointer))
        self.bases[op.memref] = self.address(variable)


def storage_class(type: MemRefType) -> spv.StorageClass | None:
    space = type.memory_space
    return space.data if isinstance(space, spv.StorageClassAttr) else None  # pyright: ignore[reportReturnType]


def check_size(type: MemRefType, op: Operation) -> int:
    """Returns a memref's number of elements, or -1 if dynamic. Refuses more than `MAX_ELEMENTS`."""
    shape = type.get_shape()
    element = type.element_type
    scalar = element.element_type if isinstance(element, VectorType) else element
    if not isinstance(scalar, FixedBitwidthType):
        refuse(op, f"{type} has elements that no buffer holds: use integers or floats")
    if DYNAMIC_INDEX in shape:
        return DYNAMIC_INDEX
    count = prod(shape)
    if count > MAX_ELEMENTS:
        refuse(op, f"{type} has {count} elements: 32-bit indices allow at most {MAX_ELEMENTS}")
    return count


def stored_type(type: Attribute) -> Attribute:
    """Returns the type of an element in memory: a byte for a Boolean."""
    if isinstance(type, VectorType):
        return VectorType(stored_type(type.element_type), type.get_shape())
    return i8 if type == i1 else type


def _buffer_struct(type: MemRefType, read_only: bool) -> spv.StructType:
    element = stored_type(type.element_type)
    array = spv.RuntimeArrayType(element, stride=bit_width(element) // 8)
    decorations = [spv.MemberDecorationAttr(0, spv.Decoration.NonWritable)] if read_only else []
    return spv.StructType([array], [0], decorations, [spv.Decoration.Block])


READS = (
    "memref.load",
    "memref.dim",
    "schedule.flat_view",
    "spirv.KHR.CooperativeMatrixLoad",
)


def _is_written(memory: SSAValue) -> bool:
    """True if an operation other than a load uses the memory, also through pointers and views."""
    for use in memory.uses:
        op = use.operation
        if op.name in ("schedule.flat_view", "schedule.element_ptr"):
            if _is_written(op.results[0]):
                return True
        elif op.name not in READS:
            return True
    return False
