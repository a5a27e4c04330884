"""
Layers of which each token takes some: a router chooses a token's experts and weights their results.

    few tokens:   each row is a block of its own
    many tokens:  rows are sorted by expert into blocks, each of which has one expert
                    %w[b, n, k] = weights[expert[b], n, k]
                    %r[b, m, n] = sum over k of %x[token[b, m], k] * %w[b, n, k]

The last block of each expert is filled with rows whose results are not read. The products are
contractions with a batch, whose kernels read the weights of a block's expert in place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, ceil_div
from xdsl_spirv.frontends.onnx.building import Map, TensorBuilder
from xdsl_spirv.frontends.onnx.order import first_indices
from xdsl_spirv.frontends.onnx.reading import Reader, written
from xdsl_spirv.frontends.onnx.scalars import Number, Scalars
from xdsl_spirv.frontends.onnx.values import F32, I32, Tensor

if TYPE_CHECKING:
    from xdsl_spirv.frontends.gguf.graph import Step

ROWS = 32
"""Rows of a block: more pay for prompts of thousands of tokens only (benchmarks/model_steps.py)."""
NEAR = 64
"""Tokens that are counted one by one; groups of so many are counted together."""


def mixture(step: Step, x: Tensor, block: str) -> Tensor:
    """The weighted sum of the results of each token's experts, and of the shared one."""
    b, experts = step.b, step.parameters.experts
    assert experts is not None
    logits = step.product(x, block + "ffn_gate_inp", products=F32)
    chosen, weights = _route(step, logits, block)
    tokens, used = chosen.sizes
    assert isinstance(used, int)
    if isinstance(tokens, int) and tokens * used < 2 * experts.count:
        result = _row_by_row(step, x, block, chosen, weights)
    else:
        result = _by_blocks(step, x, block, chosen, weights)
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
    """The numbers of each token's experts, tokens x used, and their weights."""
    b, experts = step.b, step.parameters.experts
    assert experts is not None
    router = experts.router
    scores = logits
    if router.scores == "softmax":
        scores = step.softmax(logits)
    if router.scores == "sigmoid":
        scores = b.elementwise(lambda s, x: 1 / (s.exp(-x) + 1), logits)
    bias = f"{block}exp_probs_b.bias"
    ranked = step.sum(step.vector(bias), scores) if bias in step.weights else scores
    chosen = b.convert(first_indices(b, ranked, experts.used, 1, True), I32)
    source = Reader(b, scores)

    def read(s: Scalars, expert: Number) -> Number:
        return source.read(s, [s.index(0), expert])

    weights = written(b, F32, chosen.sizes, read, [(chosen, [0, 1])])
    if router.scores == "chosen":
        weights = step.softmax(weights)
    elif router.normalized:
        total = b.reduce(lambda s, x, total: total + x, 0, weights, [1])
        # The smallest normal number of f16: llama.cpp divides by no less.
        weights = b.elementwise(lambda s, t, x: x / s.maximum(t, 2.0**-14), total, weights)
    return chosen, step.scale(weights, experts.scale)


# Row by row


def _row_by_row(step: Step, x: Tensor, block: str, chosen: Tensor, weights: Tensor) -> Tensor:
    """The weighted sum of the results of each token's experts: a block of one row for each."""
    b, (tokens, used) = step.b, chosen.sizes
    experts = b.reshape(chosen, [tokens * used])
    own = b.mapped(lambda s, x: x, [(x, [0, 2])], [tokens, used, x.sizes[1]], x.element)
    own = b.reshape(own, [tokens * used, 1, x.sizes[1]])
    down = _network(step, own, experts, block)
    width = down.sizes[2]
    out = (b.fill(0, [tokens, width], F32), F32, [tokens, width], [0, 1])

    def add(s: Scalars, weight: Number, x: Number, total: Number) -> Sequence[Number]:
        return [total + weight * x]

    down = b.reshape(down, [tokens, used, width])
    operands: list[tuple[Tensor, list[int]]] = [(weights, [0, 2]), (down, [0, 2, 1])]
    return b.generic(operands, [out], 3, add, [2])[0]


