"""
Derives the elementwise operations that a contraction's kernel also computes.

Index maps relate each value to the contraction's loops, so that each element can be computed from
the accumulator at the same position. In a dispatch, a value is defined by the operation that
returns it; in a collective, by the operation that writes its buffer.
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

from xdsl_spirv.dialects.schedule import (
    CollectiveOp,
    DispatchOp,
    PaddedViewOp,
    schedule_of,
    shaped_of,
)
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
    """
    Raised if an operation beside a contraction cannot be computed in the contraction's kernel.
    """


@dataclass(frozen=True)
class Placed:
    """A value, and the map from the contraction's loops to the value's dimensions."""

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

    `results` are stored, `operands` are read from memory; their types may differ from the root's.
    Without operations, the root is the only result. `reductions` are sums over rows of a tensor in
    memory; a kernel of few rows computes them together with the products. If `source` is set,
    `results` is empty: operations that read `source` compute the stored values (see
    `column_readers`).

    The root's rows may be divided into parts: its second to last dimension counts the parts, and
    its last dimension the columns of a part. A result's element may then depend on one column of
    several parts, and the results lack the dimension of the parts.
    """

    root: Placed
    results: tuple[Placed, ...]
    operands: tuple[Placed, ...] = ()
    reductions: tuple[Placed, ...] = ()
    source: Placed | None = None

    @property
    def is_empty(self) -> bool:
        """True if the contraction's result is stored unchanged."""
        return self.results == (self.root,)

    @property
    def parts(self) -> int:
        """
        Number of parts into which the root's rows are divided (see `Epilogue`). It is 1 if the
        results have all dimensions of the root.
        """
        if len(self.results[0].map.results) == len(self.root.map.results):
            return 1
        parts = self.root.shape[-2]
        assert isinstance(parts, int)
        return parts

    def part_of(self, placed: Placed) -> int:
        """Returns the index of the part of the root that `placed` reads (see `Epilogue.parts`)."""
        part = placed.map.results[-2] if self.parts > 1 else None
        return part.value if isinstance(part, AffineConstantExpr) else 0


def definition(value: SSAValue) -> Operation | None:
    """
    Returns the operation that computes a value of a dispatch or collective; None if there is none.
    """
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
    """True if an operation is in a dispatch or collective, which one kernel computes."""
    return isinstance(op.parent_op(), DispatchOp | CollectiveOp)


def results_of(op: LinalgStructuredOperation) -> Sequence[SSAValue]:
    """Returns the results of an operation: its tensors, or the buffers that it writes."""
    return op.results or op.outputs


def operand_of(placed: Placed, op: linalg.ops.GenericOp, number: int) -> Placed:
    """
    Returns an input of the operation that defines `placed`, with its map.

    Raises `NotFused` if loops of the operation do not index its result.
    """
    *reads, write = (attribute.data for attribute in op.get_indexing_maps())
    dims = placed.map.num_dims
    map = compose_map(reads[number], loops_of(write, placed.map.results), dims)
    if map is None:
        raise NotFused(
            f"input {number} of a fused {op.name} depends on loops that do not index its result"
        )
    return Placed(op.inputs[number], map)


def prologue_of(value: SSAValue) -> list[linalg.ops.GenericOp]:
    """
    Returns the elementwise operations between a contraction's operand and memory, the last one
    first.

    Returns [] outside of a dispatch or collective.
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
    """True if each element depends only on the element at the same indices of one operand."""
    maps = [attribute.data for attribute in op.get_indexing_maps()]
    return is_pointwise(op) and len(maps) == 2 and maps[0] == maps[1]


def epilogue_of(root: LinalgStructuredOperation, map: AffineMap) -> Epilogue:
    """
    Returns the operations that the surrounding dispatch or collective applies to a contraction's
    result.

    `map` maps loops to the result's dimensions. Raises `NotFused` for an operation that cannot be
    computed from the accumulators.
    """
    (result,) = results_of(root)
    placed = Placed(result, map)
    block = root.parent_block()
    if block is None or not isinstance(root.parent_op(), DispatchOp | CollectiveOp):
        return Epilogue(placed, (placed,))
    schedule = schedule_of(root)
    is_of_rows = schedule is not None and schedule.FUSES_ROWS
    chain = _chain(block, root, placed, is_of_rows)
    stored = [link for link in chain.values() if _is_stored(link.value, block)]
    source = _source(chain) if is_of_rows else None
    if not stored and source is None:
        raise NotFused("the kernel stores no value that depends on the contraction's result")
    if stored and source is not None:
        raise NotFused(
            "the contraction's result is both stored and read by other operations of the kernel"
        )
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
    Returns the contraction's result and each value computed from it elementwise, with their maps.

    If another operation reads these values, raises `NotFused`, unless `may_end` is set.
    """
    chain = {placed.value: placed}
    schedule = schedule_of(root)
    in_fragments = schedule is not None and schedule.HAS_FRAGMENTS
    op = root.next_op
    while op is not None:
        if isinstance(op, linalg.ops.GenericOp) and any(v in chain for v in op.inputs):
            try:
                if not is_pointwise(op):
                    raise NotFused(f"{op.name} on the contraction's result is not elementwise")
                follower = _follow(op, chain, placed if in_fragments else None)
                chain[follower.value] = follower
            except NotFused:
                if not may_end:
                    raise
        op = op.next_op
    return chain


