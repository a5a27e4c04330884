"""Reports translation validation: each pass's verdict, and details of the first wrong pass."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from xdsl_spirv.compare.translation.inputs import Input
from xdsl_spirv.runtime.elements import Array

LISTED = 6
"""Maximum number of elements of an input that are printed."""


@dataclass(frozen=True)
class Wrong:
    """One element of a result outside its interval of legal values."""

    result: str
    index: tuple[int, ...]
    actual: float | int
    before: float | int
    expected: float | int
    allowed: float

    def __str__(self) -> str:
        where = f"[{', '.join(map(str, self.index))}]" if self.index else ""
        interval = f"{self.expected}"
        if self.allowed:
            interval += f" +- {self.allowed:.3g}"
        return (
            f"{self.result}{where} is {self.actual}, legal is {interval} "
            f"(before the pass: {self.before})"
        )


@dataclass(frozen=True)
class Finding:
    """
    The first pass that changed the program's results.

    `wrong` is an element of a result, or `failure` tells why the module no longer runs. `inputs`
    are the smallest inputs found that show the difference.
    """

    stage: str
    wrong: Wrong | None
    failure: str
    arguments: tuple[Input, ...]
    inputs: tuple[Array, ...]
    runs: int
    """Number of runs of the program for reducing the inputs."""

    def __str__(self) -> str:
        lines = [f"{self.stage}: {self.wrong or self.failure}"]
        if not self.inputs:
            return lines[0]
        lines.append(f"  the smallest inputs found ({self.runs} runs):")
        for argument, array in zip(self.arguments, self.inputs, strict=True):
            lines.append(f"    {argument} = {_show_array(array)}")
        return "\n".join(lines)


def _show_array(array: Array) -> str:
    positions = np.argwhere(array != 0)
    if array.ndim == 0:
        return str(array.item())
    if not len(positions):
        return "zeros"
    listed = [f"[{', '.join(map(str, p))}] = {array[tuple(p)].item()}" for p in positions[:LISTED]]
    more = f", and {len(positions) - LISTED} more" if len(positions) > LISTED else ""
    return f"zeros except {', '.join(listed)}{more}"


@dataclass
class Report:
    """All passes that ran, in order. `share` is the largest ratio of error to bound."""

    inputs: int = 0
    skipped: list[str] = field(default_factory=list[str])
    """Reasons why sets of inputs were left out, namely undefined results before any pass."""
    undefined: list[str] = field(default_factory=list[str])
    """Undefined values of `arith` on which results before any pass depend."""
    shares: dict[str, float | None] = field(default_factory=dict[str, float | None])
    """For each pass, the largest ratio of error to bound; None if the pass changed nothing."""
    finding: Finding | None = None

    def __str__(self) -> str:
        lines = [f"{stage}: {self._verdict(share)}" for stage, share in self.shares.items()]
        if self.skipped:
            lines.append(f"{len(self.skipped)} sets of inputs left out: {self.skipped[0]}")
        lines += [f"before any pass: {finding}" for finding in self.undefined]
        if self.finding is not None:
            lines.append(str(self.finding))
        if self.compares_nothing:
            lines.append(
                "no pass changed the module, so nothing was checked. Give a module that "
                "the passes rewrite"
            )
        return "\n".join(lines)

    @property
    def compares_nothing(self) -> bool:
        """True if no pass changed the module, so that no pass was checked."""
        return self.finding is None and all(share is None for share in self.shares.values())

    def _verdict(self, share: float | None) -> str:
        if share is None:
            return "changed nothing, so nothing was compared"
        within = "equal" if share == 0 else f"within the bound (at most {share:.2%} of the bound)"
        return f"{self.inputs} sets of inputs, results {within}"
