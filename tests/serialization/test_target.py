"""`xdsl-opt -t spirv-binary` writes bytes to standard output or a file. Errors leave no file."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from xdsl_spirv.serialization.raw.binary import decode

KERNEL = """
spirv.module {name} Logical Vulkan requires #spirv.vce<v1.6, [Shader, VulkanMemoryModel], []> {{
  spirv.func @{function}() "None" {{
    spirv.Return
  }}
  spirv.EntryPoint "GLCompute" @{function}
}}
"""
ONE = KERNEL.format(name="", function="main")
TWO = KERNEL.format(name="@first", function="f") + KERNEL.format(name="@second", function="g")


def xdsl_opt(text: str, target: str, folder: Path) -> subprocess.CompletedProcess[bytes]:
    program = shutil.which("xdsl-opt", path=str(Path(sys.executable).parent))
    assert program is not None
    command = [program, "-t", target]
    data = text.encode()
    return subprocess.run(command, input=data, cwd=folder, capture_output=True, check=False)


def entry_point(data: bytes) -> str:
    (row,) = (row for row in decode(data) if row.name == "OpEntryPoint")
    return str(row.operands[2].value)


def test_a_binary_is_written_to_standard_output(tmp_path: Path):
    result = xdsl_opt(ONE, "spirv-binary", tmp_path)
    assert result.returncode == 0, result.stderr
    assert entry_point(result.stdout) == "main"


def test_a_binary_is_written_to_a_file(tmp_path: Path):
    result = xdsl_opt(ONE, 'spirv-binary{file="x.spv" names=true}', tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout == b""
    assert [f.name for f in tmp_path.iterdir()] == ["x.spv"]
    data = (tmp_path / "x.spv").read_bytes()
    assert "OpName" in {row.name for row in decode(data)}


def test_one_of_several_modules_can_be_chosen(tmp_path: Path):
    result = xdsl_opt(TWO, "spirv-binary{module=second}", tmp_path)
    assert result.returncode == 0, result.stderr
    assert entry_point(result.stdout) == "g"


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (TWO, 'file="x.spv"', "there are 2 spirv.module in the program (@first, @second)"),
        (TWO, 'file="x.spv" module=third', "there is no spirv.module @third"),
        ("builtin.module {}", 'file="x.spv"', "there is no spirv.module in the program"),
        ("spirv.module Logical Vulkan {}", 'file="x.spv"', "run the pass spirv-update-vce"),
        (ONE, 'file="nowhere/x.spv"', "cannot write nowhere/x.spv: No such file or directory"),
    ],
)
def test_errors_leave_no_file(text: str, options: str, message: str, tmp_path: Path):
    result = xdsl_opt(text, f"spirv-binary{{{options}}}", tmp_path)
    assert result.returncode == 1
    assert message in result.stderr.decode()
    assert list(tmp_path.iterdir()) == []
