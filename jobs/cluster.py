"""
Runs jobs on Dask workers of this machine or of many machines.

    with Cluster("tcp://host:8786") as engine: ...
    with Cluster.local(2) as engine: ...

Dask assigns the jobs to workers, except jobs that use a whole device (`dealing.py`). This process
lists the open jobs: when the scheduler is lost, it looks for a new one at the same address and
submits the jobs again. When a worker dies, any of its jobs may be the cause. These jobs are
tried once more, one at a time, so that a second death has only one possible cause.
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
"""Seconds to wait for a lost scheduler or worker."""
LOOK_SECONDS = 1.0
"""Seconds between two queries of the connected workers."""
AHEAD = 2
"""Number of jobs that are sent to workers in addition to the jobs that run."""
CLOSE_SECONDS = 5.0
TOGETHER_SECONDS, TOGETHER = 0.05, 32
"""
Jobs shorter than `TOGETHER_SECONDS` are sent in groups of at most `TOGETHER`, because a Dask task
costs 5 ms.
"""
STARTS = 5
"""Maximum number of times that a worker of this machine is started."""
UPDATE = "update the older xdsl-spirv, and restart its workers"
_numbers = count()
Future: TypeAlias = Any
"""A Dask future. The type is Any, because Dask's annotations also allow coroutines."""


def report_deaths(dask_scheduler: Any) -> None:
    """Makes the scheduler report immediately which tasks a dead worker had."""
    dask_scheduler.allowed_failures = 0


