"""Imports support vector machines of `ai.onnx.ml`: regressors and classifiers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xdsl_spirv.frontends.onnx.nodes import Nodes
from xdsl_spirv.frontends.onnx.operators.classical import (
    ML,
    apply_standard,
    choose_labels,
    floats,
    linear_scores,
    refuse_transform,
    transform_scores,
    transform_targets,
)
from xdsl_spirv.frontends.onnx.operators.products import multiply
from xdsl_spirv.frontends.onnx.operators.reductions import maximum_over, summed
from xdsl_spirv.frontends.onnx.registry import operator
from xdsl_spirv.frontends.onnx.scalars import Number, Scalars
from xdsl_spirv.frontends.onnx.steps import repeat
from xdsl_spirv.frontends.onnx.values import F32, Array, Tensor


@dataclass(frozen=True)
class SupportVectors:
    """ONNX's attributes of the kernel of a support vector machine."""

    coefficients: Sequence[float]
    kernel_params: Sequence[float] = ()
    kernel_type: str = "LINEAR"
    rho: Sequence[float] = ()
    support_vectors: Sequence[float] = ()

    def similarities(self, b: Nodes, x: Tensor, count: int) -> Tensor:
        """
        Returns the kernel values of each row and `count` support vectors, or the rows if there are
        no vectors.
        """
        x = b.convert(x, F32)
        gamma, offset, degree = self.kernel_params or (0.0, 0.0, 0.0)
        vectors = np.array(self.support_vectors, np.float32).reshape(count, -1) if count else None
        return (
            x
            if vectors is None
            else _kernel(b, x, vectors, self.kernel_type, gamma, offset, degree)
        )


@operator("SVMRegressor", domain=ML)
def svm_regressor(
    b: Nodes,
    x: Tensor,
    /,
    *,
    machine: SupportVectors,
    n_supports: int = 0,
    one_class: int = 0,
    post_transform: str = "NONE",
) -> Tensor:
    near = machine.similarities(b, x, n_supports)
    total = linear_scores(b, near, machine.coefficients, machine.rho[:1], 1)
    if one_class:
        total = b.elementwise(
            lambda s, x: s.select(x > 0.0, s.number(1, F32), s.number(-1, F32)), total
        )
    return transform_targets(b, total, post_transform, ("NONE",))


def _kernel(
    b: Nodes, x: Tensor, vectors: Array, kind: str, gamma: float, offset: float, degree: float
) -> Tensor:
    """Returns the kernel value of each row and each support vector."""
    product = multiply(b, x, Tensor.of(np.ascontiguousarray(vectors.T)))
    if kind == "LINEAR":
        return product
    if kind == "RBF":
        rows = summed(b, x, [1], of=lambda s, x: x * x)
        lengths = floats((vectors**2).sum(1))
        return b.elementwise(
            lambda s, r, v, p: s.exp((r + v - p * 2.0) * -gamma), rows, lengths, product
        )
    moved = b.elementwise(lambda s, p: p * gamma + offset, product)
    if kind == "SIGMOID":
        return apply_standard(b, "Tanh", moved)
    return apply_standard(b, "Pow", moved, Tensor.of(np.array(degree, np.float32)))


@operator("SVMClassifier", domain=ML)
def svm_classifier(
    b: Nodes,
    x: Tensor,
    /,
    *,
    classlabels_ints: Sequence[int] = (),
    classlabels_strings: Sequence[str] = (),
    machine: SupportVectors,
    post_transform: str = "NONE",
    prob_a: Sequence[float] = (),
    prob_b: Sequence[float] = (),
    vectors_per_class: Sequence[int] = (),
) -> list[Tensor]:
    """
    Imports SVMClassifier: each pair of classes is decided by a sum over kernel values, and the
    class with most wins is chosen.

    With `prob_a` the scores are probabilities. Without support vectors, the scores of classes are
    linear.
    """
    classes = len(classlabels_ints) or len(classlabels_strings)
    near = machine.similarities(b, x, sum(vectors_per_class))
    if not vectors_per_class:
        if prob_a:
            b.refuse(
                "the node has prob_a, but no support vectors",
                "leave out prob_a and prob_b",
            )
        if classes == 2:
            b.refuse(
                "the classifier has two classes and no support vectors: onnxruntime and ONNX's "
                "reference then choose different labels",
                "use a LinearClassifier",
            )
        scores = linear_scores(b, near, machine.coefficients, [*machine.rho[:1]] * classes, classes)
        return [
            choose_labels(b, scores, classlabels_ints, classlabels_strings),
            transform_scores(b, scores, post_transform),
        ]
    weights, wins = _pairs(machine.coefficients, vectors_per_class)
    scores = linear_scores(b, near, weights.ravel().tolist(), machine.rho, len(weights))
    won = b.elementwise(lambda s, x: s.select(x > 0.0, s.number(1, F32), s.number(-1, F32)), scores)
    votes = multiply(b, won, Tensor.of(wins))
    labels = choose_labels(b, votes, classlabels_ints, classlabels_strings)
    if prob_a:
        # The probability of the first class of each pair is a fitted sigmoid.
        won = b.elementwise(
            lambda s, by, to, x: 1.0 / (s.exp(x * by + to) + 1.0),
            *(floats(prob_a), floats(prob_b), scores),
        )
        return [labels, transform_scores(b, _couple_pairs(b, won, classes), post_transform)]
    if len(weights) == 1:
        if post_transform not in ("NONE", "LOGISTIC"):
            refuse_transform(b, post_transform)
        both = multiply(b, scores, Tensor.of(np.array([[-1, 1]], np.float32)))
        return [labels, transform_scores(b, both, post_transform)]
    return [labels, transform_scores(b, scores, post_transform)]


