"""Lowered scans give numpy's sums, for sizes that layouts divide and others, in both directions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from xdsl_spirv import kernels as k
from xdsl_spirv.kernels import tiles as t


@t.kernel
def columns(
    x: t.View = t.view(k.i32, None, None),
    y: t.View = t.view(k.i32, None, None),
    *,
    M: int = 8,
    N: int = 16,
    AXIS: int = 0,
    REVERSE: int = 0,
):
    i, j = t.place(y, M, N)
    y.store(i, j, x.load(i, j, M, N).cumsum(AXIS, bool(REVERSE)))


@t.kernel
def of_products(
    a: t.View = t.view(k.f16, 16, 16), y: t.View = t.view(k.f32, 16, 16), *, AXIS: int = 0
):
    x = a.load(0, 0, 16, 16)
    y.store(*t.place(y, 16, 16), t.multiply_add(x, x, t.zeros(k.f32, 16, 16)).cumsum(AXIS))


@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(8, 16), (3, 10), (1, 64)])
def test_sums_along_an_axis_are_numpys(shape: tuple[int, int], axis: int, reverse: int):
    x = np.random.default_rng(2).integers(-(2**31), 2**31, shape).astype(np.int32)
    turned = slice(None, None, -1 if reverse else 1)
    along = (turned, slice(None)) if axis == 0 else (slice(None), turned)
    expected = x[along].cumsum(axis, dtype=np.int32)[along]
    options: dict[str, Any] = {"M": shape[0], "N": shape[1], "AXIS": axis, "REVERSE": reverse}
    for lowered in ({}, {"target": "lavapipe"}, {"target": "nvidia-h200", "subgroups": (2, 1)}):
        launched = columns.launch(x, np.zeros_like(x), **(options | lowered))
        np.testing.assert_array_equal(launched["y"], expected)


def test_rounds_wait_for_each_other_and_share_their_memory():
    x = np.arange(128, dtype=np.int32).reshape(8, 16)
    report = columns.check(x, np.zeros_like(x), target="nvidia-h200", subgroups=(2, 1))
    assert not report.findings
    assert columns.on("nvidia-h200", subgroups=(2, 1)).count("memref.alloc") == 1


@pytest.mark.parametrize("axis", [0, 1])
def test_a_product_is_scanned_where_its_matrices_hold_it(axis: int):
    a = np.random.default_rng(3).integers(-4, 5, (16, 16)).astype(np.float16)
    wide = a.astype(np.float32)
    for target in ("lavapipe", "nvidia-h200", "webgpu"):
        launched = of_products.launch(a, np.zeros((16, 16), np.float32), AXIS=axis, target=target)
        np.testing.assert_array_equal(launched["y"], (wide @ wide).cumsum(axis))


def test_an_axis_that_a_tile_lacks_is_refused():
    x = np.zeros((8, 16), np.int32)
    with pytest.raises(k.KernelError, match="a tile of 8x16 i32 has no axis 2"):
        columns.launch(x, x + 0, AXIS=2)
