"""
Imports and runs random graphs, and compares the results with onnxruntime's.

    python -m xdsl_spirv.testing.differential.onnx_judging --seed 1 --count 5000 --jobs 16
    python -m xdsl_spirv.testing.differential.onnx_judging --count 5000 --scheduler tcp://host:8786

A graph is identified by seed and number. It is judged on the reference interpreter, and with
`--targets` also compiled for one of the targets in turn. A verdict is `ok`, `refused` (an error
that names the unsupported part), `crash` (any other exception), `wrong`, or `not judged`
(onnxruntime killed its process). If onnxruntime and onnx's own evaluator differ on a node, either
result is accepted, and so is ONNX's definition in f64. `--out` writes the verdicts as JSON lines,
`--script` prints a graph as a program.
"""

from __future__ import annotations

import argparse
import collections
import json
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.utils.exceptions import DiagnosticException

from xdsl_spirv.compiler.model import compile_model, run_reference
from xdsl_spirv.frontends import FrontendError
from xdsl_spirv.frontends.onnx.importer import import_onnx
from xdsl_spirv.interpreter import InterpreterError
from xdsl_spirv.jobs.engine import Engine
from xdsl_spirv.jobs.job import INTERPRETER, Job, Wrong
from xdsl_spirv.jobs.options import open_engine, open_store, status_of
from xdsl_spirv.jobs.store import Store
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.testing.differential.onnx_graphs import ONE, OPEN, RandomGraph, Run, assemble_model
from xdsl_spirv.testing.differential.onnx_kinds import KINDS, RECORDS
from xdsl_spirv.testing.differential.onnx_references import (
    Array,
    NotComputed,
    run_definition,
    run_evaluator,
    run_model,
)
from xdsl_spirv.testing.differential.onnx_scripts import alone, script
from xdsl_spirv.tools.options import Options

SECONDS, MEMORY = 300.0, 16 << 30
"""Limits for judging one graph: time in seconds, and memory in bytes."""

RELATIVE = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 3e-5, "float64": 3e-5}
"""
Allowed relative difference by type. The graph's bound decides if it is relative to each element or
to the largest one.
"""

SMALLEST = {"float16": 1e-7, "bfloat16": 1.2e-38, "float32": 1.2e-38, "float64": 1.2e-38}
"""Magnitudes below which numbers count as zero, because denormals may be flushed."""

NUDGE = 2.0**-21
"""Relative change of inputs, to detect results that small errors of earlier nodes can change."""

TIES = 0.05
"""
Share of an integer result's elements that may differ by one, because a rounded value may lie
between two integers.
"""

ORDINARY = ("single", "several", "quantized", "open", "control", "contrib")

REFUSALS = (FrontendError, ProgramError, DiagnosticException, InterpreterError)

OTHERS = {"onnx.reference": run_evaluator, "the definition in f64": run_definition}
"""Further references. They decide if onnxruntime deviates from ONNX."""

Execute = Callable[[Mapping[str, Array]], Mapping[str, Array]]


@dataclass(frozen=True)
class Verdict:
    """The verdict on a graph."""

    seed: int
    number: int
    graph_kind: str
    kind: str
    detail: str
    what: str
    operators: tuple[str, ...]
    seconds: float
    target: str = ""

    def __str__(self) -> str:
        where = f" for {self.target}" if self.target else ""
        return f"{self.kind}{where}: {self.seed}/{self.number} {self.what}\n    {self.detail}"


def random_graph(
    seed: int, number: int, kinds: Sequence[str] = ORDINARY
) -> tuple[str, RandomGraph]:
    """
    Returns the kind and the graph of (seed, number). If a graph is unsupported, draws another one.
    """
    for attempt in range(200):
        rng = np.random.default_rng([seed, number, attempt])
        kind = kinds[int(rng.integers(len(kinds)))]
        graph = RandomGraph(
            rng, f"g{number}_", static_share=float(rng.choice([0.0, 0.5, 0.5, 1.0]))
        )
        try:
            KINDS[kind](graph)
            if graph.expected and all(a.size < 1 << 16 for a in graph.results.values()):
                return kind, graph
        except NotComputed:
            continue
    raise NotComputed(f"no reference supports any of the graphs drawn for {seed}/{number}")


