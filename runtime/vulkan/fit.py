"""
Compares the requirements of kernels with a device, before anything is created on the device.

A driver need not refuse unsupported features. It may crash, hang, or return garbage (for example
for cooperative-matrix shapes that are not in its list).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from xdsl_spirv.runtime.requires import LeastLimit, Requires
from xdsl_spirv.targets import CooperativeMatrixProperty

if TYPE_CHECKING:
    from xdsl_spirv.runtime.vulkan.physical import DeviceInfo

SPIRV_OF_VULKAN = {(1, 0): (1, 0), (1, 1): (1, 3), (1, 2): (1, 5), (1, 3): (1, 6), (1, 4): (1, 6)}
"""The newest SPIR-V version that each Vulkan version supports (Vulkan, appendix A)."""


WORDS = {
    "maxComputeSharedMemorySize": "{} bytes of Workgroup memory",
    "maxComputeWorkGroupInvocations": "workgroups of {} invocations",
    "maxComputeWorkGroupSize": "workgroups of {} invocations along {}",
    "maxComputeWorkGroupCount": "{} workgroups along {}",
    "maxPushConstantsSize": "{} bytes of push constants",
    "maxStorageBufferRange": "a storage buffer of {} bytes",
    "maxPerStageDescriptorStorageBuffers": "{} storage buffers",
}
"""Texts for limits in error messages. The second {} is the axis x, y or z."""


def lacks(info: DeviceInfo, requires: Requires) -> list[str]:
    """Returns descriptions of the requirements that a device lacks; empty if kernels can run."""
    return list(dict.fromkeys(_lacks(info, requires)))


def _lacks(info: DeviceInfo, requires: Requires) -> Iterator[str]:
    newest = SPIRV_OF_VULKAN.get(info.version[:2], (1, 6))
    if tuple(map(int, requires.spirv.split("."))) > newest:
        yield f"SPIR-V {requires.spirv} (it takes {newest[0]}.{newest[1]})"
    for requirement in requires.features:
        if not info.offer.has(requirement):
            yield str(requirement)
    for matrix in requires.cooperative_matrices:
        if matrix not in info.matrices and not _is_flexible(info, matrix):
            yield f"the cooperative-matrix shape {matrix}, {matrix.scope} scope"
    yield from (_limit(info, limit) for limit in requires.limits if _has(info, limit) < limit.least)
    size = requires.subgroup_size
    least, most = info.subgroup_size_range
    if size is not None and not (
        size == info.subgroup_size or (info.subgroup_size_control and least <= size <= most)
    ):
        has = str(least) if least == most else f"{least} to {most}"
        yield f"subgroups of {size} invocations (it has {has})"


def _has(info: DeviceInfo, limit: LeastLimit) -> int:
    name, _, axis = limit.limit.partition("[")
    has = info.limits[name]
    return has[int(axis.removesuffix("]"))] if isinstance(has, tuple) else has


def _limit(info: DeviceInfo, limit: LeastLimit) -> str:
    name, _, axis = limit.limit.partition("[")
    words = WORDS[name].format(limit.least, "xyz"[int(axis[:1] or 0)])
    return f"{words} for {limit.because} (it takes {_has(info, limit)})"


def _is_flexible(info: DeviceInfo, matrix: CooperativeMatrixProperty) -> bool:
    """True if VK_NV_cooperative_matrix2's flexible dimensions include a subgroup matrix shape."""
    types = (*matrix.types, matrix.saturating, matrix.scope)
    return any(
        (*row.types, row.saturating, row.scope) == types
        and not (matrix.m % row.m or matrix.n % row.n or matrix.k % row.k)
        for row, _ in info.flexible_matrices
    )
