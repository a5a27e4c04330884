"""`xdsl-spirv worker`, `results` and `--scheduler` print results or one error message."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from xdsl_spirv.jobs.engine import Here
from xdsl_spirv.jobs.job import Job, Result
from xdsl_spirv.jobs.options import open_engine, resource
from xdsl_spirv.jobs.places import Place
from xdsl_spirv.jobs.store import Store
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.testing.faulty_jobs import FAULTY
from xdsl_spirv.tools.main import main


def store_with(path: Path, count: int) -> Path:
    with Store(path) as store:
        for n in range(count):
            store.add(Job("nothing", {"n": n}), Result("ok", device="GPU", driver="driver 1"))
    return path


def test_results_are_counted_and_merged(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    first, second = store_with(tmp_path / "a.db", 2), store_with(tmp_path / "b.db", 3)
    with Store(second) as store:
        store.add(Job(FAULTY, {"do": "hang"}), Result("late", None, "not done within 1 s"))
    assert main(["results", str(first), "--merge", str(second), "--failures"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"4 new results of {second}"
    assert lines[1].startswith(f"{FAULTY} ")
    assert lines[1].endswith(": late: not done within 1 s")
    assert [" ".join(line.split()) for line in lines[2:]] == [
        "1 late faulty",
        "5 ok nothing on GPU (driver 1)",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["results", "missing.db"], "the store does not exist (missing.db)"),
        (["results", "new.db", "--merge", "missing.db"], "the store does not exist (missing.db)"),
        (["worker", "--scheduler", "tcp://127.0.0.1:1", "--device", "99"], "no device vulkan:99"),
    ],
)
def test_errors_are_one_message_and_leave_no_file(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    if arguments[0] == "worker":
        pytest.importorskip("distributed", reason="Dask is not installed")
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 1
    said = capsys.readouterr().err
    assert message in said
    assert len(said.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_worker_without_a_scheduler_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    worker = pytest.importorskip("xdsl_spirv.jobs.worker", reason="Dask is not installed")
    monkeypatch.setattr(worker, "FIRST_SECONDS", 0.5)
    monkeypatch.setattr("xdsl_spirv.tools.jobs.here", lambda: ())
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
    assert main(["worker", "--scheduler", address, "--cores", "1"]) == 3, "the machine is at fault"
    assert f"no scheduler answers at {address}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("scheduler", "device", "message"),
    [
        ("local:0", None, "'local:0' has no valid number of workers"),
        ("local:many", None, "'local:many' has no valid number of workers"),
        (
            "tcp://host:1",
            "vulkan:0",
            "vulkan:0 gives a device's index on one machine, but workers are on several machines",
        ),
    ],
)
def test_a_wrong_scheduler_is_refused(scheduler: str, device: str | None, message: str):
    with pytest.raises(ProgramError, match=message):
        open_engine(scheduler, 1, device)


def test_a_device_selects_a_resource():
    gpus = [Place("vulkan:a", "A", "1", "vulkan:0"), Place("vulkan:b", "B", "1", "vulkan:1")]
    with Here(1, gpus[:1]) as engine:
        assert resource(engine, None) == "lavapipe"
        assert resource(engine, "vulkan") == resource(engine, "vulkan:0") == "vulkan:a"
        assert resource(engine, "vulkan:a") == "vulkan:a"
    with Here(1, gpus) as engine, pytest.raises(ProgramError, match="offered: vulkan:a, vulkan:b"):
        resource(engine, "vulkan")
