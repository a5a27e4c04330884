"""`pytest --xdsl-spirv` collects an item for each launch, and imports nothing earlier."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from xml.etree import ElementTree

PLUGIN = "xdsl_spirv.tools.kernel_test.plugin"


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    installed = any(e.value == PLUGIN for e in entry_points(group="pytest11"))
    load = [] if installed else ["-p", PLUGIN]
    command = [sys.executable, "-m", "pytest", *load, "-p", "no:cacheprovider", "--rootdir", "."]
    return subprocess.run(
        [*command, *options, "."], cwd=folder, capture_output=True, text=True, check=False
    )


def test_launches_are_items(saxpy: Path, racy: Path):
    text = racy.read_text()
    racy.write_text(text.replace("grid = 2", "grid = 2\nsubgroup-sizes = [8, 32]"))
    done = run(saxpy.parent, "--xdsl-spirv", "-v", "--junitxml", "o.xml")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "saxpy.kernel.toml::saxpy[subgroup 32] PASSED" in done.stdout
    assert "sum.kernel.toml::sum[subgroup 8] FAILED" in done.stdout
    assert "tile[l] += tile[l + s];" in done.stdout
    assert "Traceback" not in done.stdout
    assert "2 failed, 1 passed" in done.stdout
    (line,) = (
        x for x in done.stdout.splitlines() if x.startswith("FAILED") and "[subgroup 8]" in x
    )
    assert "sum[subgroup 8] - RACE-0" in line
    suite = ElementTree.parse(saxpy.parent / "o.xml").getroot()[0]
    assert suite.get("failures") == "2"


def test_items_are_chosen_by_name(saxpy: Path, racy: Path):
    done = run(saxpy.parent, "--xdsl-spirv", "-k", "saxpy", "-n", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_a_wrong_description_is_an_error_of_collection(tmp_path: Path):
    (tmp_path / "a.kernel.toml").write_text("kernel = 3")
    done = run(tmp_path, "--xdsl-spirv")
    assert done.returncode == 2
    assert "kernel: 3 is not text" in done.stdout


def test_without_the_option_nothing_is_collected(saxpy: Path):
    done = run(saxpy.parent)
    assert done.returncode == 5, done.stdout + done.stderr


def test_the_plugin_imports_nothing_else_of_ours():
    code = f"import sys, pytest; before = set(sys.modules); import {PLUGIN}; " + (
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= {
        "xdsl_spirv",
        "xdsl_spirv._version",
        "xdsl_spirv.tools",
        "xdsl_spirv.tools.kernel_test",
        PLUGIN,
    }
