"""Imports matrix products and einsum as contractions with loops for batch, M, N and K."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl_spirv.dialects.schedule.symbolic_sizes import Size
from xdsl_spirv.frontends.onnx.nodes import Nodes
from xdsl_spirv.frontends.onnx.operators.reductions import summed
from xdsl_spirv.frontends.onnx.reading import Reader
from xdsl_spirv.frontends.onnx.registry import operator
from xdsl_spirv.frontends.onnx.scalars import Number, Scalars
from xdsl_spirv.frontends.onnx.values import Element, Tensor, sum_element


def multiply(b: Nodes, x: Tensor, y: Tensor, element: Element | None = None) -> Tensor:
    """Multiplies like `numpy.matmul`, with broadcast leading dimensions."""
    if not x.rank or not y.rank:
        b.refuse(f"{x} cannot be multiplied by {y}, because a scalar is not a matrix", "use Mul")
    a = b.reshape(x, [1, *x.sizes]) if x.rank == 1 else x
    c = b.reshape(y, [*y.sizes, 1]) if y.rank == 1 else y
    if _differ(a.sizes[-1], c.sizes[-2]):
        b.refuse(
            f"{x} cannot be multiplied by {y}: {a.sizes[-1]} columns, but {c.sizes[-2]} rows",
            "correct the shapes",
        )
    batch = b.broadcast(a.sizes[:-2], c.sizes[:-2])
    sizes: list[Size] = [*batch, a.sizes[-2], c.sizes[-1]]
    n = len(batch)
    loops = n + 3
    result = b.contract(
        a,
        [*_batch_map(a, batch), n, n + 2],
        c,
        [*_batch_map(c, batch), n + 2, n + 1],
        sizes,
        loops,
        element,
    )
    kept = [s for s, k in zip(sizes[n:], (x.rank > 1, y.rank > 1), strict=True) if k]
    return b.reshape(result, [*batch, *kept])


def _batch_map(t: Tensor, batch: Any) -> list[int | None]:
    own = t.sizes[:-2]
    first = len(batch) - len(own)
    return [None if s == 1 and batch[i] != 1 else i for i, s in enumerate(own, first)]


def _differ(a: Size, b: Size) -> bool:
    return isinstance(a, int) and isinstance(b, int) and a != b


@operator("MatMul")
def matmul(b: Nodes, x: Tensor, y: Tensor, /) -> Tensor:
    return multiply(b, x, y)


@operator("Gemm")
def gemm(
    b: Nodes,
    x: Tensor,
    y: Tensor,
    z: Tensor | None = None,
    /,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    broadcast: int = 1,
) -> Tensor:
    """Computes alpha x y + beta z. Transposed operands are read in place."""
    m, k = x.sizes if not transA else x.sizes[::-1]
    rows, n = y.sizes if not transB else y.sizes[::-1]
    if _differ(k, rows):
        b.refuse(
            f"{x} cannot be multiplied by {y}: {k} columns, but {rows} rows", "correct the shapes"
        )
    result = b.contract(x, [2, 0] if transA else [0, 2], y, [1, 2] if transB else [2, 1], [m, n], 3)
    if alpha != 1:
        result = b.elementwise(lambda s, x: x * _factor(x, alpha), result)
    if z is None or beta == 0:
        return result
    if beta != 1:
        z = b.elementwise(lambda s, z: z * _factor(z, beta), z)
    return b.elementwise(lambda s, z, x: x + z, z, result)


def _factor(x: Any, number: float) -> float | int:
    return number if x.element.is_float else int(number)


@operator("Einsum")
def einsum(b: Nodes, *tensors: Tensor, equation: str) -> Tensor:
    """Contracts the operands in order. Intermediate results are not rounded to narrow floats."""
    terms, right = _letters(b, equation, tensors)
    element = tensors[0].element
    if len(tensors) > 2:
        tensors = tuple(b.convert(t, sum_element(element)) for t in tensors)
    factors = [_diagonal(b, t, letters) for t, letters in zip(tensors, terms, strict=True)]
    product, of = factors[0]
    for number, (factor, letters) in enumerate(factors[1:], 2):
        later = set(right).union(*(other for _, other in factors[number:]))
        kept = "".join(c for c in dict.fromkeys(of + letters) if c in later)
        if number == len(factors):
            kept = right
        product, of = _contract_letters(b, product, of, factor, letters, kept), kept
    if len(factors) == 1:
        axes = [i for i, c in enumerate(of) if c not in right]
        product = b.convert(summed(b, product, axes, False), product.element) if axes else product
        of = "".join(c for c in of if c in right)
        product = b.transpose(product, [of.index(c) for c in right])
    return b.convert(product, element)


def _letters(b: Nodes, equation: str, tensors: Sequence[Tensor]) -> tuple[list[str], str]:
    """Returns the terms of an equation with a separate letter for each dimension of an ellipsis."""
    left, arrow, right = equation.replace(" ", "").replace("...", ".").partition("->")
    terms = left.split(",")
    if len(terms) != len(tensors):
        b.refuse(f"equation {equation!r} must have {len(tensors)} operands", "correct the equation")
    ranks = [t.rank - len(term) + 1 for t, term in zip(tensors, terms, strict=True) if "." in term]
    # As in numpy, the last dimensions of ellipses correspond.
    others = "".join(map(str, reversed(range(max(ranks, default=0)))))
    spread = [
        term.replace(".", others[len(others) - (t.rank - len(term) + 1) :])
        for t, term in zip(tensors, terms, strict=True)
    ]
    if not arrow:
        letters = sorted(c for c in set(left) if c.isalpha() and left.count(c) == 1)
        right = "." * bool(others) + "".join(letters)
    right = right.replace(".", others)
    fits = all(len(term) == t.rank for t, term in zip(tensors, spread, strict=True))
    if not fits or len(set(right)) != len(right) or not set(right) <= set("".join(spread)):
        b.refuse(f"the letters of {equation!r} do not fit the operands", "correct the equation")
    return spread, right


def _diagonal(b: Nodes, x: Tensor, letters: str) -> tuple[Tensor, str]:
    """Extracts the diagonals of repeated letters, so that each letter has one dimension."""
    once = "".join(dict.fromkeys(letters))
    if once == letters:
        return x, letters
    source = Reader(b, x)
    sizes = [x.sizes[letters.index(c)] for c in once]
    for c, size in zip(letters, x.sizes, strict=True):
        b.insist_equal(size, sizes[once.index(c)])

    def body(s: Scalars) -> Number:
        return source.read(s, [s.index(once.index(c)) for c in letters])

    return b.mapped(body, [], sizes, x.element), once


def _contract_letters(b: Nodes, x: Tensor, left: str, y: Tensor, right: str, kept: str) -> Tensor:
    """Contracts two operands over the letters that are not in `kept`; sizes of 1 are broadcast."""
    sizes: dict[str, Size] = {}
    for t, letters in ((x, left), (y, right)):
        for c, size in zip(letters, t.sizes, strict=True):
            sizes[c] = b.broadcast([sizes.get(c, 1)], [size])[0]
    order = kept + "".join(c for c in sizes if c not in kept)
    maps = [
        [
            None if s == 1 != sizes[c] else order.index(c)
            for c, s in zip(letters, t.sizes, strict=True)
        ]
        for t, letters in ((x, left), (y, right))
    ]
    return b.contract(x, maps[0], y, maps[1], [sizes[c] for c in kept], len(order))
