"""
The search works on simulated devices, and can be repeated from a store.

The devices' times deviate from estimates by an error of each decision, and their clocks drift.
"""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from xdsl_spirv.jobs.job import Job, Result
from xdsl_spirv.jobs.store import Store
from xdsl_spirv.passes.schedule.space import candidates
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.targets import load
from xdsl_spirv.testing.reports import json_and_text, missing_figures
from xdsl_spirv.tools.main import main
from xdsl_spirv.tools.tune import SOURCE
from xdsl_spirv.tools.tuning.bench import MEASURE, Replay, source_data
from xdsl_spirv.tools.tuning.candidates import Source, contractions_of
from xdsl_spirv.tools.tuning.kinds import pricing_of
from xdsl_spirv.tools.tuning.page import page_of
from xdsl_spirv.tools.tuning.prediction import Model, Subject
from xdsl_spirv.tools.tuning.proposals import Measured, Proposals, Tried, select
from xdsl_spirv.tools.tuning.results import Known, Outcome, best_of, deserves_entry
from xdsl_spirv.tools.tuning.search import STEP, Bench, Learned, Options, Search, ladder
from xdsl_spirv.tools.tuning.together import Together, sources_of

CHOICES = {
    "tile": ("64x64", "128x64", "64x128", "128x128", "32x128", "256x64"),
    "depth": ("32", "64", "128"),
    "a": ("staged", "direct"),
    "b": ("staged", "direct", "panels"),
    "stages": ("1", "2"),
}
DEFAULT = "/".join(choices[0] for choices in CHOICES.values())


@dataclass
class Invented(Bench):
    """
    Simulates 216 candidates. A time is the estimate multiplied by an error for each decision.

    `clock(n)` multiplies each time that is measured after `n` candidates.
    """

    seed: int = 0
    world: str = "a"
    noise: float = 0.06
    clock: Callable[[int], float] = lambda count: 1.0
    beside: bool = True
    timed: int = 0
    runs: int = 0
    statuses: dict[str, str] = field(default_factory=dict[str, str])

    @cached_property
    def subjects(self) -> dict[str, Subject]:
        generator = random.Random(f"estimates {self.world}")
        return {
            "/".join(choice): Subject(
                f"contraction {self.seed}",
                "a class",
                tuple(zip(CHOICES, choice, strict=True)),
                1e-2 * math.exp(generator.gauss(0, 0.1)),
            )
            for choice in product(*CHOICES.values())
        }

    @cached_property
    def truth(self) -> dict[str, float]:
        """Returns the seconds of each candidate at the first clock."""
        generator = random.Random(f"errors {self.world}")
        errors: dict[tuple[str, Hashable], float] = {
            (name, choice): generator.gauss(0, 0.2)
            for name, choices in CHOICES.items()
            for choice in choices
        }
        own = random.Random(self.seed)
        return {
            name: s.estimate
            * math.exp(sum(errors[decision] for decision in s.decisions) + own.gauss(0, 0.06))
            for name, s in self.subjects.items()
        }

    @cached_property
    def generator(self) -> random.Random:
        return random.Random(self.seed)

    def propose(
        self,
        source: Source,
        tried: Sequence[Tried],
        learned: Sequence[Measured],
        count: int,
        most: int,
    ) -> Proposals:
        known = {t.schedule for t in tried}
        new = {name: s for name, s in self.subjects.items() if name not in known}
        own = [(self.subjects[t.schedule], t.seconds, t.runs) for t in tried if t.seconds]
        chosen = select(new, own, learned, count)
        first = {DEFAULT: self.subjects[DEFAULT]} if not tried else {}
        return replace(chosen, subjects=dict(list({**first, **chosen.subjects}.items())[:count]))

    def measure(
        self, source: Source, schedules: Sequence[str], runs: int, turn: int = 0
    ) -> list[Outcome]:
        return [self._timed(name, runs) for name in schedules]

    def _timed(self, name: str, runs: int) -> Outcome:
        status = self.statuses.get(name, "ok")
        if status != "ok":
            return Outcome("key", name, "invented", "1", status, cause="<it is>")
        slower = self.clock(self.timed)
        self.timed += 1
        self.runs += runs

        def took(candidate: str, count: int) -> float:
            error = self.generator.gauss(0, self.noise / math.sqrt(count))
            return 1e6 * slower * self.truth[candidate] * math.exp(error)

        reference = took(DEFAULT, 10) if self.beside else 1e6 * self.truth[DEFAULT]
        return Outcome("key", name, "invented", "1", "ok", took(name, runs), reference, runs)


SOURCE_OF_NOTHING = Source("", "", "key")


