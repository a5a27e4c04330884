"""
Derives formulas for the elements of a tile program's results, by their index in the whole view.

A tile's axis is part of a dimension of the whole computation: rows of a view that `tile.place`
assigns to workgroups, the steps of a loop, or an axis that one tile covers. An element is a
formula of elements of the program's arguments. A loop that adds up products becomes a sum over its
dimension. A loop that tracks the maximum score of a row and rescales becomes an attention
(`online_softmax`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import DYNAMIC_INDEX, IntegerType
from xdsl.ir import Block, Operation, SSAValue

from xdsl_spirv.dialects import tile
from xdsl_spirv.passes.graph.online_softmax import OnlineSoftmax
from xdsl_spirv.passes.graph.tile_nodes import (
    ONE,
    Dimension,
    Node,
    Nodes,
    NotRaised,
    Terms,
    is_number,
    number_of,
    terms_of,
    type_of,
)


class _Renamed(Exception):
    """Raised if two names refer to one dimension. The program is then read again."""


@dataclass(frozen=True)
class Tile:
    """A tile: the dimension of each axis (None for an axis of one element) and a formula."""

    axes: tuple[str | None, ...]
    node: Node

    def __post_init__(self) -> None:
        known = [axis for axis in self.axes if axis is not None]
        if len(set(known)) != len(known):
            raise NotRaised("two axes of a tile index the same dimension")


@dataclass(frozen=True)
class Result:
    """A stored view; `axes` names the dimension of each axis, `node` is the elements' formula."""

    argument: int
    axes: tuple[str | None, ...]
    node: Node
    op: Operation


