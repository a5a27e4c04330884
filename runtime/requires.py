"""
Defines the requirements of kernels on a device, in Vulkan's terms: `requires` of program.json.

They are derived from the kernels' bytes (`needs`), by the registry's table of features that
provide a capability. The runtime compares them with a device (`vulkan/fit.py`) before a driver
receives a kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from xdsl_spirv.runtime.needs import Feature, Needs, Use, tables, version_in
from xdsl_spirv.targets import CooperativeMatrixProperty

VULKAN_OF_SPIRV = {(1, 3): (1, 1), (1, 4): (1, 2), (1, 5): (1, 2), (1, 6): (1, 3)}
"""The oldest Vulkan version that supports a version of SPIR-V (Vulkan, appendix A)."""

Version: TypeAlias = tuple[int, int]


@dataclass(frozen=True)
class Way:
    """
    One alternative that satisfies a requirement:

    - a `feature` of a `structure`, which comes with Vulkan `version` or one of `extensions`
    - a `property` that must be true, or must have the `bit`
    - Vulkan of a `version`, or one of `extensions`
    """

    feature: str | None = None
    structure: str | None = None
    property: str | None = None
    bit: str | None = None
    version: str | None = None
    extensions: tuple[str, ...] = field(default=(), metadata={"sparse": True})

    def __str__(self) -> str:
        if self.feature is not None:
            return str(Feature(self.structure or "", self.feature))
        if self.property is not None:
            return f"{self.property} {self.bit or 'VK_TRUE'}"
        return f"Vulkan {self.version}" if self.version else " or ".join(self.extensions)


@dataclass(frozen=True)
class Requirement:
    """A requirement that any of `ways` satisfies. `because` is the module's reason for it."""

    because: str
    any: tuple[Way, ...]

    def __str__(self) -> str:
        return f"{self.because} ({' or '.join(map(str, self.any))})"


@dataclass(frozen=True)
class LeastLimit:
    """The required minimum of a member of VkPhysicalDeviceLimits, and the reason."""

    limit: str
    least: int
    because: str


@dataclass(frozen=True)
class Requires:
    """
    The requirements on a device. With `full_subgroups`, kernels depend on full subgroups, and
    pipelines whose workgroup size is a multiple of the subgroup size use REQUIRE_FULL_SUBGROUPS.
    """

    vulkan: str
    spirv: str
    subgroup_size: int | None = None
    full_subgroups: bool = field(default=False, metadata={"sparse": True})
    features: tuple[Requirement, ...] = field(default=(), metadata={"sparse": True})
    cooperative_matrices: tuple[CooperativeMatrixProperty, ...] = field(
        default=(), metadata={"sparse": True}
    )
    limits: tuple[LeastLimit, ...] = field(default=(), metadata={"sparse": True})


@dataclass(frozen=True)
class Launch:
    """The limits of a dispatch, besides the limits of its kernel. `name` is used in errors."""

    name: str
    grid: Sequence[int] = ()
    push_bytes: int = 0
    buffers: int = 0
    """Number of bound buffers."""
    largest_buffer: int = 0
    """Size of the largest buffer in bytes, 0 if unknown or checked elsewhere."""


def requires_of(
    needs: Mapping[Any, Needs], subgroup_size: int | None, launches: Iterable[Launch] = ()
) -> Requires:
    """
    Returns the requirements on a device for kernels (their `needs` by name) and for their launches.

    `subgroup_size` is the size for which the kernels were compiled, or None for any.
    """
    spirv = max((need.version for need in needs.values()), default=(1, 0))
    vulkan = VULKAN_OF_SPIRV.get(spirv, (1, 0))
    capabilities = {name for need in needs.values() for name in need.capabilities}
    limits: dict[str, LeastLimit] = {}
    for limit in (*_limits_of_kernels(needs), *_limits_of_launches(launches)):
        known = limits.get(limit.limit)
        if known is None or known.least < limit.least:
            limits[limit.limit] = limit
    return Requires(
        vulkan=_write_version(vulkan),
        spirv=_write_version(spirv),
        subgroup_size=subgroup_size,
        full_subgroups=any(map(_is_of_subgroups, capabilities)),
        features=tuple(
            requirements(
                capabilities,
                {name for need in needs.values() for name in need.extensions},
                {use for need in needs.values() for use in need.uses},
                vulkan,
            )
        ),
        cooperative_matrices=tuple(
            sorted({row for need in needs.values() for row in need.matrices}, key=str)
        ),
        limits=tuple(limits.values()),
    )


