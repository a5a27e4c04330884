"""Patches for xDSL apply to its release, and their tests fail without them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import pytest
import xdsl

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "upstream" / "patches"
PATCHES = sorted(path.stem for path in FOLDER.glob("*.patch"))
RELEASE = "0.75.0"
TIMEOUT = 60
"""Time limit of a patch's tests in seconds. Usually they take ten seconds."""

ALONE, BOTH = ("xdsl.",), ("xdsl.", "xdsl_spirv.")
"""Prefixes of the packages that tests run with: xDSL alone, or xDSL and this package."""

BESIDE = """
from xdsl.universe import Universe

for make_dialect in Universe.get_multiverse().all_dialects.values():
    make_dialect()
"""
"""A pytest plugin that installs all changes of this package in xDSL."""

NEIGHBOURS = [
    *(
        f"tests/filecheck/transforms/{name}.mlir"
        for name in (
            "convert_linalg_to_loops",
            "convert_linalg_to_memref_stream",
            "convert_memref_stream_to_loops",
            "linalg-tiling",
            "linalg-fuse-multiply-add",
            "linalg-to-csl",
            "lift-arith-to-linalg",
            "convert-scf-to-cf",
            "dce",
            "licm",
        )
    ),
    "tests/pattern_rewriter/test_pattern_rewriter.py",
    "tests/irdl/test_declarative_assembly_format.py",
    "tests/interpreters/test_linalg_interpreter.py",
    "tests/dialects/test_linalg.py",
    "tests/test_parser.py",
]
"""xDSL's own tests of patterns and passes, which must pass with the patches."""

XDSL_OPT = """#!{python}
import importlib.metadata
import sys

sys.path.insert(0, {checkout!r})
every = importlib.metadata.entry_points
importlib.metadata.entry_points = lambda **group: [
    entry for entry in every(**group) if entry.value.startswith({packages!r})
]
from xdsl.tools.xdsl_opt import main

main()
"""


def apply(patch: str, checkout: Path, *options: str) -> None:
    """Applies a patch, or some of its files, in a folder. Raises an error with git's message."""
    command = ["git", "apply", *options, str(FOLDER / f"{patch}.patch")]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def make_tree(checkout: Path) -> Path:
    """Turns a folder into a repository, since `git apply` skips files of another repository."""
    subprocess.run(["git", "init", "-q", checkout], check=True)
    return checkout


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if version("xdsl") != RELEASE:
        pytest.skip(f"patches are against xDSL {RELEASE}, {version('xdsl')} is installed")
    checkout = tmp_path_factory.mktemp("xdsl")
    shutil.copytree(Path(xdsl.__file__).parent, checkout / "xdsl")
    return make_tree(checkout)


@pytest.mark.parametrize("patch", PATCHES)
def test_a_patch_applies_to_the_installed_release(patch: str, release: Path):
    apply(patch, release, "--check", "--include=xdsl/*")


def test_the_page_lists_patches_and_workarounds():
    page = (ROOT / "docs" / "upstream.md").read_text()
    files = [path.name for path in (ROOT / "upstream").glob("*.py") if path.stem != "__init__"]
    assert [name for name in (*PATCHES, *files) if f"`{name}`" not in page] == []


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the release's source archive with its tests."""
    folder = tmp_path_factory.mktemp("sources")
    options = ["--no-deps", "--no-binary=:all:", "--no-build-isolation", "-d", str(folder)]
    command = [sys.executable, "-m", "pip", "download", "-q", *options, f"xdsl=={RELEASE}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"xDSL's sources cannot be fetched: {done.stderr[-300:]}")
    with tarfile.open(folder / f"xdsl-{RELEASE}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder / f"xdsl-{RELEASE}"


def read_changed_tests(patch: str) -> list[str]:
    """Returns the tests that a patch changes."""
    lines = (FOLDER / f"{patch}.patch").read_text().splitlines()
    return [line.removeprefix("+++ b/") for line in lines if line.startswith("+++ b/tests/")]


def run_tests(tests: Sequence[str], checkout: Path, packages: tuple[str, ...]) -> int:
    """Returns the exit status of xDSL's tests on the checkout, with these packages."""
    tool = checkout / "bin" / "xdsl-opt"
    tool.parent.mkdir(exist_ok=True)
    values = {"python": sys.executable, "checkout": str(checkout), "packages": packages}
    tool.write_text(XDSL_OPT.format(**values))
    tool.chmod(0o755)
    (checkout / "beside.py").write_text(BESIDE)
    path = os.pathsep.join((str(tool.parent), str(Path(sys.executable).parent), os.environ["PATH"]))
    env = os.environ | {"PATH": path, "PYTHONPATH": str(checkout)}
    pytest_ = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:xdsl_spirv"]
    pytest_ += [] if packages == ALONE else ["-p", "beside"]
    for command, suffix in (
        (pytest_, ".py"),
        ([str(Path(sys.executable).with_name("lit")), "-q"], ".mlir"),
    ):
        names = [name for name in tests if name.endswith(suffix)]
        if not names:
            continue
        try:
            done = subprocess.run([*command, *names], cwd=checkout, env=env, timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            return 1
        if done.returncode:
            return 1
    assert tests
    return 0


@pytest.mark.long
@pytest.mark.parametrize("patch", PATCHES)
def test_a_patch_has_tests_that_fail_without_it(patch: str, sources: Path, tmp_path: Path):
    checkout = make_tree(Path(shutil.copytree(sources, tmp_path / "xdsl")))
    apply(patch, checkout, "--include=tests/*")
    assert run_tests(read_changed_tests(patch), checkout, ALONE) == 1
    apply(patch, checkout, "--include=xdsl/*")
    assert run_tests(read_changed_tests(patch), checkout, ALONE) == 0


def test_patterns_and_passes_of_xdsl_do_the_same_beside_this_package(sources: Path):
    assert run_tests(NEIGHBOURS, sources, BOTH) == 0
