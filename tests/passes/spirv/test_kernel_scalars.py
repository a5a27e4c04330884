"""
Every scalar operation in a kernel agrees with numpy on edge values and random values.

Six operations make a kernel. Integers, comparisons, conversions and roundings must be exact. A
function has an error limit in ulps for the interpreter, where GLSL.std.450's instructions are
exact, and one for lavapipe, which includes Mesa's errors.

Covers: spirv/kernel_code, spirv/kernel_integers, spirv/kernel_math, spirv/kernel_template.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from xdsl_spirv.compiler.compiler import compile_module
from xdsl_spirv.compiler.pipeline import linalg_to_spirv
from xdsl_spirv.interpreter import interpret
from xdsl_spirv.runtime import run
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.modules import context, parse_text
from xdsl_spirv.testing.dispatches import Dispatch

if TYPE_CHECKING:
    from tests.conftest import DispatchOf, RunOnLavapipe


COUNT = 256

KERNEL = 6
"""Number of operations in a kernel."""

EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 1e-6, -1e-6, 3.0, 4.0, -4.0, 30.0, -30.0]
STRANGE = [math.inf, -math.inf, math.nan]

ABSOLUTE = 2.0**-22
"""Absolute error of a sine, whose relative error is unbounded near zeros."""

NONE = "<{fastmath = #arith.fastmath<none>}>"


def floats(low: float, high: float, strange: bool = False) -> Array:
    """Returns edge values in an interval, infinities and NaN if `strange`, then random values."""
    edges = [x for x in EDGES if low <= x <= high] + (STRANGE if strange else [])
    rest = np.random.default_rng(1).uniform(low, high, COUNT - len(edges))
    return np.array([*edges, *rest], np.float32)


def integers(type: type[np.signedinteger[Any]], low: int | None = None) -> Array:
    info = np.iinfo(type)
    edges = [0, 1, -1, 2, -2, 7, info.max, info.max - 1, info.min + 1, 100, -100]
    rest = np.random.default_rng(2).integers(info.min + 1, info.max, COUNT - len(edges))
    values = np.array([*edges, *rest], type)
    return values if low is None else np.maximum(np.abs(values), low).astype(type)


X, POSITIVE, UNIT = floats(-8, 8), floats(1e-3, 50), floats(-0.999, 0.999)
ANY = floats(-40, 40, strange=True)
OTHER = np.roll(ANY, 5)
HALF = X.astype(np.float16)
I32, I8, NONZERO = integers(np.int32), integers(np.int8), integers(np.int32, 1)
SHIFT = (np.arange(COUNT) % 32).astype(np.int32)
BITS = np.arange(COUNT) % 3 == 0


@dataclass(frozen=True)
class Case:
    """`op` on inputs gives `expected` of type `result` within `ulps` (interpreter, lavapipe)."""

    op: str
    expected: Callable[..., Any]
    inputs: tuple[Array, ...]
    result: str
    ulps: tuple[float, float] = (0, 0)
    properties: str = ""

    @property
    def name(self) -> str:
        return f"{self.op}_{'_'.join(map(element, self.inputs))}_{self.result}{self.properties}"


def element(array: Array) -> str:
    names = {"float32": "f32", "float16": "f16", "int32": "i32", "int8": "i8", "bool": "i1"}
    return names[array.dtype.name]


NUMPY: dict[str, Any] = {
    "f32": np.float32,
    "f16": np.float16,
    "i32": np.int32,
    "i8": np.int8,
    "i1": np.bool_,
}

wide_erf = np.vectorize(math.erf)


def unary(op: str, function: Callable[..., Any], x: Array, here: float, there: float) -> list[Case]:
    """Returns a case in f32 with error limits `here` and `there`, and one in f16."""
    half = x.astype(np.float16)
    return [
        Case(op, function, (x,), "f32", (here, there), NONE),
        Case(op, function, (half,), "f16", (1, 1.5), NONE),
    ]


def waves() -> list[Case]:
    """Returns cases of sine and cosine for arguments up to 1000, with an absolute error bound."""
    x = floats(-8, 8) * np.float32(125)
    return [
        Case("math.sin", np.sin, (x,), "f32", (ABSOLUTE, ABSOLUTE), NONE),
        Case("math.cos", np.cos, (x,), "f32", (ABSOLUTE, ABSOLUTE), NONE),
    ]


def compare(predicate: int, function: Callable[..., Any]) -> Case:
    properties = f"<{{predicate = {predicate} : i64, fastmath = #arith.fastmath<none>}}>"
    return Case("arith.cmpf", function, (ANY, OTHER), "i1", properties=properties)


def compare_integers(predicate: int, function: Callable[..., Any]) -> Case:
    properties = f"<{{predicate = {predicate} : i64}}>"
    other = np.where(np.arange(COUNT) % 4 == 0, I32, np.roll(I32, 7))
    return Case("arith.cmpi", function, (I32, other), "i1", properties=properties)


def binary(op: str, function: Callable[..., Any], x: Array, y: Array, result: str) -> Case:
    return Case(op, function, (x, y), result, properties=NONE if result[0] == "f" else "")


def unordered(a: Array, b: Array) -> Array:
    return np.isnan(a) | np.isnan(b)


def unsigned(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function on operands reinterpreted as unsigned."""
    return lambda a, b: function(a.view(np.uint32), b.view(np.uint32)).astype(np.uint32).view("i4")


