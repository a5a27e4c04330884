"""
Analyses and generalizes the bodies of operations on tensors.

A contraction's body is the accumulator plus a product of two factors. A factor is a value that is
computed from inputs before the multiplication. A factor that only extends an input to the result's
type belongs to the contraction; any other factor (a conversion that is not an extension, a zero
point, a scale) is an elementwise operation.

Only elementwise operations are fused with other operations. They have one form: their loops are
the result's dimensions, in any order, and index maps select the operands' elements. Named
operations, broadcasts, transpositions and reductions are converted to a `linalg.generic`. An
output that the body reads becomes an additional input.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, linalg, math, tensor
from xdsl.dialects.builtin import TensorType
from xdsl.dialects.linalg.abstract_ops import ElementwiseOperation, LinalgStructuredOperation
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, Region, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap
from xdsl.rewriter import Rewriter
from xdsl.utils.hints import isa

from xdsl_spirv.passes.analysis.linalg_code import (
    Code,
    make_generic,
    maps_of,
    tensor_type,
    yields_of,
)

SCALAR_DIALECTS = (arith.Arith.name, math.Math.name)


def generalize(op: Operation) -> linalg.ops.GenericOp | None:
    """
    Replaces an operation by an equal `linalg.generic`; returns None if it has no such form.

    Contractions, poolings and fills are not replaced; the broadcast of a scalar becomes a fill.
    """
    match op:
        case linalg.ops.GenericOp() if (scalar := _spread_scalar(op)) is not None:
            fill = linalg.ops.FillOp([scalar], op.outputs, [op.results[0].type])
            Rewriter.replace_op(op, fill)
            return None
        case linalg.ops.GenericOp():
            generic = op
        case ElementwiseOperation() | linalg.ops.TransposeOp():
            generic = as_generic(op)
        case linalg.ops.BroadcastOp():
            generic = _broadcast(op)
        case linalg.ops.ReduceOp():
            generic = _reduction(op)
        case _:
            return None
    return _without_output(generic)


def _spread_scalar(op: linalg.ops.GenericOp) -> SSAValue | None:
    """Returns the scalar that fills the only result of an operation, else None."""
    if len(op.results) != 1 or not is_pointwise(op) or not moves_only(op):
        return None
    value = yields_of(op.body.block)[0]
    if isinstance(value, BlockArgument) and value.block is op.body.block:
        value = op.inputs[value.index]
    return None if isinstance(value.type, TensorType) else value


def as_generic(op: LinalgStructuredOperation) -> linalg.ops.GenericOp:
    """Replaces a named operation by an equal generic."""
    return _generic(op, op.inputs, op.outputs, op.body, maps_of(op), op.get_iterator_types())


def _generic(
    op: Operation,
    inputs: Sequence[SSAValue],
    outputs: Sequence[SSAValue],
    body: Region,
    maps: Sequence[AffineMap],
    kinds: Iterable[IteratorTypeAttr] | None = None,
) -> linalg.ops.GenericOp:
    generic = make_generic(inputs, outputs, maps, body.clone(), kinds)
    generic.location = op.location
    Rewriter.replace_op(op, generic)
    return generic


def _selection(rank: int, dropped: Sequence[int]) -> AffineMap:
    """Returns the map that selects all of `rank` loops but the dropped ones."""
    return AffineMap(rank, 0, tuple(AffineDimExpr(n) for n in range(rank) if n not in dropped))


def _broadcast(op: linalg.ops.BroadcastOp) -> linalg.ops.GenericOp:
    rank = tensor_type(op.init).get_num_dims()
    maps = [_selection(rank, op.dimensions.get_values()), AffineMap.identity(rank)]
    return _generic(op, [op.input], [op.init], op.hidden_region, maps)


def _reduction(op: linalg.ops.ReduceOp) -> linalg.ops.GenericOp | None:
    if not isa(op.input.type, TensorType):
        return None
    rank = op.input.type.get_num_dims()
    maps = [AffineMap.identity(rank), _selection(rank, op.dimensions.get_values())]
    return _generic(op, [op.input], [op.init], op.region, maps)


def _without_output(op: linalg.ops.GenericOp | None) -> linalg.ops.GenericOp | None:
    """
    Returns an elementwise operation with an empty tensor as output.

    If the body reads the old output, the output becomes an input.
    """
    if op is None or not _is_parallel(op) or len(op.outputs) != 1:
        return op
    block, output = op.body.block, op.outputs[0]
    if not isa(output.type, TensorType):
        return op
    if block.args[-1].first_use is None:
        if isinstance(output.owner, Operation) and not isinstance(output.owner, tensor.EmptyOp):
            op.operands[len(op.inputs)] = Code(op).empty_like(output)
        return op
    maps = maps_of(op)
    body = op.body.clone()
    inner = body.block
    new = inner.insert_arg(inner.args[-1].type, len(op.inputs))
    inner.args[-1].replace_all_uses_with(new)
    inputs, outputs = [*op.inputs, output], [Code(op).empty_like(output)]
    return _generic(op, inputs, outputs, body, [*maps, maps[-1]], op.get_iterator_types())


def _is_parallel(op: LinalgStructuredOperation) -> bool:
    return all(kind == IteratorTypeAttr.parallel() for kind in op.get_iterator_types())


def is_permutation(map: AffineMap) -> bool:
    """True if the map's results are its dimensions, each once."""
    positions = [e.position for e in map.results if isinstance(e, AffineDimExpr)]
    return len(positions) == len(map.results) and sorted(positions) == list(range(map.num_dims))


