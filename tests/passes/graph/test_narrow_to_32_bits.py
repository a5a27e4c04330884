"""
`narrow-to-32-bits` keeps the results of random 64-bit arithmetic.

Bodies have random operations, types and intervals, with numbers at the ends of 32 bits, so that
some values fit and others do not.

Covers: graph/narrow_bodies, graph/narrow_floats.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xdsl.passes import PassPipeline
from xdsl.universe import Universe
from xdsl.utils.exceptions import PassFailedException

from xdsl_spirv.interpreter import reference
from xdsl_spirv.runtime.modules import context, parse_text, text_of

COUNT = 24
"""Number of elements for each body."""

BINARY = (
    *("addi", "subi", "muli", "maxsi", "minsi", "maxui", "minui", "andi", "ori", "xori"),
    *("divsi", "floordivsi", "ceildivsi", "remsi", "divui", "remui", "shli", "shrsi", "shrui"),
)
DIVISIONS = ("divsi", "floordivsi", "ceildivsi", "remsi", "divui", "remui")
SHIFTS = ("shli", "shrsi", "shrui")
PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
NUMBERS = (0, 1, -1, 2, 7, 31, -128, 255, 65537, 2**31 - 1, -(2**31), 2**31, 2**32 + 5, -(2**40))


@st.composite
def integer_bodies(draw: st.DrawFn) -> str:
    """Returns a body's lines on the i64 values %v0, %v1, ..."""
    lines = [
        "%j = linalg.index 0 : index",
        "%v0 = arith.index_cast %j : index to i64",
        "%v1 = arith.extsi %a : i8 to i64",
        "%v2 = arith.extui %b : i16 to i64",
        "%v3 = arith.extsi %c : i32 to i64",
        "%h = arith.mulf %f, %half : f32",
        "%l = math.floor %h : f32",
        "%g0 = arith.maximumf %l, %low : f32",
        "%g = arith.minimumf %g0, %high : f32",
        "%v4 = arith.fptosi %g : f32 to i64",
        "%v5 = arith.extui %c : i32 to i64",
    ]
    known = 6
    for step in range(draw(st.integers(2, 9))):
        x, y, z = (f"%v{draw(st.integers(0, known - 1))}" for _ in range(3))
        kind = draw(st.sampled_from((*BINARY, "constant", "select", "clamp", "trunc", "abs")))
        name = f"%v{known}"
        if kind == "constant":
            lines.append(f"{name} = arith.constant {draw(st.sampled_from(NUMBERS))} : i64")
        elif kind in ("select", "clamp"):
            predicate = draw(st.sampled_from(PREDICATES))
            arms = (x, y) if kind == "clamp" else (y, z)
            arms = arms[::-1] if draw(st.booleans()) else arms
            lines.append(f"%p{step} = arith.cmpi {predicate}, {x}, {y} : i64")
            lines.append(f"{name} = arith.select %p{step}, {arms[0]}, {arms[1]} : i64")
        elif kind == "trunc":
            width = draw(st.sampled_from((8, 16, 32)))
            extension = draw(st.sampled_from(("extsi", "extui")))
            lines.append(f"%t{step} = arith.trunci {x} : i64 to i{width}")
            lines.append(f"{name} = arith.{extension} %t{step} : i{width} to i64")
        elif kind == "abs":
            lines.append(f"{name} = math.absi {x} : i64")
        else:
            if kind in DIVISIONS:
                lines.append(
                    f"%d{step} = arith.constant {draw(st.sampled_from((3, -7, 100)))} : i64"
                )
                y = f"%d{step}"
            if kind in SHIFTS:
                lines.append(
                    f"%d{step} = arith.constant {draw(st.sampled_from((1, 4, 31, 40)))} : i64"
                )
                y = f"%d{step}"
            lines.append(f"{name} = arith.{kind} {x}, {y} : i64")
        known += 1
    last = known - 1
    match draw(st.sampled_from(("wide", "low", "float", "compare"))):
        case "wide":
            lines.append(
                f"%w = arith.addi %v{last}, %v0 : i64\n    %y = arith.trunci %w : i64 to i32"
            )
        case "low":
            lines.append(f"%y = arith.trunci %v{last} : i64 to i32")
        case "float":
            lines.append(f"%w = arith.sitofp %v{last} : i64 to f32")
            lines.append("%y = arith.bitcast %w : f32 to i32")
        case _:
            lines.append(f"%w = arith.cmpi slt, %v{last}, %v3 : i64")
            lines.append("%y = arith.extui %w : i1 to i32")
    return "\n    ".join(lines)


D = "affine_map<(d0) -> (d0)>"


