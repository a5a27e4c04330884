"""
Random convolutions give equal results for any choice of their tensors' layouts.

Covers: graph/layouts, schedule/widen_channels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from xdsl_spirv.compiler.host import host_function
from xdsl_spirv.compiler.model import ImportedModel, run_reference
from xdsl_spirv.compiler.pipeline import lowering
from xdsl_spirv.compiler.weights import give_weights
from xdsl_spirv.frontends import import_onnx
from xdsl_spirv.passes.schedule import choose_layouts
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.modules import context
from xdsl_spirv.testing.convolutions import RandomConvolutions, random_convolutions

FEW, MANY = 24, 400

TARGET = "nvidia-h200"


def import_case(case: RandomConvolutions) -> ImportedModel:
    return import_onnx(case.proto, dims=dict.fromkeys(case.open_sizes))


def truth_of(case: RandomConvolutions) -> Array:
    runtime = pytest.importorskip("onnxruntime")
    model = case.proto.SerializeToString()
    session = runtime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return session.run(None, dict(case.inputs))[0]


def laid_out(case: RandomConvolutions, rng: np.random.Generator) -> tuple[ImportedModel, int]:
    """Returns the model with some proposed layouts applied, and their number."""
    model = import_case(case)
    give_weights(host_function(model.module, model.function), model.weights)
    chosen: list[Any] = []

    def some(graph: choose_layouts.Graph, _: object) -> set[Any]:
        roots = list(dict.fromkeys(map(graph.root, graph.orders)))
        chosen.extend(root for root in roots if rng.random() < 0.7)
        return set(chosen)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choose_layouts.Graph, "cheapest", some)
        patch.setattr(
            choose_layouts.Estimates,
            "contraction",
            lambda *_: choose_layouts.Estimate(rng.random(), rng.random() < 0.5),
        )
        patch.setattr(choose_layouts.Estimates, "estimate_reordering", lambda *_: 0.0)
        for member in lowering(TARGET):
            if member.name in ("linalg-to-contraction", "choose-layouts"):
                member.load().apply(context(), model.module)
    model.module.verify()
    return model, len(chosen)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_any_choice_of_orders_gives_the_same_results(seed: int):
    pytest.importorskip("onnx")
    rng = np.random.default_rng(seed)
    moved = 0
    for number in range(FEW if seed == 0 else MANY):
        case = random_convolutions(seed, number)
        model, chosen = laid_out(case, rng)
        moved += chosen
        (result,) = run_reference(model, case.inputs).values()
        np.testing.assert_array_equal(result, truth_of(case), case.words)
    assert moved > FEW // 2