def _pairs(coefficients: Sequence[float], sizes: Sequence[int]) -> tuple[Array, Array]:
    """Returns weights (pairs of classes x vectors) and winners (pairs x classes; 1 or -1)."""
    ends = np.cumsum(sizes)
    parts = [slice(end - size, end) for size, end in zip(sizes, ends, strict=True)]
    given = np.array(coefficients, np.float32).reshape(len(sizes) - 1, -1)
    pairs = [(i, j) for i in range(len(sizes)) for j in range(i + 1, len(sizes))]
    weights = np.zeros((len(pairs), given.shape[1]), np.float32)
    wins = np.zeros((len(pairs), len(sizes)), np.float32)
    for number, (i, j) in enumerate(pairs):
        weights[number, parts[i]], weights[number, parts[j]] = (
            given[j - 1, parts[i]],
            given[i, parts[j]],
        )
        wins[number, [i, j]] = 1, -1
    return weights, wins


COUPLED = 100
"""Maximum number of iterations for class probabilities, as in libsvm's `multiclass_probability`."""


def _couple_pairs(b: Nodes, pairs: Tensor, classes: int) -> Tensor:
    """Converts probabilities of pairs to probabilities of classes (Wu, Lin and Weng, 2004)."""
    rows = pairs.sizes[0]
    square = [(i, j) for i in range(classes) for j in range(classes)]
    numbers = {pair: n for n, pair in enumerate((i, j) for i, j in square if i < j)}
    columns = np.array([numbers.get((min(p), max(p)), 0) for p in square], np.int64)
    sign = np.array([np.sign(j - i) for i, j in square], np.float32)

    def won(s: Scalars, sign: Number, x: Number) -> Number:
        x = s.select(x > 1e-7, x, s.number(1e-7, F32))
        x = s.select(x > 1 - 1e-7, s.number(1 - 1e-7, F32), x)
        return s.select(sign.equals(0.0), sign, s.select(sign > 0.0, x, x * -1.0 + 1.0))

    taken = apply_standard(b, "Gather", pairs, Tensor.of(columns), axis=1)
    r = b.reshape(b.elementwise(won, Tensor.of(sign), taken), [rows, classes, classes])
    turned = apply_standard(b, "Transpose", r, perm=[0, 2, 1])
    own = summed(b, turned, [2], of=lambda s, x: x * x)
    eye = np.eye(classes, dtype=np.float32)
    q = b.elementwise(lambda s, e, o, x, y: e * o - x * y, Tensor.of(eye), own, r, turned)

    def column(t: Tensor, number: int) -> Tensor:
        return apply_standard(b, "Gather", t, Tensor.of(np.array([number])), axis=t.rank - 1)

    def one(_: Any, p: Tensor) -> list[Tensor]:
        start = p
        flat = b.reshape(p, [rows, 1, classes])
        product = b.elementwise(lambda s, q, p: q * p, q, flat)
        ahead = b.reshape(summed(b, product, [2]), [rows, classes])
        whole = summed(b, b.elementwise(lambda s, x, y: x * y, p, ahead), [1])
        gap = b.elementwise(lambda s, w, x: s.absolute(x - w), whole, ahead)
        furthest = maximum_over(b, gap, [1], True)
        for number in range(classes):
            line = b.reshape(column(q, number), [rows, classes])
            middle, value = column(line, number), column(ahead, number)
            step = b.elementwise(lambda s, w, x, q: (w - x) / q, whole, value, middle)
            whole = b.elementwise(
                lambda s, d, q, x, w: (w + d * (d * q + x * 2.0)) / (d + 1.0) / (d + 1.0),
                *(step, middle, value, whole),
            )
            ahead = b.elementwise(lambda s, d, q, x: (x + d * q) / (d + 1.0), step, line, ahead)
            hot = Tensor.of(eye[[number]])
            p = b.elementwise(lambda s, e, d, p: (p + d * e) / (d + 1.0), hot, step, p)
        return [
            b.elementwise(
                lambda s, f, old, new: s.select(f < 0.005 / classes, old, new), furthest, start, p
            )
        ]

    even = b.elementwise(lambda s, x: s.number(1 / classes, F32), b.reshape(own, [rows, classes]))
    return repeat(b, COUPLED, [even], one)[0]
