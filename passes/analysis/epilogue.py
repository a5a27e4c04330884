"""
Derives the elementwise part of a contraction's kernel from a dispatch or a collective.

For every value that takes part, the contraction's loops that walk its dimensions are known, so that
each element can be computed next to the accumulator of its place. In a dispatch a value is defined
by the operation that returns it, in a collective by the operation that writes its buffer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, linalg, tensor
from xdsl.dialects.builtin import MemRefType, TensorType, f32
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap
from xdsl.traits import IsTerminator

from xdsl_spirv.dialects.schedule import CollectiveOp, DispatchOp, PaddedViewOp, schedule_of
from xdsl_spirv.dialects.schedule.symbolic_sizes import Size
from xdsl_spirv.passes.analysis.linalg_code import maps_of, yields_of
from xdsl_spirv.passes.analysis.pointwise import (
    NotAContraction,
    compose_map,
    is_permutation,
    is_pointwise,
    loops_of,
)
from xdsl_spirv.passes.analysis.sizes import extents


class NotFused(NotAContraction):
    """The reason why an operation next to a contraction cannot be computed in its kernel."""


@dataclass(frozen=True)
class Placed:
    """A value, with the map from the contraction's loops to its dimensions."""

    value: SSAValue
    map: AffineMap

    @property
    def element_type(self) -> Attribute:
        type = self.value.type
        return type.element_type if isinstance(type, TensorType | MemRefType) else type

    @property
    def shape(self) -> tuple[Size, ...]:
        type = self.value.type
        return extents(self.value) if isinstance(type, TensorType | MemRefType) else ()


@dataclass(frozen=True)
class Epilogue:
    """
    The operations that a kernel applies to a contraction's result, `root`.

    `results` are stored and `operands` are read from memory; their types may differ from the
    root's. If nothing is applied, the root is the only result. `reductions` are sums over rows of a
    tensor in memory, which a kernel of few rows computes beside the products. Instead of results,
    other operations that read `source` may compute the stored values: see `column_readers`.

    If the root's last two dimensions are parts and columns, an element may be computed from the
    same column of several parts. Results then have no dimension of parts.
    """

    root: Placed
    results: tuple[Placed, ...]
    operands: tuple[Placed, ...] = ()
    reductions: tuple[Placed, ...] = ()
    source: Placed | None = None

    @property
    def is_empty(self) -> bool:
        """Whether the result is stored as the contraction leaves it."""
        return self.results == (self.root,)

    @property
    def parts(self) -> int:
        """Number of parts of the root: an element is computed from the same column of each part."""
        if len(self.results[0].map.results) == len(self.root.map.results):
            return 1
        parts = self.root.shape[-2]
        assert isinstance(parts, int)
        return parts

    def part_of(self, placed: Placed) -> int:
        """The number of the part of the root that is read."""
        part = placed.map.results[-2] if self.parts > 1 else None
        return part.value if isinstance(part, AffineConstantExpr) else 0


def definition(value: SSAValue) -> Operation | None:
    """The operation that computes a value of a dispatch or collective; None if from outside."""
    if isinstance(value, BlockArgument) and not isinstance(value.type, MemRefType):
        return None
    if not isinstance(value.type, MemRefType):
        return value.owner if isinstance(value.owner, Operation) else None
    if isinstance(value.owner, PaddedViewOp):
        return value.owner
    writer: Operation | None = None
    for use in value.uses:
        op = use.operation
        if not isinstance(op, LinalgStructuredOperation) or use.index < len(op.inputs):
            continue
        if writer is None or isinstance(writer, linalg.ops.FillOp | linalg.ops.CopyOp):
            writer = op
    return writer


def is_fused(op: Operation) -> bool:
    """Whether an operation is in a dispatch or collective, which one kernel computes."""
    return isinstance(op.parent_op(), DispatchOp | CollectiveOp)


def results_of(op: LinalgStructuredOperation) -> Sequence[SSAValue]:
    """The results of an operation: its tensors, or the buffers that it writes."""
    return op.results or op.outputs


def operand_of(placed: Placed, op: linalg.ops.GenericOp, number: int) -> Placed:
    """An input of the operation that makes a value; raises `NotFused` if its place is unknown."""
    *reads, write = (attribute.data for attribute in op.get_indexing_maps())
    dims = placed.map.num_dims
    map = compose_map(reads[number], loops_of(write, placed.map.results), dims)
    if map is None:
        raise NotFused(f"input {number} of a fused {op.name} is read along loops of its own")
    return Placed(op.inputs[number], map)


