"""
Imports operators of `ai.onnx.ml` on numeric tensors: scalers, linear models and trees.

Inputs are rows of features. Learned numbers are attributes, and become constants.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from xdsl.dialects import math

from xdsl_spirv.frontends.onnx.nodes import Nodes
from xdsl_spirv.frontends.onnx.operators.products import multiply
from xdsl_spirv.frontends.onnx.operators.reductions import maximum_over, minimum_over, summed
from xdsl_spirv.frontends.onnx.reading import Reader
from xdsl_spirv.frontends.onnx.registry import operator
from xdsl_spirv.frontends.onnx.scalars import Number, Scalars
from xdsl_spirv.frontends.onnx.values import F32, I64, Array, Tensor

ML = "ai.onnx.ml"
DEEPEST = 64
"""Maximum depth of a tree, because a kernel has code for each level."""


def apply_standard(b: Nodes, name: str, *inputs: Tensor, **attributes: Any) -> Tensor:
    """Applies a standard ONNX operator, given by name."""
    return b.apply(name, *inputs, opset=18, **attributes)


def floats(values: Sequence[float]) -> Tensor:
    return Tensor.of(np.array(values, np.float32))


@operator("Scaler", domain=ML)
def scaler(
    b: Nodes, x: Tensor, /, *, offset: Sequence[float] = (), scale: Sequence[float] = ()
) -> Tensor:
    shift, factor = floats(offset or [0.0]), floats(scale or [1.0])
    x = b.convert(x, F32)
    return b.elementwise(lambda s, o, f, x: (x - o) * f, shift, factor, x)


@operator("Binarizer", domain=ML)
def binarizer(b: Nodes, x: Tensor, /, *, threshold: float = 0.0) -> Tensor:
    def body(s: Scalars, x: Number) -> Number:
        one, zero = s.number(1, x.element), s.number(0, x.element)
        return s.select(x > s.number(threshold, x.element), one, zero)

    return b.elementwise(body, x)


@operator("Normalizer", domain=ML)
def normalizer(b: Nodes, x: Tensor, /, *, norm: str = "MAX") -> Tensor:
    x, axis = b.convert(x, F32), [x.rank - 1]
    if norm == "MAX":
        size = maximum_over(b, x, axis, True)
    elif norm == "L1":
        size = summed(b, x, axis, of=lambda s, x: s.absolute(x))
    elif norm == "L2":
        squares = summed(b, x, axis, of=lambda s, x: x * x)
        size = b.elementwise(lambda s, x: s.unary(math.SqrtOp, x), squares)
    else:
        b.refuse(f"norm is {norm!r}, which is not supported", "use MAX, L1 or L2")
    return b.elementwise(lambda s, n, x: s.select(n.equals(0.0), x, x / n), size, x)


@operator("ArrayFeatureExtractor", domain=ML)
def array_feature_extractor(b: Nodes, x: Tensor, indices: Tensor, /) -> Tensor:
    flat = apply_standard(b, "Reshape", indices, Tensor.of(np.array([-1])))
    rows = apply_standard(b, "Gather", x, flat, axis=x.rank - 1)
    return apply_standard(b, "Unsqueeze", rows, Tensor.of(np.array([0]))) if x.rank == 1 else rows


# Linear models.


def linear_scores(
    b: Nodes, x: Tensor, coefficients: Sequence[float], intercepts: Sequence[float], count: int
) -> Tensor:
    """Multiplies rows of features by weights, and adds intercepts."""
    weights = np.array(coefficients, np.float32).reshape(count, -1).T
    total = multiply(b, b.convert(x, F32), Tensor.of(np.ascontiguousarray(weights)))
    return b.elementwise(lambda s, i, x: x + i, floats(intercepts or [0.0] * count), total)


def transform_scores(b: Nodes, x: Tensor, post_transform: str) -> Tensor:
    if post_transform == "NONE":
        return x
    if post_transform == "LOGISTIC":
        return apply_standard(b, "Sigmoid", x)
    if post_transform == "SOFTMAX":
        return apply_standard(b, "Softmax", x, axis=-1)
    if post_transform == "SOFTMAX_ZERO":
        return _softmax_of_scores(b, x)
    if post_transform == "PROBIT":
        return b.elementwise(_probit, x)
    names = "use NONE, LOGISTIC, SOFTMAX, SOFTMAX_ZERO or PROBIT"
    b.refuse(f"post_transform is {post_transform!r}, which is not supported", f"use {names}")


def transform_targets(
    b: Nodes, x: Tensor, post_transform: str, agreed: Sequence[str] = ("NONE", "PROBIT")
) -> Tensor:
    """
    Applies the attribute `post_transform` to predictions (rows x targets).

    For rows of one score, only the modes in `agreed` are accepted, because onnxruntime and ONNX's
    reference disagree about the other modes.
    """
    if x.sizes[-1] == 1 and post_transform not in agreed:
        refuse_transform(b, post_transform)
    return transform_scores(b, x, post_transform)


def refuse_transform(b: Nodes, post_transform: str) -> NoReturn:
    b.refuse(
        "for these scores, onnxruntime and ONNX's reference disagree about "
        f"post_transform {post_transform}",
        "use NONE, and an operator after it (Softmax, Sigmoid)",
    )


def _softmax_of_scores(b: Nodes, x: Tensor) -> Tensor:
    """Computes SOFTMAX_ZERO: scores of 0 stay 0; rows of zeros become 0.5."""
    greatest = maximum_over(b, x, [x.rank - 1], True)

    def part(s: Scalars, m: Number, x: Number) -> Number:
        is_zero = s.absolute(x) <= 1e-7
        return s.select(is_zero, x * s.exp(m * -1.0), s.exp(x - m))

    parts = b.elementwise(part, greatest, x)
    total = summed(b, parts, [x.rank - 1])
    half = b.elementwise(
        lambda s, t, x: s.select(t.equals(0.0), s.number(0.5, x.element), x / t), total, parts
    )
    return half


def _probit(s: Scalars, x: Number) -> Number:
    """Computes the inverse normal distribution with Winitzki's formula, as in ONNX's reference."""
    y = x * 2.0 - 1.0
    log = s.unary(math.LogOp, (y * -1.0 + 1.0) * (y + 1.0))
    half = log * 0.5 + 2.0 / (np.pi * 0.147)
    root = s.unary(math.SqrtOp, s.unary(math.SqrtOp, half * half - log / 0.147) - half) * 1.41421356
    return s.select(y < 0.0, root * -1.0, root)


@operator("LinearRegressor", domain=ML)
def linear_regressor(
    b: Nodes,
    x: Tensor,
    /,
    *,
    coefficients: Sequence[float],
    intercepts: Sequence[float] = (),
    post_transform: str = "NONE",
    targets: int = 1,
) -> Tensor:
    return transform_targets(
        b, linear_scores(b, x, coefficients, intercepts, targets), post_transform
    )


def choose_labels(b: Nodes, scores: Tensor, names: Sequence[int], strings: Sequence[str]) -> Tensor:
    """
    Returns the label of the highest score in each row, or of the first highest one. `names` are the
    labels. Refuses labels that are strings.
    """
    if strings:
        b.refuse(
            f"the class labels are strings ({', '.join(strings[:3])}, ...)",
            "convert the labels to numbers: use int64s",
        )
    best = apply_standard(b, "ArgMax", scores, axis=1, keepdims=0)
    return apply_standard(b, "Gather", Tensor.of(np.array(names, np.int64)), best)


@operator("LinearClassifier", domain=ML)
def linear_classifier(
    b: Nodes,
    x: Tensor,
    /,
    *,
    classlabels_ints: Sequence[int] = (),
    classlabels_strings: Sequence[str] = (),
    coefficients: Sequence[float],
    intercepts: Sequence[float] = (),
    multi_class: int = 0,
    post_transform: str = "NONE",
) -> list[Tensor]:
    count = len(classlabels_ints) or len(classlabels_strings)
    if len(intercepts) not in (0, count):
        b.refuse(
            f"there are {len(intercepts)} intercepts for {count} classes",
            "give one intercept for each class",
        )
    scores = linear_scores(b, x, coefficients, intercepts, count)
    labels = choose_labels(b, scores, classlabels_ints, classlabels_strings)
    return [labels, transform_scores(b, scores, post_transform)]


# Trees.

BRANCHES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


@dataclass(frozen=True)
class TreeNodes:
    """ONNX's attributes of the nodes of all trees."""

    nodes_falsenodeids: Sequence[int]
    nodes_featureids: Sequence[int]
    nodes_modes: Sequence[str]
    nodes_nodeids: Sequence[int]
    nodes_treeids: Sequence[int]
    nodes_truenodeids: Sequence[int]
    nodes_values: Sequence[float]
    nodes_hitrates: Sequence[float] = ()
    nodes_missing_value_tracks_true: Sequence[int] = ()

    def places(self) -> dict[tuple[int, int], int]:
        pairs = zip(self.nodes_treeids, self.nodes_nodeids, strict=True)
        return {pair: place for place, pair in enumerate(pairs)}


