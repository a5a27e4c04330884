"""
Imports mixtures of experts: onnxruntime's `MoE`, and `QMoE` with weights of few bits.

The router's logits become weights by a softmax over all experts; the `k` greatest weights are
used. Results agree with onnxruntime on CPUs. Separate gate matrices (FC3), which onnxruntime does
not support, follow the operator's documentation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import TypeAlias

import numpy as np

from xdsl_spirv.dialects.schedule.symbolic_sizes import Size
from xdsl_spirv.frontends.experts import Matrices, Mixture, choose_experts, normalize_weights
from xdsl_spirv.frontends.onnx.nodes import Nodes
from xdsl_spirv.frontends.onnx.operators.contrib_attention import MICROSOFT
from xdsl_spirv.frontends.onnx.operators.elementwise import gelu_by_tanh
from xdsl_spirv.frontends.onnx.operators.quantized_blocks import blocks_of, codes_of
from xdsl_spirv.frontends.onnx.operators.quantized_contrib import Maybe
from xdsl_spirv.frontends.onnx.registry import operator
from xdsl_spirv.frontends.onnx.scalars import Number, Scalars
from xdsl_spirv.frontends.onnx.values import F32, Array, Element, Tensor

LEAST = float(np.finfo(np.float32).tiny)
"""Lower bound of the sum by which the weights are divided."""

MOST_TOKENS = 1 << 24
"""Assumed maximum of a dynamic number of tokens."""


@dataclass(frozen=True)
class ExpertAttributes:
    """Attributes of `MoE` and `QMoE`."""

    k: int = 1
    activation_type: str = "relu"
    activation_alpha: float = 1.0
    activation_beta: float = 0.0
    swiglu_fusion: int = 0
    swiglu_limit: float = inf
    swiglu_limit_after_activation: int = 0
    normalize_routing_weights: int = 0
    use_sparse_mixer: int = 0


Projection: TypeAlias = Callable[[slice], Matrices]
"""Function that returns the given rows of each expert's matrix."""


@operator("MoE", domain=MICROSOFT)
def mix_experts(
    b: Nodes,
    x: Tensor,
    router: Tensor,
    fc1: Tensor,
    bias1: Maybe,
    fc2: Tensor,
    bias2: Maybe = None,
    fc3: Maybe = None,
    bias3: Maybe = None,
    /,
    *,
    attributes: ExpertAttributes,
) -> Tensor:
    """Imports MoE: returns the weighted sum of the results of each token's experts."""

    def select(weights: Tensor, bias: Maybe, rows: slice) -> Matrices:
        return Matrices({"": _select_rows(b, weights, rows)}, None, _select_bias(b, bias, rows))

    first, second = partial(select, fc1, bias1), partial(select, fc2, bias2)
    third = None if fc3 is None else partial(select, fc3, bias3)
    return _apply_experts(b, x, (router, None), (first, second, third), fc1.sizes[1], attributes)


@operator("QMoE", domain=MICROSOFT)
def mix_quantized_experts(
    b: Nodes,
    x: Tensor,
    router: Tensor,
    fc1: Tensor,
    scales1: Maybe,
    bias1: Maybe,
    fc2: Tensor,
    scales2: Maybe,
    bias2: Maybe = None,
    fc3: Maybe = None,
    scales3: Maybe = None,
    bias3: Maybe = None,
    zeros1: Maybe = None,
    zeros2: Maybe = None,
    zeros3: Maybe = None,
    router_weights: Maybe = None,
    /,
    *,
    attributes: ExpertAttributes,
    expert_weight_bits: int = 4,
    fc1_expert_weight_bits: int = 0,
    fc2_expert_weight_bits: int = 0,
    fc3_expert_weight_bits: int = 0,
    block_size: int = 0,
    quant_type: str = "int",
    weights_prepacked: int = -1,
    accuracy_level: int = 0,
) -> Tensor:
    """Imports QMoE: experts whose weights are packed integers of 2, 4 or 8 bits."""
    if quant_type != "int" or weights_prepacked == 1:
        b.refuse(
            f"weights with quant_type {quant_type!r} and weights_prepacked "
            f"{weights_prepacked} are not supported",
            "use quant_type = 'int' and weights_prepacked = 0",
        )
    if router_weights is None and not attributes.normalize_routing_weights:
        b.refuse(
            "normalize_routing_weights is 0, which onnxruntime ignores on CPUs and obeys elsewhere",
            "set normalize_routing_weights to 1, or give router_weights",
        )

    def select(
        weights: Tensor, scales: Maybe, zeros: Maybe, bias: Maybe, bits: int, rows: slice
    ) -> Matrices:
        bits = bits or expert_weight_bits
        matrices = _select_codes(b, weights, scales, zeros, bits, block_size, rows)
        return Matrices(matrices.planes, matrices.format, _select_bias(b, bias, rows))

    first = partial(select, fc1, scales1, zeros1, bias1, fc1_expert_weight_bits)
    second = partial(select, fc2, scales2, zeros2, bias2, fc2_expert_weight_bits)
    third = None
    if fc3 is not None:
        third = partial(select, fc3, scales3, zeros3, bias3, fc3_expert_weight_bits)
    return _apply_experts(
        b, x, (router, router_weights), (first, second, third), fc1.sizes[1], attributes
    )


