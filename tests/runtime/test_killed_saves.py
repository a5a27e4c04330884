"""
After a save is killed at any time, the path contains a complete program, old or new.

The process exits without cleanup at each audit event before a file is opened, created, moved or
removed.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from xdsl_spirv.compiler import compile_module
from xdsl_spirv.runtime import Program, ProgramError, replacing
from xdsl_spirv.runtime.modules import parse_text

EVENTS = ("open", "os.", "shutil.", "tempfile.", "fcntl.")

SOURCE = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
  %e = tensor.empty() : tensor<4xf32>
  %r = linalg.{} ins(%x, %x : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>)
    -> tensor<4xf32>
  return %r : tensor<4xf32>
}}
"""

KILLED = 9


@pytest.fixture(scope="module")
def programs() -> list[Program]:
    return [compile_module(parse_text(SOURCE.format(op)), "lavapipe") for op in ("add", "mul")]


def killed_at(number: int, save: Callable[[], None]) -> int:
    """Returns the status of a process that exits before the audit event with this index."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    left = number

    def count(event: str, arguments: object) -> None:
        nonlocal left
        if event.startswith(EVENTS):
            left -= 1
            if left < 0:
                os._exit(KILLED)

    try:
        sys.addaudithook(count)
        save()
        os._exit(0)
    finally:
        os._exit(1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing can be forked here")
@pytest.mark.parametrize(("exchanges", "there"), [(True, True), (False, True), (True, False)])
def test_a_killed_save_leaves_a_complete_program(
    exchanges: bool,
    there: bool,
    programs: list[Program],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If folders cannot be exchanged, the next save restores the moved folder."""
    if not exchanges:
        monkeypatch.setattr(replacing, "_exchange", lambda one, other: 38)
    old, new = programs
    place = tmp_path / "p"
    number, status = -1, KILLED
    while status == KILLED:
        number += 1
        shutil.rmtree(place, ignore_errors=True)
        if there:
            old.save(place)
        status = killed_at(number, lambda: new.save(place))
        if not exchanges and not place.exists():
            with pytest.raises(ProgramError, match="no room"):
                _failing_save(new, place)
        assert Program.load(place) in programs if place.exists() else not there
    assert status == 0
    assert number > 10
    new.save(place)
    assert Program.load(place) == new
    assert os.listdir(tmp_path) == ["p"]


def _failing_save(program: Program, place: Path) -> None:
    class Failing(Program):
        def _write(self, folder: Path, text: bool) -> None:
            raise OSError(28, "no room")

    Failing(program.manifest, program.code).save(place)


def test_concurrent_saves_succeed(programs: list[Program], tmp_path: Path) -> None:
    """Each save succeeds, and one complete program remains."""
    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(programs[n % 2].save, tmp_path / "p") for n in range(100)]:
            done.result()
    assert Program.load(tmp_path / "p") in programs
    assert os.listdir(tmp_path) == ["p"]


def test_a_save_replaces_a_program_that_appears(
    programs: list[Program], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The save checks repeatedly if the program exists. Another process creates it after the first
    check.
    """
    place = tmp_path / "p"
    appeared: list[Path] = []

    def appear_after(ask: Callable[..., os.stat_result]) -> Callable[..., os.stat_result]:
        def answer(path: str | Path, **named: bool) -> os.stat_result:
            try:
                return ask(path, **named)
            finally:
                if path == place and not appeared:
                    appeared.append(place)
                    programs[0].save(place)

        return answer

    monkeypatch.setattr(os, "stat", appear_after(os.stat))
    monkeypatch.setattr(os, "lstat", appear_after(os.lstat))
    programs[1].save(place)
    monkeypatch.undo()
    assert appeared
    assert Program.load(place) == programs[1]


def test_a_failed_save_leaves_what_was_there(programs: list[Program], tmp_path: Path) -> None:
    programs[0].save(tmp_path / "p")
    with pytest.raises(ProgramError, match="no room"):
        _failing_save(programs[1], tmp_path / "p")
    assert Program.load(tmp_path / "p") == programs[0]
    assert os.listdir(tmp_path) == ["p"]