def _leaves(b: Nodes, x: Tensor, nodes: TreeNodes) -> Tensor:
    """Returns the leaf that each row reaches in each tree."""
    places = nodes.places()
    trees, modes = nodes.nodes_treeids, nodes.nodes_modes
    if unknown := set(modes) - {*BRANCHES, "LEAF"}:
        b.refuse(
            f"a node's mode is {min(unknown)!r}, which is not supported",
            f"use {', '.join(BRANCHES)}",
        )
    kinds = sorted(set(modes) - {"LEAF"})
    inner = [number for number, mode in enumerate(modes) if mode != "LEAF"]
    yes, no = (np.arange(len(modes)) for _ in range(2))
    for n in inner:
        yes[n] = places[trees[n], nodes.nodes_truenodeids[n]]
        no[n] = places[trees[n], nodes.nodes_falsenodeids[n]]
    roots = sorted(set(range(len(modes))) - {*yes[inner].tolist(), *no[inner].tolist()})
    depth, level = 0, set(roots) & set(inner)
    while level:
        depth, level = depth + 1, {int(t[n]) for n in level for t in (yes, no)} & set(inner)
        if depth > DEEPEST:
            b.refuse(f"a tree is deeper than {DEEPEST} branches", "limit its depth")
    missing = nodes.nodes_missing_value_tracks_true or [0] * len(modes)
    chosen = [kinds.index(mode) if mode in kinds else 0 for mode in modes]
    columns = yes, no, nodes.nodes_featureids, missing, chosen
    links = Tensor.of(np.stack([np.array(c, np.int64) for c in columns], 1))
    values = Tensor.of(np.array(nodes.nodes_values, x.element.dtype))
    start = Tensor.of(np.array(roots, np.int64))
    readers = Reader(b, x), Reader(b, links), Reader(b, values)

    def walk(s: Scalars, here: Number) -> Number:
        features, links, values = readers
        row = s.index(0)
        for _ in range(depth):
            then, other, feature, tracks, kind = (
                links.read(s, [here, s.number(column, I64)]) for column in range(5)
            )
            number, value = features.read(s, [row, feature]), values.read(s, [here])
            taken = _is_taken(s, number, value, kinds, kind)
            taken = taken | (s.is_nan(number) & tracks.equals(1))
            here = s.select(taken, then, other)
        return here

    sizes = [x.sizes[0], len(roots)]
    return b.mapped(walk, [(start, [1])], sizes, I64)


