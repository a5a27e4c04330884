"""
Imports RNN, GRU and LSTM as loops over the sequence.

One product multiplies the inputs of all steps by their weights. A step only multiplies the state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from typing import NamedTuple

import numpy as np
from xdsl.dialects import math

from xdsl_spirv.dialects.schedule.symbolic_sizes import Size
from xdsl_spirv.frontends.onnx.dimensions import options_for
from xdsl_spirv.frontends.onnx.nodes import Nodes
from xdsl_spirv.frontends.onnx.operators import elementwise
from xdsl_spirv.frontends.onnx.registry import operator
from xdsl_spirv.frontends.onnx.scalars import Number, Scalars
from xdsl_spirv.frontends.onnx.steps import repeat
from xdsl_spirv.frontends.onnx.values import Tensor

Function = Callable[..., Number]


def total_of(s: Scalars, *numbers: Number) -> Number:
    """Sums numbers from first to last."""
    return reduce(add, numbers)


ACTIVATIONS: dict[str, Function] = {
    name.lower(): body
    for name, body in {
        **elementwise.ACTIVATIONS,
        "Tanh": lambda s, x: s.unary(math.TanhOp, x),
        "Relu": lambda s, x: s.maximum(x, 0),
        "Affine": lambda s, x, *, alpha=1.0, beta=0.0: x * alpha + beta,
        "ScaledTanh": lambda s, x, *, alpha=1.0, beta=1.0: s.unary(math.TanhOp, x * beta) * alpha,
    }.items()
}


def activation(b: Nodes, name: str, alphas: Iterator[float], betas: Iterator[float]) -> Function:
    """
    Returns an activation function by name, in any letter case.

    The function takes its parameters, if it has them, from `alphas` and `betas`.
    """
    if name.lower() not in ACTIVATIONS:
        b.refuse(
            f"the activation {name!r} is not supported", f"use one of {', '.join(ACTIVATIONS)}"
        )
    body = ACTIVATIONS[name.lower()]
    given = {"alpha": alphas, "beta": betas}
    values = {p.name: next(given[p.name], p.default) for p in elementwise.attributes_of(body)}
    return partial(body, **values)


@dataclass(frozen=True, kw_only=True)
class RecurrentAttributes:
    """Attributes of RNN, GRU and LSTM."""

    activation_alpha: Sequence[float] | None = None
    activation_beta: Sequence[float] | None = None
    activations: Sequence[str] | None = None
    clip: float | None = None
    direction: str = "forward"
    hidden_size: int | None = None
    layout: int = 0


class Sequences(NamedTuple):
    """Inputs of RNN, GRU and LSTM: sequences, weights, sequence lengths and initial outputs."""

    x: Tensor
    w: Tensor
    r: Tensor
    bias: Tensor | None = None
    lengths: Tensor | None = None
    initial_h: Tensor | None = None


class Recurrence:
    """The common parts of RNN, GRU and LSTM: directions, gates, steps and sequence lengths."""

    def __init__(
        self,
        b: Nodes,
        sequences: Sequences,
        gates: int,
        defaults: Sequence[str],
        attributes: RecurrentAttributes,
    ):
        x, w, r, bias, lengths, self.initial_h = sequences
        self.b, self.gates = b, gates
        self.clip, self.layout = attributes.clip, attributes.layout
        self.x = b.transpose(x, [1, 0, 2]) if self.layout else x
        self.w, self.r, self.bias, self.lengths = w, r, bias, lengths
        directions = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}
        self.directions = directions[attributes.direction]
        hidden = r.sizes[2]
        if not isinstance(hidden, int):
            remedy = f"give its size: {options_for([hidden])}"
            b.refuse(f"the number of hidden elements is dynamic: {hidden}", remedy)
        self.hidden, self.steps = hidden, self.x.sizes[0]
        self.batch, self.element = self.x.sizes[1], x.element
        names = list(attributes.activations or list(defaults) * len(self.directions))
        alphas = iter(attributes.activation_alpha or ())
        betas = iter(attributes.activation_beta or ())
        self.activations = [activation(b, name, alphas, betas) for name in names]

    def functions(self, direction: int) -> list[Function]:
        count = len(self.activations) // len(self.directions)
        return self.activations[direction * count : (direction + 1) * count]

    def initial(self, t: Tensor | None, direction: int) -> Tensor:
        """Returns the initial state: batch x hidden."""
        sizes = [self.batch, self.hidden]
        if t is None:
            return Tensor(self.element, sizes, self.b.fill(0, sizes, self.element))
        state = self.b.row(self.b.transpose(t, [1, 0, 2]) if self.layout else t, 0, direction)
        for size, wanted in zip(state.sizes, sizes, strict=True):
            self.b.insist_equal(size, wanted)
        return state

    def columns(self, t: Tensor, first: int, count: int = 1) -> Tensor:
        """Slices `count` gates from gate `first` on, in the last dimension."""
        return self.b.part(t, t.rank - 1, first * self.hidden, count * self.hidden)

    def rows(self, t: Tensor, first: int, count: int) -> Tensor:
        """Slices `count` gates from gate `first` on, in the first dimension."""
        return self.b.part(t, 0, first * self.hidden, count * self.hidden)

    def biases(self, direction: int, first: int) -> list[Tensor]:
        """Returns the biases of the gates from `first` on, or an empty list without a bias."""
        if self.bias is None:
            return []
        return [self.columns(self.b.row(self.bias, 0, direction), first, self.gates)]

    def projected(self, direction: int) -> Tensor:
        """Multiplies the inputs of all steps by weights, and adds a bias: steps x batch x gates."""
        w = self.b.row(self.w, 0, direction)
        sizes = [self.steps, self.batch, self.gates * self.hidden]
        product = self.b.contract(self.x, [0, 1, 3], w, [2, 3], sizes, 4)
        return self.b.elementwise(total_of, *self.biases(direction, 0), product)

    def times_state(self, state: Tensor, weights: Tensor) -> Tensor:
        sizes = [self.batch, weights.sizes[0]]
        return self.b.contract(state, [0, 2], weights, [1, 2], sizes, 3)

    def clipped(self, s: Scalars, x: Number) -> Number:
        if self.clip is None:
            return x
        return s.minimum(s.maximum(x, -self.clip), self.clip)

    def run(
        self,
        states: Callable[[int], list[Tensor]],
        step: Callable[[int, Tensor, list[Tensor]], list[Tensor]],
    ) -> list[Tensor]:
        """
        Runs all directions. Returns the outputs of all steps, then the final states.

        `step` takes the direction, the projected input of the step, and the states; the first
        state is the output.
        """
        b, count = self.b, len(self.directions)
        given = [self.projected(direction) for direction in range(count)]
        held = [states(direction) for direction in range(count)]
        sizes = [self.steps, count, self.batch, self.hidden]
        whole = Tensor(self.element, sizes, b.empty(sizes, self.element))

        def one(n: Size, whole: Tensor, *flat: Tensor) -> list[Tensor]:
            states: list[Tensor] = []
            each = len(flat) // count
            for direction, backwards in enumerate(self.directions):
                at = self.steps - 1 - n if backwards else n
                old = list(flat[direction * each : (direction + 1) * each])
                new = step(direction, b.row(given[direction], 0, at), old)
                new, output = self._within(at, new, old)
                states += new
                row = b.reshape(output, [1, 1, *output.sizes])
                value = b.insert_slice(row, b.value(whole), [at, direction, 0, 0])
                whole = Tensor(self.element, sizes, value)
            return [whole, *states]

        def two(n: Size, *carried: Tensor) -> list[Tensor]:
            return one(2 * n + 1, *one(2 * n, *carried))

        # Unrolled by 2, so that the second step can reuse the memory of the first step's states.
        carried = [whole, *(state for states in held for state in states)]
        if isinstance(self.steps, int):
            carried = repeat(b, self.steps // 2, carried, two)
            whole, *flat = one(self.steps - 1, *carried) if self.steps % 2 else carried
        else:
            whole, *flat = repeat(b, self.steps, carried, one)
        each = len(flat) // count
        last = [b.stack(flat[i::each], 0) for i in range(each)]
        if self.layout:
            whole = b.transpose(whole, [2, 0, 1, 3])
            last = [b.transpose(t, [1, 0, 2]) for t in last]
        return [whole, *last]

    def _within(
        self, at: Size, new: list[Tensor], held: list[Tensor]
    ) -> tuple[list[Tensor], Tensor]:
        """
        Returns the states and the output after step `at`, which computed the states `new` from
        `held`.

        A sequence that has ended keeps its states, and its outputs are 0.
        """
        if self.lengths is None:
            return new, new[0]
        lengths = self.b.reshape(self.lengths, [self.batch, 1])
        number = Tensor(lengths.element, (), known=np.array(at, object))

        def kept(s: Scalars, at: Number, length: Number, new: Number, old: Number) -> Number:
            return s.select(length > at, new, old)

        pairs = zip(new, held, strict=True)
        states = [self.b.elementwise(kept, number, lengths, a, c) for a, c in pairs]
        output = self.b.elementwise(
            lambda s, at, length, x: s.select(length > at, x, 0), number, lengths, new[0]
        )
        return states, output


@operator("RNN", since=7)
def rnn(b: Nodes, sequences: Sequences, /, *, attributes: RecurrentAttributes) -> Sequence[Tensor]:
    n = Recurrence(b, sequences, 1, ("Tanh",), attributes)

    def step(direction: int, given: Tensor, held: list[Tensor]) -> list[Tensor]:
        (f,) = n.functions(direction)
        product = n.times_state(held[0], b.row(n.r, 0, direction))
        biases = n.biases(direction, 1)

        def body(s: Scalars, *numbers: Number) -> Number:
            return f(s, n.clipped(s, total_of(s, *numbers)))

        return [b.elementwise(body, *biases, product, given)]

    return n.run(lambda d: [n.initial(n.initial_h, d)], step)


@operator("GRU", since=7)
def gru(
    b: Nodes,
    sequences: Sequences,
    /,
    *,
    attributes: RecurrentAttributes,
    linear_before_reset: int = 0,
) -> Sequence[Tensor]:
    """Imports GRU, with gates in the order z, r, h."""
    n = Recurrence(b, sequences, 3, ("Sigmoid", "Tanh"), attributes)

    def step(direction: int, given: Tensor, held: list[Tensor]) -> list[Tensor]:
        f, g = n.functions(direction)
        state, weights, biases = held[0], b.row(n.r, 0, direction), n.biases(direction, 3)
        # The reset gate scales the state, or a separate product of the state.
        products = n.times_state(state, weights if linear_before_reset else n.rows(weights, 0, 2))

        def gate(number: int, product: Tensor, f: Function) -> Tensor:
            parts = [*(n.columns(t, number) for t in (*biases, given)), product]

            def body(s: Scalars, *numbers: Number) -> Number:
                return f(s, n.clipped(s, total_of(s, *numbers)))

            return b.elementwise(body, *parts)

        update = gate(0, n.columns(products, 0), f)
        reset = gate(1, n.columns(products, 1), f)
        if linear_before_reset:
            last = [n.columns(t, 2) for t in (*biases, products)]
            product = b.elementwise(total_of, *last)
            product = b.elementwise(lambda s, r, x: x * r, reset, product)
            new = b.elementwise(
                lambda s, p, x: g(s, n.clipped(s, x + p)), product, n.columns(given, 2)
            )
        else:
            faded = b.elementwise(lambda s, r, h: h * r, reset, state)
            new = gate(2, n.times_state(faded, n.rows(weights, 2, 1)), g)
        return [b.elementwise(lambda s, z, h, new: new * (1 - z) + h * z, update, state, new)]

    return n.run(lambda d: [n.initial(n.initial_h, d)], step)


@operator("LSTM", since=7)
def lstm(
    b: Nodes,
    sequences: Sequences,
    initial_c: Tensor | None = None,
    peepholes: Tensor | None = None,
    /,
    *,
    attributes: RecurrentAttributes,
    input_forget: int = 0,
) -> Sequence[Tensor]:
    n = Recurrence(b, sequences, 4, ("Sigmoid", "Tanh", "Tanh"), attributes)
    return run_lstm(n, initial_c, peepholes, input_forget)


def run_lstm(
    n: Recurrence,
    initial_c: Tensor | None,
    peepholes: Tensor | None,
    input_forget: int,
) -> list[Tensor]:
    """Returns outputs and final states of an LSTM, with gates in the order i, o, f, c."""
    b = n.b

    def step(direction: int, given: Tensor, held: list[Tensor]) -> list[Tensor]:
        f, g, h = n.functions(direction)
        state, cell = held
        product = n.times_state(state, b.row(n.r, 0, direction))
        total = b.elementwise(total_of, *n.biases(direction, 4), product, given)
        weights = None if peepholes is None else b.row(peepholes, 0, direction)

        def gate(number: int, function: Function, seen: Tensor | None, peephole: int) -> Tensor:
            parts = [n.columns(total, number)]
            if weights is not None and seen is not None:
                own = n.columns(weights, peephole)
                parts = [b.elementwise(lambda s, p, c: c * p, own, seen), *parts]

            def body(s: Scalars, *numbers: Number) -> Number:
                return function(s, n.clipped(s, total_of(s, *numbers)))

            return b.elementwise(body, *parts)

        enters = gate(0, f, cell, 0)
        if input_forget:
            stays = b.elementwise(lambda s, i: 1 - i, enters)
        else:
            stays = gate(2, f, cell, 2)
        new = gate(3, g, None, 0)
        cell = b.elementwise(
            lambda s, stays, cell, enters, new: stays * cell + enters * new,
            stays, cell, enters, new,
        )  # fmt: skip
        leaves = gate(1, f, cell, 1)
        output = b.elementwise(lambda s, o, c: o * h(s, c), leaves, cell)
        return [output, cell]

    return n.run(lambda d: [n.initial(n.initial_h, d), n.initial(initial_c, d)], step)
