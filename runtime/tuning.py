"""
The search for fast schedules: every candidate is compiled here, and run on a device elsewhere.

A candidate runs in the worker process of an `IsolatedDevice` with a timeout: a driver that hangs or
crashes on it costs the process, which is started again, and the candidate is marked. Each is
compared with the reference before it is timed, and one that is far behind the best after a few runs
is not timed further. What came of each is a line of the results file, so that a search which is cut
short goes on where it was.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation

from xdsl_spirv.dialects.schedule import ContractionAttr
from xdsl_spirv.passes.graph.form_dispatches import FormDispatchesPass
from xdsl_spirv.passes.graph.quantized_contractions import QuantizedContractionsPass
from xdsl_spirv.passes.schedule.contraction import Contraction, NotAContraction, contraction_of
from xdsl_spirv.passes.schedule.linalg_to_contraction import LinalgToContractionPass
from xdsl_spirv.passes.schedule.space import candidates
from xdsl_spirv.passes.schedule.tuned import SCHEMA_VERSION, forced, key_of, parse_schedule
from xdsl_spirv.passes.schedule.window import choose_window
from xdsl_spirv.runtime.check import check
from xdsl_spirv.runtime.compiler import compile_module, context, parse_text
from xdsl_spirv.runtime.elements import Array, dtype_of
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.runtime.vulkan.errors import DeviceLostError, DeviceTimeoutError
from xdsl_spirv.runtime.vulkan.loaded import Time
from xdsl_spirv.runtime.vulkan.programs import work_of
from xdsl_spirv.runtime.vulkan.worker import IsolatedDevice, open_isolated
from xdsl_spirv.serialization.files import write_atomically
from xdsl_spirv.targets import Target

FIRST_RUNS = 3
FAR_BEHIND = 1.5
"""A candidate that takes this many times as long as the best is not timed further."""
WARM_UP_SECONDS = 0.15


@dataclass(frozen=True)
class Outcome:
    """
    What came of a candidate: `status` is `ok`, `wrong`, `refused`, `crashed` or `late`.

    `microseconds` is the median of all dispatches together, `statistics` what the driver says of
    the kernels' code where it says anything.
    """

    key: str
    schedule: str
    device: str
    status: str
    microseconds: float | None = None
    cause: str = ""
    statistics: list[dict[str, float]] = field(default_factory=list[dict[str, float]])


@dataclass
class Search:
    """One module's contractions on one device; `say` is told how it goes."""

    text: str
    target: Target
    target_name: str
    device_name: str | None
    results: Path
    runs: int = 20
    most: int = 64
    timeout: float = 20.0
    say: Callable[[str], None] = lambda text: None

    def __post_init__(self) -> None:
        self.device: IsolatedDevice | None = None
        self.done = {(o.key, o.schedule, o.device): o for o in read_results(self.results)}
        self.begun: set[str] = set()
        self.inputs: dict[str, Array] = {}
        self.expected: dict[str, Array] | None = None

    def run(self) -> dict[str, list[Outcome]]:
        """The outcomes of every contraction's candidates, by its key."""
        found: dict[str, list[Outcome]] = {}
        try:
            for contraction in contractions_of(self.text, self.target_name):
                key = key_of(contraction)
                if choose_window(contraction, self.target) is not None:
                    self.say(f"{key}: computed window by window, nothing to tune")
                elif key not in found:
                    self.say(key)
                    schedules = candidates(contraction, self.target, self.most)
                    outcomes = list(self._tried(key, schedules))
                    found[key] = self._again(key, outcomes) if key in self.begun else outcomes
        finally:
            self._close()
        return found

    def _tried(self, key: str, schedules: list[ContractionAttr]) -> Iterator[Outcome]:
        best: Outcome | None = None
        for number, schedule in enumerate(schedules, 1):
            device = self._opened().info.name
            known = self.done.get((key, str(schedule), device))
            outcome = known or self._outcome(key, schedule, best)
            if known is None:
                append(self.results, outcome)
                self.begun.add(key)
            if outcome.microseconds is not None:
                if best is None or outcome.microseconds < (best.microseconds or 0):
                    best = outcome
            took = f"{outcome.microseconds:.1f} us" if outcome.microseconds else outcome.status
            top = f", best {best.microseconds:.1f} us" if best and best.microseconds else ""
            self.say(
                f"  {number}/{len(schedules)} {took}{top}: {schedule} {outcome.cause}".rstrip()
            )
            yield outcome

    def _again(self, key: str, outcomes: list[Outcome]) -> list[Outcome]:
        """
        The outcomes, with the default, which came first, measured once more.

        Others are compared with it, and a device that was idle before the first run may still have
        had its low clock in it.
        """
        first, *others = outcomes
        times = [other.microseconds for other in others if other.microseconds is not None]
        if first.microseconds is None or not times or first.microseconds <= min(times):
            return outcomes
        schedule = parse_schedule(first.schedule)
        again = self._outcome(key, schedule, None)
        if again.microseconds is None or again.microseconds >= first.microseconds:
            return outcomes
        append(self.results, again)
        return [again, *others]

    def _opened(self) -> IsolatedDevice:
        if self.device is None:
            self.device = open_isolated(self.device_name, timeout=self.timeout)
        return self.device

    def _close(self) -> None:
        if self.device is not None:
            self.device.close()
        self.device = None

    def _outcome(self, key: str, schedule: ContractionAttr, best: Outcome | None) -> Outcome:
        device = self._opened()
        made = Outcome(key, str(schedule), device.info.name, "ok")
        changes: dict[str, Any]
        try:
            with forced({key: schedule}):
                program = compile_module(parse_text(self.text), self.target_name)
            changes = self._measured(device, program, best)
        except (DeviceLostError, DeviceTimeoutError) as error:
            self._close()
            late = isinstance(error, DeviceTimeoutError)
            changes = {"status": "late" if late else "crashed", "cause": error.cause}
        except ProgramError as error:
            changes = {"status": "refused", "cause": error.cause}
        return Outcome(**{**asdict(made), **changes})

    def _measured(
        self, device: IsolatedDevice, program: Program, best: Outcome | None
    ) -> dict[str, Any]:
        """Run once and compare; then time, and again more often if it is worth it."""
        if not self.inputs:
            self.inputs = random_inputs(program)
        loaded = device.load(work_of(program), statistics=True)
        try:
            given = {name: array.tobytes() for name, array in self.inputs.items()}
            outputs = loaded.run(given, self.timeout)
            wrong = self._wrong(program, outputs)
            if wrong:
                return {"status": "wrong", "cause": wrong}
            statistics = [
                {name: float(value) for name, value in table.items()}
                for step in loaded.executables()
                for table in step
            ]
            took = total(loaded.time(FIRST_RUNS, self.timeout, WARM_UP_SECONDS))
            limit = None if best is None else best.microseconds
            if limit is None or took < FAR_BEHIND * limit:
                took = total(loaded.time(self.runs, self.timeout))
            return {"microseconds": took, "statistics": statistics}
        finally:
            if device.worker.alive:
                device.unload(loaded)

    def _wrong(self, program: Program, outputs: Mapping[str, bytearray]) -> str:
        """Why the results are not right; empty if they are."""
        results = {
            b.name: np.frombuffer(outputs[b.name], dtype_of(b.type)).reshape(b.sizes)
            for b in program.manifest.outputs
        }
        # Small integers have exact sums in every order, so one reference does for all candidates.
        if self.expected is None:
            failed = [str(c) for c in check(program, self.inputs, results) if not c.passed]
            if not failed:
                self.expected = results
            return "; ".join(failed)
        for name, array in results.items():
            if not np.array_equal(array, self.expected[name]):
                failed = [str(c) for c in check(program, self.inputs, results) if not c.passed]
                return "; ".join(failed)
        return ""


