"""Benchmarks do not report the times of a device that exceed the host's time of the same run."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def run_times(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    return import_module("run_times")


def test_a_device_time_within_the_host_time_is_shown(
    run_times: ModuleType, capsys: pytest.CaptureFixture[str]
):
    record = run_times.record_run(1.90, host=1.96)
    assert record["run_ms"] == 1.90
    assert run_times.device_time(record | {"device_ms": 1.7}) == 1.90
    assert capsys.readouterr().err == ""


def test_a_device_time_beyond_the_host_time_is_not_shown(
    run_times: ModuleType, capsys: pytest.CaptureFixture[str]
):
    """Timestamps of a device differed by 10 ms for runs of 3 ms, while compilers ran."""
    record = run_times.record_run(10.0, host=3.2)
    assert "run_ms" not in record
    assert record["disturbed_run_ms"] == 10.0
    assert run_times.device_time(record | {"device_ms": 2.9}) == 2.9
    assert "10.000 ms between timestamps are longer than the whole run" in capsys.readouterr().err