def is_pointwise(op: Operation, asks_place: bool = False) -> bool:
    """
    True if an operation computes each element of one result from scalars at mapped indices.

    The body contains only arithmetic; with `asks_place` it may also read its loop indices.
    """
    if not isinstance(op, linalg.ops.GenericOp) or len(op.outputs) != 1:
        return False
    *reads, write = maps_of(op)
    if not _is_parallel(op) or not is_permutation(write):
        return False
    if op.body.block.args[-1].first_use is not None:
        return False
    plain = (AffineDimExpr, AffineConstantExpr)
    if not all(isinstance(e, plain) for map in reads for e in map.results):
        return False
    if not all(is_plain(value.type) for value in op.operands):
        return False
    return all(
        _is_scalar(body_op) or (asks_place and isinstance(body_op, linalg.ops.IndexOp))
        for body_op in op.body.block.ops
    )


def is_plain(type: Attribute) -> bool:
    """True for a scalar, and for a tensor without a dimension of size 0."""
    return 0 not in (type.get_shape() if isinstance(type, TensorType) else ())


def _is_scalar(op: Operation) -> bool:
    if isinstance(op, linalg.ops.YieldOp):
        return True
    return op.name.split(".")[0] in SCALAR_DIALECTS and not op.regions


def moves_only(op: linalg.ops.GenericOp) -> bool:
    """True if an elementwise body yields an input unchanged: a broadcast or a transposition."""
    return isinstance(op.body.block.first_op, linalg.ops.YieldOp)


def compose_map(map: AffineMap, loops: Sequence[AffineExpr | None], dims: int) -> AffineMap | None:
    """
    Composes a map with expressions for its loops. Returns None if the map needs a loop without an
    expression.
    """
    used = {
        e.position
        for expression in map.results
        for e in expression.dfs()
        if isinstance(e, AffineDimExpr)
    }
    if any(loops[position] is None for position in used):
        return None
    known = [AffineConstantExpr(0) if expression is None else expression for expression in loops]
    return map.replace_dims_and_symbols(known, [], dims, 0)


def loops_of(map: AffineMap, dimensions: Sequence[AffineExpr | None]) -> list[AffineExpr | None]:
    """
    Returns, for each loop of `map`, the expression in `dimensions` that it indexes. Returns None
    for a loop that indexes no dimension.
    """
    loops: list[AffineExpr | None] = [None] * map.num_dims
    for expression, dimension in zip(map.results, dimensions, strict=True):
        if isinstance(expression, AffineDimExpr):
            loops[expression.position] = dimension
    return loops


def body_ops(block: Block) -> list[Operation]:
    """Lists the operations of a body without its terminator."""
    return [op for op in block.ops if not isinstance(op, linalg.ops.YieldOp)]


class NotAContraction(ValueError):
    """Raised if an operation is not a contraction that can be lowered."""