def total(times: list[Time]) -> float:
    """Microseconds of all dispatches."""
    return sum(time.median for time in times) / 1e3


def random_inputs(program: Program) -> dict[str, Array]:
    """Integers from -2 to 2 in every input."""
    generator = np.random.default_rng(0)
    return {
        buffer.name: generator.integers(-2, 3, buffer.sizes).astype(dtype_of(buffer.type))
        for buffer in program.manifest.inputs
    }


def contractions_of(text: str, target: str) -> list[Contraction]:
    """Every contraction of a module, as `assign-schedule` meets it."""
    ctx = context()
    module: ModuleOp = parse_text(text, ctx=ctx)
    for each in (
        QuantizedContractionsPass(target=target),
        LinalgToContractionPass(),
        FormDispatchesPass(),
    ):
        each.apply(ctx, module)
    found: list[Contraction] = []
    for op in module.walk():
        if isinstance(op, LinalgStructuredOperation):
            try:
                found.append(contraction_of(op))
            except NotAContraction:
                continue
    if not found:
        raise ProgramError("the module has no contraction to tune", "", "give it a linalg.matmul")
    return found


def read_results(path: Path) -> list[Outcome]:
    """The lines of a results file that are whole; an interrupted write leaves half of one."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return []
    found: list[Outcome] = []
    for line in lines:
        try:
            found.append(Outcome(**json.loads(line)))
        except (ValueError, TypeError):
            continue
    return found


def append(path: Path, outcome: Outcome) -> None:
    """Add a line; raises `ProgramError` where that cannot be."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(json.dumps(asdict(outcome)) + "\n")
    except OSError as error:
        raise ProgramError(
            f"cannot write the results: {error.strerror}", str(path), "name another file"
        ) from error


def write_table(path: Path, target: str, outcomes: Mapping[str, list[Outcome]]) -> dict[str, Any]:
    """
    Put the fastest right schedule of each contraction into the tuned table; returns its entries.

    Entries of other contractions stay. Raises `ProgramError` where the file cannot be written.
    """
    entries: dict[str, Any] = {}
    if path.is_file():
        entries = json.loads(path.read_text())["entries"]
    for key, tried in outcomes.items():
        right = [o for o in tried if o.status == "ok" and o.microseconds is not None]
        if right:
            best = min(right, key=lambda o: o.microseconds or 0.0)
            entries[key] = {
                "schedule": best.schedule,
                "microseconds": best.microseconds,
                "device": best.device,
                "candidates": len(tried),
            }
    table = {"schema_version": SCHEMA_VERSION, "target": target, "entries": entries}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, (json.dumps(table, indent=2) + "\n").encode())
    except OSError as error:
        raise ProgramError(
            f"cannot write the table: {error.strerror}", str(path), "name another with -o"
        ) from error
    return entries
