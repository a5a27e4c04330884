"""Tiles and numbers of a workgroup. Python's operators on them append operations to the program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import Float32Type, FloatAttr, IndexType, IntegerAttr
from xdsl.ir import Block, Operation, SSAValue

from xdsl_spirv.dialects import tile
from xdsl_spirv.kernels.operators import Operators
from xdsl_spirv.kernels.tile_tracer import current
from xdsl_spirv.kernels.tracer import KernelError
from xdsl_spirv.kernels.types import Type, boolean, i32

INDEX = IndexType()

_OPERATORS: dict[str, tuple[Any, Any, Any]] = {
    # floats, signed, unsigned
    "+": (arith.AddfOp, arith.AddiOp, arith.AddiOp),
    "-": (arith.SubfOp, arith.SubiOp, arith.SubiOp),
    "*": (arith.MulfOp, arith.MuliOp, arith.MuliOp),
    "/": (arith.DivfOp, None, None),
    "//": (None, None, arith.DivUIOp),
    "%": (None, None, arith.RemUIOp),
    "&": (None, arith.AndIOp, arith.AndIOp),
    "|": (None, arith.OrIOp, arith.OrIOp),
    "^": (None, arith.XOrIOp, arith.XOrIOp),
    "<<": (None, arith.ShLIOp, arith.ShLIOp),
    ">>": (None, arith.ShRSIOp, arith.ShRUIOp),
    "max": (arith.MaxnumfOp, arith.MaxSIOp, arith.MaxUIOp),
    "min": (arith.MinnumfOp, arith.MinSIOp, arith.MinUIOp),
}
_COMPARISONS = {
    "<": ("olt", "slt", "ult"),
    "<=": ("ole", "sle", "ule"),
    ">": ("ogt", "sgt", "ugt"),
    ">=": ("oge", "sge", "uge"),
    "==": ("oeq", "eq", "eq"),
    "!=": ("une", "ne", "ne"),
}


class Operand(Operators):
    """Base class of tiles and numbers, with Python's operators."""

    ssa: SSAValue
    type: Type
    shape: tuple[int, ...] = ()

    def binary(self, symbol: str, left: Any, right: Any) -> Any:
        return binary(symbol, left, right)

    def __neg__(self) -> Any:
        return unary(arith.NegfOp, self) if self.type.is_float else binary("-", 0, self)

    def __bool__(self) -> NoReturn:
        raise KernelError(
            f"{self!r} has no truth value while the kernel is traced",
            "",
            "choose with where(...), loop with range(...)",
        )

    def __index__(self) -> NoReturn:
        raise KernelError(
            f"{self!r} cannot be used as a Python integer", "", "loop with tiles.range(...)"
        )

    def __iter__(self) -> NoReturn:
        raise KernelError(
            f"{self!r} cannot be iterated", "", "reduce the tile, for example with .sum(axis=1)"
        )


class Number(Operand):
    """A number that is uniform over the workgroup."""

    def __init__(self, ssa: SSAValue, type: Type):
        self.ssa, self.type = ssa, type

    def to(self, type: Type) -> Number:
        """Converts the number to another type."""
        tracer = current()
        made = _convert(tracer.add, tracer.plain(self.ssa), self.type, type)
        return Number(made, type)

    def __repr__(self) -> str:
        return f"a number of {self.type}"