def integer_module(body: str) -> str:
    n = COUNT
    types = ", ".join(f"tensor<{n}x{t}>" for t in ("i8", "i16", "i32", "f32"))
    return f"""func.func @main(%A: tensor<{n}xi8>, %B: tensor<{n}xi16>, %C: tensor<{n}xi32>, %F: tensor<{n}xf32>) -> tensor<{n}xi32> {{
  %half = arith.constant 0.5 : f32
  %low = arith.constant -100.0 : f32
  %high = arith.constant 3.0e5 : f32
  %e = tensor.empty() : tensor<{n}xi32>
  %r = linalg.generic {{indexing_maps = [{D}, {D}, {D}, {D}, {D}], iterator_types = ["parallel"]}} ins(%A, %B, %C, %F : {types}) outs(%e : tensor<{n}xi32>) {{
  ^bb0(%a: i8, %b: i16, %c: i32, %f: f32, %o: i32):
    {body}
    linalg.yield %y : i32
  }} -> tensor<{n}xi32>
  func.return %r : tensor<{n}xi32>
}}"""  # noqa: E501


def narrowed(text: str, passes: str = "narrow-to-32-bits"):
    ctx = context()
    module = parse_text(text, ctx=ctx)
    PassPipeline.parse_spec(Universe.get_multiverse().all_passes, passes).apply(ctx, module)
    module.verify()
    return module


def some(count: int) -> settings:
    """Returns settings for `count` examples that are the same in each run."""
    return settings(
        max_examples=count,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        derandomize=True,
    )


@given(integer_bodies(), st.integers(0, 2**32 - 1))
@some(15)
def test_narrowed_integers_have_the_same_results(body: str, seed: int):
    compare_integers(body, seed)


@pytest.mark.long
@given(integer_bodies(), st.integers(0, 2**32 - 1))
@some(500)
def test_many_narrowed_integers_have_the_same_results(body: str, seed: int):
    compare_integers(body, seed)


def compare_integers(body: str, seed: int):
    text = integer_module(body)
    random = np.random.default_rng(seed)
    given = [
        random.integers(-128, 128, COUNT).astype(np.int8),
        random.integers(-(2**15), 2**15, COUNT).astype(np.int16),
        random.choice(np.array([0, 1, -1, 2**31 - 1, -(2**31), 12345], np.int32), COUNT),
        (random.standard_normal(COUNT) * 10.0 ** random.integers(0, 9)).astype(np.float32),
    ]
    expected = reference(parse_text(text), given)[0]
    found = reference(narrowed(text), given)[0]
    np.testing.assert_array_equal(found, expected, text_of(narrowed(text)))


FLOAT_STEPS = ("addf", "subf", "mulf", "divf", "maximumf", "minimumf")


@st.composite
def float_bodies(draw: st.DrawFn) -> str:
    """Returns a body of one to four f64 operations on f32 operands."""
    lines = ["%v0 = arith.extf %a : f32 to f64", "%v1 = arith.extf %b : f32 to f64"]
    lines.append(f"%v2 = arith.constant {draw(st.sampled_from(('0.1', '0.25', '-3.0')))} : f64")
    known = 3
    for _ in range(draw(st.integers(1, 4))):
        x, y = (f"%v{draw(st.integers(0, known - 1))}" for _ in range(2))
        kind = draw(st.sampled_from((*FLOAT_STEPS, "negf", "round")))
        name = f"%v{known}"
        if kind == "negf":
            lines.append(f"{name} = arith.negf {x} : f64")
        elif kind == "round":
            lines.append(f"%t{known} = arith.truncf {x} : f64 to f32")
            lines.append(f"{name} = arith.extf %t{known} : f32 to f64")
        else:
            lines.append(f"{name} = arith.{kind} {x}, {y} : f64")
        known += 1
    lines.append(f"%y = arith.truncf %v{known - 1} : f64 to f32")
    return "\n    ".join(lines)


@given(float_bodies(), st.integers(0, 2**32 - 1))
@some(12)
def test_narrowed_floats_have_the_same_bits(body: str, seed: int):
    compare_floats(body, seed)


@pytest.mark.long
@given(float_bodies(), st.integers(0, 2**32 - 1))
@some(300)
def test_many_narrowed_floats_have_the_same_bits(body: str, seed: int):
    compare_floats(body, seed)


def compare_floats(body: str, seed: int):
    n = COUNT
    text = f"""func.func @main(%A: tensor<{n}xf32>, %B: tensor<{n}xf32>) -> tensor<{n}xf32> {{
  %e = tensor.empty() : tensor<{n}xf32>
  %r = linalg.generic {{indexing_maps = [{D}, {D}, {D}], iterator_types = ["parallel"]}} ins(%A, %B : tensor<{n}xf32>, tensor<{n}xf32>) outs(%e : tensor<{n}xf32>) {{
  ^bb0(%a: f32, %b: f32, %o: f32):
    {body}
    linalg.yield %y : f32
  }} -> tensor<{n}xf32>
  func.return %r : tensor<{n}xf32>
}}"""  # noqa: E501
    random = np.random.default_rng(seed)
    scale = np.float32(10.0) ** random.integers(-40, 30, n).astype(np.float32)
    given = [(random.standard_normal(n) * scale).astype(np.float32) for _ in range(2)]
    expected = reference(parse_text(text), given)[0]
    found = reference(narrowed(text), given)[0]
    np.testing.assert_array_equal(found.view(np.uint32), expected.view(np.uint32))


