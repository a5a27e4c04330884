"""
Imports optimizers of ONNX's training domain. An optimizer updates several tensors.

Inputs and outputs are grouped: all tensors, all gradients, all accumulators.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import math

from xdsl_spirv.frontends.onnx.nodes import Nodes
from xdsl_spirv.frontends.onnx.registry import operator
from xdsl_spirv.frontends.onnx.scalars import Number, Scalars
from xdsl_spirv.frontends.onnx.values import Tensor

TRAINING = "ai.onnx.preview.training"

Step = Callable[..., Sequence[Number]]
"""
Function that computes new values from learning rate, step count, gradient, further operands, and
old value.
"""


def _step_tensors(
    b: Nodes, rate: Tensor, count: Tensor, tensors: Sequence[Tensor], groups: int, step: Step
) -> list[Tensor]:
    """
    Applies `step` to each tensor. `tensors` consists of `groups` groups of equal length: all
    tensors, all gradients, and so on. Returns new values of all groups except the gradients.
    """
    size = len(tensors) // groups
    results: list[list[Tensor]] = []
    for x, *others in (tensors[i::size] for i in range(size)):
        rest = [b.reshape(rate, []), b.reshape(count, []), *others, x]

        def new(i: int, rest: Sequence[Tensor] = rest) -> Tensor:
            def body(s: Scalars, rate: Number, count: Number, *numbers: Number) -> Number:
                *given, x = numbers
                return step(s, rate.to(x.element), count.to(x.element), x, *given)[i]

            return b.elementwise(body, *rest)

        results.append([new(i) for i in range(groups - 1)])
    return [t for group in zip(*results, strict=True) for t in group]


@operator("Momentum", domain=TRAINING)
def momentum(
    b: Nodes,
    rate: Tensor,
    count: Tensor,
    /,
    *tensors: Tensor,
    alpha: float,
    beta: float,
    mode: str,
    norm_coefficient: float,
) -> list[Tensor]:
    if mode not in ("standard", "nesterov"):
        b.refuse(f"mode is {mode!r}, which is not supported", "use 'standard' or 'nesterov'")

    def step(s: Scalars, r: Number, t: Number, x: Number, g: Number, v: Number) -> list[Number]:
        gradient = x * norm_coefficient + g
        new = v * alpha + s.select(t > 0, s.number(beta, x.element), 1) * gradient
        direction = gradient + new * alpha if mode == "nesterov" else new
        return [x - r * direction, new]

    return _step_tensors(b, rate, count, tensors, 3, step)


@operator("Adagrad", domain=TRAINING)
def adagrad(
    b: Nodes,
    rate: Tensor,
    count: Tensor,
    /,
    *tensors: Tensor,
    decay_factor: float = 0.0,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
) -> list[Tensor]:
    def step(s: Scalars, r: Number, t: Number, x: Number, g: Number, h: Number) -> list[Number]:
        gradient = x * norm_coefficient + g
        new = h + gradient * gradient
        slowed = r / (1 + t * decay_factor)
        return [x - slowed * gradient / (s.unary(math.SqrtOp, new) + epsilon), new]

    return _step_tensors(b, rate, count, tensors, 3, step)


@operator("Adam", domain=TRAINING)
def adam(
    b: Nodes,
    rate: Tensor,
    count: Tensor,
    /,
    *tensors: Tensor,
    alpha: float = 0.9,
    beta: float = 0.999,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
    norm_coefficient_post: float = 0.0,
) -> list[Tensor]:
    def step(
        s: Scalars, r: Number, t: Number, x: Number, g: Number, v: Number, h: Number
    ) -> list[Number]:
        def power(base: float) -> Number:
            return s.binary(math.PowFOp, math.PowFOp, s.number(base, x.element), t)

        gradient = x * norm_coefficient + g
        velocity = v * alpha + gradient * (1 - alpha)
        square = h * beta + gradient * gradient * (1 - beta)
        adjusted = r * s.unary(math.SqrtOp, 1 - power(beta)) / (1 - power(alpha))
        pace = s.select(t > 0, adjusted, r)
        new = x - pace * velocity / (s.unary(math.SqrtOp, square) + epsilon)
        return [new * (1 - norm_coefficient_post), velocity, square]

    return _step_tensors(b, rate, count, tensors, 4, step)
