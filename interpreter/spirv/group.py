"""
Executes group instructions over the active invocations of a subgroup or a workgroup.

Floats are reduced in the order of the lanes by numpy's pairwise sum. Scans run lane by lane. SPIR-V
leaves the result undefined if an inactive or missing lane is read. Here it is the last value of
that lane, or the value of lane 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.ir import Operation

from xdsl_spirv.dialects import spv
from xdsl_spirv.interpreter.batch import Batch
from xdsl_spirv.interpreter.context import Context
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.groups import Group, group_of, take_members
from xdsl_spirv.interpreter.memory import first_active
from xdsl_spirv.interpreter.numbers import I32, Array, DType, raw_dtype
from xdsl_spirv.interpreter.semantics import Function, action, action_of


def group_for(op: Any) -> Group:
    """Returns the group of an instruction. It is a subgroup if the instruction has no scope."""
    scope = getattr(op, "execution_scope", None)
    return Group(workgroup=False) if scope is None else group_of(scope.data)


@action(spv.GroupNonUniformElectOp)
def elect(op: spv.GroupNonUniformElectOp, context: Context) -> Function:
    """Returns True in the active invocation with the lowest index."""
    group = group_for(op)

    def call(batch: Batch) -> Array:
        active = group.active(batch)
        first = active.argmax(axis=2, keepdims=True)
        return group.spread((group.ids(batch) == first) & active, batch)

    return call


@action(spv.GroupNonUniformAllOp, spv.GroupAllOp, spv.SubgroupAllOp)
def vote_all(op: spv.GroupNonUniformAllOp, context: Context) -> Function:
    """Returns True if the predicate holds in every active invocation."""
    group = group_for(op)
    return lambda batch, predicate: (group.row(predicate, batch) | ~group.active(batch)).all(
        axis=2, keepdims=True
    )


@action(spv.GroupNonUniformAnyOp, spv.GroupAnyOp, spv.SubgroupAnyOp)
def vote_any(op: spv.GroupNonUniformAnyOp, context: Context) -> Function:
    """Returns True if the predicate holds in some active invocation."""
    group = group_for(op)
    return lambda batch, predicate: (group.row(predicate, batch) & group.active(batch)).any(
        axis=2, keepdims=True
    )


@action(spv.GroupNonUniformAllEqualOp, spv.SubgroupAllEqualOp)
def vote_equal(op: spv.GroupNonUniformAllEqualOp, context: Context) -> Function:
    """Returns True if all active invocations hold the same value."""
    group = group_for(op)

    def call(batch: Batch, value: Array) -> Array:
        row, active = group.row(value, batch), group.active(batch)
        same = row == first_active(row, active, (2,))
        same = same.reshape(*same.shape[:3], -1).all(axis=3)
        return (same | ~active).all(axis=2, keepdims=True)

    return call


def words(bits: Array) -> Array:
    """
    Packs bools of up to 128 lanes into a ballot: a vector<4xi32> with lane 0 in the lowest bit.
    """
    if bits.shape[2] > 128:
        raise InterpreterError(
            "a ballot supports at most 128 invocations", remedy="use subgroups of 128 or fewer"
        )
    padded = np.zeros((*bits.shape[:2], 128), np.uint8)
    padded[:, :, : bits.shape[2]] = bits
    octets = np.packbits(padded, axis=2, bitorder="little")
    return octets.view(I32)[:, :, None, :]


def _bits(ballot: Array) -> Array:
    octets = np.ascontiguousarray(ballot).view(np.uint8)
    return np.unpackbits(octets, axis=-1, bitorder="little") != 0


def _usable_bits(ballot: Array, batch: Batch) -> Array:
    """Returns the bits of a ballot that belong to lanes of the subgroup, as bools."""
    return _bits(ballot)[..., : batch.lanes]


@action(spv.GroupNonUniformBallotOp, spv.SubgroupBallotOp)
def ballot(op: spv.GroupNonUniformBallotOp, context: Context) -> Function:
    """Returns a ballot whose bit is 1 for each active invocation where the predicate holds."""
    group = group_for(op)
    return lambda batch, predicate: words(group.row(predicate, batch) & group.active(batch))


@action_of(spv.GroupNonUniformBallotBitExtractOp)
def ballot_bit(batch: Batch, ballot: Array, index: Array) -> Array:
    """Returns the ballot's bit for the invocation with this index."""
    word = np.clip(index.astype(np.int64), 0, 127)[..., None]
    bits = _bits(ballot)
    lead = np.broadcast_shapes(bits.shape[:3], word.shape[:3])
    bits, word = np.broadcast_to(bits, (*lead, 128)), np.broadcast_to(word, (*lead, 1))
    return np.take_along_axis(bits, word, axis=3)[..., 0]


