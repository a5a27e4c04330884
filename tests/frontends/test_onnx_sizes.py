"""
A program with dynamic sizes is right at every size, or an error names the size that it refuses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from xdsl_spirv.compiler.model import compile_model, run_reference
from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.frontends.onnx.importer import import_onnx
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.execution import run
from xdsl_spirv.runtime.program import Program

if TYPE_CHECKING:
    from onnx import ModelProto


onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx.reference")

CASES: dict[str, tuple[str, list[dict[str, int]], list[dict[str, int]]]] = {
    # The model, sizes for which it is right, sizes that the run refuses.
    "Slice backwards to the largest number": (
        "(float[n, 6] x) => (float[n, 6] z) <int64[2] s = {-1, -1},"
        " int64[2] e = {9223372036854775807, 2147483647},"
        " int64[2] a = {0, 1}, int64[2] t = {-1, -1}>"
        " { z = Slice(x, s, e, a, t) }",
        [{"n": 1}, {"n": 5}],
        [],
    ),
    "Squeeze of all ones": (
        "(float[n, 1, 4] x) => (float[a, 4] z) { y = Squeeze(x) z = Add(y, y) }",
        [{"n": 2}, {"n": 5}],
        [{"n": 1}],
    ),
    "Squeeze to a declared rank": (
        "(float[n, 1, 4] x) => (float[a, b] z) { z = Squeeze(x) }",
        [{"n": 2}, {"n": 5}],
        [],
    ),
    "Squeeze of an open size": (
        "(float[n, 3, m] x) => (float[a] z) { z = Squeeze(x) }",
        [{"n": 1, "m": 1}],
        [{"n": 1, "m": 2}],
    ),
    "Squeeze by axes": (
        "(float[n, m] x) => (float[m] z) <int64[1] a = {0}> { z = Squeeze(x, a) }",
        [{"n": 1, "m": 3}],
        [{"n": 2, "m": 3}],
    ),
    "a bound beyond": (
        "(float[n] x) => (float[a] z) <int64[1] s = {0}, int64[1] e = {4}> { z = Slice(x, s, e) }",
        [{"n": 3}, {"n": 9}],
        [],
    ),
    "the first one": (
        "(float[n] x) => (float[1] z) <int64[1] s = {0}, int64[1] e = {1}> { z = Slice(x, s, e) }",
        [{"n": 1}, {"n": 4}],
        [{"n": 0}],
    ),
    "as many as another has": (
        """(float[n] x, float[m] y) => (float[m] z) <int64[1] s = {0}>
        { e = Shape(y) z = Slice(x, s, e) }""",
        [{"n": 5, "m": 3}, {"n": 4, "m": 4}, {"n": 3, "m": 4}],
        [],
    ),
    "the last ones": (
        """(float[n] x, float[m] y) => (float[m] z) <int64[1] e = {2147483647}>
        { s = Shape(y) t = Neg(s) z = Slice(x, t, e) }""",
        [{"n": 5, "m": 3}, {"n": 3, "m": 4}],
        [],
    ),
    "backwards from minus a size": (
        """(float[n, m] x) => (float[a, m] z) <int64[1] e = {-1000}, int64[1] o = {0},
        int64[1] by = {-2}> { s = Shape<end = 1>(x) t = Neg(s) z = Slice(x, t, e, o, by) }""",
        [{"n": 3, "m": 2}],
        [],
    ),
    "bounds that pass each other": (
        """(float[n] x) => (float[a] z) <int64[1] e = {2}, int64[1] o = {0}, int64[1] by = {2}>
        { s = Shape(x) z = Slice(x, s, e, o, by) }""",
        [{"n": 1}, {"n": 5}],
        [],
    ),
    "backwards from minus a size to the last": (
        """(float[n] x) => (float[a] z) <int64[1] e = {-2}, int64[1] o = {0}, int64[1] by = {-2}>
        { s = Shape(x) t = Neg(s) z = Slice(x, t, e, o, by) }""",
        [{"n": 1}, {"n": 5}],
        [],
    ),
    "Range": (
        """(float[n] x, float[m] y) => (int64[k] z) <int64 one = {1}, int64[1] a = {0}>
        { s = Shape(x) t = Shape(y) f = Squeeze(s, a) l = Squeeze(t, a) z = Range(f, l, one) }""",
        [{"n": 2, "m": 6}, {"n": 3, "m": 4}],
        [{"n": 4, "m": 3}],
    ),
    "Range of floats": (
        """(float[n] x) => (float[k] z) <float zero = {0}, float one = {1}, int64[1] a = {0}>
        { s = Shape(x) f = Squeeze(s, a) l = Cast<to = 1>(f) z = Range(zero, l, one) }""",
        [{"n": 2}, {"n": 7}],
        [],
    ),
    "up to a multiple, by steps, the lesser, a part": (
        """(float[n, 2] x) => (float[a, 2] w, int64[b] r, float[c, 2] v, float[d, 2] y, float[e] u)
        <int64[1] four = {4}, int64[1] three = {3}, int64[1] z = {0}, int64 i = {0},
         int64 by = {2}, float[1] part = {0.75}, int64[1] f = {2}, float[1] third = {3}>
        { s = Shape<end = 1>(x) m = Mod(s, four) lacks = Sub(four, m) p = Mod(lacks, four)
          pads = Concat<axis = 0>(z, z, p, z) w = Pad(x, pads) l = Squeeze(s, z)
          r = Range(i, l, by) k = Min(s, three) v, places = TopK<axis = 0>(x, k)
          g = Cast<to = 1>(s) h = Mul(g, part) c = Ceil(h) t = Cast<to = 7>(c)
          size = Concat<axis = 0>(t, f) y = ConstantOfShape(size)
          thirds = Div(g, third) whole = Floor(thirds) count = Cast<to = 7>(whole)
          u = ConstantOfShape(count) }""",
        [{"n": 1}, {"n": 4}, {"n": 7}],
        [],
    ),
    "a quotient that would be cut toward zero": (
        """(float[n] x) => (float[a] z) <int64[1] two = {2}, int64[1] four = {4}>
        { s = Shape(x) m = Sub(s, four) h = Div(m, two) t = Add(h, two) z = ConstantOfShape(t) }""",
        [{"n": 4}, {"n": 7}],
        [{"n": 3}],
    ),
    "a condition on sizes": (
        """(float[n] x) => (float[n] z) <int64 none = {0}, int64[1] o = {0}>
        { s = Shape(x) l = Squeeze(s, o) c = GreaterOrEqual(l, none)
          z = If(c)<then_branch = t () => (float[n] a) { a = Neg(x) },
                    else_branch = e () => (float[1] b) { b = Cast<to = 1>(o) }> }""",
        [{"n": 3}],
        [],
    ),
    "positions by NonZero of ones": (
        """(float[n, 2] x) => (float[n, 2] z) <int64[2] p = {1, 0}>
        { s = Shape<end = 1>(x) o = ConstantOfShape<value = int64[1] {1}>(s) y = NonZero(o)
          t = Transpose<perm = [1, 0]>(y) g = Cast<to = 1>(t) z = Add(x, g) }""",
        [{"n": 1}, {"n": 6}],
        [],
    ),
    "what NonZero and Compress choose": (
        """(float[n, 3] x) => (float[] z, float[n, 3] w, float[3] y, int64[2] c, float[n, 3] v)
        <float zero = {0}, int64[1] o = {0}, int64[1] l = {1}, float[3, 1] ones = {1, 1, 2}>
        { m = Greater(x, zero) p = NonZero(m) t = Transpose<perm = [1, 0]>(p) g = GatherND(x, t)
          d = Ceil(g) z = ReduceSum<keepdims = 0>(d, o) c = Shape(p) e = Neg(g)
          w = ScatterND(x, t, e) rows = ReduceMax<keepdims = 0, axes = [1]>(x)
          k = Greater(rows, zero)
          q = Compress<axis = 0>(x, k) u = Ceil(q) y = ReduceMean<keepdims = 0, axes = [0]>(u)
          h = NonZero(k) i = Squeeze(h, o) r = Gather(x, i) f = Floor(r) a = MatMul(f, ones)
          b = Mul(r, a) j = Unsqueeze(i, l) v = ScatterND(x, j, b) }""",
        [{"n": 5}, {"n": 9}],
        [],
    ),
    "one number where a mask is true, in elements and in rows": (
        """(float[n, 3] x) => (float[n, 3] z, float[n, 3] w)
        <float zero = {0}, float c = {0.5}, int64[1] flat = {-1}, int64[1] l = {1},
         int64[2] two = {1, 3}, int64[1] three = {3}>
        { m = Greater(x, zero) p = NonZero(m) t = Transpose<perm = [1, 0]>(p)
          a = Reshape(m, flat) b = Cast<to = 7>(a) k = ReduceSum(b) e = Expand(c, k)
          u = Reshape(e, flat) z = ScatterND(x, t, u)
          r = ReduceMax<keepdims = 1, axes = [1]>(x) q = Greater(r, zero) j = Expand(q, two)
          h = NonZero(j) g = Transpose<perm = [1, 0]>(h) f = Reshape(q, flat)
          d = Cast<to = 7>(f) o = ReduceSum(d) y = Concat<axis = 0>(o, three) v = Expand(c, y)
          i = Reshape(v, flat) w = ScatterND(x, g, i) }""",
        [{"n": 1}, {"n": 4}],
        [],
    ),
    "torch.roll: remainders of numbers by a size": (
        """(float[n] x) => (float[n] z, float[n] w)
        <int64[1] two = {-2}, int64[1] one = {1}, int64[1] o = {0}>
        { s = Shape(x) m = Mod(two, s) a = Slice(x, o, m) b = Slice(x, m, s)
          z = Concat<axis = 0>(b, a) k = Mod(one, s) c = Slice(x, o, k) d = Slice(x, k, s)
          w = Concat<axis = 0>(d, c) }""",
        [{"n": 2}, {"n": 5}],
        [{"n": 1}],
    ),
    "a quotient of sizes that is rounded in f32": (
        """(float[n] x) => (float[n] z) <float by = {1.5}, int64[1] o = {0}>
        { s = Shape(x) i = Squeeze(s, o) f = Cast<to = 1>(i) m = Mul(f, by) q = Div(f, m)
          z = Mul(x, q) }""",
        [{"n": 3}, {"n": 7}],
        [],
    ),
    "Reshape by floats": (
        """(float[n, 4] x) => (float[a, b] z) <float[1] two = {2}, int64[1] o = {-1}>
        { s = Shape<end = 1>(x) f = Cast<to = 1>(s) g = Mul(f, two) h = Floor(g) i = Cast<to = 7>(h)
          j = Concat<axis = 0>(i, o) z = Reshape(x, j) }""",
        [{"n": 1}, {"n": 3}],
        [],
    ),
    "Reshape with a rest": (
        "(float[n, 3] x) => (float[a, 6] z) <int64[2] s = {-1, 6}> { z = Reshape(x, s) }",
        [{"n": 2}, {"n": 8}],
        [{"n": 3}],
    ),
    "a size against a number": (
        "(float[n, 3] x, float[5, 3] y) => (float[5, 3] z) { z = Add(x, y) }",
        [{"n": 5}],
        [{"n": 1}, {"n": 4}],
    ),
    "Expand": (
        "(float[n] x, float[m] y) => (float[m] z) { s = Shape(y) z = Expand(x, s) }",
        [{"n": 3, "m": 3}],
        [{"n": 1, "m": 3}],
    ),
    "Conv of few channels": (
        "(float[1, 1, n] x) => (float[1, 3, a] z) <float[3, 1, 2] w = {1, 2, 3, 4, 5, 6}>"
        "{ z = Conv(x, w) }",
        [{"n": 2}, {"n": 13}],
        [],
    ),
    "Conv padded behind": (
        "(float[2, 3, n] x, float[4, 3, 2] w) => (float[2, 4, a] z)"
        "{ z = Conv<pads = [0, 1]>(x, w) }",
        [{"n": 1}, {"n": 13}],
        [],
    ),
    "Einsum of two names": (
        "(float[n, 5, 4] x, float[m, 7, 4] y) => (float[n, 5, 7] z)"
        """{ z = Einsum<equation = "bqd,bkd->bqk">(x, y) }""",
        [{"n": 3, "m": 3}],
        [{"n": 3, "m": 2}, {"n": 2, "m": 3}],
    ),
    "Einsum of a diagonal": (
        """(float[n, m] x) => (float[n] z) { z = Einsum<equation = "ii->i">(x) }""",
        [{"n": 3, "m": 3}],
        [{"n": 3, "m": 2}, {"n": 2, "m": 3}],
    ),
    "Scan that stores a matrix of every step": (
        """(float[n, 4] s, float[m, n, 4] x) => (float[n, 4] t, float[m, n, 2, 2] z)
        { t, z = Scan<num_scan_inputs = 1, body = step (float[n, 4] a, float[n, 4] b)
          => (float[n, 4] c, float[n, 2, 2] d) <int64[3] k = {0, 2, 2}>
          { c = Add(a, b) d = Reshape(c, k) }>(s, x) }""",
        [{"n": 3, "m": 5}],
        [],
    ),
    "Pad to a multiple, as torch.onnx writes it": (
        """(float[n, m] x) => (float[a, b] z)
        <int64[2] four = {4, 4}, int64[2] none = {0, 0}, int64[2] pairs = {-1, 2},
         int64[1] from = {-1}, int64[1] to = {-9223372036854775807}, int64[1] o = {0},
         int64[1] by = {-1}, int64[1] all = {-1}>
        { s = Shape(x) r = Mod(s, four) d = Sub(four, r) e = Mod(d, four)
          o0, o1 = Split<axis = 0>(e) c = Concat<axis = 0>(o, o1, o, o0) q = Reshape(c, pairs)
          u = Slice(q, from, to, o, by) t = Transpose<perm = [1, 0]>(u) p = Reshape(t, all)
          z = Pad(x, p) }""",
        [{"n": 4, "m": 5}, {"n": 7, "m": 1}],
        [],
    ),
    "moved and reduced sizes": (
        """(float[n, 3, m] x) => (float[a, b] z)
        <int64[2] w = {2, 2}, int64[1] o = {0}, int64[2] k = {2, 0}, int64[1] two = {2},
         int64[2] part = {1, 2}, int64[2] shape = {1, -1}>
        { s = Shape(x) f, r = Split(s, part) i = ReduceProd<axes = [0]>(r)
          g = GatherElements<axis = 0>(s, k) h = Flatten<axis = 0>(g)
          j = ReduceSum(h, o) l = ReduceMax<keepdims = 0>(j) y = Reshape(x, shape)
          e = Concat<axis = 0>(f, i) z = Reshape(y, e) }""",
        [{"n": 2, "m": 4}, {"n": 5, "m": 1}],
        [],
    ),
    "CumSum of constants along an axis in a list": (
        """(float[n] x) => (float[a] z) <int64[3] c = {2, 0, 1}, int64[1] o = {0}, int64[1] l = {2},
        int64[1] k = {1}>
        { s = CumSum(c, o) e = Gather(s, l) b = CumSum<exclusive = 1, reverse = 1>(c, o)
          f = Gather(b, o) z = Slice(x, f, e) }""",
        [{"n": 3}, {"n": 8}],
        [],
    ),
    "Split": (
        "(float[n] x) => (float[2] z, float[3] w) <int64[2] s = {2, 3}> { z, w = Split(x, s) }",
        [{"n": 5}],
        [{"n": 4}],
    ),
}


def model_of(body: str) -> ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 15]> g {body}')


def data_of(model: ModelProto, sizes: dict[str, int]) -> dict[str, Array]:
    data: dict[str, Any] = {}
    for value in model.graph.input:
        shape = [
            sizes[d.dim_param] if d.dim_param else d.dim_value
            for d in value.type.tensor_type.shape.dim
        ]
        data[value.name] = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    return data


def program_of(model: ModelProto) -> Program:
    return compile_model(import_onnx(model, dynamic=True), "lavapipe")


@pytest.mark.parametrize("name", CASES)
def test_every_size_is_right_or_refused(name: str) -> None:
    body, right, refused = CASES[name]
    model = model_of(body)
    program = program_of(model)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for sizes in right:
        data = data_of(model, sizes)
        results = run(program, data).values()
        for actual, expected in zip(results, session.run(None, data), strict=True):
            np.testing.assert_array_equal(actual, expected, strict=True)
    for sizes in refused:
        with pytest.raises(ProgramError):
            run(program, data_of(model, sizes))


def test_a_refused_size_has_the_name_of_the_model() -> None:
    model = model_of(CASES["the first one"][0])
    with pytest.raises(ProgramError, match=r"min\(n - 1, 0\) is -1 and 0 is 0.* needs"):
        run(program_of(model), data_of(model, {"n": 0}))


SLICE = """(float[n] x, float[l] y) => (float[a] z) <int64[1] e = {%d}, int64[1] o = {0},
int64[1] by = {%d}> { m = Shape(y) t = %s(m) z = Slice(x, t, e, o, by) }"""


@pytest.mark.parametrize("step", [1, 2, -1, -2])
@pytest.mark.parametrize("sign", ["Neg", "Identity"])
def test_slices_from_an_open_size_are_clamped(sign: str, step: int) -> None:
    """Slices that start below 0 or beyond the axis give onnxruntime's results, for every end."""
    for end in (-(1 << 63), -3, -1, 0, 2, (1 << 63) - 1):
        model = model_of(SLICE % (end, step, sign))
        program, session = (
            program_of(model),
            onnxruntime.InferenceSession(model.SerializeToString()),
        )
        for n, length in np.random.default_rng(abs(end) % 97).integers(1, 7, (3, 2)).tolist():
            data = data_of(model, {"n": n, "l": length})
            (expected,), (actual,) = session.run(None, data), run(program, data).values()
            np.testing.assert_array_equal(actual, expected, strict=True)


