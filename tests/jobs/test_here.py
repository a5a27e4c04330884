"""Jobs on this machine return results, failing jobs are reported, and the overhead is small."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from xdsl_spirv.jobs.engine import Here
from xdsl_spirv.jobs.job import Job, code_digest, from_bytes, to_bytes
from xdsl_spirv.jobs.options import resource
from xdsl_spirv.jobs.places import Place, only
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.testing.faulty_jobs import FAULTY


@pytest.fixture(scope="module")
def engine() -> Generator[Here]:
    with Here(2) as engine:
        yield engine


def job(do: str, seconds: float = 600.0, memory: int | None = None, **data: Any) -> Job:
    return Job(FAULTY, {"do": do, **data}, seconds=seconds, memory=memory)


BAD = {
    "segmentation fault": (job("signal", name="SIGSEGV"), "crashed", "SIGSEGV"),
    "killed twice": (job("signal", name="SIGKILL"), "crashed", "SIGKILL.*out of memory"),
    "ended": (job("exit"), "crashed", "exit status 7"),
    "unforeseen": (job("unknown"), "crashed", "KeyError: 'unknown'"),
    "no data": (job("return what is not data"), "refused", "neither JSON nor bytes"),
    "memory": (job("allocate", memory=1 << 29, bytes=1 << 30), "out of memory", "limit"),
    "wrong": (job("wrong"), "wrong", "3 elements differ"),
    "refused": (job("refuse"), "refused", r"the data is bad \(the job\); give other data"),
    "device lost": (job("lose the device"), "crashed", "the device was lost"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_failed_job_has_its_cause(engine: Here, name: str):
    bad, status, cause = BAD[name]
    ((_, result),) = engine.run([bad])
    assert (result.status, result.ok) == (status, False)
    assert re.search(cause, result.cause), result.cause


def test_a_wrong_result_has_its_value(engine: Here):
    ((_, result),) = engine.run([job("wrong")])
    assert result.value == {"elements": 3}


def test_a_hung_job_costs_its_own_time_only(engine: Here):
    list(engine.run([job("return")] * 4))
    jobs = [job("hang", seconds=1.0), *(job("return", n=n) for n in range(50))]
    results = [result.status for _, result in engine.run(jobs)]
    assert (results.count("late"), results.count("ok")) == (1, 50)


def test_other_jobs_run_beside_a_long_job(engine: Here, tmp_path: Path):
    folder = str(tmp_path)
    waiting = job("meet", n=0, folder=folder, count=21)
    jobs = [waiting, *(job("meet", n=n, folder=folder, count=0) for n in range(1, 21))]
    assert [result.ok for _, result in engine.run(jobs)] == [True] * 21


def test_a_killed_process_is_replaced(engine: Here, tmp_path: Path):
    ((_, result),) = engine.run([job("kill the first time", marker=str(tmp_path / "marker"))])
    assert (result.status, result.value) == ("ok", "done")


def test_processes_stay_warm(engine: Here):
    pids = {result.value for _, result in engine.run([job("return", n=n) for n in range(100)])}
    assert len(pids) <= 2
    assert os.getpid() not in pids


def test_an_engine_costs_less_than_5_milliseconds_a_job(engine: Here):
    jobs = [Job("nothing", {"n": n}) for n in range(300)]
    list(engine.run(jobs[:10]))
    begun = time.process_time()
    assert [result.ok for _, result in engine.run(jobs)] == [True] * len(jobs)
    assert (time.process_time() - begun) / len(jobs) < 0.005


GPUS = [Place("vulkan:gpu", "GPU", "1", f"vulkan:{n}") for n in range(2)]


def on_gpu(count: int) -> list[Job]:
    data = {"do": "return", "sleep": 0.2}
    return [Job(FAULTY, data | {"n": n}, "vulkan:gpu") for n in range(count)]


def test_a_gpu_runs_one_job_at_a_time_beside_jobs_on_cores():
    with Here(1, GPUS) as engine:
        results = [r for _, r in engine.run([*on_gpu(3), job("return")])]
        assert {r.device for r in results} == {"GPU", ""}
        assert len({r.value for r in results}) == 3, "a process a device, one for cores"
        begun = time.monotonic()
        list(engine.run(on_gpu(3)))
        assert time.monotonic() - begun > 0.4


def test_jobs_that_share_a_gpu_take_cores(tmp_path: Path):
    with Here(4, GPUS[:1]) as engine:
        data = {"do": "meet", "folder": str(tmp_path), "count": 4}
        meeting = [Job(FAULTY, data | {"n": n}, "vulkan:gpu", shared=True) for n in range(4)]
        assert all(result.ok for _, result in engine.run(meeting))


def test_jobs_that_only_compile_run_beside_the_job_on_a_gpu(tmp_path: Path):
    with Here(2, GPUS[:1]) as engine:
        data = {"do": "meet", "folder": str(tmp_path), "count": 3}
        jobs = [Job(FAULTY, data | {"n": n}, "vulkan:gpu", runs=n == 0) for n in range(3)]
        assert [job.alone for job in jobs] == [True, False, False]
        assert all(result.ok for _, result in engine.run(jobs))


def test_results_come_before_the_last_job_is_known():
    results: list[str] = []

    def more() -> Iterator[Job]:
        for n in range(1000):
            if results:
                return
            yield job("return", n=n)
            time.sleep(0.01)

    with Here(1) as engine:
        for _, result in engine.run(more()):
            results.append(result.status)
    assert len(results) < 1000


@pytest.mark.parametrize("name", ["vulkan:none", "nonsense"])
def test_a_missing_resource_is_refused(name: str):
    with Here(1, []) as engine, pytest.raises(ProgramError, match="no worker offers"):
        list(engine.run([Job("nothing", {}, name)]))


def test_a_missing_gpu_is_refused():
    gpu = Place("vulkan:gpu", "GPU", "1", "vulkan:0")
    assert only([gpu, Place("lavapipe")], [0]) == [gpu, Place("lavapipe")]
    with pytest.raises(ProgramError, match=r"no device vulkan:3 \(devices: vulkan:0 GPU\)"):
        only([gpu], [3])


def test_an_unknown_kind_is_refused():
    with pytest.raises(ProgramError, match="'sing' is not a kind of job"):
        Job("sing", {})


@pytest.mark.parametrize("value", [None, 1.5, "text", b"\0\xff", {"a": [b"x", {"b": b""}]}])
def test_data_survives_encoding(value: Any):
    assert from_bytes(to_bytes(value)) == value


def test_a_key_depends_on_the_data_and_the_code(monkeypatch: pytest.MonkeyPatch):
    first = Job("nothing", {"a": 1, "b": b"2"})
    assert Job("nothing", {"b": b"2", "a": 1}, "lavapipe", 1.0).key == first.key
    assert Job("nothing", {"b": b"3", "a": 1}).key != first.key
    monkeypatch.setattr("xdsl_spirv.jobs.job.code_digest", lambda: code_digest() + "x")
    assert Job("nothing", {"a": 1, "b": b"2"}).key != first.key


def test_a_cpu_driver_can_be_selected_by_its_index():
    processor = Place("lavapipe", opens="vulkan:0")
    assert only([processor], [0]) == [processor]

    class Offering:
        def resources(self) -> dict[str, int]:
            return {"lavapipe": 1}

    offering: Any = Offering()
    assert resource(offering, "vulkan:0") == "lavapipe"
