"""
An installation has every file and no other top-level names, and imports no module before its use.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LINKS = (path for path in (ROOT / "src" / "xdsl_spirv").iterdir() if path.is_symlink())
FOLDERS = {path.name for path in LINKS} - {"testing"}
DATA = {".css", ".html", ".js", ".json", ".py", ".typed"}


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    # Builds a copy, because a build in the repository leaves files that the next build includes.
    code = "import sys, pathlib, check_dist; check_dist.copy_of_the_tree(pathlib.Path(sys.argv[1]))"
    copy = [sys.executable, "-c", code, folder / "source"]
    subprocess.run(copy, cwd=ROOT / "scripts", check=True)
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder]
    done = subprocess.run(
        [*command, folder / "source"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (path,) = folder.glob("*.whl")
    return zipfile.ZipFile(path)


def test_the_wheel_holds_every_module_and_data_file(wheel: zipfile.ZipFile):
    expected = {
        f"xdsl_spirv/{folder}/{path.relative_to(ROOT / folder).as_posix()}"
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.suffix in DATA and "__pycache__" not in path.parts
    }
    own = (
        "__init__.py",
        "images.py",
        "onnx_backend.py",
        "progress.py",
        "py.typed",
        "speech.py",
        "surface.py",
        "torch_backend.py",
        "universe.py",
    )
    expected |= {f"xdsl_spirv/{name}" for name in {*own, "_version.py"}}
    found = {name for name in wheel.namelist() if not name.split("/")[0].endswith(".dist-info")}
    assert found == expected


def test_the_wheel_names_its_command_and_its_universe(wheel: zipfile.ZipFile):
    (name,) = (n for n in wheel.namelist() if n.endswith("entry_points.txt"))
    text = wheel.read(name).decode()
    assert "xdsl-spirv = xdsl_spirv.tools.main:main" in text
    assert "xdsl_spirv = xdsl_spirv.universe:UNIVERSE" in text


def imported_by(code: str) -> set[str]:
    """Returns the modules that a new interpreter has loaded after running `code`."""
    program = f"{code}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    # An installation writes this file. A checkout does not have it.
    return set(done.stdout.split()) - {"xdsl_spirv._version"}


def test_the_universe_imports_none_of_ours_and_not_numpy():
    base = imported_by("from xdsl.universe import Universe")
    found = imported_by("from xdsl.universe import Universe; Universe.get_multiverse()") - base
    ours = {name for name in found if name.startswith("xdsl_spirv.")}
    assert ours == {
        "xdsl_spirv.upstream",
        "xdsl_spirv.upstream.block_labels",
        "xdsl_spirv.upstream.on_demand",
        "xdsl_spirv.upstream.dense_literals",
        "xdsl_spirv.upstream.fast_text",
        "xdsl_spirv.upstream.lazy_formats",
        "xdsl_spirv.upstream.repeated_lines",
        "xdsl_spirv.upstream.on_demand",
        "xdsl_spirv.upstream.string_literals",
        "xdsl_spirv.universe",
    }
    assert "numpy" not in found


def test_dialects_do_not_load_the_grammar_and_the_command_starts_light():
    found = imported_by("import xdsl_spirv.dialects")
    assert "xdsl_spirv.grammar" not in found
    found = imported_by("from xdsl_spirv.tools.main import parser; parser()")
    assert not found & {"numpy", "xdsl", "xdsl_spirv.runtime"}


def test_stock_xdsl_opt_finds_dialects_passes_and_targets(tmp_path: Path):
    source = tmp_path / "x.mlir"
    source.write_text("""
    func.func @main(%A: tensor<8x8xf16>, %B: tensor<8x8xf16>, %C: tensor<8x8xf16>)
        -> tensor<8x8xf16> {
      %r = linalg.matmul ins(%A, %B : tensor<8x8xf16>, tensor<8x8xf16>)
                         outs(%C : tensor<8x8xf16>) -> tensor<8x8xf16>
      return %r : tensor<8x8xf16>
    }""")
    opt = Path(sys.executable).parent / "xdsl-opt"
    passes = ["-p", "linalg-to-spirv{target=lavapipe}"]
    done = subprocess.run([opt, source, *passes], capture_output=True, text=True, check=True)
    assert "spirv.KHR.CooperativeMatrixMulAdd" in done.stdout
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    binary = subprocess.run(
        [opt, source, *passes, "-t", "spirv-binary"],
        capture_output=True,
        check=True,
        env=environment,
    )
    assert binary.stdout[:4] == b"\x03\x02\x23\x07"


def test_pyright_reads_every_room():
    """Pyright follows a link in `src/xdsl_spirv` only if the link is listed."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        included = tomllib.load(file)["tool"]["pyright"]["include"]
    rooms = [
        f"src/xdsl_spirv/{p.name}"
        for p in (ROOT / "src" / "xdsl_spirv").iterdir()
        if p.is_symlink()
    ]
    assert len(rooms) > 10
    assert set(rooms) <= set(included)


@pytest.mark.long
def test_the_wheel_can_be_installed_beside_xdsl_jax(wheel: zipfile.ZipFile):
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed"]
    done = subprocess.run(
        [*command, str(wheel.filename), "xdsl-jax"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    would_install = done.stdout.splitlines()[-1]
    assert "xdsl-jax-" in would_install
    assert "xdsl-spirv-" in would_install.replace("_", "-")
