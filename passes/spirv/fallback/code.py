"""
New operations inside an existing function: where they go, and the constants they need.

Constants, addresses and built-ins stand once, at the function's top. Numbers that are known while
the code is written are folded, so that a caller mixes them with values freely.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    VectorType,
    i32,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from xdsl_spirv.dialects.spirv import arithmetic, bit, logic
from xdsl_spirv.dialects.spirv.branches import BranchConditionalOp, BranchOp
from xdsl_spirv.dialects.spirv.composite import CompositeExtractOp
from xdsl_spirv.dialects.spirv.constants import ConstantOp, ReferenceOfOp
from xdsl_spirv.dialects.spirv.constraints import Value, width_of, with_element
from xdsl_spirv.dialects.spirv.control_flow import LoopOp, MergeOp, SelectionOp
from xdsl_spirv.dialects.spirv.conversion import BitcastOp, SConvertOp, UConvertOp
from xdsl_spirv.dialects.spirv.enums import BuiltIn, StorageClass
from xdsl_spirv.dialects.spirv.function import FuncOp
from xdsl_spirv.dialects.spirv.memory import LoadOp
from xdsl_spirv.dialects.spirv.module import ModuleOp
from xdsl_spirv.dialects.spirv.rules import element_of
from xdsl_spirv.dialects.spirv.structure import AddressOfOp, GlobalVariableOp, ModuleVariable
from xdsl_spirv.dialects.spirv.types import PointerType

Index: TypeAlias = SSAValue | int
"""A 32-bit integer, known or computed."""

VECTORS_OF_THREE = (
    BuiltIn.GlobalInvocationId,
    BuiltIn.LocalInvocationId,
    BuiltIn.NumWorkgroups,
    BuiltIn.WorkgroupId,
)


def symbols_of(module: ModuleOp) -> set[str]:
    """The names that are taken in a module."""
    names = (op.properties.get("sym_name") for op in module.body.block.ops)
    return {str(getattr(n, "data", "")) for n in names if n is not None}


def free_symbol(module: ModuleOp, wanted: str) -> str:
    """`wanted`, or with a number behind it where the module has that name."""
    taken, name, number = symbols_of(module), wanted, 0
    while name in taken:
        number += 1
        name = f"{wanted}_{number}"
    return name


def declare(module: ModuleOp, variable: GlobalVariableOp) -> GlobalVariableOp:
    """Put a variable before the module's first function."""
    block = module.body.block
    first = next((op for op in block.ops if isinstance(op, FuncOp)), None)
    if first is None:
        block.add_op(variable)
    else:
        block.insert_op_before(variable, first)
    return variable


def built_in_variable(module: ModuleOp, built_in: BuiltIn) -> ModuleVariable:
    """The module's variable of a built-in, made if there is none."""
    for op in module.body.block.ops:
        if isinstance(op, ModuleVariable) and op.built_in and op.built_in.data == built_in.name:
            return op
    type_ = VectorType(i32, [3]) if built_in in VECTORS_OF_THREE else i32
    name = free_symbol(module, f"__builtin__{built_in.name}__")
    pointer = PointerType(type_, StorageClass.Input)
    return declare(module, GlobalVariableOp(name, pointer, built_in=built_in))


