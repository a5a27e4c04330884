"""Runs jobs in processes of this machine. Processes are reused, and replaced when they end."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property

from xdsl_spirv.jobs.child import DEVICE_VARIABLE
from xdsl_spirv.jobs.job import CORES, INTERPRETER, KINDS, Job, Result, job_to_bytes
from xdsl_spirv.jobs.places import Place, here
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.processes import Process, ProcessDied, ProcessLate

START_SECONDS = 60.0
"""Seconds in which a process must start and import the code for a kind of job."""
CAUSES = {
    "SIGKILL": ": a user killed it, or the system ran out of memory",
    "SIGABRT": ": it ran out of memory, or an assertion failed",
}


class Child(Process):
    """A process that runs jobs on one device, or on the cores."""

    def __init__(self, place: Place):
        named = {DEVICE_VARIABLE: place.opens}
        super().__init__("xdsl_spirv.jobs.child", launcher=place.launcher, environment=named)
        self.kinds: set[str] = set()

    def perform(self, job: Job) -> Result:
        """
        Returns the job's result. Kills the process after the job's time limit.

        Raises `ProcessDied` if the process dies.
        """
        try:
            if job.kind not in self.kinds:
                refusal = self.ask(KINDS[job.kind].function, START_SECONDS)
                if refusal is not None:
                    return refusal
                self.kinds.add(job.kind)
            result, sound = self.ask(job_to_bytes(job), job.seconds)
        except ProcessLate:
            return Result("late", None, f"the job took longer than {job.seconds:g} s")
        if not sound:
            self.kill()
        return result


class Crew:
    """
    A pool of processes that perform jobs on the devices and cores of this machine. Its methods are
    thread-safe.

    `devices` defaults to all devices of the machine. A job that uses a whole GPU waits until the
    GPU is idle.
    """

    def __init__(self, devices: Iterable[Place] | None = None):
        self.name = f"{socket.gethostname()}:{os.getpid()}"
        self._devices = devices
        self._idle: dict[tuple[Place, bool], list[Child]] = defaultdict(list)
        """Idle processes by device and `Job.alone`: True for jobs that use the whole device."""
        self._busy: set[Child] = set()
        self._lock = threading.Lock()
        self._changed = threading.Condition()
        self._users: dict[tuple[Place, bool], float] = defaultdict(float)
        """Used share of each GPU, by `Job.runs`: False for jobs that only compile."""
        self._closed = False

    @cached_property
    def places(self) -> dict[str, list[Place]]:
        """The devices (places) by resource. GPUs of the same model share a resource."""
        places: dict[str, list[Place]] = defaultdict(list)
        for place in here() if self._devices is None else self._devices:
            places[place.resource].append(place)
        return places

    def at(self, resource: str) -> list[Place]:
        """Returns the devices that offer a resource. Raises `ProgramError` if there are none."""
        if resource in (CORES, INTERPRETER):
            return [Place(resource)]
        if resource not in self.places:
            raise nobody_offers(resource, self.places)
        return self.places[resource]

    def perform(self, job: Job) -> Result:
        """Returns the result of a job, even if its process dies. Waits until a GPU has room."""
        place = self._enter(job)
        try:
            return self._perform(job, place)
        finally:
            self._leave(job, place)

    def _enter(self, job: Job) -> Place:
        """Waits for room on the least loaded device, and reserves it. Returns the device."""
        places = self.at(job.needs)
        if not places[0].is_gpu:
            return places[0]
        with self._changed:
            while True:
                place = min(places, key=lambda place: self._users[place, job.runs])
                if self._users[place, job.runs] + job.share <= 1:
                    self._users[place, job.runs] += job.share
                    return place
                self._changed.wait()

    def _leave(self, job: Job, place: Place) -> None:
        with self._changed:
            self._users[place, job.runs] -= job.share
            self._changed.notify_all()

    def _perform(self, job: Job, place: Place) -> Result:
        begun = time.perf_counter()
        try:
            result = self._attempt(job, place)
        except ProcessDied as error:
            result = Result(
                "crashed", None, f"the job's process died ({error.how}){CAUSES.get(error.how, '')}"
            )
        return replace(
            result,
            seconds=round(time.perf_counter() - begun, 6),
            worker=self.name,
            device=place.device,
            driver=place.driver,
        )

    def _attempt(self, job: Job, place: Place) -> Result:
        """Returns a job's result. Tries once more if another program killed the process."""
        try:
            return self._once(job, place)
        except ProcessDied as error:
            if error.how != "SIGKILL" or self._closed:
                raise
            return self._once(job, place)

    def _once(self, job: Job, place: Place) -> Result:
        child = self._take(place, job.alone)
        try:
            return child.perform(job)
        except BaseException:
            child.kill()
            raise
        finally:
            self._give_back(place, job.alone, child)

    def _take(self, place: Place, alone: bool) -> Child:
        with self._lock:
            idle = self._idle[place, alone]
            child = idle.pop() if idle else None
        if child is None or not child.alive:
            child = Child(place)
        with self._lock:
            if self._closed:
                child.kill()
            self._busy.add(child)
        return child

    def _give_back(self, place: Place, alone: bool, child: Child) -> None:
        with self._lock:
            self._busy.discard(child)
            if child.alive and not self._closed:
                self._idle[place, alone].append(child)
                return
        child.kill()

    def close(self) -> None:
        """Ends all processes. Results of running jobs are lost."""
        with self._lock:
            self._closed = True
            children = [*self._busy, *(c for idle in self._idle.values() for c in idle)]
            self._idle.clear()
        for child in children:
            child.kill()


def nobody_offers(resource: str, offered: Iterable[str]) -> ProgramError:
    """Returns the error for a resource that no worker offers."""
    names = ", ".join(sorted({CORES, INTERPRETER, *offered}))
    return ProgramError(f"no worker offers {resource!r}", f"offered: {names}", "use one of these")