class Elements(Nodes):
    """Derives the formulas of a tile program's results."""

    def __init__(self, program: tile.ProgramOp):
        super().__init__()
        self.program = program
        self.names: dict[str, str] = {}
        """Maps a dimension's name to the name of the equal dimension that replaces it."""

    def read(self) -> list[Result]:
        """Returns the stored views. Raises `NotRaised` if the program has no formulas."""
        while True:
            super().__init__()
            self.values: dict[SSAValue, Any] = {}
            self.results: list[Result] = []
            self._count = 0
            try:
                self._begin()
                self._block(self.program.body.block)
                return self.results
            except _Renamed:
                continue

    def _begin(self) -> None:
        for argument in self.program.body.block.args:
            type = argument.type
            if isinstance(type, tile.ViewType):
                if DYNAMIC_INDEX in type.shape:
                    raise NotRaised("a view has dynamic sizes")
                self.values[argument] = argument
            else:
                self.values[argument] = self.linear({("argument", argument.index): 1}, type)

    # Dimensions

    def fresh(self, tile: int, extent: int | None = None) -> str | None:
        """Creates a dimension for an axis and returns its name; None for an axis of one element."""
        self._count += 1
        if tile == 1 and extent in (None, 1):
            return None
        name = self.rename(f"d{self._count}")
        if name not in self.dimensions or extent is not None:
            self.dimensions[name] = Dimension(extent, tile)
        return name

    def rename(self, name: str) -> str:
        """Returns the current name of a dimension."""
        while name in self.names:
            name = self.names[name]
        return name

    def same(self, a: str | None, b: str | None) -> str | None:
        """
        Unifies two dimensions that one operation indexes together, and returns the joint name.
        """
        if a == b or b is None or a is None:
            return a or b
        x, y = self.dimensions[a], self.dimensions[b]
        if x.tile != y.tile or (None not in (x.extent, y.extent) and x.extent != y.extent):
            raise NotRaised("an operation combines axes of different sizes")
        if not a.startswith("d") or (x.extent is not None and y.extent is None):
            a, b, x = b, a, y
        if not a.startswith("d") or (x.extent is not None and x.extent > x.tile):
            raise NotRaised("an operation combines two different tiled dimensions")
        self.names[a] = b
        raise _Renamed

    def _axis(self, index: Node, size: int, extent: int) -> str | None:
        """Returns the dimension along which a load or store covers `size` elements of an axis."""
        terms = terms_of(index)
        if not set(terms) - {ONE}:
            if terms.get(ONE, 0) != 0 or size < extent:
                raise NotRaised("a load or store at a constant index does not cover the whole axis")
            return self.fresh(size, extent)
        if list(terms.values()) != [1] or (name := next(iter(terms)))[0] != "first":
            raise NotRaised("a load or store does not begin at the first index of a tile")
        known = self.dimensions[name[1]]
        if known.tile != size or known.extent != extent:
            raise NotRaised("a load or store differs in size from the tile that it indexes")
        return name[1]

    def _box(self, view: SSAValue, indices: Sequence[SSAValue], shape: Sequence[int]) -> list[Any]:
        sizes = tile.view_of(view).shape
        shape = (*([1] * (len(sizes) - len(shape))), *shape)
        numbers = [self.values[index] for index in indices]
        return [self._axis(*axis) for axis in zip(numbers, shape, sizes, strict=True)]

    # Operations

    def _block(self, block: Block) -> list[Any]:
        for op in block.ops:
            if isinstance(op, scf.YieldOp):
                return [self.values[value] for value in op.operands]
            handler = HANDLERS.get(type_of(op))
            if handler is not None:
                handler(self, op)
            elif op.name.partition(".")[0] in ("arith", "math") and len(op.results) == 1:
                children = [self.values[value] for value in op.operands]
                self.values[op.results[0]] = self.operation(op, children, op.results[0].type)
            else:
                raise NotRaised(f"{op.name} has no equivalent on tensors")
        return []

    def _argument(self, view: SSAValue) -> Any:
        if not isinstance(view.owner, Block):
            raise NotRaised("a load or store uses a view of another view, not of an argument")
        return self.values[view]

    def place(self, op: tile.PlaceOp) -> None:
        """Records the first index of each workgroup's tile."""
        shape = tile.view_of(op.view).shape
        for number, (result, (axis, size)) in enumerate(zip(op.firsts, op.counted, strict=True)):
            name = self.rename(f"p{number}")
            self.dimensions[name] = Dimension(shape[axis], size)
            self.values[result] = self.linear({("first", name): 1}, result.type)

    def size(self, op: tile.SizeOp) -> None:
        """Records a view's size as a constant."""
        extent = tile.view_of(op.view).shape[op.axis.value.data]
        self.values[op.result] = self.linear({ONE: extent}, op.result.type)

    def load(self, op: tile.LoadOp) -> None:
        """Records a loaded tile: elements of an argument."""
        argument = self._argument(op.view)
        if any(result.argument == argument.index for result in self.results):
            raise NotRaised("the program loads a view after it stored to the view")
        type = tile.tile_of(op.result)
        axes = self._box(op.view, op.indices, type.shape)
        node = self.node("load", (argument.index, tuple(axes)), (), type.element, op)
        if self.tail is not None and self.tail in axes:
            if op.outside is None:
                raise NotRaised("a loop's last step reads outside of its view")
            node = self.node("constant", op.outside, (), type.element)
        self.values[op.result] = Tile(tuple(axes[len(axes) - len(type.shape) :]), node)

    def store(self, op: tile.StoreOp) -> None:
        """
        Records a result. Raises `NotRaised` if the store does not cover its view exactly once.
        """
        argument, value = self._argument(op.view), self.values[op.tile]
        axes = self._box(op.view, op.indices, tile.tile_of(op.tile).shape)
        for a, b in zip(axes[len(axes) - len(value.axes) :], value.axes, strict=True):
            self.same(a, b)
        parts = [n for n, d in self.dimensions.items() if not d.is_loop and d.extent != d.tile]
        dealt = {n for n in parts if self.dimensions[n].extent is not None}
        known = [axis for axis in axes if axis is not None]
        twice = any(result.argument == argument.index for result in self.results)
        if twice or len(set(known)) != len(known) or dealt - set(known):
            raise NotRaised("stores do not cover a view exactly once")
        self.results.append(Result(argument.index, tuple(axes), value.node, op))

    def full(self, op: tile.FullOp) -> None:
        """Records a tile whose elements are all equal."""
        axes = tuple(self.fresh(size) for size in tile.tile_of(op.result).shape)
        self.values[op.result] = Tile(axes, self.values[op.value])

    def numbers(self, op: tile.RangeOp) -> None:
        """Records a tile of 0, 1, ... as an index minus the tile's first index."""
        type = tile.tile_of(op.result)
        axis = self.fresh(*type.shape)
        terms: Terms = {} if axis is None else {("index", axis): 1, ("first", axis): -1}
        if axis is not None and self.dimensions[axis].extent == self.dimensions[axis].tile:
            terms = {("index", axis): 1}
        self.values[op.result] = Tile((axis,), self.linear(terms, type.element))

    def map(self, op: tile.MapOp) -> None:
        """Records the formula of an elementwise operation's result."""
        tiles = [cast(Tile, self.values[value]) for value in op.tiles]
        axes = tiles[0].axes if tiles else ()
        for other in tiles[1:]:
            axes = tuple(self.same(a, b) for a, b in zip(axes, other.axes, strict=True))
        if not tiles:
            axes = tuple(self.fresh(size) for size in tile.tile_of(op.outputs[0]).shape)
        known: dict[SSAValue, Any] = dict(
            zip(op.body.block.args, (t.node for t in tiles), strict=True)
        )
        for output, node in zip(op.outputs, self.function(op.body.block, known), strict=True):
            self.values[output] = Tile(axes, node)

    def function(self, block: Block, known: dict[SSAValue, Any]) -> list[Node]:
        """
        Returns the nodes that a function of elements yields. `known` maps the function's arguments
        to nodes.
        """
        for op in block.ops:
            given = [known[v] if v in known else self.values[v] for v in op.operands]
            if isinstance(op, tile.YieldOp):
                return given
            known[op.results[0]] = self.operation(op, given, op.results[0].type)
        raise NotRaised("a function of elements has no results")

    def multiply(self, op: tile.MultiplyAddOp) -> None:
        """Records a product as a sum over its inner dimension, or as one step of a loop's sum."""
        a, b, c = (cast(Tile, self.values[value]) for value in (op.a, op.b, op.c))
        axes = self.same(a.axes[0], c.axes[0]), self.same(b.axes[1], c.axes[1])
        over = self.same(a.axes[1], b.axes[0])
        detail = over, op.unsigned is not None
        type, factors = tile.tile_of(op.c).element, (a.node, b.node)
        known = None if over is None else self.dimensions[over]
        if known is not None and known.is_loop:
            node = self.node("part", detail, (*factors, c.node), type, op)
        elif known is not None and known.extent == known.tile:
            node = self.add(c.node, self.node("sum", detail, factors, type, op))
        else:
            raise NotRaised("a product sums over only a part of a dimension")
        self.values[op.result] = Tile(axes, node)

    def add(self, start: Node, node: Node) -> Node:
        """Returns the sum of an initial value and a node; an initial value of 0 is left out."""
        if is_number(start, 0):
            return node
        kind = arith.AddiOp if isinstance(node.type, IntegerType) else arith.AddfOp
        return self.make(kind, start, node)

    def reduce(self, op: tile.ReduceOp) -> None:
        """Records the formula of a reduction whose body is one operation."""
        block = op.body.block
        first = block.ops.first
        simple = first is not None and first.next_op is block.last_op and len(op.tiles) == 1
        if first is None or not simple or set(first.operands) != set(block.args):
            raise NotRaised("the body of a reduction has more than one operation")
        value, axis = self.values[op.tiles[0]], op.axis.value.data
        over = value.axes[axis]
        known = self.dimensions[over] if over is not None else None
        if known is None or (not known.is_loop and known.extent != known.tile):
            raise NotRaised("a reduction covers only a part of a row")
        kind = "reduce_part" if known.is_loop else "reduce"
        node = self.node(kind, (first.name, over), (value.node,), value.node.type, op)
        axes = (*value.axes[:axis], *value.axes[axis + 1 :])
        self.values[op.outputs[0]] = Tile(axes, node) if axes else node

    def move(self, op: tile.BroadcastOp | tile.ReshapeOp | tile.TransposeOp) -> None:
        """Records the formula of a broadcast, a reshape or a transposition."""
        value = cast(Tile, self.values[op.tile])
        before, after = tile.tile_of(op.tile).shape, tile.tile_of(op.result).shape
        axes: tuple[str | None, ...] = value.axes[::-1]
        if isinstance(op, tile.BroadcastOp):
            sizes = zip(value.axes, before, after, strict=True)
            axes = tuple(a if old == new else self.fresh(new) for a, old, new in sizes)
        elif isinstance(op, tile.ReshapeOp):
            wide = [(a, n) for a, n in zip(value.axes, before, strict=True) if n != 1]
            if [n for _, n in wide] != [n for n in after if n != 1]:
                raise NotRaised("a reshape splits or merges axes")
            left = iter(wide)
            axes = tuple(next(left)[0] if n != 1 else None for n in after)
        self.values[op.result] = Tile(axes, value.node)

    def loop(self, op: scf.ForOp) -> None:
        """Records the results of a loop as sums over its steps, or as an attention."""
        lower, upper, step = (cast(Node, self.values[v]) for v in (op.lb, op.ub, op.step))
        extent, limit = extent_of(upper)
        if terms_of(lower) or set(terms_of(step)) != {ONE} or not extent:
            raise NotRaised("a loop does not count from 0 to a known number")
        name = self.rename(f"l{self._count}")
        self._count += 1
        known = Dimension(extent, terms_of(step)[ONE], True, limit)
        self.dimensions[name] = known
        block, count = op.body.block, self._count
        starts = [self.values[value] for value in op.iter_args]
        if not all(isinstance(start, Tile) for start in starts):
            raise NotRaised("a loop carries scalars, not only tiles")
        self.values[block.args[0]] = self.linear({("first", name): 1}, block.args[0].type)
        for n, (argument, start) in enumerate(zip(block.args[1:], starts, strict=True)):
            carried = self.node("carried", (name, n), (), start.node.type)
            self.values[argument] = Tile(start.axes, carried)
        yields = self._block(block)
        for start, value in zip(starts, yields, strict=True):
            for a, b in zip(start.axes, value.axes, strict=True):
                self.same(a, b)
        tail = None
        if extent % known.tile:
            self._count, self.tail = count, name
            tail = [value.node for value in self._block(block)]
            self.tail = None
        nodes = self._finish(name, [s.node for s in starts], [y.node for y in yields], tail)
        for result, value, node in zip(op.results, yields, nodes, strict=True):
            self.values[result] = Tile(value.axes, node)

    def _finish(
        self, name: str, starts: list[Node], yields: list[Node], tail: list[Node] | None
    ) -> list[Node]:
        if all(
            y.kind == "part" and y.children[2].detail == (name, n) for n, y in enumerate(yields)
        ):
            if self.dimensions[name].limit is not None:
                raise NotRaised("a summing loop's last step depends on the workgroup")
            for node in tail or ():
                if not all(is_number(child, 0) for child in node.children[:2]):
                    raise NotRaised(
                        "elements outside a view must be zero in a loop's incomplete last step: "
                        "load with `outside 0`"
                    )
            return [
                self.add(
                    start, self.node("sum", y.detail, y.children[:2], y.type, self.locations.get(y))
                )
                for start, y in zip(starts, yields, strict=True)
            ]
        return OnlineSoftmax(self, name, starts).results(yields, tail)


