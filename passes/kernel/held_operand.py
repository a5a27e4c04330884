"""
An operand in Workgroup memory from which each invocation takes what it holds of fragments.

Its rows lie as in global memory, but for the elements of one instruction, which stand in the order
of an invocation's components. So one load has what an invocation holds of a row for two
instructions, and nothing is scattered on the way there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, FloatAttr, IntAttr
from xdsl.ir import SSAValue

from xdsl_spirv.dialects.spirv.composite import CompositeInsertOp
from xdsl_spirv.dialects.spirv.constants import ConstantOp
from xdsl_spirv.dialects.spirv.enums import CooperativeMatrixUse
from xdsl_spirv.dialects.spirv.types import CooperativeMatrixType
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.kernel.inline_bodies import pack_elements, unpack_elements
from xdsl_spirv.passes.kernel.staging import StagedOperand


class HeldOperand(StagedOperand):
    """The code of an operand whose tile has a `Holding`."""

    def __init__(self, *arguments: Any, **named: Any):
        super().__init__(*arguments, **named)
        b, order, holding = self.builder, self.tile.order, self.tile.holding
        assert order is not None
        assert holding is not None
        self.order, self.holding = order, holding
        self.loaded: dict[tuple[int, int], list[SSAValue]] = {}
        lane = b.lane_id()
        self.outer_place: Index = 0
        self.part: Index = 0
        for bit, weight in holding.outer:
            self.outer_place = b.plus(self.outer_place, self._bit(lane, bit, weight))
        for number, bit in enumerate(holding.part):
            self.part = b.plus(self.part, self._bit(lane, bit, order.part_weight(number)))

    def _bit(self, lane: SSAValue, bit: int, weight: int) -> Index:
        b = self.builder
        return b.times(b.remainder(b.divided(lane, 1 << bit), 2), weight)

    def store_all(self, values: Sequence[SSAValue], k: Index) -> None:
        self.loaded = {}
        super().store_all(values, k)

    def use(self, buffer: int) -> None:
        self.loaded = {}
        super().use(buffer)

    def arranged(self, value: SSAValue) -> SSAValue:
        tile = self.tile
        parts = unpack_elements(self.builder, value, tile.element_type, tile.vector)
        steps = range(0, tile.vector, self.order.count)
        held = [parts[step + number] for step in steps for number in self.order.elements]
        return pack_elements(self.builder, held, tile.element_type)

    def fragments(self, count: int, k: int, type: CooperativeMatrixType) -> list[SSAValue]:
        b, order = self.builder, self.order
        is_a = type.use.data == CooperativeMatrixUse.MatrixAKHR
        size = type.rows if is_a else type.columns
        assert isinstance(size, IntAttr)
        element = type.element_type
        assert isinstance(element, Float16Type | BFloat16Type | Float32Type)
        none = b.at_top(ConstantOp(FloatAttr(0.0, element), type), "none")
        group, within = divmod(k, order.group)
        first = within // (order.parts * order.count) * order.count
        fragments: list[SSAValue] = []
        for start in range(0, count * size.data, size.data):
            fragment, number = none, dict.fromkeys(self.holding.slots, first)
            for component, slot in enumerate(self.holding.slots):
                parts = self._row(count * size.data, start + slot, group, number[slot])
                value = parts[number[slot] % self.tile.vector]
                fragment = b.add(CompositeInsertOp(value, fragment, [component]))
                number[slot] += 1
            fragments.append(fragment)
        return fragments

    def _row(self, span: int, place: int, group: int, number: int) -> list[SSAValue]:
        """The vector that has an invocation's `number`-th element of a group in a row."""
        b, tile = self.builder, self.tile
        at = group * self.order.group + self.order.share_place(number // tile.vector * tile.vector)
        key = place, at
        if key not in self.loaded:
            row = b.plus(b.times(self.subgroup, span), self.outer_place)
            column = b.plus(b.times(self.slice, self.depth), self.part)
            index = self._in_tile(row, b.divided(column, tile.vector), place, at // tile.vector)
            vector = b.load(self.memory, (index,))
            self.loaded[key] = unpack_elements(b, vector, tile.element_type, tile.vector)
        return self.loaded[key]
