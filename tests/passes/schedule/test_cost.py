"""Factors of estimates multiply the right terms, are validated, and can be fitted."""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xdsl_spirv.passes.schedule.cost import FEATURES, correction, cost, multiplying
from xdsl_spirv.passes.schedule.plan import Plan, Rates
from xdsl_spirv.targets import CORRECTIONS, TargetError, load
from xdsl_spirv.tools.tune import SOURCE
from xdsl_spirv.tools.tuning.candidates import contractions_of
from xdsl_spirv.tools.tuning.proposals import Pricing

ROOT = Path(__file__).resolve().parents[3]
FILE = ROOT / "targets/nvidia-h200.json"
PLAIN = replace(load("nvidia-h200"), corrections={})


@pytest.fixture(scope="module")
def plans() -> list[Plan]:
    text = SOURCE.format(m=100, n=768, k=256, a="f16", b="f16", c="f32", zero="0.0")
    (contraction,) = contractions_of(text, "nvidia-h200")
    return [Plan(contraction, schedule, PLAIN) for schedule in Pricing(contraction, PLAIN).rated]


def test_every_factor_varies_between_plans(plans: list[Plan]):
    assert set(FEATURES) == set(CORRECTIONS)
    for name, feature in FEATURES.items():
        counts = {round(feature(one), 3) for one in plans}
        assert len(counts) > 1, name


@pytest.mark.parametrize("name", FEATURES)
def test_a_factor_multiplies_its_term_of_the_estimate(name: str, plans: list[Plan]):
    for one in plans[::9]:
        corrected = replace(one, target=replace(PLAIN, corrections={name: 2.0}))
        factor = 2.0 ** FEATURES[name](one)
        assert correction(one) == 1.0
        assert correction(corrected) == pytest.approx(factor)
        more = (factor - 1) * multiplying(one, 100.0, 50.0)
        rates = Rates(100.0, 50.0)
        assert cost(corrected, rates) == pytest.approx(cost(one, rates) + more)


@pytest.mark.parametrize(
    ("corrections", "message"),
    [
        (
            {"factors": {"luck": 0.5}, "evidence": "none"},
            "the unknown field 'luck': use two stages",
        ),
        ({"factors": {"slices": -1}, "evidence": "none"}, "positive numbers"),
        ({"factors": {"slices": 1.1}}, "corrections.evidence is missing"),
        ({"evidence": "none"}, "corrections.factors is missing"),
    ],
)
def test_factors_in_a_file_are_checked(corrections: dict[str, Any], message: str, tmp_path: Path):
    path = tmp_path / "t.json"
    path.write_text(json.dumps({**json.loads(FILE.read_text()), "corrections": corrections}))
    with pytest.raises(TargetError, match=message):
        load(str(path))


def test_factors_are_fitted_for_families_without_measurements(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    learned: Any = importlib.import_module("learned_rates")

    generator = np.random.default_rng(0)
    truth = np.zeros(len(FEATURES))
    listed = list(FEATURES)
    truth[listed.index("slices")], truth[listed.index("idle units")] = 0.3, -0.2
    cases: list[Any] = []
    for number in range(60):
        features = generator.normal(size=(15, len(FEATURES)))
        estimates = np.exp(generator.normal(-9, 0.2, 15))
        noise = generator.normal(generator.normal(0, 0.5), 0.03, 15)
        seconds = estimates * np.exp(features @ truth + noise)
        family = f"family {number % 5}"
        cases.append(
            learned.Measured(family, str(number), seconds, estimates, 0 * seconds, features)
        )
    assert [listed[n] for n in learned.chosen(cases, 0.002)] == ["slices", "idle units"]
    names = [listed.index("slices"), listed.index("idle units")]
    assert learned.fit(cases, names) == pytest.approx([0.3, -0.2], abs=0.03)
    before = learned.figures([(case, case.estimate([], np.zeros(0))) for case in cases])
    after = learned.figures(learned.held_out(cases, names))
    assert after["loss"] < 0.02 < before["loss"]
    assert after["rank_correlation"] > before["rank_correlation"]
    # A factor that only one family determines is not used for that family.
    odd = [replace(c, family="odd") if n < 12 else c for n, c in enumerate(cases)]
    for case in odd[:12]:
        case.features[:, names[0]] *= -1
    held = learned.held_out(odd, names)
    assert learned.figures(held[:12])["loss"] > 3 * learned.figures(held[12:])["loss"]
    sys.modules.pop("learned_rates")
