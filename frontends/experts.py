"""
Builds mixture-of-experts layers: a router chooses experts for each token and weights their
results.

    few tokens:   one product per token and expert
    many tokens:  rows are sorted by expert into blocks with one expert each
                    %w[b, n, k] = weights[expert[b], n, k]
                    %r[b, m, n] = sum over k of %x[token[b, m], k] * %w[b, n, k]

The last block of each expert is padded with rows whose results are not used. The products are
batched contractions, whose kernels read the weights of a block's expert in place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, ceil_div
from xdsl_spirv.frontends.blocks import BlockFormat, dequantize
from xdsl_spirv.frontends.onnx.building import TensorBuilder
from xdsl_spirv.frontends.onnx.dimensions import Map
from xdsl_spirv.frontends.onnx.order import first_indices
from xdsl_spirv.frontends.onnx.order import ranks as ranks_of
from xdsl_spirv.frontends.onnx.reading import Reader, gather_rows
from xdsl_spirv.frontends.onnx.scalars import Number, Scalars
from xdsl_spirv.frontends.onnx.values import F32, I32, Array, Element, Tensor

ROWS = 32
"""
Number of token rows in a block. Larger blocks are faster only for thousands of tokens
(benchmarks/model_steps.py).
"""
NEAR = 64
"""Group size for counting tokens: tokens are counted within groups, then the counts are added."""


@dataclass(frozen=True)
class Matrices:
    """
    One matrix (rows x columns) per expert, as planes (one array per field) of a block format.

    Without a format, the plane "" holds the elements. `bias` is experts x rows.
    """

    planes: Mapping[str, Tensor]
    format: BlockFormat | None
    bias: Tensor | None = None

    def multiply(self, b: TensorBuilder, x: Tensor, experts: Tensor, element: Element) -> Tensor:
        """
        Multiplies each row by the matrix of an expert, and adds the bias. The result is f32.

        - `experts` has an expert per block: `x` is blocks x rows x columns, the result blocks x
          rows x matrix rows.
        - `experts` is tokens x used: `x` is tokens x columns, the result tokens x used x matrix
          rows.

        Factors have type `element` for blocks, and f32 for single rows.
        """
        by_token = experts.rank == 2
        element = F32 if by_token else element
        x, weights = b.convert(x, element), self._choose(b, experts, element, ())
        sizes = [*experts.sizes, *x.sizes[1:-1], weights.sizes[-2]]
        own, theirs = ([0, 3], [0, 1, 2, 3]) if by_token else ([0, 1, 3], [0, 2, 3])
        result = b.contract(x, own, weights, theirs, sizes, 4, F32)
        if self.bias is None:
            return result
        biases = Reader(b, b.convert(self.bias, F32))

        def add(s: Scalars, expert: Number, x: Number) -> Number:
            return x + biases.read(s, [expert, s.index(2)])

        operands = [(experts, range(experts.rank)), (result, [0, 1, 2])]
        return b.mapped(add, operands, result.sizes, F32)

    def add_up(self, b: TensorBuilder, x: Tensor, experts: Tensor, weights: Tensor) -> Tensor:
        """
        Returns the weighted sums of the results of each token's experts: tokens x matrix rows, f32.

        `x` is tokens x used x columns; `experts` and `weights` are tokens x used. One product sums
        over experts and columns.
        """

        def scale(s: Scalars, weight: Number, x: Number) -> Number:
            return x.to(F32) * weight.to(F32)

        x = b.mapped(scale, [(weights, [0, 1]), (x, [0, 1, 2])], x.sizes, F32)
        matrices = self._choose(b, experts, F32, (0, 2, 1, 3))
        sizes = list(matrices.sizes[:2])
        result = b.contract(x, [0, 2, 3], matrices, [0, 1, 2, 3], sizes, 4, F32)
        if self.bias is None:
            return result
        biases = Reader(b, b.convert(self.bias, F32))

        def add(s: Scalars, weight: Number, expert: Number, total: Number) -> Sequence[Number]:
            return [total + weight.to(F32) * biases.read(s, [expert, s.index(1)])]

        added = b.accumulate(add, [(0, F32)], [(weights, [0, 2]), (experts, [0, 2])], sizes)[0]
        return b.elementwise(lambda s, x, y: x + y, added, result)

    def _choose(
        self, b: TensorBuilder, experts: Tensor, element: Element, order: tuple[int, ...]
    ) -> Tensor:
        """
        Returns the matrices of the experts: dimensions of `experts`, rows, columns.

        `order` has the place of each dimension (see `dequantize`).
        """
        planes = {name: gather_rows(b, plane, experts) for name, plane in self.planes.items()}
        if self.format is not None:
            return dequantize(b, self.format, planes, element, order=order)
        # The gathered elements are stored in their own type, and converted where they are read.
        matrices = b.transpose(planes[""], order) if order else planes[""]
        return b.convert(matrices, element)


def choose_experts(
    b: TensorBuilder, ranked: Tensor, scores: Tensor, used: int
) -> tuple[Tensor, Tensor]:
    """
    Returns indices (i32) and scores of each token's experts; each tensor is tokens x used.

    The experts with the largest values in `ranked` (tokens x experts) are chosen.
    """
    chosen = b.convert(first_indices(b, ranked, used, 1, True), I32)
    source = Reader(b, scores)

    def read(s: Scalars, expert: Number) -> Number:
        return source.read(s, [s.index(0), expert])

    return chosen, b.mapped(read, [(chosen, [0, 1])], chosen.sizes, scores.element)


def choose_by_softmax(b: TensorBuilder, logits: Tensor, used: int) -> tuple[Tensor, Tensor]:
    """
    Returns indices (i32) of each token's experts, and the softmax over the logits of these experts.

    The experts with the largest logits (tokens x experts) are chosen. All sums of a chosen expert
    go over all experts, so that one kernel computes them.
    """
    ranks = ranks_of(b, logits, 1, True)
    operands: list[tuple[Tensor, list[int]]] = [(ranks, [0, 2]), (logits, [0, 2])]
    sizes = [logits.sizes[0], used]

    def greatest(s: Scalars, x: Number, most: Number) -> Sequence[Number]:
        return [s.maximum(most, x)]

    (most,) = b.accumulate(greatest, [(F32.least, F32)], operands[1:], sizes)

    def add(s: Scalars, rank: Number, x: Number, most: Number, *sums: Number) -> Sequence[Number]:
        own, power = rank.equals(s.index(1, I32)), s.exp(x - most)
        number, mine, total = sums
        return [
            number + s.select(own, s.index(2, I32), 0),
            mine + s.select(own, power, 0),
            total + s.select(rank < used, power, 0),
        ]

    starts: list[tuple[float, Element]] = [(0, I32), (0, F32), (0, F32)]
    chosen, own, total = b.accumulate(add, starts, [*operands, (most, [0, 1])], sizes)
    return chosen, b.elementwise(lambda s, t, x: x / t, total, own)


def normalize_weights(b: TensorBuilder, weights: Tensor, least: float) -> Tensor:
    """Divides the weights of a token's experts by their sum, which is at least `least`."""
    total = b.reduce(lambda s, x, total: total + x, 0, weights, [1])
    return b.elementwise(lambda s, t, x: x / s.maximum(t, least), total, weights)


