"""
Traces an element of a tensor back to the tree of operations that compute it.

Front ends write one formula in many ways: with or without reshapes between its parts, in one
`linalg.generic` or several, with broadcasts as operations or in index maps. The tracer follows
operations that compute element by element, move elements, or reduce along one loop. A `Place` is
the position of an element: for each dimension, the pieces of loops that make up its index.
Reshapes only split pieces or join them, so that no division is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, TypeAlias

from xdsl.dialects import arith, linalg, tensor
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    TensorType,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineMap

from xdsl_spirv.dialects.schedule.symbolic_sizes import Extent, Size, is_dynamic
from xdsl_spirv.passes.analysis.linalg_code import groups_of, maps_of, yields_of
from xdsl_spirv.passes.analysis.pointwise import (
    SCALAR_DIALECTS,
    body_ops,
    is_permutation,
    is_plain,
    is_pointwise,
    moves_only,
)
from xdsl_spirv.passes.analysis.sizes import extents, listed_sizes, loop_extents
from xdsl_spirv.passes.analysis.sizes import number as size_of

MOST_NODES = 400
"""Maximum number of nodes of a tree."""

MOST_DEEP = 64
"""Maximum depth of a tree."""


class NotTraced(ValueError):
    """Raised if an element's computation cannot be written as a tree."""


@dataclass(frozen=True)
class Piece:
    """
    A part of a loop's index: (`loop` // `divisor`) % `size`. The divisor of a whole index is 1.
    """

    loop: str
    divisor: int
    size: Size


Index: TypeAlias = tuple[Piece, ...]
"""An element's index along a dimension: parts of loop indices, outermost first; () is index 0."""

Place: TypeAlias = tuple[Index, ...]
"""The position of an element in a tensor: an index for each dimension."""


def index_of_loop(loop: str, size: Size) -> Index:
    """Returns the index that runs over a whole loop."""
    return join_pieces([Piece(loop, 1, size)])


def join_pieces(pieces: Sequence[Piece]) -> Index:
    """Drops parts of loop indices of size 1, and joins adjacent parts of one loop if they fit."""
    merged: list[Piece] = []
    for piece in pieces:
        if piece.size == 1:
            continue
        if merged and merged[-1].loop == piece.loop:
            last = merged[-1]
            if not is_dynamic(piece.size) and last.divisor == piece.divisor * piece.size:
                merged[-1] = Piece(piece.loop, piece.divisor, piece.size * last.size)
                continue
        merged.append(piece)
    return tuple(merged)


