"""Long operations report progress on a terminal, and nowhere else."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from xdsl_spirv.progress import Ticker, heard_by, noted, shown_on, stage
from xdsl_spirv.testing.terminals import read_terminal

EXP = """
func.func @main(%x: tensor<4xf32> {program.name = "x"}) -> tensor<4xf32> {
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


class Listener(list[str]):
    now = 0.0
    ticker: Ticker

    def show(self, text: str) -> None:
        self.append(text)

    def clear(self) -> None:
        self.append("")

    def wait(self, seconds: float) -> None:
        """Advances the clock by `seconds`, then calls the ticker once."""
        self.now += seconds
        self.ticker.tick()


@pytest.fixture
def heard() -> Iterator[Listener]:
    listener = Listener()
    listener.ticker = Ticker(listener, lambda: listener.now)
    with heard_by(listener.ticker):
        yield listener


def test_stages_show_their_progress(heard: Listener):
    for _ in noted("reading", ["a", "b"]):
        heard.wait(3)
    with stage("waiting"):
        heard.wait(1)
        heard.wait(1.5)
    assert heard == [
        "reading 1 of 2 (a), 3 s",
        "reading 2 of 2 (b), 3 s",
        "reading 2 of 2 (b), 6 s",
        "",
        "waiting, 2 s",
        "",
    ]


def test_quick_stages_print_nothing(heard: Listener):
    for _ in noted("reading", ["a", "b"]):
        heard.wait(0.5)
    assert heard == []


def test_the_innermost_long_stage_is_shown(heard: Listener):
    with stage("compiling") as compiling:
        compiling.step("lower-kernels")
        heard.wait(5)
        with stage("encoding"):
            heard.wait(1)
            heard.wait(1)
        heard.wait(1)
    assert heard == [
        "compiling (lower-kernels), 5 s",
        "compiling (lower-kernels), 6 s",
        "encoding, 2 s",
        "",
        "compiling (lower-kernels), 8 s",
        "",
    ]


def test_without_a_listener_no_stage_is_stored():
    with heard_by(None), stage("nobody listens") as alone:
        alone.step("x")
    assert alone.detail == ""


def compile_slowly(heard: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiles with one pass that takes a minute."""
    from xdsl_spirv.compiler.compiler import compile_module
    from xdsl_spirv.runtime.modules import parse_text
    from xdsl_spirv.upstream import passes_on_demand

    contents = passes_on_demand.contents

    def slow(*arguments: Any) -> set[str]:
        heard.wait(60)
        return contents(*arguments)

    monkeypatch.setattr(passes_on_demand, "contents", slow)
    compile_module(parse_text(EXP), "lavapipe")


def run_the_reference_slowly(heard: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    from xdsl_spirv import interpreter
    from xdsl_spirv.compiler import model
    from xdsl_spirv.compiler.host import host_function
    from xdsl_spirv.runtime.modules import parse_text

    def slow(module: ModuleOp, arguments: Any, *_: Any, **__: Any) -> Any:
        heard.wait(60)
        return arguments

    monkeypatch.setattr(interpreter, "reference", slow)
    imported = model.model_of(host_function(parse_text(EXP)), {})
    model.run_reference(imported, {"x": np.zeros(4, np.float32)})


def compare_slowly(heard: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    from xdsl_spirv.compare import onnxruntime

    class Session:
        def __init__(self, *_: Any, **__: Any):
            heard.wait(60)

        def run(self, names: list[str], _: Any) -> list[Any]:
            return [np.zeros(1)] * len(names)

    class Runtime:
        SessionOptions = type("SessionOptions", (), {})
        InferenceSession = Session

    monkeypatch.setattr(onnxruntime, "import_module", lambda _: Runtime)
    onnxruntime._session(b"", {}, ["y"], False)  # pyright: ignore[reportPrivateUsage]


def read_weights_slowly(heard: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    from xdsl_spirv.runtime import weights

    class File(type(Path())):
        def read_bytes(self) -> bytes:
            heard.wait(60)
            return b"\x02\0\0\0\0\0\0\0{}"

    assert weights.load_weights(File("w.safetensors")) == {}


def compile_in_a_driver(heard: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    from xdsl_spirv.runtime.vulkan.worker import Worker

    def slow(*_: Any) -> Any:
        heard.wait(60)
        return "value", 1

    worker = Worker.__new__(Worker)
    monkeypatch.setattr(Worker, "ask", slow)
    assert worker.call("load", None) == 1


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (compile_slowly, r"compiling \([a-z-]+\), 60 s"),
        (run_the_reference_slowly, "running on the reference, 60 s"),
        (compare_slowly, "running onnxruntime, 60 s"),
        (read_weights_slowly, "reading weights, 60 s"),
        (compile_in_a_driver, "the driver compiles kernels, and weights are uploaded, 60 s"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_long_silent_stages_are_reported(
    run: Any, said: str, heard: Listener, monkeypatch: pytest.MonkeyPatch
):
    run(heard, monkeypatch)
    assert re.fullmatch(said, heard[0])
    assert heard[-1] == ""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_fork_is_silent():
    """A forked process shows no progress. Its parent does, after the fork."""
    listener = Listener()
    with shown_on(listener):
        child = os.fork()
        if not child:
            with stage("x") as forked:
                os._exit(0 if forked.ticker is None else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        with stage("x") as own:
            assert own.ticker is not None


def test_a_terminal_shows_a_line_and_clears_it(tmp_path: Path):
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
    said = read_terminal(ours)
    assert re.search(r"compiling \([a-z-]+\), \d+ s", said)
    assert said.endswith("\r\x1b[K")
    assert "compiling" not in done.stdout
    # Nothing is shown without a terminal.
    quiet = subprocess.run(
        [sys.executable, "-c", COMMAND, *words], capture_output=True, check=True, text=True
    )
    assert quiet.stderr == ""
