"""
What a contraction is: a multiply-add whose loops sort into batch, M, N and K by the index maps.

An operation is recognised by what it computes, not by its name: `linalg.matmul`, its transposed and
mixed-precision forms, and every `linalg.generic` equal to one of them are the same contraction. One
with batch dimensions, several dimensions of a kind, or index expressions other than a loop's own is
not taken yet, and the reason says so.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith, linalg
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AffineMapAttr,
    ArrayAttr,
    BFloat16Type,
    Float16Type,
    Float32Type,
    IntegerType,
    MemRefType,
    TensorType,
)
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap


class NotAContraction(ValueError):
    """Why an operation is not a contraction that the lowering takes."""


FLOAT_NAMES: dict[type[Attribute], str] = {
    Float16Type: "f16",
    Float32Type: "f32",
    BFloat16Type: "bf16",
}


def type_name(element_type: Attribute, signed: bool) -> str:
    """An element type as a target's property list spells it."""
    if isinstance(element_type, IntegerType):
        return f"{'s' if signed else 'u'}{element_type.width.data}"
    return FLOAT_NAMES.get(type(element_type), str(element_type))


@dataclass(frozen=True)
class Contraction:
    """
    result (M x N) = a (M x K) * b (K x N) + init, element type by element type.

    `a_transposed` says that A is stored K x M, `b_transposed` that B is stored N x K. `types` are
    the names of A's, B's and the result's element types as in a target's property list.
    """

    op: LinalgStructuredOperation
    a: SSAValue
    b: SSAValue
    init: SSAValue
    m: int
    n: int
    k: int
    a_transposed: bool
    b_transposed: bool
    types: tuple[str, str, str]

    @property
    def element_types(self) -> tuple[Attribute, Attribute, Attribute]:
        a, b, init = (element_type(value) for value in (self.a, self.b, self.init))
        return a, b, init

    def __str__(self) -> str:
        a, b, result = self.types
        return f"{self.m}x{self.n}x{self.k} {a} x {b} -> {result}"


def element_type(value: SSAValue) -> Attribute:
    shaped = value.type
    if not isinstance(shaped, TensorType | MemRefType):
        raise NotAContraction(f"an operand is a {shaped}, not a tensor or memref")
    return shaped.element_type


@dataclass(frozen=True)
class _Body:
    """The multiply-add: which of the two inputs are extended as signed numbers."""

    signed: tuple[bool, bool]


_EXTENSIONS = (arith.ExtFOp, arith.ExtSIOp, arith.ExtUIOp)


def _sides(value: SSAValue, kinds: tuple[type[Operation], ...]) -> tuple[SSAValue, SSAValue] | None:
    owner = value.owner
    if isinstance(owner, kinds):
        return owner.operands[0], owner.operands[1]
    return None


def _source(value: SSAValue) -> tuple[SSAValue, bool]:
    """The value under an extension, and whether it is taken as signed."""
    if isinstance(value, OpResult) and isinstance(value.op, _EXTENSIONS):
        return value.op.operands[0], not isinstance(value.op, arith.ExtUIOp)
    return value, True


def _match_body(block: Block) -> _Body:
    """acc + ext(x) * ext(y), the operands of both in any order, and nothing else."""
    x, y, accumulator = block.args
    last = block.last_op
    assert last is not None
    reason = NotAContraction(
        "the body is not a multiply-add of the two inputs (each possibly extended) onto the output"
    )
    if not isinstance(last, linalg.ops.YieldOp) or len(last.operands) != 1:
        raise reason
    terms = _sides(last.operands[0], (arith.AddfOp, arith.AddiOp))
    if terms is None or accumulator not in terms:
        raise reason
    product = terms[1] if terms[0] is accumulator else terms[0]
    factors = _sides(product, (arith.MulfOp, arith.MuliOp))
    if factors is None:
        raise reason
    sources = {id(source): signed for source, signed in map(_source, factors)}
    if set(sources) != {id(x), id(y)}:
        raise reason
    return _Body((sources[id(x)], sources[id(y)]))


def _dimensions(map: AffineMap) -> list[int]:
    if not all(isinstance(e, AffineDimExpr) for e in map.results):
        raise NotAContraction(f"index map {map} is not made of loop dimensions alone")
    return [e.position for e in map.results if isinstance(e, AffineDimExpr)]


def _single(kind: str, dimensions: list[int]) -> int:
    if len(dimensions) != 1:
        raise NotAContraction(
            f"it has {len(dimensions)} {kind} dimensions; exactly one is supported: "
            "collapse or split the operands' dimensions first"
        )
    return dimensions[0]


