"""
Compiles models to programs.

    from xdsl_spirv.compiler import compile, compile_module

`compile` takes a model in any format, `compile_module` a module of `linalg` on tensors. Names are
imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

# Patches xDSL before its dialects are imported.
import xdsl_spirv.universe  # pyright: ignore[reportUnusedImport]  # noqa: F401
from xdsl_spirv import import_on_use

if TYPE_CHECKING:
    from xdsl_spirv.compiler.api import compile
    from xdsl_spirv.compiler.compiler import compile_module

__all__ = ["compile", "compile_module"]

__getattr__ = import_on_use(__name__)
