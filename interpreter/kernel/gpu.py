"""
`gpu`: where an invocation stands, and barriers.

Ids are `index` values; the ids of a grid whose second and third size is 1 are uniform there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects import gpu
from xdsl.ir import Operation

from xdsl_spirv.interpreter.numbers import Array
from xdsl_spirv.interpreter.semantics import Function, action
from xdsl_spirv.interpreter.unit import Unit
from xdsl_spirv.interpreter.wave import Wave


def _wide(array: Array) -> Array:
    return array.astype(np.int64)


def _uniform(number: int) -> Array:
    return np.full((1, 1, 1), number, np.int64)


def _axis(op: Any) -> int:
    return "xyz".index(op.dimension.data)


@action(gpu.ThreadIdOp)
def thread_id(op: gpu.ThreadIdOp, unit: Unit) -> Function:
    """LocalInvocationId's component."""
    axis = _axis(op)
    return lambda wave: _wide(wave.local_ids()[axis])


@action(gpu.BlockIdOp)
def block_id(op: gpu.BlockIdOp, unit: Unit) -> Function:
    """WorkgroupId's component."""
    axis = _axis(op)
    if unit.geometry.grid[axis] == 1:
        return lambda wave: _uniform(0)
    return lambda wave: _wide(wave.workgroup_ids[axis])


@action(gpu.GlobalIdOp)
def global_id(op: gpu.GlobalIdOp, unit: Unit) -> Function:
    """GlobalInvocationId's component."""
    axis = _axis(op)
    size = unit.geometry.workgroup[axis]
    return lambda wave: _wide(wave.workgroup_ids[axis]) * size + _wide(wave.local_ids()[axis])


@action(gpu.BlockDimOp)
def block_dim(op: gpu.BlockDimOp, unit: Unit) -> Function:
    """The workgroup's size along an axis."""
    size = unit.geometry.workgroup[_axis(op)]
    return lambda wave: _uniform(size)


@action(gpu.GridDimOp)
def grid_dim(op: gpu.GridDimOp, unit: Unit) -> Function:
    """Workgroups along an axis."""
    size = unit.geometry.grid[_axis(op)]
    return lambda wave: _uniform(size)


@action(gpu.LaneIdOp)
def lane_id(op: gpu.LaneIdOp, unit: Unit) -> Function:
    """SubgroupLocalInvocationId."""
    return lambda wave: _wide(wave.lane_ids())


@action(gpu.SubgroupIdOp)
def subgroup_id(op: gpu.SubgroupIdOp, unit: Unit) -> Function:
    """SubgroupId."""
    return lambda wave: _wide(wave.subgroup_ids())


@action(gpu.SubgroupSizeOp)
def subgroup_size(op: gpu.SubgroupSizeOp, unit: Unit) -> Function:
    """SubgroupSize."""
    return lambda wave: _uniform(wave.lanes)


@action(gpu.NumSubgroupsOp)
def num_subgroups(op: gpu.NumSubgroupsOp, unit: Unit) -> Function:
    """NumSubgroups."""
    return lambda wave: _uniform(wave.geometry.subgroups)


@action(gpu.BarrierOp)
def barrier(op: Operation, unit: Unit) -> Function:
    """Nothing: invocations run in lockstep (wave.py)."""

    def call(wave: Wave) -> None:
        return None

    return call
