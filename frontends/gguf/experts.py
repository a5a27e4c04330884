"""Builds the mixture of experts of a language model: router, experts, and shared expert."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl_spirv.frontends.attention import softmax
from xdsl_spirv.frontends.experts import (
    Matrices,
    Mixture,
    choose_by_softmax,
    choose_experts,
    normalize_weights,
)
from xdsl_spirv.frontends.onnx.values import F32, Tensor

if TYPE_CHECKING:
    from xdsl_spirv.frontends.gguf.graph import Step

LEAST = 2.0**-14
"""Lower bound of the sum of weights, as in llama.cpp: the smallest normal f16."""


def mixture(step: Step, x: Tensor, block: str) -> Tensor:
    """
    Returns, for each token, the weighted sum of its experts' results, plus the result of the shared
    expert.
    """
    b, experts = step.b, step.parameters.experts
    assert experts is not None
    logits = step.product(x, block + "ffn_gate_inp", products=F32)
    chosen, weights = _route(step, logits, block)
    result = Mixture(
        b,
        chosen,
        weights,
        experts.count,
        lambda x, numbers: _activations(step, x, numbers, block),
        _matrices(step, block, "ffn_down_exps"),
        step.products,
        step.weights.context,
        step.constant,
    ).apply(x)
    if not experts.shared:
        return result
    shared = step.network(x, block, "_shexp")
    if experts.router.shared == "gated":
        gates = b.elementwise(
            lambda s, w, x: x * w, step.vector(block + "ffn_gate_inp_shexp.weight"), x
        )
        gates = b.reduce(lambda s, x, total: total + x, 0, gates, [1])
        shared = b.elementwise(lambda s, g, x: x / (s.exp(-g) + 1), gates, shared)
    return step.sum(result, shared)


def _route(step: Step, logits: Tensor, block: str) -> tuple[Tensor, Tensor]:
    """Returns indices and weights of each token's experts; each tensor is tokens x used."""
    b, experts = step.b, step.parameters.experts
    assert experts is not None
    router, bias = experts.router, f"{block}exp_probs_b.bias"
    scores, kind = logits, router.scores
    if kind == "softmax" and router.normalized and bias not in step.weights:
        # Normalized scores equal a softmax over the chosen experts.
        kind = "chosen" if experts.used >= LEAST * experts.count else kind
    if kind == "chosen" and bias not in step.weights:
        chosen, weights = choose_by_softmax(b, logits, experts.used)
        return chosen, step.scale(weights, experts.scale)
    if kind == "softmax":
        scores = softmax(b, logits, 1)
    if kind == "sigmoid":
        scores = b.elementwise(lambda s, x: 1 / (s.exp(-x) + 1), logits)
    ranked = step.sum(step.vector(bias), scores) if bias in step.weights else scores
    chosen, weights = choose_experts(b, ranked, scores, experts.used)
    if kind == "chosen":
        weights = softmax(b, weights, 1)
    elif router.normalized:
        weights = normalize_weights(b, weights, LEAST)
    return chosen, step.scale(weights, experts.scale)


def _activations(step: Step, x: Tensor, experts: Tensor, block: str) -> Tensor:
    """Returns the activations (blocks x rows x hidden size) of the blocks' experts."""

    def multiply(*names: str) -> Tensor:
        matrices = _matrices(step, block, *names)
        return matrices.multiply(step.b, x, experts, step.products)

    names = ("ffn_gate_exps", "ffn_up_exps")
    if step.weights.are_alike([block + name for name in names]):
        gates = multiply(*names)
        assert isinstance(gates.sizes[2], int)
        gate, up = step.parts(gates, [gates.sizes[2] // 2] * 2)
    else:
        gate, up = map(multiply, names)
    return step.activate(up, gate)


def _matrices(step: Step, block: str, *names: str) -> Matrices:
    """Returns the matrices of all experts; several names give matrices above each other."""
    is_biased = f"{block}{names[0]}.bias" in step.weights
    added = step.joined(block, names, "bias")[""] if is_biased else None
    planes = step.joined(block, names, "weight")
    return Matrices(planes, step.weights.format(f"{block}{names[0]}.weight"), added)
