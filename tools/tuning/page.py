"""Writes the results of a search as an HTML page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.vulkan.statistics import heaviest
from xdsl_spirv.serialization.files import write_atomically
from xdsl_spirv.tools.page import render_page
from xdsl_spirv.tools.tuning.results import PRUNED, UNMEASURED, Outcome, best_of, gain_of, time_of
from xdsl_spirv.tools.tuning.search import Search

WIDTH, HEIGHT, MARGIN = 240, 48, 3
"""Size and margin of the chart of a search, in pixels."""
FINE = ("ok", PRUNED, UNMEASURED)
"""Statuses of candidates that did not fail."""


def write_page(
    path: Path,
    target: str,
    outcomes: Mapping[str, Sequence[Outcome]],
    searches: Mapping[str, Search],
) -> None:
    """Writes the page. Raises `ProgramError` if the file cannot be written."""
    try:
        write_atomically(path, page_of(target, outcomes, searches).encode())
    except OSError as error:
        raise ProgramError(
            f"cannot write the page: {error.strerror}", str(path), "choose another file with --page"
        ) from error


def page_of(
    target: str, outcomes: Mapping[str, Sequence[Outcome]], searches: Mapping[str, Search]
) -> str:
    """Returns the HTML page."""
    return render_page(
        "search",
        f"Schedules for {target}",
        ("search",),
        candidates=sum(map(len, outcomes.values())),
        contractions=[_row(key, tried, searches.get(key)) for key, tried in outcomes.items()],
        devices=sorted({f"{o.device}, {o.driver}" for tried in outcomes.values() for o in tried}),
        failures=_failures(outcomes),
        measured=sum(search.measurements for search in searches.values()),
        target=target,
    )


@dataclass(frozen=True)
class _Drawing:
    """The chart of a search in pixels: candidates, the best so far, and the default."""

    first: float
    least: float
    """Smallest ratio of a candidate's time to the default's."""
    dots: Sequence[tuple[float, float]]
    best: Sequence[tuple[float, float]]
    default: float
    width: int = WIDTH
    height: int = HEIGHT


@dataclass(frozen=True)
class _Row:
    """A contraction on the page: its times, its chart, and its best correct schedule."""

    key: str
    default: str
    time: str
    gain: str
    tried: int
    left: str
    drawing: _Drawing | None
    best: Outcome | None
    statistics: str


def _row(key: str, tried: Sequence[Outcome], search: Search | None) -> _Row:
    best, gain = best_of(tried), gain_of(tried)
    default = tried[0].microseconds if tried[0].right else 0.0
    return _Row(
        key,
        f"{default:.2f} us" if default else "not correct",
        f"{time_of(tried):.2f} us" if best else "none is correct",
        f"{gain:.2f}" if gain else "",
        len(tried),
        f"{search.expected[-1]:.1%} gain expected from another step"
        if search and search.expected
        else "",
        _draw(tried),
        best,
        str(heaviest(best.statistics)) if best else "",
    )


def _draw(tried: Sequence[Outcome]) -> _Drawing | None:
    """Charts the times of correct candidates relative to the default; None if all are wrong."""
    ratios = [(number, one.ratio) for number, one in enumerate(tried) if one.right]
    if not ratios:
        return None
    least = min(ratio for _, ratio in ratios)
    most = max(min(max(ratio for _, ratio in ratios), 2 * max(1.0, least)), 1.01 * least)

    def place(number: int, ratio: float) -> tuple[float, float]:
        across = MARGIN + number * (WIDTH - 2 * MARGIN) / max(1, len(tried) - 1)
        share = (min(ratio, most) - least) / (most - least)
        return round(across, 1), round(HEIGHT - MARGIN - share * (HEIGHT - 2 * MARGIN), 1)

    lowest = accumulate((ratio for _, ratio in ratios), min)
    return _Drawing(
        ratios[0][1],
        least,
        [place(*one) for one in ratios],
        [place(number, ratio) for (number, _), ratio in zip(ratios, lowest, strict=True)],
        place(0, 1.0)[1] if least <= 1.0 <= most else -1,
    )


def _failures(outcomes: Mapping[str, Sequence[Outcome]]) -> list[tuple[Outcome, int]]:
    """Returns a failed candidate for each pair of status and cause, and the pair's count."""
    failed = [o for tried in outcomes.values() for o in tried if o.status not in FINE]
    firsts = {(o.status, o.cause): o for o in reversed(failed)}
    counts = Counter((o.status, o.cause) for o in failed)
    return [(firsts[kind], count) for kind, count in counts.most_common()]
