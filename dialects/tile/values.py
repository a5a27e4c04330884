"""Operations on tiles."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import cast

from xdsl.dialects.builtin import AnyFloat, IntegerAttr, UnitAttr, i32, i64
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import IsTerminator, NoMemoryEffect, Pure
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.tile.types import (
    TileType,
    reduce_type,
    require,
    scalar_of,
    tile_of,
    tile_type,
)


@irdl_op_definition
class FullOp(IRDLOperation):
    """
    A tile in which all elements equal the operand: `tile.full %x : f32 -> !tile.tile<64x64xf32>`.
    """

    name = "tile.full"
    value = operand_def()
    result = result_def(TileType)
    traits = traits_def(Pure())
    assembly_format = "$value attr-dict `:` type($value) `->` type($result)"

    def __init__(self, value: SSAValue, shape: Sequence[int]):
        super().__init__(operands=[value], result_types=[tile_type(shape, value.type)])

    def verify_(self) -> None:
        require(
            tile_of(self.result).element == self.value.type,
            "the number must have the tile's element type",
        )


@irdl_op_definition
class RangeOp(IRDLOperation):
    """The numbers 0, 1, ...: `tile.range : !tile.tile<64xi32>`."""

    name = "tile.range"
    result = result_def(TileType)
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($result)"

    def __init__(self, size: int):
        super().__init__(result_types=[tile_type([size], i32)])

    def verify_(self) -> None:
        type = tile_of(self.result)
        require(
            len(type.shape) == 1 and type.element == i32,
            f"a range must have one axis of i32, not {type}",
        )


@irdl_op_definition
class YieldOp(IRDLOperation):
    """Returns the results of a function of elements."""

    name = "tile.yield"
    values = var_operand_def()
    traits = traits_def(IsTerminator(), Pure())
    assembly_format = "$values attr-dict `:` type($values)"

    def __init__(self, *values: SSAValue):
        super().__init__(operands=[values])


def _check_function(op: IRDLOperation, body: Region, arguments: Sequence[Attribute]) -> None:
    block = body.block
    require(
        tuple(block.arg_types) == tuple(arguments),
        f"the function of {op.name} must take {list(map(str, arguments))}",
    )
    require(
        isinstance(block.last_op, YieldOp), f"the function of {op.name} must end with a tile.yield"
    )
    last = cast(YieldOp, block.last_op)
    wanted = [scalar_of(result.type) for result in op.results]
    require(list(last.operand_types) == wanted, f"the function must yield {list(map(str, wanted))}")


@irdl_op_definition
class MapOp(IRDLOperation):
    """
    Applies a function to tiles of one shape: at each position, to the elements at this position.

        %r = tile.map(%x, %y) : (!tile.tile<8x8xf32>, !tile.tile<8x8xf32>) -> !tile.tile<8x8xf32> {
        ^bb0(%a: f32, %b: f32):
          %s = arith.addf %a, %b : f32
          tile.yield %s : f32
        }

    The function may use numbers of the surrounding program. It must not access memory.
    """

    name = "tile.map"
    tiles = var_operand_def(TileType)
    outputs = var_result_def(TileType)
    body = region_def("single_block")
    traits = traits_def(NoMemoryEffect())
    assembly_format = (
        "`(` $tiles `)` attr-dict-with-keyword `:` functional-type($tiles, $outputs) $body"
    )

    def __init__(self, tiles: Sequence[SSAValue], results: Sequence[TileType], body: Block):
        super().__init__(operands=[list(tiles)], result_types=[results], regions=[Region(body)])

    def verify_(self) -> None:
        types = [cast(TileType, v.type) for v in (*self.tiles, *self.outputs)]
        require(len(self.outputs) > 0, "a map must have a result")
        for type in types[1:]:
            require(
                type.shape == types[0].shape,
                f"{types[0]} and {type} have different shapes: a map needs tiles of one shape",
            )
        _check_function(self, self.body, [tile_of(tile).element for tile in self.tiles])


@irdl_op_definition
class MultiplyAddOp(IRDLOperation):
    """
    Computes a * b + c: `tile.mma %a, %b, %c : tile<64x32xf16>, tile<32x64xf16>, tile<64x64xf32>`.

    Products and sums have c's type. Integers are signed, unless `unsigned` is given.
    """

    name = "tile.mma"
    a = operand_def(TileType)
    b = operand_def(TileType)
    c = operand_def(TileType)
    unsigned = opt_prop_def(UnitAttr)
    result = result_def(TileType)
    traits = traits_def(Pure())
    assembly_format = (
        "$a `,` $b `,` $c (`unsigned` $unsigned^)? attr-dict `:` type($a) `,` type($b) `,` "
        "type($c) `->` type($result)"
    )

    def __init__(self, a: SSAValue, b: SSAValue, c: SSAValue, unsigned: bool = False):
        properties = {"unsigned": UnitAttr() if unsigned else None}
        super().__init__(operands=[a, b, c], properties=properties, result_types=[c.type])

    def verify_(self) -> None:
        a, b, c = tile_of(self.a), tile_of(self.b), tile_of(self.c)
        if not len(a.shape) == len(b.shape) == len(c.shape) == 2:
            raise VerifyException(f"the operands must be matrices (2 axes), not {a}, {b} and {c}")
        (m, k), (other, n) = a.shape, b.shape
        require(k == other, f"{m}x{k} and {other}x{n} cannot be multiplied: {k} and {other} differ")
        require(c.shape == (m, n), f"the sum of {m}x{k} by {k}x{n} must be {m}x{n}, not {c}")
        require(self.result.type == c, f"the result must be {c}, not {self.result.type}")
        require(a.element == b.element, f"{a} and {b} have different element types")
        floats = {isinstance(t.element, AnyFloat) for t in (a, b, c)}
        require(len(floats) == 1, f"{a}, {b}, {c} must not mix integers and floats")


class _AlongAxis(IRDLOperation):
    """Combines the elements of tiles of one shape along an axis, by a function of elements."""

    tiles = var_operand_def(TileType)
    axis = prop_def(IntegerAttr.constr(i64))
    outputs = var_result_def()
    body = region_def("single_block")
    traits = traits_def(NoMemoryEffect())

    def check(self, wanted: list[Attribute]) -> None:
        """Verifies operands, function, and that the results have the types `wanted`."""
        axis, types = self.axis.value.data, [tile_of(tile) for tile in self.tiles]
        require(0 <= axis < len(types[0].shape), f"{types[0]} has no axis {axis}")
        require(list(self.result_types) == wanted, f"the results must be {list(map(str, wanted))}")
        require(len({type.shape for type in types}) == 1, "all tiles must have the same shape")
        elements = [type.element for type in types]
        _check_function(self, self.body, elements + elements)


@irdl_op_definition
class ReduceOp(_AlongAxis):
    """
    Combines the elements along an axis. Reducing the only axis gives a number, uniform in the
    workgroup.

        %m = tile.reduce(%x) axis 1 : (!tile.tile<64x32xf32>) -> !tile.tile<64xf32> {
        ^bb0(%a: f32, %b: f32):
          %c = arith.maxnumf %a, %b : f32
          tile.yield %c : f32
        }

    The function must be associative and commutative, since the order is unspecified.
    """

    name = "tile.reduce"
    assembly_format = (
        "`(` $tiles `)` `axis` $axis attr-dict-with-keyword `:` "
        "functional-type($tiles, $outputs) $body"
    )

    def __init__(self, tiles: Sequence[SSAValue], axis: int, body: Block):
        results = [reduce_type(tile_of(tile), axis) for tile in tiles]
        super().__init__(
            operands=[list(tiles)],
            properties={"axis": IntegerAttr(axis, i64)},
            result_types=[results],
            regions=[Region(body)],
        )

    def verify_(self) -> None:
        self.check([reduce_type(tile_of(tile), self.axis.value.data) for tile in self.tiles])


@irdl_op_definition
class ScanOp(_AlongAxis):
    """
    Combines each element with all elements before it along an axis, or with `reverse` with all
    elements behind it: `tile.scan(%x) axis 0 reverse : ...` with the function of `tile.reduce`.

    The function must be associative: its first argument combines elements that are scanned
    earlier.
    """

    name = "tile.scan"
    reverse = opt_prop_def(UnitAttr)
    assembly_format = (
        "`(` $tiles `)` `axis` $axis (`reverse` $reverse^)? attr-dict-with-keyword `:` "
        "functional-type($tiles, $outputs) $body"
    )

    def __init__(self, tiles: Sequence[SSAValue], axis: int, body: Block, reverse: bool = False):
        super().__init__(
            operands=[list(tiles)],
            properties={
                "axis": IntegerAttr(axis, i64),
                "reverse": UnitAttr() if reverse else None,
            },
            result_types=[[tile.type for tile in tiles]],
            regions=[Region(body)],
        )

    def verify_(self) -> None:
        self.check([tile.type for tile in self.tiles])


class _Moved(IRDLOperation):
    tile = operand_def(TileType)
    result = result_def(TileType)
    traits = traits_def(Pure())

    def __init__(self, tile: SSAValue, shape: Sequence[int]):
        super().__init__(operands=[tile], result_types=[tile_type(shape, tile_of(tile).element)])

    def check(self, fits: bool) -> None:
        before, after = tile_of(self.tile), tile_of(self.result)
        require(fits and before.element == after.element, f"{before} cannot become {after}")


@irdl_op_definition
class BroadcastOp(_Moved):
    """Repeats axes of size 1: `tile.broadcast %x : tile<64x1xf32> -> tile<64x32xf32>`."""

    name = "tile.broadcast"
    assembly_format = "$tile attr-dict `:` type($tile) `->` type($result)"

    def verify_(self) -> None:
        before, after = tile_of(self.tile).shape, tile_of(self.result).shape
        self.check(
            len(before) == len(after)
            and all(b in (1, a) for b, a in zip(before, after, strict=True))
        )


@irdl_op_definition
class ReshapeOp(_Moved):
    """Changes the shape of a tile without changing the order of elements."""

    name = "tile.reshape"
    assembly_format = "$tile attr-dict `:` type($tile) `->` type($result)"

    def verify_(self) -> None:
        self.check(prod(tile_of(self.tile).shape) == prod(tile_of(self.result).shape))


@irdl_op_definition
class TransposeOp(_Moved):
    """Reverses the order of the axes."""

    name = "tile.transpose"
    assembly_format = "$tile attr-dict `:` type($tile) `->` type($result)"

    def __init__(self, tile: SSAValue):
        super().__init__(tile, tile_of(tile).shape[::-1])

    def verify_(self) -> None:
        self.check(tile_of(self.tile).shape == tile_of(self.result).shape[::-1])
