"""
Emits the body of a kernel in `arith`, `memref`, `gpu` and `scf`.

A pure operation is emitted where its result is first used, and reused wherever that result
dominates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith, gpu, memref, scf
from xdsl.dialects.builtin import IndexType, MemRefType, UnitAttr, i32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint

from xdsl_spirv.dialects.schedule import ElementPtrOp, FlatViewOp
from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, SymbolicSize, is_dynamic
from xdsl_spirv.dialects.spirv.attributes import StorageClassAttr
from xdsl_spirv.dialects.spirv.barrier import ControlBarrierOp
from xdsl_spirv.dialects.spirv.enums import MemorySemantics, Scope, StorageClass
from xdsl_spirv.passes.analysis.sizes import SizeCode
from xdsl_spirv.passes.emit.emitter import Condition, Emitter, Index, Instructions

INDEX = IndexType()

UNROLLED = "unrolled"
"""Loop control that asks the driver to unroll the loop."""

OF_WORKGROUP_MEMORY = (
    MemorySemantics.AcquireRelease
    | MemorySemantics.WorkgroupMemory
    | MemorySemantics.MakeAvailable
    | MemorySemantics.MakeVisible
)

Body = Callable[[], Sequence[SSAValue] | None]


def _less(a: SSAValue, b: SSAValue) -> Operation:
    return arith.CmpiOp(a, b, "ult")


def load_element(source: SSAValue, *indices: SSAValue) -> Operation:
    return memref.LoadOp.get(source, indices)


class KernelEmitter(Emitter):
    """Emits a kernel's body."""

    instructions = Instructions(
        INDEX,
        arith.ConstantOp,
        arith.AddiOp,
        arith.MuliOp,
        arith.DivUIOp,
        arith.RemUIOp,
        _less,
        arith.AndIOp,
        arith.SelectOp,
    )

    def __init__(self, place: InsertPoint):
        super().__init__(place)
        self._sizes: dict[object, SSAValue] = {}

    # Signed numbers, which `below` and `divided` do not support

    def least(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return min(a, b)
        return self.add(arith.MinSIOp(self.index(a), self.index(b)))

    def greatest(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return max(a, b)
        return self.add(arith.MaxSIOp(self.index(a), self.index(b)))

    def minus(self, a: Index, b: Index) -> Index:
        if not isinstance(a, SSAValue) and not isinstance(b, SSAValue):
            return a - b
        return self.add(arith.SubiOp(self.index(a), self.index(b)))

    def less(self, a: Index, limit: Index) -> Condition:
        if isinstance(a, int) and isinstance(limit, int):
            return a < limit
        return self.add(arith.CmpiOp(self.index(a), self.index(limit), "slt"))

    # Values

    def index(self, value: Index) -> SSAValue:
        return self.size(value) if is_dynamic(value) else super().index(value)

    def size(self, size: SymbolicSize) -> SSAValue:
        """Returns the value of a symbolic size, which the launch passes."""
        return SizeCode(self.at_top, known=self._sizes).value(size)

    def i32(self, value: Size) -> SSAValue:
        if is_dynamic(value):
            return self.once(("i32", value), lambda: arith.IndexCastOp(self.size(value), i32))
        return self.number(value, i32)

    def zero(self, type: Attribute) -> SSAValue:
        """Returns 0 of a scalar or vector type."""
        return self.number(0, type)

    # Identifiers of the invocation, which are less than `count`

    def identifier(
        self, key: object, make: Callable[[], Operation], name: str, count: int | None
    ) -> SSAValue:
        return self.once(key, make, name)

    def block_id(
        self, dimension: gpu.DimensionEnum, name: str, count: int | None = None
    ) -> SSAValue:
        of = gpu.DimensionAttr(dimension)
        return self.identifier((gpu.BlockIdOp, of), lambda: gpu.BlockIdOp(of), name, count)

    def thread_id(self, count: int | None = None) -> SSAValue:
        x = gpu.DimensionAttr(gpu.DimensionEnum.X)
        return self.identifier(gpu.ThreadIdOp, lambda: gpu.ThreadIdOp(x), "invocation", count)

    def lane_id(self, count: int | None = None) -> SSAValue:
        return self.identifier(gpu.LaneIdOp, gpu.LaneIdOp, "lane", count)

    def subgroup_id(self, count: int) -> Index:
        if count == 1:
            return 0
        return self.identifier(gpu.SubgroupIdOp, gpu.SubgroupIdOp, "subgroup", count)

    # Memory

    def load(self, source: SSAValue, indices: Sequence[Index]) -> SSAValue:
        return self.add(load_element(source, *map(self.index, indices)))

    def load_once(self, source: SSAValue, indices: Sequence[Index]) -> SSAValue:
        """Loads an element of memory that no operation writes; equal loads are emitted once."""
        return self.pure(load_element, source, *map(self.index, indices))

    def store(self, value: SSAValue, target: SSAValue, indices: Sequence[Index]) -> None:
        self.insert(memref.StoreOp.get(value, target, [self.index(i) for i in indices]))

    def pointer(self, memory: SSAValue, indices: Sequence[Index]) -> SSAValue:
        return self.add(ElementPtrOp(memory, [self.index(i) for i in indices]))

    def flat_view(self, memory: SSAValue, element: Attribute, name: str = "operand") -> SSAValue:
        """
        Returns a 1-D view of a buffer, in elements or vectors. If the buffer has no name, gives it
        the name `name`.
        """
        name = memory.name_hint or name
        return self.at_top(FlatViewOp(memory, element), f"{name}_elements")

    def elements_of(self, memory: SSAValue) -> SSAValue:
        """
        Returns a 1-D view of a buffer's elements. A buffer of one dimension is returned as it is.
        """
        type = memory.type
        assert isinstance(type, MemRefType)
        if type.get_num_dims() == 1:
            return memory
        name = f"{memory.name_hint or 'buffer'}_elements"
        return self.once(("elements", memory), lambda: FlatViewOp(memory, type.element_type), name)

    def allocate(self, element: Attribute, shape: Sequence[int], name: str) -> SSAValue:
        """Allocates Workgroup memory."""
        type = MemRefType(element, shape, memory_space=StorageClassAttr(StorageClass.Workgroup))
        return self.at_top(memref.AllocOp((), (), type), name)

    def barrier(self) -> None:
        self.insert(gpu.BarrierOp())

    def buffer_barrier(self) -> None:
        """Emits a workgroup barrier, after which Workgroup memory and buffers are consistent."""
        semantics = OF_WORKGROUP_MEMORY | MemorySemantics.UniformMemory
        self.insert(ControlBarrierOp(Scope.Workgroup, Scope.Workgroup, semantics))

    def subgroup_barrier(self) -> None:
        """Emits a subgroup barrier, after which Workgroup memory is consistent in the subgroup."""
        self.insert(ControlBarrierOp(Scope.Subgroup, Scope.Subgroup, OF_WORKGROUP_MEMORY))

    # Control flow

    def is_single_trip(self, lower: Index, upper: int, step: int) -> bool:
        """True if a loop is known to run exactly once."""
        return upper <= step and lower == 0

    def enter_loop(self, index: SSAValue, lower: Index, upper: Index, step: int) -> None:
        """Hook that is called with a loop's index before the body is emitted."""

    def loop(
        self,
        upper: Index,
        step: int,
        carried: Sequence[SSAValue],
        body: Callable[[Index, Sequence[SSAValue]], Sequence[SSAValue] | None],
        name: str | None = None,
        lower: Index = 0,
        unrolled: bool = False,
    ) -> Sequence[SSAValue]:
        """
        Emits `for i in range(lower, upper, step)`; body(i, carried) returns the next values.

        A single trip is emitted without a loop. `unrolled` asks the driver to unroll the loop.
        """
        if isinstance(upper, int) and self.is_single_trip(lower, upper, step):
            return body(lower, carried) or ()
        block = Block(arg_types=[INDEX, *(value.type for value in carried)])
        block.args[0].name_hint = name
        with self.inside(block, fence=False):
            self.enter_loop(block.args[0], lower, upper, step)
            self.insert(scf.YieldOp(*(body(block.args[0], block.args[1:]) or ())))
        bounds = (self.index(lower), self.index(upper), self.index(step))
        loop = scf.ForOp(*bounds, list(carried), block)
        if unrolled:
            loop.attributes[UNROLLED] = UnitAttr()
        self.insert(loop)
        return loop.results

    def when(self, condition: Condition, then: Body, otherwise: Body | None = None) -> None:
        """Emits `if condition: then() else: otherwise()`."""
        if condition is True:
            then()
        elif condition is not False:
            self.choose(condition, then, otherwise)
        elif otherwise is not None:
            otherwise()

    def choose(
        self, condition: SSAValue, then: Body, otherwise: Body | None = None
    ) -> Sequence[SSAValue]:
        """Emits an `scf.if` and returns its results; only the selected branch is executed."""
        yielded, regions = list[SSAValue](), list[Region]()
        for body in (then, otherwise):
            if body is None:
                continue
            regions.append(Region(block := Block()))
            with self.inside(block):
                yielded = list(body() or ())
                self.insert(scf.YieldOp(*yielded))
        types, other = [value.type for value in yielded], regions[1] if otherwise else None
        branch = scf.IfOp(condition, types, regions[0], other)
        self.insert(branch)
        return branch.results