class Code:
    """
    Code that is written into one function.

    `before(op)` says where; `add` writes an operation there.
    """

    def __init__(self, function: FuncOp, module: ModuleOp):
        self.function = function
        self.module = module
        self.block = function.body.blocks[0]
        self._before: Operation | None = None
        self._top: Operation | None = None
        self._values: dict[object, SSAValue] = {}
        self._indices: dict[object, Index] = {}
        self._writes_top = False

    # Places.

    def before(self, op: Operation) -> None:
        """What is written next stands before `op`."""
        block = op.parent
        assert block is not None
        self.block, self._before = block, op

    def at_end(self, block: Block) -> None:
        """What is written next stands at the end of `block`."""
        self.block, self._before = block, None

    def insert(self, op: Operation) -> None:
        if self._writes_top:
            self._insert_at_top(op)
        elif self._before is None:
            self.block.add_op(op)
        else:
            self.block.insert_op_before(op, self._before)

    def add(self, op: Operation) -> SSAValue:
        """Write an operation with one result."""
        self.insert(op)
        return op.results[0]

    def at_top(self, op: Operation) -> SSAValue:
        """Write an operation behind what already was written at the function's top."""
        self._insert_at_top(op)
        return op.results[0]

    def _insert_at_top(self, op: Operation) -> None:
        entry = self.function.body.blocks[0]
        if self._top is not None:
            entry.insert_op_after(op, self._top)
        elif entry.first_op is not None:
            entry.insert_op_before(op, entry.first_op)
        else:
            entry.add_op(op)
        self._top = op

    def index_at_top(self, key: object, make: Callable[[], Index]) -> Index:
        """The index under a key, which `make` writes at the function's top when first asked for."""
        if key not in self._indices:
            before, self._writes_top = self._writes_top, True
            self._indices[key] = make()
            self._writes_top = before
        return self._indices[key]

    def once(self, key: object, make: Callable[[], SSAValue]) -> SSAValue:
        """The value under a key, made when first asked for."""
        if key not in self._values:
            self._values[key] = make()
        return self._values[key]

    # Constants and built-ins.

    def constant(self, value: IntegerAttr | FloatAttr, type_: Attribute | None = None) -> SSAValue:
        """A number, or a vector or array of it."""
        whole: Attribute = value
        if isinstance(type_, VectorType):
            whole = DenseIntOrFPElementsAttr.from_list(type_, [value.value.data])  # pyright: ignore
        return self.once((value, type_), lambda: self.at_top(ConstantOp(whole, type_)))

    def number(self, value: int, type_: Attribute = i32) -> SSAValue:
        """An integer constant of a scalar or vector type, cut to its width."""
        element = element_of(type_)
        assert isinstance(element, IntegerType)
        width = element.width.data
        value &= (1 << width) - 1
        if value >> (width - 1) and not str(element).startswith("ui"):
            value -= 1 << width
        return self.constant(IntegerAttr(value, element), type_)

    def value(self, index: Index) -> SSAValue:
        """An index as a value."""
        return self.number(index) if isinstance(index, int) else index

    def address(self, variable: ModuleVariable) -> SSAValue:
        name = variable.sym_name.data
        return self.once(f"@{name}", lambda: self.at_top(AddressOfOp(variable)))

    def built_in(self, built_in: BuiltIn) -> SSAValue:
        """A scalar built-in as i32, loaded at the function's top."""
        return self.once(built_in, lambda: self._load_built_in(built_in))

    def _load_built_in(self, built_in: BuiltIn) -> SSAValue:
        pointer = self.address(built_in_variable(self.module, built_in))
        value = self.at_top(LoadOp(pointer))
        return value if value.type == i32 else self.at_top(BitcastOp(value, i32))

    def specialization_constant(self, name: str, type_: Attribute) -> SSAValue:
        return self.once(f"@{name}", lambda: self.at_top(ReferenceOfOp(name, type_)))

    # Integers.

    def same_bits(self, value: SSAValue, type_: Attribute) -> SSAValue:
        """The value under another type of its width."""
        return value if value.type == type_ else self.add(BitcastOp(value, type_))

    def as_index(self, value: SSAValue, *, sign: bool = False) -> Index:
        """An integer of any type as i32; a constant as its number."""
        if isinstance(value.owner, ConstantOp) and isinstance(value.owner.value, IntegerAttr):
            return value.owner.value.value.data & 0xFFFFFFFF
        return self.resized(value, 32, sign=sign)

    def resized(self, value: SSAValue, width: int, *, sign: bool) -> SSAValue:
        """An integer scalar or vector at another width, without a signedness in its type."""
        target = with_element(value.type, IntegerType(width))
        if width_of(element_of(value.type)) == width:
            return self.same_bits(value, target)
        return self.add((SConvertOp if sign else UConvertOp)(value, target))

    def plus(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if a == 0:
            return b
        return a if b == 0 else self.add(arithmetic.IAddOp(self.value(a), self.value(b)))

    def times(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        if a == 0 or b == 0:
            return 0
        if a == 1:
            return b
        return a if b == 1 else self.add(arithmetic.IMulOp(self.value(a), self.value(b)))

    def divided(self, a: Index, b: int) -> Index:
        """Without sign, rounded down; by a shift where `b` is a power of two."""
        if isinstance(a, int):
            return a // b
        if b == 1:
            return a
        if b & (b - 1) == 0:
            return self.add(bit.ShiftRightLogicalOp(a, self.number(b.bit_length() - 1)))
        return self.add(arithmetic.UDivOp(a, self.number(b)))

    def remainder(self, a: Index, b: int) -> Index:
        """Without sign; by a mask where `b` is a power of two."""
        if isinstance(a, int):
            return a % b
        if b == 1:
            return 0
        if b & (b - 1) == 0:
            return self.add(bit.BitwiseAndOp(a, self.number(b - 1)))
        return self.add(arithmetic.UModOp(a, self.number(b)))

    def select(self, condition: SSAValue, yes: SSAValue, no: SSAValue) -> SSAValue:
        return self.add(logic.SelectOp(condition, yes, no))

    def below(self, a: Index, b: Index) -> SSAValue:
        return self.add(logic.ULessThanOp(self.value(a), self.value(b)))

    def component(self, vector: Value, number: int) -> SSAValue:
        return self.add(CompositeExtractOp(vector, [number]))

    # Control flow.

    def loop(
        self,
        count: int,
        initial: Sequence[SSAValue],
        body: Callable[[SSAValue, Sequence[SSAValue]], Sequence[SSAValue]],
    ) -> list[SSAValue]:
        """`body(i, carried)` for i from 0 to `count` - 1; what the last one gave."""
        types = [i32, *(v.type for v in initial)]
        entry, header, inner, back, merge = (
            Block(),
            Block(arg_types=types),
            Block(),
            Block(),
            Block(),
        )
        zero, one, end = self.number(0), self.number(1), self.number(count)
        entry.add_op(BranchOp(header, [zero, *initial]))
        index, *carried = header.args
        below = logic.ULessThanOp(index, end)
        header.add_ops([below, BranchConditionalOp(below.result, inner, merge)])
        place = self.block, self._before
        self.at_end(inner)
        results = body(index, carried)
        self.insert(BranchOp(back))
        self.block, self._before = place
        following = arithmetic.IAddOp(index, one)
        back.add_ops([following, BranchOp(header, [following.result, *results])])
        merge.add_op(MergeOp(carried))
        loop = LoopOp(Region([entry, header, inner, back, merge]), types[1:])
        self.insert(loop)
        return list(loop.results)

    def when(
        self,
        condition: SSAValue,
        body: Callable[[], Sequence[SSAValue]],
        otherwise: Sequence[SSAValue] = (),
    ) -> list[SSAValue]:
        """What `body` gives where the condition holds, else `otherwise`."""
        types = [v.type for v in otherwise]
        header, inner, merge = Block(), Block(), Block(arg_types=types)
        header.add_op(BranchConditionalOp(condition, inner, merge, (), list(otherwise)))
        place = self.block, self._before
        self.at_end(inner)
        results = body()
        self.insert(BranchOp(merge, list(results)))
        self.block, self._before = place
        merge.add_op(MergeOp(merge.args))
        selection = SelectionOp(Region([header, inner, merge]), types)
        self.insert(selection)
        return list(selection.results)


class Codes:
    """The code of a module's functions, one object a function."""

    def __init__(self, module: ModuleOp):
        self.module = module
        self._codes: dict[FuncOp, Code] = {}

    def before(self, op: Operation) -> Code:
        """The code of the function that `op` stands in, written before `op`."""
        parent = op.parent_op()
        while not isinstance(parent, FuncOp):
            assert parent is not None
            parent = parent.parent_op()
        code = self.of(parent)
        code.before(op)
        return code

    def of(self, function: FuncOp) -> Code:
        if function not in self._codes:
            self._codes[function] = Code(function, self.module)
        return self._codes[function]
