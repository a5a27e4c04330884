"""Kernels with single operations on random values and edge cases, and with float matrices."""

from __future__ import annotations

import numpy as np

from xdsl_spirv.testing.differential.float_rules import RULES
from xdsl_spirv.testing.differential.kernel import Kernel
from xdsl_spirv.testing.differential.legal import Legal, spacing
from xdsl_spirv.testing.differential.rules import Rule
from xdsl_spirv.testing.differential.types import F32, Array, Type

OPERATIONS = 8


def operations(k: Kernel) -> None:
    """Fills the kernel with random operations on random types."""
    for _ in range(OPERATIONS):
        k.draw(lambda: apply(k, RULES[int(k.rng.integers(len(RULES)))]))


def apply(k: Kernel, rule: Rule, scalar: str | None = None, count: int | None = None) -> None:
    """Adds to the kernel one operation on new inputs, and an output for its result."""
    scalar = scalar or str(k.rng.choice(rule.scalars))
    type = Type(scalar, count or int(k.rng.choice(rule.counts)))
    values: list[str] = []
    buffers: list[int] = []
    for number in range(rule.operands):
        draw = rule.draws[number] if number < len(rule.draws) else None
        if scalar == "i1":
            value, buffer = k.input(
                type.of("i32"), k.rng.integers(0, 2, (k.invocations, type.count))
            )
            zero = k.constant(0, type.of("i32"))
            value = k.op(f"spirv.INotEqual {value}, {zero} : {type.of('i32')}")
        elif draw is None:
            value, buffer = k.input(type)
        else:
            value, buffer = k.input(type, draw(k.rng, (k.invocations, type.count)))
        values.append(value)
        buffers.append(buffer)
    computed, result = rule.emit(k, type, values)
    k.output(computed, result, f"{rule.name} : {type}", rule.legal(type), buffers)


# Small integers make matrix results exact in every order of summation.


def matrices(k: Kernel) -> None:
    """Fills the kernel with transpositions, products and sums of matrices of small integers."""
    rows, columns = (int(k.rng.integers(2, 5)) for _ in range(2))
    column, row = Type("f32", rows), Type("f32", columns)
    matrix, turned = (f"!spirv.matrix<{n} x {t}>" for n, t in ((columns, column), (rows, row)))
    parts = [k.input(column, _whole_range(k, column)) for _ in range(columns)]
    constructed = k.op(
        f"spirv.CompositeConstruct {', '.join(p for p, _ in parts)} : "
        f"({', '.join([str(column)] * columns)}) -> {matrix}"
    )
    first, _ = k.input(row, _whole_range(k, row))
    second, _ = k.input(column, _whole_range(k, column))
    scalar, _ = k.input(F32, _whole_range(k, F32))
    product = k.op(f"spirv.MatrixTimesVector {constructed}, {first} : {matrix}, {row} -> {column}")
    k.output(product, column, "MatrixTimesVector")
    product = k.op(f"spirv.VectorTimesMatrix {second}, {constructed} : {column}, {matrix} -> {row}")
    k.output(product, row, "VectorTimesMatrix")
    outer = k.op(f"spirv.OuterProduct {second}, {first} : {column}, {row} -> {matrix}")
    scaled = k.op(f"spirv.MatrixTimesScalar {outer}, {scalar} : {matrix}, f32")
    transposed = k.op(f"spirv.Transpose {constructed} : {matrix} -> {turned}")
    square = f"!spirv.matrix<{columns} x {row}>"
    multiplied = k.op(
        f"spirv.MatrixTimesMatrix {transposed}, {scaled} : {turned}, {matrix} -> {square}"
    )
    for what, value, type, kind in (
        ("OuterProduct, MatrixTimesScalar", scaled, matrix, column),
        ("Transpose", transposed, turned, row),
        ("MatrixTimesMatrix", multiplied, square, row),
    ):
        last = columns - 1 if type != turned else rows - 1
        part = k.op(f"spirv.CompositeExtract {value}[{last} : i32] : {type}")
        k.output(part, kind, what)
    _square_functions(k)


def _square_functions(k: Kernel) -> None:
    n = int(k.rng.integers(2, 5))
    column = Type("f32", n)
    matrix = f"!spirv.matrix<{n} x {column}>"
    parts: list[str] = []
    for number in range(n):
        values = k.rng.uniform(-0.2, 0.2, (k.invocations, n))
        values[:, number] += 1
        parts.append(k.input(column, values)[0])
    types = ", ".join([str(column)] * n)
    square = k.op(f"spirv.CompositeConstruct {', '.join(parts)} : ({types}) -> {matrix}")

    def near(result: Array) -> Array:
        return 200 * spacing(np.ones_like(result), np.dtype(np.float32))

    legal = Legal(near, "products and sums of n! terms near 1")
    k.output(k.op(f"spirv.GL.Determinant {square} : {matrix} -> f32"), F32, "GL.Determinant", legal)
    inverse = k.op(f"spirv.GL.MatrixInverse {square} : {matrix}")
    part = k.op(f"spirv.CompositeExtract {inverse}[{n - 1} : i32] : {matrix}")
    k.output(part, column, "GL.MatrixInverse", legal)


def _whole_range(k: Kernel, type: Type) -> Array:
    return k.rng.integers(-8, 9, (k.invocations, type.count))
