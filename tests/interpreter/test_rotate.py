"""ROT-07 and ROT-09: rotations follow the formula and the proposal's consequences."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from numpy.typing import DTypeLike

if TYPE_CHECKING:
    from tests.interpreter.conftest import Kernel

ROTATE = "spirv.GroupNonUniformRotateKHR"


def rotated(ids: range, delta: int, group: int) -> list[int]:
    """
    Returns the invocations from which the invocations `ids` read, if groups of `group` invocations
    rotate by `delta` (ROT-07).
    """
    return [((i + delta) & (group - 1)) + (i & ~(group - 1)) for i in ids]


@pytest.mark.parametrize("size", [1, 4, 8, 32, 64, 128])
@pytest.mark.parametrize("delta", [0, 1, 3, 31, 63, 1000, -1])
def test_rot_07_around_the_subgroup(kernel: Kernel, size: int, delta: int) -> None:
    out = kernel.buffer("i32", np.zeros(256, np.int32))
    value = kernel.op(f"{ROTATE} <Subgroup> %id, {kernel.constant(delta)} : i32, i32 -> i32")
    (found,) = kernel.store(out, value).run((2, 1, 1), (128, 1, 1), size)
    first = np.arange(256) // size * size
    expected = first + np.array(rotated(range(size), delta, size) * (256 // size))
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("cluster", [1, 2, 4, 16, 32])
def test_rot_07_and_rot_09_a_rotation_stays_in_its_cluster(kernel: Kernel, cluster: int) -> None:
    out = kernel.buffer("i32", np.zeros(64, np.int32))
    delta, size = kernel.constant(3), kernel.constant(cluster)
    value = kernel.op(
        f"{ROTATE} <Subgroup> %id, {delta}, cluster_size({size}) : i32, i32, i32 -> i32"
    )
    (found,) = kernel.store(out, value).run((2, 1, 1))
    expected = rotated(range(32), 3, cluster)
    assert found.tolist() == expected + [32 + i for i in expected]
    assert (found // cluster == np.arange(64) // cluster).all()


def test_rot_07_over_the_workgroup(kernel: Kernel) -> None:
    out = kernel.buffer("i32", np.zeros(128, np.int32))
    value = kernel.op(f"{ROTATE} <Workgroup> %id, {kernel.constant(5)} : i32, i32 -> i32")
    (found,) = kernel.store(out, value).run((2, 1, 1), (64, 1, 1), 16)
    assert found.tolist() == [(i + 5) % 64 + base for base in (0, 64) for i in range(64)]


@pytest.mark.parametrize("amount", [1, 5, 31])
def test_rot_09_rotations_up_and_down_and_shuffles_agree(
    new_kernel: type[Kernel], amount: int
) -> None:
    results: list[list[int]] = []
    for kind in ("down", "up", "shuffle"):
        kernel = new_kernel()
        out = kernel.buffer("i32", np.zeros(32, np.int32))
        if kind == "shuffle":
            source = kernel.op(f"spirv.IAdd %lane, {kernel.constant(amount)} : i32")
            source = kernel.op(f"spirv.BitwiseAnd {source}, {kernel.constant(31)} : i32")
            value = kernel.op(f"spirv.GroupNonUniformShuffle <Subgroup> %id, {source} : i32, i32")
        else:
            delta = kernel.constant(amount if kind == "down" else 32 - amount)
            value = kernel.op(f"{ROTATE} <Subgroup> %id, {delta} : i32, i32 -> i32")
        results.append(kernel.store(out, value).run()[0].tolist())
    down, up, shuffle = results
    assert down == shuffle == [(i + amount) % 32 for i in range(32)]
    assert up == [(i - amount) % 32 for i in range(32)]


@pytest.mark.parametrize(
    ("type", "dtype"),
    [
        ("i8", np.int8),
        ("i16", np.int16),
        ("i64", np.int64),
        ("f16", np.float16),
        ("f64", np.float64),
    ],
)
def test_rot_07_values_of_any_type(
    kernel: Kernel, rng: np.random.Generator, type: str, dtype: DTypeLike
) -> None:
    data = rng.integers(-100, 100, (32, 2)).astype(dtype)
    source = kernel.buffer(f"vector<2x{type}>", data.copy(), 2)
    out = kernel.buffer(f"vector<2x{type}>", np.zeros((32, 2), dtype), 2)
    vector = f"vector<2x{type}>"
    value = kernel.op(
        f"{ROTATE} <Subgroup> {kernel.load(source)}, {kernel.constant(7)} "
        f": {vector}, i32 -> {vector}"
    )
    found = kernel.store(out, value).run()[1]
    assert (found == np.roll(data, -7, axis=0)).all()


def test_rot_07_bools(kernel: Kernel) -> None:
    out = kernel.buffer("i32", np.zeros(32, np.int32))
    low = kernel.op(f"spirv.ULessThan %lane, {kernel.constant(4)} : i32")
    turned = kernel.op(f"{ROTATE} <Subgroup> {low}, {kernel.constant(2)} : i1, i32 -> i1")
    value = kernel.op(f"spirv.Select {turned}, %one, %zero : i1, i32")
    found = kernel.store(out, value).run()[0].tolist()
    assert found == [1, 1, *[0] * 28, 1, 1]
