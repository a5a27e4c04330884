"""
Jobs on Dask's workers, of this machine or of many.

    with Cluster("tcp://host:8786") as engine: ...
    with Cluster.local(2) as engine: ...

Dask places the jobs, except those that want a device for themselves (`dealing.py`). This side keeps
the list of open ones: when the scheduler is lost it looks for a new one at the same address and
submits them again. When a worker dies, each of its jobs may have been the cause: they are tried
once more, one at a time, so that a second death has only one possible cause.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import threading
import time
import warnings
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import find_spec
from itertools import count
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias

from distributed import Client, LocalCluster
from distributed.scheduler import KilledWorker

from xdsl_spirv.jobs.crew import nobody_offers
from xdsl_spirv.jobs.dealing import Dealer, Waiting
from xdsl_spirv.jobs.engine import OPEN, Engine
from xdsl_spirv.jobs.job import (
    CORES,
    INTERPRETER,
    Job,
    Result,
    code_digest,
    from_bytes,
    job_to_bytes,
)
from xdsl_spirv.jobs.places import Place, here
from xdsl_spirv.jobs.worker import URGENT, demand, describe, differ, no_scheduler, perform
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.processes import python_command, same_modules

CONNECT_SECONDS = 5.0
PATIENCE_SECONDS = 60.0
"""Seconds to wait for a scheduler or a worker that is gone."""
LOOK_SECONDS = 1.0
"""Seconds between two looks at the connected workers."""
AHEAD = 2
"""Jobs sent to workers beyond the number that they can run at a time."""
CLOSE_SECONDS = 5.0
TOGETHER_SECONDS, TOGETHER = 0.05, 32
"""Shorter jobs are sent together, at most this many: Dask takes 5 ms for each task."""
STARTS = 5
"""Number of times that a worker of this machine is started again after it ended."""
UPDATE = "update xdsl-spirv where it is older, and start its workers again"
_numbers = count()
Future: TypeAlias = Any
"""Dask's future; its own types also cover coroutines."""


def report_deaths(dask_scheduler: Any) -> None:
    """Has the scheduler report at once which tasks a dead worker had, running or waiting."""
    dask_scheduler.allowed_failures = 0