def _network(step: Step, x: Tensor, experts: Tensor, block: str) -> Tensor:
    """The results of blocks of rows (blocks x rows x columns), each by the expert of its block."""
    gate = _block_product(step, x, experts, block + "ffn_gate_exps")
    up = _block_product(step, x, experts, block + "ffn_up_exps")
    return _block_product(step, step.activate(up, gate), experts, block + "ffn_down_exps")


def _add_bias(step: Step, x: Tensor, experts: Tensor, name: str) -> Tensor:
    """Adds the bias of each block's expert, if the model has biases."""
    if f"{name}.bias" not in step.weights:
        return x
    biases = Reader(step.b, step.vector(f"{name}.bias"))

    def add(s: Scalars, expert: Number, x: Number) -> Number:
        return x + biases.read(s, [expert, s.index(2)])

    return step.b.mapped(add, [(experts, [0]), (x, [0, 1, 2])], x.sizes, F32)


# By blocks


@dataclass(frozen=True)
class Blocks:
    """
    Rows sorted by expert: `experts` is the expert of each block, `tokens` (blocks x rows) the token
    of each row, and `places` (tokens x used) the row of each token and slot, counted through.
    """

    experts: Tensor
    tokens: Tensor
    places: Tensor


def _by_blocks(step: Step, x: Tensor, block: str, chosen: Tensor, weights: Tensor) -> Tensor:
    """The weighted sum of the results of each token's experts."""
    b, experts = step.b, step.parameters.experts
    assert experts is not None
    blocks = _sort_by_expert(step, chosen, experts.count)
    source = Reader(b, b.convert(x, step.products))

    def own(s: Scalars, token: Number) -> Number:
        return source.read(s, [token, s.index(2)])

    sizes = [*blocks.tokens.sizes, x.sizes[1]]
    sorted = written(b, step.products, sizes, own, [(blocks.tokens, [0, 1])])
    results = Reader(b, _network(step, sorted, blocks.experts, block))
    sizes = [chosen.sizes[0], x.sizes[1]]
    out = (b.fill(0, sizes, F32), F32, sizes, [0, 1])

    def add(s: Scalars, weight: Number, place: Number, total: Number) -> Sequence[Number]:
        return [total + weight * results.read(s, [place / ROWS, place % ROWS, s.index(1)])]

    operands: list[tuple[Tensor, list[int]]] = [(weights, [0, 2]), (blocks.places, [0, 2])]
    return b.generic(operands, [out], 3, add, [2])[0]


def _block_product(step: Step, x: Tensor, experts: Tensor, name: str) -> Tensor:
    """Rows of each block times the matrix of its expert: blocks x rows x rows of a matrix."""
    b, stored = step.b, f"{name}.weight"
    planes = {n: _select_parts(b, t, experts) for n, t in step.planes(stored).items()}
    weights = step.dequantized(planes, step.weights.format(stored), step.products)
    x = b.convert(x, step.products)
    sizes = [*x.sizes[:2], weights.sizes[1]]
    result = b.contract(x, [0, 1, 3], weights, [0, 2, 3], sizes, 4, F32)
    return _add_bias(step, result, experts, name)


def _select_parts(b: TensorBuilder, t: Tensor, numbers: Tensor) -> Tensor:
    """The parts of a tensor along its first dimension that have these numbers."""
    source = Reader(b, t)

    def read(s: Scalars, number: Number) -> Number:
        return source.read(s, [number, *(s.index(i) for i in range(1, t.rank))])

    return written(b, t.element, [*numbers.sizes, *t.sizes[1:]], read, [(numbers, [0])])


