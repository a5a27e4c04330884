"""
The search for fast schedules: every candidate is compiled here, and run on a device elsewhere.

It begins with the candidates that are likely to be good, and goes on with those that differ from
the best in one decision. A candidate runs in the worker process of an `IsolatedDevice` with a
timeout: a driver that hangs or crashes on it costs the process, which is started again, and the
candidate is marked. One whose code spills registers, or holds so much Workgroup memory that no
other workgroup fits beside it, is *pruned* by what the driver reports, before it runs. Each is
compared with the reference before it is timed, and one that is far behind the best after a few runs
is not timed further. At last the best are measured a second time, in turn with the default. What
came of each is a line of the results file, so that a search which is cut short goes on where it
was.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain, islice
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation

from xdsl_spirv.compare.check import check
from xdsl_spirv.dialects.schedule import ContractionAttr, RowsAttr
from xdsl_spirv.passes.analysis.contraction import Contraction, NotAContraction, contraction_of
from xdsl_spirv.passes.graph.form_dispatches import FormDispatchesPass
from xdsl_spirv.passes.graph.quantized_contractions import QuantizedContractionsPass
from xdsl_spirv.passes.schedule.linalg_to_contraction import LinalgToContractionPass
from xdsl_spirv.passes.schedule.rows import rows_or_reason
from xdsl_spirv.passes.schedule.space import candidates, neighbours
from xdsl_spirv.passes.schedule.tuned import key_of, lookup, parse_schedule
from xdsl_spirv.passes.schedule.window import choose_window
from xdsl_spirv.runtime.elements import Array, dtype_of
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.modules import context, parse_text
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.runtime.vulkan.errors import DeviceLostError, DeviceTimeoutError, MisfitError
from xdsl_spirv.runtime.vulkan.loaded import Time
from xdsl_spirv.runtime.vulkan.programs import work_of
from xdsl_spirv.runtime.vulkan.statistics import heaviest, problem
from xdsl_spirv.runtime.vulkan.worker import IsolatedDevice, RemoteWork, open_isolated
from xdsl_spirv.targets import Target
from xdsl_spirv.tools.tuning.candidates import Compiled, Compiler, Source
from xdsl_spirv.tools.tuning.results import Outcome, append, best_of, read_results

FIRST_RUNS = 3
FAR_BEHIND = 1.5
"""A candidate that takes this many times as long as the best is not timed further."""
WARM_UP_SECONDS = 0.15
FOLLOWED = 3
"""Of how many of the best the neighbours are tried."""
ROUND = 12
"""Neighbours that are tried before it is looked again which are the best."""
FINALISTS = 3
"""Candidates that are measured a second time, beside the default."""
FINAL_ROUNDS = 3
"""How often they take turns."""


class Opener:
    """A device in a process of its own: opened when it is needed, and again after it was closed."""

    def __init__(self, name: str | None, timeout: float):
        self.name, self.timeout = name, timeout
        self._device: IsolatedDevice | None = None

    @property
    def device(self) -> IsolatedDevice:
        if self._device is None:
            self._device = open_isolated(self.name, timeout=self.timeout)
        return self._device

    def close(self) -> None:
        if self._device is not None:
            self._device.close()
        self._device = None


@dataclass
class Search:
    """
    One module's contractions on one device; `say` is told how it goes.

    `most` candidates of each contraction are tried, or as many as `seconds` allow; `jobs` processes
    compile them. `prune` leaves out what the driver's report says is slow. `expect` gives the right
    results for given inputs where that is faster than `check`.
    """

    text: str
    target: Target
    target_name: str
    device_name: str | None
    results: Path
    runs: int = 20
    most: int = 64
    timeout: float = 20.0
    say: Callable[[str], None] = lambda text: None
    jobs: int = 1
    seconds: float | None = None
    prune: bool = True
    expect: Callable[[Mapping[str, Array]], dict[str, Array]] | None = None
    compiler: Compiler | None = None
    opener: Opener | None = None
    """Given, both are used and left open."""

    def __post_init__(self) -> None:
        self.opened = self.opener or Opener(self.device_name, self.timeout)
        self.done = {(o.key, o.schedule, o.device): o for o in read_results(self.results)}
        self.inputs: dict[str, Array] = {}
        self.expected: dict[str, Array] | None = None
        self.compiling = self.compiler or Compiler(self.jobs)

    def run(self) -> dict[str, list[Outcome]]:
        """The outcomes of every contraction's candidates, by its key; the default comes first."""
        outcomes: dict[str, list[Outcome]] = {}
        try:
            for contraction in contractions_of(self.text, self.target_name):
                key = key_of(contraction)
                if isinstance(rows_or_reason(contraction, self.target), RowsAttr):
                    self.say(f"{key}: few rows that the other operand streams by, nothing to tune")
                elif choose_window(contraction, self.target) is not None:
                    self.say(f"{key}: computed window by window, nothing to tune")
                elif key not in outcomes:
                    self.say(key)
                    outcomes[key] = self._searched(key, contraction)
        finally:
            if self.opener is None:
                self.opened.close()
            if self.compiler is None:
                self.compiling.close()
        return outcomes

    def _searched(self, key: str, contraction: Contraction) -> list[Outcome]:
        end = None if self.seconds is None else time.monotonic() + self.seconds
        tried: dict[str, Outcome] = {}
        batch = self._first(contraction)
        while batch:
            with_programs = self.compiling.each(self._source(key), self._unknown(key, batch))
            for schedule in batch:
                if tried and end is not None and time.monotonic() > end:
                    return self._confirmed(key, tried)
                tried[str(schedule)] = self._tried(key, schedule, with_programs, tried)
            batch = self._next(contraction, tried)
        return self._confirmed(key, tried)

    def _first(self, contraction: Contraction) -> list[ContractionAttr]:
        """The default, what the table has, and the likeliest up to half of all."""
        listed = candidates(contraction, self.target, max(1, self.most // 2))
        known = lookup(contraction, self.target)
        if known is not None and known not in listed:
            listed[1:1] = [known]
        return listed[: self.most]

    def _next(
        self, contraction: Contraction, tried: Mapping[str, Outcome]
    ) -> list[ContractionAttr]:
        """Neighbours of the best that are new, or else the next that is likely."""
        right = sorted((o for o in tried.values() if o.right), key=lambda o: o.latest)
        near = chain.from_iterable(
            neighbours(contraction, self.target, parse_schedule(outcome.schedule))
            for outcome in right[:FOLLOWED]
        )
        more = (candidates(contraction, self.target, self.most) for _ in range(1))
        new = (s for s in chain(near, chain.from_iterable(more)) if str(s) not in tried)
        return list(islice(dict.fromkeys(new), min(ROUND, self.most - len(tried))))

    def _source(self, key: str) -> Source:
        return Source(self.text, self.target_name, key)

    def _known(self, key: str, schedule: ContractionAttr) -> Outcome | None:
        return self.done.get((key, str(schedule), self.opened.device.info.name))

    def _unknown(self, key: str, schedules: Sequence[ContractionAttr]) -> list[ContractionAttr]:
        return [schedule for schedule in schedules if self._known(key, schedule) is None]

    def _tried(
        self,
        key: str,
        schedule: ContractionAttr,
        with_programs: Iterator[tuple[ContractionAttr, Compiled]],
        tried: Mapping[str, Outcome],
    ) -> Outcome:
        """What is known of a candidate, or comes of it now; its program is the next one."""
        best = best_of(list(tried.values()))
        outcome = self._known(key, schedule)
        if outcome is None:
            _, program = next(with_programs)
            default = next(iter(tried.values()), None)
            outcome = self._outcome(key, schedule, program, default, best)
            append(self.results, outcome)
        if outcome.right and (best is None or outcome.latest < best.latest):
            best = outcome
        took = f"{outcome.microseconds:.1f} us" if outcome.microseconds else outcome.status
        top = f", best {best.latest:.1f} us" if best else ""
        held = str(heaviest(outcome.statistics))
        self.say(
            f"  {len(tried) + 1}/{self.most} {took}{top}: {schedule} "
            f"{outcome.cause or held}".rstrip()
        )
        return outcome

    def _outcome(
        self,
        key: str,
        schedule: ContractionAttr,
        program: Compiled,
        default: Outcome | None,
        best: Outcome | None,
    ) -> Outcome:
        outcome = Outcome(key, str(schedule), self.opened.device.info.name, "ok")
        if isinstance(program, ProgramError):
            return replace(outcome, status="refused", cause=program.cause)

        def measured() -> dict[str, Any]:
            return self._measured(program, schedule, default, best)

        try:
            return Outcome(**{**asdict(outcome), **self._guarded(measured)})
        except MisfitError as error:
            if default is None:
                # What the device has not got for one candidate it has for none.
                raise
            return replace(outcome, status="refused", cause=error.cause)

    def _guarded(self, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What a measurement finds, or what becomes of the device in it."""
        try:
            return measure()
        except (DeviceLostError, DeviceTimeoutError) as error:
            self.opened.close()
            late = isinstance(error, DeviceTimeoutError)
            return {"status": "late" if late else "crashed", "cause": error.cause}
        except MisfitError:
            raise
        except ProgramError as error:
            return {"status": "refused", "cause": error.cause}

    def _measured(
        self,
        program: Program,
        schedule: ContractionAttr,
        default: Outcome | None,
        best: Outcome | None,
    ) -> dict[str, Any]:
        """Look at its code; run once and compare; then time, more often if it is worth it."""
        device = self.opened.device
        if not self.inputs:
            self.inputs = random_inputs(program)
        loaded = device.load(work_of(program), statistics=True)
        try:
            statistics = [
                {name: float(value) for name, value in table.items()}
                for step in loaded.executables()
                for table in step
            ]
            slow = self._slow(schedule, statistics, default)
            if slow:
                return {"status": "pruned", "cause": slow, "statistics": statistics}
            outputs = loaded.run(self._given(), self.timeout)
            wrong = self._wrong(program, outputs)
            if wrong:
                return {"status": "wrong", "cause": wrong, "statistics": statistics}
            times = loaded.time(FIRST_RUNS, self.timeout, WARM_UP_SECONDS)
            if best is None or total(times) < FAR_BEHIND * best.latest:
                times = loaded.time(self.runs, self.timeout)
            packing = [time for time in times if time.entry_point.startswith(PACKING)]
            return {
                "microseconds": total(times),
                "packing": total(packing),
                "statistics": statistics,
            }
        finally:
            if device.worker.alive:
                device.unload(loaded)

    def _given(self) -> dict[str, bytes]:
        return {name: array.tobytes() for name, array in self.inputs.items()}

    def _slow(
        self,
        schedule: ContractionAttr,
        statistics: Sequence[Mapping[str, float]],
        default: Outcome | None,
    ) -> str:
        """Why the driver's report speaks against a candidate; never against the default."""
        if not self.prune or default is None:
            return ""
        room = self.target.residency.bytes_for(schedule.subgroup_count)
        return problem(heaviest(statistics), heaviest(default.statistics), room)

    def _confirmed(self, key: str, tried: dict[str, Outcome]) -> list[Outcome]:
        """The outcomes, the best of them and the default measured once more, in turn."""
        default, *others = tried.values()
        best = sorted((o for o in others if o.right), key=lambda o: o.latest)[:FINALISTS]
        finalists = [finalist for finalist in (default, *best) if finalist.right]
        if len(finalists) < 2 or all(finalist.again is not None for finalist in finalists):
            return list(tried.values())
        self.say(f"  the best {len(finalists)} again")
        schedules = [parse_schedule(finalist.schedule) for finalist in finalists]
        programs = [program for _, program in self.compiling.each(self._source(key), schedules)]
        times = self._guarded(lambda: self._in_turn(finalists, programs))
        for finalist in finalists:
            if finalist.schedule in times:
                again = replace(finalist, again=times[finalist.schedule])
                append(self.results, again)
                tried[finalist.schedule] = again
        return list(tried.values())

    def _in_turn(
        self, finalists: Sequence[Outcome], programs: Sequence[Compiled]
    ) -> dict[str, float]:
        """The microseconds of each, from several rounds in which they take turns."""
        device = self.opened.device
        loaded: dict[str, RemoteWork] = {}
        times: dict[str, list[float]] = {}
        try:
            for finalist, program in zip(finalists, programs, strict=True):
                if isinstance(program, Program):
                    loaded[finalist.schedule] = device.load(work_of(program))
                    loaded[finalist.schedule].run(self._given_to(program), self.timeout)
            for _ in range(FINAL_ROUNDS):
                for schedule, work in loaded.items():
                    took = work.time(self.runs, self.timeout, WARM_UP_SECONDS)
                    times.setdefault(schedule, []).append(total(took))
        finally:
            if device.worker.alive:
                for work in loaded.values():
                    device.unload(work)
        return {schedule: median(finalist) for schedule, finalist in times.items()}

    def _given_to(self, program: Program) -> dict[str, bytes]:
        self.inputs = self.inputs or random_inputs(program)
        return self._given()

    def _wrong(self, program: Program, outputs: Mapping[str, bytearray]) -> str:
        """Why the results are not right; empty if they are."""
        results = {
            b.name: np.frombuffer(outputs[b.name], dtype_of(b.type)).reshape(b.sizes)
            for b in program.manifest.outputs
        }
        # Small integers have exact sums in every order, so one reference does for all candidates.
        if self.expected is None and self.expect is not None:
            self.expected = self.expect(self.inputs)
        if self.expected is not None:
            same = (np.array_equal(a, self.expected[name]) for name, a in results.items())
            if all(same):
                return ""
        failed = [str(c) for c in check(program, self.inputs, results) if not c.passed]
        if self.expected is None and not failed:
            self.expected = results
        return "; ".join(failed)


PACKING = "pack_"
"""How the entry points of kernels that pack operands begin."""


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
    for lowering in (
        QuantizedContractionsPass(target=target),
        LinalgToContractionPass(),
        FormDispatchesPass(),
    ):
        lowering.apply(ctx, module)
    contractions: list[Contraction] = []
    for op in module.walk():
        if isinstance(op, LinalgStructuredOperation):
            try:
                contractions.append(contraction_of(op))
            except NotAContraction:
                continue
    if not contractions:
        raise ProgramError("the module has no contraction to tune", "", "give it a linalg.matmul")
    return contractions
