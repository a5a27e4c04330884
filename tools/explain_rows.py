"""Makes the rows of an explanation's table: one row per dispatch, or one per kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl_spirv.tools.explanation_data import ExplainedLayer, ExplanationData


@dataclass(frozen=True)
class Row:
    """Dispatches in one row of the table. The first dispatch supplies the common properties."""

    layers: tuple[ExplainedLayer, ...]
    share: float | None
    """Fraction of the total measured time, or of the roofline time if none was measured."""

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
    """Returns the sum of the numbers, or None if a number is unknown."""
    return None if None in numbers else sum(numbers)  # pyright: ignore


def rows_of(explanation: ExplanationData, order: str = "order", group: bool = False) -> list[Row]:
    """Returns the rows in the given order (`--sort`); `group` joins all dispatches of a kernel."""
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
    """Returns a dispatch's seconds in one run; 0 if the dispatch runs only once per program."""
    measured = any(e.measured_seconds is not None for e in explanation.layers)
    if entry.once:
        return 0.0
    return entry.measured_seconds if measured else entry.roofline_seconds


def explain_no_roofline(explanation: ExplanationData) -> str:
    """Returns the reason why no repeated dispatch of an explanation has a roofline time."""
    unknown = [e.layer for e in explanation.layers if e.roofline_seconds is None]
    if any(None not in (layer.bytes, layer.operations) for layer in unknown):
        return f"the target file of {explanation.target} has no measured rates"
    return "sizes are known only at run time"


def run_times(layers: Sequence[ExplainedLayer], measured: bool) -> list[float]:
    """Returns each dispatch's measured or roofline seconds in one run; 0 if the time is unknown."""
    if measured:
        return [entry.measured_seconds or 0.0 for entry in layers]
    return [0.0 if entry.once else entry.roofline_seconds or 0.0 for entry in layers]