def _is_taken(s: Scalars, x: Number, y: Number, kinds: Sequence[str], kind: Number) -> Number:
    """True if a node's comparison holds; `kind` is the index of its mode in `kinds`."""
    tests: dict[str, Number] = dict(
        zip(
            map(str, BRANCHES),
            (x <= y, x < y, x >= y, x > y, x.equals(y), x.differs(y)),
            strict=True,
        )
    )
    taken = tests[kinds[-1]]
    for number, name in enumerate(kinds[:-1]):
        taken = (kind.equals(number) & tests[name]) | (kind.differs(number) & taken)
    return taken


def _tree_scores(
    b: Nodes, x: Tensor, nodes: TreeNodes, given: Mapping[str, Sequence[Any]], count: int, how: str
) -> Tensor:
    """
    Combines the weights of the leaves that each row reaches, over all trees: their sum, average,
    minimum or maximum (`how`).
    """
    leaves = _leaves(b, x, nodes)
    places = nodes.places()
    none = {"MIN": np.inf, "MAX": -np.inf}.get(how, 0.0)
    table = np.full((len(places), count), none, x.element.dtype)
    for tree, node, column, weight in zip(*given.values(), strict=True):
        place = places[tree, node], column
        table[place] = weight + (table[place] if np.isfinite(table[place]) else 0)
    weights = Reader(b, Tensor.of(table))
    sizes = [*leaves.sizes, count]
    parts = b.mapped(
        lambda s, n: weights.read(s, [n, s.index(2)]), [(leaves, [0, 1])], sizes, x.element
    )
    if how in ("MIN", "MAX"):
        found = (minimum_over if how == "MIN" else maximum_over)(b, parts, [1], False)
        # A target without leaves is 0.
        return b.elementwise(
            lambda s, x: s.select(x.equals(none), s.number(0, x.element), x), found
        )
    total = summed(b, parts, [1], keep=False)
    trees = len(set(nodes.nodes_treeids))
    return b.elementwise(lambda s, x: x / trees, total) if how == "AVERAGE" else total