def _source(chain: dict[SSAValue, Placed]) -> Placed | None:
    """
    Returns the value of `chain` that an operation outside of the chain reads. Returns None if there
    is no such value.
    """
    ops = {definition(value) for value in chain}
    read = [
        link
        for value, link in chain.items()
        if any(
            _is_read(use.operation, use.index) and use.operation not in ops for use in value.uses
        )
    ]
    if len(read) > 1:
        raise NotFused(
            "operations of the kernel read several values computed from the contraction's result"
        )
    return read[0] if read else None


def _is_read(op: Operation, index: int) -> bool:
    """True if an operation reads this operand. A terminator does not count as a reader."""
    if isinstance(op, LinalgStructuredOperation):
        return index < len(op.inputs)
    return not op.has_trait(IsTerminator)


def _follow(
    op: linalg.ops.GenericOp, chain: dict[SSAValue, Placed], in_parts: Placed | None
) -> Placed:
    """
    Returns the result of an operation that reads a value of `chain`, with its map from the
    contraction's loops.

    The operation may also read a single part of the value `in_parts` (see `Epilogue`).
    """
    *reads, write = (attribute.data for attribute in op.get_indexing_maps())
    for value, read in zip(op.inputs, reads, strict=True):
        if value not in chain:
            continue
        part = in_parts is not None and value is in_parts.value and _is_of_part(read)
        if not is_permutation(read) and not part:
            raise NotFused(
                f"the index map with which {op.name} reads the contraction's result is not a "
                "permutation"
            )
        loops: list[AffineExpr | None] = loops_of(read, chain[value].map.results)
        map = compose_map(write, loops, chain[value].map.num_dims)
        if map is not None:
            return Placed(results_of(op)[0], map)
    raise NotFused(f"the contraction's result does not determine the indices of {op.name}")


def _is_of_part(map: AffineMap) -> bool:
    """
    True if a map reads one part completely: it has a constant index before the last dimension, and
    loops for all others.
    """
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
    Returns the operation if it sums the last, contiguous dimension of a tensor in memory, else
    None.

        %s[i, j] = sum over k of f(%x[i, j, k])    in f32, from 0, with a static number of k
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
    type = shaped_of(source)
    total, carried = yields_of(op.body.block)[0], op.body.block.args[1]
    if kinds != [True] * (rank - 1) + [False] or definition(source) is not None:
        return None
    if type.get_shape()[-1] < 1 or type.element_type != f32 or carried.type != f32:
        return None
    if not isinstance(total.owner, arith.AddfOp) or len(list(carried.uses)) != 1:
        return None
    return op if carried in total.owner.operands else None


def _check_read(read: Placed, root: Placed, stored: Sequence[Placed]) -> None:
    """
    Raises `NotFused` if the contraction's result is not read at the stored element's position.
    """
    if read.map == root.map:
        return
    *outer, part, last = (None, *read.map.results)
    *own, loop, own_last = (None, *root.map.results)
    elsewhere = (outer, last) != (own, own_last) or not isinstance(part, AffineConstantExpr)
    if elsewhere or any(loop in link.map.results for link in stored):
        raise NotFused("an element depends on two elements of the contraction's result")


def _collect(
    placed: Placed,
    root: Placed,
    operands: dict[Placed, None],
    reductions: dict[Placed, None] | None,
) -> None:
    """
    Adds the values in memory on which `placed` depends to `operands`, and sums of rows to
    `reductions`.
    """
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
            raise NotFused(
                f"{op.name} is not elementwise, so the contraction's kernel cannot compute it"
            )
        case _:
            pass
