"""
Chooses the worker that gets the next job that uses a whole device.

Dask chooses workers by the load of their cores, so one device may be idle while another device has
a queue. Therefore each device is sent one job to run and one in reserve, and the other jobs wait
in this process. A job goes to the device that ran jobs of its group (`near`), because their data
is loaded there; an idle device takes any job. The first job of each group goes first, because a
search waits for it. Then older groups go first, so that searches end one after another.
"""

from __future__ import annotations

import threading
from bisect import insort
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from xdsl_spirv.jobs.job import Job

AHEAD = 1
"""Number of jobs that a worker has in addition to the jobs that run on its devices."""


@dataclass(frozen=True, eq=False)
class Waiting:
    """A job that was not sent yet. `send` submits it to a worker and returns the task's number."""

    owner: object
    job: Job
    send: Callable[[Job, str], int]


class Dealer:
    """
    A queue of the device jobs of all callers of an engine, which sends them to workers. Its methods
    are thread-safe.
    """

    def __init__(self, is_open: Callable[[], bool] = lambda: True):
        self._is_open = is_open
        self._lock = threading.RLock()
        self._devices: Mapping[str, Mapping[str, int]] = {}
        """Number of devices by resource and worker."""
        self._waiting: dict[str, list[Waiting]] = defaultdict(list)
        self._ages: dict[str, int] = {}
        """The order in which groups of jobs (`near`) arrived."""
        self._taken: Counter[tuple[str, str]] = Counter()
        """Number of device jobs that a worker has, by resource and worker."""
        self._sent: dict[int, tuple[str, str]] = {}
        self._homes: dict[tuple[str, str], str] = {}
        """The first worker that had jobs of a group, by resource and group."""
        self._met: set[tuple[str, str]] = set()
        """Pairs (worker, group) for which the worker had jobs of the group."""

    def update(self, devices: Mapping[str, Mapping[str, int]]) -> None:
        """Sets the number of devices by resource and worker, and sends jobs."""
        with self._lock:
            self._devices = devices
            for resource in list(self._waiting):
                self._deal(resource)

    def offer(self, waiting: Waiting) -> None:
        """Queues a job, and sends it as soon as a device has room for it."""
        with self._lock:
            self._ages.setdefault(waiting.job.near, len(self._ages))
            listed = self._waiting[waiting.job.needs]
            insort(listed, waiting, key=lambda w: self._ages[w.job.near])
            self._deal(waiting.job.needs)

    def release(self, number: int) -> None:
        """Records that a task ended, with or without a result, and sends further jobs."""
        with self._lock:
            place = self._sent.pop(number, None)
            if place is not None:
                self._taken[place] -= 1
                self._deal(place[0])

    def held(self, owner: object) -> list[Job]:
        """Returns the waiting jobs of a caller."""
        with self._lock:
            return [w.job for listed in self._waiting.values() for w in listed if w.owner is owner]

    def withdraw(self, owner: object) -> None:
        """Drops the waiting jobs of a caller."""
        with self._lock:
            for resource, listed in self._waiting.items():
                self._waiting[resource] = [w for w in listed if w.owner is not owner]

    def _deal(self, resource: str) -> None:
        """Sends as many jobs as workers have room for. The least busy worker gets the next job."""
        while self._waiting[resource] and self._is_open():
            if not any(self._deal_to(resource, worker) for worker in self._by_work(resource)):
                return

    def _by_work(self, resource: str) -> list[str]:
        devices = self._devices.get(resource, {})
        return sorted(devices, key=lambda w: self._taken[resource, w] / devices[w])

    def _deal_to(self, resource: str, worker: str) -> bool:
        devices, taken = self._devices[resource][worker], self._taken[resource, worker]
        if taken >= devices + AHEAD:
            return False
        chosen = self._choose(resource, worker, is_idle=taken < devices)
        if chosen is None:
            return False
        self._sent[chosen.send(chosen.job, worker)] = resource, worker
        self._waiting[resource].remove(chosen)
        self._taken[resource, worker] += 1
        if chosen.job.near:
            self._homes.setdefault((resource, chosen.job.near), worker)
            self._met.add((worker, chosen.job.near))
        return True

    def _choose(self, resource: str, worker: str, is_idle: bool) -> Waiting | None:
        """
        Returns the next job for a worker, from a new group or a group that this worker ran before.

        An idle device gets any job.
        """
        listed, devices = self._waiting[resource], self._devices[resource]
        homes = [self._homes.get((resource, w.job.near)) for w in listed]
        for waiting, home in zip(listed, homes, strict=True):
            if home not in devices:
                self._homes.pop((resource, waiting.job.near), None)
                return waiting
        for waiting, home in zip(listed, homes, strict=True):
            if home == worker:
                return waiting
        if not is_idle:
            return None
        met = (waiting for waiting in listed if (worker, waiting.job.near) in self._met)
        return next(met, listed[-1])
