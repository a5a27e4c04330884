"""
Killed, hanging and failing processes, removed folders and missing tools give clean errors.

Scripts replace the process of a driver, so that no driver has to fail.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from xdsl_spirv.compiler import compile_module
from xdsl_spirv.runtime import Program, ProgramError, processes
from xdsl_spirv.runtime.modules import parse_text
from xdsl_spirv.runtime.vulkan import worker
from xdsl_spirv.runtime.vulkan.errors import (
    DeviceLostError,
    DeviceTimeoutError,
    OutOfMemoryError,
    VulkanError,
)
from xdsl_spirv.tools.failing import guarded
from xdsl_spirv.tools.main import main

SOURCE = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %r = linalg.add ins(%x, %x : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>)
    -> tensor<4xf32>
  return %r : tensor<4xf32>
}
"""

SERVING = """
import sys
from xdsl_spirv.runtime.vulkan import serve
from xdsl_spirv.runtime.vulkan.errors import DeviceLostError
def open(self, *arguments):
    raise {}
serve._Server.open = open
serve.main()
"""

SCRIPTS = {
    "killed": "import os; os.kill(os.getpid(), 9)",
    "crashed": "import os; os.kill(os.getpid(), 11)",
    "ended": "raise SystemExit(7)",
    "half an answer": "import os; os.write(1, b'\\0' * 12)",
    "nonsense": "import os, struct; os.write(1, struct.pack('<Q', 4) + b'abcd')",
    "hung": "import time; time.sleep(60)",
    "lost": SERVING.format("DeviceLostError('the device was lost', '', '')"),
    "out of memory": SERVING.format("MemoryError"),
    "a fault of ours": SERVING.format("KeyError('x')"),
}

OUTCOMES: dict[str, tuple[type[Exception], str]] = {
    "killed": (DeviceLostError, r"died \(SIGKILL\).*for lack of memory"),
    "crashed": (DeviceLostError, r"died \(SIGSEGV\).*may crash on a kernel"),
    "ended": (DeviceLostError, r"died \(exit status 7\)"),
    "half an answer": (DeviceLostError, "died"),
    "nonsense": (DeviceLostError, "died"),
    "hung": (DeviceTimeoutError, "did not answer within"),
    "lost": (DeviceLostError, "the device was lost"),
    "out of memory": (OutOfMemoryError, "out of memory"),
    "a fault of ours": (worker.WorkerFault, r"KeyError: 'x' \(in the driver's process: open\)"),
}


@pytest.mark.parametrize("kind", SCRIPTS)
def test_a_failing_driver_process_gives_a_clean_error(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the driver's process fails, an error names the fault, and no process remains."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPTS[kind])
    started: list[worker.Worker] = []
    own = worker.Worker._listen  # pyright: ignore[reportPrivateUsage]

    def listen(self: worker.Worker) -> None:
        started.append(self)
        own(self)

    monkeypatch.setattr(worker.Worker, "_listen", listen)
    monkeypatch.setattr(worker, "open_library", lambda: None)
    monkeypatch.setattr(processes, "python_command", lambda: [sys.executable, str(script)])
    monkeypatch.setattr(worker, "START_SECONDS", 1.0 if kind == "hung" else 60.0)
    error, said = OUTCOMES[kind]
    with pytest.raises(error, match=said):
        worker.open_isolated("vulkan:0")
    (process,) = started
    assert not process.alive


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (worker.WorkerFault("run", "KeyError: 'x'", "Traceback ..."), 70, "has a defect"),
        (DeviceLostError("the device was lost"), 4, "the device was lost"),
        (VulkanError("lost"), 4, "lost"),
    ],
)
def test_every_failure_ends_with_its_status(
    error: Exception, status: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> int:
        # The worker raises this error when the pipe is closed.
        raise error from BrokenPipeError(32, "Broken pipe")

    assert guarded(fail, debug=False) == status
    assert said in capsys.readouterr().err


@pytest.fixture(scope="module")
def program() -> Program:
    return compile_module(parse_text(SOURCE), "lavapipe")


def test_a_removed_directory_gives_a_clean_error(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from xdsl_spirv.runtime import program as module
    from xdsl_spirv.runtime import replacing

    def vanish(*arguments: object) -> None:
        shutil.rmtree(tmp_path / "there")

    monkeypatch.setattr(replacing, "put_in_place", vanish)
    program.save(tmp_path / "there" / "p")
    monkeypatch.undo()
    monkeypatch.setattr(module, "_readable", lambda text: (vanish(), text)[1])  # type: ignore[func-returns-value]
    with pytest.raises(ProgramError, match="cannot write the program: No such file"):
        program.save(tmp_path / "there" / "p")
    assert os.listdir(tmp_path) == []


def test_the_time_limit_of_the_interpreter_ends_a_run(
    program: Program, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program.save(tmp_path / "p")
    path = tmp_path / "p" / "program.json"
    manifest = json.loads(path.read_text())
    manifest["dispatches"][0]["grid"] = [1 << 31, 1, 1]
    path.write_text(json.dumps(manifest))
    arguments = ["run", str(tmp_path / "p"), "--random", "1", "--device", "interpreter"]
    assert main([*arguments, "--timeout", "0.5"]) == 4
    assert "takes more than 0.5 s" in capsys.readouterr().err


BARE = """
import os, sys
del os.fork
from xdsl_spirv.tools.main import main
assert main(["compile", "x.mlir", "--target", "lavapipe", "--jobs", "2", "-o", "p"]) == 0
assert main(["run", "p", "--random", "1", "--device", "interpreter"]) == 0
# These would need /dev/shm.
assert not {"multiprocessing", "_multiprocessing", "_posixshmem"} & {*sys.modules}
"""


def test_programs_run_without_forks_and_shared_memory(tmp_path: Path) -> None:
    (tmp_path / "x.mlir").write_text(SOURCE)
    subprocess.run([sys.executable, "-c", BARE], cwd=tmp_path, check=True, stdout=subprocess.PIPE)
