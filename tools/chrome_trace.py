"""Writes an explanation as a trace for Perfetto and chrome://tracing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.phases import Phase
from xdsl_spirv.tools.explain_phases import TITLES, phase_label, tracks
from xdsl_spirv.tools.explain_rows import explain_no_roofline, run_times
from xdsl_spirv.tools.explain_text import nodes_text, tile_of
from xdsl_spirv.tools.explanation_data import ExplainedLayer, ExplanationData
from xdsl_spirv.tools.lifetimes import in_use

PROCESS = 1
MEASURED, ROOFLINE = 1, 2
"""Thread ids of two rows of the trace."""

Event = dict[str, Any]


def chrome_trace(explanation: ExplanationData) -> Event:
    """
    Returns the trace: rows for measured times and roofline times, a counter of temporary memory,
    and rows for a measured run with its copies.

    Raises `ProgramError` if no time is known.
    """
    layers = explanation.layers
    rows = [
        (MEASURED, f"measured on {explanation.device}", run_times(layers, measured=True)),
        (ROOFLINE, "lower bound, by the roofline", run_times(layers, measured=False)),
    ]
    rows = [row for row in rows if any(row[2])]
    if not rows:
        raise ProgramError(
            f"no times are known: {explain_no_roofline(explanation)}",
            explanation.model,
            "measure it: --device vulkan, or --profile FILE",
        )
    title = f"{PurePath(explanation.model).name} on {explanation.target}"
    events = [_name("process_name", title, MEASURED)]
    for row, name, seconds in rows:
        events.append(_name("thread_name", name, row))
        events += _dispatches(explanation.layers, seconds, row)
    events += _memory(explanation, rows[0][2])
    for row, (track, phases) in enumerate(tracks(explanation.phases).items(), ROOFLINE + 1):
        events.append(_name("thread_name", f"with copies: {TITLES[track]}", row))
        events += [_phase(explanation, phase, row) for phase in phases]
    return {
        "traceEvents": events,
        "displayTimeUnit": "ns",
        "otherData": {"model": explanation.model, "target": explanation.target},
    }


def _name(kind: str, name: str, row: int) -> Event:
    return {"name": kind, "ph": "M", "pid": PROCESS, "tid": row, "args": {"name": name}}


def _dispatches(
    layers: Sequence[ExplainedLayer], seconds: Sequence[float], row: int
) -> list[Event]:
    events: list[Event] = []
    start = 0.0
    for entry, time in zip(layers, seconds, strict=True):
        microseconds = time * 1e6
        if microseconds:
            events.append(
                {
                    "name": nodes_text(entry) or entry.kernel,
                    "cat": entry.layer.path,
                    "ph": "X",
                    "ts": start,
                    "dur": microseconds,
                    "pid": PROCESS,
                    "tid": row,
                    "args": _arguments(entry),
                }
            )
        start += microseconds
    return events


def _phase(explanation: ExplanationData, phase: Phase, row: int) -> Event:
    return {
        "name": phase_label(explanation, phase),
        "cat": phase.track,
        "ph": "X",
        "ts": phase.start / 1e3,
        "dur": phase.nanoseconds / 1e3,
        "pid": PROCESS,
        "tid": row,
        "args": {} if phase.dispatch is None else {"dispatch": phase.dispatch},
    }


def _arguments(entry: ExplainedLayer) -> dict[str, Any]:
    """Returns the details that a viewer shows on a click on a dispatch."""
    layer = entry.layer
    shown = {
        "dispatch": entry.dispatch,
        "kernel": entry.kernel,
        "computes": layer.computes,
        "types": layer.types,
        "tile": tile_of(layer.schedule),
        "workgroups": "x".join(map(str, entry.grid)),
        "operations": layer.operations,
        "bytes": layer.bytes,
        "bound by": entry.limit,
        "function": entry.function,
    }
    return {name: value for name, value in shown.items() if value is not None}


def _memory(explanation: ExplanationData, seconds: Sequence[float]) -> list[Event]:
    """
    Returns counter events for the temporary memory in use. `seconds` is the duration of each
    dispatch.
    """
    used = in_use(explanation.buffers, len(explanation.layers))
    if not used:
        return []
    events: list[Event] = []
    start = 0.0
    for level, time in zip([*used, 0], [*seconds, 0.0], strict=True):
        events.append(
            {
                "name": "temporaries in use",
                "ph": "C",
                "ts": start,
                "pid": PROCESS,
                "tid": MEASURED,
                "args": {"bytes": level},
            }
        )
        start += time * 1e6
    return events
