"""
Exchanges components through Workgroup memory between the invocations that share a matrix.

A MulAdd needs rows of A and columns of B, which other invocations hold. MulAdds of a block form a
batch if their factors are all defined before the first MulAdd. A batch writes each factor to a
separate part of the memory, then has a barrier, the products, and another barrier. Factors are
converted to the type of the computation before they are written. A batch ends where it would need
more memory than is available.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from xdsl.dialects.builtin import IntegerType, VectorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.emit.spirv import SpirvEmitter, declare, free_symbol
from xdsl_spirv.passes.spirv.fallback.matrices import Form, Group, refuse
from xdsl_spirv.passes.spirv.fallback.multiply import Product

ExchangingOp = spv.CooperativeMatrixMulAddOp | spv.CooperativeMatrixStoreOp


@dataclass
class Batch:
    """MulAdds and stores whose exchanged components are in Workgroup memory at the same time."""

    type: Attribute
    """Element type of the exchange memory."""
    group: Group
    members: list[ExchangingOp] = field(default_factory=list[ExchangingOp])
    places: dict[object, int] = field(default_factory=dict[object, int])
    """Offset of each exchanged value in the memory of one group, in elements."""
    starts: dict[ExchangingOp, list[int]] = field(default_factory=dict[ExchangingOp, list[int]])
    """Offsets of each operation's exchanged values in the memory of one group, in elements."""
    size: int = 0
    """Number of elements that one group of invocations exchanges."""

    @property
    def first(self) -> ExchangingOp:
        return self.members[0]

    @property
    def last(self) -> ExchangingOp:
        return self.members[-1]

    def more(self, factors: Iterable[tuple[object, int]]) -> int:
        """Returns the size, in elements, that the batch would have with these additional values."""
        return self.size + sum({k: n for k, n in factors if k not in self.places}.values())

    def add(self, op: ExchangingOp, factors: Sequence[tuple[object, int]]) -> None:
        self.members.append(op)
        for key, count in factors:
            if key not in self.places:
                self.places[key] = self.size
                self.size += count
        self.starts[op] = [self.places[key] for key, _ in factors]


