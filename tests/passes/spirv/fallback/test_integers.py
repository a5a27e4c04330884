"""Saturating additions and clamped integers agree with Python's integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pytest
from xdsl.ir import SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.passes.emit.spirv import SpirvEmitter
from xdsl_spirv.passes.spirv.fallback.integers import clamp, saturating_add, saturating_mixed_add
from xdsl_spirv.runtime.elements import Array

if TYPE_CHECKING:
    from tests.passes.conftest import Compute

BYTES = np.arange(256)
PAIRS = np.repeat(BYTES, 256), np.tile(BYTES, 256)


def read(numbers: Array, sign: bool) -> Array:
    """Returns bytes as signed or unsigned integers."""
    return numbers.astype(np.int8 if sign else np.uint8).astype(np.int64)


@pytest.mark.parametrize("sign", [False, True])
@pytest.mark.parametrize("mixed", [False, True])
def test_a_saturating_sum_of_bytes_is_clamped(mixed: bool, sign: bool, compute: Compute):
    add: Callable[..., SSAValue] = saturating_mixed_add if mixed else saturating_add

    def write(b: SpirvEmitter, x: SSAValue, y: SSAValue) -> SSAValue:
        bytes = (b.resized(value, 8, sign=False) for value in (x, y))
        return b.resized(add(b, *bytes, sign=sign), 32, sign=sign)

    total, _ = compute(write, *PAIRS)
    ends = (-128, 127) if sign else (0, 255)
    expected = np.clip(read(PAIRS[0], sign) + read(PAIRS[1], sign != mixed), *ends)
    assert np.array_equal(total, expected)


@pytest.mark.parametrize("sign", [False, True])
@pytest.mark.parametrize("width", [8, 16])
def test_a_number_is_clamped_to_fewer_bits(width: int, sign: bool, compute: Compute):
    edges = [
        side + n for side in (0, 1 << 7, 1 << 8, 1 << 15, 1 << 16, 1 << 31) for n in (-1, 0, 1)
    ]
    numbers = np.array([*edges, *(-n for n in edges)], np.int64).astype(np.int32)
    result, module = compute(lambda b, x, _: clamp(b, x, width, sign=sign), numbers, numbers)
    given = numbers.astype(np.int64) if sign else numbers.astype(np.uint32).astype(np.int64)
    ends = (-(1 << width - 1), (1 << width - 1) - 1) if sign else (0, (1 << width) - 1)
    assert np.array_equal(result, np.clip(given, *ends))
    assert sum(isinstance(op, spv.SelectOp) for op in module.walk()) == 1 + sign
