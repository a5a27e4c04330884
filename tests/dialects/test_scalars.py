"""
Every function of `math` has a record with true bounds.

The record's error covers the errors of the function's instructions, and the record's range
contains every value of the function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects import math
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from xdsl_spirv.compiler.pipeline import linalg_to_spirv
from xdsl_spirv.dialects.scalars.functions import FUNCTIONS, RECORDS, ScalarFunction
from xdsl_spirv.dialects.scalars.images import give_nan
from xdsl_spirv.interpreter import interpret
from xdsl_spirv.runtime.modules import context, parse_text
from xdsl_spirv.upstream.scalar_extensions import extensions_of

COUNT = 512

MATH: list[type[Operation]] = [*math.Math.operations, *extensions_of("math")]

BOUNDED = [record for record in RECORDS if record.image is not give_nan]


def name(record: ScalarFunction) -> str:
    return record.op.name


def test_every_function_has_a_record():
    lacking = {op.name for op in MATH} - {op.name for op in FUNCTIONS}
    assert not lacking, f"write a ScalarFunction for {lacking}"


def points(record: ScalarFunction) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Returns numbers of every magnitude up to 80, many near 1, and the function's edge cases."""
    random = np.random.default_rng(len(name(record)))
    near = random.uniform(-2, 2, COUNT // 2)
    far = random.choice([-1, 1], COUNT // 2) * 2.0 ** random.uniform(-20, 6.3, COUNT // 2)
    values = np.concatenate([near, far])
    values[:6] = [0.0, 1.0, -1.0, 0.5, -0.5, 2.5]
    return values.astype(np.float32)


def program(op: str, element: str = "f32") -> str:
    """Returns a function that applies `op` to every element."""
    vector = f"tensor<{COUNT}x{element}>"
    return f"""
    func.func @main(%x: {vector}) -> {vector} {{
      %e = tensor.empty() : {vector}
      %r = linalg.generic {{
        indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
        iterator_types = ["parallel"]}} ins(%x : {vector}) outs(%e : {vector}) {{
      ^bb0(%v: {element}, %o: {element}):
        %y = "{op}"(%v) <{{fastmath = #arith.fastmath<none>}}> : ({element}) -> {element}
        linalg.yield %y : {element}
      }} -> {vector}
      func.return %r : {vector}
    }}"""


@pytest.mark.parametrize("record", BOUNDED, ids=name)
def test_the_error_in_a_record_bounds_the_error_of_the_instructions(record: ScalarFunction):
    x = points(record)
    ctx = context()
    module: ModuleOp = parse_text(program(name(record)), ctx=ctx)
    for stage in linalg_to_spirv("lavapipe"):
        stage.apply(ctx, module)
    (result,) = interpret(module, [x], subgroup_size=8)
    with np.errstate(all="ignore"):
        exact = np.asarray(record.meaning(x.astype(np.float64)))
        ulps = record.ulps(np.abs(x.astype(np.float64))) if callable(record.ulps) else record.ulps
        allowed = record.absolute + np.maximum(ulps, 0 if record.is_exact else 1) * np.spacing(
            np.abs(exact).astype(np.float32)
        ).astype(np.float64)
        error = np.abs(result.astype(np.float64) - exact)
    same = (np.isnan(exact) & np.isnan(result)) | (result == exact.astype(np.float32))
    wrong = ~same & ~(error <= allowed)
    assert not wrong.any(), (x[wrong][:5], result[wrong][:5], exact[wrong][:5])


@pytest.mark.parametrize(("op", "meaning"), [(math.ExpOp, np.exp), (math.LogOp, np.log)])
def test_binary64_errs_by_two_ulp(op: type[Operation], meaning: Callable[[Any], Any]) -> None:
    random = np.random.default_rng(64)
    x = random.uniform(-745, 709, COUNT) if op is math.ExpOp else random.uniform(0, 2, COUNT)
    x[: COUNT // 4] = 2.0 ** random.uniform(-1074, 1023, COUNT // 4)
    x[-12:] = [0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 710, -746, 5e-324, 1e308, 709.782712893384]
    ctx = context()
    module: ModuleOp = parse_text(program(op.name, "f64"), ctx=ctx)
    for stage in linalg_to_spirv("lavapipe"):
        stage.apply(ctx, module)
    (result,) = interpret(module, [x], subgroup_size=8)
    with np.errstate(all="ignore"):
        exact = meaning(x.astype(np.longdouble))
        error = np.abs(result - exact) <= 2 * np.spacing(np.abs(exact.astype(np.float64)))
    rounded = exact.astype(np.float64)
    same = (np.isnan(rounded) & np.isnan(result)) | (result == rounded)
    assert (error | same).all(), (x[~(error | same)][:5], result[~(error | same)][:5])


@pytest.mark.parametrize("record", BOUNDED, ids=name)
def test_the_range_in_a_record_contains_every_value(record: ScalarFunction):
    ends = points(record).astype(np.float64)
    other = np.roll(ends, 7)
    low, high = np.minimum(ends, other), np.maximum(ends, other)
    with np.errstate(all="ignore"):
        least, most = record.image(record.meaning, (low, high))
        for share in np.linspace(0, 1, 41):
            value = record.meaning(np.clip(low + share * (high - low), low, high))
            anything = np.isnan(least) | np.isnan(most)
            inside = (least <= value) & (value <= most)
            slack = np.isclose(value, least, rtol=1e-12) | np.isclose(value, most, rtol=1e-12)
            assert (anything | inside | slack).all()


@pytest.mark.parametrize("op", [math.LogOp, math.Log2Op, math.Log10Op])
def test_logarithms_near_one_have_the_error_that_vulkan_allows(op: type[Operation]):
    """Vulkan allows an error of 2^-21 between 1/2 and 2."""
    (record,) = (record for record in RECORDS if record.op is op)
    assert record.absolute >= 2.0**-21