def prologue_of(value: SSAValue) -> list[linalg.ops.GenericOp]:
    """
    Returns the operations that compute a contraction's operand from memory, the last one first.

    Empty outside of a dispatch or collective.
    """
    prologue: list[linalg.ops.GenericOp] = []
    op = definition(value)
    while op is not None and is_fused(op):
        if isinstance(op, PaddedViewOp):
            value = op.memref
        elif isinstance(op, tensor.PadOp):
            value = op.source
        elif isinstance(op, linalg.ops.GenericOp) and _is_in_place(op):
            prologue.append(op)
            value = op.inputs[0]
        else:
            break
        op = definition(value)
    return prologue


def _is_in_place(op: linalg.ops.GenericOp) -> bool:
    """Whether each element is computed from the one in the same place of one other value."""
    maps = [attribute.data for attribute in op.get_indexing_maps()]
    return is_pointwise(op) and len(maps) == 2 and maps[0] == maps[1]


def epilogue_of(root: LinalgStructuredOperation, map: AffineMap) -> Epilogue:
    """
    Returns the operations that the dispatch or collective around a contraction applies to its
    result.

    `map` says which loops walk the result's dimensions. Raises `NotFused` for an operation that
    cannot be computed from the accumulators.
    """
    (result,) = results_of(root)
    placed = Placed(result, map)
    block = root.parent_block()
    if block is None or not isinstance(root.parent_op(), DispatchOp | CollectiveOp):
        return Epilogue(placed, (placed,))
    schedule = schedule_of(root)
    is_of_rows = schedule is not None and schedule.READS_COLUMNS
    chain = _chain(block, root, placed, is_of_rows)
    stored = [link for link in chain.values() if _is_stored(link.value, block)]
    source = _source(chain) if is_of_rows else None
    if not stored and source is None:
        raise NotFused("no result of the contraction leaves the kernel")
    if stored and source is not None:
        raise NotFused("the contraction's result is stored, and read by operations of the kernel")
    operands: dict[Placed, None] = {}
    reductions: dict[Placed, None] | None = {} if is_of_rows else None
    for link in stored if source is None else [source]:
        _collect(link, placed, operands, reductions)
    for read in [operand for operand in operands if operand.value is placed.value]:
        _check_read(read, placed, stored)
        del operands[read]
    ordered = sorted(stored, key=lambda link: _position(link.value, block))
    return Epilogue(placed, tuple(ordered), tuple(operands), tuple(reductions or ()), source)


def _chain(
    block: Block, root: LinalgStructuredOperation, placed: Placed, may_end: bool
) -> dict[SSAValue, Placed]:
    """
    Maps the result, and each value computed from it elementwise, to its placed form.

    Other operations may read these values only if `may_end` is set; otherwise raises `NotFused`.
    """
    chain = {placed.value: placed}
    schedule = schedule_of(root)
    in_fragments = schedule is not None and schedule.HAS_FRAGMENTS
    op = root.next_op
    while op is not None:
        if isinstance(op, linalg.ops.GenericOp) and any(v in chain for v in op.inputs):
            try:
                if not is_pointwise(op):
                    raise NotFused(
                        f"{op.name} on the contraction's result is not element by element"
                    )
                follower = _follow(op, chain, placed if in_fragments else None)
                chain[follower.value] = follower
            except NotFused:
                if not may_end:
                    raise
        op = op.next_op
    return chain


def _source(chain: dict[SSAValue, Placed]) -> Placed | None:
    """The value of the chain that other operations read, None if none is read by others."""
    ops = {definition(value) for value in chain}
    read = [
        link
        for value, link in chain.items()
        if any(
            _is_read(use.operation, use.index) and use.operation not in ops for use in value.uses
        )
    ]
    if len(read) > 1:
        raise NotFused("operations of the kernel read several results of the contraction")
    return read[0] if read else None


def _is_read(op: Operation, index: int) -> bool:
    """Whether an operation reads this operand; a value that leaves a dispatch is not read."""
    if isinstance(op, LinalgStructuredOperation):
        return index < len(op.inputs)
    return not op.has_trait(IsTerminator)


