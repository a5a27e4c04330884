"""
The reference of `import xdsl_spirv as xs` and of `xdsl_spirv.kernels`, from their docstrings.

mkdocstrings makes them; here stands only what is public and where it lives. It would parse the
whole package for them, so it is given a folder of the modules that have what is public.
"""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from links import ROOT

import xdsl_spirv as xs

SOURCES = ROOT / "build" / "documented"
"""Where `paths` in mkdocs.yml says that the modules are."""

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


def link_sources() -> None:
    """Makes `SOURCES`: the modules of what is documented, and the packages they are in."""
    shutil.rmtree(SOURCES, ignore_errors=True)
    for namespace in (xs, xs.kernels):
        for value in _documented(namespace, namespace.__all__).values():
            module = Path(inspect.getfile(inspect.unwrap(value)))
            place = SOURCES / Path(*value.__module__.split(".")).with_suffix(".py")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.unlink(missing_ok=True)
            place.symlink_to(module)
            for package in place.relative_to(SOURCES).parents[:-1]:
                (SOURCES / package / "__init__.py").touch()


def _documented(namespace: ModuleType, names: Iterable[str]) -> dict[str, Any]:
    """The functions and classes by name, without other values such as unions of types."""
    values = {name: getattr(namespace, name) for name in names}
    return {name: v for name, v in values.items() if hasattr(v, "__qualname__")}


def _entries(namespace: ModuleType, names: Iterable[str]) -> str:
    names = list(names)
    documented = _documented(namespace, names)
    others = [name for name in names if name not in documented]
    entries = [f"\n::: {v.__module__}.{v.__qualname__}\n" for v in documented.values()]
    if others:
        entries.insert(0, "\nTypes: " + ", ".join(f"`{name}`" for name in others) + ".\n")
    return "".join(entries)
