"""Implements `xdsl-spirv reduce`: finds a smallest input with the original failure."""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shlex
import shutil
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from xdsl_spirv.jobs.engine import Engine, Here
from xdsl_spirv.jobs.job import Job, Result
from xdsl_spirv.jobs.store import Store
from xdsl_spirv.progress import Stage, stage
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.serialization.raw.binary import decode
from xdsl_spirv.serialization.text.disassembler import disassemble
from xdsl_spirv.tools.kernel_test.collecting import collect
from xdsl_spirv.tools.kernel_test.loading import load_kernel
from xdsl_spirv.tools.kernel_test.overriding import override
from xdsl_spirv.tools.kernel_test.problems import MISMATCH
from xdsl_spirv.tools.kernel_test.toml_file import beside
from xdsl_spirv.tools.options import Options
from xdsl_spirv.tools.output import check_place, write
from xdsl_spirv.tools.reduce import kernels, models
from xdsl_spirv.tools.reduce.description import with_absolute_paths, write_description
from xdsl_spirv.tools.reduce.judging import HERE, fit, plain
from xdsl_spirv.tools.reduce.searching import Candidates, Case, search

RUN = f"xdsl-spirv run {HERE} --random 0 --no-cache --json"
"""Default command that tests a model."""
MODEL = ".onnx"
TRIES = ".tries"
"""Suffix of the folder with the verdicts and candidates of an unfinished search."""
FIRST_SECONDS = 60.0
"""Default time limit of the first try, in seconds."""
JOBS = min(os.cpu_count() or 1, 8)

add_options = Options(
    f"""
failing KERNEL|MODEL.onnx  a kernel or test as for `test`, or a model
--command TEXT dest=tried
    the failing command, with {HERE} for the file (default: `test`, or {RUN!r} for models)
--status STATUS int  its exit status (default: the status for the input)
--says TEXT default=  a text that the failing command prints
--device NAME  compare a device's results with the interpreter's (for models: onnxruntime's)
--failure TEXT  the failure to reproduce, if there are several: RACE-01
--try-seconds N float  time limit of a try (default: relative to the input's time)
--try-memory MIB int default=8192  memory limit of a try (default: %(default)s)
--jobs N int default={JOBS}  number of tries at a time (default: %(default)s)
-o --output FILE  where to write the smallest input (default: x.reduced.spv, .spvasm or .onnx)
@launch
""",
    epilog="""The same command continues an interrupted search.
docs/reduce.md explains when two failures count as equal.""",
)


def reduce(arguments: argparse.Namespace) -> int:
    """Runs `xdsl-spirv reduce`."""
    path = Path(arguments.failing)
    if arguments.tried is not None and arguments.device is not None:
        raise ProgramError(
            "--command and --device cannot be combined",
            arguments.failing,
            "name the device in the command",
        )
    case = read_case(path, arguments)
    default = path.with_name(f"{path.name.partition('.')[0]}.reduced{Path(case.name).suffix}")
    output = Path(arguments.output or default)
    check_place(str(output))
    tries = output.with_name(output.name + TRIES).resolve()
    with Here(max(arguments.jobs, 1)) as engine, Store(tries / "verdicts.db") as store:
        with stage(f"reducing {path.name}") as progress:
            judge = Judge(arguments, case, engine, store, tries, output, progress)
            try:
                judge.look_at_original(case)
            except ProgramError:
                shutil.rmtree(tries)
                raise
            smallest = search(case, judge.ways(case), judge.first_failing)
    judge.save(smallest)
    shutil.rmtree(tries)
    count = kernels.count if case.name.endswith(".spv") else models.count
    failure = re.sub(r"\b_\b", "…", judge.wanted)
    print(f"{failure}: {count(case.data)} became {count(smallest.data)} in {judge.tried} tries")
    print(f"{output}: {judge.again(output)}")
    return 0


def read_case(path: Path, arguments: argparse.Namespace) -> Case:
    """Reads the kernel or model to reduce. Raises `ProgramError` if a file has several tests."""
    tests = collect([str(path)])
    if path.suffix == MODEL and path.exists():
        return Case(path.name, models.load(str(path)))
    for _, error in tests.refused:
        raise error
    if len(tests.tests) != 1:
        raise ProgramError(
            f"{path} contains {len(tests.tests)} tests",
            "",
            "give the file of a single kernel or test",
        )
    test = override(tests.tests[0], arguments)
    name = f"{test.kernel.name.partition('.')[0]}.spv"
    data = load_kernel(test).binary
    if arguments.tried is not None:
        return Case(name, data)
    return Case(name, data, with_absolute_paths(test, Path(name)))


