"""
Loads and stores the components of a cooperative matrix one by one.

A line (a row or a column) begins at `pointer[line * stride]`, counted in elements of the pointee,
and its components follow contiguously (CM-13). The pointee's scalars may be as wide as a
component, wider (a scalar then holds several components), or narrower (a component then has
several scalars).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import NoReturn

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Operation, SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.emit.spirv import SpirvEmitter
from xdsl_spirv.passes.spirv.fallback.matrices import Form, Place, refuse


@dataclass(frozen=True)
class Spot:
    """A scalar in memory: the offset in pointees, and the component if the pointee is a vector."""

    offset: Index
    component: Index | None


class MatrixMemory:
    """Accesses the memory of one matrix load or store, one scalar at a time."""

    def __init__(self, op: spv.MatrixMemoryOperation, form: Form):
        self.op = op
        self.form = form
        pointer = op.pointer.type
        if not isinstance(pointer, spv.PointerType):
            self._refuse(f"{pointer} has no pointee type: use a typed pointer")
        self.storage = pointer.storage_class.data
        self.pointee = pointer.pointee
        self.number = spv.element_of(self.pointee)
        self.vector = spv.component_count(self.pointee)
        if self.vector & (self.vector - 1):
            self._refuse(
                f"an array of {self.pointee} has padding: use a pointee of 1, 2 or 4 components"
            )
        layout = op.matrix_layout
        if not isinstance(layout, spv.CooperativeMatrixLayoutAttr):
            self._refuse(f"the layout depends on {layout}: run spirv-specialize first")
        self.by_rows = layout.data is spv.CooperativeMatrixLayout.RowMajorKHR
        if not self.by_rows and layout.data is not spv.CooperativeMatrixLayout.ColumnMajorKHR:
            self._refuse(
                f"the layout {layout.data.name} depends on the device: use RowMajor or ColumnMajor"
            )
        self.lines, self.length = form.rows, form.columns
        if not self.by_rows:
            self.lines, self.length = self.length, self.lines
        self.component_width = spv.width_of(form.element)
        self.number_width = spv.width_of(self.number)
        self._check_pointer()

    def _refuse(self, cause: str) -> NoReturn:
        refuse(self.op, cause)

    @property
    def shared_words(self) -> bool:
        """
        True if one scalar holds several components, so that lanes cannot store single components.
        """
        return self.number_width > self.component_width

    @property
    def per_number(self) -> int:
        return self.number_width // self.component_width

    # Pointers.

    def _check_pointer(self) -> None:
        owner = self.op.pointer.owner
        if self.storage is spv.StorageClass.PhysicalStorageBuffer:
            pointer = self.op.pointer.type
            assert isinstance(pointer, spv.PointerType)
            if (
                isinstance(owner, spv.AccessChainOp | spv.InBoundsAccessChainOp)
                or pointer.stride.data
            ):
                return
            self._refuse(
                f"the pass cannot address the elements after {pointer}: use an access chain, "
                f"or a pointer with ArrayStride"
            )
        if (
            not isinstance(owner, spv.AccessChainOp | spv.InBoundsAccessChainOp)
            or not owner.indexes
        ):
            self._refuse(
                "the pass cannot address the elements after the operation's pointer: use an "
                "access chain in the same function"
            )
        if not isinstance(self._containers(owner)[-1], spv.ArrayType | spv.RuntimeArrayType):
            self._refuse(
                "CM-10: the operation's pointer must point to an array's element: use "
                "spirv.AccessChain"
            )

    @staticmethod
    def _containers(chain: spv.AccessChainOp | spv.InBoundsAccessChainOp) -> list[object]:
        """Returns the type that each index of an access chain selects from."""
        base = chain.base.type
        assert isinstance(base, spv.PointerType)
        indexes = list(chain.indexes)
        return [spv.chain_type(base, indexes[:n]).pointee for n in range(len(indexes))]

    def _pointer(self, code: SpirvEmitter, spot: Spot) -> SSAValue:
        more = [] if spot.component is None else [code.index(spot.component)]
        owner = self.op.pointer.owner
        if not isinstance(owner, spv.AccessChainOp | spv.InBoundsAccessChainOp):
            element = code.index(spot.offset)
            chain = spv.PtrAccessChainOp(self.op.pointer, element, more)
            return code.add(chain)
        *head, last = owner.indexes
        index = code.plus(code.as_index(last, sign=True), spot.offset)
        path = self._carried(code, list(head), index, self._containers(owner))
        return code.add(spv.AccessChainOp(owner.base, [*path, *more]))

    def _carried(
        self,
        code: SpirvEmitter,
        head: list[SSAValue],
        index: Index,
        containers: Sequence[object],
    ) -> list[SSAValue]:
        """
        Returns the access chain's indices of element `index` in the array that the indices `head`
        select.

        An index beyond an inner array continues in the next array, if there are no gaps.
        """
        inner = containers[len(head)]
        outer = containers[len(head) - 1] if head else None
        if (
            isinstance(inner, spv.ArrayType)
            and isinstance(outer, spv.ArrayType | spv.RuntimeArrayType)
            and (length := spv.known_size(inner.length)) is not None
            and inner.stride.data * length == outer.stride.data
        ):
            *rest, before = head
            carry = code.plus(code.as_index(before, sign=True), code.divided(index, length))
            path = self._carried(code, rest, carry, containers)
            return [*path, code.index(code.remainder(index, length))]
        return [*head, code.index(index)]

    # Places.

    def stride(self, code: SpirvEmitter) -> Index:
        if self.op.stride is None:
            # RowMajor and ColumnMajor need a stride (CM-11).
            self._refuse("CM-11: a row-major or column-major matrix needs a stride")
        return code.as_index(self.op.stride, sign=True)

    def spot(self, code: SpirvEmitter, line: Index, number: Index) -> Spot:
        """Returns the scalar with index `number` in a line (row or column)."""
        component = code.remainder(number, self.vector) if self.vector > 1 else None
        offset = code.times(line, self.stride(code))
        return Spot(code.plus(offset, code.divided(number, self.vector)), component)

    def line_and_number(self, place: Place) -> tuple[Index, Index]:
        """Returns the line (row or column) of a component, and its index in the line."""
        return (place.row, place.column) if self.by_rows else (place.column, place.row)

    # Components.

    def _memory(self) -> spv.MemoryOperand:
        access = self.op.memory_operand
        bits = spv.MemoryAccess(0) if access is None else access.data & ~spv.MemoryAccess.Aligned
        alignment = None
        if self.storage is spv.StorageClass.PhysicalStorageBuffer:
            alignment = self.number_width // 8
        if not bits and alignment is None:
            return spv.MemoryOperand()
        operand = spv.MemoryOperand.of(bits, alignment)
        return spv.MemoryOperand(operand.access, operand.alignment, self.op.memory_scope)

    def _read(self, code: SpirvEmitter, spot: Spot) -> SSAValue:
        value = code.add(spv.LoadOp(self._pointer(code, spot), memory=self._memory()))
        return code.same_bits(value, IntegerType(self.number_width))

    def write(self, code: SpirvEmitter, spot: Spot, value: SSAValue) -> None:
        """Stores a scalar. The value may have any type of the scalar's width."""
        pointer = self._pointer(code, spot)
        code.insert(spv.StoreOp(pointer, code.same_bits(value, self.number), memory=self._memory()))

    def load(self, code: SpirvEmitter, place: Place) -> SSAValue:
        """Loads one component."""
        line, within = self.line_and_number(place)
        wide, narrow = self.component_width, self.number_width
        if wide == narrow:
            spot = self.spot(code, line, within)
            value = code.add(spv.LoadOp(self._pointer(code, spot), memory=self._memory()))
            return code.same_bits(value, self.form.element)
        if self.shared_words:
            bits = self._read(code, self.spot(code, line, code.divided(within, self.per_number)))
            shift = code.times(code.remainder(within, self.per_number), wide)
            if shift != 0:
                bits = code.add(spv.ShiftRightLogicalOp(bits, code.index(shift)))
            return code.same_bits(code.resized(bits, wide, sign=False), self.form.element)

        def bits_of(part: int) -> SSAValue:
            spot = self.spot(code, line, self._part_of(code, within, part))
            bits = code.resized(self._read(code, spot), wide, sign=False)
            shift = part * narrow
            return code.add(spv.ShiftLeftLogicalOp(bits, code.number(shift))) if part else bits

        parts = map(bits_of, range(wide // narrow))
        total = reduce(lambda a, b: code.add(spv.BitwiseOrOp(a, b)), parts)
        return code.same_bits(total, self.form.element)

    def _part_of(self, code: SpirvEmitter, within: Index, part: int) -> Index:
        """Returns the index in the line of the scalar that holds part `part` of a component."""
        parts = self.component_width // self.number_width
        return code.plus(code.times(within, parts), part)

    def store(self, code: SpirvEmitter, place: Place, value: SSAValue) -> None:
        """Stores a component that does not share a scalar with other components."""
        line, within = self.line_and_number(place)
        wide, narrow = self.component_width, self.number_width
        if wide == narrow:
            self.write(code, self.spot(code, line, within), value)
            return
        bits = code.same_bits(value, IntegerType(wide))
        for part in range(wide // narrow):
            number = self._part_of(code, within, part)
            some = bits
            if part:
                some = code.add(spv.ShiftRightLogicalOp(bits, code.number(part * narrow)))
            self.write(code, self.spot(code, line, number), code.resized(some, narrow, sign=False))


def check_whole_numbers(op: Operation, memory: MatrixMemory) -> None:
    """Refuses a store if the components of a row or column do not fill whole scalars."""
    if memory.shared_words and memory.length % memory.per_number:
        refuse(
            op,
            f"{memory.length} components do not fill whole scalars of type {memory.number}, which "
            f"hold {memory.per_number} each: use a pointer to another type",
        )
