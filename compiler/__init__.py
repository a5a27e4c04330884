"""
Compiles models to programs.

    from xdsl_spirv.compiler import compile, compile_module

`compile` takes a model in any format, `compile_module` a module of `linalg` on tensors. Names are
imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

# Patches xDSL before its dialects are imported.
import xdsl_spirv.universe  # pyright: ignore[reportUnusedImport]  # noqa: F401

if TYPE_CHECKING:
    from xdsl_spirv.compiler.api import compile
    from xdsl_spirv.compiler.compiler import compile_module

__all__ = ["compile", "compile_module"]

_HOMES = {"compile": "api", "compile_module": "compiler"}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"xdsl_spirv.compiler.{_HOMES[name]}"), name)
