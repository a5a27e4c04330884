"""
The reference of `import xdsl_spirv as xs` and of `xdsl_spirv.kernels`, from their docstrings.

mkdocstrings makes them; here stands only what is public and where it lives.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from types import ModuleType

import xdsl_spirv as xs

GUIDE = """\
# xdsl_spirv

`import xdsl_spirv as xs`; [the guide](../python.md) has an example of each.
"""

KERNELS = """\
# xdsl_spirv.kernels

`from xdsl_spirv import kernels as k`; [the guide](../kernels.md) has examples.
"""


@cache
def pages() -> dict[str, str]:
    """A page for each public namespace."""
    return {
        "interface/index.md": GUIDE + _entries(xs, (n for n in xs.__all__ if n != "kernels")),
        "interface/kernels.md": KERNELS + _entries(xs.kernels, xs.kernels.__all__),
    }


def _entries(namespace: ModuleType, names: Iterable[str]) -> str:
    values = {name: getattr(namespace, name) for name in names}
    documented = {name: v for name, v in values.items() if hasattr(v, "__qualname__")}
    others = [name for name in values if name not in documented]
    entries = [f"\n::: {v.__module__}.{v.__qualname__}\n" for v in documented.values()]
    if others:
        entries.insert(0, "\nTypes: " + ", ".join(f"`{name}`" for name in others) + ".\n")
    return "".join(entries)
