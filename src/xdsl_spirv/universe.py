"""
What `xdsl-opt` finds of this package: names now, modules only when a name is used.

Every factory imports inside its body, so that `xdsl-opt --version` costs the same with the package
installed as without it.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from xdsl.universe import Universe


def _lazy(path: str) -> Callable[[], Any]:
    """`module:name`, imported when called."""
    module, name = path.split(":")
    return lambda: getattr(import_module(f"xdsl_spirv.{module}"), name)


DIALECTS = {
    "spirv": "dialects.spirv:SPIRV",
    "schedule": "dialects.schedule:Schedule",
}

PASSES: dict[str, str] = {}

TARGETS: dict[str, str] = {}

UNIVERSE = Universe(
    all_dialects={name: _lazy(path) for name, path in DIALECTS.items()},
    all_passes={name: _lazy(path) for name, path in PASSES.items()},
    all_targets={name: _lazy(path) for name, path in TARGETS.items()},
)
