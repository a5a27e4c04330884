"""Failures end with one message and a status that tells who can fix them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from xdsl_spirv.interpreter import InterpreterError
from xdsl_spirv.runtime.errors import LateError, ProgramError
from xdsl_spirv.runtime.vulkan.errors import VulkanError
from xdsl_spirv.tools import failing
from xdsl_spirv.tools.main import main

MODULE = "func.func @f() {\n  func.return\n}\n"

COMMAND = (sys.executable, "-m", "xdsl_spirv.tools.main")


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (ProgramError("no", "here", "do"), 1, "error: no (here); do"),
        (InterpreterError("no"), 1, "error: no"),
        (
            FileNotFoundError(2, "No such file", "x"),
            1,
            "'x': No such file; give the name of an existing file",
        ),
        (OSError(28, "No space left on device"), 3, "cannot write the output: No space left"),
        (PermissionError(13, "Permission denied", "x"), 3, "change its permissions"),
        (MemoryError(), 3, "out of memory"),
        (VulkanError("lost"), 4, "error: lost"),
        (LateError("late"), 4, "error: late"),
        (KeyError("x"), 70, "xdsl-spirv itself has a defect: KeyError: 'x'"),
        (KeyboardInterrupt(), 130, "error: interrupted"),
    ],
)
def test_an_exception_has_a_status(
    error: BaseException,
    status: int,
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run() -> int:
        raise error

    # pytest needs its standard output later.
    monkeypatch.setattr(failing, "_drop_output", lambda: None)
    assert failing.guarded(run, debug=False) == status
    printed = capsys.readouterr().err
    assert said in printed
    assert printed.count("\n") == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("-p form-dispatch", "no pass 'form-dispatch'; did you mean 'form-dispatches'?"),
        ("-p form-attention{targt=x}", '"targt"'),
        ("--frontend mlir none", "'none': No such file"),
        ("-o no/x.mlir", "cannot write the output: No such file or directory (no/x.mlir)"),
        ("-o .", "cannot write the output: Is a directory"),
    ],
)
def test_mistakes_of_the_user_have_their_status(
    given: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: object
) -> None:
    monkeypatch.chdir(tmp_path)
    assert isinstance(capsys, pytest.CaptureFixture)
    Path("x.mlir").write_text(MODULE)
    arguments = given.split()
    file = [] if arguments[-1] == "none" else ["x.mlir"]
    assert main(["opt", *arguments, *file]) == 1
    printed = capsys.readouterr().err
    assert said in printed
    assert "has a defect" not in printed
    assert [path.name for path in tmp_path.iterdir()] == ["x.mlir"]


def test_special_files_are_written_to(tmp_path: Path) -> None:
    """A pipe is not replaced by a file, and a link stays a link."""
    (tmp_path / "x.mlir").write_text(MODULE)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "file").write_text("")
    reader = subprocess.Popen(["cat", tmp_path / "pipe"], stdout=subprocess.PIPE, text=True)
    for name in ("pipe", "link"):
        assert main(["opt", str(tmp_path / "x.mlir"), "-o", str(tmp_path / name)]) == 0
    assert "func.func @f" in reader.communicate(timeout=1000)[0]
    assert (tmp_path / "link").is_symlink()
    assert "func.func @f" in (tmp_path / "file").read_text()


def test_an_interrupt_during_a_class_definition_has_its_status(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Python 3.11 wraps the interrupt in an error of the class."""

    def interrupted() -> int:
        raise RuntimeError("Error calling __set_name__") from KeyboardInterrupt()

    assert failing.guarded(interrupted, False) == 130
    assert capsys.readouterr().err == "error: interrupted\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("words", ["opt x.mlir", "--help", "compile --help", "opt --help"])
def test_a_full_disk_has_a_status(words: str, tmp_path: Path) -> None:
    (tmp_path / "x.mlir").write_text(MODULE)
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*COMMAND, *words.split()],
            cwd=tmp_path,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 3
    assert done.stderr == (
        "error: cannot write the output: No space left on device; "
        "free some space, or use another folder\n"
    )


@pytest.mark.parametrize(
    ("number", "status", "said"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
)
def test_signals_while_modules_are_imported(number: int, status: int, said: str) -> None:
    """The signal arrives during numpy's import."""
    script = (
        "import builtins, os, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell's & ignores it
        "own = builtins.__import__\n"
        "def interrupting(name, *rest):\n"
        "    if name == 'numpy.linalg':\n"
        "        builtins.__import__ = own\n"
        f"        os.kill(os.getpid(), {int(number)})\n"
        "    return own(name, *rest)\n"
        "from xdsl_spirv.tools.main import main\n"
        "builtins.__import__ = interrupting\n"
        "sys.argv = ['xdsl-spirv', 'validate', 'none.spv']\n"
        "sys.exit(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (status, f"error: {said}\n")


def test_a_closed_pipe_ends_the_command(tmp_path: Path) -> None:
    (tmp_path / "x.mlir").write_text(MODULE)
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [*COMMAND, "opt", tmp_path / "x.mlir"],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize(
    ("error", "status"),
    [(KeyboardInterrupt, 130), (failing.Terminated, 143), (MemoryError, 3)],
)
def test_signals_while_options_are_declared_have_a_status(
    error: type[BaseException], status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def declare(parser: object) -> None:
        raise error

    monkeypatch.setattr("xdsl_spirv.tools.tuning.options.tune", declare)
    assert main(["tune", "x.mlir"]) == status


def test_debug_shows_where_an_error_was_raised() -> None:
    with pytest.raises(FileNotFoundError):
        main(["opt", "none.mlir", "--debug"])


DROPPED = """
import signal, sys, time
from xdsl_spirv.tools import failing

class Dropping:
    def __del__(self):
        signal.raise_signal(signal.SIGNUMBER)

def run():
    held = [Dropping()]
    del held[:]
    end = time.monotonic() + 30
    while time.monotonic() < end:
        pass
    return 0

# Tests that were started in the background may have had interrupts ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
failing.end_by_exception()
sys.exit(failing.guarded(run, debug=False))
"""


@pytest.mark.parametrize(("name", "status"), [("SIGTERM", 143), ("SIGINT", 130)])
def test_a_signal_where_python_drops_exceptions(name: str, status: int) -> None:
    code = DROPPED.replace("SIGNUMBER", name)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_closed_output_is_not_an_error(tmp_path: Path) -> None:
    (tmp_path / "x.mlir").write_text(MODULE)
    line = f"exec {sys.executable} -m xdsl_spirv.tools.main opt x.mlir >&-"
    done = subprocess.run(
        ["sh", "-c", line], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.long
def test_two_hundred_faults_have_their_status() -> None:
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, root / "scripts" / "faults.py", "--jobs", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
