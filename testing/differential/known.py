"""
Known driver bugs that explain differences. docs/differential.md has a minimal kernel for each.

Tests pass with and without a known bug, because drivers get fixed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from xdsl_spirv.testing.differential.running import Disagreement
from xdsl_spirv.testing.differential.types import Array


@dataclass(frozen=True)
class Known:
    """
    A known bug. `pattern` matches the descriptions of affected outputs. `anchor` is its section in
    the docs.
    """

    driver: str
    """Regular expression that matches the names of the device and its driver."""
    anchor: str
    pattern: str
    cause: str
    model: Callable[[Disagreement], Array] | None = None
    """
    Function that predicts the wrong result from the operands. The bug explains no other results.
    """

    def explains(self, disagreement: Disagreement, driver: str) -> bool:
        if not re.search(self.driver, driver) or not re.search(
            self.pattern, disagreement.output.what
        ):
            return False
        if self.model is None:
            return True
        return bool((self.model(disagreement) == disagreement.results)[disagreement.wrong].all())


def dot_of_64_bits(disagreement: Disagreement) -> Array:
    """
    Returns the wrong results of NVIDIA's driver for 64-bit dot products.

    Signed dot products wrap. Unsigned dot products saturate at 32 bits.
    """
    kernel, what = disagreement.kernel, disagreement.output.what
    *vectors, accumulator = (kernel.buffers[i].array for i in disagreement.output.operands)
    form = what.split(" ")[0]
    signs = (not form.startswith("U"), form.startswith("SD"))
    parts: list[Array] = []
    for vector, sign in zip(vectors, signs, strict=True):
        narrow = vector.view(np.int8) if "packed" in what else vector
        bits = narrow if sign else narrow.view(narrow.dtype.name.replace("int", "uint"))
        parts.append(bits.astype(np.int64))
    product = (parts[0] * parts[1]).sum(axis=1).reshape(accumulator.shape)
    if not form.startswith("U"):
        return product + accumulator
    low = (1 << 32) - 1
    return np.minimum((product & low) + (accumulator & low), low)


def rounded_twice(disagreement: Disagreement) -> Array:
    """
    Returns the wrong results of SwiftShader for conversions of u32 to f32.

    SwiftShader rounds the lower 31 bits, and then rounds their sum with 2^31.
    """
    (number,) = disagreement.output.operands
    bits = disagreement.kernel.buffers[number].array.view(np.uint32)
    low = (bits & np.uint32(0x7FFFFFFF)).astype(np.float32)
    sums = low + np.where(bits >> np.uint32(31), np.float32(2**31), np.float32(0))
    return sums[:, : disagreement.output.used].reshape(disagreement.results.shape)


KNOWN = [
    Known(
        "llvmpipe",
        "matrix-conversions",
        r"^Convert(SToF|FToS) .*coopmatrix<",
        "ConvertSToF and ConvertFToS of matrices take the sign from the type, not the instruction",
    ),
    Known(
        "llvmpipe",
        "rounding-of-binary64",
        r"^GL\.(Trunc|Round|RoundEven) : .*f64",
        "binary64 keeps its fraction from 2^31 on, and halves are not rounded to even",
    ),
    Known(
        "NVIDIA",
        "saturating-dots-of-64-bits",
        r"^(S|U|SU)DotAccSat : .* -> i64$",
        "signed forms wrap, the unsigned one is of 32 bits",
        dot_of_64_bits,
    ),
    Known(
        "SwiftShader",
        "unsigned-rounded-twice",
        r"^ConvertUToF to f32 : .*i32",
        "the lower 31 bits are rounded, then their sum with 2^31",
        rounded_twice,
    ),
]


def explanation(disagreement: Disagreement, driver: str = "llvmpipe") -> Known | None:
    """Returns the known bug that explains a difference, or None. The default device is lavapipe."""
    return next((known for known in KNOWN if known.explains(disagreement, driver)), None)
