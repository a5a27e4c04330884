"""`xdsl-spirv generate` prints only the answer, and refuses wrong requests early."""

from __future__ import annotations

import io
import os
import pty
import re
import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("gguf", reason="gguf is not installed (pip install '.[llm]')")
pytest.importorskip("tokenizers", reason="tokenizers is not installed (pip install '.[llm]')")

from xdsl_spirv import progress
from xdsl_spirv.llm.chat import KEY
from xdsl_spirv.llm.loading import ModelFile
from xdsl_spirv.llm.model import LanguageModel
from xdsl_spirv.runtime.caches import VARIABLE
from xdsl_spirv.testing.gguf_models import Shape, write_model
from xdsl_spirv.testing.numpy_session import NumpySession
from xdsl_spirv.testing.reports import json_and_text, missing_figures
from xdsl_spirv.testing.terminals import read_terminal
from xdsl_spirv.testing.vocabularies import byte_pair_metadata
from xdsl_spirv.tools import progress as tools_progress
from xdsl_spirv.tools.failing import end_by_exception
from xdsl_spirv.tools.main import main

CONTEXT = 48
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}<|im_end|>{% endfor %}"
VALUES = byte_pair_metadata([]) | {KEY: TEMPLATE}
SHAPE = Shape(
    blocks=1,
    width=32,
    hidden=32,
    heads=2,
    shared=1,
    vocabulary=len(VALUES["tokenizer.ggml.tokens"]),
    context=CONTEXT,
)
OPTIONS = ("--device", "interpreter", "--prompt", "Hi")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("model") / "tiny.gguf"
    write_model(path, SHAPE, values=VALUES)
    return str(path)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    return tmp_path / "programs"


class Compiled:
    """A program whose sessions are computed by numpy. `sessions` lists the opened ones."""

    def __init__(self) -> None:
        self.weights: dict[str, Any] = {}
        self.manifest = SimpleNamespace(buffers=(), memory=4096)
        self.sessions: list[NumpySession] = []
        self.interrupts = 0

    def function(self, _: str) -> Compiled:
        return self

    def at(self, _: object) -> Compiled:
        return self

    def session(self, device: str, isolated: bool) -> NumpySession:
        assert device == "interpreter"
        session = NumpySession(SHAPE.vocabulary, CONTEXT)
        session.output[:, 256:259] = 0  # A stop token is never the likeliest one.
        if self.interrupts:
            run = session.run

            def interrupted(*arguments: Any, **inputs: Any) -> Any:
                if len(session.runs) == self.interrupts:
                    os.kill(os.getpid(), signal.SIGINT)
                return run(*arguments, **inputs)

            session.run = interrupted
        self.sessions.append(session)
        return session


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Compiled:
    program = Compiled()
    monkeypatch.setattr(ModelFile, "program", lambda *_, **__: program)  # pyright: ignore
    return program


def answer_to(prompt: str, model: str, **options: Any) -> str:
    file = ModelFile.read(model)
    session = Compiled().session("interpreter", True)
    return "".join(LanguageModel(file.prompts, session, CONTEXT).generate(prompt, **options))


def test_standard_output_has_only_the_answer(
    model: str, compiled: Compiled, capsys: pytest.CaptureFixture[str]
):
    assert main(["generate", model, *OPTIONS, "--max-tokens", "12"]) == 0
    printed = capsys.readouterr()
    assert printed.out == answer_to("Hi", model, max_tokens=12) + "\n"
    lines = printed.err.splitlines()
    assert lines[0] == "running on the interpreter, which is slow"
    assert "9 tokens, answered with 12 (--max-tokens)" in lines
    assert any(line.startswith("prefill: 9 tokens in ") for line in lines)
    assert any(line.startswith("decode: 11 tokens in ") for line in lines)
    assert "memory: 0 bytes of weights, 3,072 for 48 tokens of context, 4,096 between" in lines[-1]