class Exchange:
    """Groups MulAdds into batches, and declares and accesses the batches' Workgroup memory."""

    def __init__(self, module: spv.ModuleOp, budget: int):
        self.module = module
        self.batches: dict[ExchangingOp, Batch] = {}
        self._variables: dict[Attribute, spv.GlobalVariableOp] = {}
        self._open: Batch | None = None
        self._all: list[Batch] = []
        taken = sum(
            _bytes(v.type.pointee)
            for v in module.body.block.ops
            if isinstance(v, spv.GlobalVariableOp) and v.storage_class is spv.StorageClass.Workgroup
        )
        self.budget, self.taken = budget, taken

    # Batches

    def batch_products(
        self, block: Block, products: Mapping[Operation, Product], ends: Container[Operation]
    ) -> None:
        """Groups a block's MulAdds into batches; operations in `ends` end a batch."""
        self._open = None
        for op in block.ops:
            if isinstance(op, spv.CooperativeMatrixMulAddOp) and op in products:
                self._batch_product(op, products[op])
            elif op.regions or isinstance(op, spv.FunctionCallOp) or op in ends:
                self._open = None

    def batch_store(self, op: ExchangingOp, form: Form) -> None:
        """Plans the exchange for a store that packs components into one scalar."""
        batch = Batch(IntegerType(32), form.group)
        self._begin(batch, op, [(op, form.total)])

    def _batch_product(self, op: spv.CooperativeMatrixMulAddOp, product: Product) -> None:
        factors = product.factors(op)
        batch = self._open
        if (
            batch is not None
            and batch.type == product.wide
            and batch.group == product.a.group
            and not any(_is_behind(v, batch.first) for v in (op.a, op.b))
            and self._fits(batch, batch.more(factors))
        ):
            batch.add(op, factors)
            self.batches[op] = batch
            return
        self._open = Batch(product.wide, product.a.group)
        self._begin(self._open, op, factors)

    def _begin(self, batch: Batch, op: ExchangingOp, factors: Sequence[tuple[object, int]]) -> None:
        size = batch.more(factors)
        if not self._fits(batch, size):
            refuse(
                op,
                f"exchanged components need {self._bytes_for(batch, size)} bytes of Workgroup "
                f"memory for {batch.group.count} groups of {batch.group.lanes} invocations; only "
                f"{self.budget - self.taken} of {self.budget} are free: raise workgroup-memory",
            )
        batch.add(op, factors)
        self.batches[op] = batch
        self._all.append(batch)

    def _bytes_for(self, batch: Batch, size: int) -> int:
        return size * batch.group.count * spv.width_of(batch.type) // 8

    def _fits(self, batch: Batch, size: int) -> bool:
        """True if memory has room for `size` elements beside the batches of other types."""
        others = {b.type: 0 for b in self._all if b.type != batch.type}
        for other in self._all:
            if other.type in others:
                need = self._bytes_for(other, other.size)
                others[other.type] = max(others[other.type], need)
        return self.taken + sum(others.values()) + self._bytes_for(batch, size) <= self.budget

    def declare(self) -> None:
        """Declares the variables. Each is as large as the largest batch of its type."""
        sizes: dict[Attribute, int] = {}
        for batch in self._all:
            size = batch.size * batch.group.count
            sizes[batch.type] = max(sizes.get(batch.type, 0), size)
        for type_, size in sizes.items():
            name = free_symbol(self.module, f"exchange_{type_}")
            pointer = spv.PointerType(spv.ArrayType(size, type_), spv.StorageClass.Workgroup)
            self._variables[type_] = declare(self.module, spv.GlobalVariableOp(name, pointer))
        if sizes:
            self._check_other_memory()

    def _check_other_memory(self) -> None:
        """
        Refuses a module whose Workgroup memory has an explicit layout. SPIR-V (2.16) allows no
        other Workgroup memory in such a module.
        """
        for op in self.module.body.block.ops:
            if (
                isinstance(op, spv.GlobalVariableOp)
                and op.storage_class is spv.StorageClass.Workgroup
            ):
                held = op.object_type
                if isinstance(held, spv.StructType) and held.has_decoration(spv.Decoration.Block):
                    refuse(
                        op,
                        "cooperative MulAdds need Workgroup memory without an explicit layout, and "
                        "a module with this variable cannot have it: declare it without Block",
                    )

    # Code.

    def base(self, code: SpirvEmitter, batch: Batch, start: int) -> Index:
        """Returns the index of offset `start` in the memory of the invocation's group."""
        return code.plus(code.times(batch.group.number(code), batch.size), start)

    def _element(self, code: SpirvEmitter, type_: Attribute, index: Index) -> SSAValue:
        return code.add(
            spv.AccessChainOp(code.address(self._variables[type_]), [code.index(index)])
        )

    def _memory(self) -> spv.MemoryOperand:
        vulkan = self.module.memory_model.data is spv.MemoryModel.Vulkan
        return (
            spv.MemoryOperand.of(spv.MemoryAccess.NonPrivatePointer)
            if vulkan
            else spv.MemoryOperand()
        )

    def write(self, code: SpirvEmitter, index: Index, value: SSAValue) -> None:
        code.insert(
            spv.StoreOp(self._element(code, value.type, index), value, memory=self._memory())
        )

    def read(self, code: SpirvEmitter, type_: Attribute, index: Index) -> SSAValue:
        return code.add(spv.LoadOp(self._element(code, type_, index), memory=self._memory()))

    def barrier(self, code: SpirvEmitter, group: Group) -> None:
        """Writes a barrier that makes the group's earlier writes visible to the group."""
        semantics = spv.MemorySemantics.AcquireRelease | spv.MemorySemantics.WorkgroupMemory
        if self.module.memory_model.data is spv.MemoryModel.Vulkan:
            semantics |= spv.MemorySemantics.MakeAvailable | spv.MemorySemantics.MakeVisible
        scope = spv.Scope.Workgroup if group.whole or group.virtual else spv.Scope.Subgroup
        code.insert(spv.ControlBarrierOp(scope, scope, semantics))


def _is_behind(value: SSAValue, op: Operation) -> bool:
    """True if a value is defined in the block of `op` and not before `op`."""
    owner = value.owner
    return isinstance(owner, Operation) and owner.parent is op.parent and not (
        owner.is_before_in_block(op)
    )  # fmt: skip


def _bytes(type_: Attribute) -> int:
    match type_:
        case spv.ArrayType():
            return (spv.known_size(type_.length) or 0) * _bytes(type_.element_type)
        case VectorType():
            return prod(type_.get_shape()) * _bytes(type_.element_type)
        case spv.MatrixType():
            return type_.columns.data * _bytes(type_.column_type)
        case spv.StructType():
            return sum(map(_bytes, type_.member_types))
        case _:
            return spv.width_of(spv.element_of(type_)) // 8 or 4