@action_of(spv.GroupNonUniformInverseBallotOp)
def inverse_ballot(batch: Batch, ballot: Array) -> Array:
    """Returns the ballot's bit for the invocation that executes the instruction."""
    return ballot_bit(batch, ballot, batch.lane_ids())


@action(spv.GroupNonUniformBallotBitCountOp)
def ballot_count(op: spv.GroupNonUniformBallotBitCountOp, context: Context) -> Function:
    """Counts the set bits of a ballot: all lanes, lanes up to this one, or lanes below this one."""
    operation, dtype = op.group_operation.data, context.plain(op.result.type).dtype

    def call(batch: Batch, ballot: Array) -> Array:
        bits = _usable_bits(ballot, batch)
        if operation == spv.GroupOperation.Reduce:
            return bits.sum(axis=3).astype(dtype)
        lane, number = batch.lane_ids()[..., None], np.arange(batch.lanes)
        below = number <= lane if operation == spv.GroupOperation.InclusiveScan else number < lane
        return (bits & below).sum(axis=3).astype(dtype)

    return call


@action(spv.GroupNonUniformBallotFindLSBOp)
def ballot_lowest(op: spv.GroupNonUniformBallotFindLSBOp, context: Context) -> Function:
    """
    Returns the position of the lowest set bit. Returns -1 if no bit is set, which SPIR-V leaves
    undefined.
    """
    dtype = context.plain(op.result.type).dtype

    def call(batch: Batch, ballot: Array) -> Array:
        bits = _usable_bits(ballot, batch)
        return np.where(bits.any(axis=3), bits.argmax(axis=3), -1).astype(dtype)

    return call


@action(spv.GroupNonUniformBallotFindMSBOp)
def ballot_highest(op: spv.GroupNonUniformBallotFindMSBOp, context: Context) -> Function:
    """
    Returns the position of the highest set bit. Returns -1 if no bit is set, which SPIR-V leaves
    undefined.
    """
    dtype = context.plain(op.result.type).dtype

    def call(batch: Batch, ballot: Array) -> Array:
        bits = _usable_bits(ballot, batch)[..., ::-1]
        last = bits.shape[3] - 1 - bits.argmax(axis=3)
        return np.where(bits.any(axis=3), last, -1).astype(dtype)

    return call


Source = Callable[..., Array]
"""
A function from a member's index, the instruction's operand and the cluster size to the index of the
member that is read.
"""


def _rotate_member(member: Array, delta: Array, cluster: int) -> Array:
    """Computes the source index of a rotation (ROT-07)."""
    around = np.int64(cluster - 1)
    return ((member + delta) & around) + (member & ~around)


SOURCES: dict[type[Operation], Source] = {
    spv.GroupNonUniformBroadcastOp: lambda member, chosen, _: chosen,
    spv.GroupNonUniformShuffleOp: lambda member, chosen, _: chosen,
    spv.GroupNonUniformShuffleXorOp: lambda member, mask, _: member ^ mask,
    spv.GroupNonUniformShuffleUpOp: lambda member, delta, _: member - delta,
    spv.GroupNonUniformShuffleDownOp: lambda member, delta, _: member + delta,
    spv.GroupNonUniformQuadBroadcastOp: lambda member, index, _: (member & ~3) + index,
    spv.GroupNonUniformQuadSwapOp: lambda member, direction, _: member ^ (direction + 1),
    spv.SubgroupReadInvocationOp: lambda member, chosen, _: chosen,
    spv.GroupNonUniformRotateKHROp: _rotate_member,
}


