"""ONNX's attention with a dynamic past becomes one kernel that reads keys and values in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from xdsl.passes import PassPipeline
from xdsl.universe import Universe

from xdsl_spirv.compiler import compile_module
from xdsl_spirv.dialects.schedule import AttentionOp
from xdsl_spirv.frontends import import_onnx
from xdsl_spirv.runtime import run
from xdsl_spirv.runtime.modules import context

if TYPE_CHECKING:
    from tests.frontends.conftest import Builder


def formed(module: Any) -> list[AttentionOp]:
    passes = Universe.get_multiverse().all_passes
    spec = "scalars-into-loops,linalg-to-contraction,form-attention{target=lavapipe}"
    PassPipeline.parse_spec(passes, spec).apply(context(), module)
    return [op for op in module.walk() if isinstance(op, AttentionOp)]


@pytest.mark.parametrize("cap", [None, 3.0])
def test_attention_with_a_dynamic_past_is_one_kernel(build: Builder, cap: float | None):
    def shape(heads: int, length: str) -> tuple[str, list[Any]]:
        return "FLOAT", [1, heads, length, 8]

    names = ["q", "k", "v", "", "past_key", "past_value"]
    build.node("Attention", names, "y", is_causal=1, softcap=cap or 0.0)
    inputs = {"q": shape(4, "M"), "k": shape(2, "M"), "v": shape(2, "M")}
    inputs |= {name: shape(2, "P") for name in names[4:]}
    model = build.model(inputs, {"y": shape(4, "M")})
    model.opset_import[0].version = 24
    module = import_onnx(model, dynamic=True).module
    (op,) = formed(module.clone())
    assert (op.cap and round(op.cap.value.data, 5)) == cap
    # Heads that share keys are a loop that does not index the keys, and no kernel repeats keys.
    assert op.sizes[:2] == (2, 2)
    assert len(op.numbers) == 3
    program = compile_module(module, "lavapipe")
    generator = np.random.default_rng(2)
    sizes = {"q": (4, 3), "k": (2, 3), "v": (2, 3), "past_key": (2, 6), "past_value": (2, 6)}
    arrays = {n: generator.standard_normal((1, *s, 8)).astype("f4") for n, s in sizes.items()}
    (result,) = run(program, arrays).values()
    q = arrays["q"].astype(np.float64).reshape(2, 2, 3, 8)
    k, v = (np.concatenate([arrays[f"past_{n}"], arrays[n[0]]], 2)[0] for n in ("key", "value"))
    scores = np.einsum("hgmd,hnd->hgmn", q, k) * 8**-0.5
    scores = scores if cap is None else cap * np.tanh(scores / cap)
    scores = np.where(np.arange(9) > np.arange(3)[:, None] + 6, -np.inf, scores)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    expected = np.einsum("hgmn,hnd->hgmd", powers / powers.sum(-1, keepdims=True), v)
    np.testing.assert_allclose(result.reshape(2, 2, 3, 8), expected, rtol=1e-5, atol=1e-6)
