"""The store finds stored results, never changes them, merges, and refuses other files."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from xdsl_spirv.jobs.engine import Here
from xdsl_spirv.jobs.job import Job, Result
from xdsl_spirv.jobs.places import Place
from xdsl_spirv.jobs.store import ADD, SHORT, Store
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.testing.faulty_jobs import FAULTY

GPU = Place("vulkan:gpu", "GPU", "driver 1")


@pytest.fixture
def store(tmp_path: Path) -> Generator[Store]:
    with Store(tmp_path / "results.db") as store:
        yield store


def result_of(number: float, place: Place = GPU) -> Result:
    return Result("ok", {"us": number}, device=place.device, driver=place.driver)


def test_a_result_is_found_by_job_device_and_driver(store: Store):
    job = Job("nothing", {"kernel": b"\x03\x02"}, GPU.resource)
    store.add(job, result_of(1.5))
    assert store.find(job, GPU) == result_of(1.5)
    assert store.find(job, Place("vulkan:gpu", "GPU", "driver 2")) is None
    assert store.find(job, Place("vulkan:gpu", "another", "driver 1")) is None
    assert store.find(Job("nothing", {"kernel": b""}, GPU.resource), GPU) is None


def test_the_latest_result_is_found_and_earlier_ones_are_kept(store: Store):
    job = Job("nothing", {})
    store.add(job, Result("lost"))
    store.add(job, Result("ok", 2))
    found = store.find(job, Place("cores"))
    assert found is not None
    assert found.value == 2
    assert [record.result.status for record in store.records("nothing")] == ["lost", "ok"]
    assert list(store.records("other")) == []


@pytest.mark.parametrize("change", ["DELETE FROM results", "UPDATE results SET status='ok'"])
def test_results_are_only_added(store: Store, change: str):
    store.add(Job("nothing", {}), Result("wrong"))
    with sqlite3.connect(store.path) as other, pytest.raises(sqlite3.Error, match="only added"):
        other.execute(change)


def test_an_interrupted_run_continues(store: Store, tmp_path: Path):
    log = tmp_path / "log"
    jobs = [Job(FAULTY, {"do": "return", "log": str(log), "n": n}) for n in range(6)]
    jobs.append(Job(FAULTY, {"do": "wrong", "log": str(log), "n": 6}))
    with Here(1) as engine:
        list(engine.run(jobs[:4], store))
        first = log.read_text()
        results = list(engine.run(jobs, store))
        assert log.read_text().split() == [*first.split(), "4", "5", "6"]
        assert {job.data["n"] for job, _ in results} == set(range(7))
        again = list(engine.run(jobs, store))
    assert len(log.read_text().split()) == 7, "failures are results, too"
    assert sorted(r.status for _, r in again) == sorted(r.status for _, r in results)


def test_merging_copies_new_results_once(store: Store, tmp_path: Path):
    with Store(tmp_path / "other.db") as other:
        store.add(Job("nothing", {"n": 0}), Result("ok"))
        for n in range(3):
            other.add(Job("nothing", {"n": n}), Result("ok", n))
        assert store.merge(other) == 3
        assert store.merge(other) == 0
        assert len(store) == 4


def test_long_bytes_of_a_job_are_kept_as_a_digest(store: Store):
    store.add(Job("nothing", {"kernel": b"x" * (SHORT + 1), "short": b"y"}), Result("ok"))
    (record,) = store.records()
    assert record.data["short"] == b"y"
    assert record.data["kernel"]["length"] == SHORT + 1


def foreign(path: Path) -> None:
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE t (x)")


def newer(path: Path) -> None:
    Store(path).close()
    with sqlite3.connect(path) as other:
        other.execute("PRAGMA user_version=99")


REFUSED = {
    "another database": (foreign, "not a store of results"),
    "a newer version": (newer, "version 99, but this package reads version 1"),
    "no database": (lambda path: path.write_bytes(b"{" * 4096), "not a database"),
    "a folder": (lambda path: path.mkdir(), "unable to open"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_other_files_are_refused_as_stores(tmp_path: Path, what: str):
    make, cause = REFUSED[what]
    make(tmp_path / "file")
    with pytest.raises(ProgramError, match=cause):
        Store(tmp_path / "file")


def test_a_full_disk_is_one_message_and_loses_nothing(store: Store):
    job = Job("nothing", {"n": 0})
    store.add(job, Result("ok", 1))
    pages = store.connection.execute("PRAGMA page_count").fetchone()[0]
    store.connection.execute(f"PRAGMA max_page_count={pages}")
    long = Result("ok", "x" * 4096 * 8)
    with pytest.raises(ProgramError, match=r"is full.*free disk space and run the command again"):
        store.add(Job("nothing", {"n": 1}), long)
    assert store.find(job, Place("cores")) == Result("ok", 1)
    store.connection.execute("PRAGMA max_page_count=100000")
    store.add(Job("nothing", {"n": 1000}), Result("ok"))


def test_several_processes_write_to_one_file(store: Store):
    def write(number: int) -> None:
        with Store(store.path) as own:
            for n in range(50):
                own.add(Job("nothing", {"n": n, "by": number}), Result("ok"))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(write, range(4)))
    assert len(store) == 200


@pytest.mark.parametrize("value", [b"{", b"[" * 100_000, b'{"bytes": 7}', 8.5, "text"])
def test_a_damaged_result_is_refused_and_not_merged(tmp_path: Path, value: object):
    with Store(tmp_path / "bad.db") as bad, Store(tmp_path / "good.db") as good:
        row = ("k", "d", "v", 1.0, "kind", "cores", b"{}", "c", "ok", value, "", 0.1, "w")
        bad.connection.execute(ADD, row)
        with pytest.raises(ProgramError, match="a result is damaged"):
            list(bad.records())
        with pytest.raises(ProgramError, match="a result is damaged"):
            good.merge(bad)
        assert len(good) == 0
