"""`disassemble` and `assemble` write complete files or none, and errors have a position."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from xdsl_spirv.testing.sampling import sample_module
from xdsl_spirv.tools.main import main


@pytest.fixture
def binary(tmp_path: Path) -> Path:
    path = tmp_path / "x.spv"
    path.write_bytes(sample_module(random.Random(5), 20).encode())
    return path


def test_disassembly_is_assembled_to_the_same_bytes(binary: Path, tmp_path: Path):
    text, again = tmp_path / "x.spvasm", tmp_path / "y.spv"
    assert main(["disassemble", "--raw-id", str(binary), "-o", str(text)]) == 0
    assert text.read_text().startswith("; SPIR-V\n; Version: 1.6\n")
    assert main(["assemble", str(text), "-o", str(again)]) == 0
    assert again.read_bytes() == binary.read_bytes()


def test_text_is_written_to_standard_output(
    binary: Path, capsysbinary: pytest.CaptureFixture[bytes]
):
    options = ["--no-header", "--no-indent", "--offsets"]
    assert main(["disassemble", str(binary), *options]) == 0
    first = capsysbinary.readouterr().out.split(b"\n")[0]
    assert first == b'%1 = OpExtInstImport "GLSL.std.450" ; 0x00000014'


def test_the_version_can_be_set(tmp_path: Path):
    source, output = tmp_path / "x.spvasm", tmp_path / "x.spv"
    source.write_text("%9 = OpTypeVoid")
    options = ["--version-of-spirv", "1.3", "--renumber"]
    assert main(["assemble", str(source), "-o", str(output), *options]) == 0
    assert output.read_bytes()[4:8] == b"\0\3\1\0"
    assert output.read_bytes()[12] == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("OpCapability\n Shaders", "error: 'Shaders' is not a Capability (x.spvasm:2:2); correct"),
        ("OpNop", "error: '1' is not a SPIR-V version; write it like 1.6"),
    ],
)
def test_mistakes_in_the_text_are_refused(
    text: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.chdir(tmp_path)
    Path("x.spvasm").write_text(text)
    options = ["--version-of-spirv", "1"] if text == "OpNop" else []
    assert main(["assemble", "x.spvasm", "-o", "x.spv", *options]) == 1
    assert capsys.readouterr().err.startswith(message)
    assert not Path("x.spv").exists()


def test_a_file_that_is_not_a_binary_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    source, output = tmp_path / "x.spv", tmp_path / "x.spvasm"
    source.write_bytes(b"#!/bin/sh\n")
    assert main(["disassemble", str(source), "-o", str(output)]) == 1
    assert "must begin with SPIR-V's magic number 0x07230203, not 0x" in capsys.readouterr().err
    assert not output.exists()
    assert main(["disassemble", str(tmp_path / "none.spv")]) == 1
    assert "cannot read the input: No such file or directory" in capsys.readouterr().err
