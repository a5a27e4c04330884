"""Decides whether the time between two timestamps around a run is the time of the run."""

from __future__ import annotations

import os
import sys
from typing import Any


def record_run(milliseconds: float, host: float) -> dict[str, Any]:
    """
    Returns the record of a run's milliseconds between two timestamps.

    `host` is the time of the run on the host's clock, which contains the time on the device. If
    `host` is less than `milliseconds`, other processes of the host (such as compilers) disturbed
    the timestamps, and the time is called `disturbed_run_ms`.
    """
    record: dict[str, Any] = {"load": [round(load, 1) for load in os.getloadavg()]}
    if milliseconds <= host:
        return record | {"run_ms": round(milliseconds, 4)}
    print(
        f"{milliseconds:.3f} ms between timestamps are longer than the whole run on the host's "
        f"clock ({host:.3f} ms): other processes disturb them (load {record['load'][0]}). Measure "
        "again on a quiet host.",
        file=sys.stderr,
    )
    return record | {"disturbed_run_ms": round(milliseconds, 4)}


def device_time(record: dict[str, Any]) -> float:
    """Returns `run_ms`, or the sum of the dispatches if the timestamps were disturbed."""
    return record.get("run_ms", record["device_ms"])
