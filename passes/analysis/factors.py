"""
Computes factors that are more than a plain input before the contraction, element by element.

    sum of extf(a) * (sitofp(b) * s)  ->  b' = sitofp(b) * s, elementwise; sum of extf(a) * b'

No value changes: the elementwise operation computes what the body did, in the same types, once for
each element instead of once for each product. It has the index space of the input with the most
dimensions; the others (a scale of each channel, a scalar) are broadcast over it.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, linalg
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    BFloat16Type,
    Float16Type,
    Float32Type,
    IntegerType,
    TensorType,
)
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap
from xdsl.rewriter import Rewriter

from xdsl_spirv.passes.analysis.linalg_code import (
    Code,
    make_generic,
    maps_of,
    product_body,
    tensor_type,
)
from xdsl_spirv.passes.analysis.pointwise import (
    Factor,
    NotAContraction,
    arguments_for,
    clone_into,
    factors_of,
)


def with_pure_factors(op: LinalgStructuredOperation) -> LinalgStructuredOperation:
    """
    Returns the operation, or a replacement whose factors are two inputs, at most extended.

    Raises `NotAContraction`, and changes nothing, if the factors share an input or an input has no
    index space of its own.
    """
    x, y = factors_of(op.body.block)
    if x.is_pure and y.is_pure and len(op.inputs) == 2:
        return op
    _check(op, (x, y))
    other = {id(x): y, id(y): x}
    prepared = [_Prepared(op, factor, other[id(factor)]) for factor in (x, y)]
    operands = [factor.build() for factor in prepared]
    types = [tensor_type(value).element_type for value in operands]
    body = product_body([*types, op.body.block.args[-1].type], (x.signed, y.signed))
    maps = [*(factor.map for factor in prepared), maps_of(op)[-1]]
    generic = make_generic(operands, op.outputs, maps, body, op.get_iterator_types(), op)
    Rewriter.replace_op(op, generic)
    return generic


def _check(op: LinalgStructuredOperation, factors: tuple[Factor, Factor]) -> None:
    if not all(isinstance(value.type, TensorType) for value in op.outputs):
        raise NotAContraction("a factor is more than an input, and there is no tensor to put it in")
    if len(op.outputs) != 1:
        raise NotAContraction(f"it has {len(op.outputs)} outputs, not 1")
    x, y = factors
    for factor in factors:
        if not factor.inputs:
            raise NotAContraction("a factor reads no input")
    if x.inputs & y.inputs:
        raise NotAContraction(f"input {min(x.inputs & y.inputs)} is in both factors")
    unused = set(range(len(op.inputs))) - x.inputs - y.inputs
    if unused:
        raise NotAContraction(f"input {min(unused)} is in neither factor")


class _Prepared:
    """One factor of a contraction, as an input of its own."""

    def __init__(self, op: LinalgStructuredOperation, factor: Factor, other: Factor):
        self.op = op
        self.factor = factor
        maps = maps_of(op)
        self.inputs = sorted(factor.inputs, key=lambda i: (-len(maps[i].results), i))
        main = self.inputs[0]
        self.map = maps[main]
        if not isinstance(op.inputs[main].type, TensorType):
            raise NotAContraction(f"input {main} is a scalar")
        self.narrow = None if factor.is_pure else _narrow(factor, other)
        self.type = self.narrow or factor.source.type
        self.maps = [own_map(maps[i], self.map) for i in self.inputs]

    def build(self) -> SSAValue:
        """
        Returns the operand: the input itself, or a value that is computed before the operation.
        """
        main = self.op.inputs[self.inputs[0]]
        if self.factor.is_pure:
            return main
        inputs = [self.op.inputs[i] for i in self.inputs]
        old = self.op.body.block
        block = Block(arg_types=[*(old.args[i].type for i in self.inputs), self.type])
        if self.narrow is None:
            value = clone_into(block, self.factor.source, arguments_for(old, block, self.inputs))
        else:
            cast = self.factor.source.owner
            assert isinstance(cast, Operation)
            narrow_cast = type(cast).create(operands=[block.args[0]], result_types=[self.narrow])
            block.add_op(narrow_cast)
            value = narrow_cast.results[0]
        block.add_op(linalg.ops.YieldOp(value))
        result = elementwise(inputs, self.maps, block, self.type, self.op)
        result.name_hint = main.name_hint
        return result


_HALVES: dict[type[Attribute], int] = {Float16Type: 11, BFloat16Type: 8}
"""Bits of the integers that a 16-bit float always holds exactly."""


def _narrow(factor: Factor, other: Factor) -> Attribute | None:
    """
    The 16-bit float type to which an 8-bit integer factor is converted exactly, else None.

    It is the other factor's type, so matrix units can multiply both.
    """
    owner = factor.source.owner
    if not isinstance(owner, arith.SIToFPOp | arith.UIToFPOp):
        return None
    argument, half_type = owner.operands[0], other.source.type
    number, digits = argument.type, _HALVES.get(type(half_type))
    if digits is None or not isinstance(factor.value.type, Float32Type) or not other.is_pure:
        return None
    if argument.owner is not owner.parent or not isinstance(number, IntegerType):
        return None
    return half_type if number.width.data <= 8 and number.width.data <= digits else None


def own_map(map: AffineMap, main: AffineMap) -> AffineMap:
    """
    Rewrites `map` from loops to the dimensions of the tensor that `main` indexes.

    Raises `NotAContraction` if `main` lacks an index of `map`.
    """
    rank = len(main.results)

    def dimension(expression: AffineExpr) -> AffineExpr:
        if isinstance(expression, AffineConstantExpr):
            return expression
        for position, result in enumerate(main.results):
            if result == expression:
                return AffineDimExpr(position)
        raise NotAContraction(f"a factor's input is indexed by {expression}, another's is not")

    if map == main:
        return AffineMap.identity(rank)
    return AffineMap(rank, 0, tuple(dimension(expression) for expression in map.results))


def elementwise(
    inputs: Sequence[SSAValue],
    maps: Sequence[AffineMap],
    body: Block,
    type: Attribute,
    before: Operation,
) -> SSAValue:
    """
    Inserts an all-parallel `linalg.generic` before an operation, of the shape of the first input.

    `maps` are over that input's dimensions; `body` takes one more argument, the output.
    """
    main = tensor_type(inputs[0])
    if DYNAMIC_INDEX in main.get_shape():
        raise NotAContraction(f"an operand has the dynamic shape {main}: make it static")
    code = Code(before)
    empty = code.empty(main.get_shape(), type)
    maps = [*maps, AffineMap.identity(main.get_num_dims())]
    return code.insert(make_generic(inputs, empty, maps, body))
