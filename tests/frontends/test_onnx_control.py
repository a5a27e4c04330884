"""If, Scan and bounded Loop give onnxruntime's results; unbounded loops are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from xdsl_spirv.compiler.model import compile_model, run_reference
from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.frontends.onnx.importer import import_onnx
from xdsl_spirv.frontends.onnx.operators import control
from xdsl_spirv.runtime.execution import run

if TYPE_CHECKING:
    from onnx import ModelProto


onnx = pytest.importorskip("onnx")
HEAD = '<ir_version: 10, opset_import: ["" : 21]>\n'
ROUND = """
    body = g (int64 i, bool c, float[3] v) => (bool d, float[3] w) {
        d = Identity(c) t = Tanh(v) w = Add(t, x) }"""
UNTIL = """
    body = g (int64 i, bool c, float[3] v) => (bool d, float[3] w) {
        w = Add(v, x) n = ReduceMax<keepdims = 0>(w) d = Less(n, m) }"""

BODIES = {
    "constant rounds": f"k = Constant<value_int = 5>() z = Loop<{ROUND}>(k, , x)",
    "no round": f"k = Constant<value_int = 0>() z = Loop<{ROUND}>(k, , x)",
    "negative rounds": f"k = Constant<value_int = -3>() z = Loop<{ROUND}>(k, , x)",
    "data decides the last round": f"""
        k = Constant<value_int = 9>() m = Constant<value_float = 7.0>()
        z = Loop<{UNTIL}>(k, , x)""",
    "data decides that there is none": f"""
        k = Constant<value_int = 9>() m = Constant<value_float = 7.0>()
        f = ReduceMax<keepdims = 0>(x) c = Less(m, f) z = Loop<{UNTIL}>(k, c, x)""",
    "a bounded number of rounds": f"""
        f = ReduceMax<keepdims = 0>(x) n = Cast<to = 7>(f) k = Constant<value_int = 4>()
        r = Min(n, k) one = Constant<value_ints = [1]>() q = Reshape(r, one)
        z = Loop<{ROUND}>(q, , x)""",
    "a clipped number of rounds": f"""
        f = ReduceMax<keepdims = 0>(x) n = Cast<to = 7>(f) l = Constant<value_int = 1>()
        k = Constant<value_int = 6>() r = Clip(n, l, k) z = Loop<{ROUND}>(r, , x)""",
    "rows": """
        k = Constant<value_int = 4>()
        v, z = Loop<body = g (int64 i, bool c, float[3] v) => (bool d, float[3] w, float[3] s) {
            d = Identity(c) f = Cast<to = 1>(i) w = Add(v, x) s = Mul(w, f) }>(k, , x)""",
    "many rows": """
        k = Constant<value_int = 6>()
        v, z = Loop<body = g (int64 i, bool c, float[3] v) => (bool d, float[3] w, float[3] s) {
            d = Identity(c) f = Cast<to = 1>(i) w = Add(v, x) s = Mul(w, f) }>(k, , x)""",
    "a growing value": """
        k = Constant<value_int = 6>()
        z = Loop<body = g (int64 i, bool c, float[n] v) => (bool d, float[m] w) {
            d = Identity(c) w = Concat<axis = 0>(v, x) }>(k, , x)""",
    "no rows": """
        k = Constant<value_int = 0>()
        v, z = Loop<body = g (int64 i, bool c, float[3] v) => (bool d, float[3] w, float[3] s) {
            d = Identity(c) w = Add(v, x) s = Neg(w) }>(k, , x)""",
    "loops in loops": """
        k = Constant<value_int = 3>()
        z = Loop<body = g (int64 i, bool c, float[3] v) => (bool d, float[3] w) {
            d = Identity(c) y = Neg(x)
            w = Loop<body = h (int64 j, bool e, float[3] p) => (bool q, float[3] r) {
                q = Identity(e) s = Add(i, j) f = Cast<to = 1>(s) o = Mul(y, f) r = Add(p, o)
            }>(k, , v) }>(k, , x)""",
    "scan": """
        a = Unsqueeze(x, u) b = Mul(a, x)
        v, z = Scan<num_scan_inputs = 1, scan_input_directions = [1], scan_input_axes = [1],
                    scan_output_axes = [-1],
            body = g (float[3] s, float[3] e) => (float[3] t, float[3] r) {
                t = Add(s, e) r = Identity(t) }>(x, b)""",
    "data decides a branch": """
        f = ReduceSum<keepdims = 0>(x) m = Constant<value_float = 6.0>() c = Less(f, m)
        z = If<then_branch = g () => (float[n] p) { p = Neg(x) },
               else_branch = h () => (float[n] q) { q = Add(x, m) }>(c)""",
    "a shape decides a branch": """
        s = Shape(x) i = Constant<value_int = 0>() n = Gather(s, i) k = Constant<value_int = 1>()
        c = Equal(n, k)
        z = If<then_branch = g () => (float p) { p = Squeeze(x) },
               else_branch = h () => (float[n] q) { q = Identity(x) }>(c)""",
}
ROWS = {"rows": "float[r, 3]", "no rows": "float[r, 3]", "scan": "float[3, 3]"}


def model_of(name: str, body: str) -> ModelProto:
    result = ROWS.get(name, "float[3]")
    weights = "<int64[1] u = {1}>" if name == "scan" else ""
    return onnx.parser.parse_model(HEAD + f"m (float[3] x) => ({result} z) {weights} {{ {body} }}")


@pytest.mark.parametrize("x", [[1.5, 2.0, 2.5], [-1.0, 0.25, 8.0], [-4.0, -3.0, -2.0]])
@pytest.mark.parametrize("name", BODIES)
def test_loops_and_branches_give_the_results_of_onnxruntime(name: str, x: list[float]) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    model, array = model_of(name, BODIES[name]), np.array(x, np.float32)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (expected,) = session.run(None, {"x": array})
    result = run_reference(import_onnx(model), {"x": array})["z"]
    assert result.shape == expected.shape
    np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-6)


def test_a_loop_stops_at_a_condition_on_data() -> None:
    name = "data decides the last round"
    program = compile_model(import_onnx(model_of(name, BODIES[name])), "lavapipe")
    result = run(program, {"x": np.array([1, 2, 3], np.float32)})["z"]
    np.testing.assert_array_equal(result, [3, 6, 9])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            f"m = Constant<value_float = 7.0>() z = Loop<{UNTIL}>(, , x)",
            "Loop: the number of iterations depends on data and has no limit",
        ),
        (
            f"f = ReduceMax<keepdims = 0>(x) n = Cast<to = 7>(f) z = Loop<{ROUND}>(n, , x)",
            r"the number of iterations is computed .*limit the number by Min or Clip",
        ),
        (
            f"k = Constant<value_int = 5000>() m = Constant<value_float = 7.0>() "
            f"z = Loop<{UNTIL}>(k, , x)",
            "Loop: the loop has 5000 iterations .*at most 4096",
        ),
        (
            "k = Constant<value_int = 3>() e = Constant<value_float = 1.0>() "
            "v, z = Loop<body = g (int64 i, bool c, float[3] v) => (bool d, float[3] w, float s) {"
            "w = Add(v, x) s = ReduceMax<keepdims = 0>(w) d = Less(s, e) }>(k, , x)",
            "the number of collected results depends on data",
        ),
        (
            "f = ReduceSum<keepdims = 0>(x) m = Constant<value_float = 6.0>() c = Less(f, m) "
            "z = If<then_branch = g () => (float[n] p) { p = Neg(x) }, "
            "else_branch = h () => (float[n] q) { q = Concat<axis = 0>(x, x) }>(c)",
            "If: the branches give different results: 3xf32 and 6xf32",
        ),
    ],
)
def test_impossible_control_flow_is_refused(body: str, message: str) -> None:
    with pytest.raises(FrontendError, match=message):
        import_onnx(model_of("", body))


def test_nested_loops_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unrolling 4,096 x 4,096 iterations would give millions of nodes."""
    monkeypatch.setattr(control, "MOST_WRITTEN", 50)
    monkeypatch.setattr(control, "FEW_ROUNDS", 100)
    inner = ROUND.replace("body = g", "body = h").replace("t = Tanh(v)", "t = Tanh(u)")
    inner = inner.replace("(int64 i, bool c, float[3] v)", "(int64 j, bool f, float[3] u)")
    inner = inner.replace("d = Identity(c)", "d = Identity(f)")
    body = (
        f"k = Constant<value_int = 9>() z = Loop<body = g (int64 i, bool c, float[3] v) => "
        f"(bool e, float[3] y) {{ e = Identity(c) y = Loop<{inner}>(k, , v) }}>(k, , x)"
    )
    with pytest.raises(FrontendError, match="unroll to more than 50 nodes"):
        import_onnx(model_of("", body))


def test_weights_of_an_unrolled_loop_are_stored_once() -> None:
    body = """k = Constant<value_int = 20>()
        z = Loop<body = g (int64 i, bool c, float[3] v) => (bool d, float[3] w)
            <float[3] u = {7, 8, 9}> { d = Identity(c) w = Add(v, u) }>(k, , x)"""
    text = str(import_onnx(model_of("", body)).module)
    assert text.count("linalg.generic") == 1
    assert text.count("tensor<3xf32>}") + text.count("dense<[7.0") == 1, text
