"""
Norms of few rows are fused into the products that read them.

Covers: kernel/row_sums, schedule/fold_rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from xdsl.dialects.builtin import FloatAttr, TensorType, f32
from xdsl.ir import Attribute

from xdsl_spirv.compiler.compiler import compile_module
from xdsl_spirv.compiler.pipeline import linalg_to_spirv
from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.runtime import run
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.modules import parse_text
from xdsl_spirv.runtime.program import Program

if TYPE_CHECKING:
    from tests.conftest import CheckBinaries
    from tests.passes.conftest import ReadFunction, Validate

FILE = "schedule/fold_norms.mlir"
TARGET = "nvidia-h200"

EPSILON = 1e-5


def types_of(m: int, n: int, k: int) -> dict[str, Attribute]:
    """Returns the aliases of fold_norms.mlir for a size."""
    shapes = {"x": [m, k], "rows": [m], "columns": [k], "w": [n, k], "y": [m, n]}
    types = {name: TensorType(f32, shape) for name, shape in shapes.items()}
    return {**types, "inverse": FloatAttr(1 / k, f32)}


def inputs_of(m: int, n: int, k: int, products: int) -> list[Array]:
    generator = np.random.default_rng(1)
    shapes = [(m, k), (k,), (m, n), *[(n, k)] * products]
    return [generator.standard_normal(shape).astype(np.float32) for shape in shapes]


def expected(x: Array, g: Any, bias: Any, *weights: Any) -> list[Array]:
    x = x.astype(np.float64)
    normal = x / np.sqrt((x**2).mean(1, keepdims=True) + EPSILON) * g
    return [normal @ w.T.astype(np.float64) + bias for w in weights]


def compiled(text: str) -> Program:
    return compile_module(parse_text(text), TARGET)


@pytest.mark.parametrize(
    ("name", "m", "n", "k"),
    [("once", 1, 37, 128), ("twice", 1, 300, 36), ("once", 3, 70, 130), ("twice", 2, 33, 259)],
)
def test_a_norm_becomes_part_of_its_products(
    name: str, m: int, n: int, k: int, read_function: ReadFunction, check_binaries: CheckBinaries
):
    made = compiled(read_function(FILE, name, **types_of(m, n, k)))
    products = {"once": 1, "twice": 2}[name]
    assert len(made.manifest.dispatches) == products
    check_binaries(made)
    arrays = inputs_of(m, n, k, products)
    checks = Checks.of("all")
    names = [buffer.name for buffer in made.manifest.inputs]
    results = run(made, dict(zip(names, arrays, strict=True)), checks=checks).values()
    assert not checks.report.findings, str(checks.report)
    for result, value in zip(results, expected(*arrays), strict=True):
        np.testing.assert_allclose(result, value, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize(
    ("name", "rows"), [pytest.param("shown", 1, id="read by others"), ("once", 64)]
)
def test_a_norm_with_other_users_or_many_rows_stays(
    name: str, rows: int, read_function: ReadFunction
):
    made = compiled(read_function(FILE, name, **types_of(rows, 64, 64)))
    assert len(made.manifest.dispatches) == 2


def test_the_pass_keeps_results(validate: Validate, read_function: ReadFunction):
    passes = linalg_to_spirv(TARGET)
    names = [each.name for each in passes]
    text = read_function(FILE, "twice", **types_of(2, 20, 24))
    validate(text, passes[: names.index("fold-norms") + 1], inputs=2)