ARGMAX = """func.func @main(%x: tensor<5x300xf32>) -> tensor<5xf32> {
  %low = arith.constant -3.0e38 : f32
  %none = arith.constant 0 : i64
  %e = tensor.empty() : tensor<5xf32>
  %n = tensor.empty() : tensor<5xi64>
  %f = linalg.fill ins(%low : f32) outs(%e : tensor<5xf32>) -> tensor<5xf32>
  %z = linalg.fill ins(%none : i64) outs(%n : tensor<5xi64>) -> tensor<5xi64>
  %m, %i = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a)>, affine_map<(a, b) -> (a)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<5x300xf32>) outs(%f, %z : tensor<5xf32>, tensor<5xi64>) {
  ^bb0(%v: f32, %o: f32, %p: i64):
    %j = linalg.index 1 : index
    %w = arith.index_cast %j : index to i64
    %c = arith.cmpf ogt, %v, %o : f32
    %u = arith.maximumf %v, %o : f32
    %q = arith.select %c, %w, %p : i64
    linalg.yield %u, %q : f32, i64
  } -> (tensor<5xf32>, tensor<5xi64>)
  %r = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%i : tensor<5xi64>) outs(%e : tensor<5xf32>) {
  ^bb0(%v: i64, %o: f32):
    %y = arith.sitofp %v : i64 to f32
    linalg.yield %y : f32
  } -> tensor<5xf32>
  func.return %r : tensor<5xf32>
}"""  # noqa: E501

SUM = """func.func @main(%x: tensor<3x200xi8>) -> tensor<3xf32> {
  %none = arith.constant 0 : i64
  %n = tensor.empty() : tensor<3xi64>
  %e = tensor.empty() : tensor<3xf32>
  %z = linalg.fill ins(%none : i64) outs(%n : tensor<3xi64>) -> tensor<3xi64>
  %s = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<3x200xi8>) outs(%z : tensor<3xi64>) {
  ^bb0(%v: i8, %o: i64):
    %w = arith.extsi %v : i8 to i64
    %k = arith.constant FACTOR : i64
    %p = arith.muli %w, %k : i64
    %q = arith.addi %o, %p : i64
    linalg.yield %q : i64
  } -> tensor<3xi64>
  %r = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%s : tensor<3xi64>) outs(%e : tensor<3xf32>) {
  ^bb0(%v: i64, %o: f32):
    %y = arith.sitofp %v : i64 to f32
    linalg.yield %y : f32
  } -> tensor<3xf32>
  func.return %r : tensor<3xf32>
}"""  # noqa: E501


def test_accumulators_are_narrowed_as_far_as_their_sums_fit():
    random = np.random.default_rng(1)
    x = random.standard_normal((5, 300)).astype(np.float32)
    module = narrowed(ARGMAX)
    assert "i64" not in text_of(module)
    np.testing.assert_array_equal(reference(module, [x])[0], x.argmax(1))
    bytes_ = random.integers(-128, 128, (3, 200)).astype(np.int8)
    # 200 * 128 * 83886 is just below 2^31, and one more of each is above.
    for factor, wide in ((83885, False), (83887, True)):
        text = SUM.replace("FACTOR", str(factor))
        module = narrowed(text)
        assert ("i64" in text_of(module)) == wide
        expected = reference(parse_text(text), [bytes_])[0]
        np.testing.assert_array_equal(reference(module, [bytes_])[0], expected)


def test_wide_values_stay_on_every_target():
    text = integer_module(
        "%w = arith.extsi %c : i32 to i64\n    %s = arith.muli %w, %w : i64\n"
        "    %z = arith.sitofp %s : i64 to f32\n    %y = arith.bitcast %z : f32 to i32"
    )
    for target in ("lavapipe", "qualcomm-adreno"):
        assert "i64" in text_of(narrowed(text, f"narrow-to-32-bits{{target={target}}}"))


def test_an_f64_argument_of_the_caller_is_refused_and_named():
    text = """func.func @main(%ids: tensor<4xf64>) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %r = linalg.generic {indexing_maps = [D, D], iterator_types = ["parallel"]} ins(%ids : tensor<4xf64>) outs(%e : tensor<4xf32>) {
  ^bb0(%v: f64, %o: f32):
    %y = arith.truncf %v : f64 to f32
    linalg.yield %y : f32
  } -> tensor<4xf32>
  func.return %r : tensor<4xf32>
}""".replace("D,", f"{D},").replace("D]", f"{D}]")  # noqa: E501
    with pytest.raises(PassFailedException, match=r"argument 0.* has no float64"):
        narrowed(text, "narrow-to-32-bits{target=qualcomm-adreno}")
