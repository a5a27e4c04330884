"""
Random graphs through import, kernels and interpreter, beside onnxruntime's values.

    python -m xdsl_spirv.testing.differential.onnx_judging --seed 1 --count 300

A verdict is `ok`, `refused` (an error that names what is not supported), `crash` (any other
exception) or `wrong`. Where onnxruntime and onnx's own evaluator differ, either counts.
"""

from __future__ import annotations

import argparse
import collections
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.utils.exceptions import DiagnosticException

from xdsl_spirv.compiler.model import compile_model
from xdsl_spirv.frontends import FrontendError, import_onnx
from xdsl_spirv.interpreter import InterpreterError
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.testing.differential.onnx_graphs import (
    Array,
    NotComputed,
    RandomGraph,
    assembled,
    run_evaluator,
)
from xdsl_spirv.testing.differential.onnx_operators import DRAWS, draw

RELATIVE = {"float16": 6e-3, "float32": 3e-5, "float64": 3e-5}
"""What a result may differ by, as a part of its largest element."""

TIES = 0.03
"""The part of a result's elements that may lie on a tie."""

BATCH = 12
"""Graphs in one import."""

REFUSALS = (FrontendError, ProgramError, DiagnosticException, InterpreterError)


@dataclass(frozen=True)
class Verdict:
    """What became of a graph."""

    graph: RandomGraph
    kind: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.graph.describe()}\n    {self.detail}"


def judge(graphs: Sequence[RandomGraph], target: str) -> list[Verdict]:
    """A verdict for each graph; one that hinders the others is taken out and tried alone."""
    if not graphs:
        return []
    try:
        results = _results(graphs, target)
    except Exception as error:
        if len(graphs) == 1:
            kind = "refused" if isinstance(error, REFUSALS) else "crash"
            return [Verdict(graphs[0], kind, f"{type(error).__name__}: {error}"[:600])]
        return [v for part in _parts(graphs, str(error)) for v in judge(part, target)]
    return [_compared(graph, results) for graph in graphs]


def _parts(graphs: Sequence[RandomGraph], said: str) -> Iterator[Sequence[RandomGraph]]:
    """The graph that an error names and the others, or two halves."""
    named = [g for g in graphs if any(f"{n.name!r}" in said for n in g.nodes)]
    if len(named) == 1:
        yield named
        yield [graph for graph in graphs if graph is not named[0]]
        return
    half = len(graphs) // 2
    yield graphs[:half]
    yield graphs[half:]


def _results(graphs: Sequence[RandomGraph], target: str) -> dict[str, Array]:
    dims = {"N": None} if any(graph.open_sizes for graph in graphs) else {}
    model = import_onnx(assembled(graphs), dims)
    program = compile_model(model, target)
    given = {name: array for graph in graphs for name, array in graph.inputs.items()}
    results: Any = program(**given)  # pyright: ignore[reportArgumentType]
    results = results if isinstance(results, tuple) else (results,)
    names = [name for graph in graphs for name in graph.expected]
    return dict(zip(names, results, strict=True))


def _compared(graph: RandomGraph, results: dict[str, Array]) -> Verdict:
    wrong = _differing(results, graph.expected, graph.step)
    if not wrong:
        return Verdict(graph, "ok")
    other = _evaluated(graph)
    if other is not None and not _differing(results, other, graph.step):
        return Verdict(graph, "ok", "as onnx.reference has it, onnxruntime differs")
    return Verdict(graph, "wrong", wrong)


def _evaluated(graph: RandomGraph) -> dict[str, Array] | None:
    """What onnx's own evaluator computes; None where it cannot."""
    try:
        results = run_evaluator(assembled([graph]), graph.inputs)
    except NotComputed:
        return None
    return dict(zip(graph.expected, results, strict=True))