def test_a_size_of_two_numbers_is_refused() -> None:
    body = """(float[n] x, float[3] y, float[5] v) => (float[3] z, float[5] w)
    { z = Add(x, y) w = Mul(x, v) }"""
    model = model_of(body)
    program = program_of(model)
    for n in (1, 3, 5):
        with pytest.raises(ProgramError):
            run(program, data_of(model, {"n": n}))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "(float[1, 1, n] x, float[2, 1, k] w) => (float[1, 2, a] z) { z = Conv(x, w) }",
            r"the kernel's size is dynamic .*Conv.*dims=.*k.*: SIZE",
        ),
        (
            """(float[n, 4] x, float[m] y) => (float[a, b] z) <int64[1] o = {-1}>
            { s = Shape(y) t = Concat<axis = 0>(s, o) z = Reshape(x, t) }""",
            r"n \* 4 is not known to be a multiple of m ",
        ),
        (
            "(float[n] x) => (int64[1, a] z) { z = NonZero(x) }",
            r"output 'z' must be a tensor, not a list whose length depends on data",
        ),
        (
            """(float[n] x) => (float[k] z) <float c = {0.5}>
            { i = Cast<to = 7>(x) s = ReduceSum(i) z = Expand(c, s) }""",
            r"output 'z' must be a tensor, not a list whose length depends on data",
        ),
        (
            """(float[n] x) => (float[k] z) <float c = {0.5}>
            { i = Cast<to = 7>(x) s = ReduceSum(i) e = Expand(c, s) z = ReduceSum(e) }""",
            r"ReduceSum: the length of an operand depends on data",
        ),
        (
            """(float[n] x) => (float[a] z) <int64[1] o = {-1}>
            { p = NonZero(x) y = Reshape(p, o) t = Gather(x, y) z = CumSum(t, o) }""",
            r"CumSum: the length of an operand depends on data .*CumSum",
        ),
    ],
)
def test_refusals_name_the_size(body: str, message: str) -> None:
    with pytest.raises(FrontendError, match=message):
        import_onnx(model_of(body), dynamic=True)


