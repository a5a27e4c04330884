"""
Defines the jobs of a search: propose and compile candidates, and measure them on a device.

Because clocks drift, a reference (the contraction's default schedule) is timed before and after
each candidate on the same device, and only ratios of times are compared. The inputs are small
integers with exact sums, so that correct results are bit-identical to the reference's. Other
results must be within the bound of docs/numerics.md.
"""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from xdsl_spirv.jobs.job import Wrong
from xdsl_spirv.passes.schedule.kinds import ScheduleDoesNotFit
from xdsl_spirv.passes.schedule.tuned import key_of, parse_schedule
from xdsl_spirv.runtime.elements import Array, dtype_of
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.vulkan.statistics import heaviest, problem
from xdsl_spirv.runtime.vulkan.work import Step, Work, WorkBuffer
from xdsl_spirv.targets import load
from xdsl_spirv.tools.tuning.candidates import Source, compiled, contractions_of
from xdsl_spirv.tools.tuning.proposals import Pricing, Tried, propose, subject_data, subject_from
from xdsl_spirv.tools.tuning.results import UNSTEADY

if TYPE_CHECKING:
    from xdsl_spirv.runtime.program import Program
    from xdsl_spirv.runtime.vulkan.device import VulkanDevice
    from xdsl_spirv.runtime.vulkan.loaded import LoadedWork

PACKING = "pack_"
"""Name prefix of entry points that pack operands."""
ATTEMPTS = 3
"""Maximum number of timings of a candidate, if the reference's time changes."""
WARM_UP_SECONDS, STEP_SECONDS = 0.3, 0.005
"""Time limits of the warm-up before a timing, in total and per step, in seconds."""
WARM = 1.04
"""
A device is warm if the reference takes less than its shortest time, multiplied by this factor.
"""
REFERENCE_RUNS = 5
"""Minimum number of runs of the reference, before and after a candidate."""
KEPT = 1 / 8
"""Fraction of free device memory for each of two caches: references, and inputs."""
SMALL = 256
"""Maximum size of the buffers of a candidate that is only compiled, in bytes."""
DEEP = 4096
"""Size of a dimension above which input values are smaller, so that sums are exact in 16 bits."""


def source_of(data: Mapping[str, Any]) -> Source:
    return Source(data["text"], data["target"], data["contraction"], tuple(data["weights"]))


@lru_cache(32)
def pricing_of(source: Source) -> Pricing:
    """Returns the cost estimates for the schedules of a contraction."""
    listed = contractions_of(source.text, source.target, source.weights)
    for contraction in listed:
        if key_of(contraction) == source.key:
            return Pricing(contraction, load(source.target))
    raise ProgramError(
        "the module no longer contains this contraction", source.key, "tune the module again"
    )


def list_contractions(data: Mapping[str, Any]) -> list[str]:
    """Returns the keys of a module's contractions that have schedules to search."""
    from xdsl_spirv.tools.tuning.together import sources_of

    weights = tuple(data["weights"])
    return [s.key for s in sources_of(data["text"], data["target"], weights, lambda text: None)]


