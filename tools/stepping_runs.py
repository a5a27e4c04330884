"""Runs a module between passes, for `opt --interactive`, and checks the results."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from xdsl_spirv.compare.translation.inputs import draw
from xdsl_spirv.compare.translation.legal import Judge, Legal
from xdsl_spirv.compare.translation.subjects import Grid, Subject, subject_of
from xdsl_spirv.compiler.compiler import subgroup_size_for, target_for
from xdsl_spirv.interpreter import Options
from xdsl_spirv.interpreter.options import mapping_of
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.tools.stepping import Session, State

RANDOM = 2
"""Index of the set of random inputs among the sets that `draw` returns."""

KEPT = 4
"""Number of runs whose results are cached."""

Results = dict[str, Array]


@dataclass
class Runs:
    """
    Runs the modules of a session on the same random inputs, and compares the results.

    The host function is run, or every entry point on `grid`, with `length` elements in runtime
    arrays.
    """

    session: Session
    function: str | None = None
    grid: Grid = (1, 1, 1)
    length: int = 64
    _known: list[tuple[ModuleOp, str, Results]] = field(
        default_factory=list[tuple[ModuleOp, str, Results]]
    )
    """Cached results, each with its module and settings."""

    def run(self, seed: int = 0) -> Iterator[str]:
        """
        Yields lines that compare the current results with the results before the last pass and
        with the source's results. Raises `InterpreterError` or `ProgramError` if one of the
        modules cannot run.
        """
        session = self.session
        subject = self._subject()
        values = draw(subject.inputs, seed, RANDOM)
        yield f"inputs of seed {seed}: {', '.join(map(str, subject.inputs)) or 'none'}"
        with np.errstate(all="ignore"):
            now = self._results(subject, session.state, seed, values)
            for name, result in now.items():
                yield f"  {name} = {_show_result(result)}"
            if not session.position:
                return
            before = self._results(subject, session.states[session.position - 1], seed, values)
            legal = Judge(session.source, subject).legal(values)
        yield f"before {session.last}: {_difference(now, before)}"
        yield f"beside the source: {_verdict(now, before, legal)}"

    def _subject(self) -> Subject:
        """Returns the program to run, with the subgroup size that its passes require."""
        plan = self.session.plan
        options = Options(
            subgroup_size=subgroup_size_for(plan), component_mapping=mapping_of(target_for(plan))
        )
        return subject_of(self.session.source, self.function, options, self.grid, self.length)

    def _results(self, subject: Subject, state: State, seed: int, values: list[Array]) -> Results:
        key = f"{seed} {subject}"
        for module, depends, results in self._known:
            if module is state.module and depends == key:
                return results
        results = subject.run(state.module, values)
        self._known = [*self._known[-KEPT + 1 :], (state.module, key, results)]
        return results


def _show_result(result: Array) -> str:
    shape = "x".join([*map(str, result.shape), result.dtype.name])
    few = np.array2string(result, threshold=6, edgeitems=2, precision=6, separator=", ")
    return f"{shape} {' '.join(few.split())}"


def _difference(now: Results, before: Results) -> str:
    """Returns a text that tells how much the results differ from the results `before`."""
    apart: list[str] = []
    for name, result in now.items():
        earlier = before.get(name)
        if earlier is None or earlier.shape != result.shape:
            apart.append(f"{name} is new or has another shape")
        elif earlier.tobytes() != result.tobytes():
            distance = np.abs(result.astype(np.float64) - earlier.astype(np.float64))
            known = distance[~np.isnan(distance)]
            most = f"{known.max():.3g}" if known.size else "NaN"
            apart.append(f"{name} differs by up to {most}")
    gone = [f"{name} is gone" for name in before if name not in now]
    return ", ".join(apart + gone) or "bit-identical"


def _verdict(now: Results, before: Results, legal: Legal) -> str:
    """Returns a text that tells if the results `now` are within the legal intervals."""
    if missing := [name for name in legal.centre if name not in now]:
        return f"NOT LEGAL: the result {missing[0]} is missing"
    share, where = legal.worst(now)
    if where is None or share == 0:
        return "legal, the same"
    if share <= 1:
        return f"legal, {100 * share:.3g} % of the allowed error"
    name = where[0]
    if now[name].shape != legal.centre[name].shape:
        return f"NOT LEGAL: {name} has another shape, {_show_result(now[name])}"
    earlier = before.get(name)
    comparable = earlier is not None and earlier.shape == now[name].shape
    return f"NOT LEGAL: {legal.wrong(now, before if comparable else now, where)}"