def _select_rows(b: Nodes, t: Tensor, rows: slice) -> Tensor:
    if rows == slice(None):
        return t
    if t.numbers is not None:
        name = f"{t.name}.{rows.start}.{rows.step}" if t.name else ""
        return Tensor.of(np.ascontiguousarray(t.numbers[:, rows]), name)
    if not isinstance(t.sizes[1], int):
        b.refuse(f"the number of rows of {t} is dynamic", "give weights of known sizes")
    numbers = range(t.sizes[1])[rows]
    starts, sizes, steps = ([0] * t.rank, list(t.sizes), [1] * t.rank)
    starts[1], sizes[1], steps[1] = numbers.start, len(numbers), numbers.step
    return b.slice(t, starts, sizes, steps)


def _select_bias(b: Nodes, bias: Maybe, rows: slice) -> Maybe:
    return None if bias is None else _select_rows(b, bias, rows)


def _select_codes(
    b: Nodes,
    weights: Tensor,
    scales: Maybe,
    zeros: Maybe,
    bits: int,
    block_size: int,
    rows: slice,
) -> Matrices:
    """Returns the given rows of packed expert weights as `Matrices`."""
    if bits not in (2, 4, 8):
        b.refuse(f"weights of {bits} bits are not supported", "use 2, 4 or 8 bits")
    codes = codes_of(weights, bits)
    known = None if scales is None else scales.numbers
    if codes is None or known is None or (zeros is not None and zeros.numbers is None):
        b.refuse(
            "weights, scales or zero points are computed when the model runs",
            "make them initializers",
        )
    experts, count, columns = codes.shape
    size = block_size or columns
    known = known.reshape(experts, count, -1)[:, rows]
    middle: Array | None = None
    if zeros is not None:
        # All zero points in a byte belong to blocks of one row.
        flat = codes_of(zeros, bits)
        assert flat is not None
        if not block_size:
            flat = flat[:, :count, None]
        middle = flat[:, rows, : columns // size].reshape(-1, columns // size)
    codes = codes[:, rows]
    own = codes.shape[1]
    name = f"{weights.name}.{rows.start}.{rows.step}" if weights.name else ""
    flat_scales = Tensor.of(np.ascontiguousarray(known.reshape(experts * own, -1)))
    blocks = blocks_of(codes.reshape(-1, columns), flat_scales, middle, bits, size, name)
    if blocks is None or columns % size:
        b.refuse(
            f"{columns} elements of {bits} bits do not divide into blocks of {size}",
            f"use blocks of a multiple of {32 // bits} elements that divides a row",
        )
    planes: dict[str, Tensor] = {}
    for plane, t in blocks.planes.items():
        assert t.numbers is not None
        planes[plane] = Tensor.of(t.numbers.reshape(experts, own, *t.numbers.shape[1:]), t.name)
    return Matrices(planes, blocks.format)


def _apply_experts(
    b: Nodes,
    x: Tensor,
    routers: tuple[Tensor, Maybe],
    projections: tuple[Projection, Projection, Projection | None],
    rows: Size,
    attributes: ExpertAttributes,
) -> Tensor:
    a, (router, router_weights) = attributes, routers
    if a.use_sparse_mixer or a.swiglu_limit_after_activation:
        b.refuse(
            "use_sparse_mixer or swiglu_limit_after_activation is set, which is not supported",
            "set both to 0",
        )
    tokens, count = router.sizes
    if not isinstance(count, int) or not 1 <= a.k <= count:
        b.refuse(
            f"k is {a.k}, but there are {count} experts", "use k from 1 to the number of experts"
        )
    logits = b.convert(router, F32)
    scores = b.apply("Softmax", logits, opset=13, axis=1)
    own = scores if router_weights is None else b.convert(router_weights, F32)
    chosen, weights = choose_experts(b, logits, own, a.k)
    if a.normalize_routing_weights:
        weights = normalize_weights(b, weights, LEAST)
    hidden, down = _network(b, projections, rows, x.element, a)
    most = tokens if isinstance(tokens, int) else MOST_TOKENS
    mixture = Mixture(
        b,
        chosen,
        weights,
        count,
        hidden,
        down,
        x.element,
        most,
        lambda name, array: Tensor.of(array),
    )
    result = mixture.apply(b.reshape(x, [tokens, x.sizes[-1]]))
    return b.reshape(b.convert(result, x.element), list(x.sizes))


def _network(
    b: Nodes,
    projections: tuple[Projection, Projection, Projection | None],
    count: Size,
    element: Element,
    a: ExpertAttributes,
) -> tuple[Callable[[Tensor, Tensor], Tensor], Matrices]:
    """
    Returns a function and matrices. The function computes the activations of blocks of rows, given
    each block's expert. The matrices multiply the activations.

    FC1 has `count` rows; factors have type `element`.
    """
    first, second, third = projections
    whole, activation = slice(None), _make_activation(b, a)
    if a.activation_type == "swiglu" and a.swiglu_fusion:
        if third is not None or not isinstance(count, int) or count % 2:
            b.refuse(
                f"swiglu_fusion needs an even number of rows in FC1 (now {count}), and no FC3",
                "fuse gates and values in FC1, and leave FC3 out",
            )
        fused = {
            1: (slice(0, None, 2), slice(1, None, 2)),
            2: (slice(0, count // 2), slice(count // 2, None)),
        }
        if a.swiglu_fusion not in fused:
            b.refuse(f"swiglu_fusion is {a.swiglu_fusion}, which is not supported", "use 0, 1 or 2")
        gate, up = map(first, fused[a.swiglu_fusion])
    else:
        if a.activation_type == "swiglu" and third is None:
            b.refuse("swiglu_fusion is 0 and there is no FC3", "give FC3, or fuse FC3 into FC1")
        gate, up = first(whole), None if third is None else third(whole)

    def apply(rows: Tensor, experts: Tensor) -> Tensor:
        gates = gate.multiply(b, rows, experts, element)
        values = [] if up is None else [up.multiply(b, rows, experts, element)]
        return b.elementwise(activation, *values, gates)

    return apply, second(whole)


def _make_activation(b: Nodes, a: ExpertAttributes) -> Callable[..., Number]:
    """Returns a function of (scalars, value, gate): multiplies the value by the activated gate."""

    def swiglu(s: Scalars, gate: Number) -> Number:
        gate = s.minimum(gate, a.swiglu_limit) if a.swiglu_limit < inf else gate
        return gate / (s.exp(gate * -a.activation_alpha) + 1)

    functions: dict[str, Callable[[Scalars, Number], Number]] = {
        "relu": lambda s, gate: s.maximum(gate, 0),
        "gelu": gelu_by_tanh,
        "silu": lambda s, gate: gate / (s.exp(-gate) + 1),
        "swiglu": swiglu,
        "identity": lambda s, gate: gate,
    }
    if a.activation_type not in functions:
        b.refuse(
            f"activation_type is {a.activation_type!r}, which is not supported",
            f"use {', '.join(functions)}",
        )
    function = functions[a.activation_type]
    limit, beta = a.swiglu_limit, a.activation_beta

    def activate(s: Scalars, *numbers: Number) -> Number:
        result = function(s, numbers[-1])
        for value in numbers[:-1]:
            if a.activation_type == "swiglu":
                if limit < inf:
                    value = s.maximum(s.minimum(value, limit), -limit)
                value = value + beta
            result = result * value
        return result

    return activate