@dataclass
class Judge:
    """Tries candidates, stores the verdicts, and saves the smallest failing candidate."""

    arguments: argparse.Namespace
    case: Case
    engine: Engine
    store: Store
    folder: Path
    output: Path
    progress: Stage
    wanted: str = ""
    """The failure that a candidate must have."""
    known: set[str] = field(default_factory=set[str])
    """Failures of the unreduced case. A candidate with any other failure is rejected."""
    tried: int = 0
    seconds: float = 0.0
    """Time limit of a try, in seconds."""

    def __post_init__(self) -> None:
        self.seconds = self.first = self.arguments.try_seconds or FIRST_SECONDS

    @property
    def command(self) -> list[str]:
        """Returns the words of the command that tests candidates; empty for a kernel's test."""
        text = self.arguments.tried or ("" if self.case.test else RUN)
        words = shlex.split(text)
        if self.arguments.device and not self.arguments.tried and words:
            words += ["--device", self.arguments.device]
        return words if not words or any(HERE in word for word in words) else [*words, HERE]

    def ways(self, case: Case) -> list[Any]:
        """
        Returns the kinds of edits to try. If results are wrong, only the launch is edited, because
        the expected results depend on the instructions.
        """
        if case.name.endswith(MODEL):
            return list(models.MODEL)
        whole = [] if self.wanted.startswith(MISMATCH) else list(kernels.MODULE)
        return [kernels.LAUNCH, *whole]

    def look_at_original(self, case: Case) -> None:
        """Runs the original and records its failures. Raises `ProgramError` if there are none."""
        result = next(iter(self._results([case])))[1]
        if result.status == "refused":
            cause = f"the case cannot be tried: {result.cause}"
            raise ProgramError(cause, self.arguments.failing, "")
        failures = failures_of(result)
        passed = f"status {self.arguments.status or 0}" if self.arguments.status is None else None
        chosen = [
            one
            for one in failures
            if one != passed
            and (self.arguments.failure or "") in one
            and (self.arguments.says or "") in one
            and self.arguments.status in (None, _status(one))
        ]
        if not chosen:
            said = ", ".join(failures) or "no failure"
            raise ProgramError(
                f"the input does not fail as requested: {said}",
                self.arguments.failing,
                "give the launch, --command or --device with which the input fails",
            )
        self.wanted, self.known = chosen[0], set(failures)
        if result.status != "late":
            self.first = result.seconds
            self._limit_tries(result)

    def _limit_tries(self, smallest: Result) -> None:
        """Sets the time limit of later tries from the smallest failing candidate's time."""
        if self.arguments.try_seconds is None:
            self.seconds = self.first + 10 * smallest.seconds

    def first_failing(self, way: str, candidates: Candidates) -> tuple[int, Case] | None:
        """Returns the first candidate, with its index, that fails like the original."""
        rest = iter(candidates)
        while group := list(islice(rest, self.arguments.jobs)):
            results = dict(self._results([case for _, case in group]))
            for number, (at, case) in enumerate(group):
                failures = failures_of(results[number])
                if self.wanted in failures and self.known.issuperset(failures):
                    self.save(case)
                    self._limit_tries(results[number])
                    self.progress.step(f"{way}, {len(case.data):,} bytes")
                    return at, case
                self.progress.step(way)
        return None

    def _results(self, cases: list[Case]) -> Iterator[tuple[int, Result]]:
        with self._files(cases) as paths:
            jobs = [self._job(path, case, k) for k, (path, case) in enumerate(paths)]
            for job, result in self.engine.run(jobs, self.store):
                self.tried += 1
                yield job.note, result

    def _job(self, path: Path, case: Case, number: int) -> Job:
        data = {
            "path": str(path),
            "command": self.command,
            "program": _digest_of_program(self.command),
            "text": self.arguments.says,
            "device": self.arguments.device,
        }
        memory = self.arguments.try_memory << 20
        return Job("reduce", data, seconds=self.seconds, memory=memory, note=number)

    @contextmanager
    def _files(self, cases: list[Case]) -> Generator[list[tuple[Path, Case]]]:
        """Writes each candidate to a folder whose name is a digest of its contents."""
        paths: list[tuple[Path, Case]] = []
        for case in cases:
            files = {case.name: case.data}
            if case.test is not None:
                files[beside(Path(case.name)).name] = write_description(case.test, case.name)
            digest = hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()[:16]
            folder = self.folder / digest
            folder.mkdir(parents=True, exist_ok=True)
            for name, data in files.items():
                (folder / name).write_bytes(data)
            paths.append((folder / case.name, case))
        try:
            yield paths
        finally:
            for path, _ in paths:
                shutil.rmtree(path.parent, ignore_errors=True)

    def save(self, case: Case) -> None:
        """Saves the smallest case, without buffers and constants that its kernel no longer uses."""
        data = case.data
        if self.output.suffix == ".spvasm":
            data = disassemble(decode(data)).encode()
        write(str(self.output), data)
        if case.test is not None:
            test = fit(replace(case.test, kernel=self.output))
            description = write_description(test, self.output.name)
            write(str(beside(self.output)), description)

    def again(self, output: Path) -> str:
        """Returns the command that reproduces the failure."""
        if not self.command:
            return f"xdsl-spirv test {output}"
        return shlex.join(word.replace(HERE, str(output)) for word in self.command)


def failures_of(result: Result) -> list[str]:
    """Returns the failures of a candidate; empty if the candidate passed or could not run."""
    if result.ok:
        return result.value
    if result.status == "refused":
        return []
    return [f"{result.status}: {plain(result.cause.partition(chr(10))[0])}"]


def _status(failure: str) -> int | None:
    word = failure.removeprefix("status ").rstrip(":,").split()[0].rstrip(":,")
    return int(word) if word.isdecimal() else None


def _digest_of_program(command: list[str]) -> str:
    """Returns a digest of the script files in a command, because stored verdicts depend on them."""
    digest = hashlib.sha256()
    for word in command:
        if Path(word).is_file() and Path(word).stat().st_size < 1 << 20:
            digest.update(Path(word).read_bytes())
    return digest.hexdigest()[:16]