def truncated(a: Array, b: Array) -> Array:
    """Returns the quotient rounded toward 0."""
    wide = a.astype(np.int64)
    return (np.sign(wide) * np.sign(b) * (abs(wide) // abs(b.astype(np.int64)))).astype(np.int32)


CASES: list[Case] = [
    *unary("math.exp", np.exp, X, 1, 20),
    *unary("math.exp2", np.exp2, X, 1, 20),
    *unary("math.expm1", np.expm1, X, 3, 20),
    *unary("math.log", np.log, POSITIVE, 1, 8),
    *unary("math.log2", np.log2, POSITIVE, 1, 8),
    *unary("math.log1p", np.log1p, floats(-0.9, 50), 3, 8),
    *unary("math.log10", np.log10, POSITIVE, 2, 8),
    *unary("math.sqrt", np.sqrt, POSITIVE, 1, 3),
    *unary("math.rsqrt", lambda x: 1 / np.sqrt(x), POSITIVE, 1, 4),
    *unary("math.tanh", np.tanh, X, 3, 8),
    *unary("math.erf", wide_erf, X, 4, 12),
    *unary("math.sinh", np.sinh, X, 4, 40),
    *unary("math.cosh", np.cosh, X, 4, 40),
    *waves(),
    *unary("math.atan", np.arctan, X, 4, 8),
    *unary("math.asin", np.arcsin, UNIT, 5, 12),
    *unary("math.acos", np.arccos, UNIT, 5, 12),
    *unary("math.asinh", np.arcsinh, X, 5, 12),
    *unary("math.acosh", np.arccosh, floats(1, 50), 5, 12),
    *unary("math.atanh", np.arctanh, UNIT, 5, 12),
    *unary("math.cbrt", np.cbrt, X, 3, 6),
    *unary("math.floor", np.floor, X, 0, 0),
    *unary("math.ceil", np.ceil, X, 0, 0),
    *unary("math.trunc", np.trunc, X, 0, 0),
    *unary("math.roundeven", np.rint, X, 0, 0),
    *unary("math.absf", np.abs, X, 0, 0),
    Case(
        "math.round",
        lambda x: np.trunc(x) + np.copysign(abs(x - np.trunc(x)) >= 0.5, x),
        (X,),
        "f32",
        properties=NONE,
    ),
    *[
        Case("arith." + op, f, (ANY, OTHER), "f32", (0, 2.5 if op == "divf" else 0), NONE)
        for op, f in (
            ("addf", np.add),
            ("subf", np.subtract),
            ("mulf", np.multiply),
            ("divf", np.divide),
            ("minimumf", np.minimum),
            ("maximumf", np.maximum),
            ("minnumf", np.fmin),
            ("maxnumf", np.fmax),
        )
    ],
    binary("arith.remf", np.fmod, X, np.ceil(np.roll(POSITIVE, 3)), "f32"),
    Case("arith.negf", np.negative, (ANY,), "f32", properties=NONE),
    binary("math.copysign", np.copysign, X, np.roll(X, 1), "f32"),
    Case("math.atan2", np.arctan2, (X, np.roll(X, 9)), "f32", (5, 12), NONE),
    Case("math.powf", np.power, (POSITIVE, np.roll(UNIT, 3) * 3), "f32", (12, 80), NONE),
    compare(0, lambda a, b: np.zeros_like(a, bool)),
    compare(1, np.equal),
    compare(2, np.greater),
    compare(3, np.greater_equal),
    compare(4, np.less),
    compare(5, np.less_equal),
    compare(6, lambda a, b: (a != b) & ~unordered(a, b)),
    compare(7, lambda a, b: ~unordered(a, b)),
    compare(8, lambda a, b: (a == b) | unordered(a, b)),
    compare(9, lambda a, b: (a > b) | unordered(a, b)),
    compare(10, lambda a, b: (a >= b) | unordered(a, b)),
    compare(11, lambda a, b: (a < b) | unordered(a, b)),
    compare(12, lambda a, b: (a <= b) | unordered(a, b)),
    compare(13, np.not_equal),
    compare(14, unordered),
    compare(15, lambda a, b: np.ones_like(a, bool)),
    compare_integers(0, np.equal),
    compare_integers(1, np.not_equal),
    compare_integers(2, np.less),
    compare_integers(5, np.greater_equal),
    compare_integers(6, lambda a, b: a.view("u4") < b.view("u4")),
    compare_integers(9, lambda a, b: a.view("u4") >= b.view("u4")),
    *[
        binary("arith." + op, f, I32, NONZERO, "i32")
        for op, f in (
            ("addi", np.add),
            ("subi", np.subtract),
            ("muli", np.multiply),
            ("divsi", truncated),
            ("remsi", np.fmod),
            ("floordivsi", np.floor_divide),
            ("ceildivsi", lambda a, b: -(-a.astype(np.int64) // b)),
            ("divui", unsigned(np.floor_divide)),
            ("remui", unsigned(np.remainder)),
            ("minsi", np.minimum),
            ("maxsi", np.maximum),
            ("minui", unsigned(np.minimum)),
            ("maxui", unsigned(np.maximum)),
            ("andi", np.bitwise_and),
            ("ori", np.bitwise_or),
            ("xori", np.bitwise_xor),
        )
    ],
    binary("arith.shli", np.left_shift, I32, SHIFT, "i32"),
    binary("arith.shrsi", np.right_shift, I32, SHIFT, "i32"),
    binary("arith.shrui", unsigned(np.right_shift), I32, SHIFT, "i32"),
    *[
        binary("arith." + op, f, BITS, np.roll(BITS, 1), "i1")
        for op, f in (
            ("addi", np.logical_xor),
            ("subi", np.logical_xor),
            ("muli", np.logical_and),
            ("minsi", np.logical_or),
            ("maxsi", np.logical_and),
            ("minui", np.logical_and),
            ("maxui", np.logical_or),
            ("andi", np.logical_and),
            ("ori", np.logical_or),
            ("xori", np.logical_xor),
        )
    ],
    # Division by 1 and shifts by 0, because all other operands give poison.
    *[
        binary(f"arith.{op}", lambda a, b: a, BITS, np.full_like(BITS, "div" in op), "i1")
        for op in "divsi divui floordivsi ceildivsi ceildivui shli shrsi shrui".split()
    ],
    *[
        binary(f"arith.{op}", lambda a, b: a & ~b, BITS, np.ones_like(BITS), "i1")
        for op in ("remsi", "remui")
    ],
    binary("arith.addi", np.add, I8, np.roll(I8, 3), "i8"),
    Case("arith.select", np.where, (BITS, X, np.roll(X, 1)), "f32"),
    Case("arith.extsi", lambda x: x.astype(np.int32), (I8,), "i32"),
    Case("arith.extui", lambda x: x.view(np.uint8).astype(np.int32), (I8,), "i32"),
    Case("arith.extui", lambda x: x.astype(np.int32), (BITS,), "i32"),
    Case("arith.extsi", lambda x: -x.astype(np.int32), (BITS,), "i32"),
    Case("arith.trunci", lambda x: x.astype(np.int8), (I32,), "i8"),
    Case("arith.trunci", lambda x: (x & 1).astype(bool), (I32,), "i1"),
    Case("arith.extf", lambda x: x.astype(np.float32), (HALF,), "f32"),
    Case("arith.truncf", lambda x: x.astype(np.float16), (X,), "f16", (0, 1)),
    Case("arith.sitofp", lambda x: x.astype(np.float32), (I32,), "f32"),
    Case("arith.uitofp", lambda x: x.view("u4").astype(np.float32), (I32,), "f32", (0, 1)),
    Case("arith.sitofp", lambda x: x.astype(np.float16), (I8,), "f16"),
    Case("arith.uitofp", lambda x: x.astype(np.float32), (BITS,), "f32"),
    Case("arith.fptosi", lambda x: x.astype(np.int32), (X,), "i32"),
    Case("arith.fptosi", lambda x: x.astype(np.int8), (X,), "i8"),
    Case("arith.fptoui", lambda x: x.astype(np.int32), (POSITIVE,), "i32"),
    Case("arith.bitcast", lambda x: x.view(np.int32), (ANY,), "i32"),
    Case("math.absi", np.abs, (I32,), "i32"),
    Case(
        "math.ctlz",
        lambda x: 32 - np.vectorize(int.bit_length)(x.view("u4").astype(object)),
        (I32,),
        "i32",
    ),
    Case("math.ctpop", lambda x: np.bitwise_count(x.view("u4")), (I32,), "i32"),
    Case("math.isnan", np.isnan, (ANY,), "i1", properties=NONE),
    Case("math.isfinite", np.isfinite, (ANY,), "i1", properties=NONE),
]

GROUPS = [CASES[start : start + KERNEL] for start in range(0, len(CASES), KERNEL)]


def text(cases: Sequence[Case]) -> tuple[str, list[Array]]:
    """Returns one linalg.generic with each case's operation, and its inputs."""
    inputs = [x for case in cases for x in case.inputs]
    names = iter(f"%x{i}" for i in range(len(inputs)))
    body: list[str] = []
    for number, case in enumerate(cases):
        operands = ", ".join(next(names) for _ in case.inputs)
        types = ", ".join(map(element, case.inputs))
        body.append(
            f'%y{number} = "{case.op}"({operands}) {case.properties} : ({types}) -> {case.result}'
        )
    arguments = [f"%x{i}: {element(x)}" for i, x in enumerate(inputs)]
    arguments += [f"%o{i}: {case.result}" for i, case in enumerate(cases)]
    tensors = [f"tensor<{COUNT}x{element(x)}>" for x in inputs]
    results = ", ".join(f"tensor<{COUNT}x{case.result}>" for case in cases)
    count = len(inputs) + len(cases)
    empties = "\n".join(
        f"%e{i} = tensor.empty() : tensor<{COUNT}x{case.result}>" for i, case in enumerate(cases)
    )
    yielded = ", ".join(f"%y{i}" for i in range(len(cases)))
    kinds = ", ".join(case.result for case in cases)
    every = ", ".join(f"%e{i}" for i in range(len(cases)))
    given = ", ".join(f"%a{i}" for i in range(len(inputs)))
    return (
        f"""
    func.func @main({", ".join(f"%a{i}: {t}" for i, t in enumerate(tensors))}) -> ({results}) {{
      {empties}
      %r:{len(cases)} = "linalg.generic"({given}, {every}) <{{
        indexing_maps = [{", ".join(["affine_map<(d0) -> (d0)>"] * count)}],
        iterator_types = [#linalg.iterator_type<parallel>],
        operandSegmentSizes = array<i32: {len(inputs)}, {len(cases)}>}}> ({{
      ^bb0({", ".join(arguments)}):
        {chr(10).join(body)}
        "linalg.yield"({yielded}) : ({kinds}) -> ()
      }}) : ({", ".join(tensors)}, {results}) -> ({results})
      func.return {", ".join(f"%r#{i}" for i in range(len(cases)))} : {results}
    }}""",
        inputs,
    )


def check(case: Case, result: Array, device: int) -> None:
    with np.errstate(all="ignore"):
        exact = case.result[0] != "f" or case.ulps[device] == 0
        wide = [x if exact or x.dtype.kind != "f" else x.astype("f8") for x in case.inputs]
        right = np.asarray(case.expected(*wide))
        if exact:
            right = right.astype(NUMPY[case.result])
            assert np.array_equal(result, right, equal_nan=case.result[0] == "f"), case.name
            return
        rounded = right.astype(result.dtype)
        error = np.abs(result.astype(np.float64) - right)
        if case.ulps[device] != ABSOLUTE:
            error /= np.spacing(np.abs(rounded)).astype("f8")
    error[(result == rounded) | (np.isnan(result) & np.isnan(right))] = 0
    worst = int(np.argmax(error))
    at = [float(x[worst]) for x in case.inputs]
    assert error[worst] <= case.ulps[device], (
        f"{case.name}{at} = {result[worst]}, not {right[worst]}: {error[worst]} ulp"
    )


@pytest.mark.parametrize("number", range(len(GROUPS)))
def test_scalars_are_right_on_the_interpreter(number: int):
    source, inputs = text(GROUPS[number])
    ctx = context()
    module: ModuleOp = parse_text(source, ctx=ctx)
    stages: tuple[ModulePass, ...] = linalg_to_spirv("lavapipe")
    for stage in stages:
        stage.apply(ctx, module)
    results = interpret(module, inputs, subgroup_size=8)
    for case, result in zip(GROUPS[number], results, strict=True):
        check(case, result, 0)


@pytest.mark.vulkan
def test_scalars_are_right_on_lavapipe(run_on_lavapipe: RunOnLavapipe, dispatch_of: DispatchOf):
    jobs: list[Dispatch] = []
    for cases in GROUPS:
        source, inputs = text(cases)
        program = compile_module(parse_text(source, ctx=context()), "lavapipe")
        outputs = [np.zeros(COUNT, NUMPY[case.result]) for case in cases]
        names = *program.manifest.arguments, *program.manifest.results
        buffers = [*(x.copy() for x in inputs), *outputs]
        jobs.append(dispatch_of(program, dict(zip(names, buffers, strict=True))))
    run_on_lavapipe(jobs, 300)
    for cases, done in zip(GROUPS, jobs, strict=True):
        results = list(done.buffers.values())[-len(cases) :]
        for case, result in zip(cases, results, strict=True):
            check(case, result, 1)


def test_a_corrected_quotient_is_exact():
    text = """
func.func @main(%x: tensor<96xf32>) -> tensor<96xf32> {
  %s = arith.constant 0.193591073 : f32
  %e = tensor.empty() : tensor<96xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x : tensor<96xf32>) outs(%e : tensor<96xf32>) {
  ^bb0(%v: f32, %o: f32):
    %q = arith.divf %v, %s : f32
    %w = math.roundeven %q : f32
    linalg.yield %w : f32
  } -> tensor<96xf32>
  func.return %r : tensor<96xf32>
}
"""  # noqa: E501
    scale = np.float32(0.193591073)
    middles = np.arange(-40, 40, dtype=np.float32) * np.float32(0.0967955366)
    others = np.array([np.inf, -np.inf, 0, -0.0, 3e38, -3e38, 1e7, 2e6, 1e-30, 5], np.float32)
    x = np.resize(np.concatenate([middles, others]), 96)
    (found,) = run(compile_module(parse_text(text), "nvidia-h200"), {"x": x}).values()
    assert np.array_equal(found, np.rint(x / scale))