def sources(op: Operation, batch: Batch, which: Array, cluster: Sequence[Array]) -> Array:
    """
    Returns, for each member, the index of the member that it reads, as an array (workgroup, group,
    member).
    """
    group = group_for(op)
    size = int(cluster[0].flat[0]) if cluster else group.invocations(batch)
    row = group.row(which, batch) if which.shape[2] > 1 or group.workgroup else which
    return SOURCES[type(op)](group.ids(batch), row.astype(np.int64), size)


@action(*SOURCES)
def exchange(op: spv.GroupInstruction, context: Context) -> Function:
    """Returns another invocation's value."""
    group = group_for(op)

    def call(batch: Batch, value: Array, which: Array, *cluster: Array) -> Array:
        if cluster and cluster[0].flat[0] > group.invocations(batch):
            raise InterpreterError(
                f"{op.CLUSTER}: the cluster size {cluster[0].flat[0]} is larger than the group of "
                f"{group.invocations(batch)} invocations",
                op,
            )
        if value.shape[1] == 1 and value.shape[2] == 1:
            return value
        read = take_members(group.row(value, batch), sources(op, batch, which, cluster))
        return group.spread(read, batch)

    return call


@action(spv.GroupNonUniformBroadcastFirstOp, spv.SubgroupFirstInvocationOp)
def broadcast_first(op: spv.GroupNonUniformBroadcastFirstOp, context: Context) -> Function:
    """Returns the value of the active invocation with the lowest index."""
    group = group_for(op)
    return lambda batch, value: first_active(group.row(value, batch), group.active(batch), (2,))


Identity = Callable[[DType], Any]


def _highest(dtype: DType) -> Any:
    return np.inf if dtype.kind == "f" else np.iinfo(dtype).max


def _lowest(dtype: DType) -> Any:
    return -np.inf if dtype.kind == "f" else np.iinfo(dtype).min


_ARITHMETIC: dict[type[Operation], tuple[np.ufunc, Identity]] = {
    spv.GroupNonUniformIAddOp: (np.add, lambda dtype: 0),
    spv.GroupNonUniformFAddOp: (np.add, lambda dtype: 0),
    spv.GroupNonUniformIMulOp: (np.multiply, lambda dtype: 1),
    spv.GroupNonUniformFMulOp: (np.multiply, lambda dtype: 1),
    spv.GroupNonUniformSMinOp: (np.minimum, _highest),
    spv.GroupNonUniformUMinOp: (np.minimum, _highest),
    spv.GroupNonUniformFMinOp: (np.fmin, _highest),
    spv.GroupNonUniformSMaxOp: (np.maximum, _lowest),
    spv.GroupNonUniformUMaxOp: (np.maximum, _lowest),
    spv.GroupNonUniformFMaxOp: (np.fmax, _lowest),
    spv.GroupNonUniformBitwiseAndOp: (np.bitwise_and, lambda dtype: -1),
    spv.GroupNonUniformBitwiseOrOp: (np.bitwise_or, lambda dtype: 0),
    spv.GroupNonUniformBitwiseXorOp: (np.bitwise_xor, lambda dtype: 0),
    spv.GroupNonUniformLogicalAndOp: (np.logical_and, lambda dtype: True),
    spv.GroupNonUniformLogicalOrOp: (np.logical_or, lambda dtype: False),
    spv.GroupNonUniformLogicalXorOp: (np.logical_xor, lambda dtype: False),
}

_OLDER: dict[type[Operation], type[Operation]] = {
    spv.GroupIAddOp: spv.GroupNonUniformIAddOp,
    spv.GroupFAddOp: spv.GroupNonUniformFAddOp,
    spv.GroupIMulOp: spv.GroupNonUniformIMulOp,
    spv.GroupFMulOp: spv.GroupNonUniformFMulOp,
    spv.GroupSMinOp: spv.GroupNonUniformSMinOp,
    spv.GroupUMinOp: spv.GroupNonUniformUMinOp,
    spv.GroupFMinOp: spv.GroupNonUniformFMinOp,
    spv.GroupSMaxOp: spv.GroupNonUniformSMaxOp,
    spv.GroupUMaxOp: spv.GroupNonUniformUMaxOp,
    spv.GroupFMaxOp: spv.GroupNonUniformFMaxOp,
    spv.GroupBitwiseAndOp: spv.GroupNonUniformBitwiseAndOp,
    spv.GroupBitwiseOrOp: spv.GroupNonUniformBitwiseOrOp,
    spv.GroupBitwiseXorOp: spv.GroupNonUniformBitwiseXorOp,
    spv.GroupLogicalAndOp: spv.GroupNonUniformLogicalAndOp,
    spv.GroupLogicalOrOp: spv.GroupNonUniformLogicalOrOp,
    spv.GroupLogicalXorOp: spv.GroupNonUniformLogicalXorOp,
}
"""Maps instructions from before SPIR-V 1.3 to their modern counterparts."""

