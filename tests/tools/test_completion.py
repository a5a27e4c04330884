"""Shells complete the commands."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from xdsl_spirv.tools.main import main

ASK = """
eval "$(xdsl-spirv completion bash)"
COMP_LINE="$1" COMP_POINT=${#1} COMP_TYPE=9
read -ra COMP_WORDS <<< "$1"
[[ "$1" == *" " ]] && COMP_WORDS+=("")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_python_argcomplete xdsl-spirv
printf '%s\\n' "${COMPREPLY[@]}"
"""

pytestmark = pytest.mark.skipif(
    find_spec("argcomplete") is None or shutil.which("bash") is None,
    reason="argcomplete is not installed, or bash",
)


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Returns a PATH that contains the command."""
    script = tmp_path / "bin" / "xdsl-spirv"
    script.parent.mkdir()
    code = "import sys; from xdsl_spirv.tools.main import main; sys.exit(main())"
    script.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{code}' \"$@\"\n")
    script.chmod(0o755)
    return f"{script.parent}:/usr/bin:/bin"


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("xdsl-spirv compile x.mlir --target nvidia-h", {"nvidia-h200"}),
        pytest.param("xdsl-spirv comp", {"compile", "completion"}, marks=pytest.mark.long),
        pytest.param("xdsl-spirv explain x.mlir --so", {"--sort"}, marks=pytest.mark.long),
    ],
)
def test_bash_completes(path: str, line: str, offered: set[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", path)
    done = subprocess.run(
        ["bash", "-c", ASK, "ask", line], capture_output=True, text=True, check=True
    )
    assert {word.strip() for word in done.stdout.split()} == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(shell: str, capsys: pytest.CaptureFixture[str]):
    assert main(["completion", shell]) == 0
    assert "xdsl-spirv" in capsys.readouterr().out
