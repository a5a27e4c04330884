"""
Caches compiled programs on disk, so that a model is compiled once for a device and options.

A program is a folder of the cache `programs`. Its name is a digest of the inputs of its
compilation. Programs are written atomically, and a program that cannot be read is compiled again.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

import xdsl_spirv
from xdsl_spirv.passes.schedule.tuned import path_for as tuned_path_for
from xdsl_spirv.progress import stage
from xdsl_spirv.runtime.caches import cache_folder, drop_oldest
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.manifest import MANIFEST
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.targets import load as load_target

NAME = "programs"
MOST, MOST_BYTES = 32, 32 << 30
"""Maximum number and bytes of cached programs. The least recently used ones are removed."""

HEAD = 16 << 20
"""Bytes at the start of a file that are hashed to identify the file."""
SAMPLES, SAMPLE = 64, 4 << 10
"""Number and bytes of samples that are hashed from the rest of a file."""


@stage("looking for a program in the cache")
def path_for(
    model: str | os.PathLike[str],
    target: str,
    options: Mapping[str, Any],
    files: Iterable[str | os.PathLike[str]] = (),
) -> Path | None:
    """
    Returns the cache path of a program by model file, target and options; None if disabled.

    `files` are further inputs of the compilation.
    """
    base = cache_folder(NAME)
    if base is None:
        return None
    described = asdict(replace(load_target(target), provenance={}), dict_factory=_without_origins)
    contents = [_contents(Path(file)) for file in (model, *files)]
    tuned = tuned_path_for(described["name"])
    table = _contents(tuned) if tuned.is_file() else None
    made_from = [contents, described, dict(options), table, _code()]
    text = json.dumps(made_from, sort_keys=True, default=sorted)
    return base / f"{Path(model).stem}-{hashlib.sha256(text.encode()).hexdigest()[:32]}"


def _without_origins(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    """
    Drops the dates and scripts of a target's constants, because programs do not depend on them.
    """
    return {name: value for name, value in fields if name != "fitted"}


def load(path: Path | None) -> Program | None:
    """Loads a cached program. Returns None if there is none or it cannot be read."""
    if path is None or not (path / MANIFEST).is_file():
        return None
    try:
        program = Program.load(path)
        os.utime(path)
    except (ProgramError, OSError):
        return None
    return program


def keep(path: Path | None, program: Program) -> str:
    """Writes a program to the cache. Returns the reason if this failed, otherwise ""."""
    if path is None:
        return ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        size = sum(array.nbytes for array in program.weights.values())
        free = shutil.disk_usage(path.parent).free
        # Old weights are replaced only after the write, and other programs need disk space, too.
        if free < 2 * size:
            return f"{free:,} bytes are free in {path.parent}, the weights take {size:,}"
        program.save(path)
        drop_oldest(path.parent, MOST, MOST_BYTES)
    except ProgramError as error:
        return str(error)
    except OSError as error:
        return f"{path.parent}: {error.strerror}"
    return ""


def empty() -> tuple[int, int]:
    """Removes all cached programs. Returns their number and their bytes."""
    base = cache_folder(NAME)
    if base is None or not base.is_dir():
        return 0, 0
    entries = list(base.iterdir())
    size = sum(file.stat().st_size for file in base.rglob("*") if file.is_file())
    for entry in entries:
        shutil.rmtree(entry)
    return len(entries), size


def _contents(model: Path) -> list[Any]:
    digest = hashlib.sha256()
    with model.open("rb") as file:
        status = os.fstat(file.fileno())
        digest.update(file.read(HEAD))
        for sample in range(SAMPLES):
            file.seek(status.st_size * sample // SAMPLES)
            digest.update(file.read(SAMPLE))
    return [status.st_size, status.st_mtime_ns, digest.hexdigest()]


@cache
def _code() -> list[Any]:
    """Returns the package version and a digest of its files' sizes and times."""
    digest = hashlib.sha256()
    for path in sorted(_files(Path(xdsl_spirv.__file__).parent)):
        status = path.stat()
        digest.update(f"{path}|{status.st_size}|{status.st_mtime_ns}\n".encode())
    return [xdsl_spirv.__version__, digest.hexdigest()]


def _files(root: Path) -> Iterator[Path]:
    """Yields the code and data files of the package, whose folders may be links."""
    for directory, folders, names in os.walk(root, followlinks=True):
        folders[:] = [name for name in folders if name not in ("__pycache__", "testing")]
        yield from (Path(directory, n) for n in names if n.endswith((".py", ".json")))
