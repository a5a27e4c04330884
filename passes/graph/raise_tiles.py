"""
Rewrites tile programs as functions on tensors, where possible.

A product or an attention is then compiled like one in a model, with all schedules of the target.

    tile.program @f {                                   func.func @f(%a, %b) -> tensor<...> {
      %i, %j = tile.place %c tile [64, 64] ...            %s = linalg.generic: multiply, add
      scf.for ... { tile.load, tile.mma }          ->     %r = linalg.generic: the rest
      tile.store                                          return %r }

A program is raised if it has a product and known sizes, and its loads and stores access tiles of
whole dimensions (`tile_elements`). `lower-tiles` lowers other programs. Raising drops the
program's tile sizes; the schedule chooses new ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import arith, func, linalg, tensor
from xdsl.dialects.builtin import (
    AnyFloat,
    IndexType,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    TensorType,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from xdsl_spirv.dialects import tile
from xdsl_spirv.passes.analysis.linalg_code import (
    make_body,
    make_generic,
    number_of_type,
    product_body,
    tensor_type,
)
from xdsl_spirv.passes.graph.tile_elements import Elements, Result
from xdsl_spirv.passes.graph.tile_nodes import ONE, Node, NotRaised

Axes = tuple[str | None, ...]


@dataclass(frozen=True)
class RaiseTilesPass(ModulePass):
    """Rewrites tile programs as functions on tensors, where possible."""

    name = "raise-tiles"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for program in list(op.body.block.ops):
            if not isinstance(program, tile.ProgramOp):
                continue
            try:
                raised = raise_program(program)
            except NotRaised:
                continue
            Rewriter.replace_op(program, raised, [])


def raise_program(program: tile.ProgramOp) -> func.FuncOp:
    """
    Returns the function on tensors that is equivalent to a tile program.

    Raises `NotRaised` if there is none.
    """
    if not any(isinstance(op, tile.MultiplyAddOp) for op in program.walk()):
        raise NotRaised("the program has no product of tiles")
    elements = Elements(program)
    results = elements.read()
    return _Function(elements, results).write()


class _Function:
    def __init__(self, elements: Elements, results: Sequence[Result]):
        self.elements, self.results = elements, results
        order = [axis for result in results for axis in result.axes if axis is not None]
        self.order = list(dict.fromkeys([*order, *elements.dimensions]))
        """All dimensions of the program, in the order that its tensors use."""
        self.block = Block()
        self.b = Builder(InsertPoint.at_end(self.block))
        self.arguments: dict[int, SSAValue] = {}
        self._made: dict[Node, tuple[SSAValue, Axes]] = {}

    def write(self) -> func.FuncOp:
        program = self.elements.program
        for argument in program.body.block.args:
            type = argument.type
            if isinstance(type, tile.ViewType):
                if not self._is_loaded(argument):
                    continue
                new = TensorType(type.element, type.shape)
            elif type in (IntegerType(32), IndexType()):
                new = IndexType()
            else:
                raise NotRaised(f"an argument has type {type}: use views, i32 or index")
            given = self.block.insert_arg(new, len(self.block.args))
            given.name_hint = argument.name_hint
            self.arguments[argument.index] = given
        values: list[SSAValue] = []
        for result in self.results:
            self.location = result.op.location
            axes = tuple(axis for axis in result.axes)
            values.append(self._pointwise(result.node, axes))
        self.b.insert(func.ReturnOp(*values))
        types = [argument.type for argument in self.block.args], [v.type for v in values]
        return func.FuncOp(program.sym_name.data, types, Region(self.block))

    def _is_loaded(self, argument: SSAValue) -> bool:
        users = [use.operation for use in argument.uses]
        return any(isinstance(user, tile.LoadOp) for user in users)

    # Tensors

    def tensor(self, node: Node) -> tuple[SSAValue, Axes]:
        """Returns a tensor of a formula's elements, and the tensor's dimensions."""
        if node not in self._made:
            self._made[node] = self._tensor(node)
        return self._made[node]

    def _tensor(self, node: Node) -> tuple[SSAValue, Axes]:
        if (op := self.elements.locations.get(node)) is not None:
            self.location = op.location
        match node.kind:
            case "load":
                number, axes = node.detail
                return self.arguments[number], axes
            case "sum":
                return self._sum(node)
            case "reduce":
                name, over = node.detail
                return self._reduce(node.children[0], over, name)
            case _:
                axes = self.axes(node)
                return self._pointwise(node, axes), axes

    def axes(self, node: Node) -> tuple[str, ...]:
        found: set[str] = set()
        waiting, seen = [node], set[Node]()
        while waiting:
            inner = waiting.pop()
            if inner in seen:
                continue
            seen.add(inner)
            if inner.kind in ("sum", "reduce"):
                found |= {axis for axis in self.tensor(inner)[1] if axis is not None}
            elif inner.kind == "load":
                found |= {axis for axis in inner.detail[1] if axis is not None}
            elif inner.kind == "linear":
                found |= {name for (kind, name), _ in inner.detail if kind == "index"}
            else:
                waiting += inner.children
        return tuple(sorted(found, key=self.order.index))

    def _size(self, axis: str | None) -> int:
        extent = 1 if axis is None else self.elements.dimensions[axis].extent
        if extent is None:
            raise NotRaised("the size of an axis is not known")
        return extent

    def _generic(
        self,
        inputs: Sequence[tuple[SSAValue, Axes]],
        axes: Axes,
        over: Sequence[str],
        start: float | None,
        type: Attribute,
        body: Callable[[Sequence[Attribute]], Block | Region],
    ) -> SSAValue:
        """Writes a `linalg.generic` with dimensions `axes`, which reduces `over` from `start`."""
        loops = [*axes, *over]

        def map_of(own: Axes) -> AffineMap:
            places = [
                AffineConstantExpr(0) if axis is None else AffineDimExpr(loops.index(axis))
                for axis in own
            ]
            return AffineMap(len(loops), 0, tuple(places))

        shaped = TensorType(type, [self._size(axis) for axis in axes])
        out: SSAValue = self._add(tensor.EmptyOp([], shaped))
        if start is not None:
            number = self._add(arith.ConstantOp(number_of_type(start, type)))
            out = self._add(linalg.ops.FillOp([number], [out], [shaped]))
        types = [*(tensor_type(v).element_type for v, _ in inputs), type]
        maps = [*(map_of(own) for _, own in inputs), map_of(axes)]
        return self._add(make_generic([value for value, _ in inputs], out, maps, body(types)))

    def _add(self, op: Operation) -> SSAValue:
        op.location = self.location
        return self.b.insert(op).results[0]

    def _pointwise(self, node: Node, axes: Axes) -> SSAValue:
        if node.kind in ("load", "sum", "reduce"):
            value, own = self.tensor(node)
            if own == axes:
                return value
        leaves = self._leaves(node)
        inputs = [self.tensor(leaf) for leaf in leaves]

        def write(b: Builder, given: Sequence[SSAValue]) -> SSAValue:
            return _Body(self, b, axes, dict(zip(leaves, given, strict=False))).element(node)

        return self._generic(inputs, axes, (), None, node.type, partial(make_body, write=write))

    def _leaves(self, node: Node) -> list[Node]:
        """Returns the nodes of a formula that become tensors: loads, sums and reductions."""
        if node.kind in ("load", "sum", "reduce"):
            return [node]
        if (quotient := _softmax_product_of(node)) is not None:
            return [quotient]
        leaves = [leaf for child in node.children for leaf in self._leaves(child)]
        return list(dict.fromkeys(leaves))

    def _sum(self, node: Node) -> tuple[SSAValue, Axes]:
        over, unsigned = node.detail
        inputs = [self.tensor(child) for child in node.children]
        a, b = ([axis for axis in own if axis not in (None, over)] for _, own in inputs)
        axes = [*(x for x in a if x in b), *(x for x in a if x not in b)]
        axes = (*axes, *(x for x in b if x not in a))
        body = partial(product_body, signed=(not unsigned, not unsigned))
        return self._generic(inputs, axes, [over], 0, node.type, body), axes

    def _reduce(self, node: Node, over: str, name: str) -> tuple[SSAValue, Axes]:
        kind, start = REDUCTIONS.get(name, (None, 0.0))
        if kind is None or not isinstance(node.type, AnyFloat):
            raise NotRaised(f"a reduction by {name} is not supported")
        axes = tuple(axis for axis in self.axes(node) if axis != over)
        whole = (*axes, over)
        value = self._pointwise(node, whole)

        def write(inner: Builder, given: Sequence[SSAValue]) -> SSAValue:
            return inner.insert(kind(given[1], given[0])).results[0]

        body = partial(make_body, write=write)
        return self._generic([(value, whole)], axes, [over], start, node.type, body), axes


class _Body:
    def __init__(self, function: _Function, b: Builder, axes: Axes, known: dict[Node, SSAValue]):
        self.function, self.b, self.axes, self.known = function, b, axes, known

    def element(self, node: Node, raw: bool = False) -> SSAValue:
        """
        Returns the value of an element. With `raw`, a sum of indices is not cast from `index`.
        """
        if node.kind == "linear" and (raw or isinstance(node.type, IndexType)):
            return self._index(node)
        if node not in self.known:
            self.known[node] = self._element(node)
        return self.known[node]

    def _element(self, node: Node) -> SSAValue:
        if (quotient := _softmax_product_of(node)) is not None:
            return self.known[quotient]
        match node.kind:
            case "linear":
                return self._add(arith.IndexCastOp(self._index(node), node.type))
            case "constant":
                return self._add(arith.ConstantOp(node.detail))
            case "truth":
                return self._add(arith.ConstantOp(IntegerAttr(int(node.detail), IntegerType(1))))
            case _ if not isinstance(node.detail, tuple) or not isinstance(node.detail[0], type):
                raise NotRaised(
                    f"{node.kind} is used outside of the division that ends an attention"
                )
            case _:
                pass
        kind, properties = node.detail
        compares = issubclass(kind, arith.CmpiOp)
        operands = [self.element(child, compares) for child in node.children]
        made = kind.create(operands=operands, result_types=[node.type], properties=dict(properties))
        return self._add(made)

    def _index(self, node: Node) -> SSAValue:
        total: SSAValue | None = None
        for (kind, name), factor in node.detail:
            if kind == "first":
                raise NotRaised("an element's index within its tile is used as a value")
            if kind == "":
                continue
            if kind == "index":
                term = self._add(linalg.ops.IndexOp(self.axes.index(name)))
            else:
                term = self.function.arguments[name]
            if factor != 1:
                number = self._add(arith.ConstantOp(IntegerAttr(factor, IndexType())))
                term = self._add(arith.MuliOp(term, number))
            total = term if total is None else self._add(arith.AddiOp(total, term))
        constant = dict(node.detail).get(ONE, 0)
        if total is None or constant:
            number = self._add(arith.ConstantOp(IntegerAttr(constant, IndexType())))
            total = number if total is None else self._add(arith.AddiOp(total, number))
        return total

    def _add(self, op: Operation) -> SSAValue:
        op.location = self.function.location
        return self.b.insert(op).results[0]


def _softmax_product_of(node: Node) -> Node | None:
    """Matches an attention's result divided by its sum; returns softmax times values, else None."""
    if [child.kind for child in node.children] != ["softmax_product", "softmax_sum"]:
        return None
    result, total = node.children
    same = node.kind == "arith.divf" and result.children == total.children
    return result.children[0] if same else None


REDUCTIONS: dict[str, tuple[Any, float]] = {
    "arith.addf": (arith.AddfOp, 0.0),
    "arith.maxnumf": (arith.MaxnumfOp, -inf),
    "arith.maximumf": (arith.MaximumfOp, -inf),
    "arith.minnumf": (arith.MinnumfOp, inf),
    "arith.minimumf": (arith.MinimumfOp, inf),
}
"""Reductions of floats, with their initial values."""
