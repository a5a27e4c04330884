"""
Rewrites contractions of dequantized numbers as contractions of the stored 8-bit integers.

    a = qa - za; sum of a * b  ->  sum of (qa - za) * b, all in 32 bits
    sum of (sa * (qa - za)) * (sb * (qb - zb))  ->  sa * sb * float(sum of (qa - za) * (qb - zb))

Models with integer operators and models that dequantize before float operators (QDQ) then have one
form. The integer sum is exact and is rounded once, while the float sum rounds every product. The
result is therefore more accurate, and within the bound of any order of accumulation
(docs/numerics.md).

The rewrite needs a sum that fits in 32 bits, and scales that all terms of a sum share. Pads with
zero, transpositions and reshapes between dequantization and contraction are applied to the
integers instead; the padding value is then the zero point.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod

from xdsl.dialects import arith, linalg, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    Float32Type,
    IntegerAttr,
    IntegerType,
    TensorType,
    i32,
)
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.ops import FillOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineMap
from xdsl.rewriter import Rewriter

from xdsl_spirv.passes.analysis.factors import own_map
from xdsl_spirv.passes.analysis.linalg_code import (
    BodyCode,
    Code,
    groups_of,
    maps_of,
    pad_like,
    tensor_type,
    yields_of,
)
from xdsl_spirv.passes.analysis.pointwise import (
    Factor,
    NotAContraction,
    clone_into,
    factors_of,
    inputs_of,
    without_extensions,
)
from xdsl_spirv.passes.analysis.sizes import extents, loop_extents
from xdsl_spirv.passes.analysis.values import erase_dead, is_zero
from xdsl_spirv.passes.graph.layouts import with_type
from xdsl_spirv.passes.graph.zero_points import Shifted, match_shifted, shift_range

LARGEST_SUM = 1 << 31

Move = Callable[[Code, SSAValue], SSAValue]
"""A function that applies a pad, a transposition or a reshape to a tensor of integers."""


@dataclass(frozen=True)
class Dequantized:
    """
    A tensor of `q - zero` or `scale * (q - zero)`: `op` computes it, then `moves` rearrange it.

    `places` has a tuple for each input of `op`. It maps each dimension of the input to a dimension
    of the rearranged tensor, or to None if the size is 1. If the contraction reads integers
    without a zero point, `op` is the contraction itself.
    """

    op: LinalgStructuredOperation
    shift: Shifted
    scale: SSAValue | None = None
    places: tuple[tuple[int | None, ...], ...] = ()
    moves: tuple[Move, ...] = ()

    @property
    def aux(self) -> list[int]:
        """Indices of the inputs of `op` from which the scale and the zero point are computed."""
        block = self.op.body.block
        of_scale = set[int]() if self.scale is None else inputs_of(self.scale, block)
        return sorted(self.shift.zero_inputs | of_scale)


def with_integers(op: LinalgStructuredOperation) -> LinalgStructuredOperation | None:
    """
    Rewrites a contraction of dequantized numbers as a contraction of the stored integers.

    Returns None, without a change, if this is not possible.
    """
    if len(op.inputs) != 2 or len(op.results) != 1 or isinstance(op, FillOp):
        return None
    of_integers = op.body.block.args[-1].type == i32
    if not of_integers and not isinstance(op.body.block.args[-1].type, Float32Type):
        return None
    try:
        factors = factors_of(op.body.block)
    except NotAContraction:
        return None
    if (
        not all(factor.is_pure for factor in factors)
        or len(factors[0].inputs | factors[1].inputs) < 2
    ):
        return None
    a, b = (_trace_dequantized(value) for value in op.inputs)
    if of_integers and (a is None) != (b is None):
        plain = _plain(op, factors, 0 if a is None else 1)
        a, b = a or plain, b or plain
    if a is None or b is None:
        return None
    rewrite = _Rewrite(op, (a, b), of_integers)
    return rewrite.apply() if rewrite.is_possible() else None


def _plain(
    op: LinalgStructuredOperation, factors: tuple[Factor, Factor], number: int
) -> Dequantized | None:
    """Describes an 8-bit input of the contraction that has neither scale nor zero point."""
    if not _is_byte(op.body.block.args[number]):
        return None
    factor = next(factor for factor in factors if number in factor.inputs)
    return Dequantized(op, Shifted(number, factor.signed, None, frozenset(), False, 0))


def _is_byte(argument: SSAValue) -> bool:
    return isinstance(argument.type, IntegerType) and argument.type.width.data <= 8


def _trace_dequantized(value: SSAValue) -> Dequantized | None:
    """Finds the integers of a dequantized tensor, through pads, transpositions and reshapes."""
    owner = value.owner
    if isinstance(owner, Block) or not isinstance(value.type, TensorType):
        return None
    match owner:
        case tensor.PadOp():
            inner = _trace_dequantized(owner.source)
            return None if inner is None else _pad_operand(owner, inner)
        case tensor.CollapseShapeOp() | tensor.ExpandShapeOp():
            inner = _trace_dequantized(owner.src)
            return None if inner is None else _reshape_operand(owner, inner)
        case linalg.ops.TransposeOp():
            inner = _trace_dequantized(owner.inputs[0])
            order = list(owner.permutation.get_values())
            return None if inner is None else _transpose_operand(inner, order)
        case LinalgStructuredOperation():
            order = _transposition(owner)
            if order is not None:
                inner = _trace_dequantized(owner.inputs[0])
                return None if inner is None else _transpose_operand(inner, order)
            return _dequantization(owner)
        case _:
            return None


def _dequantization(op: LinalgStructuredOperation) -> Dequantized | None:
    """Matches an elementwise `q - zero` or `scale * float(q - zero)` of 8-bit integers."""
    block = op.body.block
    maps = maps_of(op)
    if len(op.outputs) != 1 or maps[-1] != AffineMap.identity(maps[-1].num_dims):
        return None
    value, scale = yields_of(block)[0], None
    if isinstance(value.owner, arith.MulfOp):
        value, scale = value.owner.lhs, value.owner.rhs
        if not isinstance(value.owner, arith.SIToFPOp | arith.UIToFPOp):
            value, scale = scale, value
    if value.type == i32:
        shift = match_shifted(value, block, op)
        shift = shift if shift is not None and _is_zero_point(shift) else None
    else:
        shift = _trace_conversion(value, block, op)
    if shift is None or not _is_byte(block.args[shift.input]):
        return None
    if maps[shift.input] != maps[-1]:
        return None
    places: list[tuple[int | None, ...]] = []
    for operand, map in zip(op.inputs, maps, strict=False):
        place = _place(operand, map)
        if place is None:
            return None
        places.append(place)
    try:
        of_scale = set[int]() if scale is None else inputs_of(scale, block)
    except NotAContraction:
        return None
    return None if shift.input in of_scale else Dequantized(op, shift, scale, tuple(places))


def _place(operand: SSAValue, map: AffineMap) -> tuple[int | None, ...] | None:
    """
    Returns the loop that indexes each dimension of an operand; None for a dimension of size 1.

    Returns None for the whole operand if a dimension is indexed by anything but a single loop.
    """
    if not isinstance(operand.type, TensorType):
        return ()
    place: list[int | None] = []
    for index, size in zip(map.results, operand.type.get_shape(), strict=True):
        if not isinstance(index, AffineDimExpr) and size != 1:
            return None
        place.append(index.position if isinstance(index, AffineDimExpr) and size != 1 else None)
    return tuple(place)


def _is_zero_point(shift: Shifted) -> bool:
    """True if the subtracted number is a constant, or an integer input of at most 16 bits."""
    if shift.number is not None:
        return True
    assert shift.zero is not None
    source, _ = without_extensions(shift.zero)
    known = isinstance(source, BlockArgument) and isinstance(source.type, IntegerType)
    return known and source.type.width.data <= 16  # pyright: ignore


def _trace_conversion(
    value: SSAValue, block: Block, op: LinalgStructuredOperation
) -> Shifted | None:
    """Matches `float(q - zero)` if the difference cannot wrap and `zero` has at most 16 bits."""
    owner = value.owner
    if not isinstance(owner, arith.SIToFPOp | arith.UIToFPOp):
        return None
    if not isinstance(value.type, Float32Type):
        return None
    number = owner.operands[0]
    shift = match_shifted(number, block, op)
    if shift is None:
        return None
    unsigned = isinstance(owner, arith.UIToFPOp)
    if isinstance(number, BlockArgument):
        return replace(shift, signed=not unsigned)
    if not _is_zero_point(shift):
        return None
    assert isinstance(number.type, IntegerType)
    low, high = shift_range(shift, block)
    least = 0 if unsigned else -(1 << number.type.width.data - 1)
    return shift if least <= low and high < 1 << number.type.width.data - 1 else None


def _transposition(op: LinalgStructuredOperation) -> list[int] | None:
    if len(op.inputs) != 1 or len(op.outputs) != 1:
        return None
    if yields_of(op.body.block)[0] is not op.body.block.args[0]:
        return None
    source, out = maps_of(op)
    if out != AffineMap.identity(out.num_dims):
        return None
    dims = [x.position for x in source.results if isinstance(x, AffineDimExpr)]
    if len(dims) != len(source.results) or sorted(dims) != list(range(out.num_dims)):
        return None
    return [dims.index(position) for position in range(out.num_dims)]


def _transpose_operand(inner: Dequantized, order: list[int]) -> Dequantized:
    places = tuple(
        tuple(None if d is None else order.index(d) for d in place) for place in inner.places
    )
    return replace(
        inner,
        places=places,
        moves=(*inner.moves, lambda code, value: code.transpose(value, order)),
    )


def _pad_operand(op: tensor.PadOp, inner: Dequantized) -> Dequantized | None:
    """
    Moves a padding of a dequantized tensor to its integers, which are padded with the zero point.
    Returns None unless the padding is 0 and the zero point is one integer.
    """
    low, high = op.static_low.get_values(), op.static_high.get_values()
    if not is_zero(yields_of(op.region.block)[0]) or DYNAMIC_INDEX in (*low, *high):
        return None
    padded = {axis for axis, ends in enumerate(zip(low, high, strict=True)) if any(ends)}
    stored = _stored_zero(inner)
    if stored is None or any(padded & set(inner.places[n]) for n in inner.aux):
        return None

    def pad(code: Code, value: SSAValue) -> SSAValue:
        zero = stored()
        pad_of_integers = pad_like(op, value, zero.results[0])
        return code.insert(zero, _retype_result(pad_of_integers, value))

    return replace(inner, moves=(*inner.moves, pad))


def _stored_zero(inner: Dequantized) -> Callable[[], Operation] | None:
    """
    Returns a function that creates an operation with the zero point in the integers' type. Returns
    None if the zero point varies or does not fit in this type.
    """
    block, shift = inner.op.body.block, inner.shift
    element = block.args[shift.input].type
    assert isinstance(element, IntegerType)
    number = shift.number
    if number is None:
        assert shift.zero is not None
        source, signed = without_extensions(shift.zero)
        is_same_shift = source.type == element and signed == shift.signed and not shift.negated
        if not is_same_shift or not isinstance(source, BlockArgument):
            return None
        values = inner.op.inputs[source.index]
        if not isinstance(values.type, TensorType) or values.type.get_num_dims():
            return None
        return lambda: tensor.ExtractOp(values, [], element)
    sign_bit = 1 << element.width.data - 1
    least = -sign_bit if shift.signed else 0
    if not least <= number < least + 2 * sign_bit:
        return None
    return lambda: arith.ConstantOp(
        IntegerAttr((number + sign_bit) % (2 * sign_bit) - sign_bit, element)
    )


def _retype_result(op: Operation, like: SSAValue) -> Operation:
    shape = tensor_type(op.results[0]).get_shape()
    return with_type(op, TensorType(tensor_type(like).element_type, shape))


def _reshape_operand(
    op: tensor.CollapseShapeOp | tensor.ExpandShapeOp, inner: Dequantized
) -> Dequantized | None:
    """
    Moves a reshape of a dequantized tensor to its integers. Returns None if the scale or zero point
    varies along a reshaped dimension.
    """
    groups, collapses = groups_of(op), isinstance(op, tensor.CollapseShapeOp)
    sizes = tensor_type(op.src if collapses else op.result).get_shape()
    places: list[tuple[int | None, ...]] = []
    for number, place in enumerate(inner.places):
        if number == inner.shift.input:
            places.append(tuple(range(len(op.result.type.get_shape()))))  # pyright: ignore
            continue
        moved: list[int | None] = []
        for d in place:
            if d is None:
                moved.append(None)
                continue
            at = next(n for n, g in enumerate(groups) if d in g) if collapses else d
            wide = [dimension for dimension in groups[at] if sizes[dimension] != 1]
            if len(wide) > 1 or (collapses and wide not in ([], [d])):
                return None
            moved.append(at if collapses else (wide or groups[at])[0])
        places.append(tuple(moved))

    def reshape(code: Code, value: SSAValue) -> SSAValue:
        reshape_of_integers = op.clone()
        reshape_of_integers.operands = [value, *op.operands[1:]]
        return code.insert(_retype_result(reshape_of_integers, value))

    return replace(inner, places=tuple(places), moves=(*inner.moves, reshape))


class _Rewrite:
    def __init__(
        self,
        op: LinalgStructuredOperation,
        operands: tuple[Dequantized, Dequantized],
        of_integers: bool,
    ):
        self.op, self.code = op, Code(op)
        self.operands = operands
        self.of_integers = of_integers
        self.maps = maps_of(op)
        self.out = self.maps[-1]

    def _map(self, number: int, aux: int) -> AffineMap:
        """
        Returns the index map of the input `aux`, a scale or zero point of operand `number`, as a
        function of the contraction's loops.
        """
        map = self.maps[number]
        place = self.operands[number].places[aux]
        none = AffineConstantExpr(0)
        return AffineMap(
            map.num_dims, 0, tuple(none if d is None else map.results[d] for d in place)
        )

    def is_possible(self) -> bool:
        """True if the terms of a sum share scale and zero point, and the sum fits in 32 bits."""
        result = self.op.results[0].type
        if not isinstance(result, TensorType):
            return False
        if any(not isinstance(x, AffineDimExpr) for x in self.out.results):
            return False
        try:
            for number, operand in enumerate(self.operands):
                for aux in operand.aux:
                    own_map(self._map(number, aux), self.out)
        except NotAContraction:
            return False
        if self.of_integers:
            return True
        largest = 1
        for operand in self.operands:
            low, high = shift_range(operand.shift, operand.op.body.block)
            largest *= max(-low, high)
        terms = self._terms()
        return terms is not None and terms * largest < LARGEST_SUM

    def _terms(self) -> int | None:
        loops = set(range(self.out.num_dims)) - set(self.out.used_dims())
        sizes = loop_extents(self.op)
        known = [size for loop in loops if isinstance(size := sizes[loop], int)]
        return prod(known) if len(known) == len(loops) else None

    def apply(self) -> LinalgStructuredOperation:
        values = [self._moved(operand) for operand in self.operands]
        old = [*self.op.inputs, *self.op.outputs]
        if self.of_integers:
            product = self._product(values, self.op.outputs[0])
            Rewriter.replace_op(self.op, [], product.results)
        else:
            sizes = extents(self.op.outputs[0])
            product = self._product(values, self.code.fill(sizes, i32, 0))
            Rewriter.replace_op(self.op, [], [self._scaled(product.results[0])])
        for value in old:
            erase_dead(value)
        return product

    def _moved(self, operand: Dequantized) -> SSAValue:
        """Returns the stored integers after the operand's pads, transpositions and reshapes."""
        value = operand.op.inputs[operand.shift.input]
        for move in operand.moves:
            value = move(self.code, value)
        return value

    def _product(self, values: list[SSAValue], start: SSAValue) -> linalg.ops.GenericOp:
        """Writes `start` plus the sum of (qa - za) * (qb - zb), in 32 bits."""
        body = BodyCode()
        elements = [body.read(*read) for read in zip(values, self.maps, strict=False)]
        a, b = (self._difference(body, number, q) for number, q in enumerate(elements))
        product = arith.MuliOp(a, b)

        def add(total: SSAValue) -> SSAValue:
            return body.add(arith.AddiOp(total, body.add(product)))

        kinds = self.op.get_iterator_types()
        return body.write(self.code, start, self.out, add, kinds, self.op)

    def _difference(self, body: BodyCode, number: int, value: SSAValue) -> SSAValue:
        operand = self.operands[number]
        shift = operand.shift
        value = body.extend(value, i32, shift.signed)
        if shift.is_plain:
            return value
        if shift.number is not None:
            return body.add(arith.SubiOp(value, body.constant(shift.number, i32)))
        assert shift.zero is not None
        source, signed = without_extensions(shift.zero)
        assert isinstance(source, BlockArgument)
        zero = body.read(operand.op.inputs[source.index], self._map(number, source.index))
        kind = arith.AddiOp if shift.negated else arith.SubiOp
        return body.add(kind(value, body.extend(zero, i32, signed)))

    def _scaled(self, sums: SSAValue) -> SSAValue:
        """Writes the initial output plus the product of the scales and the sums."""
        element = tensor_type(self.op.results[0]).element_type
        identity = AffineMap.identity(tensor_type(self.op.results[0]).get_num_dims())
        body = BodyCode()
        total = body.read(sums, identity)
        factor: SSAValue | None = None
        for number, operand in enumerate(self.operands):
            if operand.scale is None:
                continue
            known: dict[SSAValue, SSAValue] = {}
            old = operand.op.body.block
            for aux in sorted(inputs_of(operand.scale, old)):
                map = own_map(self._map(number, aux), self.out)
                known[old.args[aux]] = body.read(operand.op.inputs[aux], map)
            known.setdefault(old.args[operand.shift.input], old.args[operand.shift.input])
            scale = clone_into(body.block, operand.scale, known)
            factor = scale if factor is None else body.add(arith.MulfOp(factor, scale))
        value = body.add(arith.SIToFPOp(total, element))  # pyright: ignore[reportArgumentType]
        if factor is not None:
            value = body.add(arith.MulfOp(value, factor))
        init = self.op.outputs[0]
        if not is_zero(init):
            value = body.add(arith.AddfOp(body.read(init, identity), value))
        empty = self.code.empty(extents(init), element)
        return body.write(self.code, empty, identity, lambda _: value).results[0]
