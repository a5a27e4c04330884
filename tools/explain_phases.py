"""Charts the phases of a run that `run --time` measured: host times next to device times."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl_spirv.runtime.phases import DEVICE, HOST, LOAD, Phase
from xdsl_spirv.tools.explain_charts import WIDTH, Box, RunChart, Strip, colour
from xdsl_spirv.tools.explain_text import duration, nodes_text, shorten
from xdsl_spirv.tools.explanation_data import ExplanationData

TITLES = {
    HOST: "one run, by the host's clock",
    DEVICE: "one run, by the device's clock",
    LOAD: "loading the program, once",
}
COLOURS = {
    **{"record": "#7b4fb5", "once": "#a35e0c", "upload": "#2b6cb0", "submit": "#7b4fb5"},
    **{"wait": "#9aa4ae", "download": "#17788f", "copy in": "#2b6cb0", "copy out": "#17788f"},
}


def tracks(phases: Sequence[Phase]) -> dict[str, list[Phase]]:
    """Groups phases by track, in the order of display; tracks without phases are left out."""
    by_track = {track: [p for p in phases if p.track == track] for track in TITLES}
    return {track: phases for track, phases in by_track.items() if phases}


def phase_label(explanation: ExplanationData, phase: Phase) -> str:
    """Returns the nodes of the phase's dispatch, or the phase's name if it has no dispatch."""
    if phase.dispatch is None or phase.dispatch >= len(explanation.layers):
        return phase.name
    entry = explanation.layers[phase.dispatch]
    return f"{entry.dispatch}: {shorten(nodes_text(entry)) or phase.name}"


def phases_chart(explanation: ExplanationData) -> RunChart | None:
    """Returns a chart of the tracks. Loading has a separate scale from the other tracks."""
    shown = tracks(explanation.phases)
    if not shown:
        return None
    whole = max((p.end for t in (HOST, DEVICE) for p in shown.get(t, ())), default=0.0)
    strips = [
        Strip(
            TITLES[track],
            _describe_track(track, phases),
            _boxes(explanation, phases, _end(phases) if track == LOAD else whole),
        )
        for track, phases in shown.items()
    ]
    return RunChart(strips, whole / 1e9, "phases over time")


def _end(phases: Sequence[Phase]) -> float:
    return max(phase.end for phase in phases)


def _describe_track(track: str, phases: Sequence[Phase]) -> str:
    """Lists the durations of a track's phases; the durations of kernels are summed."""
    parts: dict[str, float] = {}
    for phase in phases:
        name = phase.name if phase.dispatch is None else "kernels"
        parts[name] = parts.get(name, 0.0) + phase.nanoseconds
    said = ", ".join(f"{name} {duration(time / 1e9)}" for name, time in parts.items())
    return f"{said}{', on a scale of its own' if track == LOAD else ''}"


def _boxes(explanation: ExplanationData, phases: Sequence[Phase], whole: float) -> list[Box]:
    unit = WIDTH / whole if whole else 0.0
    boxes: list[Box] = []
    for phase in phases:
        fill = COLOURS.get(phase.name, "#888")
        if phase.dispatch is not None:
            fill = colour(explanation.layers[phase.dispatch].layer.path)
        label = f"{phase_label(explanation, phase)}, {duration(phase.nanoseconds / 1e9)}"
        start, width = max(phase.start, 0.0) * unit, phase.nanoseconds * unit
        boxes.append(Box(start, width, fill, label, phase.dispatch))
    return boxes