def judge(
    graph: RandomGraph, target: str = "", runs: Sequence[Run] | None = None
) -> tuple[str, str]:
    """Returns the verdict on a graph, with details, on the reference interpreter or a target."""
    try:
        runs = graph.runs() if runs is None else runs
    except NotComputed:
        # A graph that runs with one size only does not test its dynamic sizes.
        graph.open_sizes = False
        runs = graph.runs()
    try:
        execute = executor([graph], target)
        results = [execute(run.inputs) for run in runs]
    except REFUSALS as error:
        return "refused", f"{type(error).__name__}: {error}"[:600]
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)[-3:]
        places = " <- ".join(f"{f.filename.rsplit('/', 1)[-1]}:{f.lineno}" for f in frames)
        return "crash", f"{type(error).__name__}: {error} @ {places}"[:600]
    for run, result in zip(runs, results, strict=True):
        verdict, detail = compared(graph, run, result)
        if verdict != "ok" and not right_node_by_node(graph, target, run, result):
            return verdict, detail
    return "ok", ""


def executor(graphs: Sequence[RandomGraph], target: str) -> Execute:
    """Returns a function that runs graphs as one model on the reference interpreter or a target."""
    shapes = [a.shape for graph in graphs if graph.open_sizes for a in graph.inputs.values()]
    dims = {f"size{size}": None for shape in shapes for size in shape if size in OPEN}
    dims |= {ONE: None for graph in graphs if graph.ones}
    imported = import_onnx(assemble_model(graphs), dims)
    imported.module.verify()
    if not target:
        return lambda inputs: run_reference(imported, inputs)
    program = compile_model(imported, target)
    names = [name for graph in graphs for name in graph.expected]

    def run(inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        results: Any = program(**inputs)  # pyright: ignore[reportArgumentType]
        return dict(zip(names, results if isinstance(results, tuple) else (results,), strict=True))

    return run


# Comparing


def compared(graph: RandomGraph, run: Run, results: Mapping[str, Array]) -> tuple[str, str]:
    bound = bound_of(graph)
    wrong = _differing(results, run.expected, bound)
    if not wrong:
        return "ok", ""
    if len(graph.nodes) > 1:
        allowed = _sensitivity(graph, run)
        if not _differing(results, run.expected, bound, allowed):
            return "ok", "within the change after a nudge of the inputs"
    for name, reference in OTHERS.items():
        try:
            truth = reference(assemble_model([graph]), run.inputs)
        except NotComputed:
            continue
        other = dict(zip(graph.expected, truth, strict=True))
        if not _differing(results, other, bound):
            return "ok", f"equal to {name}, different from onnxruntime"
    return "wrong", wrong


def right_node_by_node(
    graph: RandomGraph, target: str, run: Run, results: Mapping[str, Array]
) -> bool:
    """
    True if each node is right for the operands that this package computed for it.

    This is needed if references differ on two nodes, and each reference is wrong on one of them.
    """
    whole = replace(graph, read=set[str]())
    values = executor([whole], target)(run.inputs)
    if _differing(values, results, bound_of(graph)):
        return False
    parts = list(alone(replace(whole, inputs=run.inputs, results=dict(values))))
    return 1 < len(graph.nodes) == len(parts) and all(map(_is_right, parts))


def _is_right(part: RandomGraph) -> bool:
    try:
        truth = run_model(assemble_model([part]), part.inputs)
    except NotComputed:
        return False
    expected = dict(zip(part.results, truth, strict=True))
    return compared(part, Run(part.inputs, expected), part.results)[0] == "ok"


def bound_of(graph: RandomGraph) -> str:
    """Returns the loosest bound among a graph's operators: `exact`, `each`, `sum` or `step`."""
    bounds = {
        RECORDS[n.domain, n.op_type].bound for n in graph.nodes if (n.domain, n.op_type) in RECORDS
    }
    if len(graph.nodes) > 1 and bounds - {"exact", "step"}:
        bounds.add("sum")
    return next(b for b in ("step", "sum", "each", "exact") if b in bounds)


def _sensitivity(graph: RandomGraph, run: Run) -> dict[str, Array]:
    """Returns the largest change of each result if floating-point inputs are changed a little."""
    changes = {name: np.zeros(a.shape) for name, a in run.expected.items()}
    model = assemble_model([graph])
    for sign in (1, -1):
        inputs = {
            n: (a * (1 + sign * NUDGE)).astype(a.dtype) if a.dtype.kind == "f" else a
            for n, a in run.inputs.items()
        }
        try:
            moved = run_model(model, inputs)
        except NotComputed:
            return {}
        for name, array in zip(run.expected, moved, strict=True):
            with np.errstate(all="ignore"):
                change = np.abs(array.astype(np.float64) - run.expected[name].astype(np.float64))
            changes[name] = np.maximum(changes[name], np.nan_to_num(change, nan=np.inf))
    return {name: 8 * change for name, change in changes.items()}


def _differing(
    results: Mapping[str, Array],
    expected: Mapping[str, Array],
    bound: str,
    allowed: Mapping[str, Array] | None = None,
) -> str:
    for name, truth in expected.items():
        computed = results[name]
        if computed.shape != truth.shape or computed.dtype != truth.dtype:
            return f"{name} is {computed.dtype}{computed.shape}, not {truth.dtype}{truth.shape}"
        bad = ~_close(computed, truth, bound, (allowed or {}).get(name, 0.0))
        if bad.any():
            at = tuple(int(i[0]) for i in np.nonzero(np.atleast_1d(bad)))
            got, want = np.atleast_1d(computed)[at], np.atleast_1d(truth)[at]
            return f"{name}{list(at)} is {got}, not {want}; {bad.sum()} of {bad.size} differ"
    return ""


def _close(computed: Array, truth: Array, bound: str, allowed: Any) -> Any:
    if truth.dtype.kind in "iub":
        same = computed == truth
        if bound == "step":
            apart = np.abs(computed.astype(np.int64) - truth.astype(np.int64))
            return same | ((apart == 1) & (np.sum(~same) <= max(1, TIES * same.size)))
        if not np.any(allowed):
            return same
        return same | (np.abs(computed.astype(np.float64) - truth.astype(np.float64)) <= allowed)
    a, b = computed.astype(np.float64), truth.astype(np.float64)
    kind = truth.dtype.name
    finite = np.abs(b[np.isfinite(b)])
    largest = float(finite.max(initial=0.0))
    part = RELATIVE[kind]
    with np.errstate(all="ignore"):
        room = {
            "exact": 0.0,
            "each": part * (np.abs(b) + min(largest, 0.03)),
            "sum": part * max(largest, 0.01),
            "step": part * max(largest, 0.01),
        }
        near = np.abs(a - b) <= room[bound] + SMALLEST[kind] * (bound != "exact") + allowed
    return near | (a == b) | (np.isnan(a) & np.isnan(b))


# Judging many graphs


def judged(seed: int, kinds: Sequence[str], targets: Sequence[str], number: int) -> list[Verdict]:
    """Returns a graph's verdicts on the reference interpreter and on target number `number`."""
    start = time.perf_counter()
    kind, graph = random_graph(seed, number, kinds)
    operators = tuple(dict.fromkeys(node.op_type for node in graph.nodes))
    verdicts: list[Verdict] = []
    compiled = targets[number % len(targets)] if targets else ""
    for target in dict.fromkeys(("", compiled)):
        verdict, detail = judge(graph, target)
        if verdict == "wrong":
            detail += f"; {_cause(graph, target)}"
        seconds = round(time.perf_counter() - start, 3)
        what = graph.describe()[:3000]
        verdicts.append(
            Verdict(seed, number, kind, verdict, detail, what, operators, seconds, target)
        )
        if verdict != "ok":
            break
    return verdicts


def _cause(graph: RandomGraph, target: str) -> str:
    if len(graph.nodes) == 1:
        return ""
    for part in alone(graph):
        if judge(part, target)[0] == "wrong":
            return f"alone: {part.describe()[:600]}"
    return "every node is right when it runs separately"


def graph_job(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Runs a job of kind `graph` and returns its verdicts. Raises `Wrong` if one is bad."""
    verdicts = judged(data["seed"], data["kinds"], data["targets"], data["number"])
    tables = [asdict(verdict) for verdict in verdicts]
    bad = [str(verdict) for verdict in verdicts if verdict.kind in ("wrong", "crash")]
    if bad:
        raise Wrong("; ".join(bad), tables)
    return tables


def verdicts_of(
    seed: int,
    numbers: Iterable[int],
    kinds: Sequence[str] = ORDINARY,
    targets: Sequence[str] = (),
    engine: Engine | None = None,
    store: Store | None = None,
) -> Iterator[Verdict]:
    """
    Yields the verdicts on a seed's graphs. Graphs that run in this process are judged in order.
    Verdicts of an engine come as its jobs end.

    In jobs, a graph that kills its process (onnxruntime sometimes does) is `not judged`.
    """
    if engine is None:
        for number in numbers:
            yield from judged(seed, kinds, targets, number)
        return
    common = {"seed": seed, "kinds": list(kinds), "targets": list(targets)}
    jobs = (Job("graph", {"number": n, **common}, INTERPRETER, SECONDS, MEMORY) for n in numbers)
    for job, result in engine.run(jobs, store):
        if result.value is None:
            number, cause = job.data["number"], f"{result.status}: {result.cause}"
            yield Verdict(seed, number, "", "not judged", cause, "", (), result.seconds)
        for table in result.value or ():
            yield Verdict(**table | {"operators": tuple(table["operators"])})


def main() -> int:
    """Runs the command: draws, judges and counts graphs. Returns 1 if one is wrong or crashes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--kinds", default=",".join(ORDINARY), help=", ".join(KINDS))
    parser.add_argument("--targets", default="", help="also compile for these in turn")
    parser.add_argument("--out", type=Path, help="JSON lines")
    parser.add_argument("--script", action="store_true", help="print the first graph as a program")
    Options("@scheduler")(parser)
    options = parser.parse_args()
    kinds = [kind for kind in options.kinds.split(",") if kind]
    unknown = sorted(set(kinds) - set(KINDS))
    if unknown:
        parser.error(f"there is no kind {unknown[0]!r}; there are: {', '.join(KINDS)}")
    if options.count < 1 or options.jobs < 1:
        parser.error("--count and --jobs must be at least 1")
    if options.script:
        print(script(random_graph(options.seed, options.start, kinds)[1]))
        return 0
    counts: collections.Counter[str] = collections.Counter()
    numbers = range(options.start, options.start + options.count)
    targets = [target for target in options.targets.split(",") if target]
    with (
        open_engine(options.scheduler, options.jobs) as engine,
        open_store(options.store) as store,
        options.out.open("w") if options.out else nullcontext() as out,
    ):
        for verdict in verdicts_of(options.seed, numbers, kinds, targets, engine, store):
            counts[verdict.kind] += 1
            if out is not None:
                print(json.dumps(asdict(verdict)), file=out, flush=True)
            if verdict.kind != "ok":
                print(verdict, flush=True)
    print(", ".join(f"{count} {kind}" for kind, count in counts.most_common()), file=sys.stderr)
    return 1 if counts["wrong"] or counts["crash"] else 0


if __name__ == "__main__":
    raise SystemExit(status_of(main))
