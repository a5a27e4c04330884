"""
SPV_KHR_subgroup_rotate: ROT-07 as it is written.
"""

from __future__ import annotations

import numpy as np

from xdsl_spirv.dialects.spirv import rotate as ops
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.groups import group_of, take_members
from xdsl_spirv.interpreter.numbers import Array
from xdsl_spirv.interpreter.semantics import Function, action
from xdsl_spirv.interpreter.unit import Unit
from xdsl_spirv.interpreter.wave import Wave


@action(ops.GroupNonUniformRotateKHROp)
def rotate(op: ops.GroupNonUniformRotateKHROp, unit: Unit) -> Function:
    """The value of the invocation `delta` further on, around the group or the cluster."""
    group = group_of(op.execution_scope.data)

    def call(wave: Wave, value: Array, delta: Array, *cluster: Array) -> Array:
        members = wave.geometry.invocations if group.workgroup else wave.lanes
        size = int(cluster[0].flat[0]) if cluster else members
        if size > members:
            raise InterpreterError(
                f"ROT-08: the cluster size {size} is larger than the group of {members}", op
            )
        if value.shape[1] == 1 and value.shape[2] == 1:
            return value
        local = group.ids(wave)
        around = size - 1
        amount = group.row(delta, wave).astype(np.int64)
        source = ((local + amount) & around) + (local & ~np.int64(around))
        return group.spread(take_members(group.row(value, wave), source), wave)

    return call