def searched(bench: Invented, **options: float) -> tuple[list[Outcome], Search]:
    search = Search(SOURCE_OF_NOTHING, bench, Options(**{"most": 72, **options}))  # pyright: ignore
    return search.run(), search


def lost(bench: Invented, outcomes: Sequence[Outcome]) -> float:
    """Returns the relative excess of the best found time over the best possible one."""
    best = best_of(outcomes)
    assert best is not None
    return bench.truth[best.schedule] / min(bench.truth.values()) - 1


@pytest.mark.parametrize("world", "abceg")
def test_halving_finds_the_best_with_a_fraction_of_the_measurements(world: str):
    bench = Invented(0, world)
    outcomes, _ = searched(bench)
    assert outcomes[0].schedule == DEFAULT
    favourite = min(bench.subjects, key=lambda name: bench.subjects[name].estimate)
    assert bench.truth[favourite] > 1.1 * min(bench.truth.values())
    assert lost(bench, outcomes) < 0.02
    assert len(outcomes) <= 72
    # Measuring all candidates with all runs would take more than ten times as many runs.
    assert 10 * bench.runs < 20 * len(bench.truth)


def test_candidates_far_behind_get_few_runs():
    bench = Invented(0, "e")
    outcomes, _ = searched(bench)
    assert ladder(20) == [3, 7, 20]
    assert ladder(2) == [2]
    # If runs take less time than loading a candidate, all runs follow the first load.
    assert ladder(20, 10) == [10, 20]
    assert ladder(20, 100) == [20]
    runs = {o.schedule: o.runs for o in outcomes}
    ranked = sorted(runs.keys() - {DEFAULT}, key=lambda name: bench.truth[name])
    assert runs[ranked[0]] == 20
    assert {runs[name] for name in ranked[-6:]} == {3}


def slowing(count: int) -> float:
    """Returns the clock factor of a device that gets hot."""
    return 1 + count / 30


