"""Executes further group instructions: quad votes, partitions, broadcasts by local id."""

from __future__ import annotations

from typing import Any

import numpy as np

from xdsl_spirv.dialects.spirv import subgroup as ops
from xdsl_spirv.interpreter.batch import Batch
from xdsl_spirv.interpreter.context import Context
from xdsl_spirv.interpreter.groups import group_of, take_members
from xdsl_spirv.interpreter.numbers import Array
from xdsl_spirv.interpreter.semantics import Function, action, action_of
from xdsl_spirv.interpreter.spirv.group import words

QUAD = 4


@action(ops.GroupNonUniformQuadAllOp, ops.GroupNonUniformQuadAnyOp)
def quad_vote(op: ops.SubgroupVote, context: Context) -> Function:
    """
    Returns True if all active invocations of the quad vote true (or any, depending on the
    instruction).
    """
    every = isinstance(op, ops.GroupNonUniformQuadAllOp)

    def call(batch: Batch, predicate: Array) -> Array:
        active = batch.active()
        said: Array = (predicate | ~active) if every else (predicate & active)
        said = np.broadcast_to(said, (*said.shape[:2], batch.lanes))
        quads = said.reshape(*said.shape[:2], -1, min(QUAD, batch.lanes))
        votes = quads.all(axis=3) if every else quads.any(axis=3)
        return np.repeat(votes, quads.shape[3], axis=2)

    return call


@action_of(ops.GroupNonUniformPartitionOp)
def partition(batch: Batch, value: Array) -> Array:
    """Returns, for each invocation, the ballot of the active invocations with the same value."""
    row = np.broadcast_to(value, (*value.shape[:2], batch.lanes, *value.shape[3:]))
    same = row[:, :, :, None] == row[:, :, None, :]
    same = same.reshape(*same.shape[:4], -1).all(axis=4)
    same = same & np.broadcast_to(batch.active(), (*batch.shape[:2], batch.lanes))[:, :, None, :]
    flat = same.reshape(-1, 1, same.shape[3])
    return words(flat).reshape(*same.shape[:3], -1)


@action(ops.GroupBroadcastOp)
def broadcast(op: ops.GroupBroadcastOp, context: Context) -> Function:
    """
    Returns the value of the invocation with the given local id, which has one to three coordinates.
    """
    group = group_of(op.execution_scope.data)
    components = context.plain(op.localid.type).shape
    x, y, _ = context.geometry.workgroup
    steps = np.array([1, x, x * y])

    def call(batch: Batch, value: Array, local_id: Array) -> Any:
        number = local_id.astype(np.int64)
        if components:
            number = (number * steps[: components[0]]).sum(axis=3)
        row = group.row(value, batch)
        which = group.row(number, batch) if group.workgroup else number
        return group.spread(take_members(row, which), batch)

    return call