def _plus(b: Nodes, x: Tensor, base_values: Sequence[float]) -> Tensor:
    return b.elementwise(lambda s, i, x: x + i, floats(base_values), x) if base_values else x


@operator("TreeEnsembleRegressor", domain=ML)
def tree_ensemble_regressor(
    b: Nodes,
    x: Tensor,
    /,
    *,
    aggregate_function: str = "SUM",
    base_values: Sequence[float] = (),
    n_targets: int = 1,
    nodes: TreeNodes,
    post_transform: str = "NONE",
    target_ids: Sequence[int],
    target_nodeids: Sequence[int],
    target_treeids: Sequence[int],
    target_weights: Sequence[float],
) -> Tensor:
    given = {"trees": target_treeids, "nodes": target_nodeids, "ids": target_ids}
    weights = {**given, "weights": target_weights}
    scores = _tree_scores(b, b.convert(x, F32), nodes, weights, n_targets, aggregate_function)
    return transform_targets(b, _plus(b, scores, base_values), post_transform)


@operator("TreeEnsembleClassifier", domain=ML)
def tree_ensemble_classifier(
    b: Nodes,
    x: Tensor,
    /,
    *,
    base_values: Sequence[float] = (),
    class_ids: Sequence[int],
    class_nodeids: Sequence[int],
    class_treeids: Sequence[int],
    class_weights: Sequence[float],
    classlabels_int64s: Sequence[int] = (),
    classlabels_strings: Sequence[str] = (),
    nodes: TreeNodes,
    post_transform: str = "NONE",
) -> list[Tensor]:
    count = len(classlabels_int64s) or len(classlabels_strings)
    given = {"trees": class_treeids, "nodes": class_nodeids, "ids": class_ids}
    weights = {**given, "weights": class_weights}
    x = b.convert(x, F32)
    if count == 2 and len(set(class_ids)) == 1:
        if class_ids[0] != 0 or len(base_values) > 1:
            b.refuse("only one of two classes has weights", "give weights of both classes")
        score = _plus(b, _tree_scores(b, x, nodes, weights, 1, "SUM"), base_values)
        scores = _score_both(b, score, min(class_weights), post_transform)
        labels = choose_labels(b, scores, classlabels_int64s, classlabels_strings)
        return [labels, transform_scores(b, scores, post_transform)]
    scores = _plus(b, _tree_scores(b, x, nodes, weights, count, "SUM"), base_values)
    rated = scores
    if not base_values:
        # onnxruntime ignores classes without weights.
        votes = {**given, "weights": [1.0] * len(class_weights)}
        counts = _tree_scores(b, x, nodes, votes, count, "SUM")
        rated = b.elementwise(
            lambda s, n, x: s.select(n > 0.0, x, s.number(F32.least, F32)), counts, scores
        )
    labels = choose_labels(b, rated, classlabels_int64s, classlabels_strings)
    return [labels, transform_scores(b, scores, post_transform)]


def _score_both(b: Nodes, score: Tensor, least: float, post_transform: str) -> Tensor:
    """
    Returns the scores of two classes (rows x 2), computed from `score` (rows x 1).

    Only the first class has weights, but `score` is the score of the second class. If the least
    weight, `least`, is not negative, `score` is a probability.
    """
    if post_transform != ("LOGISTIC" if least < 0 else "NONE"):
        refuse_transform(b, post_transform)
    whole = 0.0 if least < 0 else 1.0
    other = b.elementwise(lambda s, x: x * -1.0 + whole, score)
    return apply_standard(b, "Concat", other, score, axis=1)


AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
"""Names of ONNX's codes of `post_transform`. onnxruntime 1.32 swaps SOFTMAX and LOGISTIC."""


@dataclass(frozen=True)
class Ensemble:
    """Attributes of trees whose leaves are stored separately from the nodes."""

    leaf_targetids: Sequence[int]
    leaf_weights: Array
    nodes_falseleafs: Sequence[int]
    nodes_falsenodeids: Sequence[int]
    nodes_featureids: Sequence[int]
    nodes_modes: Array
    nodes_splits: Array
    nodes_trueleafs: Sequence[int]
    nodes_truenodeids: Sequence[int]
    tree_roots: Sequence[int]
    membership_values: Array | None = None
    nodes_hitrates: Array | None = None
    nodes_missing_value_tracks_true: Sequence[int] = ()

    def sets(self) -> dict[int, list[float]]:
        """Returns the members of the set of each BRANCH_MEMBER node, by node index."""
        members = [n for n, mode in enumerate(self.nodes_modes) if mode == len(BRANCHES)]
        values = [] if self.membership_values is None else self.membership_values.tolist()
        ends = [n for n, value in enumerate(values) if np.isnan(value)]
        starts = [0, *(end + 1 for end in ends)]
        parts = [values[start:end] for start, end in zip(starts, ends, strict=False)]
        return dict(zip(members, parts, strict=True))

    def with_leaves(self) -> tuple[TreeNodes, dict[str, list[Any]]]:
        """
        Converts the trees to the attributes of ONNX's older tree operators. Returns the nodes and
        the leaves' weights.

        A node that tests membership in a set becomes a chain of nodes that compare with one
        member.
        """
        sets, rows, weights = self.sets(), list[tuple[Any, ...]](), list[tuple[Any, ...]]()
        tracks = self.nodes_missing_value_tracks_true or [0] * len(self.nodes_modes)

        def add(tree: int, is_leaf: int, number: int) -> int:
            """Adds a node and its subtree. Returns the node's index in its tree."""
            here = len(rows)
            if is_leaf:
                rows.append((tree, here, "LEAF", 0, 0.0, 0, 0, 0))
                weight = float(self.leaf_weights[number])
                weights.append((tree, here, self.leaf_targetids[number], weight))
                return here
            mode = int(self.nodes_modes[number])
            values = sets.get(number, [self.nodes_splits[number]]) or [np.nan]
            name = "BRANCH_EQ" if number in sets else BRANCHES[mode]
            chain = range(here, here + len(values))
            rows.extend(() for _ in chain)
            yes = add(tree, self.nodes_trueleafs[number], self.nodes_truenodeids[number])
            no = add(tree, self.nodes_falseleafs[number], self.nodes_falsenodeids[number])
            for place, value in zip(chain, values, strict=True):
                other = place + 1 if place + 1 in chain else no
                feature = self.nodes_featureids[number]
                rows[place] = tree, place, name, feature, float(value), yes, other, tracks[number]
            return here

        for tree, root in enumerate(self.tree_roots):
            add(tree, 0, root)
        names = ("treeids", "nodeids", "modes", "featureids", "values", "truenodeids",
                 "falsenodeids", "missing_value_tracks_true")  # fmt: skip
        columns = {
            f"nodes_{n}": list(c) for n, c in zip(names, zip(*rows, strict=True), strict=True)
        }
        given = zip(("trees", "nodes", "ids", "weights"), zip(*weights, strict=True), strict=True)
        return TreeNodes(**columns), {name: list(column) for name, column in given}


@operator("TreeEnsemble", domain=ML)
def tree_ensemble(
    b: Nodes,
    x: Tensor,
    /,
    *,
    aggregate_function: int = 1,
    n_targets: int = 1,
    post_transform: int = 0,
    trees: Ensemble,
) -> Tensor:
    nodes, weights = trees.with_leaves()
    how, transform = AGGREGATES[aggregate_function], TRANSFORMS[post_transform]
    if transform in ("SOFTMAX", "LOGISTIC"):
        refuse_transform(b, transform)
    return transform_targets(b, _tree_scores(b, x, nodes, weights, n_targets, how), transform)
