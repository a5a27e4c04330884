"""Checks that the optional solvers are installed, and runs `xdsl-spirv prove`."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path

from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.manifest import MANIFEST


def require_solvers() -> None:
    """Raises `ProgramError` if the solvers are not installed."""
    missing = [name for name in ("z3", "bitwuzla", "cvc5") if find_spec(name) is None]
    if missing:
        raise ProgramError(
            f"proofs need {', '.join(missing)}, which are not installed", "",
            "pip install 'xdsl-spirv[prove]'",
        )  # fmt: skip


def prove(arguments: argparse.Namespace) -> int:
    """Runs `xdsl-spirv prove` after checking that the solvers are installed."""
    require_solvers()
    if Path(arguments.kernel, MANIFEST).is_file():
        from xdsl_spirv.runtime.program import Program
        from xdsl_spirv.tools.kernel_proving import limit_command
        from xdsl_spirv.tools.program_proving import report_proofs

        if arguments.entry or arguments.assume:
            raise ProgramError(
                "a program's dispatches already give entry points and sizes", "--entry, --assume",
                "leave the options out, or prove one kernel: DIR/kernels/NAME.spv",
            )  # fmt: skip
        limits = limit_command(arguments)
        return report_proofs(Program.load(arguments.kernel), limits)
    from xdsl_spirv.tools.kernel_proving import command

    return command(arguments)
