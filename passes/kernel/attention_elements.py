"""
Reads the operands and stores the result of an attention kernel without cooperative matrices.

The vectors of a key or value are assigned to lanes in turn, so that neighbouring lanes read
neighbouring vectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import BFloat16Type, FloatAttr, VectorType, f32
from xdsl.ir import Attribute, SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.schedule import FlatViewOp
from xdsl_spirv.dialects.schedule.symbolic_sizes import typical
from xdsl_spirv.passes.emit.emitter import Condition, Index
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel.attention_numbers import moved_type, round_numbers
from xdsl_spirv.passes.kernel.elements import HIGH_HALF, components_of, convert_factor
from xdsl_spirv.passes.kernel.packed import as_one
from xdsl_spirv.passes.kernel.result_tile import offset_along
from xdsl_spirv.passes.kernel.unpacked import UnitSource
from xdsl_spirv.passes.schedule.attention_lanes import FIRST, OUTER, SECOND, SHARED, E, LanesPlan


class Elements:
    """Loads operands and stores results for one matrix of the batch."""

    def __init__(self, b: KernelEmitter, plan: LanesPlan, batch: Index):
        self.b, self.plan = b, plan
        unpackings = {name: plan.unpacking(name) for name in plan.op.named}
        self.units = {name: UnitSource(b, of, batch) for name, of in unpackings.items() if of}
        names = [name for name in plan.op.named if name not in self.units]
        # Strides are in vectors.
        self.layouts = {n: plan.layout(n).in_vectors(SECOND, plan.vector(n)) for n in names}
        self.starts = {
            name: b.plus(self._along(name, OUTER, batch), layout.start)
            for name, layout in self.layouts.items()
        }

    def _along(self, name: str, walk: int, number: Index) -> Index:
        return offset_along(self.b, self.layouts[name], walk, number)

    def _view(self, name: str, width: int) -> SSAValue:
        value = self.plan.op.named[name]
        type = moved_type(self.plan.element_of(name), width)
        return self.b.once((value, width), lambda: FlatViewOp(value, type), f"{name}_elements")

    # Vectors of a key or value

    def load(self, name: str, key: Index, lane: Index) -> list[SSAValue]:
        """Loads the lane's vectors of a key or value. Vectors beyond the end are undefined."""
        b, width = self.b, self.plan.vector(name)
        if name in self.units:
            vectors = (b.index_inside(exists, n) for n, exists in self._vectors(name, lane))
            return [part for number in vectors for part in self.units[name].load(key, number)]
        start = b.plus(self.starts[name], self._along(name, FIRST, key))
        view = self._view(name, width)
        loaded: list[SSAValue] = []
        for number, exists in self._vectors(name, lane):
            number = b.index_inside(exists, number)
            loaded.append(b.load(view, (b.plus(start, self._along(name, SECOND, number)),)))
        return loaded

    def _vectors(self, name: str, lane: Index) -> Iterator[tuple[Index, Condition]]:
        """
        Yields the index of each of the lane's vectors, and the condition that the vector exists.
        """
        count, lanes = self.plan.vectors(name), self.plan.schedule.lanes.data
        for first in range(0, count, lanes):
            number = self.b.plus(lane, first)
            yield number, self.b.below(lane, count - first) if first + lanes > count else True

    def numbers(self, name: str, vectors: Sequence[SSAValue]) -> list[SSAValue]:
        """Returns the elements of loaded vectors as f32; dequantizes packed operands."""
        element = self.plan.element_of(name)
        if name in self.units:
            source = self.units[name]
            units = (vectors[i : i + source.loads] for i in range(0, len(vectors), source.loads))
            vectors = [four for unit in units for four in source.code(unit, 0).elements()]
        return [x for loaded in vectors for x in self._wide(loaded, element)]

    def _wide(self, loaded: SSAValue, element: Attribute) -> list[SSAValue]:
        b = self.b
        parts = components_of(b, loaded)
        if parts[0].type == element:
            return [convert_factor(b, part, f32, signed=True) for part in parts]
        return [x for word in parts for x in self._halves(word, element)]

    def _halves(self, word: SSAValue, element: Attribute) -> list[SSAValue]:
        b = self.b
        if isinstance(element, BFloat16Type):
            low = b.add(arith.ShLIOp(word, b.i32(HIGH_HALF)))
            high = b.add(arith.AndIOp(word, b.i32(-(1 << HIGH_HALF))))
            return [b.add(arith.BitcastOp(bits, f32)) for bits in (low, high)]
        pair = b.add(spv.BitcastOp(word, VectorType(element, [2])))
        return components_of(b, b.add(arith.ExtFOp(pair, VectorType(f32, [2]))))  # pyright: ignore

    def pieces(
        self, name: str, numbers: Sequence[SSAValue], lane: Index
    ) -> Iterator[tuple[Index, list[SSAValue], Condition]]:
        """
        Yields (index of the first element, elements, condition that the vector exists) for each of
        the lane's vectors.
        """
        width = self.plan.vector(name)
        for i, (number, exists) in enumerate(self._vectors(name, lane)):
            yield self.b.times(number, width), list(numbers[i * width : (i + 1) * width]), exists

    # Rows

    def _row(self, name: str, row: Index) -> Index:
        b, heads = self.b, self.plan.heads
        head = b.remainder(row, heads)
        at = b.plus(
            self._along(name, SHARED, head), self._along(name, FIRST, b.divided(row, heads))
        )
        return b.plus(self.starts[name], at)

    def query(self, row: Index, lane: Index) -> list[SSAValue]:
        """Loads the lane's elements of a query row as f32; 0 beyond the end of the row."""
        b, plan = self.b, self.plan
        width, own = plan.vector("k"), plan.vector("q")
        view, element = self._view("q", own), plan.element_of("q")
        start = self._row("q", row)
        zero = b.constant(FloatAttr(0.0, f32))
        numbers: list[SSAValue] = []
        for number, exists in self._vectors("k", lane):
            number = b.index_inside(exists, number)
            first = b.times(number, width // own)
            for i in range(width // own):
                at = b.plus(start, self._along("q", SECOND, b.plus(first, i)))
                loaded = self._wide(b.load(view, (at,)), element)
                numbers += [b.select(exists, x, zero) for x in loaded]
        return numbers

    def number(self, name: str, row: Index, key: Index) -> SSAValue:
        """Loads an element of the mask or the sink as f32."""
        b = self.b
        at = b.plus(self._row(name, row), self._along(name, SECOND, key))
        (number,) = self._wide(b.load(self._view(name, 1), (at,)), self.plan.element_of(name))
        return number

    def store(
        self, row: Index, column: Index, numbers: Sequence[SSAValue], part: Index = 0
    ) -> None:
        """Stores neighbouring elements of a result row; `numbers` must fill whole vectors."""
        b, plan = self.b, self.plan
        element, width = plan.element_of("result"), plan.width("result")
        start = self._row("result", row)
        if plan.op.parts is not None:
            vectors = (typical(plan.sizes.extents[E]) + 2) // width
            start = b.plus(start, b.times(part, plan.batch * plan.row_count * vectors))
        for i in range(0, len(numbers), width):
            at = b.plus(start, self._along("result", SECOND, b.divided(b.plus(column, i), width)))
            rounded = round_numbers(b, numbers[i : i + width], element)
            moved = as_one(b, rounded, moved_type(element, width))
            b.store(moved, self._view("result", width), (at,))
