"""
One kernel function on its way to `spirv`: values, constants and identifiers of the invocation.

Indices become 32-bit integers: every buffer is checked to have fewer than 2^31 elements, here or,
where it has a dynamic size, before the kernel runs. Such sizes are push constants. A value
has one conversion; constants, addresses of variables and built-ins stand once, at the function's
top.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseIntOrFPElementsAttr,
    FixedBitwidthType,
    FloatAttr,
    IndexType,
    IntegerAttr,
    MemRefType,
    VectorType,
    i1,
    i8,
    i32,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from xdsl_spirv.dialects.schedule import FlatViewOp, bit_width
from xdsl_spirv.dialects.schedule.sizes import SIZE_BYTES, mark_sizes
from xdsl_spirv.dialects.spirv.attributes import StorageClassAttr
from xdsl_spirv.dialects.spirv.composite import CompositeExtractOp
from xdsl_spirv.dialects.spirv.constants import ConstantOp
from xdsl_spirv.dialects.spirv.enums import BuiltIn, Decoration, LoopControl, StorageClass
from xdsl_spirv.dialects.spirv.memory import AccessChainOp, LoadOp
from xdsl_spirv.dialects.spirv.structure import AddressOfOp, GlobalVariableOp
from xdsl_spirv.dialects.spirv.types import (
    ArrayType,
    MemberDecorationAttr,
    PointerType,
    RuntimeArrayType,
    StructType,
)
from xdsl_spirv.passes.analysis.known_values import KnownValues
from xdsl_spirv.passes.refusal import refuse
from xdsl_spirv.passes.spirv.requirements import MOVES

PASS = "kernel-to-spirv"

MAX_ELEMENTS = 2**31 - 1
"""Indices are 32-bit integers that are also compared as signed numbers."""

MAX_SIZES = 32
"""Push constants that every Vulkan device has room for: 128 bytes."""

Convert: TypeAlias = "Callable[[KernelCode, Operation], None]"


class Globals:
    """The global variables of a module, each made when first asked for."""

    def __init__(self) -> None:
        self.variables: dict[str, GlobalVariableOp] = {}

    def built_in(self, built_in: BuiltIn, type: Attribute) -> GlobalVariableOp:
        name = f"__builtin__{built_in.name}__"
        if name not in self.variables:
            pointer = PointerType(type, StorageClass.Input)
            self.variables[name] = GlobalVariableOp(name, pointer, built_in=built_in)
        return self.variables[name]

    def add(self, variable: GlobalVariableOp) -> GlobalVariableOp:
        self.variables[variable.sym_name.data] = variable
        return variable

    def in_order(self) -> list[GlobalVariableOp]:
        """
        The kernels' own variables as they were made, behind the built-in ones by name.

        So a kernel does not depend on which others stand in its module.
        """
        found = self.variables.values()
        built_in = [each for each in found if each.built_in is not None]
        own = [each for each in found if each.built_in is None]
        return sorted(built_in, key=lambda each: each.sym_name.data) + own


@dataclass(frozen=True)
class DeviceHabits:
    """What of a device shapes the code of its kernels."""

    loop_control: LoopControl = LoopControl.None_
    exact_division: bool = True


class KernelCode:
    """
    A function's body as it is converted.

    `block` is where operations are appended; `top` what will stand before everything else;
    `interface` the names of the global variables that the function uses.
    """

    def __init__(
        self,
        name: str,
        globals: Globals,
        handlers: Mapping[type[Operation], Convert],
        device: DeviceHabits,
    ):
        self.name = name
        self.device = device
        self.globals = globals
        self.handlers = handlers
        self.entry = Block()
        self.block = self.entry
        self.top: list[Operation] = []
        self.interface: dict[str, None] = {}
        self.values: dict[SSAValue, SSAValue] = {}
        self.bases: dict[SSAValue, SSAValue] = {}
        """The pointer to the variable in which a memref lies."""
        self.arguments: dict[SSAValue, int] = {}
        self._sizes: tuple[GlobalVariableOp, dict[tuple[int, int], int]] | None = None
        self._constants: dict[tuple[Attribute, Attribute], SSAValue] = {}
        self._top_values: dict[str, SSAValue] = {}
        self._known = KnownValues()

    def convert(self, block: Block) -> None:
        """Append the conversion of all operations of a block."""
        with self._known.scope():
            for op in block.ops:
                handler = self.handlers.get(type(op))
                if handler is None:
                    refuse(PASS, op, "there is no conversion to spirv for this in a kernel")
                handler(self, op)
                for result in op.results:
                    if result.name_hint and result in self.values:
                        self._name(self.values[result], result.name_hint)

    def _name(self, value: SSAValue, name: str) -> None:
        """Call it that, unless spirv-val takes the name for a use of a small number."""
        owner, type = value.owner, value.type
        element = type.element_type if isinstance(type, VectorType) else type
        small = isinstance(element, FixedBitwidthType) and element.bitwidth < 32
        if not (small and isinstance(owner, Operation) and owner.name in MOVES):
            value.name_hint = name

    def finish(self) -> None:
        first = self.entry.first_op
        assert first is not None
        self.entry.insert_ops_before(self.top, first)

    def add(self, op: Operation) -> SSAValue:
        """Append an operation with one result."""
        self.block.add_op(op)
        return op.results[0]

    def once(
        self, kind: Callable[[SSAValue, SSAValue], Operation], *operands: SSAValue
    ) -> SSAValue:
        """A pure operation of two operands: the one there is, or a new one."""
        return self._known.get((kind, *operands), lambda: self.add(kind(*operands)))

    def value(self, value: SSAValue) -> SSAValue:
        return self.values[value]

    def type(self, type: Attribute, op: Operation) -> Attribute:
        """A type as `spirv` has it."""
        if isinstance(type, IndexType):
            return i32
        if isinstance(type, VectorType) and isinstance(type.element_type, IndexType):
            return VectorType(i32, type.get_shape())
        if isinstance(type, MemRefType):
            refuse(PASS, op, f"a {type} cannot be passed around in a kernel")
        return type

    def constant(
        self,
        value: IntegerAttr | FloatAttr | DenseIntOrFPElementsAttr,
        type: Attribute | None = None,
    ) -> SSAValue:
        """A constant at the function's top, one for equal values."""
        key = (value, type or value.get_type())
        if key not in self._constants:
            self._constants[key] = self._at_top(ConstantOp(value, type))
        return self._constants[key]

    def integer(self, value: int) -> SSAValue:
        return self.constant(IntegerAttr(value, i32))

    def _at_top(self, op: Operation) -> SSAValue:
        self.top.append(op)
        return op.results[0]

    def _top_value(self, name: str, op: Callable[[], Operation]) -> SSAValue:
        if name not in self._top_values:
            self._top_values[name] = self._at_top(op())
        return self._top_values[name]

    def address(self, variable: GlobalVariableOp) -> SSAValue:
        name = variable.sym_name.data
        self.interface[name] = None
        return self._top_value(f"@{name}", lambda: AddressOfOp(variable))

    def built_in(self, built_in: BuiltIn, component: int | None = None) -> SSAValue:
        """A built-in's value: a scalar, or one component of a vector of three."""
        type = i32 if component is None else VectorType(i32, [3])
        pointer = self.address(self.globals.built_in(built_in, type))
        value = self._top_value(built_in.name, lambda: LoadOp(pointer))
        if component is None:
            return value
        return self._top_value(
            f"{built_in.name}[{component}]", lambda: CompositeExtractOp(value, [component])
        )

    def argument(self, number: int, argument: SSAValue, op: Operation) -> None:
        """Bind a kernel argument: a storage buffer at set 0, binding `number`."""
        type = argument.type
        if not isinstance(type, MemRefType) or storage_class(type) != StorageClass.StorageBuffer:
            refuse(
                PASS,
                op,
                f"argument {number} is a {type}, not a memref in "
                "#spirv.storage_class<StorageBuffer>",
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
            refuse(PASS, op, f"argument {number} is viewed as several element types")
        seen = next(iter(views), type)
        assert isinstance(seen, MemRefType)
        pointer = PointerType(
            _buffer_struct(seen, read_only=not _is_written(argument)), StorageClass.StorageBuffer
        )
        name = f"{self.name}_arg_{number}"
        variable = self.globals.add(GlobalVariableOp(name, pointer, bind=(0, number)))
        # Part of the interface even if it is not used: the launch binds it.
        self.bases[argument] = self.address(variable)
        self.arguments[argument] = number

    def sizes(self, block: Block, kernel: Operation) -> None:
        """Make push constants of the dynamic sizes that a kernel asks of its arguments."""
        found: dict[tuple[int, int], int] = {}
        for op in block.walk():
            if isinstance(op, memref.DimOp) and (pair := self._dynamic(op)) is not None:
                found.setdefault(pair, len(found))
        if not found:
            return
        if len(found) > MAX_SIZES:
            refuse(
                PASS,
                kernel,
                f"it asks for {len(found)} dynamic sizes: push constants hold {MAX_SIZES}, make "
                "some static",
            )
        offsets = [SIZE_BYTES * n for n in range(len(found))]
        struct = StructType([i32] * len(found), offsets, [], [Decoration.Block])
        pointer = PointerType(struct, StorageClass.PushConstant)
        variable = self.globals.add(GlobalVariableOp(f"{self.name}_sizes", pointer))
        mark_sizes(variable, list(found))
        self._sizes = variable, found

    def _dynamic(self, op: memref.DimOp) -> tuple[int, int] | None:
        """The argument and the dimension whose size is asked for; None for a static one."""
        number, type = op.index.owner, op.source.type
        constant = number.value if isinstance(number, arith.ConstantOp) else None
        if not isinstance(constant, IntegerAttr) or not isinstance(type, MemRefType):
            refuse(PASS, op, "the dimension whose size it asks for is not a constant")
        dimension = constant.value.data
        if type.get_shape()[dimension] != DYNAMIC_INDEX:
            return None
        if op.source not in self.arguments:
            refuse(PASS, op, "it asks for the size of what is no argument of the kernel")
        return self.arguments[op.source], dimension

    def size(self, op: memref.DimOp) -> SSAValue:
        """The size of an argument's dimension: a constant, or a push constant, read once."""
        pair = self._dynamic(op)
        if pair is None:
            assert isinstance(op.source.type, MemRefType)
            index = op.index.owner
            assert isinstance(index, arith.ConstantOp)
            assert isinstance(index.value, IntegerAttr)
            return self.integer(op.source.type.get_shape()[index.value.value.data])
        assert self._sizes is not None
        variable, members = self._sizes
        name = f"size {pair}"
        if name not in self._top_values:
            path = [self.integer(members[pair])]
            pointer = self._at_top(AccessChainOp(self.address(variable), path))
            self._top_values[name] = self._at_top(LoadOp(pointer))
        return self._top_values[name]

    def allocation(self, op: memref.AllocOp | memref.AllocaOp) -> None:
        """Workgroup memory: a global variable."""
        type = op.memref.type
        assert isinstance(type, MemRefType)
        if storage_class(type) != StorageClass.Workgroup:
            refuse(
                PASS,
                op,
                f"{type} is allocated in a kernel: only #spirv.storage_class<Workgroup> can be",
            )
        count = check_size(type, op)
        if count == DYNAMIC_INDEX:
            refuse(PASS, op, f"{type} has a dynamic shape: Workgroup memory needs a static one")
        number = sum(name.startswith(f"{self.name}_workgroup_") for name in self.interface)
        pointer = PointerType(ArrayType(count, stored(type.element_type)), StorageClass.Workgroup)
        name = f"{self.name}_workgroup_{number}"
        self.bases[op.memref] = self.address(self.globals.add(GlobalVariableOp(name, pointer)))


def storage_class(type: MemRefType) -> StorageClass | None:
    space = type.memory_space
    return space.data if isinstance(space, StorageClassAttr) else None  # pyright: ignore[reportReturnType]


def check_size(type: MemRefType, op: Operation) -> int:
    """
    The number of elements of a memref, which 32-bit integers can count; -1 if it is dynamic.
    """
    shape = type.get_shape()
    element = type.element_type
    scalar = element.element_type if isinstance(element, VectorType) else element
    if not isinstance(scalar, FixedBitwidthType):
        refuse(PASS, op, f"{type} has elements that no buffer holds: use integers or floats")
    if DYNAMIC_INDEX in shape:
        return DYNAMIC_INDEX
    count = prod(shape)
    if count > MAX_ELEMENTS:
        refuse(PASS, op, f"{type} has {count} elements: indices are 32-bit, up to {MAX_ELEMENTS}")
    return count


def stored(type: Attribute) -> Attribute:
    """How an element lies in memory: a Boolean in a byte."""
    if isinstance(type, VectorType):
        return VectorType(stored(type.element_type), type.get_shape())
    return i8 if type == i1 else type


def _buffer_struct(type: MemRefType, read_only: bool) -> StructType:
    element = stored(type.element_type)
    array = RuntimeArrayType(element, stride=bit_width(element) // 8)
    decorations = [MemberDecorationAttr(0, Decoration.NonWritable)] if read_only else []
    return StructType([array], [0], decorations, [Decoration.Block])


READS = (
    "memref.load",
    "memref.dim",
    "schedule.flat_view",
    "spirv.KHR.CooperativeMatrixLoad",
)


def _is_written(memory: SSAValue) -> bool:
    """Whether anything but a load uses the memory, or pointers and views made of it."""
    for use in memory.uses:
        op = use.operation
        if op.name in ("schedule.flat_view", "schedule.element_ptr"):
            if _is_written(op.results[0]):
                return True
        elif op.name not in READS:
            return True
    return False
