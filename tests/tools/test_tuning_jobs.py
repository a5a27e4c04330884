"""On a simulated device, a search's jobs compare results, prune, warm up and time the default."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pytest

from xdsl_spirv.jobs import child
from xdsl_spirv.jobs.engine import Engine
from xdsl_spirv.jobs.job import KINDS, Job, Result, Wrong, from_bytes, to_bytes
from xdsl_spirv.jobs.places import Place
from xdsl_spirv.passes.schedule.space import candidates
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.vulkan.loaded import Time
from xdsl_spirv.runtime.vulkan.work import Work
from xdsl_spirv.targets import load
from xdsl_spirv.tools.tune import SOURCE
from xdsl_spirv.tools.tuning import kinds
from xdsl_spirv.tools.tuning.bench import COMPILE, EXPECT, LOAD, PROPOSE, DeviceBench, source_data
from xdsl_spirv.tools.tuning.kinds import WARM_UP_SECONDS
from xdsl_spirv.tools.tuning.search import Options
from xdsl_spirv.tools.tuning.together import sources_of

M, N, K = 16, 24, 32
TEXT = SOURCE.format(m=M, n=N, k=K, a="f16", b="f16", c="f32", zero="0.0")


@dataclass
class Loaded:
    """Work with a given time in microseconds at full clock, and a given error."""

    device: Played
    work: Work
    microseconds: float
    error: float
    statistics: dict[str, float]

    def run(self, inputs: Mapping[str, bytes], timeout: float) -> dict[str, bytearray]:
        values = {**self.work.weights, **inputs}
        a = np.frombuffer(values["A"], np.float16).reshape(M, K).astype(np.float32)
        b = np.frombuffer(values["B"], np.float16).reshape(K, N).astype(np.float32)
        result = a @ b
        result[3, 4] += self.error
        return {"result0": bytearray(result.tobytes())}

    def executables(self) -> list[list[dict[str, float]]]:
        return [[self.statistics]]

    def time(self, count: int, timeout: float, warm_up: float = 0.0) -> list[Time]:
        self.device.busy += 1
        slow = 4.0 if self.device.busy < self.device.cold else 1.0
        nanoseconds = self.microseconds * 1e3 * slow
        return [Time(s.kernel, s.entry_point, (nanoseconds,) * count) for s in self.work.steps]


@dataclass(eq=False)
class Played:
    """A simulated device, whose clock is low for the first `cold` runs."""

    works: list[tuple[float, float, dict[str, float]]]
    cold: int = 0
    busy: int = 0
    open: list[Loaded] = field(default_factory=list[Loaded])
    free_bytes: int = 1 << 30

    def load(self, work: Work, statistics: bool = False) -> Loaded:
        self.open.append(Loaded(self, work, *self.works.pop(0)))
        return self.open[-1]

    def unload(self, loaded: Loaded) -> None:
        self.open.remove(loaded)


class Measure(Protocol):
    """`measured(device, **changes)` measures the job with changed data on a device."""

    def __call__(self, device: Played, /, **other: Any) -> dict[str, Any]: ...


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    """Returns the data of a job that measures a candidate against itself."""
    (source,) = sources_of(TEXT, "lavapipe", ("B",), print)
    schedule = str(candidates(kinds.pricing_of(source).contraction, load("lavapipe"), 1)[0])
    compiled = kinds.compile_candidate(source_data(source) | {"schedule": schedule})
    return {
        **source_data(source),
        **compiled,
        "schedule": schedule,
        "runs": 3,
        "turn": 0,
        "timeout": 5.0,
        "prune": True,
        "verify": False,
        "reference": compiled["work"],
        "is_default": False,
    }


@pytest.fixture
def measured(data: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Measure:
    """Returns the result of measuring two works: the default's and the candidate's."""

    def measure(device: Played, **other: Any) -> dict[str, Any]:
        monkeypatch.setattr(child, "open_own_device", lambda: device)
        return kinds.measure(data | other)

    return measure


FINE = {"Register Count": 40.0}


def test_a_candidate_is_timed_beside_the_default(measured: Measure, data: dict[str, Any]):
    device = Played([(5.0, 0.0, FINE), (3.0, 0.0, FINE)])
    steps = sum(not step["once"] for step in data["work"]["steps"])
    result = measured(device)
    assert result["reference"] == 5.0 * steps
    assert result["microseconds"] == 3.0 * steps
    assert result["drift"] == 0.0
    assert result["statistics"] == [FINE]
    # The default stays loaded for the next candidate.
    assert [loaded.microseconds for loaded in device.open] == [5.0]
    device.works.append((2.0, 0.0, FINE))
    assert measured(device)["microseconds"] == 2.0 * steps


def test_a_low_clock_is_waited_for(measured: Measure):
    device = Played([(5.0, 0.0, FINE), (3.0, 0.0, FINE), (3.0, 0.0, FINE)])
    first = measured(device)
    device.busy, device.cold = 0, 60
    second = measured(device)
    assert device.busy > 60
    assert second["microseconds"] == first["microseconds"]
    assert second["reference"] == first["reference"]


def test_a_new_default_is_not_warmed_up_on_a_warm_device(measured: Measure):
    works = [(5.0, 0.0, FINE), (3.0, 0.0, FINE)]
    device = Played([*works, *works])
    first = measured(device)["spent"]
    second = measured(device, contraction="another")["spent"]
    assert first["warm-up"] >= WARM_UP_SECONDS > 10 * second["warm-up"]
    assert second.keys() == {"reference", "load", "run", "warm-up", "time"}


def test_a_driver_compiles_ahead_without_the_buffers(
    data: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    device = Played([(5.0, 0.0, FINE)])
    loaded: list[Work] = []
    monkeypatch.setattr(child, "open_own_device", lambda: device)
    monkeypatch.setattr(device, "unload", lambda it: loaded.append(it.work))  # pyright: ignore
    kinds.load_ahead(data)
    (work,) = loaded
    assert work.kernels == data["work"]["kernels"]
    assert len(work.steps) == len(data["work"]["steps"])
    assert {buffer.size for buffer in work.buffers} == {kinds.SMALL}
    assert {name: len(value) for name, value in work.weights.items()} == {"B": kinds.SMALL}


def test_a_wrong_result_has_no_time(measured: Measure):
    with pytest.raises(Wrong, match="BEYOND"):
        measured(Played([(5.0, 0.0, FINE), (3.0, 1.0, FINE)]))
    # The same holds for the default, which is compared with the source.
    assert measured(Played([(5.0, 1.0, FINE)]), reference=None, is_default=True)["digests"]
    with pytest.raises(Wrong, match="BEYOND"):
        measured(Played([(5.0, 1.0, FINE)]), reference=None, is_default=True, verify=True)
    # A difference within the types' tolerance is right.
    assert measured(Played([(5.0, 0.0, FINE), (3.0, 1e-6, FINE)]))["microseconds"]


def test_exact_results_are_those_of_a_right_default(measured: Measure, data: dict[str, Any]):
    right = measured(Played([(5.0, 0.0, FINE)]), reference=None, is_default=True)
    assert right["digests"] == kinds.expect(data)
    wrong = measured(Played([(5.0, 1.0, FINE)]), reference=None, is_default=True)
    assert wrong["digests"] != kinds.expect(data)


def test_the_report_of_a_driver_prunes_candidates(measured: Measure):
    spilling = {"Register Count": 255.0, "Local Memory Size": 64.0}
    works: list[Any] = [(5.0, 0.0, FINE), (3.0, 0.0, spilling)]
    device = Played(list(works))
    assert measured(device)["pruned"] == "spills 64 beside its 255 registers"
    assert device.busy == 0
    assert measured(Played(list(works)), prune=False)["microseconds"]


def test_a_candidate_is_timed_without_a_right_default(measured: Measure):
    result = measured(Played([(3.0, 0.0, FINE)]), reference=None)
    assert result["reference"] == 0.0


@dataclass
class Inline(Engine):
    """An engine that runs jobs in this process, and pretends that another machine did."""

    kinds: Counter[str] = field(default_factory=Counter[str])

    def place(self, resource: str) -> Place:
        return Place(resource)

    def resources(self) -> Counter[str]:
        return Counter()

    def perform(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, Result]]:
        for job in jobs:
            self.kinds[job.kind] += 1
            value = child.function_of(KINDS[job.kind].function)(from_bytes(to_bytes(job.data)))
            yield job, Result("ok", from_bytes(to_bytes(value)))

    def close(self) -> None:
        pass


def test_the_default_is_proposed_first(data: dict[str, Any]):
    asked = {**data, "tried": [], "learned": [], "count": 6, "most": 12}
    proposed = from_bytes(to_bytes(kinds.propose_candidates(asked)))
    names = [name for name, _ in proposed["subjects"]]
    assert names[0] == data["schedule"]
    assert names != sorted(names)
    bench = DeviceBench(Inline(), "lavapipe", Options())
    source = kinds.source_of(data)
    assert list(bench.propose(source, [], [], 6, 12).subjects) == names


@pytest.mark.parametrize(
    ("resource", "ahead", "loads"),
    [("vulkan:x", True, 3), ("vulkan:x", False, 0), ("lavapipe", True, 0)],
)
def test_a_step_is_prepared_on_cores(
    resource: str, ahead: bool, loads: int, data: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(child, "open_own_device", lambda: Played([(5.0, 0.0, FINE)]))
    engine = Inline()
    bench = DeviceBench(engine, resource, Options(most=3, load_ahead=ahead))
    bench.prepare(kinds.source_of(data))
    assert engine.kinds == {PROPOSE: 1, COMPILE: 3, EXPECT: 1} | ({LOAD: loads} if loads else {})
    assert len(bench.compiled) == 3
    assert bench.propose(kinds.source_of(data), [], [], 3, 3) is bench.first


def test_candidates_that_do_not_compile_are_refused(data: dict[str, Any]):
    with pytest.raises(ProgramError):
        kinds.compile_candidate({**data, "schedule": data["schedule"].replace("8x8x8", "7x7x7")})
