"""
The compiled program on disk, and its execution.

    from xdsl_spirv.runtime import compile_module, run, Program

`compile_module` is the way from a module of `linalg` on tensors to a `Program`, `Program.save` and
`Program.load` move it to and from a directory (docs/program.md), `run` executes it. Names are
imported when they are used: reading a program needs no compiler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xdsl_spirv.runtime.compiler import compile_module
    from xdsl_spirv.runtime.errors import ProgramError
    from xdsl_spirv.runtime.execution import run
    from xdsl_spirv.runtime.program import Program

__all__ = ["Program", "ProgramError", "compile_module", "run"]

_HOMES = {
    "Program": "program",
    "ProgramError": "errors",
    "compile_module": "compiler",
    "run": "execution",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"xdsl_spirv.runtime.{_HOMES[name]}"), name)
