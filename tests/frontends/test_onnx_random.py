"""Random graphs give onnxruntime's results, and their generator works."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from xdsl_spirv import targets
from xdsl_spirv.compiler.model import ImportedModel, run_reference
from xdsl_spirv.frontends.onnx.registry import registered
from xdsl_spirv.jobs.engine import Here
from xdsl_spirv.jobs.job import Job, Result
from xdsl_spirv.jobs.store import Store
from xdsl_spirv.testing.differential import onnx_judging
from xdsl_spirv.testing.differential.onnx_graphs import RandomGraph, assemble_model
from xdsl_spirv.testing.differential.onnx_judging import ORDINARY, judge, random_graph, verdicts_of
from xdsl_spirv.testing.differential.onnx_kinds import EXCEPTIONS, RECORDS
from xdsl_spirv.testing.differential.onnx_references import run_definition
from xdsl_spirv.testing.differential.onnx_scripts import alone, script

FEW = 60
MANY = 1000
TARGETS = [target for name in targets.names() for target in (name, *[""] * 7)]
"""Target of each graph in turn. Only one graph in eight is compiled; the others have no target."""


@pytest.fixture
def store(tmp_path: Path) -> Generator[Store]:
    with Store(tmp_path / "results.db") as store:
        yield store


def test_every_operator_is_generated_or_excluded():
    names = {(entry.domain, entry.name) for entry in registered()}
    assert sorted(names - RECORDS.keys() - EXCEPTIONS.keys()) == []
    assert not RECORDS.keys() & EXCEPTIONS.keys()
    assert all(EXCEPTIONS.values())


def test_a_seed_and_a_number_name_a_graph(onnx: ModuleType):
    for number in range(8):
        kind, first = random_graph(3, number)
        other_kind, second = random_graph(3, number)
        assert kind == other_kind
        assert first.describe() == second.describe()
        for name, array in first.inputs.items():
            np.testing.assert_array_equal(array, second.inputs[name])


def test_a_wrong_result_is_found_and_its_node_named(
    onnx: ModuleType, monkeypatch: pytest.MonkeyPatch
):
    graph = RandomGraph(np.random.default_rng(1))
    y = graph.node("Neg", graph.node("Relu", graph.input(np.array([-1, 2, 3], np.int32))))

    def off_by_one(model: ImportedModel, inputs: Mapping[str, Any]) -> dict[str, Any]:
        return {n: a + (n == y.name) for n, a in run_reference(model, inputs).items()}

    monkeypatch.setattr(onnx_judging, "run_reference", off_by_one)
    assert judge(graph) == ("wrong", f"{y.name}[0] is 1, not 0; 3 of 3 differ")
    assert [judge(part)[0] for part in alone(graph)] == ["ok", "wrong"]


def test_onnxs_definition_decides_if_onnxruntime_loses_bits(onnx: ModuleType):
    """onnxruntime's variances subtract f32 sums, which loses bits."""
    graph = RandomGraph(np.random.default_rng(1))
    x = np.array([-3.737299, -3.7151875, -0.13856347, -2.1543105], np.float32).reshape(1, 2, 2)
    gain, bias = np.array([[-2.28, 3.7], [-0.63, -0.25]], np.float32)
    y = graph.node("GroupNormalization", *map(graph.input, (x, gain, bias)), num_groups=2)
    rows = x.astype(np.float64)
    rows = (rows - rows.mean(2, keepdims=True)) / np.sqrt(rows.var(2, keepdims=True) + 1e-5)
    (truth,) = run_definition(assemble_model([graph]), graph.inputs)
    np.testing.assert_allclose(truth, rows * gain[:, None] + bias[:, None], 1e-6)
    assert np.abs(y.array - truth).max() > 1e-3
    assert judge(graph) == ("ok", "")

    numbers = RandomGraph(np.random.default_rng(1))
    values = [1439244141, 3822342320, 3822342320, 405500785, 207381533, 405500785]
    numbers.node("ReduceL2", numbers.input(np.array(values, np.uint32)), keepdims=0)
    assert judge(numbers) == ("ok", "")


def test_references_that_differ_are_compared_node_by_node(onnx: ModuleType):
    graph = RandomGraph(np.random.default_rng(1))
    x = graph.node("Log", graph.input(np.array([[1, 1, -1]], np.float32)))
    x = graph.node("LpNormalization", x, axis=0)
    graph.node("ReduceMin", x, keepdims=0)
    # onnxruntime's ReduceMin and onnx's LpNormalization both ignore NaN.
    assert [float(array) for array in graph.expected.values()] == [0]
    assert judge(graph) == ("ok", "")


def test_a_graph_is_a_program_that_compares(onnx: ModuleType, capsys: pytest.CaptureFixture[str]):
    graph = RandomGraph(np.random.default_rng(1))
    graph.node(
        "Add",
        graph.input(np.array([-1, 2], np.float32)),
        graph.constant(np.array([5, 5], np.float32)),
    )
    exec(script(graph), {})
    wanted, computed = capsys.readouterr().out.strip().splitlines()[-2:]
    assert "[4., 7.]" in wanted
    assert "[4., 7.]" in computed


def test_a_graph_that_kills_its_process_is_not_judged(here: Here, onnx: ModuleType, store: Store):
    jobs = list(verdicts_of(5, range(2), engine=here, store=store))
    inside = list(verdicts_of(5, range(2)))
    assert {(v.number, v.kind) for v in jobs} == {(v.number, v.kind) for v in inside}
    (record, *_) = store.records()
    job = Job("graph", dict(record.data) | {"number": 7})
    store.add(job, Result("crashed", None, "the job's process died (SIGABRT)"))
    (verdict,) = verdicts_of(5, [7], engine=here, store=store)
    assert (verdict.kind, verdict.seed, verdict.number) == ("not judged", 5, 7)
    assert verdict.detail == "crashed: the job's process died (SIGABRT)"


@pytest.mark.parametrize("kind", ORDINARY)
def test_random_graphs_give_the_results_of_onnxruntime(kind: str, onnx: ModuleType):
    verdicts = list(verdicts_of(5, range(FEW // len(ORDINARY)), [kind]))
    assert [str(v) for v in verdicts if v.kind in ("wrong", "crash")] == []
    assert sum(v.kind == "ok" for v in verdicts) >= 0.8 * len(verdicts)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 104))
def test_many_random_graphs(seed: int, onnx: ModuleType):
    numbers = range(MANY // 4)
    with Here(len(os.sched_getaffinity(0))) as engine:
        verdicts = list(verdicts_of(seed, numbers, ORDINARY, TARGETS, engine))
    assert [str(v) for v in verdicts if v.kind in ("wrong", "crash")] == []
    assert sum(v.kind == "ok" for v in verdicts) >= 0.98 * len(verdicts)