def split_index(index: Index, shape: Sequence[Size]) -> list[Index]:
    """
    Splits an index into one index for each size of `shape`.

    The first size that is not 1 gets the remaining parts, so this size may be dynamic.
    """
    rest = list(index)
    indices: list[Index] = []
    first = next((axis for axis, size in enumerate(shape) if size != 1), None)
    for axis, size in reversed(list(enumerate(shape))):
        taken: list[Piece] = []
        if axis == first:
            indices.insert(0, tuple(rest))
            rest = []
            continue
        if is_dynamic(size):
            raise NotTraced("a reshape splits a loop into parts of dynamic size")
        while size > 1:
            if not rest:
                raise NotTraced("a reshape has more elements than the loops that index it")
            last = rest.pop()
            width = last.size
            if is_dynamic(width):
                raise NotTraced("a reshape splits a loop of dynamic size")
            if width > size:
                if width % size:
                    raise NotTraced("a reshape splits a loop into parts that do not divide it")
                rest.append(Piece(last.loop, last.divisor * size, width // size))
                last, width = Piece(last.loop, last.divisor, size), size
            if size % width:
                raise NotTraced("a reshape splits a loop into parts that do not divide it")
            taken.insert(0, last)
            size //= width
        indices.insert(0, join_pieces(taken))
    return indices


@dataclass(frozen=True)
class Node:
    """
    A node of a tree. `kind` is the name of an operation in a body, or one of:

    - `element`: an element of a tensor; `detail` is the tensor and the position
    - `number`: a constant
    - `size`: a size that is known at launch; `detail` is an expression of tensor sizes
    - `index`: the index of a loop
    - `reduction`: a reduction of the child; `detail` is the operation's name and the initial value

    If the node is an element of a tensor, `value` is that tensor, and `place` the position.
    """

    kind: str
    detail: Any
    children: tuple[Node, ...] = ()
    value: SSAValue | None = field(default=None, compare=False)
    place: Place = field(default=(), compare=False)


RESHAPES = (tensor.CollapseShapeOp, tensor.ExpandShapeOp)

Reshape: TypeAlias = tensor.CollapseShapeOp | tensor.ExpandShapeOp


def before_reshape(op: Reshape, place: Place) -> Place:
    """Maps the position of an element in the result to its position in the operand."""
    collapses = isinstance(op, tensor.CollapseShapeOp)
    return _regroup_place(place, groups_of(op), extents(op.operands[0]) if collapses else None)


def _fills_joined(op: Reshape, place: Place, is_cut: bool) -> bool:
    """
    True if the position in the result covers each dimension that the reshape back to the operand
    joins, except the outermost of each group. Only then are the joined pieces an index.
    """
    if isinstance(op, tensor.CollapseShapeOp):
        return True
    shape = extents(op.results[0])
    for group in groups_of(op):
        inner = [axis for axis in group if shape[axis] != 1][1:]
        for axis in inner:
            covered: Size = prod(piece.size for piece in place[axis])
            is_open = is_dynamic(covered) or is_dynamic(shape[axis])
            if covered != shape[axis] and (is_cut or not is_open):
                return False
    return True


def after_reshape(op: Reshape, place: Place) -> Place:
    """Maps the position of an element in the operand to its position in the result."""
    expands = isinstance(op, tensor.ExpandShapeOp)
    return _regroup_place(place, groups_of(op), extents(op.results[0]) if expands else None)


def _regroup_place(place: Place, groups: list[list[int]], shape: Sequence[Size] | None) -> Place:
    """
    Maps a position through a reshape between single dimensions and `groups` of dimensions. Splits
    indices by `shape`, or joins indices if `shape` is None.
    """
    if shape is None:
        return tuple(join_pieces([p for axis in group for p in place[axis]]) for group in groups)
    indices: list[Index] = []
    for index, group in zip(place, groups, strict=True):
        indices += split_index(index, [shape[axis] for axis in group])
    return tuple(indices)


def through(map: AffineMap, loops: Sequence[Index | None]) -> Place:
    """Returns the position of the element that an index map selects at these loop indices."""
    indices: list[Index] = []
    for expression in map.results:
        match expression:
            case AffineDimExpr(position=position) if loops[position] is not None:
                indices.append(loops[position] or ())
            case AffineConstantExpr(value=0):
                indices.append(())
            case _:
                raise NotTraced(
                    f"an operand is indexed by {expression}, which is neither a loop nor 0"
                )
    return tuple(indices)


def loops_at(map: AffineMap, place: Place) -> list[Index | None]:
    """Returns the loop indices at which a map selects the element; None for an unused loop."""
    loops: list[Index | None] = [None] * map.num_dims
    for expression, index in zip(map.results, place, strict=True):
        if isinstance(expression, AffineDimExpr):
            loops[expression.position] = index
    return loops


def before_generic(op: linalg.ops.GenericOp, place: Place) -> tuple[SSAValue, Place]:
    """Returns the operand of an elementwise operation, and the position in it."""
    read, write = maps_of(op)
    return op.inputs[0], through(read, loops_at(write, place))


def origins(
    value: SSAValue, place: Place, is_cut: bool = False
) -> Iterator[tuple[SSAValue, Place]]:
    """
    Yields (tensor, position) of an element, then of each tensor that the element comes from.

    Ends at a reshape that joins dimensions of which the position covers only a part. With `is_cut`,
    it may cover a part of any dimension whose size is dynamic.
    """
    yield value, place
    while isinstance(owner := value.owner, Operation):
        if isinstance(owner, RESHAPES):
            if not _fills_joined(owner, place, is_cut):
                return
            value, place = owner.operands[0], before_reshape(owner, place)
        elif isinstance(owner, linalg.ops.GenericOp) and moves(owner):
            value, place = before_generic(owner, place)
        else:
            return
        yield value, place


def find_stored(value: SSAValue, place: Place) -> tuple[SSAValue, Place]:
    """Follows an element back through moves; returns the earliest tensor and the position in it."""
    *_, last = origins(value, place)
    return last


def moves(op: linalg.ops.GenericOp) -> bool:
    """True if an operation only transposes or broadcasts its single tensor input."""
    if not is_pointwise(op) or not moves_only(op):
        return False
    one = len(op.inputs) == 1 and isinstance(op.inputs[0].type, TensorType)
    return one and yields_of(op.body.block)[0] is op.body.block.args[0]


LAST: Index = (Piece("last", 1, 2),)
"""The index one past the end of the reduced loop, where an element is appended."""


class Trees:
    """
    Builds trees of elements. Reductions must run along the loop `reduced`.

    If a tensor has one element appended along this loop, the tree combines the reduction's result
    with that element.

    `normal` maps equal sizes to one form. `visited` collects the traced operations.
    """

    def __init__(self, reduced: Index, normal: Callable[[Size], Size]):
        self.reduced, self.normal = reduced, normal
        self.visited: set[Operation] = set()
        self._known: dict[tuple[SSAValue, Place], Node] = {}
        self._count = self._deep = 0

    def element(self, value: SSAValue, place: Place) -> Node:
        """Returns the tree of a tensor's element. Raises `NotTraced` if there is none."""
        key = value, place
        if key not in self._known:
            if self._deep == MOST_DEEP:
                raise NotTraced("an element's formula has too many operations")
            self._deep += 1
            try:
                node = self._element(value, place)
            finally:
                self._deep -= 1
            self._known[key] = replace(node, value=value, place=place)
        return self._known[key]

    def _node(self, kind: str, detail: Any, children: Sequence[Node] = ()) -> Node:
        self._count += 1
        if self._count > MOST_NODES:
            raise NotTraced("an element's formula has too many operations")
        return Node(kind, detail, tuple(children))

    def _element(self, value: SSAValue, place: Place) -> Node:
        owner = value.owner
        number = number_of(value)
        if number is not None:
            return self._node("number", number)
        if isinstance(owner, RESHAPES):
            self.visited.add(owner)
            return self.element(owner.operands[0], before_reshape(owner, place))
        if isinstance(owner, linalg.ops.GenericOp) and _is_formula(owner):
            self.visited.add(owner)
            *_, write = owner.get_indexing_maps()
            loops = loops_at(write.data, place)
            if all(str(kind.data) == "parallel" for kind in owner.get_iterator_types()):
                return self._body(owner, loops)
            return self._reduction(owner, loops, place)
        if isinstance(owner, tensor.ExtractSliceOp | tensor.InsertSliceOp):
            part = self._beside_appended(owner, place)
            if part is not None:
                self.visited.add(owner)
                return self.element(*part)
        if any(LAST[0] == piece for index in place for piece in index):
            raise NotTraced("an appended element must be inserted by one slice")
        return self._node("element", (value, place))

    def _beside_appended(
        self, op: tensor.ExtractSliceOp | tensor.InsertSliceOp, place: Place
    ) -> tuple[SSAValue, Place] | None:
        """
        Traces an element through a slice that appends or removes one element of the reduced loop.

        Returns the slice's operand and the position in it; None for any other slice.
        """
        cuts = isinstance(op, tensor.ExtractSliceOp)
        whole, part = (op.source, op.result) if cuts else (op.dest, op.source)
        axes = [n for n, index in enumerate(place) if index in (self.reduced, LAST)]
        shapes = [[self.normal(size) for size in extents(value)] for value in (whole, part)]
        if (
            len(axes) != 1
            or len(shapes[0]) != len(shapes[1])
            or op.static_strides.get_values() != (1,) * len(place)
        ):
            return None
        (axis,), count = axes, _size(self.reduced)
        starts = [self.normal(n) for n in listed_sizes(op.static_offsets, op.offsets)]
        others = [n for n in range(len(place)) if n != axis]
        along = any(starts[n] != 0 or shapes[0][n] != shapes[1][n] for n in others)
        if along or shapes[0][axis] != count + 1:
            return None
        given = starts[axis], shapes[1][axis], place[axis] == LAST
        if given == (0, count, False):
            return op.source, place
        if given == (count, 1, False) and not cuts:
            return op.dest, place
        if given == (count, 1, True) and not cuts:
            return op.source, tuple(() if n == axis else index for n, index in enumerate(place))
        return None

    def _inputs(self, op: linalg.ops.GenericOp, loops: Sequence[Index | None]) -> list[Node]:
        maps = op.get_indexing_maps()
        return [
            self.element(value, through(map.data, loops))
            if isinstance(value.type, TensorType)
            else self._scalar(value)
            for value, map in zip(op.inputs, maps, strict=False)
        ]

    def _scalar(self, value: SSAValue) -> Node:
        number = number_of(value)
        if number is not None:
            return self._node("number", number)
        size = self.normal(size_of(value)) if isinstance(value.type, IndexType) else None
        if size is None or (is_dynamic(size) and not all(map(_is_told, size.extents))):
            raise NotTraced("a scalar is computed from values other than constants and sizes")
        return self._node("size", size) if is_dynamic(size) else self._node("number", size)

    def _body(self, op: linalg.ops.GenericOp, loops: Sequence[Index | None]) -> Node:
        block = op.body.block
        known: dict[SSAValue, Node] = dict(zip(block.args, self._inputs(op, loops), strict=False))
        for body_op in body_ops(block):
            known[body_op.results[0]] = self._operation(body_op, known, loops)
        value = yields_of(block)[0]
        return known[value] if value in known else self._scalar(value)

    def _operation(
        self, op: Operation, known: dict[SSAValue, Node], loops: Sequence[Index | None]
    ) -> Node:
        if isinstance(op, linalg.ops.IndexOp):
            if loops[op.dim.value.data] == LAST:
                raise NotTraced("an appended element must not depend on its index")
            return self._node("index", loops[op.dim.value.data])
        if isinstance(op, arith.ConstantOp | tensor.DimOp):
            return self._scalar(op.results[0])
        children = [known[v] if v in known else self._outside(v) for v in op.operands]
        detail = tuple(
            (name, value) for name, value in sorted(op.properties.items()) if name != "fastmath"
        )
        return self._node(op.name, detail, children)

    def _outside(self, value: SSAValue) -> Node:
        """Traces a scalar that is defined outside of a body, through its casts."""
        owner = value.owner
        if isinstance(owner, arith.IndexCastOp):
            return self._node(owner.name, (), [self._outside(owner.input)])
        return self._scalar(value)

    def _reduction(self, op: linalg.ops.GenericOp, loops: list[Index | None], place: Place) -> Node:
        """Traces a loop of `out = out <op> f(inputs)` as a reduction of f by <op>."""
        kinds = [str(kind.data) for kind in op.get_iterator_types()]
        block = op.body.block
        combined = yields_of(block)[0].owner
        if kinds.count("reduction") != 1 or not isinstance(combined, Operation):
            raise NotTraced("an operation does not reduce along exactly one loop")
        if any(piece.loop == other.loop for i in place for piece in i for other in self.reduced):
            raise NotTraced("a reduction contains another reduction")
        steps = loop_extents(op)[kinds.index("reduction")]
        appended = steps is not None and self.normal(steps) == _size(self.reduced) + 1
        if not appended and (steps is None or self.normal(steps) != _size(self.reduced)):
            raise NotTraced("an operation reduces along a loop other than the loop over keys")
        out = block.args[-1]
        others = [value for value in combined.operands if value is not out]
        start = number_of(op.outputs[0])
        if len(combined.operands) != 2 or len(others) != 1 or start is None:
            raise NotTraced("a reduction does not start from a constant")
        reduced: list[Node] = []
        for index in (self.reduced, LAST)[: 1 + appended]:
            loops[kinds.index("reduction")] = index
            inputs = self._inputs(op, loops)
            known: dict[SSAValue, Node] = dict(zip(block.args, inputs, strict=False))
            for body_op in body_ops(block):
                if body_op is not combined:
                    known[body_op.results[0]] = self._operation(body_op, known, loops)
            reduced.append(known[others[0]])
        first = self._node("reduction", (combined.name, start), reduced[:1])
        return self._node(combined.name, (), [first, reduced[1]]) if appended else first


def _is_told(extent: Extent) -> bool:
    """True if a size is known before launch: the size of a tensor, or an index argument."""
    type = extent.value.type
    return not isinstance(type, IndexType) or isinstance(extent.value.owner, Block)


def _size(index: Index) -> Size:
    size: Size = 1
    for piece in index:
        size *= piece.size
    return size


def _is_formula(op: linalg.ops.GenericOp) -> bool:
    """True if arithmetic or one reduction computes each element of the single result."""
    if len(op.outputs) != 1 or len(op.results) != 1:
        return False
    if not all(is_plain(value.type) for value in op.operands):
        return False
    parallel = all(str(kind.data) == "parallel" for kind in op.get_iterator_types())
    *_, write = op.get_indexing_maps()
    read = op.body.block.args[-1].first_use is not None
    if parallel and (not is_permutation(write.data) or read):
        return False
    if not parallel and len(op.inputs) != 1:
        return False
    return all(
        isinstance(body_op, linalg.ops.YieldOp | linalg.ops.IndexOp | tensor.DimOp)
        or (body_op.name.split(".")[0] in SCALAR_DIALECTS and not body_op.regions)
        for body_op in op.body.block.ops
    )


def number_of(value: SSAValue) -> float | int | None:
    """Returns the constant that a scalar or every element of a tensor equals, else None."""
    owner = value.owner
    if isinstance(owner, Block):
        return None
    match owner:
        case arith.ConstantOp(value=DenseIntOrFPElementsAttr() as dense):
            return _plain(next(dense.iter_attrs())) if dense.is_splat() else None
        case arith.ConstantOp():
            return _plain(owner.value)
        case linalg.ops.FillOp():
            return number_of(owner.inputs[0])
        case tensor.SplatOp():
            return number_of(owner.input)
        case _:
            return None


def _plain(attribute: Attribute) -> float | int | None:
    if isinstance(attribute, FloatAttr | IntegerAttr):
        return attribute.value.data
    return None
