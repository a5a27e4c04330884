"""Commands import only the modules for their input and passes, and not the interpreter."""

from __future__ import annotations

import importlib
import json
import py_compile
import subprocess
import sys
from pathlib import Path

import pytest

MOST = 167
"""Maximum number of modules and packages of xdsl_spirv that compiling one matmul imports."""

MATMUL = """
func.func @main(%a: tensor<64x64xf16>, %b: tensor<64x64xf16>) -> tensor<64x64xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<64x64xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<64x64xf32>) -> tensor<64x64xf32>
  %c = linalg.matmul ins(%a, %b : tensor<64x64xf16>, tensor<64x64xf16>)
                     outs(%init : tensor<64x64xf32>) -> tensor<64x64xf32>
  return %c : tensor<64x64xf32>
}
"""

COMMAND = """
import sys
from xdsl_spirv.tools.main import main
assert main({arguments}) == 0
print(*sys.modules)
"""


def modules_after(*arguments: str | Path) -> set[str]:
    """Returns the modules of a process that ran a command."""
    code = COMMAND.format(arguments=list(map(str, arguments)))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("startup") / "program"


@pytest.fixture(scope="module")
def modules(program: Path) -> set[str]:
    """Returns the modules of a process that compiled a matmul for cooperative matrices."""
    source = program.with_name("matmul.mlir")
    source.write_text(MATMUL)
    return modules_after("compile", source, "--target", "nvidia-h200", "-o", program)


def test_compile_imports_few_modules(modules: set[str]):
    ours = sorted(name for name in modules if name.partition(".")[0] == "xdsl_spirv")
    assert len(ours) < MOST, "\n".join(ours)


@pytest.mark.parametrize(
    "unneeded",
    [
        "numpy",
        "ml_dtypes",
        "safetensors",
        "importlib.metadata",
        "xdsl_spirv.interpreter",
        "xdsl_spirv.runtime.vulkan",
        "xdsl_spirv.compare",
        "xdsl_spirv.serialization.decode",
        "xdsl_spirv.dialects.spirv.glsl",
        "xdsl_spirv.dialects.spirv.group",
        "xdsl_spirv.passes.kernel.attention_code",
        "xdsl_spirv.passes.loops.code",
        "xdsl_spirv.passes.graph.sink_reshapes",
        "xdsl_spirv.passes.graph.zero_points",
        "xdsl_spirv.dialects.spirv.bit",
        "xdsl_spirv.passes.analysis.unpacking",
        "xdsl_spirv.passes.kernel.packed",
        "xdsl_spirv.passes.kernel.unpacked",
        "xdsl_spirv.dialects.spirv.raw",
        "xdsl_spirv.frontends.model",
    ],
)
def test_compile_imports_nothing_that_a_matmul_does_not_need(modules: set[str], unneeded: str):
    assert unneeded not in modules


def test_the_process_of_a_device_imports_neither_xdsl_nor_the_compiler():
    code = "import sys, xdsl_spirv.runtime.vulkan.serve; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = done.stdout.split()
    assert "xdsl_spirv.runtime.vulkan.device" in modules
    unneeded = ("xdsl", "xdsl_spirv.dialects", "xdsl_spirv.compiler", "xdsl_spirv.passes")
    assert not [name for name in modules if name in unneeded]


@pytest.mark.usefixtures("modules")
def test_validate_imports_the_families_of_the_module(program: Path):
    (binary,) = program.glob("kernels/*.spv")
    families = {
        name.removeprefix("xdsl_spirv.dialects.spirv.")
        for name in modules_after("validate", binary)
    }
    assert "cooperative_matrix" in families
    assert not families & {"glsl", "group", "opencl", "vendor", "atomic", "tensor_arm"}


def test_imports_on_use_without_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The site and installers of applications ship byte code alone."""
    source = tmp_path / "lazy_package" / "__init__.py"
    source.parent.mkdir()
    source.write_text(
        "from typing import TYPE_CHECKING\n"
        "from xdsl_spirv import import_on_use\n"
        "if TYPE_CHECKING:\n"
        "    from json.decoder import JSONDecodeError, JSONDecoder\n"
        "__all__ = ['JSONDecodeError', 'JSONDecoder']\n"
        "__getattr__ = import_on_use(__name__)\n"
    )
    py_compile.compile(str(source), str(source.with_suffix(".pyc")))
    source.unlink()
    monkeypatch.syspath_prepend(tmp_path)
    package = importlib.import_module("lazy_package")
    assert package.JSONDecoder is json.JSONDecoder
    assert package.JSONDecodeError is json.JSONDecodeError
