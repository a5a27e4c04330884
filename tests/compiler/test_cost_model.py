"""benchmarks/cost_model.py evaluates measurements correctly."""

from __future__ import annotations

import importlib
from collections.abc import Generator
from dataclasses import replace
from math import exp, log
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any

import pytest

from xdsl_spirv.passes.schedule.split_reductions import seconds_of_sum
from xdsl_spirv.targets import load

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"
TARGET = load("nvidia-h200")


@pytest.fixture(scope="module")
def model() -> Generator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        yield importlib.import_module("cost_model")


@pytest.fixture(scope="module")
def packed(model: ModuleType) -> dict[str, list[Any]]:
    times = model.measured([RESULTS / "h200-packed-prompts.json"])
    rows = {case: list(model.rows_of(case, by, TARGET)) for case, by in times.items()}
    return {case: of_case for case, of_case in rows.items() if of_case}


def test_packed_weights_are_estimated_as_they_were_measured(packed: dict[str, list[Any]]):
    every = [row for rows in packed.values() for row in rows]
    assert len(packed) > 20
    assert len(every) > 55
    errors = [abs(log(row.estimate() / row.microseconds)) for row in every]
    assert exp(median(errors)) < 1.05
    for case, rows in packed.items():
        chosen = min(rows, key=lambda row: row.estimate())
        assert chosen.microseconds < 1.03 * min(row.microseconds for row in rows), case


def test_an_estimate_has_the_sum_of_parts(model: ModuleType, packed: dict[str, list[Any]]):
    case = "16x4096x14336 Q4_1"
    cut = next(row for row in packed[case] if row.schedule.startswith("8 parts "))
    whole = next(row for row in packed[case] if row.schedule.startswith("#"))
    more = 1e6 * seconds_of_sum(model.contraction(case), 8, TARGET)
    # The extra time is moving 9 * 16 * 4096 results and one launch.
    assert 4 < more < 4 + 9 * 16 * 4096 * 4 / 4.27e6
    assert cut.on_top * 1e6 == pytest.approx(model.START_US + more)
    assert whole.on_top * 1e6 == pytest.approx(model.START_US)
    assert cut.estimate() < 0.5 * whole.estimate()


def test_rates_are_fitted_to_what_schedules_took(model: ModuleType, packed: dict[str, list[Any]]):
    every = (row for rows in packed.values() for row in rows)
    rows = [row for row in every if row.tile[4:6] == ((128, 128), (1, 4))]
    own = rows[0].plan.rates
    wanted = 1.3 * own.rate, 0.8 * own.alone
    made_up = [replace(row, microseconds=row.estimate(*wanted)) for row in rows]
    rate, alone = model.fitted(made_up)
    assert rate == pytest.approx(wanted[0], rel=0.02)
    assert alone == pytest.approx(wanted[1], rel=0.05)