def contraction_of(op: LinalgStructuredOperation) -> Contraction:
    """The contraction that the operation computes; raises `NotAContraction` with the reason."""
    if len(op.inputs) != 2 or len(op.outputs) != 1:
        raise NotAContraction(
            f"it has {len(op.inputs)} inputs and {len(op.outputs)} outputs, not 2 and 1"
        )
    maps = [attr.data for attr in op.get_indexing_maps()]
    body = _match_body(op.body.block)
    x, y, out = (_dimensions(m) for m in maps)
    batch = [d for d in out if d in x and d in y]
    if batch:
        raise NotAContraction(f"it has {len(batch)} batch dimensions; none is supported yet")
    reduced = [d for d in range(maps[0].num_dims) if d not in out]
    k = _single("K", [d for d in reduced if d in x and d in y])
    _single("reduction", reduced)
    # A is the operand whose rows are the result's rows, whatever the order of the inputs.
    swapped = bool(out) and out[0] in y
    a, b = (y, x) if swapped else (x, y)
    m = _single("M", [d for d in out if d in a])
    n = _single("N", [d for d in out if d in b])
    if len(a) != 2 or len(b) != 2 or out != [m, n]:
        raise NotAContraction(
            f"index maps {', '.join(str(map) for map in maps)} are not a matmul's"
        )
    values = (op.inputs[1], op.inputs[0]) if swapped else (op.inputs[0], op.inputs[1])
    signed = body.signed[::-1] if swapped else body.signed
    types = (
        type_name(element_type(values[0]), signed[0]),
        type_name(element_type(values[1]), signed[1]),
        type_name(element_type(op.outputs[0]), all(signed)),
    )
    sizes = _sizes(op, values[0], values[1])
    a_transposed, b_transposed = a[0] == k, b[1] == k
    return Contraction(
        op,
        *values,
        op.outputs[0],
        m=sizes[0][1 if a_transposed else 0],
        n=sizes[1][0 if b_transposed else 1],
        k=sizes[0][0 if a_transposed else 1],
        a_transposed=a_transposed,
        b_transposed=b_transposed,
        types=types,
    )


def _sizes(op: Operation, *values: SSAValue) -> list[tuple[int, ...]]:
    sizes: list[tuple[int, ...]] = []
    for value in values:
        shaped = value.type
        assert isinstance(shaped, TensorType | MemRefType)
        shape = shaped.get_shape()
        if DYNAMIC_INDEX in shape:
            raise NotAContraction(f"an operand has the dynamic shape {shaped}: make it static")
        if 0 in shape:
            raise NotAContraction(f"an operand has the empty shape {shaped}")
        sizes.append(shape)
    return sizes


def _canonical_maps(contraction: Contraction) -> ArrayAttr[AffineMapAttr]:
    m, n, k = (AffineDimExpr(i) for i in range(3))
    a = (k, m) if contraction.a_transposed else (m, k)
    b = (n, k) if contraction.b_transposed else (k, n)
    return ArrayAttr(AffineMapAttr(AffineMap(3, 0, results)) for results in (a, b, (m, n)))


_ITERATORS = ArrayAttr(
    [IteratorTypeAttr.parallel(), IteratorTypeAttr.parallel(), IteratorTypeAttr.reduction()]
)


def _canonical_body(contraction: Contraction) -> Region:
    types = contraction.element_types
    result = types[2]
    block = Block(arg_types=types)
    a = _extend(block, block.args[0], contraction.types[0], result)
    b = _extend(block, block.args[1], contraction.types[1], result)
    floating = not isinstance(result, IntegerType)
    product = (arith.MulfOp if floating else arith.MuliOp)(a, b)
    total = (arith.AddfOp if floating else arith.AddiOp)(block.args[2], product)
    block.add_ops([product, total, linalg.ops.YieldOp(total)])
    return Region(block)


def _extend(block: Block, arg: BlockArgument, name: str, result: Attribute) -> SSAValue:
    if arg.type == result:
        return arg
    if isinstance(result, IntegerType):
        extension = (arith.ExtSIOp if name.startswith("s") else arith.ExtUIOp)(arg, result)
    else:
        extension = arith.ExtFOp(arg, result)  # pyright: ignore[reportArgumentType]
    block.add_op(extension)
    return extension.results[0]


def canonical_form(
    contraction: Contraction, a: SSAValue, b: SSAValue, init: SSAValue
) -> linalg.ops.GenericOp:
    """
    The one form of a contraction, on the given operands (tensors or memrefs).

    Loops in the order M, N, K; A before B; body `init + ext(a) * ext(b)`.
    """
    return linalg.ops.GenericOp(
        [a, b],
        [init],
        _canonical_body(contraction),
        _canonical_maps(contraction),
        _ITERATORS,
        [init.type] if isinstance(init.type, TensorType) else [],
    )
