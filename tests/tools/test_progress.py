"""Progress: what takes long is said on a terminal, and nowhere in the way."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

import xdsl_spirv.progress as progress
from xdsl_spirv.progress import noted, shown_on, stage

EXP = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %y = linalg.exp ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}"""

COMMAND = """
import sys
import xdsl_spirv.progress as progress
from xdsl_spirv.tools.main import main
progress.QUIET_SECONDS = 0
sys.exit(main(sys.argv[1:]))
"""


class Heard(list[str]):
    """A display that keeps what it hears."""

    def show(self, text: str) -> None:
        self.append(text)

    def clear(self) -> None:
        self.append("")


def test_stages_say_how_far_they_are(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0)
    heard = Heard()
    with shown_on(heard):
        assert list(noted("reading", ["a", "b"])) == ["a", "b"]
        with stage("waiting") as waiting:
            waiting.tick()
    assert heard == ["reading 1 of 2 (a), 0 s", "reading 2 of 2 (b), 0 s", "", "waiting, 0 s", ""]
    with stage("nobody listens") as alone:
        alone.step()
    assert len(heard) == 5


def test_what_is_quick_says_nothing():
    heard = Heard()
    with shown_on(heard):
        list(noted("reading", ["a", "b"]))
    assert heard == [""]


def test_a_terminal_sees_a_line_that_is_taken_away(tmp_path: Path):
    source = tmp_path / "x.mlir"
    source.write_text(EXP)
    words = ["compile", source, "--target", "lavapipe", "-o", tmp_path / "p"]
    ours, theirs = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, *words],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "80"},
        check=True,
        text=True,
    )
    os.close(theirs)
    said = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert re.search(r"compiling \([a-z-]+\), \d+ s", said)
    assert said.endswith("\r\x1b[K")
    assert "compiling" not in done.stdout
    # Where nobody looks nothing is said.
    quiet = subprocess.run(
        [sys.executable, "-c", COMMAND, *words], capture_output=True, check=True, text=True
    )
    assert quiet.stderr == ""
