"""Builds the tile program: indices for sums, tiles of integers, and elementwise maps."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import reduce
from math import gcd, prod
from pathlib import Path
from typing import NoReturn

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    FileLineColLoc,
    IndexType,
    IntAttr,
    IntegerType,
    StringAttr,
    UnknownLoc,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from xdsl_spirv.dialects import tile
from xdsl_spirv.dialects.schedule.symbolic_sizes import Extent, exact_quotient, symbol
from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.frontends.triton.forms import (
    Affine,
    Compare,
    Sum,
    is_wide,
    numbers_of,
    terms_of,
    to_32_bits,
)
from xdsl_spirv.frontends.triton.reading import line_of, name_of

INDEX = IndexType()


def _sum_of(number: SSAValue) -> Sum:
    return symbol(Extent(number, 0))


class Writer:
    """Builds the tile program; `block` is the insertion point."""

    def __init__(self, block: Block, name: str):
        self.block, self.name = block, name
        self.numbers: dict[SSAValue, int] = {}
        """
        Maps each value of type `index` that occurs in sums to its number, in the order of creation.
        """
        self.not_negative: set[SSAValue] = set()
        self.assumed: set[Sum | None] = set()
        """Sums that `tl.assume` declares not negative in the current block."""
        self.compared: dict[SSAValue, Compare] = {}
        self._casts: dict[SSAValue, SSAValue] = {}
        """Maps an index that was cast from an integer to the integer."""
        self._known: list[dict[object, SSAValue]] = [{}]
        self.splats: dict[SSAValue, SSAValue] = {}
        """Maps a uniform tile to its scalar."""
        self.location: FileLineColLoc | UnknownLoc = UnknownLoc()
        self.files: set[str] = set()
        self.hint: str | None = None

    # Places

    def at(self, op: Operation) -> None:
        """Sets the location of the following operations to the location of a Triton operation."""
        place, self.hint = line_of(op.location), name_of(op.location)
        if place is not None:
            file, line = place
            self.files.add(file)
            self.location = FileLineColLoc(StringAttr(Path(file).name), IntAttr(line), IntAttr(0))

    def refuse(self, cause: str, remedy: str = "") -> NoReturn:
        """Raises `FrontendError` for the current operation."""
        place, at = self.location, self.name
        if isinstance(place, FileLineColLoc):
            at = f"{place.filename.data}:{place.line.data}"
        remedy = remedy or "docs/limits.md lists what Triton's kernels may use"
        raise FrontendError(cause, at, remedy)

    def insert(self, op: Operation) -> None:
        """Appends an operation to the current block."""
        op.location = self.location
        self.block.add_op(op)

    def add(self, op: Operation) -> SSAValue:
        """Appends an operation to the current block. Returns its result."""
        self.insert(op)
        if self.hint and not op.results[0].name_hint and SSAValue.is_valid_name(self.hint):
            op.results[0].name_hint = self.hint
        return op.results[0]

    @contextmanager
    def inside(self, block: Block) -> Generator[None]:
        """Changes the insertion point to `block` for the duration of a `with` statement."""
        before, self.block = self.block, block
        assumed, self.assumed = self.assumed, {*self.assumed}
        self._known.append({})
        try:
            yield
        finally:
            self.block, self.assumed = before, assumed
            self._known.pop()

    def once(self, key: object, make: Callable[[], SSAValue]) -> SSAValue:
        """Returns the value for `key` from this or an enclosing block, or makes the value."""
        for known in self._known:
            if key in known:
                return known[key]
        made = self._known[-1][key] = make()
        return made

    # Sums

    def number(self, value: SSAValue, not_negative: bool = False) -> Sum:
        """Returns a value as a `Sum`. A value of another type is first cast to `index`."""
        index = value
        if value.type != INDEX:
            index = self.add(arith.IndexCastOp(value, INDEX))
            self._casts[index] = value
        self.numbers.setdefault(index, len(self.numbers))
        if not_negative:
            self.not_negative.add(index)
        return _sum_of(index)

    def is_not_negative(self, total: Sum) -> bool:
        """True if a sum is known to be at least 0."""
        factors = [factor for _, factor in terms_of(total)]
        if exact_quotient(total, gcd(*factors) or 1) in self.assumed:
            return True
        return all(factor > 0 for factor in factors) and numbers_of(total) <= self.not_negative

    def constant(self, value: int, type: IndexType | IntegerType = INDEX) -> SSAValue:
        """Returns a constant index or integer."""
        if type != i64 and to_32_bits(value) != value:
            self.refuse(f"an index or size of {value} needs more than 32 bits")
        make = lambda: self.add(arith.ConstantOp.from_int_and_width(value, type))  # noqa: E731
        return self.once(("constant", value, type), make)

    def index(self, total: Sum) -> SSAValue:
        """Returns the value of a `Sum` (a sum of integer products) as an index."""
        return self.once(total, lambda: self._sum(total, INDEX))

    def _sum(self, total: Sum, type: IndexType | IntegerType) -> SSAValue:
        """Appends the arithmetic of a `Sum` in a type. Returns the value."""
        terms = [
            (sorted((e.value for a in atoms for e in a.extents), key=self.numbers.__getitem__), n)
            for atoms, n in terms_of(total)
        ]
        added = [(product, factor) for product, factor in terms if factor > 0]
        taken = [(product, -factor) for product, factor in terms if factor < 0]
        sides = [self._positive(terms, type) for terms in (added, taken) if terms]
        if not sides:
            return self.constant(0, type)
        if not added:
            sides.insert(0, self.constant(0, type))
        return sides[0] if len(sides) == 1 else self.add(arith.SubiOp(sides[0], sides[1]))

    def _positive(
        self, terms: Sequence[tuple[list[SSAValue], int]], type: IndexType | IntegerType
    ) -> SSAValue:
        def order(term: tuple[list[SSAValue], int]) -> tuple[bool, list[int]]:
            return not term[0], [self.numbers[number] for number in term[0]]

        value: SSAValue | None = None
        for product, factor in sorted(terms, key=order):
            parts = [n if type == INDEX else self.scalar(_sum_of(n), type) for n in product]
            if factor != 1 or not product:
                parts.append(self.constant(factor, type))
            term = reduce(lambda x, y: self.add(arith.MuliOp(x, y)), parts)
            value = term if value is None else self.add(arith.AddiOp(value, term))
        assert value is not None
        return value

    def compare(self, part: Compare) -> SSAValue:
        """Appends a comparison of uniform numbers. Returns its boolean."""
        type = i64 if is_wide(part.a, part.b) else INDEX
        a, b = self.scalar(part.a.start, type), self.scalar(part.b.start, type)
        made = self.add(arith.CmpiOp(a, b, part.predicate))
        self.compared[made] = part
        return made

    # Values of the program

    def scalar(self, total: Sum, type: Attribute) -> SSAValue:
        """Returns the value of a `Sum` (a sum of integer products) as an integer of a type."""
        if type == INDEX:
            return self.index(total)
        found = [number for number in numbers_of(total) if total == _sum_of(number)]
        for number in found:
            cast = self._casts.get(number)
            if cast is not None and cast.type == type:
                return cast
        if type == i64 and not found:
            return self.once((total, type), lambda: self._sum(total, i64))
        make = lambda: self.add(arith.IndexCastOp(self.index(total), type))  # noqa: E731
        return self.once((total, type), make)

    def full(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """Returns a tile filled with one number."""
        made = self.add(tile.FullOp(value, shape))
        self.splats[made] = value
        return made

    def tile(self, form: Affine, type: Attribute) -> SSAValue:
        """Returns a tile of integers that grow by a constant step along each axis."""
        if form.is_uniform:
            return self.full(self.scalar(form.start, type), form.shape)
        ranges: list[SSAValue] = []
        factors: list[Sum] = []
        for axis, step in enumerate(form.steps):
            if step != 0:
                ranges.append(self._range(form.shape, axis))
                factors.append(step)
        ends = [(size - 1) * step for size, step in zip(form.shape, form.steps, strict=True)]
        numbers = [n for n in (form.start, *ends) if isinstance(n, int)]
        reach = sum(map(abs, numbers))
        is_small = type == i32 or (len(numbers) == 1 + len(ends) and to_32_bits(reach) == reach)
        inner = i32 if is_small else i64
        scalars = [self.scalar(s, inner) for s in (form.start, *factors)]

        def add(values: Sequence[SSAValue]) -> SSAValue:
            total = scalars[0] if form.start != 0 else None
            for value, step, factor in zip(values, factors, scalars[1:], strict=True):
                wide = value if is_small else self.add(arith.ExtSIOp(value, i64))
                term = wide if step == 1 else self.add(arith.MuliOp(wide, factor))
                total = term if total is None else self.add(arith.AddiOp(total, term))
            assert total is not None
            return total if total.type == type else self.add(arith.ExtSIOp(total, i64))

        return self.map(form.shape, type, ranges, add)

    def _range(self, shape: Sequence[int], axis: int) -> SSAValue:
        """Returns a tile whose elements are their indices along an axis."""
        row = self.add(tile.RangeOp(shape[axis]))
        flat = [size if number == axis else 1 for number, size in enumerate(shape)]
        return self.broadcast(self.reshape(row, flat), shape)

    def reshape(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """Reshapes a tile."""
        same = tile.tile_of(value).shape == tuple(shape)
        return value if same else self.add(tile.ReshapeOp(value, shape))

    def broadcast(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """Broadcasts a tile along its axes of size 1."""
        same = tile.tile_of(value).shape == tuple(shape)
        return value if same else self.add(tile.BroadcastOp(value, shape))

    def map(
        self,
        shape: Sequence[int],
        element: Attribute,
        operands: Sequence[SSAValue],
        make: Callable[[list[SSAValue]], SSAValue],
    ) -> SSAValue:
        """
        Applies the function `make` to the elements of tiles of a shape. Scalar operands are the
        same for all elements. With an empty shape, all operands are scalars.
        """
        tiles = [value for value in operands if isinstance(value.type, tile.TileType)]
        if not tiles:
            value = make(list(operands))
            return self.full(value, shape) if shape else value
        block = Block(arg_types=[tile.tile_of(value).element for value in tiles])
        arguments = iter(block.args)
        given = [next(arguments) if isinstance(v.type, tile.TileType) else v for v in operands]
        with self.inside(block):
            self.insert(tile.YieldOp(make(given)))
        return self.add(tile.MapOp(tiles, [tile.tile_type(shape, element)], block))

    def flatten(self, value: SSAValue) -> SSAValue:
        """Returns the element of a one-element tile."""
        shape = tile.tile_of(value).shape
        assert prod(shape) == 1
        element = tile.tile_of(value).element
        block = Block(arg_types=[element, element])
        with self.inside(block):
            self.insert(tile.YieldOp(block.args[0]))
        return self.add(tile.ReduceOp([value], 0, block))
