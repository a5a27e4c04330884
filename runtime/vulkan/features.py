"""
Features as data: their structures, and which of them a SPIR-V capability or extension asks for.

A structure of features is a row of booleans, so features.json (from the registry) has all there is
to know. Only what a program needs is enabled: a feature that is on may cost (robust access), and
the validation layer tells what is used without being on.
"""

from __future__ import annotations

import ctypes as c
import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xdsl_spirv.runtime.vulkan.layout import Chained, pointer

if TYPE_CHECKING:
    from xdsl_spirv.runtime.vulkan.uses import Use

BASE = "VkPhysicalDeviceFeatures"
BASE_STRUCTURE_TYPE = 1000059000
"""VkPhysicalDeviceFeatures2, whose booleans are BASE's."""


@dataclass(frozen=True, order=True)
class Feature:
    """One boolean: `Feature("VkPhysicalDeviceVulkan12Features", "shaderFloat16")`."""

    structure: str
    member: str

    def __str__(self) -> str:
        return f"{self.member} ({self.structure.removeprefix('Vk')})"


@cache
def tables() -> dict[str, dict[str, Any]]:
    """`structures`, `capabilities` and `extensions` of features.json."""
    return json.loads(Path(__file__).with_name("features.json").read_text())


@cache
def class_of(name: str) -> type[Chained]:
    """The ctypes structure of a structure of features."""
    known = tables()["structures"][name]
    fields = [("sType", c.c_uint32), ("pNext", c.c_void_p)]
    fields += [(member, c.c_uint32) for member in known["members"]]
    number = BASE_STRUCTURE_TYPE if name == BASE else known["type"]
    return type(name, (Chained,), {"STYPE": number, "_fields_": fields})


def version_in(name: str) -> tuple[int, int]:
    """`VK_VERSION_1_2` as numbers."""
    major, minor = re.findall(r"\d+", name)
    return int(major), int(minor)


def is_there(names: Iterable[str], version: tuple[int, int], extensions: Collection[str]) -> bool:
    """Whether one of the versions and extensions is."""
    return any(
        version >= version_in(name) if name.startswith("VK_VERSION_") else name in extensions
        for name in names
    )


def available(version: tuple[int, int], extensions: Collection[str]) -> list[str]:
    """The structures of features that a device of a version and with extensions knows."""
    names: list[str] = []
    for name, known in tables()["structures"].items():
        sources = [*known["extensions"], *([known["version"]] if known["version"] else [])]
        if name == BASE or is_there(sources, version, extensions):
            names.append(name)
    return names


class Chain:
    """Structures of features linked by pNext, behind VkPhysicalDeviceFeatures2."""

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
    """What a device is created with; `missing` says what it cannot be created with."""

    features: set[Feature] = field(default_factory=set[Feature])
    extensions: set[str] = field(default_factory=set[str])
    missing: list[str] = field(default_factory=list[str])


@dataclass(frozen=True)
class Offer:
    """What a device has: the version of its interface, extensions, features, other properties."""

    version: tuple[int, int]
    extensions: frozenset[str]
    features: frozenset[Feature]
    properties: Mapping[str, int] = field(default_factory=dict[str, int])
    """Masks and booleans that capabilities ask for, by their member's name."""

    def enable(
        self,
        capabilities: Iterable[str],
        spirv_extensions: Iterable[str],
        uses: Iterable[Use] = (),
    ) -> Enabling:
        """
        What SPIR-V modules with these capabilities and extensions need of the device.

        `uses`: what else they do that a feature must be on for.
        """
        enabling = Enabling()
        for use in sorted(uses):
            if not any(self.want(feature, enabling) for feature in use.features):
                names = " or ".join(map(str, use.features))
                enabling.missing.append(f"{use.what} ({names})")
        for kind, names in (("capabilities", capabilities), ("extensions", spirv_extensions)):
            table = tables()[kind]
            for name in sorted(names):
                if name in table and not any(self._grant(row, enabling) for row in table[name]):
                    enabling.missing.append(f"{name} ({_wanted(table[name])})")
        return enabling

    def want(self, feature: Feature, enabling: Enabling) -> bool:
        """Enable a feature if the device has it."""
        if feature not in self.features:
            return False
        known = tables()["structures"][feature.structure]
        enabling.features.add(feature)
        promoted = known["version"] and self.version >= version_in(known["version"])
        if not promoted:
            enabling.extensions |= set(known["extensions"]) & self.extensions
        return True

    def _grant(self, row: Mapping[str, Any], enabling: Enabling) -> bool:
        if "feature" in row:
            return self.want(Feature(*row["feature"]), enabling)
        if "property" in row:
            _, member, bit = row["property"]
            return bool(self.properties.get(member, 0) & _bit(bit))
        if "version" in row:
            return self.version >= version_in(row["version"])
        if row["extension"] in self.extensions:
            enabling.extensions.add(row["extension"])
            return True
        return False


def _bit(name: str) -> int:
    from xdsl_spirv.runtime.vulkan.enums import SubgroupFeature

    if name == "VK_TRUE":
        return 1
    short = name.removeprefix("VK_SUBGROUP_FEATURE_").replace("_BIT", "")
    return int(SubgroupFeature.__members__.get(short, 0))


def _wanted(rows: Iterable[Mapping[str, Any]]) -> str:
    """What would grant a capability, in words."""
    names: list[str] = []
    for row in rows:
        if "feature" in row:
            names.append(str(Feature(*row["feature"])))
        elif "property" in row:
            names.append(" ".join(row["property"][1:]))
        else:
            names.append(row.get("version") or row["extension"])
    return " or ".join(names)
