"""
SPIR-V for machine learning in Python, on xDSL.

    program = xdsl_spirv.compile("model.onnx", target="lavapipe")
    y = program(x)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xdsl_spirv.compiler.api import compile
    from xdsl_spirv.runtime.program import Program

__version__ = "0.1.0"

__all__ = ["Program", "compile"]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    homes = {"Program": "runtime.program", "compile": "compiler.api"}
    if name not in homes:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"xdsl_spirv.{homes[name]}"), name)
