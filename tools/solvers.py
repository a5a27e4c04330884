"""The solvers are an extra: commands that need them say how to install it."""

from __future__ import annotations

from importlib.util import find_spec

from xdsl_spirv.runtime.errors import ProgramError


def require_solvers() -> None:
    """Raises `ProgramError` if the solvers are not installed."""
    missing = [name for name in ("z3", "bitwuzla", "cvc5") if find_spec(name) is None]
    if missing:
        raise ProgramError(
            f"proofs need {', '.join(missing)}, which are not installed", "--prove",
            "pip install 'xdsl-spirv[prove]'",
        )  # fmt: skip