def _follow(
    op: linalg.ops.GenericOp, chain: dict[SSAValue, Placed], in_parts: Placed | None
) -> Placed:
    """Places the result of an operation that reads values of the chain, or a part of `in_parts`."""
    *reads, write = (attribute.data for attribute in op.get_indexing_maps())
    for value, read in zip(op.inputs, reads, strict=True):
        if value not in chain:
            continue
        part = in_parts is not None and value is in_parts.value and _is_of_part(read)
        if not is_permutation(read) and not part:
            raise NotFused(f"{op.name} does not read the contraction's result place by place")
        loops: list[AffineExpr | None] = loops_of(read, chain[value].map.results)
        map = compose_map(write, loops, chain[value].map.num_dims)
        if map is not None:
            return Placed(results_of(op)[0], map)
    raise NotFused(f"{op.name} does not compute its elements from the contraction's result")


def _is_of_part(map: AffineMap) -> bool:
    """True if a map reads one whole part: a constant number before the last dimension."""
    if not map.results:
        return False
    *outer, part, last = (None, *map.results)
    dims = [e.position for e in (*outer, last) if isinstance(e, AffineDimExpr)]
    whole = len(map.results) - 1 == len(dims) and sorted(dims) == list(range(map.num_dims))
    return isinstance(part, AffineConstantExpr) and whole


def _is_stored(value: SSAValue, block: Block) -> bool:
    if isinstance(value.type, MemRefType):
        return isinstance(value, BlockArgument)
    last = block.last_op
    return last is not None and value in last.operands


def _position(value: SSAValue, block: Block) -> int:
    if isinstance(value, BlockArgument):
        return value.index
    return list(yields_of(block)).index(value)


def row_sum_of(op: Operation | None) -> linalg.ops.GenericOp | None:
    """
    The operation, if it sums the last, contiguous dimension of a tensor in memory, else None.

        %s[i, j] = sum over k of f(%x[i, j, k])    in f32, from 0, of static sizes k
    """
    if not isinstance(op, linalg.ops.GenericOp) or (len(op.inputs), len(op.outputs)) != (1, 1):
        return None
    read, write = maps_of(op)
    rank = read.num_dims
    kinds = [kind == IteratorTypeAttr.parallel() for kind in op.get_iterator_types()]
    identity = AffineMap.identity(rank)
    if read != identity or write.results != identity.results[:-1] or not rank:
        return None
    (source,) = op.inputs
    assert isinstance(source.type, TensorType | MemRefType)
    total, carried = yields_of(op.body.block)[0], op.body.block.args[1]
    if kinds != [True] * (rank - 1) + [False] or definition(source) is not None:
        return None
    if source.type.get_shape()[-1] < 1 or source.type.element_type != f32 or carried.type != f32:
        return None
    if not isinstance(total.owner, arith.AddfOp) or len(list(carried.uses)) != 1:
        return None
    return op if carried in total.owner.operands else None


def _check_read(read: Placed, root: Placed, stored: Sequence[Placed]) -> None:
    """Raise `NotFused` if the root is read at another place than the stored element's."""
    if read.map == root.map:
        return
    *outer, part, last = (None, *read.map.results)
    *own, loop, own_last = (None, *root.map.results)
    elsewhere = (outer, last) != (own, own_last) or not isinstance(part, AffineConstantExpr)
    if elsewhere or any(loop in link.map.results for link in stored):
        raise NotFused("the contraction's result is read at two places for one element")


def _collect(
    placed: Placed,
    root: Placed,
    operands: dict[Placed, None],
    reductions: dict[Placed, None] | None,
) -> None:
    """Collect the operands of a value's computation, also the root and allowed row sums."""
    if placed.value is root.value:
        operands[placed] = None
        return
    op = definition(placed.value)
    match op:
        case None:
            if isinstance(placed.value.type, TensorType | MemRefType):
                operands[placed] = None
        case linalg.ops.FillOp() | tensor.SplatOp():
            pass
        case linalg.ops.GenericOp() if is_pointwise(op):
            for number in range(len(op.inputs)):
                _collect(operand_of(placed, op, number), root, operands, reductions)
        case linalg.ops.GenericOp() if reductions is not None and row_sum_of(op) is not None:
            reductions[placed] = None
        case _ if isinstance(placed.value.type, TensorType | MemRefType) and op.name not in (
            "arith.constant"
        ):
            raise NotFused(f"{op.name} cannot be computed element by element in the kernel")
        case _:
            pass
