"""
Emits code in `spirv`, into a new function or an existing one.

Indices are 32-bit integers. Constants, addresses and built-ins are emitted once, at the top of the
function.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from itertools import chain, count

from xdsl.dialects.builtin import IntegerAttr, IntegerType, VectorType, i32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint

from xdsl_spirv.dialects import spv
from xdsl_spirv.passes.emit.emitter import Condition, Emitter, Index, Instructions

VECTORS_OF_THREE = (
    spv.BuiltIn.GlobalInvocationId,
    spv.BuiltIn.LocalInvocationId,
    spv.BuiltIn.NumWorkgroups,
    spv.BuiltIn.WorkgroupId,
)

Comparison = Callable[[SSAValue, SSAValue], Operation]


def free_symbol(module: spv.ModuleOp, wanted: str) -> str:
    """Returns the name `wanted`, with a number appended if the module already has that name."""
    names = (op.properties.get("sym_name") for op in module.body.block.ops)
    taken = {str(getattr(name, "data", "")) for name in names if name is not None}
    return free_name(wanted, taken)


def free_name(wanted: str, taken: Container[str]) -> str:
    """Returns the name `wanted`, with a number appended if the name is taken."""
    names = chain([wanted], (f"{wanted}_{number}" for number in count(1)))
    return next(name for name in names if name not in taken)


def declare(module: spv.ModuleOp, variable: spv.GlobalVariableOp) -> spv.GlobalVariableOp:
    """Inserts a variable before the module's first function."""
    block = module.body.block
    first = next((op for op in block.ops if isinstance(op, spv.FuncOp)), None)
    if first is None:
        block.add_op(variable)
    else:
        block.insert_op_before(variable, first)
    return variable


def built_in_variable(module: spv.ModuleOp, built_in: spv.BuiltIn) -> spv.ModuleVariable:
    """Returns the module's variable for a built-in; declares it if necessary."""
    for op in module.body.block.ops:
        if isinstance(op, spv.ModuleVariable) and op.built_in and op.built_in.data == built_in.name:
            return op
    type_ = VectorType(i32, [3]) if built_in in VECTORS_OF_THREE else i32
    name = free_symbol(module, f"__builtin__{built_in.name}__")
    pointer = spv.PointerType(type_, spv.StorageClass.Input)
    return declare(module, spv.GlobalVariableOp(name, pointer, built_in=built_in))