def extent_of(upper: Node) -> tuple[int | None, Node | None]:
    """Splits `min(constant, node)` into the constant and the node; a missing part is None."""
    if (known := number_of(upper)) is not None:
        return int(known), None
    if upper.kind != "arith.minsi":
        return None, None
    ends = [number_of(child) for child in upper.children]
    if (ends[0] is None) == (ends[1] is None):
        return None, None
    known = 0 if ends[0] is not None else 1
    limit = upper.children[1 - known]
    if limit.kind == "arith.maxsi":
        limit = next((c for c in limit.children if not is_number(c, 0)), limit)
    return int(ends[known] or 0), limit


HANDLERS: dict[type[Operation], Callable[[Elements, Any], None]] = {
    tile.PlaceOp: Elements.place,
    tile.SizeOp: Elements.size,
    tile.LoadOp: Elements.load,
    tile.StoreOp: Elements.store,
    tile.FullOp: Elements.full,
    tile.RangeOp: Elements.numbers,
    tile.MapOp: Elements.map,
    tile.MultiplyAddOp: Elements.multiply,
    tile.ReduceOp: Elements.reduce,
    tile.BroadcastOp: Elements.move,
    tile.ReshapeOp: Elements.move,
    tile.TransposeOp: Elements.move,
    scf.ForOp: Elements.loop,
}
