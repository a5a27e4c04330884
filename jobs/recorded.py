"""Engine that runs nothing: it answers from a store, as the device did whose results it holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from xdsl_spirv.jobs.engine import Engine
from xdsl_spirv.jobs.job import CORES, INTERPRETER, Job, Result
from xdsl_spirv.jobs.places import Place
from xdsl_spirv.jobs.store import Store


class Recorded(Engine):
    """Answers from a store; refuses jobs that the store does not hold."""

    def __init__(self, store: Store, resource: str, device: str, driver: str):
        self.store, self.resource = store, resource
        self.device, self.driver = device, driver

    def place(self, resource: str) -> Place:
        exact = resource in (CORES, INTERPRETER)
        return Place(resource) if exact else Place(resource, self.device, self.driver)

    def resources(self) -> Counter[str]:
        return Counter([self.resource])

    def perform(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, Result]]:
        for job in jobs:
            unknown = Result("refused", None, "the store has no result of it")
            yield job, self.store.find(job, self.place(job.needs)) or unknown

    def close(self) -> None:
        pass
