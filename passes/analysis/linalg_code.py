"""Builds `linalg` and `tensor` operations: generics, empty and filled tensors, reshapes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import TypeAlias

from xdsl.builder import Builder
from xdsl.dialects import arith, linalg, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AffineMapAttr,
    AnyFloat,
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    TensorType,
    i64,
)
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap
from xdsl.rewriter import InsertPoint

from xdsl_spirv.dialects.places import SHARED
from xdsl_spirv.dialects.schedule.symbolic_sizes import Size
from xdsl_spirv.passes.analysis.sizes import SizeCode, extent, extents
from xdsl_spirv.upstream.linalg_bodies import cast_to

Body: TypeAlias = Callable[[Builder, Sequence[SSAValue]], Operation | SSAValue]
"""Function that emits operations on elements and returns the value that the body yields."""


def tensor_type(value: SSAValue) -> TensorType[Attribute]:
    """Returns the type of a value, which must be a tensor."""
    assert isinstance(value.type, TensorType)
    return value.type


def maps_of(op: LinalgStructuredOperation) -> list[AffineMap]:
    """Returns the index maps of an operation's inputs and outputs."""
    return [attribute.data for attribute in op.get_indexing_maps()]


def set_operand(
    op: linalg.ops.GenericOp, number: int, value: SSAValue, places: Sequence[AffineExpr]
) -> None:
    """
    Makes an operation read `value` as operand `number`. `places` are the indices of the elements
    that it reads.
    """
    maps = maps_of(op)
    maps[number] = AffineMap(maps[number].num_dims, 0, tuple(places))
    op.properties["indexing_maps"] = ArrayAttr(map(AffineMapAttr, maps))
    op.operands[number] = value


def dimension_of(map: AffineMap, loop: int) -> int | None:
    """Returns the dimension that only `loop` indexes; None if there is none."""
    places = [at for at, e in enumerate(map.results) if loop in e.used_dims()]
    plain = len(places) == 1 and map.results[places[0]] == AffineDimExpr(loop)
    return places[0] if plain else None


def yields_of(block: Block) -> Sequence[SSAValue]:
    """Returns the operands of a block's terminator."""
    assert block.last_op is not None
    return block.last_op.operands


def number_of_type(number: float, type: Attribute) -> IntegerAttr | FloatAttr:
    """Returns a number as an attribute of a type."""
    if isinstance(type, IntegerType | IndexType):
        return IntegerAttr(int(number), type)
    assert isinstance(type, AnyFloat)
    return FloatAttr(number, type)


def make_generic(
    inputs: Sequence[SSAValue],
    outputs: SSAValue | Sequence[SSAValue],
    maps: Iterable[AffineMap] | None,
    body: Region | Block,
    kinds: Iterable[IteratorTypeAttr] | None = None,
    like: Operation | None = None,
) -> linalg.ops.GenericOp:
    """
    Builds a generic, with the source location and attributes of the operation `like`.

    Default maps are identities. By default, loops that do not index the last output are
    reductions.
    """
    outs = [outputs] if isinstance(outputs, SSAValue) else outputs
    if maps is None:
        rank = tensor_type(outs[0]).get_num_dims()
        maps = [AffineMap.identity(rank)] * (len(inputs) + len(outs))
    of_operands = list(maps)
    if kinds is None:
        last, kind = of_operands[-1], IteratorTypeAttr
        kinds = [
            kind.parallel() if n in last.used_dims() else kind.reduction()
            for n in range(last.num_dims)
        ]
    generic = linalg.ops.GenericOp(
        inputs,
        outs,
        body if isinstance(body, Region) else Region(body),
        ArrayAttr(map(AffineMapAttr, of_operands)),
        ArrayAttr(kinds),
        [out.type for out in outs if isinstance(out.type, TensorType)],
    )
    if like is not None:
        take_over(generic, like)
    return generic


def take_over(op: linalg.ops.GenericOp, like: Operation) -> None:
    """Gives an operation the source location and the attributes of the operation `like`."""
    op.location = like.location
    op.attributes |= like.attributes
    op.attributes.pop("linalg.memoized_indexing_maps", None)


def product_body(types: Sequence[Attribute], signed: tuple[bool, bool] = (True, True)) -> Block:
    """
    Builds the body `c + cast(a) * cast(b)`; `signed` selects the extension of integer a and b.
    """
    block, floating = Block(arg_types=types), not isinstance(types[2], IntegerType)
    given = zip(block.args, signed, strict=False)
    a, b = (cast_to(block, arg, types[2], has_sign) for arg, has_sign in given)
    product = (arith.MulfOp if floating else arith.MuliOp)(a, b)
    total = (arith.AddfOp if floating else arith.AddiOp)(block.args[2], product)
    block.add_ops([product, total, linalg.ops.YieldOp(total)])
    return block


def make_body(types: Sequence[Attribute], write: Body) -> Block:
    """Builds the body of a generic with arguments of these types; `write` emits its operations."""
    block = Block(arg_types=types)
    result = write(Builder(InsertPoint.at_end(block)), block.args)
    block.add_op(linalg.ops.YieldOp(result))
    return block


