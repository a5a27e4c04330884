"""
Kernels with SPV_KHR_integer_dot_product: every form, component width, length and result width.

A saturating form is undefined if the sum of the products exceeds the result's type before the
accumulator is added (DOT-17). If the result is narrow, the components are therefore small. The
accumulator is near the ends of its range, where the addition saturates (DOT-16).
"""

from __future__ import annotations

import numpy as np

from xdsl_spirv.testing.differential.kernel import Kernel
from xdsl_spirv.testing.differential.types import Array, Type

FORMS = ("SDot", "UDot", "SUDot", "SDotAccSat", "UDotAccSat", "SUDotAccSat")
PRODUCTS = 8
PACKED = ", <PackedVectorFormat4x8Bit>"
WIDTHS = (8, 16, 32, 64)


def dot_products(k: Kernel) -> None:
    """Fills the kernel with random dot-product instructions on random vectors."""
    for _ in range(PRODUCTS):
        k.draw(lambda: _dot(k))


def _dot(k: Kernel) -> None:
    form = str(k.rng.choice(FORMS))
    packed = bool(k.rng.random() < 0.35)
    width = 8 if packed else int(k.rng.choice([8, 8, 16, 32]))
    count = 4 if packed else int(k.rng.integers(2, 5))
    result = int(k.rng.choice([w for w in WIDTHS if w >= width]))
    accumulating = form.endswith("AccSat")
    vectors = [_vector(k, width, count, _largest(form, side, width, count, result)
                       if accumulating else None) for side in (0, 1)]  # fmt: skip
    type = Type("i32") if packed else Type(f"i{width}", count)
    if packed:
        arrays = [np.ascontiguousarray(v).view(np.int32) for v in vectors]
    else:
        arrays = vectors
    inputs = [k.input(type, array) for array in arrays]
    operands = [value for value, _ in inputs]
    buffers = [buffer for _, buffer in inputs]
    out = Type(f"i{result}")
    if accumulating:
        value, buffer = k.input(out, _near_the_ends(k, out))
        operands.append(value)
        buffers.append(buffer)
    types = str(type)
    if k.rng.random() < 0.4:
        types = _with_signs(k, operands, type, form)
    value = k.op(f"spirv.{form} {', '.join(operands)}{PACKED if packed else ''} : {types} -> {out}")
    what = f"{form} : {'packed ' if packed else ''}{types} -> {out}"
    k.output(value, out, what, operands=buffers)


def _with_signs(k: Kernel, operands: list[str], type: Type, form: str) -> str:
    """
    Casts the vectors to signed or unsigned types. The cast does not change the result, because the
    form decides how the bits are interpreted.

    An unsigned form does not accept signed types (DOT-08). Only the mixed form accepts two
    different types (DOT-09), and the second one must not be signed (DOT-10).
    """
    kinds = [str(k.rng.choice(["si", "ui"])), "ui"]
    if form.startswith("U"):
        kinds = ["ui", "ui"]
    spelled: list[str] = []
    for number, kind in enumerate(kinds if form.startswith("SU") else kinds[:1] * 2):
        scalar = f"{kind}{type.bits}"
        spelled.append(scalar if type.count == 1 else f"vector<{type.count}x{scalar}>")
        operands[number] = k.op(f"spirv.Bitcast {operands[number]} : {type} to {spelled[-1]}")
    return spelled[0] if spelled[0] == spelled[1] else ", ".join(spelled)


def _largest(form: str, side: int, width: int, count: int, result: int) -> int:
    """
    Returns the largest magnitude of components for which a sum of `count` products fits the result.
    """
    room = (1 << (result - (not form.startswith("U")))) - 1
    return min((1 << (width - 1)) - 1, int((room / count) ** 0.5))


def _vector(k: Kernel, width: int, count: int, largest: int | None) -> Array:
    dtype = np.dtype(f"i{width // 8}")
    shape = (k.invocations, count)
    if largest is None:
        info = np.iinfo(dtype)
        plain = k.rng.integers(info.min, info.max, shape, dtype, endpoint=True)
        edges = np.array([info.min, info.max, -1, 0, 1], dtype)
        return np.where(k.rng.random(shape) < 0.2, k.rng.choice(edges, shape), plain)
    return k.rng.integers(0, largest + 1, shape).astype(dtype)


def _near_the_ends(k: Kernel, type: Type) -> Array:
    info = np.iinfo(type.dtype)
    ends = np.array([info.min, info.max, -1, 0, info.max // 2, info.min // 2], type.dtype)
    near = k.rng.integers(0, 64, (k.invocations, 1))
    chosen = k.rng.choice(ends, (k.invocations, 1))
    with np.errstate(over="ignore"):
        return np.where(chosen < 0, chosen + near, chosen - near).astype(type.dtype)
