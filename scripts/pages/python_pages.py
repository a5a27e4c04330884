"""
Makes the reference of `xdsl_spirv` (as `xs`) and of `xdsl_spirv.kernels` from docstrings.

mkdocstrings formats the docstrings; this module lists the public names and their modules. To avoid
parsing the whole package, mkdocstrings gets a folder with only the needed modules.
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
"""Folder of modules that `paths` in mkdocs.yml names."""

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
    """Returns a page for each public namespace."""
    return {
        "interface/index.md": GUIDE + _entries(xs, (n for n in xs.__all__ if n != "kernels")),
        "interface/kernels.md": KERNELS + _entries(xs.kernels, xs.kernels.__all__),
    }


def link_sources() -> None:
    """Fills `SOURCES` with links to the documented modules and their packages."""
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
    """Returns functions and classes by name, without other objects such as unions of types."""
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