class Tile(Operand):
    """A tile of elements of one type."""

    def __init__(self, ssa: SSAValue, type: Type):
        self.ssa, self.type = ssa, type
        self.shape = tile.tile_of(ssa).shape

    def to(self, type: Type) -> Tile:
        """Converts each element. Floats round to nearest, or toward zero for an integer type."""
        if type == self.type:
            return self
        return map_tiles([self], type, lambda add, x: _convert(add, x, self.type, type))

    @property
    def T(self) -> Tile:
        """The transposed matrix."""
        if len(self.shape) != 2:
            raise KernelError(f"{self!r} is not a matrix", "", "transpose tiles of two axes")
        return Tile(current().add(tile.TransposeOp(self.ssa)), self.type)

    @property
    def column(self) -> Tile:
        """A vector as a matrix with one column."""
        return self.reshape(*self.shape, 1)

    @property
    def row(self) -> Tile:
        """A vector as a matrix with one row."""
        return self.reshape(1, *self.shape)

    def reshape(self, *shape: int) -> Tile:
        """Returns the tile in another shape, with the same order of elements."""
        return self if shape == self.shape else self._move(tile.ReshapeOp(self.ssa, shape))

    def broadcast(self, shape: Sequence[int]) -> Tile:
        """Broadcasts the tile as numpy does. Raises `KernelError` for shapes that do not fit."""
        wide = (1,) * (len(shape) - len(self.shape)) + self.shape
        if len(wide) != len(shape) or any(
            have not in (1, want) for have, want in zip(wide, shape, strict=True)
        ):
            raise KernelError(
                f"tiles of {_show(self.shape)} and {_show(shape)} cannot be combined",
                "",
                "a vector broadcasts as a row: use .column for a column",
            )
        source = self.reshape(*wide)
        if wide == tuple(shape):
            return source
        return source._move(tile.BroadcastOp(source.ssa, shape))

    def max(self, axis: int) -> Any:
        """Returns the maximum along an axis."""
        return self._reduce(axis, "max")

    def min(self, axis: int) -> Any:
        """Returns the minimum along an axis."""
        return self._reduce(axis, "min")

    def sum(self, axis: int) -> Any:
        """Returns the sum along an axis, in the tile's type and an unspecified order."""
        return self._reduce(axis, "+")

    def _move(self, op: Operation) -> Tile:
        return Tile(current().add(op), self.type)

    def cumsum(self, axis: int, reverse: bool = False) -> Tile:
        """
        Returns, for each element, the sum of the elements up to it along an axis, in the tile's
        type and an unspecified order. With `reverse`, sums the elements from it on.
        """
        block = self._function(axis, "+")
        op = tile.ScanOp([self.ssa], axis % len(self.shape), block, reverse)
        return Tile(current().add(op), self.type)

    def _reduce(self, axis: int, symbol: str) -> Any:
        block = self._function(axis, symbol)
        made = current().add(tile.ReduceOp([self.ssa], axis % len(self.shape), block))
        return Tile(made, self.type) if len(self.shape) > 1 else number(made, self.type)

    def _function(self, axis: int, symbol: str) -> Block:
        """Returns a function that combines two elements. Raises `KernelError` for a wrong axis."""
        if not -len(self.shape) <= axis < len(self.shape):
            raise KernelError(f"{self!r} has no axis {axis}", "", "count axes from 0")
        element = self.type.attribute
        block = Block(arg_types=[element, element])
        block.args[0].name_hint = "a"
        kind = _kind(symbol, self.type)
        combined = kind(*block.args)
        block.add_ops([combined, tile.YieldOp(combined.results[0])])
        return block

    def __repr__(self) -> str:
        return f"a tile of {_show(self.shape)} {self.type}"


def _show(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))


def _column(type: Type) -> int:
    return 0 if type.is_float else 1 if type.is_signed else 2


def _kind(symbol: str, type: Type) -> Callable[..., Operation]:
    if symbol in _COMPARISONS:
        predicate = _COMPARISONS[symbol][_column(type)]
        kind = arith.CmpfOp if type.is_float else arith.CmpiOp
        return lambda a, b: kind(a, b, predicate)
    found = _OPERATORS.get(symbol, (None,) * 3)[_column(type)]
    if found is None:
        other = "use unsigned integers, or floats"
        remedy = "convert with .to(f32)" if symbol == "/" else other
        if type.is_float and symbol not in ("//", "%"):
            remedy = "convert with .to(i32)"
        raise KernelError(f"the operator {symbol} does not support {type}", "", remedy)
    return found


Add = Callable[[Operation], SSAValue]


def map_tiles(tiles: Sequence[Tile], type: Type, function: Callable[..., SSAValue]) -> Tile:
    """
    Applies `function(add, *elements)` to corresponding elements of tiles of one shape.

    `function` writes the code for one element: `add` appends an operation and returns its result.
    """
    block = Block(arg_types=[t.type.attribute for t in tiles])
    tracer = current()

    def add(op: Operation) -> SSAValue:
        op.location = tracer.lines.here()
        block.add_op(op)
        return op.results[0]

    result = function(add, *block.args)
    block.add_op(tile.YieldOp(result))
    out = tile.tile_type(tiles[0].shape, type.attribute)
    return Tile(tracer.add(tile.MapOp([t.ssa for t in tiles], [out], block)), type)


def broadcast_together(tiles: Sequence[Tile]) -> list[Tile]:
    """Broadcasts tiles to one shape. Raises `KernelError` for shapes that do not fit."""
    rank = max(len(t.shape) for t in tiles)
    padded = [(1,) * (rank - len(t.shape)) + t.shape for t in tiles]
    shape = [max(sizes) for sizes in zip(*padded, strict=True)]
    return [t.broadcast(shape) for t in tiles]


def binary(symbol: str, left: Any, right: Any) -> Any:
    """Appends a binary operator on tiles and numbers to the program. Returns the result."""
    known = next(v for v in (left, right) if isinstance(v, Operand))
    tiles = [v for v in (left, right) if isinstance(v, Tile)]
    type = tiles[0].type if tiles else known.type
    a, b = (_operand(value, type) for value in (left, right))
    result = boolean if symbol in _COMPARISONS else type
    if not tiles:
        return _numbers(symbol, a, b, result)
    if len(tiles) == 2:
        kind = _kind(symbol, type)
        wide = broadcast_together(tiles)
        return map_tiles(wide, result, lambda add, x, y: add(kind(x, y)))
    plain = current().plain
    kind = _kind(symbol, type)
    if isinstance(left, Tile):
        return map_tiles(tiles, result, lambda add, x: add(kind(x, plain(b.ssa))))
    return map_tiles(tiles, result, lambda add, x: add(kind(plain(a.ssa), x)))


