"""
Keeps compiled programs on disk, so that a model is compiled once for a device and its options.

A program is a folder in $XDG_CACHE_HOME/xdsl-spirv/programs, or in `programs` of the folder that
XDSL_SPIRV_CACHE names; XDSL_SPIRV_CACHE=0 keeps nothing. Its name is a digest of the inputs of its
compilation. It appears whole or not at all, and one that cannot be read is made anew.
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
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.program import MANIFEST, Program
from xdsl_spirv.targets import load as load_target

VARIABLE = "XDSL_SPIRV_CACHE"
NAME = "programs"

MOST, MOST_BYTES = 32, 32 << 30
"""Number and bytes of the kept programs; beyond either, the least recently used goes."""

HEAD = 16 << 20
"""Bytes at the start of a file that tell it from others, beside its size and time."""
SAMPLES, SAMPLE = 64, 4 << 10
"""
Number and bytes of samples from the rest of a file: tuned variants of a model differ everywhere.
"""


def folder(name: str = NAME) -> Path | None:
    """Returns where programs, or other things by their `name`, are kept; None for nowhere."""
    named = os.environ.get(VARIABLE)
    if named is not None:
        return None if named in ("", "0") else Path(named, name)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "xdsl-spirv" / name


@stage("looking for a program that was kept")
def path_for(
    model: str | os.PathLike[str],
    target: str,
    options: Mapping[str, Any],
    files: Iterable[str | os.PathLike[str]] = (),
) -> Path | None:
    """
    Returns where the program of a model file, a target and options is kept; None for nowhere.

    `files` are others that it is made from.
    """
    base = folder()
    if base is None:
        return None
    described = replace(load_target(target), provenance={})
    contents = [_contents(Path(file)) for file in (model, *files)]
    tuned = tuned_path_for(described.name)
    table = _contents(tuned) if tuned.is_file() else None
    made_from = [contents, asdict(described), dict(options), table, _code()]
    text = json.dumps(made_from, sort_keys=True, default=sorted)
    return base / f"{Path(model).stem}-{hashlib.sha256(text.encode()).hexdigest()[:32]}"


def load(path: Path | None) -> Program | None:
    """Loads a kept program. Returns None if there is none or it cannot be read."""
    if path is None or not (path / MANIFEST).is_file():
        return None
    try:
        program = Program.load(path)
        os.utime(path)
    except (ProgramError, OSError):
        return None
    return program


def keep(path: Path | None, program: Program) -> str:
    """Keep a program; returns why it could not be, or nothing."""
    if path is None:
        return ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        size = sum(array.nbytes for array in program.weights.values())
        free = shutil.disk_usage(path.parent).free
        # Weights are written beside the old ones, and other programs use the disk, too.
        if free < 2 * size:
            return f"{free:,} bytes are free in {path.parent}, the weights take {size:,}"
        program.save(path)
        drop_oldest(path.parent)
    except ProgramError as error:
        return str(error)
    except OSError as error:
        return f"{path.parent}: {error.strerror}"
    return ""


def empty() -> tuple[int, int]:
    """Removes all programs; returns how many there were, and their bytes."""
    base = folder()
    if base is None or not base.is_dir():
        return 0, 0
    entries = list(base.iterdir())
    size = sum(file.stat().st_size for file in base.rglob("*") if file.is_file())
    for entry in entries:
        shutil.rmtree(entry)
    return len(entries), size


def drop_oldest(base: Path, most: int = MOST, most_bytes: int = MOST_BYTES) -> None:
    """
    Removes the folders and files of a folder that were unused for longest, beyond a number and a
    size; also the remains of a process that was killed while it wrote.
    """
    latest_first = sorted(base.iterdir(), key=lambda entry: entry.stat().st_mtime, reverse=True)
    size = 0
    for number, entry in enumerate(latest_first):
        files = [entry] if entry.is_file() else entry.rglob("*")
        size += sum(file.stat().st_size for file in files if file.is_file())
        if number < most and (size <= most_bytes or not number):
            continue
        if entry.is_file():
            entry.unlink(missing_ok=True)
        else:
            shutil.rmtree(entry, ignore_errors=True)


def _contents(model: Path) -> list[Any]:
    """Size, time and a digest of samples of a file: they identify it without reading all of it."""
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
    """The version of this package, and when its files were written: of a checkout they change."""
    digest = hashlib.sha256()
    for path in sorted(_files(Path(xdsl_spirv.__file__).parent)):
        status = path.stat()
        digest.update(f"{path}|{status.st_size}|{status.st_mtime_ns}\n".encode())
    return [xdsl_spirv.__version__, digest.hexdigest()]


def _files(root: Path) -> Iterator[Path]:
    """The code and the data of the package; its folders may be links."""
    for directory, folders, names in os.walk(root, followlinks=True):
        folders[:] = [name for name in folders if name not in ("__pycache__", "testing")]
        yield from (Path(directory, n) for n in names if n.endswith((".py", ".json")))