def _differing(results: dict[str, Array], expected: dict[str, Array], step: float) -> str:
    """The first result that is not as expected."""
    for name, truth in expected.items():
        computed = results[name]
        if computed.shape != truth.shape or computed.dtype != truth.dtype:
            return f"{name} is {computed.dtype}{computed.shape}, not {truth.dtype}{truth.shape}"
        bad = ~_close(computed, truth)
        if step and bad.sum() <= max(1, TIES * bad.size):
            bad &= np.abs(computed.astype(np.float64) - truth.astype(np.float64)) > 1.01 * step
        if bad.any():
            at = tuple(int(i[0]) for i in np.nonzero(np.atleast_1d(bad)))
            pair = np.atleast_1d(computed)[at], np.atleast_1d(truth)[at]
            return f"{name}{list(at)} is {pair[0]}, not {pair[1]}; {bad.sum()} of {bad.size}"
    return ""


def _close(computed: Array, truth: Array) -> Any:
    if truth.dtype.kind != "f":
        return computed == truth
    a, b = computed.astype(np.float64), truth.astype(np.float64)
    finite = np.abs(b[np.isfinite(b)])
    allowed = RELATIVE[truth.dtype.name] * float(finite.max(initial=0.0)) + 1e-30
    with np.errstate(invalid="ignore"):
        near = np.abs(a - b) <= allowed
    return near | (a == b) | (np.isnan(a) & np.isnan(b))


def random_graphs(
    seed: int, count: int, kinds: Sequence[str] = (), **options: Any
) -> list[RandomGraph]:
    """Graphs of a seed, each drawn from its own number."""
    names = kinds or list(DRAWS)
    graphs: list[RandomGraph] = []
    number = 0
    while len(graphs) < count:
        rng = np.random.default_rng([seed, number])
        number += 1
        try:
            graphs.append(draw(rng, f"g{number}_", names[int(rng.integers(len(names)))], **options))
        except NotComputed:
            continue
    return graphs


def judged(
    graphs: Sequence[RandomGraph],
    target: str,
    say: Callable[[Verdict], None] = lambda _: None,
    batch: int = BATCH,
) -> list[Verdict]:
    """Verdicts of graphs, several at a time: those of one opset, open sizes by themselves."""
    groups: dict[tuple[int, bool], list[RandomGraph]] = {}
    for graph in graphs:
        groups.setdefault((graph.opset, graph.open_sizes), []).append(graph)
    all_verdicts: list[Verdict] = []
    for group in groups.values():
        step = 1 if group[0].open_sizes else batch
        for start in range(0, len(group), step):
            verdicts = judge(group[start : start + step], target)
            all_verdicts += verdicts
            for verdict in verdicts:
                say(verdict)
    return all_verdicts


def main() -> int:
    """Draw, judge, count; 1 if anything is wrong or crashes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--target", default="lavapipe")
    parser.add_argument("--kinds", default="", help="families, separated by commas")
    parser.add_argument("--batch", type=int, default=BATCH)
    parser.add_argument("--open", action="store_true", help="leave the first size open")
    options = parser.parse_args()
    kinds = [kind for kind in options.kinds.split(",") if kind]
    unknown = sorted(set(kinds) - set(DRAWS))
    if unknown:
        parser.error(f"there is no family {unknown[0]!r}; there are: {', '.join(DRAWS)}")
    if options.count < 1 or options.batch < 1:
        parser.error("--count and --batch are 1 or more: nothing would be judged")
    graphs = random_graphs(options.seed, options.count, kinds, open_sizes=options.open)

    def say(verdict: Verdict) -> None:
        if verdict.kind != "ok":
            print(re.sub(r"\s*\n\s*", "\n    ", str(verdict)), flush=True)

    verdicts = judged(graphs, options.target, say, options.batch)
    counts = collections.Counter(verdict.kind for verdict in verdicts)
    print(", ".join(f"{count} {kind}" for kind, count in counts.most_common()))
    return 1 if counts["wrong"] or counts["crash"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
