"""Sequences of known length and optional values give onnxruntime's results."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from xdsl_spirv.compiler.model import run_reference
from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.frontends.onnx.importer import import_onnx

if TYPE_CHECKING:
    from onnx import ModelProto


onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

X = np.arange(15, dtype=np.float32).reshape(5, 3)
Y = -X
HEAD = '<ir_version: 10, opset_import: ["" : 21]>\n'


def model_of(body: str, result: str = "float[a, b] z") -> ModelProto:
    text = f"agraph (float[5, 3] x, float[5, 3] y) => ({result}) {{ {body} }}"
    return onnx.parser.parse_model(HEAD + text)


BODIES = {
    "construct": "s = SequenceConstruct(x, y) z = ConcatFromSequence<axis = 1>(s)",
    "stack": "s = SequenceConstruct(x, y) z = ConcatFromSequence<axis = -1, new_axis = 1>(s)",
    "at": """
        i = Constant<value_int = -1>() s = SequenceConstruct(x, y, x, y) z = SequenceAt(s, i)""",
    "insert": """
        i = Constant<value_int = -1>() s = SequenceConstruct(x, y) t = Neg(x)
        u = SequenceInsert(s, t, i) z = ConcatFromSequence<axis = 0>(u)""",
    "insert at the end": """
        s = SequenceEmpty() t = SequenceInsert(s, y) u = SequenceInsert(t, x)
        z = ConcatFromSequence<axis = 0>(u)""",
    "erase": """
        i = Constant<value_int = 0>() s = SequenceConstruct(x, y, x, y) t = SequenceErase(s, i)
        u = SequenceErase(t) z = ConcatFromSequence<axis = 0>(u)""",
    "length": """
        s = SequenceConstruct(x, y, x) n = SequenceLength(s) f = Cast<to = 1>(n) z = Mul(x, f)""",
    "split": """
        s = SplitToSequence<axis = 1, keepdims = 0>(x) i = Constant<value_int = 1>()
        t = SequenceAt(s, i) u = SequenceConstruct(t, t)
        z = ConcatFromSequence<axis = 0, new_axis = 1>(u)""",
    "split in twos": """
        n = Constant<value_int = 2>() s = SplitToSequence(x, n) i = Constant<value_int = -1>()
        z = SequenceAt(s, i)""",
    "split by sizes": """
        n = Constant<value_ints = [1, 4]>() s = SplitToSequence(x, n)
        i = Constant<value_int = 1>() z = SequenceAt(s, i)""",
    "map": """
        s = SplitToSequence<axis = 0>(x)
        t = SequenceMap<body = g (float[a, b] e, float[5, 3] w) => (float[c, d] r) {
            r = Add(e, w) }>(s, y)
        z = ConcatFromSequence<axis = 0>(t)""",
    "loop": """
        n = Constant<value_int = 3>() s = SequenceEmpty()
        t = Loop<body = g (int64 i, bool c, seq(float[a, b]) v) => (bool d, seq(float[a, b]) w) {
            d = Identity(c) f = Cast<to = 1>(i) e = Mul(x, f) w = SequenceInsert(v, e) }>(n, , s)
        z = ConcatFromSequence<axis = 0>(t)""",
    "constants": """
        c = Constant<value_floats = [1.0, 2.0, 3.0]>() s = SequenceConstruct(c, c)
        t = ConcatFromSequence<axis = 0, new_axis = 1>(s) i = Constant<value_int = 1>()
        u = SequenceAt(s, i) v = Add(x, u) n = ReduceSum(t) z = Add(v, n)""",
    "optional": """
        o = Optional(x) h = OptionalHasElement(o)
        z = If<then_branch = g () => (float[a, b] r) { r = OptionalGetElement(o) },
               else_branch = e () => (float[a, b] r) { r = Neg(y) }>(h)""",
}


@pytest.mark.parametrize("name", BODIES)
def test_sequences_are_lists_while_importing(name: str) -> None:
    model = model_of(BODIES[name])
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (expected,) = session.run(None, {"x": X, "y": Y})
    result = run_reference(import_onnx(model), {"x": X, "y": Y})["z"]
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(
    ("body", "result", "message"),
    [
        (
            "z = SequenceConstruct(x, y)",
            "seq(float[a, b]) z",
            "the output 'z' must be a tensor, not a sequence",
        ),
        (
            "s = SequenceConstruct(x, y) f = ReduceMax<keepdims = 0>(x) i = Cast<to = 7>(f) "
            "z = SequenceAt(s, i)",
            "float[a, b] z",
            "SequenceAt: the position is computed",
        ),
        (
            "s = SequenceConstruct(x, y) i = Constant<value_int = 2>() z = SequenceAt(s, i)",
            "float[a, b] z",
            "position 2 is outside a sequence whose last position is 1",
        ),
        ("s = SequenceEmpty() z = Add(s, x)", "float[a, b] z", "a sequence is used as a tensor"),
    ],
)
def test_sequences_as_results_are_refused(body: str, result: str, message: str) -> None:
    with pytest.raises(FrontendError, match=message):
        import_onnx(model_of(body, result))


def test_sequences_as_inputs_are_refused() -> None:
    model = onnx.parser.parse_model(
        HEAD + "g (seq(float[a]) s) => (float[b] z) { z = ConcatFromSequence<axis = 0>(s) }"
    )
    with pytest.raises(FrontendError, match=r"the input 's' is a sequence .*use tensors"):
        import_onnx(model)
