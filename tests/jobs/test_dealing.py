"""The dealer chooses the device of the next job. Workers are only names here."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from xdsl_spirv.jobs.dealing import AHEAD, Dealer, Waiting
from xdsl_spirv.jobs.job import Job

GPU = "vulkan:gpu"


@dataclass
class Devices:
    """A dealer, and the jobs that it sent to workers."""

    workers: dict[str, int]
    open: bool = True
    sent: dict[str, deque[tuple[int, Job]]] = field(
        default_factory=dict[str, "deque[tuple[int, Job]]"]
    )
    count: int = 0

    def __post_init__(self) -> None:
        self.dealer = Dealer(lambda: self.open)
        self.dealer.update({GPU: self.workers})
        self.sent = {worker: deque() for worker in self.workers}

    def offer(self, near: str, note: int = 0, owner: object = None) -> None:
        def send(job: Job, worker: str) -> int:
            self.count += 1
            self.sent[worker].append((self.count, job))
            return self.count

        job = Job("nothing", {}, GPU, near=near, note=note)
        self.dealer.offer(Waiting(owner, job, send))

    def end(self, worker: str) -> Job:
        number, job = self.sent[worker].popleft()
        self.dealer.release(number)
        self.dealer.release(number)
        return job

    def played(self, seconds: Callable[[str, bool], float]) -> tuple[float, Counter[str]]:
        """Simulates all jobs. Returns the total time, and the number of devices per contraction."""
        clocks = dict.fromkeys(self.workers, 0.0)
        loaded: set[tuple[str, str]] = set()
        while any(self.sent.values()):
            worker = min((w for w in self.sent if self.sent[w]), key=lambda w: clocks[w])
            near = self.sent[worker][0][1].near
            clocks[worker] += seconds(near, (worker, near) not in loaded)
            loaded.add((worker, near))
            self.end(worker)
        return max(clocks.values()), Counter(near for _, near in loaded)


def test_a_device_has_one_running_and_one_reserved_job():
    devices = Devices({"a": 1, "b": 2})
    for n in range(12):
        devices.offer("", n)
    assert {w: len(jobs) for w, jobs in devices.sent.items()} == {"a": 1 + AHEAD, "b": 2 + AHEAD}
    devices.end("b")
    assert {w: len(jobs) for w, jobs in devices.sent.items()} == {"a": 1 + AHEAD, "b": 2 + AHEAD}
    assert len(devices.dealer.held(None)) == 12 - 2 * (1 + AHEAD) - 2


@pytest.mark.parametrize("count", [2, 4])
def test_searches_stay_on_their_device_and_no_device_waits(count: int):
    devices = Devices({f"worker {n}": 1 for n in range(count)})
    for n in range(160):
        devices.offer(f"search {n % 16}")
    # Loading takes as long as three jobs. One search is slow.
    end, loads = devices.played(lambda near, new: (3 if near == "search 3" else 1) + 3 * new)
    work = 160 + 2 * 10 + 3 * loads.total()
    assert loads.total() <= 16 + 2 * (count - 1)
    assert end < 1.06 * work / count


def test_an_idle_device_takes_jobs_of_other_devices():
    devices = Devices({"a": 1, "b": 1})
    for n in range(20):
        devices.offer("the only search", n)
    end, _ = devices.played(lambda near, new: 1.0)
    assert end <= 11.0


def test_the_first_job_of_a_search_goes_first():
    devices = Devices({"a": 1})
    for n in range(4):
        devices.offer("first", n)
    devices.offer("second", 10)
    devices.offer("first", 4)
    order = [devices.end("a").note for _ in range(6)]
    assert order == [0, 1, 10, 2, 3, 4]


def test_jobs_of_a_lost_worker_go_elsewhere():
    devices = Devices({"a": 1})
    devices.offer("one", 0)
    devices.end("a")
    devices.dealer.update({})
    devices.offer("one", 1)
    assert not devices.sent["a"]
    devices.sent["b"] = deque()
    devices.dealer.update({GPU: {"b": 1}})
    assert devices.end("b").note == 1


def test_nothing_is_sent_while_the_scheduler_is_away():
    devices = Devices({"a": 1}, open=False)
    mine, yours = object(), object()
    devices.offer("one", 0, mine)
    devices.offer("two", 1, yours)
    assert not devices.sent["a"]
    devices.dealer.withdraw(mine)
    assert not devices.dealer.held(mine)
    devices.open = True
    devices.dealer.update({GPU: {"a": 1}})
    assert [job.note for _, job in devices.sent["a"]] == [1]
