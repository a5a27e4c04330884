"""
Moves the computation of a factor out of a contraction, to an elementwise operation before it.

    sum of extf(a) * (sitofp(b) * s)  ->  b' = sitofp(b) * s, elementwise; sum of extf(a) * b'

The elementwise operation computes the factor in equal types, once for each element instead of once
for each product, so no result changes. Its shape is that of the factor's input with the most
dimensions; other inputs (a scale of each channel, a scalar) are broadcast.
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
    Returns an operation whose two factors are inputs, possibly extended: the given one, or a
    replacement.

    Raises `NotAContraction`, and changes nothing, if the factors share an input or no input of a
    factor has all indices of the factor.
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
        raise NotAContraction(
            "the body computes a factor, but a contraction of buffers must multiply inputs"
        )
    if len(op.outputs) != 1:
        raise NotAContraction(f"the operation must have 1 output, not {len(op.outputs)}")
    x, y = factors
    for factor in factors:
        if not factor.inputs:
            raise NotAContraction("a factor does not depend on an input")
    if x.inputs & y.inputs:
        raise NotAContraction(f"both factors depend on input {min(x.inputs & y.inputs)}")
    unused = set(range(len(op.inputs))) - x.inputs - y.inputs
    if unused:
        raise NotAContraction(f"no factor depends on input {min(unused)}")


class _Prepared:
    """One factor of a contraction, as a separate input."""

    def __init__(self, op: LinalgStructuredOperation, factor: Factor, other: Factor):
        self.op = op
        self.factor = factor
        maps = maps_of(op)
        self.inputs = sorted(factor.inputs, key=lambda i: (-len(maps[i].results), i))
        main = self.inputs[0]
        self.map = maps[main]
        if not isinstance(op.inputs[main].type, TensorType):
            raise NotAContraction(f"input {main} of a factor must be a tensor, not a scalar")
        self.narrow = None if factor.is_pure else _narrow(factor, other)
        self.type = self.narrow or factor.source.type
        self.maps = [own_map(maps[i], self.map) for i in self.inputs]

    def build(self) -> SSAValue:
        """
        Returns the operand for the factor: an input, or a value that is computed before the
        contraction.
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
"""Largest width of the integers that each 16-bit float type represents exactly."""


def _narrow(factor: Factor, other: Factor) -> Attribute | None:
    """
    Returns the 16-bit float type to which an 8-bit integer factor converts exactly, else None.

    The type is that of the other factor, so that matrix units can multiply both.
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
    Returns `map` as a function of the dimensions of the tensor that `main` indexes. Both maps are
    functions of the same loops.

    Raises `NotAContraction` if `main` lacks an index of `map`.
    """
    rank = len(main.results)

    def dimension(expression: AffineExpr) -> AffineExpr:
        if isinstance(expression, AffineConstantExpr):
            return expression
        for position, result in enumerate(main.results):
            if result == expression:
                return AffineDimExpr(position)
        lacks = f"the main input of a factor lacks the index {expression} of another input"
        raise NotAContraction(lacks)

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
    Inserts an elementwise `linalg.generic` with the first input's shape before an operation.

    `maps` are over the dimensions of the first input. `body` needs an additional argument for the
    output.
    """
    main = tensor_type(inputs[0])
    if DYNAMIC_INDEX in main.get_shape():
        raise NotAContraction(f"an operand has the dynamic shape {main}: make it static")
    code = Code(before)
    empty = code.empty(main.get_shape(), type)
    maps = [*maps, AffineMap.identity(main.get_num_dims())]
    return code.insert(make_generic(inputs, empty, maps, body))
