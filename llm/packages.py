"""Imports the packages of the extras `[llm]` and `[serve]` on demand."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from xdsl_spirv.runtime.errors import ProgramError


def needed(name: str, extra: str = "llm") -> ModuleType:
    """Imports a package. Raises `ProgramError` if the package is not installed."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise ProgramError(
            f"the package {name} is not installed", "", f"pip install 'xdsl-spirv[{extra}]'"
        ) from error