def jumping(count: int) -> float:
    """Returns the clock factor of a device that another process uses now and then."""
    return 1.6 if (count // 7) % 2 else 1.0


@pytest.mark.parametrize(("clock", "world"), [(slowing, "h"), (jumping, "b"), (jumping, "c")])
def test_a_drifting_clock_misleads_only_without_the_reference(
    clock: Callable[[int], float], world: str
):
    steady, drifting = Invented(0, world), Invented(0, world, clock=clock)
    assert lost(drifting, searched(drifting)[0]) <= lost(steady, searched(steady)[0])
    misled = Invented(0, world, clock=clock, beside=False)
    assert lost(misled, searched(misled)[0]) > 0.05


def test_a_changed_reference_does_not_favour_a_candidate():
    outcome = Outcome("key", "s", "d", "1", "ok", 10.0, 20.0, drift=3.0)
    # The default took 8 before and 32 after the candidate.
    assert outcome.ratio == pytest.approx(10 / 8)
    assert replace(outcome, drift=-0.75).ratio == pytest.approx(10 / 8)
    assert replace(outcome, drift=0.01).ratio == 0.5
    again = replace(outcome, again=0.5)
    assert not deserves_entry([replace(outcome, microseconds=20.0, drift=0.0, again=1.0), again])


def test_a_search_ends_when_little_can_be_gained():
    said = list[str]()
    bench = Invented(0, "c")
    search = Search(SOURCE_OF_NOTHING, bench, Options(most=216, until_gain=0.01), say=said.append)
    outcomes = search.run()
    assert len(outcomes) < 60
    assert lost(bench, outcomes) < 0.02
    assert search.expected == sorted(search.expected, reverse=True)
    assert search.expected[-1] < 0.01
    assert ", less than 1.0%" in said[-1]
    assert "times the default" in said[0]
    satisfied = Search(SOURCE_OF_NOTHING, Invented(0, "c"), Options(until_gain=1.0))
    assert len(satisfied.run()) < len(outcomes)


def test_predictions_are_corrected_by_earlier_gains():
    learned = Learned()
    assert learned.believed(3.0) == pytest.approx(3.0)
    learned.settle(3.0, 10.0, 10.0)
    assert 0 < learned.believed(3.0) < 0.15
    # A fulfilled prediction partly compensates. Exceeding it does not raise the factor further.
    trusting = Learned()
    trusting.settle(0.1, 10.0, 5.0)
    assert trusting.believed(0.1) == pytest.approx(0.1)
    before = learned.believed(0.2)
    learned.settle(0.2, 10.0, 8.0)
    assert before < learned.believed(0.2) < 0.2


@pytest.mark.parametrize("world", "ef")
def test_contractions_learn_from_one_another(world: str):
    learned = Learned()
    firsts: list[float] = []
    for seed in range(3):
        bench = Invented(seed, world)
        search = Search(SOURCE_OF_NOTHING, bench, Options(most=13), learned)
        search.source = replace(SOURCE_OF_NOTHING, key=f"contraction {seed}")
        firsts.append(lost(bench, search.run()))
    alone = Invented(2, world)
    without, _ = searched(alone, most=13)
    # The same budget finds a better candidate after other searches.
    assert firsts[2] < 0.02 < lost(alone, without)


def test_bad_candidates_do_not_affect_others():
    bench = Invented(0, "a")
    best = min(bench.truth, key=lambda name: bench.truth[name])
    bad = ["wrong", "late", "crashed", "refused", "pruned"]
    others = [name for name in bench.truth if name not in (best, DEFAULT)]
    bench.statuses = dict(zip(random.Random(0).sample(others, 100), bad * 20, strict=True))
    outcomes, search = searched(bench, most=60, until_gain=0)
    assert {o.status for o in outcomes} == {"ok", *bad}
    assert lost(bench, outcomes) < 0.02
    html = page_of("<target>", {"<key>": outcomes}, {"<key>": search})
    for status in set(bad) - {"pruned"}:
        assert f"<td>{status}</td><td>&lt;it is&gt;</td>" in html
    assert "<key>" not in html
    assert "<target>" not in html
    assert html.count("<circle") == sum(o.right for o in outcomes)


def test_a_search_may_find_no_right_candidate():
    bench = Invented(statuses=dict.fromkeys(Invented().subjects, "wrong"))
    outcomes, search = searched(bench, most=20)
    assert best_of(outcomes) is None
    assert "none is correct" in page_of("t", {"key": outcomes}, {"key": search})


def test_a_time_limit_ends_a_search():
    outcomes, _ = searched(Invented(), seconds=1e-9)
    assert [o.schedule for o in outcomes] == [DEFAULT]
    limited = Together(lambda source: Invented(), Options(), seconds=1e-9)
    assert limited.run([SOURCE_OF_NOTHING]) == {}


def test_predictions_follow_measurements():
    bench = Invented(noise=0.0)
    names = list(bench.subjects)
    random.Random(0).shuffle(names)
    model = Model()
    before = model.predict([bench.subjects[name] for name in names[60:]])
    for name in names[:60]:
        model.learn(bench.subjects[name], bench.truth[name], 20)
    after = model.predict([bench.subjects[name] for name in names[60:]])
    truth = np.log([bench.truth[name] for name in names[60:]])
    errors = [float(np.median(np.abs(p.mean - truth))) for p in (before, after)]
    assert errors[1] < 0.3 * errors[0]
    assert (after.deviation < before.deviation).all()
    # About two in three errors are within one deviation, so the deviation is realistic.
    assert 0.5 < float(np.mean(np.abs(after.mean - truth) < after.deviation)) < 1.0


# Searches from a store

TEXT = SOURCE.format(m=16, n=24, k=32, a="f16", b="f16", c="f32", zero="0.0")


@pytest.fixture(scope="module")
def source() -> Source:
    (source,) = sources_of(TEXT, "nvidia-h200", (), print)
    return source


@pytest.fixture
def stored(source: Source, tmp_path: Path) -> Path:
    """Returns a store in which the third candidate is 1.4 times as fast as the default."""
    (contraction,) = contractions_of(TEXT, "nvidia-h200")
    listed = list(map(str, candidates(contraction, load("nvidia-h200"), 5)))
    times = [10.0, 12.0, 10 / 1.4, 9.9]
    path = tmp_path / "s.db"
    with Store(path) as store:

        def add(schedule: str, time: float, runs: int, turn: int = 0, **other: str) -> None:
            own = schedule == listed[0]
            data = {"schedule": schedule, "runs": runs, "turn": turn}
            data |= {"reference": None if own else {}}
            value = {"microseconds": time, "reference": 10.0, "drift": 0.0, "packing": 0.0}
            if other.get("clock"):
                value = {"microseconds": time / 9, "reference": 20.0, "drift": 0.0}
            device = {"device": "invented", "driver": other.get("driver", "1")}
            result = Result(other.get("status", "ok"), value, **device)  # pyright: ignore
            store.add(Job(MEASURE, source_data(source) | data), result)

        for schedule, time in zip(listed, times, strict=False):
            add(schedule, time * 1.01, 3)
            add(schedule, time, 20)
            add(schedule, time, 20, 1)
        add(listed[3], 1.0, 20, clock="another")
        # The default is recognized under any clock.
        add(listed[0], 180.0, 20, clock="another")
        add(listed[1], 0.1, 20, driver="2")
    return path


def test_a_search_is_replayed_from_a_store(
    stored: Path, source: Source, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    table = tmp_path / "t.json"
    replay = ["tune", "--target", "nvidia-h200", "--replay", str(stored), "-o", str(table)]
    replay += ["--candidates", "5", "--page", str(tmp_path / "p.html")]
    assert main(replay) == 0
    out = capsys.readouterr().out
    assert "invented, 1; 1 times under unusual clock or load" in out
    assert "measured while the default took 20.00 us; its median is 10.00 us: #sched" in out
    assert "1 candidates were never measured" in out
    assert "1.40 times as fast as without the table" in out
    (entry,) = json.loads(table.read_text())["entries"].values()
    assert entry["gain"] == [1.4, 1.4]
    assert (entry["device"], entry["driver"]) == ("invented", "1")
    page = (tmp_path / "p.html").read_text()
    found, again = json_and_text(*replay)
    assert again == out
    assert found["table"] == str(table)
    (row,) = found["contractions"]
    assert row["contraction"] == source.key
    assert row["entered"]
    assert not missing_figures(again.partition(source.key)[2], [row, found["outcomes"]])
    assert (tmp_path / "p.html").read_text() == page
    # A contraction that this version's lowering does not find in the module is skipped.
    with Store(stored) as store:
        data = source_data(replace(source, key="of another version"))
        data |= {"schedule": "s", "runs": 1, "turn": 0}
        store.add(Job(MEASURE, data), Result("ok", {}, device="invented", driver="1"))
    assert main(replay) == 0
    said = capsys.readouterr()
    assert said.out == out
    assert "of another version: the lowered module no longer has this contraction" in said.err
    # The store has no measurements of another device.
    assert main([*replay, "--device", "another"]) == 1
    assert "no measurement for this target and device" in capsys.readouterr().err


def test_known_results_have_one_device_and_one_clock(stored: Path, source: Source):
    with Store(stored) as store:
        known = Known.of(store.records(MEASURE), "invented", "1")
        other = Known.of(store.records(MEASURE), "invented", "2")
    (unusual,) = known.unusual
    assert (unusual.microseconds, unusual.reference) == (1.0 / 9, 20.0)
    assert len(known.anew) == 1
    assert len(other.outcomes) == 1
    names = [name for _, name, turn in known.outcomes if not turn]
    assert all(known.find(source.key, name, 20, 0) for name in names)
    assert known.find(source.key, names[0], 21, 0) is None
    replay = Replay(known, "invented", "1")
    (nothing,) = replay.measure(source, ["never"], 1)
    assert not nothing.right
    assert replay.missing == {source.key: {"never": None}}


def test_a_replay_has_everything_that_was_measured(
    stored: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    replay = ["tune", "--target", "nvidia-h200", "--replay", str(stored)]
    # The search would measure two: the others are stored, one of them only at another clock.
    with Store(stored) as store:
        (record, *_) = (r for r in store.records(MEASURE) if r.data["turn"])
        value = record.result.value | {"reference": 30.0}
        other = record.data | {"schedule": record.data["schedule"].replace("[16,", "[32,")}
        result = replace(record.result, value=value)
        store.add(Job(MEASURE, other | {"reference": {}, "turn": 0}), result)
    assert main([*replay, "--candidates", "2", "-o", str(tmp_path / "t.json")]) == 0
    out = capsys.readouterr().out
    assert "2 times under unusual clock or load" in out
    assert "5 candidates: 5 ok" in out
    # The search ends when a step has no measured candidate.
    assert main([*replay, "--until-gain", "0", "-o", str(tmp_path / "t.json")]) == 0
    said = capsys.readouterr()
    missing = re.search(r"candidates: 5 ok, (\d+) not measured", said.out)
    assert missing
    assert int(missing[1]) < 2 * STEP
    assert "no other candidate was measured" in said.err


def test_estimates_of_schedules_without_a_rate_are_near_those_of_their_like(source: Source):
    pricing = pricing_of(source)
    rated = pricing.subject(next(iter(pricing.rated)))
    best = Tried(str(next(iter(pricing.rated))), 1e-6)
    near = next(s for s in pricing.pool([best], 5) if s not in pricing.rated)
    assert 0.1 < pricing.subject(near).estimate / rated.estimate < 10
    assert dict(rated.decisions)["rated"] == "True"


def test_several_contractions_are_searched_side_by_side():
    class Failing(Invented):
        def measure(self, *_: object, **__: object) -> list[Outcome]:
            raise ProgramError("the disk is full", "", "")

    sources = [replace(SOURCE_OF_NOTHING, key=f"key {n}") for n in range(4)]
    together = Together(lambda source: Invented(), Options(most=6), at_once=3)
    assert list(together.run(sources)) == [source.key for source in sources]
    with pytest.raises(ProgramError, match="disk is full"):
        Together(lambda source: Failing(), Options(), at_once=3).run(sources)
