"""
Builds the graph of a language model as `linalg` on tensors, from tokens to logits.

    x = embedding[token]
    in each block:
        x += output(attend(turn(query(norm(x))), keys, values))
        x += down(silu(gate(norm(x))) * up(norm(x)))
    logits = head(norm(x))

An architecture's declaration selects norms, activation, rotation and experts. Keys and values are
states: new rows are inserted after the past rows, and attention reads all of them. Numbers are
f32, but attention uses the type of the states, and products may have f16 operands.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.dialects import math as scalar_math
from xdsl.dialects.builtin import NameLoc, NoneAttr, StringAttr
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr

from xdsl_spirv.dialects.schedule.symbolic_sizes import Size
from xdsl_spirv.frontends.attention import Scores, attend
from xdsl_spirv.frontends.blocks import FORMATS, BlockFormat, dequantize
from xdsl_spirv.frontends.gguf.caches import CACHES, Cache
from xdsl_spirv.frontends.gguf.experts import mixture
from xdsl_spirv.frontends.gguf.file import File, StoredTensor
from xdsl_spirv.frontends.gguf.parameters import Parameters
from xdsl_spirv.frontends.onnx.building import TensorBuilder
from xdsl_spirv.frontends.onnx.reading import Reader, gather_rows
from xdsl_spirv.frontends.onnx.scalars import Number, Scalars
from xdsl_spirv.frontends.onnx.values import F32, I32, Array, Element, Tensor

PART = 256
"""Number of logits per part of a row. The maximum of each part is computed first."""
STATES = ("k", "v")
"""Names of the states of a block: keys and values."""


def _silu(s: Scalars, up: Number, gate: Number) -> Number:
    return gate / (s.exp(-gate) + 1) * up


def _gelu(s: Scalars, up: Number, gate: Number) -> Number:
    """Computes up * GELU(gate), with the tanh approximation that the models were trained with."""
    inner = (gate * gate * gate * 0.044715 + gate) * math.sqrt(2 / math.pi)
    return (s.unary(scalar_math.TanhOp, inner) + 1) * gate * 0.5 * up


def _clip(s: Scalars, up: Number, gate: Number) -> Number:
    gate, up = s.minimum(gate, 7.0), s.maximum(s.minimum(up, 7.0), -7.0)
    return gate / (s.exp(gate * -1.702) + 1) * (up + 1)


ACTIVATIONS = {"silu": _silu, "gelu": _gelu, "clamped": _clip}
"""Maps the name of an activation to a function of `up` and `gate`."""


@dataclass
class Weights:
    """Converts the tensors of a file to arguments of functions, once for all functions."""

    file: File
    parameters: Parameters
    context: int
    _arrays: dict[str, dict[str, Array]] = field(default_factory=dict[str, dict[str, Array]])
    _angles: dict[bool, dict[str, Array]] = field(default_factory=dict[bool, dict[str, Array]])

    def __contains__(self, name: str) -> bool:
        return name in self.file.tensors

    def format(self, name: str) -> BlockFormat | None:
        """Returns the block format of a matrix, or None if the format has no blocks."""
        return FORMATS.get(self.file.tensors[name].format)

    def arrays(self, name: str) -> Mapping[str, Array]:
        """
        Returns the arrays of a tensor's block fields (planes) by name.

        A format without blocks has one array, named "". Vectors are converted to f32.
        """
        if name not in self._arrays:
            self._arrays[name] = self._made(self.file.tensors[name])
        return self._arrays[name]

    def are_alike(self, names: Sequence[str]) -> bool:
        """True if matrices have one format, no scales, and either all have a bias or none."""
        formats = {self.file.tensors[f"{name}.weight"].format for name in names}
        if any(f"{name}.scale" in self for name in names):
            return False
        return len(formats) == 1 and len({f"{name}.bias" in self for name in names}) == 1

    def joined(self, names: Sequence[str]) -> Mapping[str, Array]:
        """
        Concatenates tensors of one format along their rows. Returns one array per block field.
        """
        whole = "+".join(names)
        if whole not in self._arrays:
            tensors = [self.file.tensors[name] for name in names]
            parts = [self._made(tensor) for tensor in tensors]
            axis = len(tensors[0].shape) - (1 if names[0].endswith(".bias") else 2)
            self._arrays[whole] = {
                plane: np.concatenate([part[plane] for part in parts], axis) for plane in parts[0]
            }
        return self._arrays[whole]

    def _made(self, tensor: StoredTensor) -> dict[str, Array]:
        if tensor.format in FORMATS:
            *outer, _ = tensor.shape
            planes = FORMATS[tensor.format].planes_of(tensor.data, math.prod(outer))
            return {n: plane.reshape(*outer, *plane.shape[1:]) for n, plane in planes.items()}
        array = tensor.numbers()
        return {"": array if array.ndim > 1 else array.astype(np.float32)}

    def angles(self, local: bool) -> Mapping[str, Array]:
        """
        Returns the cosine and sine tables (positions x pairs), for windowed blocks if `local`.
        """
        if local not in self._angles:
            p = self.parameters
            rotation, name = (p.local_rotation, "rope_local") if local else (p.rotation, "rope")
            assert rotation is not None
            tables = rotation.tables(self.context)
            self._angles[local] = {f"{name}.{n}": table for n, table in tables.items()}
        return self._angles[local]


@dataclass
class Step:
    """Builds a function of the model that processes some tokens after the past tokens."""

    b: TensorBuilder
    weights: Weights
    products: Element
    """Element type of the operands of products with weights; sums are f32."""
    tokens: Tensor
    past: Size
    states: dict[str, Tensor]
    """Current values of the states, by name."""
    cache: Cache = CACHES["f16"]
    """Format of stored keys and values."""
    slot: Size = 0
    """Index of this step's text in the states."""
    near: Size | None = None
    """Number of past tokens that the states of windowed blocks hold; None if they hold all."""
    _known: dict[str, Tensor] = field(default_factory=dict[str, Tensor])
    _angles: dict[bool, Sequence[Tensor]] = field(default_factory=dict[bool, Sequence[Tensor]])

    @property
    def parameters(self) -> Parameters:
        return self.weights.parameters

    @property
    def length(self) -> Size:
        """Number of new tokens."""
        return self.tokens.sizes[0]

    def past_in(self, local: bool) -> Size:
        """Returns the number of past tokens in the states; `local` selects windowed blocks."""
        return self.near if local and self.near is not None else self.past

    def count_seen(self, local: bool) -> Size:
        """Returns the number of past and new tokens; `local` selects windowed blocks."""
        return self.past_in(local) + self.length

    def logits(self, of_all: bool) -> Tensor:
        """Returns the logits (tokens x vocabulary) of the last token, or of all tokens."""
        self.at("token_embd")
        x = self.scale(self.embedded(), self.parameters.embedding_scale)
        for block in range(self.parameters.blocks):
            x = self.block(x, block)
        self.at("output")
        if not of_all:
            self.b.insist_natural(self.length - 1)
            x = self.b.part(x, 0, self.length - 1, 1)
        x = self.normalized(x, "output_norm")
        tied = "output.weight" not in self.weights
        x = self.product(x, "output", "token_embd" if tied else "output")
        cap = self.parameters.logit_cap
        if cap:
            x = self.b.elementwise(lambda s, x: s.unary(scalar_math.TanhOp, x / cap) * cap, x)
        return self.scale(x, 1 / self.parameters.logit_divisor)

    def likeliest(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """
        Returns the token (i32) with the highest logit in each row, and the logit. If several tokens
        have the highest logit, returns the first one.

        The maximum of each part of a row is computed first, for parallelism. If the maximum is NaN,
        the last token of the vocabulary is returned, since a following run may use the result as an
        index of the embedding.
        """
        b, rows, count = self.b, logits.sizes[0], self.parameters.vocabulary
        parts = -(-count // PART)
        within = self.constant("tokens_of_part", np.arange(PART, dtype=np.int32))
        source = Reader(b, logits)

        def token_of(s: Scalars, part: Number, inner: Number) -> Number:
            # The last part is padded with the last token.
            return s.minimum(part * PART + inner, count - 1)

        def larger(s: Scalars, inner: Number, most: Number) -> Sequence[Number]:
            token = token_of(s, s.index(1, I32), inner)
            return [s.maximum(most, source.read(s, [s.index(0), token]))]

        start = F32.least, F32
        (highest_of,) = b.accumulate(larger, [start], [(within, [2])], [rows, parts])
        highest = b.reduce(lambda s, x, m: s.maximum(m, x), F32.least, highest_of, [1], keep=False)

        def first(s: Scalars, x: Number, highest: Number, least: Number) -> Sequence[Number]:
            return [s.minimum(least, s.select(x.equals(highest), s.index(1, I32), parts))]

        operands = [(highest_of, [0, 1]), (highest, [0])]
        (part,) = b.accumulate(first, [(parts, I32)], operands, [rows])

        def first_inside(
            s: Scalars, inner: Number, part: Number, highest: Number, least: Number
        ) -> Sequence[Number]:
            token = token_of(s, part, inner)
            mine = source.read(s, [s.index(0), token]).equals(highest)
            return [s.minimum(least, s.select(mine, token, count - 1))]

        operands = [(within, [1]), (part, [0]), (highest, [0])]
        return b.accumulate(first_inside, [(count - 1, I32)], operands, [rows])[0], highest

    def scale(self, x: Tensor, factor: float) -> Tensor:
        return x if factor == 1 else self.b.elementwise(lambda s, x: x * factor, x)

    def at(self, name: str) -> None:
        """Sets the name of the part of the model to which the following operations belong."""
        self.b.location = NameLoc(StringAttr(name), NoneAttr())

    def constant(self, name: str, array: Array) -> Tensor:
        """Makes an array an argument of the function; equal names share an argument."""
        return self._known.setdefault(name, Tensor.of(array, name))

    def planes(self, name: str) -> Mapping[str, Tensor]:
        """Returns the arrays of a tensor's block fields (planes) as arguments of the function."""
        arrays = self.weights.arrays(name).items()
        return {p: self.constant(f"{name}.{p}" if p else name, array) for p, array in arrays}

    def embedded(self) -> Tensor:
        """Returns the rows of the embedding for the tokens."""
        name = "token_embd.weight"
        rows = {p: gather_rows(self.b, t, self.tokens) for p, t in self.planes(name).items()}
        return self.dequantized(rows, self.weights.format(name), F32)

    def dequantized(
        self, planes: Mapping[str, Tensor], format: BlockFormat | None, element: Element
    ) -> Tensor:
        """Dequantizes the arrays of block fields (planes) to a matrix of rows x columns."""
        if format is None:
            return self.b.convert(planes[""], element)
        return dequantize(self.b, format, planes, element)

    def block(self, x: Tensor, number: int) -> Tensor:
        """Appends a transformer block (attention, feed-forward, residuals). Returns its result."""
        name = f"blk.{number}."
        self.at(name + "attn")
        attended = self.attended(self.before(x, name, 0), number)
        x = self.add(x, self.product(attended, name + "attn_output"), name, 0)
        self.at(name + "ffn")
        inner = self.before(x, name, 1)
        mixed = self.parameters.has_experts(number)
        added = mixture(self, inner, name) if mixed else self.network(inner, name)
        return self.add(x, added, name, 1)

    def before(self, x: Tensor, block: str, part: int) -> Tensor:
        """Applies the declared norm to the input of attention (part 0) or feed-forward (part 1)."""
        norm = self.parameters.architecture.before[part]
        return self.normalized(x, block + norm) if norm else x

    def add(self, x: Tensor, y: Tensor, block: str, part: int) -> Tensor:
        """Returns `x` plus the result `y` of attention (part 0) or feed-forward (part 1)."""
        norm = self.parameters.architecture.behind[part]
        y = self.normalized(y, block + norm) if norm else y
        return self.sum(x, self.scale(y, self.parameters.residual_scale))

    def network(self, x: Tensor, block: str, kind: str = "") -> Tensor:
        """Computes down(activation(gate(x)) * up(x)); `kind` is a suffix of the tensors' names."""
        names = (f"gate{kind}", f"up{kind}")
        if self.parameters.architecture.fused and not kind:
            gate, up = self.parts(self.product(x, f"{block}ffn_up"), [self.parameters.hidden] * 2)
        else:
            gate, up = self.together(x, f"{block}ffn_", names)
        return self.product(self.activate(up, gate), f"{block}ffn_down{kind}")

    def activate(self, up: Tensor, gate: Tensor) -> Tensor:
        activation = ACTIVATIONS[self.parameters.architecture.activation]
        return self.b.elementwise(activation, up, gate)

    def sum(self, x: Tensor, y: Tensor) -> Tensor:
        return self.b.elementwise(lambda s, x, y: x + y, x, y)

    def vector(self, name: str) -> Tensor:
        return self.planes(name)[""]

    def normalized(self, x: Tensor, name: str) -> Tensor:
        """Applies an RMS norm with the named weights to the last dimension."""
        count, epsilon = x.sizes[-1], self.parameters.epsilon
        assert isinstance(count, int)
        squares = self.b.reduce(lambda s, x, total: total + x * x, 0, x, [x.rank - 1])
        inverse = self.b.elementwise(
            lambda s, total: s.unary(scalar_math.RsqrtOp, total / count + epsilon), squares
        )
        x = self.b.elementwise(lambda s, r, x: x * r, inverse, x)
        return self.b.elementwise(lambda s, w, x: x * w, self.vector(f"{name}.weight"), x)

    def product(
        self, x: Tensor, name: str, matrix: str | None = None, products: Element | None = None
    ) -> Tensor:
        """Multiplies x by a transposed named matrix, applies its scale, and adds its bias."""
        stored, bias = f"{matrix or name}.weight", f"{name}.bias"
        result = self.multiplied(x, self.planes(stored), self.weights.format(stored), products)
        if (scale := f"{matrix or name}.scale") in self.weights:
            result = self.b.elementwise(lambda s, w, x: x * w, self.vector(scale), result)
        return self.sum(self.vector(bias), result) if bias in self.weights else result

    def multiplied(
        self,
        x: Tensor,
        planes: Mapping[str, Tensor],
        format: BlockFormat | None,
        products: Element | None = None,
    ) -> Tensor:
        """
        Multiplies x by a transposed matrix, stored as one array (plane) per block field.

        The factors have the type `products`, the sums are f32.
        """
        products = products or self.products
        weights = self.dequantized(planes, format, products)
        x, sizes = self.b.convert(x, products), [x.sizes[0], weights.sizes[0]]
        return self.b.contract(x, [0, 2], weights, [1, 2], sizes, 3, F32)

    def together(self, x: Tensor, block: str, names: Sequence[str]) -> list[Tensor]:
        """
        Multiplies x by the named matrices of a block, with one product if all have the same format.
        """
        whole = [f"{block}{name}" for name in names]
        if not self.weights.are_alike(whole):
            return [self.product(x, name) for name in whole]
        planes = self.joined(block, names, "weight")
        result = self.multiplied(x, planes, self.weights.format(f"{whole[0]}.weight"))
        if f"{whole[0]}.bias" in self.weights:
            result = self.sum(self.joined(block, names, "bias")[""], result)
        return self.parts(
            result, [self.weights.file.tensors[f"{name}.weight"].shape[0] for name in whole]
        )

    def joined(self, block: str, names: Sequence[str], kind: str) -> dict[str, Tensor]:
        """Concatenates matrices, or biases (`kind`). Returns one array per block field."""
        arrays = self.weights.joined([f"{block}{name}.{kind}" for name in names])
        called = f"{block}{'_'.join(names)}.{kind}"
        return {p: self.constant(f"{called}{p and '.'}{p}", array) for p, array in arrays.items()}

    def parts(self, x: Tensor, counts: Sequence[int]) -> list[Tensor]:
        """Splits the last dimension into parts of the given sizes."""
        return [
            self.b.part(x, x.rank - 1, sum(counts[:i]), count) for i, count in enumerate(counts)
        ]

    def attended(self, x: Tensor, number: int) -> Tensor:
        """Returns the result of attention in block `number`: tokens x columns of all heads."""
        p, name = self.parameters, f"blk.{number}.attn_"
        if p.architecture.fused:
            q, k, v = self.parts(self.product(x, name + "qkv"), [p.queries, p.keys, p.keys])
        else:
            q, k, v = self.together(x, name, ("q", "k", "v"))
        if p.architecture.normalized == "rows":
            q, k = self.normalized(q, name + "q_norm"), self.normalized(k, name + "k_norm")
        q, k, v = self.heads(q, p.heads), self.heads(k, p.shared), self.heads(v, p.shared)
        if p.architecture.normalized == "heads":
            q, k = self.normalized(q, name + "q_norm"), self.normalized(k, name + "k_norm")
        new = {"k": self.turned(k, number), "v": self.by_heads(v)}
        k, v = (self.remember(part, number, new[part]) for part in STATES)
        scores = Scores(
            p.score_scale,
            F32,
            softcap=p.score_cap,
            sink=self.vector(name + "sinks.weight") if p.architecture.sinks else None,
            guarded=False,
        )
        self.limit(scores, p.pattern[number])
        result = attend(self.b, self.turned(q, number), k, v, scores).result
        by_tokens = self.b.transpose(result, [0, 2, 1, 3])
        return self.b.reshape(by_tokens, [self.length, p.queries])

    def limit(self, scores: Scores, local: bool) -> None:
        """Masks later tokens and, in windowed blocks, tokens before the window."""
        scores.causal = past = self.past_in(local)
        scores.first = past - (self.parameters.window - 1) if local else None

    def heads(self, x: Tensor, count: int) -> Tensor:
        """Reshapes to tokens x heads x head size."""
        return self.b.reshape(x, [self.length, count, self.parameters.head])

    def outer(self, tokens: Size, heads: Size) -> list[Size]:
        """
        Returns the sizes of the loops over heads and tokens, in the order in which states store
        them.
        """
        return [heads, tokens]

    walked = (1, 0)
    """Indices of the token loop and of the head loop in the result of `outer`."""

    def as_texts(self, x: Tensor) -> Tensor:
        """Adds a leading dimension of texts: texts x heads x tokens x elements."""
        return self.b.reshape(x, [1, *x.sizes])

    def by_heads(self, x: Tensor) -> Tensor:
        """Transposes tokens x heads x n to texts x heads x tokens x n, in the type of attention."""
        tokens, heads, size = x.sizes
        turned = self.b.mapped(
            lambda s, x: x.to(self.cache.element),
            [(x, [*self.walked, 2])],
            [*self.outer(tokens, heads), size],
            self.cache.element,
        )
        return self.as_texts(turned)

    def turned(self, x: Tensor, number: int) -> Tensor:
        """
        Transposes like `by_heads`, and rotates pairs of elements by their tokens' positions.

        (x, y) becomes (x cos - y sin, y cos + x sin).
        """
        p, cache = self.parameters, self.cache.element
        period = p.architecture.unturned
        if period and number % period == period - 1:
            return self.by_heads(x)
        tokens, heads, _ = x.sizes
        half = p.turned // 2
        # Loops over the elements of a pair and over the pairs, with their sizes.
        side, pair, sizes = (3, 2, (half, 2)) if p.architecture.neighbours else (2, 3, (2, half))
        part = x if p.turned == p.head else self.b.part(x, 2, 0, p.turned)
        apart = self.b.reshape(part, [tokens, heads, *sizes])
        this: list[int | AffineExpr] = [*self.walked, 2, 3]
        other = list(this)
        other[side] = AffineConstantExpr(1) - AffineDimExpr(side)

        def body(s: Scalars, x: Number, y: Number, cosine: Number, sine: Number) -> Number:
            is_first = s.index(side).equals(0)
            return (x * cosine + y * s.select(is_first, -sine, sine)).to(cache)

        operands = [
            (apart, this),
            (apart, other),
            *((table, [self.walked[0], pair]) for table in self.angles(p.pattern[number])),
        ]
        outer = self.outer(tokens, heads)
        result = self.b.mapped(body, operands, [*outer, *sizes], cache)
        whole = self.as_texts(self.b.reshape(result, [*outer, p.turned]))
        if p.turned == p.head:
            return whole
        rest = self.by_heads(self.b.part(x, 2, p.turned, p.head - p.turned))
        return self.b.concatenate([whole, rest], 3)

    def angles(self, local: bool) -> Sequence[Tensor]:
        """Returns cosines and sines of the tokens' positions; each tensor is tokens x pairs."""
        if local not in self._angles:
            tables = self.weights.angles(local).items()
            self._angles[local] = [self.at_positions(self.constant(n, t)) for n, t in tables]
        return self._angles[local]

    def at_positions(self, table: Tensor) -> Tensor:
        """Gathers the rows of a table at the tokens' positions."""
        return self.b.part(table, 0, self.past, self.length)

    def remember(self, part: str, number: int, new: Tensor) -> Tensor:
        """Stores new keys or values of a block. Returns past and new rows in attention's type."""
        local = self.parameters.pattern[number]
        parts = self.cache.pack(self.b, new)
        rows = {s: self.insert(f"{part}{s}.{number}", rows, local) for s, rows in parts.items()}
        return self.cache.unpack(self.b, rows)

    def insert(self, name: str, new: Tensor, local: bool) -> Tensor:
        """Inserts rows after the past rows of a state. Returns all past and new rows."""
        state, past = self.states[name], self.past_in(local)
        whole = self.b.insert_slice(new, self.b.value(state), [self.slot, 0, past, 0])
        self.states[name] = Tensor(state.element, state.sizes, whole)
        sizes = [1, state.sizes[1], self.count_seen(local), state.sizes[3]]
        return self.b.slice(self.states[name], [self.slot, 0, 0, 0], sizes)
