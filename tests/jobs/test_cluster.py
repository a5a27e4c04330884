"""Jobs on Dask's workers survive dead and hung workers and restarts of the scheduler."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from xdsl_spirv.jobs.job import LAVAPIPE, Job
from xdsl_spirv.jobs.places import Place, here
from xdsl_spirv.jobs.store import Store
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.testing.faulty_jobs import FAULTY

pytest.importorskip("distributed", reason="Dask is not installed: pip install distributed")

from xdsl_spirv.jobs import cluster
from xdsl_spirv.jobs.cluster import Cluster

SCHEDULER = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--no-dashboard"]
WORKER = [sys.executable, "-m", "xdsl_spirv.tools.main", "worker"]


PLAYED = "vulkan:played"


@pytest.fixture(scope="module")
def engine() -> Generator[Cluster]:
    """Yields a cluster of two workers, each with a simulated GPU."""
    played = [Place(PLAYED, "played", "1", f"vulkan:{n}") for n in range(2)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cluster, "here", lambda: (*here(), *played))
        started = Cluster.local(2, cores=2)
    with started as engine:
        deadline = time.monotonic() + 600
        while engine.look()["cores"] < 2 and time.monotonic() < deadline:
            time.sleep(0.1)
        yield engine


@pytest.fixture
def store(tmp_path: Path) -> Generator[Store]:
    with Store(tmp_path / "store.db") as store:
        yield store


def jobs(count: int, **data: Any) -> list[Job]:
    return [Job(FAULTY, {"do": "return", "n": n, **data}, seconds=600) for n in range(count)]


def test_workers_announce_lavapipe_and_interpreter(engine: Cluster, lavapipe: Path):
    assert engine.resources() == {"lavapipe": 2, PLAYED: 2}
    assert engine.look()["cores"] == engine.look()["interpreter"] == 2
    for resource in ("interpreter", "lavapipe"):
        ((_, result),) = engine.run([Job("nothing", {"x": b"y"}, resource)])
        assert result.value == {"x": b"y"}
        assert ("llvmpipe" in result.device) == (resource == "lavapipe")
    assert lavapipe.exists()


def test_jobs_have_the_same_results_as_on_this_machine(engine: Cluster, lavapipe: Path):
    bad = [
        Job(FAULTY, {"do": "never end"}, LAVAPIPE, seconds=2.0),
        Job(FAULTY, {"do": "signal", "name": "SIGSEGV"}),
        Job(FAULTY, {"do": "hang"}, seconds=1.0),
        Job(FAULTY, {"do": "wrong"}),
        Job(FAULTY, {"do": "refuse"}),
    ]
    results = {job.data["do"]: result for job, result in engine.run([*bad, *jobs(20)])}
    statuses = {what: result.status for what, result in results.items()}
    ended = {"signal": "crashed", "hang": "late", "never end": "late"}
    assert statuses == {**ended, "wrong": "wrong", "refuse": "refused", "return": "ok"}
    assert "SIGSEGV" in results["signal"].cause


def test_a_killed_worker_loses_nothing(engine: Cluster, store: Store, tmp_path: Path):
    log = tmp_path / "log"
    results: list[str] = []
    for _, result in engine.run(jobs(40, sleep=0.05, log=str(log)), store):
        results.append(result.status)
        if len(results) == 5:
            os.kill(int(result.worker.rpartition(":")[2]), signal.SIGKILL)
    assert Counter(results) == {"ok": 40}
    assert len(store) == 40
    again = Counter(log.read_text().split())
    assert len(again) == 40
    assert max(again.values()) <= 2, "what the worker was at is tried once more"
    list(engine.run(jobs(40, sleep=0.05, log=str(log)), store))
    assert Counter(log.read_text().split()) == again, "what is recorded is not run again"


def test_a_cluster_costs_less_than_5_milliseconds_a_job(engine: Cluster):
    many = [Job("nothing", {"n": n}) for n in range(400)]
    list(engine.run(many[:50]))
    begun = time.process_time()
    assert Counter(result.status for _, result in engine.run(many)) == {"ok": 400}
    assert (time.process_time() - begun) / len(many) < 0.005


def test_jobs_that_wait_for_a_device_do_not_delay_others(engine: Cluster):
    data = {"do": "return", "sleep": 0.2}
    waiting = [Job(FAULTY, data | {"n": n}, PLAYED, near="ab"[n % 2]) for n in range(10)]
    results = list(engine.run([*waiting, *jobs(8)]))
    assert all(result.ok for _, result in results)
    order = [job.needs for job, _ in results]
    assert order.index("cores") < 4
    assert order[-4:] == [PLAYED] * 4


def test_a_device_that_no_worker_has_is_refused(engine: Cluster):
    with pytest.raises(ProgramError, match=r"no worker offers 'vulkan:none' \(offered: cores, "):
        list(engine.run([Job("nothing", {}, "vulkan:none")]))


def test_a_worker_of_other_code_is_refused(engine: Cluster, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cluster, "code_digest", lambda: "0.0.1+other")
    with pytest.raises(ProgramError, match=r"a worker runs xdsl-spirv .*, not 0.0.1\+other"):
        Cluster(engine.address)
    with pytest.raises(ProgramError, match=r"update the older xdsl-spirv"):
        list(engine.run(jobs(1)))


def test_two_drivers_of_a_device_are_not_mixed(engine: Cluster):
    engine.agree("vulkan:gpu", "GPU", "driver 1")
    with pytest.raises(ProgramError, match=r"two drivers: driver 1 \(GPU\) and driver 2 \(GPU\)"):
        engine.agree("vulkan:gpu", "GPU", "driver 2")


def test_only_the_job_that_kills_its_workers_is_lost(engine: Cluster, store: Store):
    bad = Job(FAULTY, {"do": "kill the worker"})
    results = list(engine.run([bad, *jobs(12, sleep=0.02)], store))
    assert Counter(result.status for _, result in results) == {"ok": 12, "lost": 1}
    found = store.find(bad, engine.place("cores"))
    assert found is not None
    assert "two workers that ran the job died" in found.cause


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def test_an_address_without_a_scheduler_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 0.5)
    for address in (f"tcp://127.0.0.1:{free_port()}", "nonsense:x:y"):
        with pytest.raises(ProgramError, match=f"no scheduler answers at {address}"):
            Cluster(address)


def test_a_restarted_scheduler_continues_the_jobs(store: Store):
    port = free_port()
    address = f"tcp://127.0.0.1:{port}"
    scheduler = subprocess.Popen([*SCHEDULER, "--port", str(port)], stderr=subprocess.DEVNULL)
    without = {"VK_DRIVER_FILES": "none", "XDSL_SPIRV_LAVAPIPE": "none"}
    worker = subprocess.Popen(
        [*WORKER, "--scheduler", address, "--cores", "2"], env=os.environ | without
    )
    started = [scheduler]

    def restart() -> None:
        scheduler.kill()
        scheduler.wait()
        started.append(
            subprocess.Popen([*SCHEDULER, "--port", str(port)], stderr=subprocess.DEVNULL)
        )

    try:
        with connected(address) as engine:
            results: list[str] = []
            for _, result in engine.run(jobs(30, sleep=0.05), store):
                results.append(result.status)
                if len(results) == 5:
                    threading.Thread(target=restart).start()
            assert Counter(results) == {"ok": 30}
            assert len(store) == 30
    finally:
        for process in (worker, *started):
            process.kill()
            process.wait()


def connected(address: str) -> Cluster:
    """Waits up to a minute for a scheduler at an address. Returns an engine that uses it."""
    end = time.monotonic() + 60
    while True:
        try:
            return Cluster(address)
        except ProgramError:
            if time.monotonic() > end:
                raise
