"""
What an invocation may ask for where it stands: SPIR-V's built-ins, which are `gpu`'s ids as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from xdsl_spirv.interpreter.numbers import Array
from xdsl_spirv.interpreter.wave import Triple, Wave

Components: TypeAlias = tuple[Array, ...]
"""A built-in's components, int32 (w, s, l): three of a vector, one of a scalar."""


def _uniform(*numbers: int) -> Components:
    return tuple(np.full((1, 1, 1), number, np.int32) for number in numbers)


def _workgroup_ids(wave: Wave) -> Components:
    """Uniform along the axes on which there is one workgroup."""
    ids = zip(wave.workgroup_ids, wave.geometry.grid, strict=True)
    return tuple(_uniform(0)[0] if count == 1 else number for number, count in ids)


def _global_ids(wave: Wave) -> Components:
    size: Triple = wave.geometry.workgroup
    ids = zip(wave.workgroup_ids, size, wave.local_ids(), strict=True)
    return tuple(group * np.int32(count) + local for group, count, local in ids)


BUILT_INS: dict[str, Callable[[Wave], Components]] = {
    "NumWorkgroups": lambda wave: _uniform(*wave.geometry.grid),
    "WorkgroupSize": lambda wave: _uniform(*wave.geometry.workgroup),
    "WorkgroupId": _workgroup_ids,
    "LocalInvocationId": lambda wave: wave.local_ids(),
    "GlobalInvocationId": _global_ids,
    "LocalInvocationIndex": lambda wave: (wave.local_index,),
    "SubgroupSize": lambda wave: _uniform(wave.lanes),
    "NumSubgroups": lambda wave: _uniform(wave.geometry.subgroups),
    "SubgroupId": lambda wave: (wave.subgroup_ids(),),
    "SubgroupLocalInvocationId": lambda wave: (wave.lane_ids(),),
}


LANE_MASKS: dict[str, Callable[[Array, Array], Array]] = {
    "SubgroupEqMask": np.equal,
    "SubgroupGeMask": np.greater_equal,
    "SubgroupGtMask": np.greater,
    "SubgroupLeMask": np.less_equal,
    "SubgroupLtMask": np.less,
}
"""Ballots of the lanes that stand in a relation to each lane."""


def built_in(name: str) -> Callable[[Wave], Array] | None:
    """How to fill the Input variable of a built-in; None for one that is not executed."""
    compare, components = LANE_MASKS.get(name), BUILT_INS.get(name)
    if compare is not None:
        return lambda wave: _lane_mask(wave, compare)
    return None if components is None else lambda wave: _joined(components(wave))


def _lane_mask(wave: Wave, compare: Callable[[Array, Array], Array]) -> Array:
    lanes = np.arange(128)
    bits = compare(lanes, wave.lane_ids()[..., None]) & (lanes < wave.lanes)
    return np.packbits(bits, axis=3, bitorder="little").view(np.int32)


def _joined(components: Components) -> Array:
    if len(components) == 1:
        return components[0]
    return np.stack(np.broadcast_arrays(*components), axis=3)
