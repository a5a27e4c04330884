"""
Performs jobs in processes of this machine (`Here`), or of many machines (`cluster.py`).

    with Here(cores=4) as engine:
        for job, result in engine.run(jobs, store):
            ...

Results come in the order in which jobs end. Several threads may run jobs on one engine. A search
chooses its next jobs by earlier results. If each search has a thread, the device runs the jobs of
other searches while one search waits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Container, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import TYPE_CHECKING

from xdsl_spirv.jobs.crew import Crew
from xdsl_spirv.jobs.job import Job, Result
from xdsl_spirv.jobs.places import Place
from xdsl_spirv.runtime.closing import Closing

if TYPE_CHECKING:
    from xdsl_spirv.jobs.store import Store

OPEN = 1000
"""Number of jobs that are taken from the caller before the first one ends."""


class Engine(Closing, ABC):
    """Base class of engines, which perform jobs. The context manager ends an engine's processes."""

    @abstractmethod
    def place(self, resource: str) -> Place:
        """Returns a resource's device and driver. Raises `ProgramError` if no worker offers it."""

    @abstractmethod
    def resources(self) -> Counter[str]:
        """Returns how many jobs of each resource, except cores, run at a time."""

    @abstractmethod
    def perform(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, Result]]:
        """Yields each job with its result, in the order in which jobs end."""

    @abstractmethod
    def close(self) -> None:
        """Ends all processes that the engine started. A second call does nothing."""

    def run(
        self, jobs: Iterable[Job], store: Store | None = None, anew: Container[str] = ()
    ) -> Iterator[tuple[Job, Result]]:
        """
        Yields each job with its stored result, or else with a new result that is then stored.

        Stored results are not used for jobs whose keys are in `anew`. Raises `ProgramError` for a
        resource that no worker offers, and for a store that cannot be written.
        """
        if store is None:
            yield from self.perform(jobs)
            return
        recorded: deque[tuple[Job, Result]] = deque()

        def missing() -> Iterator[Job]:
            for job in jobs:
                place = self.place(job.needs)
                result = None if job.key in anew else store.find(job, place)
                if result is None:
                    yield job
                else:
                    recorded.append((job, result))

        for job, result in self.perform(missing()):
            store.add(job, result)
            yield from _empty_pairs(recorded)
            yield job, result
        yield from _empty_pairs(recorded)


def _empty_pairs(pairs: deque[tuple[Job, Result]]) -> Iterator[tuple[Job, Result]]:
    while pairs:
        yield pairs.popleft()


class Here(Engine):
    """An engine that runs jobs on this machine: `cores` jobs at a time, plus one on each GPU."""

    def __init__(self, cores: int = 1, devices: Sequence[Place] | None = None):
        self.crew = Crew(devices)
        self._count = cores
        self._cores = ThreadPoolExecutor(cores, "cores")
        self._gpus: dict[tuple[str, bool], ThreadPoolExecutor] = {}

    def place(self, resource: str) -> Place:
        return self.crew.at(resource)[0]

    def resources(self) -> Counter[str]:
        return Counter({name: len(places) for name, places in self.crew.places.items()})

    def _lane(self, job: Job) -> ThreadPoolExecutor:
        places = self.crew.at(job.needs)
        if not places[0].is_gpu or job.shared:
            return self._cores
        # Jobs that do not run on the GPU wait for one another, and must not take cores meanwhile.
        count = len(places) if job.runs else min(self._count, round(len(places) / job.share))
        return self._gpus.setdefault((job.needs, job.runs), ThreadPoolExecutor(count, job.needs))

    def perform(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, Result]]:
        finished: SimpleQueue[tuple[Job, Future[Result]]] = SimpleQueue()
        begun: set[Future[Result]] = set()

        def next_finished() -> tuple[Job, Result]:
            job, future = finished.get()
            begun.discard(future)
            return job, future.result()

        def begin(job: Job) -> None:
            future = self._lane(job).submit(self.crew.perform, job)
            begun.add(future)
            future.add_done_callback(lambda future: finished.put((job, future)))

        try:
            for job in jobs:
                begin(job)
                # The caller may take long to create the next job.
                while len(begun) >= OPEN or not finished.empty():
                    yield next_finished()
            while begun:
                yield next_finished()
        finally:
            # The caller stopped reading results, or an error ends the run.
            for future in begun:
                future.cancel()

    def close(self) -> None:
        for lane in (self._cores, *self._gpus.values()):
            lane.shutdown(wait=False, cancel_futures=True)
        self.crew.close()