@dataclass(frozen=True)
class Factor:
    """
    A factor of the product: `value`, computed from the block arguments `inputs`.

    `source` is `value` without sign or zero extensions; `signed` is True for sign extensions.
    """

    value: SSAValue
    source: SSAValue
    signed: bool
    inputs: frozenset[int]

    @property
    def is_pure(self) -> bool:
        """True if the factor is an input, possibly extended."""
        return isinstance(self.source, BlockArgument)


def factors_of(block: Block) -> tuple[Factor, Factor]:
    """
    Returns the two factors of `accumulator + x * y` (operands in any order), or of an fma.

    Raises `NotAContraction` for other bodies, and for factors that depend on the accumulator or on
    indices.
    """
    last = block.last_op
    if not isinstance(last, linalg.ops.YieldOp) or len(last.operands) != 1:
        raise NotAContraction("the body does not yield exactly one value")
    x, y = _product(last.operands[0], block.args[-1])
    first, second = (_factor(value, block) for value in (x, y))
    return first, second


def _product(total: SSAValue, accumulator: SSAValue) -> tuple[SSAValue, SSAValue]:
    match total.owner:
        case math.FmaOp() as fma if fma.c is accumulator:
            return fma.a, fma.b
        case arith.AddfOp() | arith.AddiOp() as add if accumulator in add.operands:
            lhs, rhs = add.operands
            product = (rhs if lhs is accumulator else lhs).owner
            if isinstance(product, arith.MulfOp | arith.MuliOp):
                return product.lhs, product.rhs
        case _:
            pass
    raise NotAContraction("the body is not a product that is added to the output")


def _factor(value: SSAValue, block: Block) -> Factor:
    source, signed = without_extensions(value)
    return Factor(value, source, signed, frozenset(inputs_of(value, block)))


def without_extensions(value: SSAValue) -> tuple[SSAValue, bool]:
    """Strips successive extensions; returns the value, and True unless they are zero extensions."""
    kind: type[Operation] | None = None
    while isinstance(value, OpResult):
        op = value.op
        match op:
            case arith.ExtFOp():
                kind = arith.ExtFOp
            # A zero-extended number is never negative: a later sign extension adds zeros.
            case arith.ExtUIOp() if kind in (None, arith.ExtSIOp, arith.ExtUIOp):
                kind = arith.ExtUIOp
            case arith.ExtSIOp() if kind in (None, arith.ExtSIOp):
                kind = arith.ExtSIOp
            case _:
                break
        value = op.operands[0]
    return value, kind is not arith.ExtUIOp


def inputs_of(value: SSAValue, block: Block) -> set[int]:
    """
    Returns the indices of the block arguments on which the value depends.

    Raises `NotAContraction` if the value depends on the accumulator or on indices.
    """
    if isinstance(value, BlockArgument):
        if value.owner is not block:
            return set()
        if value.index == len(block.args) - 1:
            raise NotAContraction("a factor is computed from the output")
        return {value.index}
    owner = value.owner
    if not isinstance(owner, Operation) or owner.parent is not block:
        return set()
    if isinstance(owner, linalg.ops.IndexOp) or owner.regions:
        raise NotAContraction(f"a factor is computed by {owner.name}, not from inputs only")
    return set[int]().union(*(inputs_of(operand, block) for operand in owner.operands))


def clone_into(block: Block, value: SSAValue, known: dict[SSAValue, SSAValue]) -> SSAValue:
    """
    Clones the computation of a value to the end of `block`, with the replacements in `known`.

    Values from outside of the old body are not cloned.
    """
    if value in known:
        return known[value]
    if not isinstance(value, OpResult) or not _is_inside(value.op, known):
        return value
    operands = [clone_into(block, operand, known) for operand in value.op.operands]
    clone = value.op.clone(dict(zip(value.op.operands, operands, strict=True)))
    block.add_op(clone)
    known.update(zip(value.op.results, clone.results, strict=True))
    return known[value]


def _is_inside(op: Operation, known: dict[SSAValue, SSAValue]) -> bool:
    """True if the operation is in the body whose arguments `known` replaces."""
    return any(isinstance(value, BlockArgument) and value.owner is op.parent for value in known)


def arguments_for(block: Block, new: Block, inputs: Sequence[int]) -> dict[SSAValue, SSAValue]:
    """Maps the arguments `inputs` of `block` to the first arguments of `new`, for `clone_into`."""
    return {block.args[number]: new.args[at] for at, number in enumerate(inputs)}