_ARITHMETIC.update({older: _ARITHMETIC[later] for older, later in _OLDER.items()})

_UNSIGNED = (
    spv.GroupNonUniformUMinOp,
    spv.GroupNonUniformUMaxOp,
    spv.GroupUMinOp,
    spv.GroupUMaxOp,
)


@action(*_ARITHMETIC)
def arithmetic(op: spv.GroupArithmetic | spv.GroupReduction, context: Context) -> Function:
    """Computes a reduction or scan over the active invocations."""
    group, operation = group_for(op), op.group_operation.data
    ufunc, identity = _ARITHMETIC[type(op)]
    form = context.plain(op.result.type)
    dtype = raw_dtype(form.dtype) if type(op) in _UNSIGNED else form.dtype
    neutral = np.array(identity(dtype)).astype(dtype)

    def call(batch: Batch, value: Array, *cluster: Array) -> Array:
        row = group.row(value, batch).view(dtype)
        if batch.mask is not None:
            active = group.active(batch)
            row = np.where(active.reshape(active.shape + (1,) * len(form.shape)), row, neutral)
        if operation in spv.PARTITIONED:
            part = _usable_bits(group.row(cluster[0], batch), batch)
            combined = combine_parts(ufunc, operation, row, neutral, part)
        else:
            size = int(cluster[0].flat[0]) if cluster else None
            combined = combine(ufunc, operation, row, neutral, size)
        return group.spread(combined.astype(dtype, copy=False), batch).view(form.dtype)

    return call


def combine_parts(
    ufunc: np.ufunc, operation: spv.GroupOperation, row: Array, neutral: Array, part: Array
) -> Array:
    """
    Reduces or scans an array (workgroup, group, member, ...) over the members that `part`
    (workgroup, group, member, other member) gives for each member.
    """
    ids = np.arange(row.shape[2])
    if operation is spv.GroupOperation.PartitionedInclusiveScanNV:
        part = part & (ids <= ids[:, None])
    elif operation is spv.GroupOperation.PartitionedExclusiveScanNV:
        part = part & (ids < ids[:, None])
    part = part.reshape(part.shape + (1,) * (row.ndim - 3))
    return ufunc.reduce(np.where(part, row[:, :, None], neutral), axis=3)


def combine(
    ufunc: np.ufunc, operation: spv.GroupOperation, row: Array, neutral: Array, size: int | None
) -> Array:
    """
    Reduces or scans an array (workgroup, group, member, ...) over its members, in clusters of
    `size`.
    """
    match operation:
        case spv.GroupOperation.Reduce:
            return ufunc.reduce(row, axis=2, keepdims=True)
        case spv.GroupOperation.InclusiveScan:
            return ufunc.accumulate(row, axis=2)
        case spv.GroupOperation.ExclusiveScan:
            first = np.broadcast_to(neutral, (*row.shape[:2], 1, *row.shape[3:]))
            return ufunc.accumulate(np.concatenate([first, row[:, :, :-1]], axis=2), axis=2)
        case spv.GroupOperation.ClusteredReduce:
            assert size is not None
            if size > row.shape[2]:
                raise InterpreterError(
                    f"a cluster of {size} is larger than the group of {row.shape[2]} invocations"
                )
            clusters = row.reshape(*row.shape[:2], -1, size, *row.shape[3:])
            reduced = ufunc.reduce(clusters, axis=3, keepdims=True)
            return np.broadcast_to(reduced, clusters.shape).reshape(row.shape)
        case _:
            raise InterpreterError(f"the group operation {operation.name} is not supported")