def requirements(
    capabilities: Iterable[str],
    extensions: Iterable[str],
    uses: Iterable[Use] = (),
    vulkan: Version = (1, 0),
) -> Iterator[Requirement]:
    """
    Yields the requirements of modules with these capabilities and extensions, beyond what every
    device with this version of Vulkan has.

    `uses` are operations that no capability declares, each with its alternative features.
    """
    for use in sorted(uses):
        rows = [{"feature": (f.structure, f.member)} for f in use.features]
        yield Requirement(use.what, tuple(_ways(rows, vulkan)))
    for kind, names in (("capabilities", capabilities), ("extensions", extensions)):
        table = tables()[kind]
        for name in sorted(names):
            rows = table.get(name, ())
            if rows and not any(_is_core(row, vulkan) for row in rows):
                yield Requirement(name, tuple(_ways(rows, vulkan)))


def _is_core(row: Mapping[str, Any], vulkan: Version) -> bool:
    return "version" in row and version_in(row["version"]) <= vulkan


def _ways(rows: Iterable[Mapping[str, Any]], vulkan: Version) -> Iterator[Way]:
    """
    Yields the alternatives that the registry's rows list.

    Several structures may contain the same feature. If one of them comes with version `vulkan` or
    an older one, all later ones are skipped.
    """
    settled: set[str] = set()
    for row in rows:
        if "property" in row:
            _, member, bit = row["property"]
            yield Way(property=member, bit=None if bit == "VK_TRUE" else bit)
        elif "version" in row:
            yield Way(version=_write_version(version_in(row["version"])))
        elif "extension" in row:
            yield Way(extensions=(row["extension"],))
        elif row["feature"][1] not in settled:
            structure, member = row["feature"]
            known = tables()["structures"][structure]
            core = version_in(known["version"]) if known["version"] else None
            if (core is not None and core <= vulkan) or not (core or known["extensions"]):
                settled.add(member)
                yield Way(member, structure)
            else:
                version = None if core is None else _write_version(core)
                extensions = tuple(known["extensions"])
                yield Way(member, structure, version=version, extensions=extensions)


def _limits_of_kernels(needs: Mapping[str, Needs]) -> Iterator[LeastLimit]:
    for need in needs.values():
        for name, entry in need.entry_points.items():
            if entry.workgroup_bytes:
                yield LeastLimit("maxComputeSharedMemorySize", entry.workgroup_bytes, name)
            if entry.workgroup_size is not None:
                x, y, z = entry.workgroup_size
                yield LeastLimit("maxComputeWorkGroupInvocations", x * y * z, name)
                yield from _axes("maxComputeWorkGroupSize", (x, y, z), name)


def _limits_of_launches(launches: Iterable[Launch]) -> Iterator[LeastLimit]:
    for launch in launches:
        yield from _axes("maxComputeWorkGroupCount", launch.grid, launch.name)
        if launch.push_bytes:
            yield LeastLimit("maxPushConstantsSize", launch.push_bytes, launch.name)
        if launch.buffers:
            count = launch.buffers
            yield LeastLimit("maxPerStageDescriptorStorageBuffers", count, launch.name)
        if launch.largest_buffer:
            yield LeastLimit("maxStorageBufferRange", launch.largest_buffer, launch.name)


def _axes(limit: str, sizes: Sequence[int], because: str) -> Iterator[LeastLimit]:
    for axis, size in enumerate(sizes):
        if size > 1:
            yield LeastLimit(f"{limit}[{axis}]", size, because)


def _is_of_subgroups(capability: str) -> bool:
    return "GroupNonUniform" in capability or capability.startswith(("Group", "CooperativeMatrix"))


def _write_version(version: Version) -> str:
    return f"{version[0]}.{version[1]}"