@dataclass(frozen=True)
class Mixture:
    """
    The experts chosen for each token, and the network of the experts.

    `chosen` (tokens x used) holds distinct indices of experts. `weights` holds the factors of the
    experts' results. `hidden` computes the hidden layer, given blocks of rows and each block's
    expert. `down` has the matrices that multiply the hidden layer. There are `count` experts and at
    most `most` tokens. `constant` makes a named constant. Rows have type `element` in memory.
    """

    b: TensorBuilder
    chosen: Tensor
    weights: Tensor
    count: int
    hidden: Callable[[Tensor, Tensor], Tensor]
    down: Matrices
    element: Element
    most: int
    constant: Callable[[str, Array], Tensor]

    def apply(self, x: Tensor) -> Tensor:
        """Returns the weighted sum of the results of each token's experts."""
        tokens, used = self.chosen.sizes
        assert isinstance(used, int)
        if isinstance(tokens, int) and tokens * used < 2 * self.count:
            return self._row_by_row(x)
        return self._by_blocks(x)

    def _row_by_row(self, x: Tensor) -> Tensor:
        """Computes the layer with one product per token and expert."""
        hidden = self.hidden(x, self.chosen)
        return self.down.add_up(self.b, hidden, self.chosen, self.weights)

    def _by_blocks(self, x: Tensor) -> Tensor:
        """Computes the layer with blocks of rows that are sorted by expert."""
        b, chosen, blocks = self.b, self.chosen, self._sort_by_expert()
        source = Reader(b, b.convert(x, self.element))

        def own(s: Scalars, token: Number) -> Number:
            return source.read(s, [token, s.index(2)])

        sizes = [*blocks.tokens.sizes, x.sizes[1]]
        sorted = b.mapped(own, [(blocks.tokens, [0, 1])], sizes, self.element)
        hidden = self.hidden(sorted, blocks.experts)
        results = Reader(b, self.down.multiply(b, hidden, blocks.experts, self.element))

        def add(s: Scalars, weight: Number, place: Number, total: Number) -> Sequence[Number]:
            return [total + weight * results.read(s, [place / ROWS, place % ROWS, s.index(1)])]

        operands: list[tuple[Tensor, list[int]]] = [(self.weights, [0, 2]), (blocks.places, [0, 2])]
        return b.accumulate(add, [(0, F32)], operands, [chosen.sizes[0], x.sizes[1]])[0]

    def _sort_by_expert(self) -> Blocks:
        """
        Sorts tokens into blocks of `ROWS` rows with one expert each.

        The position of a token among an expert's rows is the number of earlier tokens that chose
        the expert, counted by group and within the token's group.
        """
        b, chosen, count = self.b, self.chosen, self.count
        tokens, used = chosen.sizes
        groups = ceil_div(tokens, NEAR)
        offsets = (self.constant("expert_offsets", np.arange(NEAR, dtype=np.int32)), [2])
        takes = _sum(b, [tokens, count], lambda s, x: x.equals(s.index(1, I32)), [(chosen, [0, 2])])
        taken = Reader(b, takes)

        def length(s: Scalars) -> Number:
            return taken.extent(s, 0).to(I32)

        def near(s: Scalars, group: Number, offset: Number, end: Number) -> Number:
            """True if token `offset` of the group is below `end` and chose the loop's expert."""
            token = group * NEAR + offset
            inside = token < end
            return inside & taken.read(s, [s.select(inside, token, 0), s.index(1)]).differs(0)

        in_groups = _sum(
            b,
            [groups, count],
            lambda s, offset: near(s, s.index(0, I32), offset, length(s)),
            [offsets],
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
        ends = _sum(
            b, [count], lambda s, x: s.select(s.index(1) <= s.index(0), x, 0), [(lengths, [1])]
        )
        starts = b.elementwise(lambda s, end, x: end - x, ends, lengths)
        # Unused blocks belong to the last expert.
        others = b.slice(ends, [0], [count - 1], [1])
        blocks = ceil_div(tokens * used, ROWS) + count
        experts = _sum(b, [blocks], lambda s, end: end <= s.index(0, I32), [(others, [1])])
        start, counted = Reader(b, starts), Reader(b, before)

        def place_of(s: Scalars, expert: Number) -> Number:
            return start.read(s, [expert]) * ROWS + counted.read(s, [s.index(0), expert])

        def token_of(s: Scalars, expert: Number) -> Number:
            """Finds the token at index `row` among the expert's tokens, by binary search."""
            row = (s.index(0, I32) - start.read(s, [expert])) * ROWS + s.index(1, I32)
            token = s.number(0, I32)
            for bit in reversed(range((self.most - 1).bit_length())):
                further = token + (1 << bit)
                inside = further < length(s)
                held = counted.read(s, [s.select(inside, further, 0), expert])
                token = s.select(inside & (held <= row), further, token)
            return token

        order = b.mapped(token_of, [(experts, [0])], [blocks, ROWS], I32)
        return Blocks(experts, order, b.mapped(place_of, [(chosen, [0, 1])], chosen.sizes, I32))


@dataclass(frozen=True)
class Blocks:
    """
    Rows sorted by expert into blocks.

    `experts` is the expert of each block, `tokens` (blocks x rows) the token of each row, and
    `places` (tokens x used) the row index of each token's result, counted over all blocks.
    """

    experts: Tensor
    tokens: Tensor
    places: Tensor


def _sum(
    b: TensorBuilder,
    sizes: Sequence[Size],
    term: Callable[..., Number],
    operands: Sequence[tuple[Tensor, Map]],
) -> Tensor:
    """Sums `term` over an additional innermost loop. Returns a tensor of i32. True counts as 1."""

    def add(s: Scalars, *numbers: Number) -> Sequence[Number]:
        return [numbers[-1] + term(s, *numbers[:-1]).to(I32)]

    return b.accumulate(add, [(0, I32)], operands, sizes)[0]
