"""
A search as one page: the best schedule of each contraction, its time as the search went, failures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path

from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.vulkan.statistics import heaviest
from xdsl_spirv.serialization.files import write_atomically
from xdsl_spirv.tools.page import page
from xdsl_spirv.tools.tuning.results import PRUNED, UNMEASURED, Outcome, best_of, gain_of, time_of
from xdsl_spirv.tools.tuning.search import Search

WIDTH, HEIGHT, MARGIN = 240, 48, 3
"""Size of the drawing of a search, in pixels."""
FINE = ("ok", PRUNED, UNMEASURED)
"""Statuses that do not count as failures."""


def write_page(
    path: Path,
    target: str,
    outcomes: Mapping[str, Sequence[Outcome]],
    searches: Mapping[str, Search],
) -> None:
    """Write the page; raises `ProgramError` where that cannot be."""
    try:
        write_atomically(path, page_of(target, outcomes, searches).encode())
    except OSError as error:
        raise ProgramError(
            f"cannot write the page: {error.strerror}", str(path), "name another with --page"
        ) from error


def page_of(
    target: str, outcomes: Mapping[str, Sequence[Outcome]], searches: Mapping[str, Search]
) -> str:
    """Returns the page's HTML."""
    devices = sorted({f"{o.device}, {o.driver}" for tried in outcomes.values() for o in tried})
    measured = sum(search.measurements for search in searches.values())
    body = [
        f"<h1>Schedules for {escape(target)}</h1>",
        f"<p class='soft'>{escape('; '.join(devices))}. {len(outcomes)} contractions, "
        f"{sum(map(len, outcomes.values()))} candidates, {measured} measurements.</p>",
        "<p class='soft'>A time is the default schedule's, multiplied by the candidate's ratio "
        "to it. A drawing has a dot for each candidate in the order in which it was "
        "tried, the fastest at the bottom, and the best so far as a line; the thin line is the "
        "default.</p>",
        _contractions(outcomes, searches),
        _failures(outcomes),
    ]
    return page(f"Schedules for {target}", "".join(body), ("search",))


def _contractions(outcomes: Mapping[str, Sequence[Outcome]], searches: Mapping[str, Search]) -> str:
    names = ("Contraction", "Default", "Best", "Gain", "The search", "Schedule")
    head = "".join(f"<th>{name}</th>" for name in names)
    rows = "".join(_row(key, tried, searches.get(key)) for key, tried in outcomes.items())
    return f"<h2>Best schedules</h2><div class='scroll'><table><tr>{head}</tr>{rows}</table></div>"


def _row(key: str, tried: Sequence[Outcome], search: Search | None) -> str:
    best, gain = best_of(tried), gain_of(tried)
    default = tried[0].microseconds if tried[0].right else 0.0
    left = f"<br>{search.expected[-1]:.1%} to gain at last" if search and search.expected else ""
    shown = (
        escape(key),
        f"{default:.2f} us" if default else "not right",
        f"{time_of(tried):.2f} us" if best else "none is right",
        f"{gain:.2f}" if gain else "",
        f"{drawing(tried)}<span class='soft'>{len(tried)} tried{left}</span>",
        f"<code>{escape(best.schedule)}</code><br>"
        f"<span class='soft'>{escape(str(heaviest(best.statistics)))}</span>"
        if best
        else "",
    )
    kinds = ("", "n", "n", "n", "", "schedule")
    return (
        "<tr>"
        + "".join(
            f'<td class="{kind}">{cell}</td>' for kind, cell in zip(kinds, shown, strict=True)
        )
        + "</tr>"
    )


def drawing(tried: Sequence[Outcome]) -> str:
    """The ratio of each right candidate to the default, in the order in which they were tried."""
    ratios = [(number, one.ratio) for number, one in enumerate(tried) if one.right]
    if not ratios:
        return ""
    least = min(ratio for _, ratio in ratios)
    most = max(min(max(ratio for _, ratio in ratios), 2 * max(1.0, least)), 1.01 * least)

    def place(number: int, ratio: float) -> tuple[float, float]:
        across = MARGIN + number * (WIDTH - 2 * MARGIN) / max(1, len(tried) - 1)
        share = (min(ratio, most) - least) / (most - least)
        return round(across, 1), round(HEIGHT - MARGIN - share * (HEIGHT - 2 * MARGIN), 1)

    dots, line, best = list[str](), list[str](), float("inf")
    for number, ratio in ratios:
        x, y = place(number, ratio)
        dots.append(f'<circle cx="{x}" cy="{y}" r="2"/>')
        best = min(best, ratio)
        line.append(f"{x},{place(number, best)[1]}")
    one = place(0, 1.0)[1] if least <= 1.0 <= most else -1
    return (
        f'<svg class="search" width="{WIDTH}" height="{HEIGHT}" role="img" '
        f'aria-label="from {ratios[0][1]:.2f} to {least:.2f} of the default">'
        f'<line x1="0" x2="{WIDTH}" y1="{one}" y2="{one}"/>{"".join(dots)}'
        f'<path d="M{" L".join(line)}"/></svg>'
    )


def _failures(outcomes: Mapping[str, Sequence[Outcome]]) -> str:
    """Candidates that failed, by status and cause."""
    failed = [o for tried in outcomes.values() for o in tried if o.status not in FINE]
    counts = Counter((o.status, o.cause) for o in failed)
    if not counts:
        return "<h2>Failures</h2><p>None.</p>"
    rows = "".join(
        f'<tr><td class="n">{count}</td><td>{escape(status)}</td><td>{escape(cause)}</td>'
        f"<td>{_examples(failed, status, cause)}</td></tr>"
        for (status, cause), count in counts.most_common()
    )
    head = "<tr><th class='n'>Candidates</th><th>What</th><th>Why</th><th>For example</th></tr>"
    return f"<h2>Failures</h2><div class='scroll'><table>{head}{rows}</table></div>"


def _examples(failed: Iterable[Outcome], status: str, cause: str) -> str:
    one = next(o for o in failed if (o.status, o.cause) == (status, cause))
    return f"{escape(one.key)}<br><code>{escape(one.schedule)}</code>"
