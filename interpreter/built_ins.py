"""Computes SPIR-V's built-in variables and `gpu`'s ids from the position of an invocation."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from xdsl_spirv.interpreter.batch import Batch, Triple
from xdsl_spirv.interpreter.numbers import Array

Components: TypeAlias = tuple[Array, ...]
"""The int32 arrays of a built-in, one for each component: three for a vector, one for a scalar."""


def _uniform(*numbers: int) -> Components:
    return tuple(np.full((1, 1, 1), number, np.int32) for number in numbers)


def _workgroup_ids(batch: Batch) -> Components:
    ids = zip(batch.workgroup_ids, batch.geometry.grid, strict=True)
    return tuple(_uniform(0)[0] if count == 1 else number for number, count in ids)


def _global_ids(batch: Batch) -> Components:
    size: Triple = batch.geometry.workgroup
    ids = zip(batch.workgroup_ids, size, batch.local_ids(), strict=True)
    return tuple(group * np.int32(count) + local for group, count, local in ids)


BUILT_INS: dict[str, Callable[[Batch], Components]] = {
    "NumWorkgroups": lambda batch: _uniform(*batch.geometry.grid),
    "WorkgroupSize": lambda batch: _uniform(*batch.geometry.workgroup),
    "WorkgroupId": _workgroup_ids,
    "LocalInvocationId": lambda batch: batch.local_ids(),
    "GlobalInvocationId": _global_ids,
    "LocalInvocationIndex": lambda batch: (batch.local_index,),
    "SubgroupSize": lambda batch: _uniform(batch.lanes),
    "NumSubgroups": lambda batch: _uniform(batch.geometry.subgroups),
    "SubgroupId": lambda batch: (batch.subgroup_ids(),),
    "SubgroupLocalInvocationId": lambda batch: (batch.lane_ids(),),
}


LANE_MASKS: dict[str, Callable[[Array, Array], Array]] = {
    "SubgroupEqMask": np.equal,
    "SubgroupGeMask": np.greater_equal,
    "SubgroupGtMask": np.greater,
    "SubgroupLeMask": np.less_equal,
    "SubgroupLtMask": np.less,
}
"""Mask built-in -> `compare(i, lane)`, which is True if the mask of `lane` contains lane i."""


def built_in(name: str) -> Callable[[Batch], Array] | None:
    """Returns the function that computes a built-in variable, or None if it is not supported."""
    compare, components = LANE_MASKS.get(name), BUILT_INS.get(name)
    if compare is not None:
        return lambda batch: _lane_mask(batch, compare)
    return None if components is None else lambda batch: _join_components(components(batch))


def _lane_mask(batch: Batch, compare: Callable[[Array, Array], Array]) -> Array:
    lanes = np.arange(128)
    bits = compare(lanes, batch.lane_ids()[..., None]) & (lanes < batch.lanes)
    return np.packbits(bits, axis=3, bitorder="little").view(np.int32)


def _join_components(components: Components) -> Array:
    if len(components) == 1:
        return components[0]
    return np.stack(np.broadcast_arrays(*components), axis=3)
