"""
Names of Vulkan's features, and which of them a SPIR-V capability or extension asks for.

`vulkan/features.json` (from the registry) has all there is to know; nothing here needs a driver.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

BASE = "VkPhysicalDeviceFeatures"
TABLES = Path(__file__).parent / "vulkan" / "features.json"


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
    return json.loads(TABLES.read_text())


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
