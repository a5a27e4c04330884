"""
Builds the page that runs a compiled program in the browser: `build/tutorials/browser/runner`.

The page contains the modules of examples/runner-js, naga from its packages, and a program compiled
for WebGPU.

    python scripts/build_runner_page.py [FOLDER]
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from xdsl_spirv.tools.main import main as xdsl_spirv

ROOT = Path(__file__).resolve().parent.parent
RUNNER = ROOT / "examples" / "runner-js"
NAGA = RUNNER / "node_modules" / "naga-wasm"
OUT = ROOT / "build" / "tutorials" / "browser" / "runner"
FOR_NODE = "runner.mjs"


def copy_naga(folder: Path) -> None:
    """Copies naga and its licences to a folder."""
    if not NAGA.exists():
        quiet = ("--ignore-scripts", "--no-audit", "--no-fund")
        command = ["npm", "ci", *quiet, "--prefix", str(RUNNER)]
        subprocess.run(command, check=True)
    shutil.copytree(NAGA / "dist", folder, ignore=shutil.ignore_patterns("*.ts", "*.map"))
    for licence in NAGA.glob("LICENSE*"):
        shutil.copy(licence, folder)


def build(folder: Path) -> None:
    """Writes the page and its files to a folder."""
    shutil.rmtree(folder, ignore_errors=True)
    copy_naga(folder / "naga")
    for path in (*RUNNER.glob("*.mjs"), *(RUNNER / "page").iterdir()):
        if path.name != FOR_NODE:
            shutil.copy(path, folder)
    source, program = str(folder / "filter.mlir"), str(folder / "filter")
    if xdsl_spirv(["compile", source, "--target", "webgpu", "-o", program]) != 0:
        sys.exit("the program of the runner's page does not compile")


if __name__ == "__main__":
    page = Path(sys.argv[1]) if sys.argv[1:] else OUT
    build(page)
    size = sum(path.stat().st_size for path in page.rglob("*") if path.is_file())
    print(f"the page of the runner in {page}, {size / 1e6:.1f} MB")