def propose_candidates(data: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the next candidates, and their expected gain."""
    tried = [Tried(*row) for row in data["tried"]]
    learned = [(subject_from(s), seconds, runs) for s, seconds, runs in data["learned"]]
    pricing = pricing_of(source_of(data))
    try:
        proposals = propose(pricing, tried, learned, data["count"], data["most"])
    except ScheduleDoesNotFit as error:
        raise ProgramError(str(error), data["contraction"], "tune a smaller contraction") from error
    # A list, because the data's keys have no order.
    subjects = [[name, subject_data(s)] for name, s in proposals.subjects.items()]
    return {"subjects": subjects, "expected_gain": proposals.expected_gain}


def compile_candidate(data: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a compiled candidate as job data. Raises `ProgramError` if it does not compile."""
    program = compiled(source_of(data), data["schedule"])
    if isinstance(program, ProgramError):
        raise program
    return work_data(program)


def expect(data: Mapping[str, Any]) -> dict[str, str]:
    """Returns digests of the exact results by name."""
    from xdsl_spirv.interpreter import reference

    module, function, arguments = _arguments(data)
    results = reference(module, arguments, function)
    names = (name for name, *_ in data["results"])
    return {n: _digest(r.tobytes()) for n, r in zip(names, results, strict=True)}


def load_ahead(data: Mapping[str, Any]) -> None:
    """
    Compiles a candidate's kernels with the driver, so that the driver's disk cache contains them.

    Compiling takes most of a measurement's time, and does not need the device.
    """
    from xdsl_spirv.jobs.child import open_own_device

    work = work_from(data["work"], {})
    small = tuple(replace(buffer, size=min(buffer.size, SMALL)) for buffer in work.buffers)
    weights = {buffer.name: bytes(buffer.size) for buffer in small if buffer.kind == "weight"}
    device = open_own_device()
    device.unload(device.load(replace(work, buffers=small, weights=weights), statistics=True))


def measure(data: Mapping[str, Any]) -> dict[str, Any]:
    """
    Measures a candidate and the reference, in microseconds, and collects the driver's statistics.

    `reference` is None for the default schedule. With `verify`, the results must agree with the
    source's within their bound. `spent` gives the seconds of each stage of the job. Raises `Wrong`
    and the device's errors.
    """
    from xdsl_spirv.jobs.child import open_own_device

    bench = _bench(open_own_device())
    spent = _Spent()
    with spent.on("reference"):
        reference = data["reference"] and bench.reference(data)
    with spent.on("load"):
        loaded = bench.load(data["work"], data)
    kept = False
    try:
        statistics = _statistics(loaded)
        if data["prune"] and reference:
            target, schedule = load(data["target"]), parse_schedule(data["schedule"])
            room = target.residency.bytes_for(schedule.subgroup_count)
            slow = problem(heaviest(statistics), heaviest(reference.statistics), room)
            if slow:
                return {"pruned": slow, "statistics": statistics}
        with spent.on("run"):
            outputs = loaded.run(bench.inputs(data), data["timeout"])
            digests = {name: _digest(value) for name, value in outputs.items()}
        if data["verify"] or (reference and digests != reference.digests):
            _verify(data, outputs)
        own = reference or _Reference(loaded, digests, statistics)
        times = _time_beside_reference(bench, own, loaded, data, spent)
        if data["is_default"]:
            kept = bench.keep(_key(data["work"], data), own)
        elif reference is None:
            # The default is not correct, so there is no reference.
            times["reference"] = 0.0
        return {"digests": digests, "statistics": statistics, "spent": spent.seconds, **times}
    finally:
        if not kept:
            bench.device.unload(loaded)


class _Spent:
    """Seconds of a measurement by stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def on(self, part: str) -> Generator[None]:
        begun = time.perf_counter()
        yield
        took = time.perf_counter() - begun
        self.seconds[part] = round(self.seconds.get(part, 0.0) + took, 4)


def _time_beside_reference(
    bench: _Bench,
    reference: _Reference,
    loaded: LoadedWork,
    data: Mapping[str, Any],
    spent: _Spent,
) -> dict[str, Any]:
    """
    Times the reference, then the candidate (`loaded`), then the reference again. Returns the times.
    """
    runs, timeout = data["runs"], data["timeout"]
    count = max(REFERENCE_RUNS, runs // 2)
    attempt = 0
    while True:
        with spent.on("warm-up"):
            bench.warm_up(reference, timeout)
        with spent.on("time"):
            before = reference.microseconds(count, timeout)
            times = _microseconds(loaded, runs, timeout)
            after = reference.microseconds(count, timeout)
        attempt += 1
        if abs(after / before - 1) <= UNSTEADY or attempt == ATTEMPTS:
            return {
                "microseconds": sum(times.values()),
                "packing": sum(t for (_, name), t in times.items() if name.startswith(PACKING)),
                "reference": (before + after) / 2,
                "drift": after / before - 1,
            }


def _microseconds(loaded: LoadedWork, runs: int, timeout: float) -> dict[tuple[int, str], float]:
    """Returns the median time of every dispatch that runs repeatedly, by index and entry point."""
    timed = zip(loaded.time(runs, timeout), loaded.work.steps, strict=True)
    return {
        (number, step.entry_point): took.median / 1e3
        for number, (took, step) in enumerate(timed)
        if not step.once
    }


def _statistics(loaded: LoadedWork) -> list[dict[str, float]]:
    return [
        {name: float(value) for name, value in table.items()}
        for step in loaded.executables()
        for table in step
    ]


def _digest(value: bytearray | bytes) -> str:
    return hashlib.sha256(value).hexdigest()[:32]


@dataclass
class _Reference:
    """The default schedule's loaded work, and its shortest time so far."""

    loaded: LoadedWork
    digests: dict[str, str]
    statistics: list[dict[str, float]]
    shortest: float = 0.0

    @property
    def size(self) -> int:
        return sum(buffer.size for buffer in self.loaded.work.buffers)

    def microseconds(self, count: int, timeout: float) -> float:
        took = sum(_microseconds(self.loaded, count, timeout).values())
        self.shortest = min(took, self.shortest or took)
        return took

    def run_on(self, timeout: float) -> float:
        """Runs the reference repeatedly, and returns its time in microseconds."""
        self.loaded.time(1, timeout, STEP_SECONDS)
        return self.microseconds(REFERENCE_RUNS, timeout)


@dataclass
class _Bench:
    """Caches of a process that measures on one device: recent references and inputs."""

    device: VulkanDevice
    room: int
    """Memory limit of each of the two caches (references, inputs), in bytes."""
    references: OrderedDict[str, _Reference] = field(default_factory=OrderedDict[str, _Reference])
    given: OrderedDict[str, dict[str, tuple[bytes, str]]] = field(
        default_factory=OrderedDict[str, dict[str, tuple[bytes, str]]]
    )
    shortest: dict[str, float] = field(default_factory=dict[str, float])
    """Shortest times of all references so far, also of references that were unloaded."""

    def inputs(self, data: Mapping[str, Any]) -> dict[str, bytes]:
        """Returns the bytes of every input, generated from its description."""
        return {n: v for n, (v, kind) in self._given(data["inputs"]).items() if kind == "input"}

    def _given(self, inputs: Sequence[Sequence[Any]]) -> dict[str, tuple[bytes, str]]:
        """Returns the bytes and the kind of all arguments of a program, from the cache."""
        key = repr(inputs)
        if key not in self.given:
            values = values_of(inputs)
            self.given[key] = {name: (values[name].tobytes(), kind) for name, *_, kind in inputs}
            sizes = [sum(len(v) for v, _ in given.values()) for given in self.given.values()]
            for _ in range(_count_beyond(sizes, self.room)):
                self.given.popitem(last=False)
        self.given.move_to_end(key)
        return self.given[key]

    def load(self, work: Mapping[str, Any], data: Mapping[str, Any]) -> LoadedWork:
        """Loads the dispatches that `work` describes onto the device, with generated weights."""
        given = self._given(data["inputs"])
        weights = {name: value for name, (value, kind) in given.items() if kind == "weight"}
        return self.device.load(work_from(work, weights), statistics=True)

    def reference(self, data: Mapping[str, Any]) -> _Reference:
        """Returns the default schedule's work, loaded and run once."""
        key = _key(data["reference"], data)
        if key not in self.references:
            loaded = self.load(data["reference"], data)
            outputs = loaded.run(self.inputs(data), data["timeout"])
            digests = {name: _digest(value) for name, value in outputs.items()}
            reference = _Reference(
                loaded, digests, _statistics(loaded), self.shortest.get(key, 0.0)
            )
            self.keep(key, reference)
        self.references.move_to_end(key)
        return self.references[key]

    def warm_up(self, reference: _Reference, timeout: float) -> None:
        """
        Runs the reference until the device is warm, or until a time limit.

        If the reference was never timed, the last timed reference is run instead.
        """
        timed = (other for other in reversed(self.references.values()) if other.shortest)
        gauge = reference if reference.shortest else next(timed, reference)
        known = gauge.shortest
        end = time.monotonic() + WARM_UP_SECONDS
        while time.monotonic() < end:
            if gauge.run_on(timeout) < WARM * known:
                return

    def keep(self, key: str, reference: _Reference) -> bool:
        """
        Caches a reference and unloads old ones. Returns False if another reference is cached for
        the key.
        """
        if key in self.references:
            return self.references[key] is reference
        self.references[key] = reference
        sizes = [reference.size for reference in self.references.values()]
        for _ in range(_count_beyond(sizes, self.room)):
            oldest, dropped = self.references.popitem(last=False)
            self.shortest[oldest] = dropped.shortest
            self.device.unload(dropped.loaded)
        return True


def _key(work: Mapping[str, Any], data: Mapping[str, Any]) -> str:
    """
    Returns a cache key for a reference: a hash of the kernels, and the name of the tuned
    contraction.
    """
    return (
        hashlib.sha256(repr(sorted(work["kernels"].items())).encode()).hexdigest()
        + (data["contraction"])
    )


def _count_beyond(sizes: Sequence[int], room: int) -> int:
    """Returns how many of the oldest entries to remove to meet the limit; keeps the last entry."""
    total = sum(sizes)
    for count, size in enumerate(sizes[:-1]):
        if total <= room:
            return count
        total -= size
    return len(sizes) - 1


@cache
def _bench(device: VulkanDevice) -> _Bench:
    return _Bench(device, int(KEPT * device.free_bytes))


def values_of(inputs: Sequence[Sequence[Any]]) -> dict[str, Array]:
    """Returns random integers from -2 to 2 (-1 to 1 for long sums) by input name."""
    generator = np.random.default_rng(0)
    values: dict[str, Array] = {}
    for name, type, sizes, _ in inputs:
        most = 1 if max(sizes, default=0) > DEEP else 2
        integers = generator.integers(-most, most + 1, sizes, np.int8)
        values[name] = integers.astype(dtype_of(type))
    return values


def _arguments(data: Mapping[str, Any]) -> tuple[Any, str, list[Array]]:
    """Returns the source's module, the function's name, and its generated arguments."""
    from xdsl_spirv.compiler.host import host_function
    from xdsl_spirv.compiler.signature import argument_name
    from xdsl_spirv.runtime.modules import context, parse_text

    module = parse_text(data["text"], "source", context())
    host = host_function(module, None)
    values = values_of(data["inputs"])
    names = [argument_name(argument, i) for i, argument in enumerate(host.body.block.args)]
    return module, host.sym_name.data, [values[name] for name in names]


def _verify(data: Mapping[str, Any], outputs: Mapping[str, bytearray]) -> None:
    """
    Checks a candidate's outputs against the results that the source module defines.

    Raises `Wrong` if an output differs by more than rounding in the output's type explains.
    """
    from xdsl_spirv.compare.check import check_module

    module, function, arguments = _arguments(data)
    results = {
        name: np.frombuffer(outputs[name], dtype_of(type)).reshape(sizes)
        for name, type, sizes in data["results"]
    }
    compared = check_module(module, function, arguments, list(results), results)
    failed = [str(comparison) for comparison in compared if not comparison.passed]
    if failed:
        raise Wrong("; ".join(failed))


def work_data(program: Program) -> dict[str, Any]:
    """Converts a program to job data: its work without weights, its inputs and its results."""
    from xdsl_spirv.runtime.vulkan.programs import work_of

    manifest = program.manifest
    given = [b for b in manifest.buffers if b.kind in ("input", "weight")]
    work = asdict(work_of(program))
    del work["weights"], work["routines"]
    return {
        "work": work,
        "inputs": [[b.name, b.type, list(b.sizes), b.kind] for b in given],
        "results": [[b.name, b.type, list(b.sizes)] for b in manifest.outputs],
    }


def work_from(data: Mapping[str, Any], weights: Mapping[str, bytes]) -> Work:
    """Converts the data of `work_data` back to work."""
    steps = [
        Step(
            kernel=step["kernel"],
            entry_point=step["entry_point"],
            grid=tuple(step["grid"]),
            bindings=tuple(map(tuple, step["bindings"])),
            constants=tuple(map(tuple, step["constants"])),
            push=step["push"],
            addresses=tuple(map(tuple, step["addresses"])),
            once=step["once"],
        )
        for step in data["steps"]
    ]
    return Work(
        buffers=tuple(WorkBuffer(**buffer) for buffer in data["buffers"]),
        kernels=data["kernels"],
        steps=tuple(steps),
        subgroup_size=data["subgroup_size"],
        target=data["target"],
        component_map=data["component_map"],
        weights=weights,
    )
