"""
The environment that a module is validated for: SPIR-V of some version alone, or a version of
Vulkan.

The names are the ones of `spirv-val --target-env`. OpenCL's environments are not offered: their
rules are not checked here, and a kernel's module is validated as SPIR-V.
"""

from __future__ import annotations

from typing import NamedTuple

from xdsl_spirv.grammar import Version


class Environment(NamedTuple):
    """A target environment."""

    name: str
    version: Version
    """The newest SPIR-V it takes."""
    vulkan: Version | None = None


ENVIRONMENTS = {
    e.name: e
    for e in (
        *(Environment(f"spv1.{minor}", (1, minor)) for minor in range(7)),
        Environment("vulkan1.0", (1, 0), (1, 0)),
        Environment("vulkan1.1", (1, 3), (1, 1)),
        Environment("vulkan1.1spv1.4", (1, 4), (1, 1)),
        Environment("vulkan1.2", (1, 5), (1, 2)),
        Environment("vulkan1.3", (1, 6), (1, 3)),
        Environment("vulkan1.4", (1, 6), (1, 4)),
    )
}
