"""
Reads, writes and runs compiled programs.

    from xdsl_spirv.runtime import Program, run

`Program.save` and `Program.load` write and read a program's directory (docs/program.md). `run`
executes a program. Names are imported on first use, so reading a program does not load the
interpreter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl_spirv import import_on_use

if TYPE_CHECKING:
    from xdsl_spirv.runtime.errors import ProgramError
    from xdsl_spirv.runtime.execution import run
    from xdsl_spirv.runtime.program import Program

__all__ = ["Program", "ProgramError", "run"]

__getattr__ = import_on_use(__name__)
