"""Random models with operators of `ai.onnx.ml` give onnxruntime's results."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from xdsl_spirv.compare.onnxruntime import has_onnxruntime, run_onnxruntime
from xdsl_spirv.compiler.model import compile_model, run_reference
from xdsl_spirv.frontends import FrontendError, import_onnx
from xdsl_spirv.runtime.execution import run

if TYPE_CHECKING:
    from onnx import ModelProto


ROWS, FEATURES = 7, 5
BRANCHES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


def model(
    onnx: ModuleType, kind: str, outputs: list[tuple[str, int, list[int]]], **given: Any
) -> ModelProto:
    helper = onnx.helper
    node = helper.make_node(
        kind, ["x"], [name for name, _, _ in outputs], domain="ai.onnx.ml", **given
    )
    x = helper.make_tensor_value_info("x", 1, [ROWS, FEATURES])
    graph = helper.make_graph(
        [node], "g", [x], [helper.make_tensor_value_info(*output) for output in outputs]
    )
    version = 5 if kind == "TreeEnsemble" else 3
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", version)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def floats(rng: np.random.Generator, *shape: int) -> list[float]:
    return rng.normal(size=shape).astype(np.float32).ravel().tolist()


def trees(rng: np.random.Generator, count: int, mixed: bool) -> tuple[dict[str, Any], list[Any]]:
    """Returns the node attributes of random trees, and (tree, node) of each leaf."""
    nodes: list[tuple[Any, ...]] = []
    leaves: list[tuple[int, int]] = []
    for tree in range(count):
        waiting, known = [0], 1
        while waiting:
            node = waiting.pop(0)
            if node and (rng.random() < 0.4 or known > 14):
                nodes.append((tree, node, "LEAF", 0, 0.0, 0, 0, 0))
                leaves.append((tree, node))
                continue
            mode = str(rng.choice(BRANCHES)) if mixed else "BRANCH_LEQ"
            value = float(np.float32(rng.integers(-2, 3) / 2))
            tracks = int(rng.integers(2))
            feature = int(rng.integers(FEATURES))
            nodes.append((tree, node, mode, feature, value, known, known + 1, tracks))
            waiting += [known, known + 1]
            known += 2
    names = ("treeids", "nodeids", "modes", "featureids", "values", "truenodeids", "falsenodeids",
             "missing_value_tracks_true")  # fmt: skip
    columns = zip(*nodes, strict=True)
    return {f"nodes_{n}": list(c) for n, c in zip(names, columns, strict=True)}, leaves


def ensemble(
    onnx: ModuleType, rng: np.random.Generator, targets: int, members: bool
) -> dict[str, Any]:
    """Returns random trees with a separate table of leaves."""
    nodes: list[dict[str, Any]] = []
    leaves: list[int] = []

    def grow(depth: int) -> tuple[int, int]:
        if depth and (rng.random() < 0.35 or depth > 3):
            leaves.append(int(rng.integers(targets)))
            return 1, len(leaves) - 1
        numbers = rng.choice([-2.0, -1.0, 1.0, 2.0], 3, replace=False)[: rng.integers(1, 4)]
        node: dict[str, Any] = {
            "modes": int(rng.integers(7 if members else 6)), "splits": int(rng.integers(-2, 3)) / 2,
            "featureids": int(rng.integers(FEATURES)), "numbers": [*numbers, np.nan],
            "missing_value_tracks_true": int(rng.integers(2)),
        }  # fmt: skip
        nodes.append(node)
        number = len(nodes) - 1
        for way in ("true", "false"):
            node[f"{way}leafs"], node[f"{way}nodeids"] = grow(depth + 1)
        return 0, number

    roots = [grow(0)[1] for _ in range(5)]
    sets = [x for node in nodes for x in node.pop("numbers") if node["modes"] == 6]
    given = {f"nodes_{key}": [node[key] for node in nodes] for key in nodes[0]}
    tensor, count = onnx.helper.make_tensor, len(nodes)
    given["nodes_modes"] = tensor("m", 2, [count], given["nodes_modes"])
    given["nodes_splits"] = tensor("s", 1, [count], given["nodes_splits"])
    given["leaf_weights"] = tensor("w", 1, [len(leaves)], floats(rng, len(leaves)))
    if sets:
        given["membership_values"] = tensor("v", 1, [len(sets)], sets)
    return {**given, "tree_roots": roots, "leaf_targetids": leaves, "n_targets": targets}


def machine(rng: np.random.Generator, classes: int, kernel: str) -> dict[str, Any]:
    """Returns a random classifier with support vectors."""
    counts = rng.integers(1, 4, classes).tolist()
    return {
        "classlabels_ints": [4, 9, 2, 7][:classes], "vectors_per_class": counts,
        "coefficients": floats(rng, classes - 1, sum(counts)), "kernel_type": kernel,
        "kernel_params": [0.3, 0.5, 3.0], "rho": floats(rng, classes * (classes - 1) // 2),
        "support_vectors": floats(rng, sum(counts), FEATURES),
    }  # fmt: skip


def cases(onnx: ModuleType, rng: np.random.Generator) -> dict[str, Any]:
    y = [("y", 1, [ROWS, FEATURES])]
    labels = [("label", 7, [ROWS]), ("scores", 1, [ROWS, 3])]
    found = {
        "scaler": model(
            onnx, "Scaler", y, offset=floats(rng, FEATURES), scale=floats(rng, FEATURES)
        ),
        "binarizer": model(onnx, "Binarizer", y, threshold=0.25),
        **{f"norm {n}": model(onnx, "Normalizer", y, norm=n) for n in ("MAX", "L1", "L2")},
        "regressor": model(
            onnx, "LinearRegressor", [("y", 1, [ROWS, 2])], targets=2,
            coefficients=floats(rng, 2, FEATURES), intercepts=floats(rng, 2),
        ),
    }  # fmt: skip
    for post in ("NONE", "LOGISTIC", "SOFTMAX"):
        found[f"classifier {post}"] = model(
            onnx, "LinearClassifier", labels, classlabels_ints=[4, 9, 2], post_transform=post,
            coefficients=floats(rng, 3, FEATURES), intercepts=floats(rng, 3),
        )  # fmt: skip
    for kernel in ("LINEAR", "RBF", "POLY", "SIGMOID"):
        found[f"support {kernel}"] = model(
            onnx, "SVMRegressor", [("y", 1, [ROWS, 1])], kernel_type=kernel, n_supports=4,
            kernel_params=[0.3, 0.5, 3.0], support_vectors=floats(rng, 4, FEATURES),
            coefficients=floats(rng, 4), rho=[0.4],
        )  # fmt: skip
    for classes in (2, 3, 4):
        pairs = classes * (classes - 1) // 2
        scores = [("label", 7, [ROWS]), ("scores", 1, [ROWS, max(pairs, 2)])]
        for kernel in ("LINEAR", "RBF", "POLY", "SIGMOID"):
            post = str(
                rng.choice(["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"][: classes * 2 - 2])
            )
            found[f"machine {classes} {kernel} {post}"] = model(
                onnx, "SVMClassifier", scores, post_transform=post, **machine(rng, classes, kernel)
            )
    for classes in (2, 3, 4):
        pairs, scores = classes * (classes - 1) // 2, [labels[0], ("scores", 1, [ROWS, classes])]
        found[f"probabilities {classes}"] = model(
            onnx, "SVMClassifier", scores, **machine(rng, classes, "RBF"),
            prob_a=(-2 * rng.random(pairs)).tolist(), prob_b=floats(rng, pairs),
            post_transform=("NONE", "SOFTMAX", "LOGISTIC")[classes - 2],
        )  # fmt: skip
    for mixed in (False, True):
        for how in ("SUM", "AVERAGE", "MIN", "MAX"):
            nodes, leaves = trees(rng, 6, mixed)
            owners = {"treeids": [t for t, _ in leaves], "nodeids": [n for _, n in leaves]}
            found[f"trees {how} {mixed}"] = model(
                onnx, "TreeEnsembleRegressor", [("y", 1, [ROWS, 1])], aggregate_function=how,
                **nodes, **{f"target_{k}": v for k, v in owners.items()}, n_targets=1,
                target_ids=[0] * len(leaves), target_weights=floats(rng, len(leaves)),
                base_values=[0.5],
            )  # fmt: skip
        for targets in (1, 3):
            # If no tree contributes to a target, MIN and MAX follow onnxruntime.
            for how in range(2 if mixed and targets > 1 else 4):
                post = 3 if targets > 1 and how and not mixed else 0
                found[f"ensemble {targets} {how} {mixed}"] = model(
                    onnx, "TreeEnsemble", [("y", 1, [ROWS, targets])], aggregate_function=how,
                    post_transform=post, **ensemble(onnx, rng, targets, mixed),
                )  # fmt: skip
        nodes, leaves = trees(rng, 6, mixed)
        owners = {"treeids": [t for t, _ in leaves], "nodeids": [n for _, n in leaves]}
        found[f"tree classes {mixed}"] = model(
            onnx, "TreeEnsembleClassifier", labels, **nodes,
            **{f"class_{k}": v for k, v in owners.items()}, classlabels_int64s=[4, 9, 2],
            class_ids=rng.integers(0, 3, len(leaves)).tolist(),
            class_weights=floats(rng, len(leaves)), post_transform="SOFTMAX",
        )  # fmt: skip
        for post in ("NONE", "LOGISTIC"):
            # Converters of binary classifiers give only the first class weights.
            weights = np.array(floats(rng, len(leaves)))
            found[f"binary trees {post} {mixed}"] = model(
                onnx, "TreeEnsembleClassifier", [labels[0], ("scores", 1, [ROWS, 2])], **nodes,
                **{f"class_{k}": v for k, v in owners.items()}, classlabels_int64s=[4, 9],
                class_ids=[0] * len(leaves), base_values=[0.125], post_transform=post,
                class_weights=(np.abs(weights) / 8 if post == "NONE" else weights).tolist(),
            )  # fmt: skip
    return found


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(s, marks=pytest.mark.long) for s in range(1, 9))]
)
def test_models_give_the_results_of_onnxruntime(seed: int, onnx: ModuleType):
    if not has_onnxruntime():
        pytest.skip("onnxruntime is not installed (pip install onnxruntime)")
    rng = np.random.default_rng(seed)
    wrong: dict[str, Any] = {}
    for name, proto in cases(onnx, rng).items():
        x = (rng.integers(-4, 5, (ROWS, FEATURES)) / 2).astype(np.float32)
        names = [output.name for output in proto.graph.output]
        theirs = run_onnxruntime(proto.SerializeToString(), {"x": x}, names).results
        if proto.graph.node[0].op_type == "TreeEnsemble" and name.endswith("True"):
            # onnxruntime truncates a number before it searches a branch's members.
            reference: Any = import_module("onnx.reference")
            evaluated = reference.ReferenceEvaluator(proto).run(None, {"x": x})
            theirs = dict(zip(names, evaluated, strict=True))
        for key, ours in run_reference(import_onnx(proto), {"x": x}).items():
            if not np.allclose(ours, theirs[key], rtol=1e-4, atol=1e-5):
                wrong[f"{name}: {key}"] = (ours.tolist(), theirs[key].tolist())
    assert wrong == {}


@pytest.mark.parametrize(
    "kind",
    ["trees SUM True", "ensemble 3 0 True", "support RBF", "classifier SOFTMAX", "probabilities 3"],
)
def test_compiled_models_give_the_results_of_onnxruntime(kind: str, onnx: ModuleType):
    rng = np.random.default_rng(3)
    proto = cases(onnx, rng)[kind]
    x = (rng.integers(-4, 5, (ROWS, FEATURES)) / 2).astype(np.float32)
    x[0, 0] = np.nan if kind.startswith("trees") else 0
    expected = run_reference(import_onnx(proto), {"x": x})
    found = run(compile_model(import_onnx(proto), "lavapipe"), {"x": x})
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [
        ("LinearClassifier", {"classlabels_strings": ["cat", "dog"], "coefficients": [1.0] * 10,
         "intercepts": [0.0] * 2}, r"labels are strings \(cat, dog"),
        ("SVMClassifier", {"coefficients": [1.0], "prob_a": [1.0]}, "no support vectors"),
        ("SVMClassifier", {"coefficients": [1.0] * 10, "rho": [0.0], "classlabels_ints": [1, 2]},
         "two classes and no support vectors"),
        ("SVMRegressor", {"coefficients": [1.0] * 5, "rho": [0.0], "post_transform": "LOGISTIC"},
         "disagree about post_transform LOGISTIC"),
        ("LinearRegressor", {"coefficients": [1.0] * 5, "post_transform": "HALF"}, "HALF"),
        ("FeatureVectorizer", {}, "operands are maps or lists of any length"),
    ],
)  # fmt: skip
def test_unsupported_operators_are_refused_by_name(
    kind: str, given: dict[str, Any], said: str, onnx: ModuleType
):
    outputs = [("y", 1, [ROWS, 1])]
    if kind.endswith("Classifier"):
        outputs = [("y", 8 if "classlabels_strings" in given else 7, [ROWS]), ("z", 1, [ROWS, 2])]
    with pytest.raises(FrontendError, match=said):
        import_onnx(model(onnx, kind, outputs, **given))