class SpirvEmitter(Emitter):
    """Emits the body of a module's function."""

    instructions = Instructions(
        i32,
        spv.ConstantOp,
        spv.IAddOp,
        spv.IMulOp,
        spv.UDivOp,
        spv.UModOp,
        spv.ULessThanOp,
        spv.LogicalAndOp,
        spv.SelectOp,
    )

    def __init__(self, place: InsertPoint, module: spv.ModuleOp, after: Operation | None = None):
        super().__init__(place, after)
        self.module = module

    # Values at the function's top

    def address(self, variable: spv.ModuleVariable) -> SSAValue:
        return self.once(f"@{variable.sym_name.data}", lambda: spv.AddressOfOp(variable))

    def built_in(self, built_in: spv.BuiltIn, component: int | None = None) -> SSAValue:
        """Loads a built-in as i32: a scalar, or one component of a vector of three."""
        pointer = self.address(built_in_variable(self.module, built_in))
        value = self.once(built_in, lambda: spv.LoadOp(pointer))
        if component is not None:
            extract = spv.CompositeExtractOp
            return self.once((built_in, component), lambda: extract(value, [component]))
        if value.type == i32:
            return value
        return self.once((built_in, i32), lambda: spv.BitcastOp(value, i32))

    # Integers

    def same_bits(self, value: SSAValue, type_: Attribute) -> SSAValue:
        """Casts a value to another type of equal width without changing its bits."""
        return value if value.type == type_ else self.add(spv.BitcastOp(value, type_))

    def as_index(self, value: SSAValue, *, sign: bool = False) -> Index:
        """
        Converts an integer of any type to an i32 index. With `sign`, reads narrow integers as
        signed. A constant becomes a Python int.
        """
        if isinstance(value.owner, spv.ConstantOp) and isinstance(value.owner.value, IntegerAttr):
            return value.owner.value.value.data & 0xFFFFFFFF
        return self.resized(value, 32, sign=sign)

    def resized(self, value: SSAValue, width: int, *, sign: bool) -> SSAValue:
        """Converts an integer, or each integer of a vector, to a signless type of `width` bits."""
        target = spv.with_element(value.type, IntegerType(width))
        if spv.width_of(spv.element_of(value.type)) == width:
            return self.same_bits(value, target)
        return self.add((spv.SConvertOp if sign else spv.UConvertOp)(value, target))

    def component(self, vector: SSAValue, number: int) -> SSAValue:
        return self.add(spv.CompositeExtractOp(vector, [number]))

    # Control flow

    def loop(
        self,
        bounds: tuple[SSAValue, SSAValue, SSAValue],
        initial: Sequence[SSAValue],
        body: Callable[[SSAValue, Sequence[SSAValue]], Sequence[SSAValue]],
        less: Comparison = spv.ULessThanOp,
        control: spv.LoopControl = spv.LoopControl.None_,
    ) -> Sequence[SSAValue]:
        """
        Emits `for i in range(*bounds)`; body(i, carried) returns the next carried values. The first
        ones are `initial`. `less` compares i with the upper bound.

        entry -> header(i, carried): i < upper ? body : merge; body -> back: i + step -> header
        """
        lower, upper, step = bounds
        types = [value.type for value in (lower, *initial)]
        entry, inner, back, merge = Block(), Block(), Block(), Block()
        header = Block(arg_types=types)
        entry.add_op(spv.BranchOp(header, [lower, *initial]))
        index, *carried = header.args
        below = less(index, upper)
        header.add_ops([below, spv.BranchConditionalOp(below.results[0], inner, merge)])
        with self.inside(inner):
            results = body(index, carried)
            self.insert(spv.BranchOp(back))
        following = spv.IAddOp(index, step)
        back.add_ops([following, spv.BranchOp(header, [following.result, *results])])
        merge.add_op(spv.MergeOp(carried))
        loop = spv.LoopOp(Region([entry, header, inner, back, merge]), types[1:], control)
        self.insert(loop)
        return loop.results

    def choose(
        self,
        condition: SSAValue,
        types: Sequence[Attribute],
        arms: Sequence[Callable[[], Sequence[SSAValue] | None] | None],
        otherwise: Sequence[SSAValue] = (),
    ) -> Sequence[SSAValue]:
        """
        Emits a branch and returns its results: of the first arm if the condition holds, else of
        the second.

        An arm of None has the results `otherwise`.

        header: condition ? then : else; then -> merge(values); else -> merge(values)
        """
        header, merge = Block(), Block(arg_types=types)
        blocks, targets = [header], list[Block]()
        for arm in arms:
            targets.append(merge if arm is None else Block())
            if arm is not None:
                blocks.append(targets[-1])
                with self.inside(targets[-1]):
                    self.insert(spv.BranchOp(merge, list(arm() or ())))
        branch = spv.BranchConditionalOp(condition, targets[0], targets[1], (), list(otherwise))
        header.add_op(branch)
        merge.add_op(spv.MergeOp(merge.args))
        selection = spv.SelectionOp(Region([*blocks, merge]), types)
        self.insert(selection)
        return selection.results

    def when(
        self,
        condition: Condition,
        body: Callable[[], Sequence[SSAValue] | None],
        otherwise: Sequence[SSAValue] = (),
    ) -> Sequence[SSAValue]:
        """Emits a branch; returns the values of `body` if the condition holds, else `otherwise`."""
        if isinstance(condition, bool):
            return body() or () if condition else otherwise
        return self.choose(condition, [v.type for v in otherwise], (body, None), otherwise)