class Cluster(Engine):
    """An engine that performs jobs on the workers of the scheduler at an address."""

    def __init__(self, address: str, workers: LocalWorkers | None = None):
        for name in ("distributed", "distributed.client"):
            # This class reports lost workers; Dask would log them, too.
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
        Starts a scheduler in this process, and workers: by default one for each GPU.

        The GPUs and the cores are divided among the workers. With `page`, Dask serves its
        dashboard.
        """
        started = LocalWorkers(workers, cores or os.cpu_count() or 1, page)
        try:
            return Cluster(started.address, started)
        except BaseException:
            started.close()
            raise

    @property
    def dashboard(self) -> str:
        """The address of Dask's dashboard; empty without a dashboard."""
        has_page = "dashboard" in self.client.scheduler_info()["services"]
        return self.client.dashboard_link if has_page else ""

    def _connect(self, patience: float) -> Any:
        end = time.monotonic() + patience
        while True:
            try:
                return Client(self.address, timeout=CONNECT_SECONDS, set_as_default=False)
            except (OSError, ValueError, ImportError) as error:
                if time.monotonic() > end or isinstance(error, ValueError):
                    remedy = "start one with `dask scheduler`, or use --scheduler local"
                    raise no_scheduler(self.address, remedy) from error

    def _meet(self) -> None:
        """Waits for workers, and checks that their code and devices match this process."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not self.client.scheduler_info()["workers"]:
            if time.monotonic() > end or (self._workers and not self._workers.alive):
                raise ProgramError(
                    f"the scheduler {self.address} has no workers",
                    "",
                    f"start a worker: xdsl-spirv worker --scheduler {self.address}",
                )
            time.sleep(0.05)
        for worker, described in self.client.run(describe, on_error="return").items():
            if isinstance(described, OSError):
                continue  # The worker died just now.
            if not isinstance(described, dict) or not described:
                raise ProgramError(
                    f"the worker {worker} is not a worker of xdsl-spirv",
                    "",
                    f"start it with: xdsl-spirv worker --scheduler {self.address}",
                )
            if described["code"] != code_digest():
                raise ProgramError(differ(described["code"], code_digest()), worker, UPDATE)
            for table in described["devices"]:
                self.agree(table["resource"], table["device"], table["driver"])
        self._looked = 0.0

    def agree(self, resource: str, device: str, driver: str) -> None:
        """
        Records a worker's device and driver for a resource.

        Raises `ProgramError` if another worker offers the resource with another driver, because
        the results of two drivers would be mixed.
        """
        known = self._places.setdefault(resource, Place(resource, device, driver))
        if (known.device, known.driver) != (device, driver):
            raise ProgramError(
                f"workers offer {resource} with two drivers: {known.driver} ({known.device}) and "
                f"{driver} ({device})",
                "",
                "stop the workers that use one of the drivers",
            )

    def look(self) -> Counter[str]:
        """
        Returns how many jobs of each resource the workers run at a time; updates once a second.
        """
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
                        # A scheduler without this package cannot run the function.
                        self.client.run_on_scheduler(report_deaths)
                    self.scheduler = info["id"]
            except (OSError, RuntimeError, TimeoutError):
                # The client reconnects to its scheduler, or closes.
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
    jobs: list[Job]
    future: Future
    scheduler: str

    @property
    def needs(self) -> str:
        return self.jobs[0].needs


class _Run:
    """The open jobs of one caller: sends them to workers and collects the results."""

    def __init__(self, engine: Cluster):
        self.engine = engine
        self.held: dict[_Sort, deque[Job]] = defaultdict(deque)
        self.open: dict[int, _Task] = {}
        self.seconds: dict[str, float] = defaultdict(lambda: TOGETHER_SECONDS)
        self.suspects: deque[Job] = deque()
        """Jobs of workers that died."""
        self.suspect: int | None = None
        """Task number of the suspect that is being tried."""
        self.sent = 0
        """Number of open tasks that use cores."""
        self.ended: SimpleQueue[int] = SimpleQueue()
        self.progress = time.monotonic()

    def results(self, jobs: Iterator[Job]) -> Iterator[tuple[Job, Result]]:
        """Yields each job with its result. Raises `ProgramError` if no worker is left."""
        while True:
            pulled = self._pull(jobs)
            capacity = self.engine.look()
            self._submit(capacity)
            waiting = self.engine.dealer.held(self)
            if not (pulled or waiting or self.open or self.suspects or self._held):
                return
            # The caller may take long to create the next job: known jobs are sent meanwhile.
            numbers = self._ended() if pulled else self._wait()
            yield from self._collect(numbers)
            if numbers or pulled or self._can_perform_any(capacity, waiting):
                self.progress = time.monotonic()
            elif time.monotonic() - self.progress > PATIENCE_SECONDS:
                raise ProgramError(
                    f"no worker is left for {len(self.open) + len(waiting) + self._held} open jobs",
                    self.engine.address,
                    "start workers and run the command again: stored results are reused",
                )

    def _pull(self, jobs: Iterator[Job]) -> bool:
        """Takes the caller's next job if few are waiting. Returns True if it took a job."""
        if len(self.open) + len(self.engine.dealer.held(self)) + self._held >= OPEN:
            return False
        for job in jobs:
            self.engine.place(job.needs)
            self._hold(job)
            return True
        return False

    def _hold(self, job: Job) -> None:
        if job.alone:
            self.engine.dealer.offer(Waiting(self, job, self._send_to))
        else:
            self.held[_group_key(job)].append(job)

    @property
    def _held(self) -> int:
        return sum(map(len, self.held.values()))

    def _can_perform_any(self, capacity: Counter[str], waiting: Sequence[Job]) -> bool:
        """True if a worker can perform one of the open or waiting jobs."""
        needed = {
            *(task.needs for task in list(self.open.values())),
            *(needs for _, needs in self.held),
            *(job.needs for job in waiting),
        }
        return any(capacity[needs] for needs in needed)

    def _submit(self, capacity: Counter[str]) -> None:
        """Sends as many tasks as workers have cores, and `AHEAD` more."""
        if self.engine.client.status != "running":
            return
        if self.suspects and self.suspect is None:
            self.suspect = self._send([self.suspects.popleft()])
        for jobs in self.held.values():
            while jobs:
                room = capacity[CORES] + AHEAD
                if self.sent >= room:
                    break
                size = min(self._group_size(jobs[0]), -(-len(jobs) // room))
                self._send([jobs.popleft() for _ in range(size)])

    def _group_size(self, job: Job) -> int:
        """
        Returns the number of jobs to send in one task: several if such jobs are known to be short.
        """
        return max(1, min(TOGETHER, int(TOGETHER_SECONDS / self.seconds[job.kind])))

    def _send_to(self, job: Job, worker: str) -> int:
        """Submits a job to a worker, or to any if the worker is lost. Returns the task's number."""
        return self._send([job], workers=[worker], allow_other_workers=True)

    def _send(self, jobs: list[Job], **where: Any) -> int:
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
            # Other threads send jobs that use a whole device.
            self.sent += 1
        future.add_done_callback(partial(self._tell, number))
        return number

    def _tell(self, number: int, _: Future) -> None:
        self.engine.dealer.release(number)
        self.ended.put(number)

    def _wait(self) -> list[int]:
        """Returns the numbers of tasks that ended or were lost; empty after `LOOK_SECONDS`."""
        try:
            numbers = [self.ended.get(timeout=LOOK_SECONDS)]
        except Empty:
            # The tasks of a lost scheduler are lost, even if their futures look open.
            open_tasks, scheduler = list(self.open.items()), self.engine.scheduler
            return [number for number, task in open_tasks if task.scheduler != scheduler]
        return numbers + self._ended()

    def _ended(self) -> list[int]:
        numbers: list[int] = []
        with suppress(Empty):
            while True:
                numbers.append(self.ended.get_nowait())
        return numbers

    def _collect(self, numbers: Iterable[int]) -> Iterator[tuple[Job, Result]]:
        """Yields the results of tasks that ended. Jobs without a result are queued again."""
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
        self.engine.dealer.withdraw(self)
        for number in list(self.open):
            self.engine.dealer.release(number)
        with suppress(Exception):
            self.engine.client.cancel([task.future for task in self.open.values()])


_Sort: TypeAlias = tuple[str, str]


def _group_key(job: Job) -> _Sort:
    """Returns a key. Jobs with equal keys may be sent together."""
    return job.kind, job.needs


def _cause(error: BaseException | None) -> str:
    if isinstance(error, KilledWorker):
        return f"two workers that ran the job died, the last one at {error.last_worker.address}"
    return f"{type(error).__name__}: {error}"


class LocalWorkers:
    """A scheduler in this process, and its worker processes, which are restarted if they die."""

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
        """Closes the scheduler, so that the workers end, and waits for the workers."""
        with self._lock:
            self._closing = True
        self._cluster.close()
        for process in self.processes.values():
            try:
                process.wait(CLOSE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