def _numbers(symbol: str, a: Number, b: Number, result: Type) -> Number:
    tracer = current()
    is_index = isinstance(a.ssa.type, IndexType) or isinstance(b.ssa.type, IndexType)
    x, y = (tracer.as_index(v) if is_index else v.ssa for v in (a, b))
    if is_index and symbol in ("//", "%"):
        quotient = tracer.add(arith.FloorDivSIOp(x, y))
        if symbol == "//":
            return Number(quotient, result)
        return Number(tracer.add(arith.SubiOp(x, tracer.add(arith.MuliOp(quotient, y)))), result)
    made = tracer.add(_kind(symbol, a.type)(x, y))
    return Number(made, result)


def _operand(value: Any, type: Type) -> Any:
    if isinstance(value, Operand):
        if value.type != type:
            raise KernelError(
                f"{value!r} and a value of {type} cannot be combined",
                "",
                f"convert an operand with .to({type})",
            )
        return value
    return constant(value, type)


def _convert(add: Add, value: SSAValue, before: Type, after: Type) -> SSAValue:
    if before == after:
        return value
    to: Any = after.attribute
    if before.is_boolean or after.is_boolean:
        if after.is_boolean:
            raise KernelError(f"{before} cannot be converted to a Boolean", "", "compare with 0")
        return add((arith.UIToFPOp if after.is_float else arith.ExtUIOp)(value, to))
    if before.is_float and after.is_float:
        if before.width == after.width:
            return add(arith.TruncFOp(add(arith.ExtFOp(value, Float32Type())), to))
        return add((arith.ExtFOp if after.width > before.width else arith.TruncFOp)(value, to))
    if before.is_float:
        return add((arith.FPToSIOp if after.is_signed else arith.FPToUIOp)(value, to))
    if after.is_float:
        return add((arith.SIToFPOp if before.is_signed else arith.UIToFPOp)(value, to))
    if before.width == after.width:
        return value
    if after.width < before.width:
        return add(arith.TruncIOp(value, to))
    return add((arith.ExtSIOp if before.is_signed else arith.ExtUIOp)(value, to))


def unary(kind: Callable[[SSAValue], Operation], value: Any) -> Any:
    """Appends a unary float operation on a tile or number to the program. Returns the result."""
    if not isinstance(value, Operand) or not value.type.is_float:
        raise KernelError(f"{value!r} is not a float", "", "convert with .to(f32)")
    if isinstance(value, Tile):
        return map_tiles([value], value.type, lambda add, x: add(kind(x)))
    return Number(current().add(kind(value.ssa)), value.type)


def function(kind: Any) -> Callable[[Any], Any]:
    """Returns a kernel function that applies a unary float operation."""
    return lambda value: unary(lambda x: kind(x), value)


exp, exp2, log, sqrt, rsqrt, tanh, absolute = map(
    function,
    (math.ExpOp, math.Exp2Op, math.LogOp, math.SqrtOp, math.RsqrtOp, math.TanhOp, math.AbsFOp),
)


def attribute_of(value: float, type: Type) -> IntegerAttr | FloatAttr:
    """Returns a number as an attribute. Raises `KernelError` if the type cannot represent it."""
    element: Any = type.attribute
    if type.is_float:
        return FloatAttr(float(value), element)
    low = -(1 << (type.width - 1)) if type.is_signed else 0
    if int(value) != value or not low <= value < low + (1 << type.width):
        raise KernelError(f"{value} is not a value of {type}", "", "give an integer that fits")
    return IntegerAttr(int(value), element, truncate_bits=True)


def number(ssa: SSAValue, type: Type) -> Number:
    """
    Returns an SSA value of the program as a `Number` of a type. An i32 is converted to an index, in
    which numbers are computed.
    """
    if ssa.type == i32.attribute:
        ssa = current().add(arith.IndexCastOp(ssa, INDEX))
    return Number(ssa, type)


def constant(value: Any, type: Type) -> Number:
    """Appends a Python number as a constant. Raises `KernelError` for other objects."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise KernelError(f"{value!r} is not a number", "", "give a number or a tile")
    attribute = attribute_of(value, type)
    if type == i32:
        return Number(current().add(arith.ConstantOp.from_int_and_width(int(value), INDEX)), type)
    return Number(current().add(arith.ConstantOp(attribute)), type)


__all__ = [
    "Number", "Operand", "Tile", "attribute_of", "binary", "broadcast_together", "constant",
    "map_tiles", "number",
]  # fmt: skip