def test_the_answer_stays_on_a_terminal(
    model: str, compiled: Compiled, monkeypatch: pytest.MonkeyPatch
):
    """Progress messages do not overwrite the answer."""
    run = NumpySession.run

    def slow(self: NumpySession, *arguments: Any, **inputs: Any) -> Any:
        with progress.stage("running on the device", 1) as stage:
            stage.step()
            return run(self, *arguments, **inputs)

    monkeypatch.setattr(progress, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr(tools_progress.Line.__init__, "__defaults__", (0.0,))
    monkeypatch.setattr(NumpySession, "run", slow)
    master, slave = pty.openpty()
    with os.fdopen(slave, "w", encoding="utf-8") as terminal:
        monkeypatch.setattr(sys, "stdout", terminal)
        monkeypatch.setattr(sys, "stderr", terminal)
        assert main(["generate", model, *OPTIONS, "--max-tokens", "4"]) == 0
        monkeypatch.undo()
    assert answer_to("Hi", model, max_tokens=4).replace("\n", "\r\n") in read_terminal(master)


def test_an_answer_as_json(
    model: str, compiled: Compiled, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    words = ["generate", model, *OPTIONS, "--max-tokens", "12"]
    found, text = json_and_text(*words)
    assert capsys.readouterr().err == ""
    assert text == found["answer"] + "\n" == answer_to("Hi", model, max_tokens=12) + "\n"
    assert (found["end"], found["seed"], found["device"]) == ("limit", None, "interpreter")
    assert main(words) == 0
    said = capsys.readouterr().err
    # Times differ between runs.
    timeless = re.sub(r"[\d.]+ s, [\d.]+ tokens/s", "", said)
    assert timeless != said
    assert not missing_figures(timeless, found)
    for work in found["work"].values():
        assert work["rate"] == pytest.approx(work["tokens"] / work["seconds"])


def test_a_prompt_may_come_from_standard_input(
    model: str,
    compiled: Compiled,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("sys.stdin", io.StringIO("Hello"))
    options = ["--prompt", "-", "--raw", "--device", "interpreter", "--max-tokens", "5"]
    assert main(["generate", model, *options]) == 0
    assert capsys.readouterr().out == answer_to("Hello", model, raw=True, max_tokens=5) + "\n"


def test_a_random_seed_is_printed(
    model: str, compiled: Compiled, capsys: pytest.CaptureFixture[str]
):
    sampled = ["generate", model, *OPTIONS, "--temperature", "2", "--max-tokens", "9"]
    assert main(sampled) == 0
    printed = capsys.readouterr()
    (seed,) = [line.split("seed ")[1] for line in printed.err.splitlines() if "seed " in line]
    assert main([*sampled, "--seed", seed]) == 0
    assert capsys.readouterr().out == printed.out


def test_ctrl_c_ends_the_answer(model: str, compiled: Compiled, capsys: pytest.CaptureFixture[str]):
    compiled.interrupts = 4
    before = signal.getsignal(signal.SIGINT)
    assert main(["generate", model, *OPTIONS]) == 0
    assert signal.getsignal(signal.SIGINT) == before
    printed = capsys.readouterr()
    assert "answered with 5 (interrupted)" in printed.err
    assert len(compiled.sessions[0].runs) == 5
    assert printed.out == answer_to("Hi", model, max_tokens=5) + "\n"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "there is no prompt"),
        (("--prompt", ""), "the message of the user is empty"),
        (("--prompt", "x" * 60), "the prompt has 67 tokens, more than the context of 48"),
        (
            ("--prompt", "x", "--context", "7"),
            "the prompt has 8 tokens, more than the context of 7",
        ),
        (("--prompt", "x", "--context", "49"), "the model was trained on 48"),
        (("--prompt", "x", "--context", "0"), "a context of 0 tokens"),
        (("--prompt", "x", "--raw", "--system", "y"), "a raw prompt must be one text"),
        (("--prompt", "x", "--max-tokens", "0"), "--max-tokens 0"),
        (("--prompt", "x", "--times", "0"), "--times 0"),
        (("--prompt", "x", "--top-p", "0.5"), "top_p has no effect at temperature 0"),
        (("--prompt", "x", "--temperature", "-1"), "temperature is -1"),
        (("--prompt", "x", "--device", "cuda"), "'cuda' is not a Vulkan device"),
        (("--prompt", "x", "--device", "interpreter", "--target", "x"), "there is no target 'x'"),
        (("--prompt", "x", "--jobs", "0"), "--jobs 0"),
    ],
)
def test_impossible_requests_are_refused_before_compiling(
    options: tuple[str, ...],
    said: str,
    model: str,
    compiled: Compiled,
    capsys: pytest.CaptureFixture[str],
):
    assert main(["generate", model, *options]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert said in printed.err
    assert compiled.sessions == []


def test_sigterm_ends_a_server_without_an_error(
    model: str,
    compiled: Compiled,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    uvicorn: Any = pytest.importorskip("uvicorn")
    pytest.importorskip("starlette")
    main_loop = uvicorn.Server.main_loop

    async def terminated(server: Any) -> None:
        signal.raise_signal(signal.SIGTERM)
        await main_loop(server)

    monkeypatch.setattr(uvicorn.Server, "main_loop", terminated)
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    before = signal.getsignal(signal.SIGTERM)
    end_by_exception()
    try:
        assert main(["serve", model, "--device", "interpreter", "--port", "0"]) == 0
    finally:
        signal.signal(signal.SIGTERM, before)
    assert "error" not in capsys.readouterr().err


def test_a_model_beyond_the_memory_is_refused(
    model: str,
    compiled: Compiled,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("xdsl_spirv.llm.loading.physical_bytes", lambda: 60_000)
    assert main(["generate", model, *OPTIONS]) == 1
    assert "but the memory has only 60,000 (the interpreter" in capsys.readouterr().err
    assert compiled.sessions == []


def test_a_file_that_ends_early_is_refused(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    half = tmp_path / "half.gguf"
    half.write_bytes(Path(model).read_bytes()[:-5000])
    assert main(["generate", str(half), *OPTIONS]) == 1
    assert "the file ends within the tensor" in capsys.readouterr().err


def test_kept_programs_can_be_removed(folder: Path, capsys: pytest.CaptureFixture[str]):
    (folder / "one").mkdir(parents=True)
    (folder / "one" / "file").write_bytes(b"12345")
    assert main(["generate", "--empty-cache"]) == 0
    assert f"removed 1 programs of 5 bytes from {folder}" in capsys.readouterr().err
    assert list(folder.iterdir()) == []


@pytest.mark.long
def test_a_model_is_compiled_once_and_answers(model: str, capsys: pytest.CaptureFixture[str]):
    command = ["generate", model, *OPTIONS, "--max-tokens", "4", "--jobs", "1"]
    assert main(command) == 0
    first = capsys.readouterr()
    assert "compiled in" in first.err
    assert main([*command, "--times", "1"]) == 0
    second = capsys.readouterr()
    assert "read the program from" in second.err
    assert re.search(r"a token after \d+: [\d.]+ ms in \d+ kernels: \w", second.err)
    assert first.out == second.out
