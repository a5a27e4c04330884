"""One command packages the VS Code extension into an installable file."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "editors" / "vscode"


@pytest.mark.long
def test_the_extension_is_packaged(tmp_path: Path) -> None:
    """vsce checks the manifest. The file has the extension and its client."""
    npm = shutil.which("npm")
    if npm is None:
        assert "XDSL_SPIRV_REQUIRE_TOOLS" not in os.environ
        pytest.skip("npm is not installed")
    folder = tmp_path / "extension"
    shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns("node_modules", "*.vsix"))
    done = subprocess.run([npm, "run", "package"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    with zipfile.ZipFile(folder / "xdsl-spirv.vsix") as package:
        names = set(package.namelist())
        manifest = json.loads(package.read("extension/package.json"))
        described = package.read("extension.vsixmanifest").decode()
    assert {"[Content_Types].xml", f"extension/{Path(manifest['main']).name}"} <= names
    for module in manifest["dependencies"]:
        assert f"extension/node_modules/{module}/package.json" in names
    assert f'Publisher="{manifest["publisher"]}"' in described
    assert f'Version="{manifest["version"]}"' in described
