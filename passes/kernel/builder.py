"""
Writing a kernel's body: index arithmetic that folds what is known, constants once, at the top.

An index is a Python int where the compiler knows it and an SSA value where the device does. Code
that emits a kernel need not tell the two apart, and what is known costs no instruction. A `Size` is
a Python int as long as it is computed with, and what the launch says once code needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, cast

from xdsl.dialects import arith, gpu, memref, scf
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    VectorType,
    i32,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from xdsl_spirv.dialects.schedule import ElementPtrOp
from xdsl_spirv.dialects.spirv.barrier import ControlBarrierOp
from xdsl_spirv.dialects.spirv.enums import MemorySemantics, Scope
from xdsl_spirv.passes.analysis.known_values import KnownValues
from xdsl_spirv.passes.analysis.local_sizes import SizeCode
from xdsl_spirv.passes.analysis.sizes import Size, is_dynamic

Index: TypeAlias = int | SSAValue
Condition: TypeAlias = SSAValue | None
"""None where it always holds."""

INDEX = IndexType()

OF_WORKGROUP_MEMORY = (
    MemorySemantics.AcquireRelease
    | MemorySemantics.WorkgroupMemory
    | MemorySemantics.MakeAvailable
    | MemorySemantics.MakeVisible
)


class KernelBuilder:
    """
    Appends to `block`, which changes as loops and branches are entered and left.

    Constants and identifiers of the invocation are collected in `top` and put before everything
    else by `finish`.
    """

    def __init__(self, block: Block):
        self.entry = block
        self.block = block
        self.top: list[Operation] = []
        self._constants: dict[Attribute, SSAValue] = {}
        self._sizes: dict[object, SSAValue] = {}
        self._known = KnownValues()

    def add(self, op: Operation) -> SSAValue:
        """Append an operation with one result."""
        self.block.add_op(op)
        return op.results[0]

    def at_top(self, op: Operation, name: str | None = None) -> SSAValue:
        """An operation that will stand before the body; `name` is what its result is called."""
        self.top.append(op)
        op.results[0].name_hint = name
        return op.results[0]

    def finish(self) -> None:
        """Put the collected operations before the first of the entry block."""
        first = self.entry.first_op
        if first is None:
            self.entry.add_ops(self.top)
        else:
            self.entry.insert_ops_before(self.top, first)
        self.top = []

    # Values

    def constant(self, attribute: IntegerAttr | FloatAttr | DenseIntOrFPElementsAttr) -> SSAValue:
        value = self._constants.get(attribute)
        if value is None:
            value = self.at_top(arith.ConstantOp(attribute))
            self._constants[attribute] = value
        return value

    def index(self, value: Index) -> SSAValue:
        if isinstance(value, Size):
            return self._size(value)
        return self.constant(IntegerAttr(value, INDEX)) if isinstance(value, int) else value

    def _size(self, size: Size) -> SSAValue:
        """A size that the launch gives, computed once at the top."""
        key = ("size", size)
        if key not in self._sizes:
            block = Block([end := gpu.ReturnOp([])])
            value = SizeCode(block, end, known=self._sizes).value(size)
            end.detach()
            for op in list(block.ops):
                op.detach()
                self.top.append(op)
            self._sizes[key] = value
        return self._sizes[key]

    def i32(self, value: int) -> SSAValue:
        if isinstance(value, Size):
            key = ("i32", value)
            if key not in self._sizes:
                self._sizes[key] = self.at_top(arith.IndexCastOp(self._size(value), i32))
            return self._sizes[key]
        return self.constant(IntegerAttr(value, i32))

    def zero(self, type: Attribute) -> SSAValue:
        """0 of a scalar or vector type."""
        element = type.element_type if isinstance(type, VectorType) else type
        if isinstance(type, VectorType):
            zero = 0 if isinstance(element, IntegerType) else 0.0
            return self.constant(DenseIntOrFPElementsAttr.from_list(type, [zero]))
        if isinstance(element, IntegerType):
            return self.constant(IntegerAttr(0, element))
        return self.constant(FloatAttr(0.0, cast(AnyFloat, element)))

    def integer(self, number: int, type: Attribute) -> SSAValue:
        """A number, modulo 2^N, as an integer or in each place of a vector of them."""
        element = type.element_type if isinstance(type, VectorType) else type
        assert isinstance(element, IntegerType)
        half = 1 << element.width.data - 1
        number = (number + half) % (2 * half) - half
        if isinstance(type, VectorType):
            return self.constant(DenseIntOrFPElementsAttr.from_list(type, [number]))
        return self.constant(IntegerAttr(number, element))

    def _once(self, kind: Callable[..., Operation], *operands: SSAValue) -> SSAValue:
        """The operation on these operands: the one there is, or a new one."""
        return self._known.get((kind, *operands), lambda: self.add(kind(*operands)))

    # Index arithmetic: unsigned, of numbers that fit 31 bits

    def plus(self, a: Index, b: Index) -> Index:
        if isinstance(a, int):
            a, b = b, a
        if isinstance(a, int):
            return a + b  # pyright: ignore[reportReturnType, reportOperatorIssue]
        return a if b == 0 else self._once(arith.AddiOp, a, self.index(b))

    def times(self, a: Index, b: int) -> Index:
        if isinstance(a, int):
            return a * b
        if b == 1:
            return a
        return 0 if b == 0 else self._once(arith.MuliOp, a, self.index(b))

    def divided(self, a: Index, b: int) -> Index:
        if isinstance(a, int) and not (is_dynamic(a) or is_dynamic(b)):
            return a // b
        a = self.index(a)
        return a if b == 1 else self._once(arith.DivUIOp, a, self.index(b))

    def remainder(self, a: Index, b: int) -> Index:
        if isinstance(a, int) and not (is_dynamic(a) or is_dynamic(b)):
            return a % b
        a = self.index(a)
        return 0 if b == 1 else self._once(arith.RemUIOp, a, self.index(b))

    def below(self, a: Index, limit: int) -> SSAValue:
        """a < limit."""
        first, second = self.index(a), self.index(limit)
        key = (arith.CmpiOp, first, second)
        return self._known.get(key, lambda: self.add(arith.CmpiOp(first, second, "ult")))

    def both(self, a: Condition, b: Condition) -> Condition:
        if a is None or b is None:
            return a if b is None else b
        return self._once(arith.AndIOp, a, b)

    def select(self, condition: SSAValue, a: Index, b: Index) -> SSAValue:
        """Numbers are indices; values may be of any type."""
        first, second = self.index(a), self.index(b)
        key = (arith.SelectOp, condition, first, second)
        return self._known.get(key, lambda: self.add(arith.SelectOp(condition, first, second)))

    # Identifiers and memory

    def block_id(self, dimension: gpu.DimensionEnum, name: str) -> SSAValue:
        return self.at_top(gpu.BlockIdOp(gpu.DimensionAttr(dimension)), name)

    def thread_id(self) -> SSAValue:
        dimension = gpu.DimensionAttr(gpu.DimensionEnum.X)
        return self.at_top(gpu.ThreadIdOp(dimension), "invocation")

    def load(self, source: SSAValue, indices: Sequence[Index]) -> SSAValue:
        return self.add(memref.LoadOp.get(source, [self.index(i) for i in indices]))

    def load_once(self, source: SSAValue, indices: Sequence[Index]) -> SSAValue:
        """An element of memory that nobody writes: what was loaded before, or a load."""
        places = [self.index(i) for i in indices]
        return self._known.get((memref.LoadOp, source, *places), lambda: self.load(source, places))

    def store(self, value: SSAValue, target: SSAValue, indices: Sequence[Index]) -> None:
        self.block.add_op(memref.StoreOp.get(value, target, [self.index(i) for i in indices]))

    def pointer(self, memory: SSAValue, indices: Sequence[Index]) -> SSAValue:
        return self.add(ElementPtrOp(memory, [self.index(i) for i in indices]))

    def allocate(self, type: MemRefType, name: str) -> SSAValue:
        return self.at_top(memref.AllocOp((), (), type), name)

    def barrier(self) -> None:
        self.block.add_op(gpu.BarrierOp())

    def subgroup_barrier(self) -> None:
        """A subgroup's invocations see in Workgroup memory what each of them has written."""
        self.block.add_op(ControlBarrierOp(Scope.Subgroup, Scope.Subgroup, OF_WORKGROUP_MEMORY))

    # Control flow

    def loop(
        self,
        upper: Index,
        step: int,
        carried: Sequence[SSAValue],
        body: Callable[[Index, Sequence[SSAValue]], Sequence[SSAValue]],
        name: str | None = None,
        lower: Index = 0,
    ) -> Sequence[SSAValue]:
        """
        `for i in range(lower, upper, step)`: body(i, carried) gives the next carried values.

        A single trip from 0 is emitted without a loop.
        """
        known = isinstance(upper, int) and not is_dynamic(upper) and upper <= step
        if known and lower == 0:
            return body(0, carried)
        outer = self.block
        block = Block(arg_types=[INDEX, *(value.type for value in carried)])
        block.args[0].name_hint = name
        self.block = block
        with self._known.scope():
            results = body(block.args[0], block.args[1:])
        self.block.add_op(scf.YieldOp(*results))
        self.block = outer
        bounds = (self.index(lower), self.index(upper), self.index(step))
        loop = scf.ForOp(*bounds, list(carried), block)
        self.block.add_op(loop)
        return loop.results

    def either(
        self,
        condition: SSAValue,
        then: Callable[[], Sequence[SSAValue]],
        otherwise: Sequence[SSAValue],
    ) -> Sequence[SSAValue]:
        """`condition ? then() : otherwise`, values of the same types."""
        outer = self.block
        regions: list[Region] = []
        for make in (then, lambda: otherwise):
            self.block = Block()
            with self._known.scope():
                results = make()
            self.block.add_op(scf.YieldOp(*results))
            regions.append(Region(self.block))
        self.block = outer
        types = [value.type for value in otherwise]
        branch = scf.IfOp(condition, types, regions[0], regions[1])
        self.block.add_op(branch)
        return branch.results

    def when(
        self,
        condition: Condition,
        then: Callable[[], None],
        otherwise: Callable[[], None] | None = None,
    ) -> None:
        """`if condition: then() else: otherwise()`."""
        if condition is None:
            then()
            return
        then_region = self._region(then)
        else_region = None if otherwise is None else self._region(otherwise)
        self.block.add_op(scf.IfOp(condition, [], then_region, else_region))

    def _region(self, body: Callable[[], None]) -> Region:
        outer = self.block
        self.block = Block()
        with self._known.scope():
            body()
        self.block.add_op(scf.YieldOp())
        region = Region(self.block)
        self.block = outer
        return region