def reassociation_of(groups: Iterable[Iterable[int]]) -> ArrayAttr[ArrayAttr[IntegerAttr]]:
    """Returns the groups of dimensions that a reshape merges or splits, as an attribute."""
    return ArrayAttr(ArrayAttr(IntegerAttr(n, i64) for n in group) for group in groups)


def pad_like(op: tensor.PadOp, source: SSAValue, padding: SSAValue) -> tensor.PadOp:
    """Builds a padding of `source` by the amounts of `op`, with the value `padding`."""
    pad = op.clone()
    pad.operands = [source, *op.operands[1:]]
    block = pad.region.block
    for inner in reversed(list(block.ops)):
        block.erase_op(inner)
    block.add_op(tensor.YieldOp(padding))
    return pad


def split_dimension(value: SSAValue, axis: int, *counts: int) -> tensor.ExpandShapeOp:
    """
    Splits a dimension of static size into several. `counts` are the sizes of the new dimensions
    except the last.
    """
    shape, more = list(tensor_type(value).get_shape()), len(counts)
    groups = [[n + more * (n > axis)] for n in range(len(shape))]
    groups[axis] = list(range(axis, axis + more + 1))
    shape[axis : axis + 1] = [*counts, shape[axis] // prod(counts)]
    return expand_dimensions(value, groups, shape)


def expand_dimensions(
    value: SSAValue,
    groups: Iterable[Iterable[int]],
    shape: Sequence[int],
    given: Sequence[SSAValue] = (),
) -> tensor.ExpandShapeOp:
    """
    Splits each dimension into a group of dimensions. The result has the shape `shape`, and `given`
    are the dynamic sizes in it.
    """
    return tensor.ExpandShapeOp.create(
        operands=[value, *given],
        properties={
            "reassociation": reassociation_of(groups),
            "static_output_shape": DenseArrayBase.from_list(i64, shape),
        },
        result_types=[TensorType(tensor_type(value).element_type, shape)],
    )


def merge_dimensions(
    value: SSAValue, groups: Iterable[Iterable[int]], shape: Sequence[int]
) -> tensor.CollapseShapeOp:
    """Merges each group of dimensions into one dimension."""
    return tensor.CollapseShapeOp.create(
        operands=[value],
        properties={"reassociation": reassociation_of(groups)},
        result_types=[TensorType(tensor_type(value).element_type, shape)],
    )


def drop_units(value: SSAValue, map: AffineMap) -> tensor.CollapseShapeOp | None:
    """
    Drops the dimensions of size 1 that a map reads at a constant index. Returns None if there are
    no such dimensions.
    """
    shape = tensor_type(value).get_shape()
    single = [isinstance(result, AffineConstantExpr) for result in map.results]
    if all(single) or not any(single):
        return None
    if any(yes and size != 1 for yes, size in zip(single, shape, strict=True)):
        return None
    first = single.index(False)
    groups = [[*range(first), first]]
    for axis, yes in list(enumerate(single))[first + 1 :]:
        if yes:
            groups[-1].append(axis)
        else:
            groups.append([axis])
    kept = [size for yes, size in zip(single, shape, strict=True) if not yes]
    return merge_dimensions(value, groups, kept)


def groups_of(op: tensor.ExpandShapeOp | tensor.CollapseShapeOp) -> list[list[int]]:
    """
    Returns the groups of dimensions that a reshape merges into one dimension or splits from one.
    """
    return [[axis.value.data for axis in group] for group in op.reassociation]


def merged_groups(axes: Sequence[int], groups: Sequence[Sequence[int]]) -> list[int] | None:
    """
    Returns the indices of the groups that `axes` consist of, in order. Returns None if `axes` split
    a group.
    """
    merged: list[int] = []
    left = list(axes)
    while left:
        number = next(n for n, group in enumerate(groups) if left[0] in group)
        size = len(groups[number])
        if left[:size] != list(groups[number]):
            return None
        merged.append(number)
        del left[:size]
    return merged


class Code:
    """Inserts operations with the location of an operation, by default before this operation."""

    def __init__(self, op: Operation, point: InsertPoint | None = None):
        self.location = op.location
        self.build = Builder(point or InsertPoint.before(op))
        self.written: list[Operation] = []

    @staticmethod
    def open_behind(value: SSAValue, reader: Operation) -> Code:
        """
        Returns a `Code` that inserts directly after the definition of a value.

        The location is the defining operation's, or the reader's for an argument or a constant.
        """
        owner = value.owner
        if not isinstance(owner, Operation):
            return Code(reader, InsertPoint.at_start(owner))
        return Code(reader if isinstance(owner, SHARED) else owner, InsertPoint.after(owner))

    def insert(self, *ops: Operation) -> SSAValue:
        """Inserts operations and returns the last one's result."""
        for op in ops:
            op.location = self.location
            self.build.insert(op)
            self.written.append(op)
        return ops[-1].results[0]

    def erase(self) -> None:
        """Erases the inserted operations that are unused."""
        for op in reversed(self.written):
            assert op.parent is not None
            op.parent.erase_op(op)

    def empty(self, sizes: Sequence[Size], element: Attribute) -> SSAValue:
        return SizeCode(self.insert).empty(sizes, element)

    def empty_like(self, value: SSAValue) -> SSAValue:
        """Builds an empty tensor of equal sizes and type."""
        type, code = tensor_type(value), SizeCode(self.insert)
        dims = [n for n, size in enumerate(type.get_shape()) if size == DYNAMIC_INDEX]
        return self.insert(tensor.EmptyOp([code.value(extent(value, n)) for n in dims], type))

    def constant(self, number: float, type: Attribute) -> SSAValue:
        return self.insert(arith.ConstantOp(number_of_type(number, type)))

    def fill(self, sizes: Sequence[Size], element: Attribute, number: float) -> SSAValue:
        """Builds a tensor filled with a constant."""
        constant = self.constant(number, element)
        return self.fill_with(constant, self.empty(sizes, element))

    def fill_with(self, number: SSAValue, room: SSAValue) -> SSAValue:
        """Fills the tensor `room` with a scalar."""
        return self.insert(linalg.ops.FillOp([number], [room], [room.type]))

    def matrix(self, rows: Sequence[Sequence[float]], element: AnyFloat) -> SSAValue:
        """Builds a constant tensor with two dimensions."""
        type = TensorType(element, [len(rows), len(rows[0])])
        numbers = [float(number) for row in rows for number in row]
        return self.insert(arith.ConstantOp(DenseIntOrFPElementsAttr.from_list(type, numbers)))

    def cast(self, value: SSAValue, type: TensorType) -> SSAValue:
        """Casts a tensor to the static sizes of another type."""
        return value if value.type == type else self.insert(tensor.CastOp(value, type))

    def generic(
        self,
        inputs: Sequence[SSAValue],
        out: SSAValue,
        maps: Sequence[AffineMap] | None,
        body: Body,
    ) -> SSAValue:
        """Builds and inserts a generic; see `make_generic`."""
        types = [_element(value) for value in (*inputs, out)]
        return self.insert(make_generic(inputs, out, maps, make_body(types, body)))

    def elementwise(
        self,
        inputs: Sequence[SSAValue],
        element: Attribute,
        body: Body,
        maps: Sequence[AffineMap] | None = None,
    ) -> SSAValue:
        """Builds an elementwise operation of the first input's sizes; `maps` are the index maps."""
        sizes = extents(inputs[0])
        whole = AffineMap.identity(len(sizes))
        reads = maps or [whole] * len(inputs)
        return self.generic(inputs, self.empty(sizes, element), [*reads, whole], body)

    def transpose(self, value: SSAValue, order: Sequence[int]) -> SSAValue:
        """Transposes a tensor: result dimension i is dimension `order[i]`."""
        sizes, rank = extents(value), len(order)
        room = self.empty([sizes[d] for d in order], _element(value))
        read = AffineMap(rank, 0, tuple(AffineDimExpr(order.index(d)) for d in range(rank)))
        maps = [read, AffineMap.identity(rank)]
        return self.generic([value], room, maps, lambda b, v: v[0])


class BodyCode:
    """Builds a `linalg.generic` while its body is written: each read of a tensor adds an input."""

    def __init__(self) -> None:
        self.block = Block()
        self.inputs: list[SSAValue] = []
        self.maps: list[AffineMap] = []

    def read(self, value: SSAValue, map: AffineMap) -> SSAValue:
        """Adds an input tensor and returns the body's argument for its element."""
        self.inputs.append(value)
        self.maps.append(map)
        return self.block.insert_arg(_element(value), len(self.block.args))

    def add(self, op: Operation) -> SSAValue:
        self.block.add_op(op)
        return op.results[0]

    def constant(self, number: float, type: Attribute) -> SSAValue:
        return self.add(arith.ConstantOp(number_of_type(number, type)))

    def extend(self, value: SSAValue, type: Attribute, signed: bool) -> SSAValue:
        """Extends an integer to a type, by its sign if `signed`, else by zeros."""
        if value.type == type:
            return value
        kind = arith.ExtSIOp if signed else arith.ExtUIOp
        return self.add(kind.create(operands=[value], result_types=[type]))

    def write(
        self,
        code: Code,
        out: SSAValue,
        map: AffineMap,
        result: Callable[[SSAValue], SSAValue],
        kinds: Iterable[IteratorTypeAttr] | None = None,
        like: Operation | None = None,
    ) -> linalg.ops.GenericOp:
        """
        Inserts the `linalg.generic`. `result` is a function that returns the output's new element
        for its old one. `kinds` and `like` are as in `make_generic`.
        """
        value = result(self.block.insert_arg(_element(out), len(self.block.args)))
        self.block.add_op(linalg.ops.YieldOp(value))
        generic = make_generic(self.inputs, out, [*self.maps, map], self.block, kinds, like)
        code.insert(generic)
        return generic


def _element(value: SSAValue) -> Attribute:
    type = value.type
    return type.element_type if isinstance(type, TensorType | MemRefType) else type
