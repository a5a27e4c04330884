"""
Environments to validate a module for: a version of SPIR-V, or a version of Vulkan.

The names come from `spirv-val --target-env`. `universal1.6` is the same as `spv1.6`, as in
SPIRV-Tools' interface. OpenCL environments are not supported, since their rules are not checked:
kernels are validated as SPIR-V.
"""

from __future__ import annotations

from typing import NamedTuple

from xdsl_spirv.grammar import Version
from xdsl_spirv.speech import did_you_mean


class Environment(NamedTuple):
    """A target environment, against whose rules a module is validated."""

    name: str
    version: Version
    """The newest version of SPIR-V that the environment accepts."""
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


def find_environment(name: str) -> Environment:
    """Returns the environment with this name. Raises `ValueError` for an unknown name."""
    known = ENVIRONMENTS.get(name.replace("universal", "spv"))
    if known is None:
        remedy = did_you_mean(name, ENVIRONMENTS, f"use one of {', '.join(ENVIRONMENTS)}")
        raise ValueError(f"the target environment {name!r} is unknown; {remedy}")
    return known
