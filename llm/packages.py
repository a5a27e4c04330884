"""The packages of the extra `[llm]`, imported where they are needed."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from xdsl_spirv.runtime.errors import ProgramError


def needed(name: str) -> ModuleType:
    """A package; raises `ProgramError` where it is not installed."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise ProgramError(
            f"the package {name} is not installed", "", "pip install 'xdsl-spirv[llm]'"
        ) from error
