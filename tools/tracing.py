"""Writes the folder of `--trace-passes` atomically."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from xdsl_spirv.runtime.replacing import FolderKind
from xdsl_spirv.tools.trace import INDEX, Stage, Trace, file_of

MARKER = ".xdsl-spirv-trace"
"""
Name of an empty file that identifies a trace. `index.html` does not, because other folders may
contain one.
"""
TRACE_FOLDER = FolderKind("trace", MARKER)


@contextmanager
def tracing(folder: str | None, title: str) -> Generator[Trace | None]:
    """
    Yields a trace, and writes it into `folder` at the end; yields None without a folder.

    Raises `ProgramError` at once if the folder contains other files.
    """
    if folder is None:
        yield None
        return
    TRACE_FOLDER.check_place(folder)
    trace = Trace(title)
    try:
        yield trace
    except Exception as error:
        trace.failure = f"{type(error).__name__}: {error}"
        raise
    finally:
        with TRACE_FOLDER.replacing(folder) as new:
            _write_files(trace, new)


def _write_files(trace: Trace, folder: Path) -> None:
    from xdsl_spirv.tools.trace_html import page_of

    before: Stage | None = None
    for number, stage in enumerate(trace.stages):
        if before is None or stage.units != before.units:
            (folder / file_of(number, stage)).write_text(stage.text)
        before = stage
    (folder / MARKER).touch()
    (folder / INDEX).write_text(page_of(trace))
