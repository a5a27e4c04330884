"""Collects the settings that affect a verdict, such as the subgroup size, for all reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xdsl_spirv.targets import Target


def settings(
    size: int,
    origin: str,
    target: Target | None,
    checks: str,
    robust: bool,
    specialization: Mapping[str, Any],
) -> dict[str, Any]:
    """
    Returns the settings that affect a launch's verdict, for JSON. `origin` tells who chose the
    subgroup size.
    """
    return {
        "subgroup_size": size,
        "subgroup_size_from": origin,
        "target": None if target is None else target.name,
        "checks": checks,
        "robust_buffer_access": robust,
        "specialization": dict(specialization),
    }


def size_origin(given: Sequence[int], target: Target | None) -> str:
    """Returns the source of the subgroup size: the caller, the target, or the default."""
    if given:
        return "given"
    if target is None:
        return "by default"
    least, most = target.subgroup_size_range
    other = f", which has {least} to {most}" if least < most else ""
    return f"of the target{other}"


def describe_settings(values: Mapping[str, Any]) -> str:
    """Formats the settings as one line."""
    target, checks = values["target"], values["checks"]
    constants = (f"constant {name} = {value}" for name, value in values["specialization"].items())
    parts = [
        f"subgroup size {values['subgroup_size']} ({values['subgroup_size_from']})",
        f"target {target}" if target else "no target",
        "no checks" if checks == "none" else f"checks: {checks}",
        "robust buffer access" if values["robust_buffer_access"] else "no robust buffer access",
        *constants,
    ]
    return f"with {', '.join(parts)}"