@pytest.mark.parametrize(
    ("inputs", "weights", "given"),
    [(np.int8, np.uint8, False), (np.uint8, np.int8, False), (np.int8, np.int8, True)],
)
def test_integer_convolutions_are_right_at_every_size(inputs: Any, weights: Any, given: bool):
    helper = onnx.helper
    number = helper.np_dtype_to_tensor_dtype(np.dtype(inputs))
    shape = {"kernel_shape": [3, 1], "pads": [1, 0, 0, 0], "strides": [3, 2]}
    chance = np.random.default_rng(3)
    kernel = chance.integers(0, 120, (3, 2, 3, 1)).astype(weights)
    zero = {"zero": np.array(3, inputs)}
    constants = {"w": kernel} if given else {"w": kernel, **zero}
    graph = helper.make_graph(
        [helper.make_node("ConvInteger", ["x", "w", "zero"], ["y"], **shape)],
        "graph",
        [
            helper.make_tensor_value_info("x", number, [1, 2, "n", "m"]),
            *(helper.make_tensor_value_info(name, number, []) for name in zero if given),
        ],
        [helper.make_tensor_value_info("y", onnx.TensorProto.INT32, [1, 3, "a", "b"])],
        [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    opsets = [helper.make_opsetid("", 21)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    program = compile_model(import_onnx(model, dynamic=True), "lavapipe")
    evaluator = onnx.reference.ReferenceEvaluator(model)
    for sizes in ((17, 17), (5, 8)):
        x = chance.integers(0, 120, (1, 2, *sizes)).astype(inputs)
        data = {"x": x, **(zero if given else {})}
        names = (buffer.name for buffer in program.manifest.inputs)
        (result,) = run(program, dict(zip(names, data.values(), strict=True))).values()
        np.testing.assert_array_equal(result, evaluator.run(None, data)[0])


FAR = 1 << 62


def test_slices_of_dynamic_sizes_begin_where_static_slices_begin():
    """Backward slices from before the start begin at index 0 for every size."""
    bounds = [
        (start, end, step)
        for start in (1, -1, -2, -4, -FAR)
        for end in (0, 2, -1, -3, -20, -FAR)
        for step in (1, -1, -3)
    ]
    names = ", ".join(f"float[s{i}] z{i}" for i in range(len(bounds)))
    nodes = "\n".join(
        f"b{i} = Constant<value_ints = [{start}]>() e{i} = Constant<value_ints = [{end}]>() "
        f"t{i} = Constant<value_ints = [{step}]>() z{i} = Slice(x, b{i}, e{i}, o, t{i})"
        for i, (start, end, step) in enumerate(bounds)
    )
    model = model_of(f"(float[n] x) => ({names}) <int64[1] o = {{0}}> {{ {nodes} }}")
    imported = import_onnx(model, dynamic=True)
    for size in (1, 2, 4, 7):
        data = data_of(model, {"n": size})
        results = run_reference(imported, data)
        for i, (start, end, step) in enumerate(bounds):
            first = max(start, -size) if step < 0 else start
            last = None if step < 0 and end < -size else end
            expected = data["x"][first:last:step]
            np.testing.assert_array_equal(results[f"z{i}"], expected, f"{size}: {bounds[i]}")
