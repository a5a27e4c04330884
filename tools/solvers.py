"""The solvers are an extra: commands that need them say how to install it."""

from __future__ import annotations

import argparse
from importlib.util import find_spec

from xdsl_spirv.runtime.errors import ProgramError


def require_solvers() -> None:
    """Raises `ProgramError` if the solvers are not installed."""
    missing = [name for name in ("z3", "bitwuzla", "cvc5") if find_spec(name) is None]
    if missing:
        raise ProgramError(
            f"proofs need {', '.join(missing)}, which are not installed", "",
            "pip install 'xdsl-spirv[prove]'",
        )  # fmt: skip


def prove(arguments: argparse.Namespace) -> int:
    """Runs `prove`. Modules that need solvers are imported once the solvers are there."""
    require_solvers()
    from xdsl_spirv.tools.kernel_proving import command

    return command(arguments)
