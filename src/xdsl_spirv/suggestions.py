"""
What a user may have meant: names like the one that there is not.

Every error about an unknown name asks here, so that all of them say it in the same words.
"""

from __future__ import annotations

from collections.abc import Iterable

MOST = 3
"""Names in one suggestion."""
TIE = 0.05
"""What is so much less alike than the best is not mentioned."""


def similar(name: str, known: Iterable[str]) -> list[str]:
    """The known names that are most like one, best first; at most `MOST`."""
    from difflib import SequenceMatcher, get_close_matches

    folded: dict[str, str] = {}
    for candidate in known:
        folded.setdefault(candidate.casefold(), candidate)
    wanted = name.casefold()
    close = get_close_matches(wanted, folded, MOST)
    ratios = [SequenceMatcher(None, other, wanted).ratio() for other in close]
    close = [other for other, ratio in zip(close, ratios, strict=True) if ratio > ratios[0] - TIE]
    # `h200` for `nvidia-h200`: too short to be alike, but a part of it.
    parts = [other for other in folded if len(wanted) > 2 and wanted in other]
    return [folded[other] for other in dict.fromkeys((*close, *parts))][:MOST]


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """The remedy for an unknown name: those that are like it, or else `otherwise`."""
    close = similar(name, known)
    return f"did you mean {' or '.join(map(repr, close))}?" if close else otherwise
