"""
Defines feature structures, and selects the features that are enabled for kernels.

A feature structure is a sequence of booleans, which features.json (from the registry) describes
completely. Only features that a program needs are enabled. An enabled feature may cost time
(robust access), and the validation layer reports features that are used without being enabled.
"""

from __future__ import annotations

import ctypes as c
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache

from xdsl_spirv.runtime.needs import BASE, Feature, is_there, tables, version_in
from xdsl_spirv.runtime.requires import Requirement, Way
from xdsl_spirv.runtime.vulkan.layout import Chained, pointer

BASE_STRUCTURE_TYPE = 1000059000
"""Type of VkPhysicalDeviceFeatures2, which contains the booleans of `BASE`."""


@cache
def class_of(name: str) -> type[Chained]:
    """Returns the ctypes class of a Vulkan feature structure."""
    known = tables()["structures"][name]
    fields = [("sType", c.c_uint32), ("pNext", c.c_void_p)]
    fields += [(member, c.c_uint32) for member in known["members"]]
    number = BASE_STRUCTURE_TYPE if name == BASE else known["type"]
    return type(name, (Chained,), {"STYPE": number, "_fields_": fields})


def available(version: tuple[int, int], extensions: Collection[str]) -> list[str]:
    """Returns the feature structures that a device with this version and extensions supports."""
    names: list[str] = []
    for name, known in tables()["structures"].items():
        sources = [*known["extensions"], *([known["version"]] if known["version"] else [])]
        if name == BASE or is_there(sources, version, extensions):
            names.append(name)
    return names


class Chain:
    """Feature structures, linked by pNext after VkPhysicalDeviceFeatures2."""

    def __init__(self, names: Iterable[str], on: Iterable[Feature] = ()):
        self.parts: dict[str, Chained] = {BASE: class_of(BASE)()}
        head = self.parts[BASE]
        for name in names:
            if name != BASE:
                part = self.parts[name] = class_of(name)(pNext=head.pNext)
                head.pNext = pointer(part)
        for feature in on:
            setattr(self.parts[feature.structure], feature.member, 1)

    @property
    def address(self) -> int | None:
        return pointer(self.parts[BASE])

    def on(self) -> frozenset[Feature]:
        """The features whose boolean is set."""
        return frozenset(
            Feature(name, member)
            for name, part in self.parts.items()
            for member in tables()["structures"][name]["members"]
            if getattr(part, member)
        )


@dataclass
class Enabling:
    """Features and extensions for creating a device. `missing` lists what the device lacks."""

    features: set[Feature] = field(default_factory=set[Feature])
    extensions: set[str] = field(default_factory=set[str])
    missing: list[str] = field(default_factory=list[str])


@dataclass(frozen=True)
class Offer:
    """The abilities of a device: Vulkan version, extensions, features, and other properties."""

    version: tuple[int, int]
    extensions: frozenset[str]
    features: frozenset[Feature]
    properties: Mapping[str, int] = field(default_factory=dict[str, int])
    """Masks and booleans that capabilities need, by member name."""

    def enable(self, requirements: Iterable[Requirement]) -> Enabling:
        """Returns the features and extensions that satisfy the requirements."""
        enabling = Enabling()
        for requirement in requirements:
            if not any(self._grant(way, enabling) for way in requirement.any):
                enabling.missing.append(str(requirement))
        return enabling

    def has(self, requirement: Requirement) -> bool:
        """True if the device satisfies the requirement."""
        return not self.enable([requirement]).missing

    def want(self, feature: Feature, enabling: Enabling) -> bool:
        """Enables a feature if the device has it. Returns True if the device has the feature."""
        if feature not in self.features:
            return False
        known = tables()["structures"][feature.structure]
        enabling.features.add(feature)
        promoted = known["version"] and self.version >= version_in(known["version"])
        if not promoted:
            enabling.extensions |= set(known["extensions"]) & self.extensions
        return True

    def _grant(self, way: Way, enabling: Enabling) -> bool:
        if way.feature is not None:
            return self.want(Feature(way.structure or "", way.feature), enabling)
        if way.property is not None:
            return bool(self.properties.get(way.property, 0) & _bit(way.bit))
        if way.version is not None:
            return self.version >= version_in(way.version)
        offered = self.extensions.intersection(way.extensions)
        enabling.extensions |= offered
        return bool(offered)


def _bit(name: str | None) -> int:
    from xdsl_spirv.runtime.vulkan.enums import SubgroupFeature

    if name is None:
        return 1
    short = name.removeprefix("VK_SUBGROUP_FEATURE_").replace("_BIT", "")
    return int(SubgroupFeature.__members__.get(short, 0))