class Cluster(Engine):
    """The workers of the scheduler at an address."""

    def __init__(self, address: str, workers: LocalWorkers | None = None):
        for name in ("distributed", "distributed.client"):
            # Dask sets the level of each logger; lost workers are reported here.
            logging.getLogger(name).setLevel(logging.CRITICAL)
        self.address = address
        self._workers = workers
        self._lock = threading.RLock()
        self._places: dict[str, Place] = {}
        self._capacity: Counter[str] = Counter()
        self._looked = 0.0
        self._closed = False
        self.scheduler = ""
        self.dealer = Dealer(lambda: self.client.status == "running")
        self.client: Any = self._connect(CONNECT_SECONDS)
        self._meet()

    @staticmethod
    def local(workers: int | None = None, cores: int | None = None, page: bool = False) -> Cluster:
        """
        A scheduler in this process and so many workers beside it, one for each GPU by default.

        The GPUs are dealt to the workers, the cores are shared out evenly. `page` has Dask serve
        its dashboard.
        """
        started = LocalWorkers(workers, cores or os.cpu_count() or 1, page)
        try:
            return Cluster(started.address, started)
        except BaseException:
            started.close()
            raise

    @property
    def dashboard(self) -> str:
        """The address of Dask's page, empty where it has none."""
        has_page = "dashboard" in self.client.scheduler_info()["services"]
        return self.client.dashboard_link if has_page else ""

    def _connect(self, patience: float) -> Any:
        end = time.monotonic() + patience
        while True:
            try:
                return Client(self.address, timeout=CONNECT_SECONDS, set_as_default=False)
            except (OSError, ValueError, ImportError) as error:
                if time.monotonic() > end or isinstance(error, ValueError):
                    remedy = "start one with `dask scheduler`, or give local"
                    raise no_scheduler(self.address, remedy) from error

    def _meet(self) -> None:
        """Wait for workers, and check that their code and devices match this process."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not self.client.scheduler_info()["workers"]:
            if time.monotonic() > end or (self._workers and not self._workers.alive):
                raise ProgramError(
                    f"no worker is at the scheduler {self.address}",
                    "",
                    f"start one: xdsl-spirv worker --scheduler {self.address}",
                )
            time.sleep(0.05)
        for worker, described in self.client.run(describe, on_error="return").items():
            if isinstance(described, OSError):
                continue  # The worker died just now.
            if not isinstance(described, dict) or not described:
                raise ProgramError(
                    f"the worker {worker} is not one of xdsl-spirv's",
                    "",
                    f"start it so: xdsl-spirv worker --scheduler {self.address}",
                )
            if described["code"] != code_digest():
                raise ProgramError(differ(described["code"], code_digest()), worker, UPDATE)
            for table in described["devices"]:
                self.agree(table["resource"], table["device"], table["driver"])
        self._looked = 0.0

    def agree(self, resource: str, device: str, driver: str) -> None:
        """Refuses a resource that workers offer with two drivers, whose results would be mixed."""
        known = self._places.setdefault(resource, Place(resource, device, driver))
        if (known.device, known.driver) != (device, driver):
            raise ProgramError(
                f"workers offer {resource} with two drivers: {known.driver} ({known.device}) and "
                f"{driver} ({device})",
                "",
                "leave out the workers of one driver",
            )

    def look(self) -> Counter[str]:
        """Number of jobs of each resource that the workers take at a time: a second ago, or now."""
        with self._lock:
            if time.monotonic() - self._looked < LOOK_SECONDS:
                return self._capacity
            self._looked = time.monotonic()
            if self.client.status == "closed":
                self.client = self._connect(PATIENCE_SECONDS)
                self._meet()
            try:
                info = self.client.scheduler_info(n_workers=-1)
                if "id" not in info:
                    return self._capacity
                if info["id"] != self.scheduler:
                    with suppress(ImportError):
                        # A scheduler without this package keeps to its own settings.
                        self.client.run_on_scheduler(report_deaths)
                    self.scheduler = info["id"]
            except (OSError, RuntimeError, TimeoutError):
                # The client finds its scheduler again, or closes.
                return self._capacity
            self._capacity = Counter()
            devices: dict[str, dict[str, int]] = defaultdict(dict)
            for address, worker in info["workers"].items():
                for name, number in worker["resources"].items():
                    self._capacity[name] += int(number)
                    devices[name][address] = int(number)
            self.dealer.update(devices)
            return self._capacity

    def place(self, resource: str) -> Place:
        if resource in (CORES, INTERPRETER):
            return Place(resource)
        if resource not in self._places:
            self._meet()
        if resource not in self._places:
            raise nobody_offers(resource, self._places)
        return self._places[resource]

    def resources(self) -> Counter[str]:
        capacity = self.look()
        return Counter({name: capacity[name] for name in self._places})

    def perform(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, Result]]:
        run = _Run(self)
        try:
            yield from run.results(iter(jobs))
        finally:
            run.cancel()

    def close(self) -> None:
        with self._lock:
            if not self._closed:
                self._closed = True
                self.client.close()
                if self._workers is not None:
                    self._workers.close()


@dataclass(frozen=True)
class _Task:
    """Jobs that are sent together, and the scheduler they were sent to."""

    jobs: list[Job]
    future: Future
    scheduler: str

    @property
    def needs(self) -> str:
        return self.jobs[0].needs


class _Run:
    """The open jobs of one caller."""

    def __init__(self, engine: Cluster):
        self.engine = engine
        self.held: dict[_Sort, deque[Job]] = defaultdict(deque)
        self.open: dict[int, _Task] = {}
        self.seconds: dict[str, float] = defaultdict(lambda: TOGETHER_SECONDS)
        self.suspects: deque[Job] = deque()
        """Jobs of workers that died."""
        self.suspect: int | None = None
        """The suspect that is being tried."""
        self.sent = 0
        """Tasks for cores that are open."""
        self.ended: SimpleQueue[int] = SimpleQueue()
        self.progress = time.monotonic()

    def results(self, jobs: Iterator[Job]) -> Iterator[tuple[Job, Result]]:
        """Yields each job with its result."""
        while True:
            pulled = self._pull(jobs)
            capacity = self.engine.look()
            self._submit(capacity)
            waiting = self.engine.dealer.held(self)
            if not (pulled or waiting or self.open or self.suspects or self._held):
                return
            # The caller's next job may take long to come: known jobs are sent meanwhile.
            numbers = self._ended() if pulled else self._wait()
            yield from self._settled(numbers)
            if numbers or pulled or self._attended(capacity, waiting):
                self.progress = time.monotonic()
            elif time.monotonic() - self.progress > PATIENCE_SECONDS:
                raise ProgramError(
                    f"no worker is left for {len(self.open) + len(waiting) + self._held} open jobs",
                    self.engine.address,
                    "start workers again and run the same: a store keeps what is recorded",
                )

    def _pull(self, jobs: Iterator[Job]) -> bool:
        """Takes the caller's next job unless too many are held; returns whether it took one."""
        if len(self.open) + len(self.engine.dealer.held(self)) + self._held >= OPEN:
            return False
        for job in jobs:
            self.engine.place(job.needs)
            self._hold(job)
            return True
        return False

    def _hold(self, job: Job) -> None:
        """Keep a job until workers have room for it."""
        if job.alone:
            self.engine.dealer.offer(Waiting(self, job, self._send_to))
        else:
            self.held[_sort(job)].append(job)

    @property
    def _held(self) -> int:
        return sum(map(len, self.held.values()))

    def _attended(self, capacity: Counter[str], waiting: Sequence[Job]) -> bool:
        """Whether any worker can perform any job that is open or held."""
        needed = {
            *(task.needs for task in list(self.open.values())),
            *(needs for _, needs in self.held),
            *(job.needs for job in waiting),
        }
        return any(capacity[needs] for needs in needed)

    def _submit(self, capacity: Counter[str]) -> None:
        """Send as many tasks as workers have cores, and a few more."""
        if self.engine.client.status != "running":
            return
        if self.suspects and self.suspect is None:
            self.suspect = self._send([self.suspects.popleft()])
        for jobs in self.held.values():
            while jobs:
                room = capacity[CORES] + AHEAD
                if self.sent >= room:
                    break
                size = min(self._together(jobs[0]), -(-len(jobs) // room))
                self._send([jobs.popleft() for _ in range(size)])

    def _together(self, job: Job) -> int:
        """Number of jobs of a kind in one task: one unless they are known to be quick."""
        return max(1, min(TOGETHER, int(TOGETHER_SECONDS / self.seconds[job.kind])))

    def _send_to(self, job: Job, worker: str) -> int:
        """Submits a job to a worker, or to any other one if that worker is gone."""
        return self._send([job], workers=[worker], allow_other_workers=True)

    def _send(self, jobs: list[Job], **where: Any) -> int:
        """Submit a task; returns its number."""
        number = next(_numbers)
        future = self.engine.client.submit(
            perform,
            [job_to_bytes(job) for job in jobs],
            code_digest(),
            key=f"{jobs[0].kind}-{jobs[0].key[:12]}-{os.getpid()}-{number}",
            resources=demand(jobs[0]),
            priority=URGENT if jobs[0].alone else 0,
            pure=False,
            **where,
        )
        self.open[number] = _Task(jobs, future, self.engine.scheduler)
        if not jobs[0].alone:
            # Other threads send jobs that want a device for themselves.
            self.sent += 1
        future.add_done_callback(partial(self._tell, number))
        return number

    def _tell(self, number: int, _: Future) -> None:
        self.engine.dealer.release(number)
        self.ended.put(number)

    def _wait(self) -> list[int]:
        """Jobs that ended; none if nothing does for a while."""
        try:
            numbers = [self.ended.get(timeout=LOOK_SECONDS)]
        except Empty:
            # A scheduler that is gone has lost these tasks, whatever state their futures have.
            open_tasks, scheduler = list(self.open.items()), self.engine.scheduler
            return [number for number, task in open_tasks if task.scheduler != scheduler]
        return numbers + self._ended()

    def _ended(self) -> list[int]:
        """Jobs that ended since the last call."""
        numbers: list[int] = []
        with suppress(Empty):
            while True:
                numbers.append(self.ended.get_nowait())
        return numbers

    def _settled(self, numbers: Iterable[int]) -> Iterator[tuple[Job, Result]]:
        """The results of jobs that ended; jobs that ended without one are held again."""
        ended = {number: self.open.pop(number) for number in numbers if number in self.open}
        done = [task.future for task in ended.values() if task.future.status == "finished"]
        answers = dict(zip((f.key for f in done), self._gathered(done), strict=True))
        for number, task in ended.items():
            self.engine.dealer.release(number)
            self.sent -= not task.jobs[0].alone
            suspected = number == self.suspect
            self.suspect = None if suspected else self.suspect
            answer = answers.get(task.future.key)
            if answer is not None:
                yield from self._results(task, answer)
            elif task.future.status != "error":
                for job in task.jobs:
                    self._hold(job)
            elif not suspected:
                self.suspects.extend(task.jobs)
            else:
                place, cause = self.engine.place(task.needs), _cause(task.future.exception())
                lost = Result("lost", None, cause, device=place.device, driver=place.driver)
                yield task.jobs[0], lost

    def _results(self, task: _Task, answer: bytes) -> Iterator[tuple[Job, Result]]:
        tables = from_bytes(answer)
        if isinstance(tables, str):
            raise ProgramError(tables, "", UPDATE)
        for job, table in zip(task.jobs, tables, strict=True):
            result = Result(**table)
            self.seconds[job.kind] += (result.seconds - self.seconds[job.kind]) / 4
            self.engine.agree(job.needs, result.device, result.driver)
            yield job, result

    def _gathered(self, futures: list[Future]) -> list[bytes | None]:
        try:
            return self.engine.client.gather(futures) if futures else []
        except Exception:
            # A worker or the scheduler died with the results.
            return [None] * len(futures)

    def cancel(self) -> None:
        """Cancel the jobs that are open."""
        self.engine.dealer.withdraw(self)
        for number in list(self.open):
            self.engine.dealer.release(number)
        with suppress(Exception):
            self.engine.client.cancel([task.future for task in self.open.values()])


_Sort: TypeAlias = tuple[str, str]


def _sort(job: Job) -> _Sort:
    """Jobs of one sort can be sent together."""
    return job.kind, job.needs


def _cause(error: BaseException | None) -> str:
    if isinstance(error, KilledWorker):
        return f"the two workers that ran it died, at last {error.last_worker.address}"
    return f"{type(error).__name__}: {error}"


class LocalWorkers:
    """A scheduler in this process, and workers beside it that are restarted if they die."""

    def __init__(self, count: int | None, cores: int, page: bool):
        gpus = [place for place in here() if place.is_gpu]
        others = [place for place in here() if not place.is_gpu]
        number = count or max(1, len(gpus))
        address: Any = ":8787" if page and find_spec("bokeh") else None
        with warnings.catch_warnings():
            # If the port is taken, another port is chosen.
            warnings.simplefilter("ignore")
            self._cluster = LocalCluster(
                n_workers=0, dashboard_address=address, silence_logs=logging.CRITICAL
            )
        self.address: str = self._cluster.scheduler_address
        self._closing = False
        self._lock = threading.Lock()
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self._threads = [
            threading.Thread(
                target=self._keep,
                args=(n, max(1, cores // number), [*others, *gpus[n::number]]),
                daemon=True,
            )
            for n in range(number)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def alive(self) -> bool:
        return any(thread.is_alive() for thread in self._threads)

    def _keep(self, number: int, cores: int, devices: list[Place]) -> None:
        offered = json.dumps([asdict(place) for place in devices])
        module = [*python_command(), "-P", "-m", "xdsl_spirv.jobs.worker"]
        for _ in range(STARTS):
            with self._lock:
                if self._closing:
                    return
                process = self.processes[number] = subprocess.Popen(
                    [*module, self.address, str(cores), offered],
                    env=same_modules(),
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                )
            process.wait()

    def close(self) -> None:
        """The workers end when their scheduler does."""
        with self._lock:
            self._closing = True
        self._cluster.close()
        for process in self.processes.values():
            try:
                process.wait(CLOSE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