def _sort_by_expert(step: Step, chosen: Tensor, count: int) -> Blocks:
    """
    Sorts tokens into blocks of `ROWS` rows, each of one of `count` experts.

    `chosen` (tokens x used) has a token's experts, all different.
    A token's place in an expert's rows is how many tokens before it took the expert: as many as
    groups of tokens before its own have, and as many as come before it in its group.
    """
    b, (tokens, used) = step.b, chosen.sizes
    groups = ceil_div(tokens, NEAR)
    offsets = (step.constant("expert_offsets", np.arange(NEAR, dtype=np.int32)), [2])
    takes = _sum(b, [tokens, count], lambda s, x: x.equals(s.index(1, I32)), [(chosen, [0, 2])])
    taken = Reader(b, takes)

    def length(s: Scalars) -> Number:
        return taken.extent(s, 0).to(I32)

    def near(s: Scalars, group: Number, offset: Number, end: Number) -> Number:
        """Whether a token of a group that lies before `end` takes the expert of loop 1."""
        token = group * NEAR + offset
        inside = token < end
        return inside & taken.read(s, [s.select(inside, token, 0), s.index(1)]).differs(0)

    in_groups = _sum(
        b, [groups, count], lambda s, offset: near(s, s.index(0, I32), offset, length(s)), [offsets]
    )
    before_groups = _sum(
        b,
        [groups, count],
        lambda s, x: s.select(s.index(2) < s.index(0), x, 0),
        [(in_groups, [2, 1])],
    )
    in_group = _sum(
        b,
        [tokens, count],
        lambda s, offset: near(s, s.index(0, I32) / NEAR, offset, s.index(0, I32)),
        [offsets],
    )
    before_group = Reader(b, before_groups)

    def add(s: Scalars, x: Number) -> Number:
        return x + before_group.read(s, [s.index(0) / NEAR, s.index(1)])

    before = b.mapped(add, [(in_group, [0, 1])], [tokens, count], I32)
    totals = _sum(b, [count], lambda s, x: x, [(in_groups, [1, 0])])
    lengths = b.elementwise(lambda s, x: (x + (ROWS - 1)) / ROWS, totals)
    ends = _sum(b, [count], lambda s, x: s.select(s.index(1) <= s.index(0), x, 0), [(lengths, [1])])
    starts = b.elementwise(lambda s, end, x: end - x, ends, lengths)
    # Blocks that no expert needs take the last expert.
    others = b.slice(ends, [0], [count - 1], [1])
    blocks = ceil_div(tokens * used, ROWS) + count
    experts = _sum(b, [blocks], lambda s, end: end <= s.index(0, I32), [(others, [1])])
    start, counted = Reader(b, starts), Reader(b, before)

    def place_of(s: Scalars, expert: Number) -> Number:
        return start.read(s, [expert]) * ROWS + counted.read(s, [s.index(0), expert])

    def token_of(s: Scalars, expert: Number) -> Number:
        """The last token before which no more tokens took the expert than rows lie before this."""
        row = (s.index(0, I32) - start.read(s, [expert])) * ROWS + s.index(1, I32)
        token = s.number(0, I32)
        for bit in reversed(range((step.weights.context - 1).bit_length())):
            further = token + (1 << bit)
            inside = further < length(s)
            held = counted.read(s, [s.select(inside, further, 0), expert])
            token = s.select(inside & (held <= row), further, token)
        return token

    order = b.mapped(token_of, [(experts, [0])], [blocks, ROWS], I32)
    return Blocks(experts, order, b.mapped(place_of, [(chosen, [0, 1])], chosen.sizes, I32))


def _sum(
    b: TensorBuilder,
    sizes: Sequence[Size],
    term: Callable[..., Number],
    operands: Sequence[tuple[Tensor, Map]],
) -> Tensor:
    """Sums in i32 over one loop behind the result's loops; a condition counts as 1."""
    last = len(sizes)
    out = (b.fill(0, sizes, I32), I32, sizes, list(range(last)))

    def add(s: Scalars, *numbers: Number) -> Sequence[Number]:
        return [numbers[-1] + term(s, *numbers[:-1]).to(I32)]

    return b.generic(operands, [out], last + 1, add, [last])[0]
