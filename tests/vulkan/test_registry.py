"""The runner's structures are the registry's: member by member, number by number."""

from __future__ import annotations

import ctypes
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from vulkan_object import get_vulkan_object  # pyright: ignore[reportMissingTypeStubs]

SIZES = {"uint32_t": 4, "int32_t": 4, "uint64_t": 8, "size_t": 8, "VkBool32": 4}


def _registry() -> ModuleType:
    path = Path(__file__).parent / "registry.py"
    spec = importlib.util.spec_from_file_location("vulkan_runner_registry", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


REGISTRY = _registry()
VULKAN: Any = get_vulkan_object()
STRUCTURES = {
    name: kind
    for name, kind in vars(REGISTRY).items()
    if isinstance(kind, type)
    and issubclass(kind, ctypes.Structure)
    and name not in ("Chained", "Features")
}


def _members(kind: Any) -> list[tuple[str, Any]]:
    return [
        (name, type)
        for base in reversed(kind.__mro__)
        for name, type in vars(base).get("_fields_", [])
    ]


def _number(structure: Any) -> int:
    """The value of a structure's VkStructureType."""
    name = structure.sType
    return next(f.value for f in VULKAN.enums["VkStructureType"].fields if f.name == name)


@pytest.mark.parametrize("name", STRUCTURES)
def test_structure_is_the_registrys(name: str):
    kind: Any = STRUCTURES[name]
    known = VULKAN.structs[f"Vk{name}"]
    members = _members(kind)
    if name == "PhysicalDeviceFeatures2":
        assert len(VULKAN.structs["VkPhysicalDeviceFeatures"].members) == members[-1][1]._length_
        members = members[:-1]
    expected = [member.name for member in known.members][: len(members)]
    if members[-1][0] == "rest":
        members = members[:-1]
        expected = [m.name for m in VULKAN.structs["VkPhysicalDeviceProperties"].members]
        expected = ["sType", "pNext", *expected][: len(members)]
    assert [member for member, _ in members] == expected
    if issubclass(kind, REGISTRY.Chained):
        assert kind.STYPE == _number(known)


@pytest.mark.parametrize("name", REGISTRY.FEATURES)
def test_features_are_the_registrys(name: str):
    kind = REGISTRY.FEATURES[name]
    known = VULKAN.structs[f"Vk{name}"]
    assert kind.STYPE == _number(known)
    assert dict(_members(kind))["values"]._length_ == len(known.members) - 2
    assert all(member.type == "VkBool32" for member in known.members[2:])


@pytest.mark.parametrize("name", STRUCTURES)
def test_scalar_members_have_the_registrys_size(name: str):
    known = {member.name: member for member in VULKAN.structs[f"Vk{name}"].members}
    for member, kind in _members(STRUCTURES[name]):
        declared = known.get(member)
        if declared is None or declared.pointer or declared.fixedSizeArray:
            continue
        if declared.type in SIZES:
            assert ctypes.sizeof(kind) == SIZES[declared.type], member
