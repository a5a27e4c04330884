"""
Makes the rows of an explanation's table: one for each dispatch, or one for all equal dispatches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl_spirv.tools.explanation_data import ExplainedLayer, ExplanationData


@dataclass(frozen=True)
class Row:
    """Dispatches that are shown as one row; the first one supplies the common properties."""

    layers: tuple[ExplainedLayer, ...]
    share: float | None
    """Share of the measured time, or else of the roofline time."""

    @property
    def first(self) -> ExplainedLayer:
        return self.layers[0]

    @property
    def operations(self) -> int | None:
        return total([entry.layer.operations for entry in self.layers])

    @property
    def bytes(self) -> int | None:
        return total([entry.layer.bytes for entry in self.layers])

    @property
    def roofline(self) -> float | None:
        return total([entry.roofline_seconds for entry in self.layers])

    @property
    def measured(self) -> float | None:
        return total([entry.measured_seconds for entry in self.layers])


def total(numbers: Sequence[float | int | None]) -> int | None:
    """Sums numbers; None if one is not known."""
    return None if None in numbers else sum(numbers)  # pyright: ignore


def rows_of(explanation: ExplanationData, order: str = "order", group: bool = False) -> list[Row]:
    """
    Returns the rows, in an order of `explain --sort`; with `group`, all dispatches of a kernel form
    one row.
    """
    groups: dict[object, list[ExplainedLayer]] = {}
    for entry in explanation.layers:
        kind = (entry.kernel, entry.function, entry.once, entry.layer.schedule)
        groups.setdefault(kind if group else entry.dispatch, []).append(entry)
    times = [_time(explanation, entry) for entry in explanation.layers]
    whole = sum(time for time in times if time is not None)
    rows: list[Row] = []
    for entries in groups.values():
        time = total([_time(explanation, entry) for entry in entries])
        rows.append(Row(tuple(entries), None if time is None or not whole else time / whole))
    key = {
        "share": lambda row: row.share,
        "work": lambda row: row.operations,
        "moved": lambda row: row.bytes,
    }.get(order)
    return rows if key is None else sorted(rows, key=lambda row: -(key(row) or 0))


def _time(explanation: ExplanationData, entry: ExplainedLayer) -> float | None:
    """Returns the seconds of a run for a dispatch; 0 for results that are computed only once."""
    measured = any(e.measured_seconds is not None for e in explanation.layers)
    if entry.once:
        return 0.0
    return entry.measured_seconds if measured else entry.roofline_seconds


def run_times(layers: Sequence[ExplainedLayer], measured: bool) -> list[float]:
    """Returns the time of each dispatch in a run: measured, or the roofline's, else 0."""
    if measured:
        return [entry.measured_seconds or 0.0 for entry in layers]
    return [0.0 if entry.once else entry.roofline_seconds or 0.0 for entry in layers]
