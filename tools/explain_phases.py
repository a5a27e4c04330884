"""
A run with its copies, as `run --time` measured it: times of the host beside times of the device.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from xdsl_spirv.runtime.phases import DEVICE, HOST, LOAD, Phase
from xdsl_spirv.tools.explain_charts import WIDTH, colour
from xdsl_spirv.tools.explain_text import duration, nodes_text, shorten
from xdsl_spirv.tools.explanation_data import ExplanationData

TITLES = {
    HOST: "a run, by the host's clock",
    DEVICE: "the same, by the device's",
    LOAD: "once, when it is loaded",
}
COLOURS = {
    **{"record": "#7b4fb5", "once": "#a35e0c", "upload": "#2b6cb0", "submit": "#7b4fb5"},
    **{"wait": "#9aa4ae", "download": "#17788f", "copy in": "#2b6cb0", "copy out": "#17788f"},
}


def tracks(phases: Sequence[Phase]) -> dict[str, list[Phase]]:
    """The phases of each track, in the order in which they are shown; none that is empty."""
    by_track = {track: [p for p in phases if p.track == track] for track in TITLES}
    return {track: phases for track, phases in by_track.items() if phases}


def phase_label(explanation: ExplanationData, phase: Phase) -> str:
    """Returns the label of a phase: the nodes of its dispatch, if it is one."""
    if phase.dispatch is None or phase.dispatch >= len(explanation.layers):
        return phase.name
    entry = explanation.layers[phase.dispatch]
    return f"{entry.dispatch}: {shorten(nodes_text(entry)) or phase.name}"


def phases_chart(explanation: ExplanationData) -> str:
    """The tracks one below the other; the run's on one scale, that of loading on its own."""
    shown = tracks(explanation.phases)
    if not shown:
        return ""
    whole = max((p.end for t in (HOST, DEVICE) for p in shown.get(t, ())), default=0.0)
    rows = "".join(
        f'<div>{TITLES[track]}<br><span class="soft">{_describe_track(track, phases)}</span></div>'
        f"{_strip(explanation, phases, _end(phases) if track == LOAD else whole)}"
        for track, phases in shown.items()
    )
    ticks = "".join(f"<span>{duration(whole * i / 4e9)}</span>" for i in range(1, 5))
    return (
        '<h2>A run with its copies</h2><p class="keys">'
        "The host writes inputs into memory that the device sees, submits all commands at once, "
        "waits, and reads the results. The device's clock is placed so that its work ends with the "
        "wait."
        f'</p><div class="strip" id="phases">{rows}'
        f'<div></div><div class="axis"><span>0</span>{ticks}</div></div>'
    )


def _end(phases: Sequence[Phase]) -> float:
    return max(phase.end for phase in phases)


def _describe_track(track: str, phases: Sequence[Phase]) -> str:
    """Times of a track's parts, kernels together."""
    parts: dict[str, float] = {}
    for phase in phases:
        name = phase.name if phase.dispatch is None else "kernels"
        parts[name] = parts.get(name, 0.0) + phase.nanoseconds
    said = ", ".join(f"{escape(name)} {duration(time / 1e9)}" for name, time in parts.items())
    return f"{said}{', on a scale of its own' if track == LOAD else ''}"


def _strip(explanation: ExplanationData, phases: Sequence[Phase], whole: float) -> str:
    rects: list[str] = []
    for phase in phases:
        start = max(phase.start, 0.0) / whole * WIDTH if whole else 0.0
        width = phase.nanoseconds / whole * WIDTH if whole else 0.0
        label = f"{phase_label(explanation, phase)}, {duration(phase.nanoseconds / 1e9)}"
        fill = COLOURS.get(phase.name, "#888")
        if phase.dispatch is not None:
            fill = colour(explanation.layers[phase.dispatch])
        rect = (
            f'<rect x="{start:.3f}" width="{width:.3f}" height="26" fill="{fill}">'
            f"<title>{escape(label)}</title></rect>"
        )
        is_layer = phase.dispatch is not None
        rects.append(f'<a href="#layer-{phase.dispatch}">{rect}</a>' if is_layer else rect)
    return (
        f'<svg viewBox="0 0 {WIDTH} 26" preserveAspectRatio="none" role="img" '
        f'aria-label="phases over time">{"".join(rects)}</svg>'
    )
