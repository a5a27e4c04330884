"""
Reads, writes and runs compiled programs.

    from xdsl_spirv.runtime import Program, run

`Program.save` and `Program.load` write and read a program's directory (docs/program.md). `run`
executes a program. Names are imported on first use, so reading a program does not load the
interpreter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xdsl_spirv.runtime.errors import ProgramError
    from xdsl_spirv.runtime.execution import run
    from xdsl_spirv.runtime.program import Program

__all__ = ["Program", "ProgramError", "run"]

_HOMES = {
    "Program": "program",
    "ProgramError": "errors",
    "run": "execution",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"xdsl_spirv.runtime.{_HOMES[name]}"), name)
