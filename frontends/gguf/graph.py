"""
The graph of a language model of the family of llama: `linalg` on tensors, from tokens to logits.

    x = embedding[token]
    in each block:
        x += output(attend(turn(query(norm(x))), keys, values))
        x += down(silu(gate(norm(x))) * up(norm(x)))
    logits = head(norm(x))

Keys and values are states: new ones are inserted behind the past, and all up to them are read.
Numbers are in f32; attention is in the type of the states, and products may take f16.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from xdsl.dialects import math
from xdsl.dialects.builtin import NameLoc, NoneAttr, StringAttr
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr

from xdsl_spirv.dialects.schedule.symbolic_sizes import Size
from xdsl_spirv.frontends.attention import Scores, attend
from xdsl_spirv.frontends.blocks import FORMATS, BlockFormat, dequantize
from xdsl_spirv.frontends.gguf.file import File, StoredTensor
from xdsl_spirv.frontends.gguf.parameters import Parameters
from xdsl_spirv.frontends.onnx.building import TensorBuilder
from xdsl_spirv.frontends.onnx.reading import Reader, written
from xdsl_spirv.frontends.onnx.scalars import Number, Scalars
from xdsl_spirv.frontends.onnx.values import F32, Array, Element, Tensor

STATES = ("k", "v")
"""States of a block: its keys and its values."""


@dataclass
class Weights:
    """The tensors of a file as functions take them, made once for all functions."""

    file: File
    parameters: Parameters
    context: int
    _arrays: dict[str, dict[str, Array]] = field(default_factory=dict[str, dict[str, Array]])

    def __contains__(self, name: str) -> bool:
        return name in self.file.tensors

    def format(self, name: str) -> BlockFormat | None:
        """The format of a matrix in blocks; None without."""
        return FORMATS.get(self.file.tensors[name].format)

    def arrays(self, name: str) -> Mapping[str, Array]:
        """
        A tensor's planes by their names in its format, one called "" where it has no blocks.

        Vectors are made f32; matrices are as they are.
        """
        if name not in self._arrays:
            self._arrays[name] = self._made(self.file.tensors[name])
        return self._arrays[name]

    def are_alike(self, names: Sequence[str]) -> bool:
        """Whether matrices are of one format and none, or each, has a bias: they may be one."""
        formats = {self.file.tensors[f"{name}.weight"].format for name in names}
        return len(formats) == 1 and len({f"{name}.bias" in self for name in names}) == 1

    def joined(self, names: Sequence[str]) -> Mapping[str, Array]:
        """The planes of tensors of one format, their rows one behind the other."""
        whole = "+".join(names)
        if whole not in self._arrays:
            parts = [self._made(self.file.tensors[name]) for name in names]
            self._arrays[whole] = {
                plane: np.concatenate([part[plane] for part in parts]) for plane in parts[0]
            }
        return self._arrays[whole]

    def _made(self, tensor: StoredTensor) -> dict[str, Array]:
        if tensor.format in FORMATS:
            return FORMATS[tensor.format].planes_of(tensor.data, tensor.shape[0])
        array = tensor.numbers()
        return {"": array if array.ndim > 1 else array.astype(np.float32)}

    @cached_property
    def angles(self) -> Mapping[str, Array]:
        """Cosines and sines of positions x pairs."""
        angles = np.arange(self.context)[:, None] * self.parameters.frequencies
        return {"cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32)}


@dataclass
class Step:
    """Function of the model that is being written: it computes some tokens behind the past ones."""

    b: TensorBuilder
    weights: Weights
    products: Element
    """Type of both operands of products with weights; sums are in f32."""
    tokens: Tensor
    past: Size
    states: dict[str, Tensor]
    """By name; replaced by their new values."""
    _known: dict[str, Tensor] = field(default_factory=dict[str, Tensor])

    @property
    def parameters(self) -> Parameters:
        return self.weights.parameters

    @cached_property
    def cache(self) -> Element:
        """The type of keys and values."""
        return self.states["k.0"].element

    @property
    def length(self) -> Size:
        """Number of new tokens."""
        return self.tokens.sizes[0]

    @property
    def seen(self) -> Size:
        """Number of tokens that are attended to: past ones and these."""
        return self.past + self.length

    def logits(self, of_all: bool) -> Tensor:
        """Tokens x vocabulary, of the last token alone or of all."""
        self.at("token_embd")
        x = self.embedded()
        for block in range(self.parameters.blocks):
            x = self.block(x, block)
        self.at("output")
        if not of_all:
            self.b.insist_natural(self.length - 1)
            x = self.b.slice(x, [self.length - 1, 0], [1, self.parameters.width], [1, 1])
        x = self.normalized(x, "output_norm")
        tied = "output.weight" not in self.weights
        return self.product(x, "output", "token_embd" if tied else "output")

    def at(self, name: str) -> None:
        """Names the operations written from here on after a part of the model."""
        self.b.location = NameLoc(StringAttr(name), NoneAttr())

    def constant(self, name: str, array: Array) -> Tensor:
        """An array as an argument of the function, the same whenever it is asked for."""
        return self._known.setdefault(name, Tensor.of(array, name))

    def planes(self, name: str) -> Mapping[str, Tensor]:
        """The planes of packed weights, as `Weights.arrays`."""
        arrays = self.weights.arrays(name).items()
        return {p: self.constant(f"{name}.{p}" if p else name, array) for p, array in arrays}

    def embedded(self) -> Tensor:
        """The rows of the embedding that tokens name."""
        name = "token_embd.weight"
        rows = {plane: self.rows(table) for plane, table in self.planes(name).items()}
        return self.dequantized(rows, self.weights.format(name), F32)

    def dequantized(
        self, planes: Mapping[str, Tensor], format: BlockFormat | None, element: Element
    ) -> Tensor:
        """Rows x columns of planes."""
        if format is None:
            return self.b.convert(planes[""], element)
        return dequantize(self.b, format, planes, element)

    def rows(self, table: Tensor) -> Tensor:
        """A row of a table for each token."""
        source = Reader(self.b, table)

        def body(s: Scalars, token: Number) -> Number:
            return source.read(s, [token, *(s.index(i) for i in range(1, table.rank))])

        return written(
            self.b, table.element, [self.length, *table.sizes[1:]], body, [(self.tokens, [0])]
        )

    def block(self, x: Tensor, number: int) -> Tensor:
        """Appends one block: attention, then its layers, each added to its input."""
        name = f"blk.{number}."
        self.at(name + "attn")
        attended = self.attended(self.normalized(x, name + "attn_norm"), number)
        x = self.sum(x, self.product(attended, name + "attn_output"))
        self.at(name + "ffn")
        inner = self.normalized(x, name + "ffn_norm")
        gate, up = self.together(inner, f"{name}ffn_", ("gate", "up"))
        gated = self.b.elementwise(lambda s, up, g: g / (s.exp(-g) + 1) * up, up, gate)
        return self.sum(x, self.product(gated, name + "ffn_down"))

    def sum(self, x: Tensor, y: Tensor) -> Tensor:
        return self.b.elementwise(lambda s, x, y: x + y, x, y)

    def vector(self, name: str) -> Tensor:
        return self.planes(name)[""]

    def normalized(self, x: Tensor, name: str) -> Tensor:
        """The last dimension by the root of its mean square, times weights."""
        count, epsilon = x.sizes[-1], self.parameters.epsilon
        assert isinstance(count, int)
        squares = self.b.reduce(lambda s, x, total: total + x * x, 0, x, [x.rank - 1])
        inverse = self.b.elementwise(
            lambda s, total: s.unary(math.RsqrtOp, total / count + epsilon), squares
        )
        x = self.b.elementwise(lambda s, r, x: x * r, inverse, x)
        return self.b.elementwise(lambda s, w, x: x * w, self.vector(f"{name}.weight"), x)

    def product(self, x: Tensor, name: str, matrix: str | None = None) -> Tensor:
        """Rows times a matrix, whose rows are the columns of the result; with a bias if it has."""
        stored, bias = f"{matrix or name}.weight", f"{name}.bias"
        result = self.multiplied(x, self.planes(stored), self.weights.format(stored))
        return self.sum(self.vector(bias), result) if bias in self.weights else result

    def multiplied(
        self, x: Tensor, planes: Mapping[str, Tensor], format: BlockFormat | None
    ) -> Tensor:
        """Rows times the rows of a matrix."""
        weights = self.dequantized(planes, format, self.products)
        x, sizes = self.b.convert(x, self.products), [x.sizes[0], weights.sizes[0]]
        return self.b.contract(x, [0, 2], weights, [1, 2], sizes, 3, F32)

    def together(self, x: Tensor, block: str, names: Sequence[str]) -> list[Tensor]:
        """A product with each of several matrices: one with all of them where they are alike."""
        whole = [f"{block}{name}" for name in names]
        if not self.weights.are_alike(whole):
            return [self.product(x, name) for name in whole]
        called = f"{block}{'_'.join(names)}"

        def joined(kind: str) -> dict[str, Tensor]:
            arrays = self.weights.joined([f"{name}.{kind}" for name in whole])
            return {
                plane: self.constant(f"{called}.{kind}{plane and '.'}{plane}", array)
                for plane, array in arrays.items()
            }

        result = self.multiplied(x, joined("weight"), self.weights.format(f"{whole[0]}.weight"))
        if f"{whole[0]}.bias" in self.weights:
            result = self.sum(joined("bias")[""], result)
        parts: list[Tensor] = []
        start = 0
        for name in whole:
            count = self.weights.file.tensors[f"{name}.weight"].shape[0]
            parts.append(self.b.slice(result, [0, start], [x.sizes[0], count], [1, 1]))
            start += count
        return parts

    def attended(self, x: Tensor, number: int) -> Tensor:
        """Returns the attention's result, tokens x columns of all heads."""
        p, name = self.parameters, f"blk.{number}.attn_"
        q, k, v = self.together(x, name, ("q", "k", "v"))
        q, k, v = self.heads(q, p.heads), self.heads(k, p.shared), self.heads(v, p.shared)
        if p.architecture.normalizes_heads:
            q, k = self.normalized(q, name + "q_norm"), self.normalized(k, name + "k_norm")
        new = {"k": self.turned(k), "v": self.by_heads(v)}
        k, v = (self.remembered(f"{part}.{number}", new[part]) for part in STATES)
        scores = Scores(p.head**-0.5, F32, causal=self.past)
        result = attend(self.b, self.turned(q), k, v, scores).result
        by_tokens = self.b.transpose(result, [0, 2, 1, 3])
        return self.b.reshape(by_tokens, [self.length, p.queries])

    def heads(self, x: Tensor, count: int) -> Tensor:
        """Tokens x heads x head size."""
        return self.b.reshape(x, [self.length, count, self.parameters.head])

    def by_heads(self, x: Tensor) -> Tensor:
        """Tokens x heads x some as 1 x heads x tokens x some, in the type of the states."""
        tokens, heads, size = x.sizes
        turned = self.b.mapped(
            lambda s, x: x.to(self.cache),
            [(x, [1, 0, 2])],
            [heads, tokens, size],
            self.cache,
        )
        return self.b.reshape(turned, [1, heads, tokens, size])

    def turned(self, x: Tensor) -> Tensor:
        """
        Returns heads as `by_heads` does, pairs of elements turned by the angles of their tokens'
        positions.

        (x, y) becomes (x cos - y sin, y cos + x sin).
        """
        p, cache = self.parameters, self.cache
        tokens, heads, _ = x.sizes
        half = p.turned // 2
        # The loop that walks the two elements of a pair, the one that walks the pairs, their sizes.
        side, pair, sizes = (3, 2, (half, 2)) if p.architecture.neighbours else (2, 3, (2, half))
        part = x if p.turned == p.head else self.part(x, 0, p.turned)
        apart = self.b.reshape(part, [tokens, heads, *sizes])
        this: list[int | AffineExpr] = [1, 0, 2, 3]
        other = list(this)
        other[side] = AffineConstantExpr(1) - AffineDimExpr(side)

        def body(s: Scalars, x: Number, y: Number, cosine: Number, sine: Number) -> Number:
            is_first = s.index(side).equals(0)
            return (x * cosine + y * s.select(is_first, -sine, sine)).to(cache)

        operands = [(apart, this), (apart, other), *((table, [1, pair]) for table in self.angles)]
        result = self.b.mapped(body, operands, [heads, tokens, *sizes], cache)
        whole = self.b.reshape(result, [1, heads, tokens, p.turned])
        if p.turned == p.head:
            return whole
        rest = self.by_heads(self.part(x, p.turned, p.head - p.turned))
        return self.b.concatenate([whole, rest], 3)

    @cached_property
    def angles(self) -> Sequence[Tensor]:
        """Cosines and sines of the tokens' positions, tokens x pairs."""
        tables = [self.constant(f"rope.{n}", array) for n, array in self.weights.angles.items()]
        sizes = [self.length, self.parameters.turned // 2]
        return [self.b.slice(table, [self.past, 0], sizes, [1, 1]) for table in tables]

    def part(self, x: Tensor, start: int, count: int) -> Tensor:
        """Some elements of each head."""
        return self.b.slice(x, [0, 0, start], [*x.sizes[:2], count], [1, 1, 1])

    def remembered(self, name: str, new: Tensor) -> Tensor:
        """All keys, or values, up to the new ones, which are inserted behind the past."""
        state = self.states[name]
        whole = self.b.insert_slice(new, self.b.value(state), [0, 0, self.past, 0], [1] * 4)
        self.states[name] = Tensor(state.element, state.sizes, whole)
        sizes = [*state.sizes[:2], self.seen, state.sizes[3]]
        return self.b.slice(self.states[name], [0] * 4, sizes, [1] * 4)
