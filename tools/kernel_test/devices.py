"""Converts a kernel launch to a `Work`, which a device can run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from xdsl_spirv.images import Image, Sampler
from xdsl_spirv.runtime.vulkan.work import Bound, BufferKind, Step, Work, WorkBuffer
from xdsl_spirv.tools.kernel_test.constants import dtype
from xdsl_spirv.tools.kernel_test.interface import Interface, Place


def work_of(
    interface: Interface,
    binary: bytes,
    grid: tuple[int, int, int],
    names: Mapping[Place, str],
    kind: BufferKind,
    sizes: Mapping[str, int],
    textures: Mapping[Place, Image | Sampler],
    block: bytes,
    subgroup_size: int | None,
) -> Work:
    """
    Converts a launch to a `Work`, which a device can run. All buffers have the same `kind`.

    `names` are the buffers' names by descriptor, `sizes` their bytes by name, and `block` contains
    the push constants.
    """
    kinds = {c.id: c.scalar for c in interface.constants.specialized}
    constants = interface.constants.values.items()
    step = Step(
        "kernel",
        interface.entry.name,
        grid,
        tuple((p[0], p[1], name) for p, name in names.items() if p not in textures),
        tuple((id, _constant_bytes(v, kinds[id])) for id, v in constants if id in kinds),
        block,
        images=tuple(
            Bound(p[0], p[1], sum(p[2:]), one, names.get(p)) for p, one in textures.items()
        ),
    )
    known = tuple(WorkBuffer(name, size, kind) for name, size in sizes.items())
    return Work(known, kernels={"kernel": binary}, steps=(step,), subgroup_size=subgroup_size)


def _constant_bytes(value: Any, scalar: str) -> bytes:
    return (np.uint32(value) if scalar == "bool" else dtype(scalar).type(value)).tobytes()
