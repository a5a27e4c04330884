"""
Operators that multiply and add: contractions, whose loops sort into batch, M, N and K.
"""

from __future__ import annotations

from typing import Any

from xdsl_spirv.dialects.schedule.symbolic_sizes import Size
from xdsl_spirv.frontends.onnx.building import broadcast
from xdsl_spirv.frontends.onnx.nodes import Nodes
from xdsl_spirv.frontends.onnx.registry import operator
from xdsl_spirv.frontends.onnx.values import Element, Tensor


def multiply(b: Nodes, x: Tensor, y: Tensor, element: Element | None = None) -> Tensor:
    """numpy's matmul: leading dimensions are broadcast."""
    if not x.rank or not y.rank:
        b.refuse(f"{x} by {y}: a scalar", "use Mul")
    a = b.reshape(x, [1, *x.sizes]) if x.rank == 1 else x
    c = b.reshape(y, [*y.sizes, 1]) if y.rank == 1 else y
    if _differ(a.sizes[-1], c.sizes[-2]):
        b.refuse(f"{x} by {y}: {a.sizes[-1]} columns, {c.sizes[-2]} rows", "mend the shapes")
    batch = broadcast(a.sizes[:-2], c.sizes[:-2])
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
    """alpha x y + beta z. The products are read transposed where they stand."""
    m, k = x.sizes if not transA else x.sizes[::-1]
    rows, n = y.sizes if not transB else y.sizes[::-1]
    if _differ(k, rows):
        b.refuse(f"{x} by {y}: {k} columns, {rows} rows", "mend the shapes")
    result = b.contract(x, [2, 0] if transA else [0, 2], y, [1, 2] if transB else [2, 1], [m, n], 3)
    if alpha != 1:
        result = b.elementwise(lambda s, x: x * _factor(x, alpha), result)
    if z is None or beta == 0:
        return result
    return b.elementwise(lambda s, z, x: x + z * _factor(z, beta), z, result)


def _factor(x: Any, number: float) -> float | int:
    return number if x.element.is_float else int(number)


@operator("Einsum")
def einsum(b: Nodes, *tensors: Tensor, equation: str) -> Tensor:
    """Of one or two operands, without an ellipsis or a repeated index."""
    left, _, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if "." in equation or any(len(set(t)) != len(t) for t in terms) or len(terms) > 2:
        b.refuse(f"equation {equation!r}", "write it as MatMul and Transpose")
    if "->" not in equation:
        letters = sorted(set(left) - {","})
        right = "".join(c for c in letters if left.count(c) == 1)
    sizes = {
        c: s for t, x in zip(terms, tensors, strict=True) for c, s in zip(t, x.sizes, strict=True)
    }
    order = right + "".join(c for c in sizes if c not in right)
    maps = [[order.index(c) for c in t] for t in terms]
    shape = [sizes[c] for c in right]
    if len(tensors) == 1:
        wide = b.generic
        out = (
            b.fill(0, shape, tensors[0].element),
            tensors[0].element,
            shape,
            list(range(len(right))),
        )
        reduced = range(len(right), len(order))
        return wide(
            [(tensors[0], maps[0])], [out], len(order), lambda s, x, total: [total + x], reduced
        )[0]
    return b.contract(tensors[0], maps[0], tensors[1], maps[1], shape, len(order))
