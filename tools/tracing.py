"""Writes the folder of `--trace-passes` atomically."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.tools.trace import INDEX, Stage, Trace, file_of


@contextmanager
def tracing(folder: str | None, title: str) -> Generator[Trace | None]:
    """
    Yields a trace, and writes it into `folder` at the end; yields None without a folder.

    Raises `ProgramError` at once if the folder contains other files.
    """
    if folder is None:
        yield None
        return
    target = Path(folder)
    _refuse_strangers(target)
    trace = Trace(title)
    try:
        yield trace
    except Exception as error:
        trace.failure = f"{type(error).__name__}: {error}"
        raise
    finally:
        _write(trace, target)


def _refuse_strangers(target: Path) -> None:
    there = target.exists() or target.is_symlink()
    if not there or (target.is_dir() and (not any(target.iterdir()) or (target / INDEX).is_file())):
        return
    raise ProgramError(
        "the folder for the trace contains other files", str(target), "name another one"
    )


def _write(trace: Trace, target: Path) -> None:
    """Replaces the folder atomically."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as scratch:
            new = Path(scratch, "new")
            new.mkdir()
            _write_files(trace, new)
            if target.exists():
                shutil.rmtree(target)
            new.rename(target)
    except OSError as error:
        raise ProgramError(
            f"cannot write the trace: {error.strerror}", str(error.filename or target)
        ) from error


def _write_files(trace: Trace, folder: Path) -> None:
    from xdsl_spirv.tools.trace_html import page_of

    before: Stage | None = None
    for number, stage in enumerate(trace.stages):
        if before is None or stage.units != before.units:
            (folder / file_of(number, stage)).write_text(stage.text)
        before = stage
    (folder / INDEX).write_text(page_of(trace))
