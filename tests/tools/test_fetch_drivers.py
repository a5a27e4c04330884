"""Launchers of fetched drivers start the right program, and the shims' compiler is found."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
LIBRARIES = ROOT / ".lavapipe" / "lib"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return __import__("fetch_drivers")


def test_an_emulated_driver_starts_python_with_this_machine_s_packages(
    tmp_path: Path, script: ModuleType
):
    case = "  arm:g610) export GPU=a867; driver=panvk shim=s.so machine=/arm64;;"
    run = tmp_path / "run"
    run.write_text(script.RUN.format(cases=case, loader="ld.so"))
    run.chmod(0o755)
    emulator = tmp_path / "arm64/qemu-aarch64"
    emulator.parent.mkdir()
    emulator.write_text(
        '#!/bin/sh\necho "$GPU $PYTHONPATH"\necho "${PYTHONDONTWRITEBYTECODE-bytecode is kept}"\n'
        'for a in "$@"; do echo "$a"; done\n'
    )
    emulator.chmod(0o755)
    library = "/usr/lib/python311.zip:/usr/lib/python3.11:/usr/lib/python3.11/lib-dynload"
    packages = "/packages:/sources"

    def start(*command: str) -> subprocess.CompletedProcess[str]:
        path = {"PYTHONPATH": f"{library}:{packages}", "PYTHONDONTWRITEBYTECODE": "1"}
        environment = os.environ | path
        arguments = [str(run), *command]
        return subprocess.run(
            arguments, capture_output=True, text=True, env=environment, check=False
        )

    done = start("arm:g610", "/usr/bin/python3.11", "-c", "a b")
    home = tmp_path / "arm64"
    said = done.stdout.splitlines()
    assert said[0] == f"a867 {home}/usr/lib/python3/dist-packages:{packages}"
    assert said[1] == "bytecode is kept"
    assert said[-3:] == [f"{home}/usr/bin/python3", "-c", "a b"]
    assert f"{home}/s.so" in said
    refused = start("arm:g610", "/bin/ls")
    assert refused.returncode == 2
    assert "emulated: it runs with Python only" in refused.stderr
    assert start("arm:g1", "/bin/ls").returncode == 2


def test_a_missing_compiler_for_arm_is_named_with_its_package(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(script.debian.Unavailable, match="package gcc-aarch64-linux-gnu"):
        script.compiler("arm64")


@pytest.mark.skipif(not LIBRARIES.exists(), reason="no lavapipe: scripts/fetch_lavapipe.py")
def test_a_program_on_lavapipe_loads_its_own_libraries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A machine may have two Pythons of one version, whose libraries differ."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    (tmp_path / "lib").symlink_to(LIBRARIES.resolve())
    (tmp_path / "layers").mkdir()
    (tmp_path / "run").write_text("exit 1  # the launcher of an older script")
    monkeypatch.setattr(sys, "argv", ["", "--if-missing", "--prefix", str(tmp_path)])
    assert __import__("fetch_lavapipe").main() == 0
    code = "import _ssl; print(open('/proc/self/maps').read())"

    def list_libraries(*launcher: str) -> set[str]:
        command = [*launcher, sys.executable, "-c", code]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return {word for word in text.split() if ".so" in word}

    fetched = {path.name for path in LIBRARIES.iterdir()}
    expected = {path for path in list_libraries() if Path(path).name not in fetched}
    loaded = list_libraries(str(tmp_path / "run"))
    assert expected <= loaded
    assert {Path(path).name for path in loaded - expected} <= fetched
