"""Kernels in Python give numpy's results, and faulty ones are refused."""

# A parameter's default states its kind and type.
# pyright: reportMissingParameterType=false, reportPrivateUsage=false

from __future__ import annotations

import importlib.util
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import DTypeLike

from xdsl_spirv import kernels as k
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.vulkan.errors import MisfitError
from xdsl_spirv.serialization.decode.decoder import decode
from xdsl_spirv.serialization.encode.encoder import encode

RNG = np.random.default_rng(7)
EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "kernels.py"


@k.kernel(workgroup=64)
def scale(
    x=k.buffer(k.f32, read_only=True), y=k.buffer(k.f32), n=k.push(k.u32), factor=k.push(k.f32)
):
    i = k.global_id()
    with k.when(i < n):
        y[i] = x[i] * factor
    with k.otherwise():
        y[i] = -1.0


@k.kernel(workgroup=(64,))
def total(
    x=k.buffer(k.i32, read_only=True),
    y=k.buffer(k.i32),
    start=k.push(k.i32),
    times=k.specialization(k.u32, 2),
):
    tile = k.shared(k.i32, 64)
    place = k.local_id()
    sum = k.variable(start)
    for i in k.range(times):
        sum.value += x[k.global_id()] - i.to(k.i32)
    tile[place] = sum.value
    k.barrier()
    for step in (32, 16, 8, 4, 2, 1):
        with k.when(place < step):
            tile[place] = tile[place] + tile[place + step]
        k.barrier()
    with k.when(place == 0):
        k.atomic_add(y, 0, tile[0])


@k.kernel(workgroup=(8, 4))
def transpose(a=k.buffer(k.f16, None, 24, read_only=True), b=k.buffer(k.f16, 24, 16)):
    row, column = k.global_id(1), k.global_id(0)
    b[column, row] = k.select(row < a.length, a[row, column], 0.0)


@k.kernel(workgroup=32)
def numbers(
    x=k.buffer(k.f32, read_only=True), y=k.buffer(k.i32), z=k.buffer(k.u8), w=k.buffer(k.bf16)
):
    i = k.global_id()
    v = k.clamp(x[i], -3.0, 3.5)
    n = k.floor(v).to(k.i32)
    y[i] = (n & 3) * 3 + (v % 2.0).to(k.i32) + (n >> 1) - (n & 1) + k.maximum(n, -1) + k.absolute(n)
    z[i] = (k.bitcast(v, k.u32) >> 24).to(k.u8)
    w[i] = (k.fma(v, 2.0, 1.0) / 3.0 + 2.0 * v - (1.0 - v)).to(k.bf16)


@k.kernel(workgroup=32, subgroup_size=8)
def subgroups(x=k.buffer(k.u32, read_only=True), y=k.buffer(k.u32, None, 5)):
    i = k.global_id()
    v = x[i]
    y[i, 0] = k.subgroup_add(v)
    y[i, 1] = k.subgroup_max(v)
    y[i, 2] = k.subgroup_rotate(v, 3)
    y[i, 3] = k.subgroup_shuffle_xor(v, 1)
    y[i, 4] = k.subgroup_broadcast(v, 5) + k.lane()


@k.kernel(workgroup=8)
def dots(
    a=k.buffer(k.i32, read_only=True),
    b=k.buffer(k.u32, read_only=True),
    y=k.buffer(k.i32, 2, 8),
    z=k.buffer(k.u32),
):
    i = k.global_id()
    y[0, i] = k.dot_4x8(a[i], a[i])
    y[1, i] = k.dot_4x8(b[i], a[i])
    z[i] = k.dot_4x8(b[i], b[i])


@k.kernel(workgroup=8, subgroup_size=8)
def product(
    a=k.buffer(k.f16, None, 16, read_only=True),
    b=k.buffer(k.f16, 16, 16, read_only=True),
    c=k.buffer(k.f32, None, 16),
):
    row, column = k.workgroup_id() * 8, k.workgroup_id(1) * 8
    sums = k.filled_matrix(0.0, k.f32, 8, 8)
    for step in range(0, 16, 8):
        left = k.load_matrix(a, (row, step), 8, 8, "A", stride=16)
        right = k.load_matrix(b, (step, column), 8, 8, "B", stride=16)
        sums = k.multiply_add(left, right, sums)
    k.store_matrix(c, (row, column), sums, stride=16)


FLOATS = RNG.uniform(-5, 5, 128).astype(np.float32)
HALVES = RNG.uniform(-1, 1, (16, 24)).astype(np.float16)
BYTES = RNG.integers(-128, 128, (8, 4)).astype(np.int8)
WORDS = RNG.integers(0, 1 << 30, 64).astype(np.uint32)
A, B = (RNG.uniform(-1, 1, (16, 16)).astype(np.float16) for _ in range(2))


def _numbers() -> tuple[Array, ...]:
    v = np.clip(FLOATS, np.float32(-3), np.float32(3.5))
    n = np.floor(v).astype(np.int32)
    first = (
        n % 4 * 3
        + np.mod(v, np.float32(2)).astype(np.int32)
        + (n >> 1)
        - (n & 1)
        + np.maximum(n, -1)
        + np.abs(n)
    )
    f = np.float32
    w = (v * f(2) + f(1)) / f(3) + f(2) * v - (f(1) - v)
    return first, (v.view(np.uint32) >> 24).astype(np.uint8), w.astype(ml_dtypes.bfloat16)


def _subgroups() -> Array:
    groups = WORDS.reshape(-1, 8)
    columns = [
        np.repeat(groups.sum(1, dtype=np.uint32), 8),
        np.repeat(groups.max(1), 8),
        np.roll(groups, -3, 1).reshape(-1),
        groups[:, np.arange(8) ^ 1].reshape(-1),
        (groups[:, 5:6] + np.arange(8, dtype=np.uint32)).reshape(-1),
    ]
    return np.stack(columns, 1)


def _dots() -> tuple[Array, Array]:
    signed, unsigned = BYTES.astype(np.int32), BYTES.view(np.uint8).astype(np.int32)
    first = np.stack([(signed * signed).sum(1), (signed * unsigned).sum(1)])
    return first.astype(np.int32), (unsigned * unsigned).sum(1).astype(np.uint32)


def _zeros(*shape: int, dtype: DTypeLike) -> Array:
    return np.zeros(shape, dtype)


CASES: dict[str, tuple[k.Kernel, Any, tuple[Any, ...], dict[str, Any]]] = {
    "scale": (
        scale,
        2,
        (FLOATS, _zeros(128, dtype=np.float32), 100, 0.5),
        {"y": np.where(np.arange(128) < 100, FLOATS * np.float32(0.5), -1)},
    ),
    "total": (
        total,
        2,
        (FLOATS.astype(np.int32), [100], -7, 3),
        {"y": [100 + 3 * FLOATS.astype(np.int32).sum() - 3 * 128 - 7 * 128]},
    ),
    "transpose": (
        transpose,
        (3, 4),
        (HALVES, _zeros(24, 16, dtype=np.float16)),
        {"b": HALVES.T},
    ),
    "numbers": (
        numbers,
        4,
        (
            FLOATS,
            *(_zeros(128, dtype=dtype) for dtype in (np.int32, np.uint8, ml_dtypes.bfloat16)),
        ),
        dict(zip("yzw", _numbers(), strict=True)),
    ),
    "subgroups": (subgroups, 2, (WORDS, _zeros(64, 5, dtype=np.uint32)), {"y": _subgroups()}),
    "dots": (
        dots,
        1,
        (
            BYTES.view(np.int32)[:, 0],
            BYTES.view(np.uint32)[:, 0],
            _zeros(2, 8, dtype=np.int32),
            _zeros(8, dtype=np.uint32),
        ),
        dict(zip("yz", _dots(), strict=True)),
    ),
    "product": (
        product,
        (2, 2),
        (A, B, _zeros(16, 16, dtype=np.float32)),
        {"c": A.astype(np.float64) @ B.astype(np.float64)},
    ),
}


def _compare(launched: k.Launched, expected: dict[str, Any]) -> None:
    for name, value in expected.items():
        got = launched[name].astype(np.float64)
        np.testing.assert_allclose(got, np.asarray(value, np.float64), 1e-2, 1e-5)
        assert launched[name].dtype != np.float64


@pytest.mark.parametrize("case", CASES)
def test_a_kernel_computes_as_numpy_without_a_finding(case: str):
    kernel, grid, arguments, expected = CASES[case]
    launched = kernel.launch(grid, *arguments, checks="all")
    assert launched.report is not None
    assert not launched.report.findings
    _compare(launched, expected)


@pytest.mark.vulkan
def test_kernels_compute_the_same_on_a_device(lavapipe: Path):
    """This file runs as a program on lavapipe."""
    command = [lavapipe, sys.executable, __file__]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1000, check=False)
    assert done.returncode == 0, done.stderr
    # lavapipe has no bfloat16, so the kernel is refused by name.
    assert done.stdout.split() == [case for case in CASES if case != "numbers"]


def _run_on_a_device() -> None:
    for case, (kernel, grid, arguments, expected) in CASES.items():
        try:
            launched = kernel.launch(grid, *arguments, device="vulkan")
        except MisfitError as error:
            print(error, file=sys.stderr)
            continue
        _compare(launched, expected)
        print(case)


@pytest.mark.parametrize("case", CASES)
def test_a_kernel_is_valid(case: str, spirv_val: str, tmp_path: Path):
    kernel = CASES[case][0]
    (tmp_path / "kernel.spv").write_bytes(kernel.binary)
    command = [spirv_val, "--target-env", "vulkan1.3", str(tmp_path / "kernel.spv")]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    again = encode(decode(kernel.binary), names=True)
    assert encode(decode(again), names=True) == again


def test_arguments_are_not_changed_and_results_have_their_shapes():
    y = np.zeros((2, 64), np.float32)
    launched = scale.launch(2, FLOATS.reshape(2, 64), y, n=1, factor=np.float32(2))
    assert not y.any()
    assert launched["y"].shape == (2, 64)
    assert list(launched) == ["x", "y"]
    assert repr(launched) == "<launched on interpreter: x: 2x64 float32, y: 2x64 float32>"
    assert "<td>2x64 float32</td>" in launched._repr_html_()


def test_a_race_is_found():
    @k.kernel(workgroup=64)
    def race(y=k.buffer(k.f32)):
        tile = k.shared(k.f32, 64)
        place = k.local_id()
        tile[place] = y[place]
        y[place] = tile[63 - place]

    report = k.check(race, 1, [np.ones(64, np.float32)])
    assert [finding.rule for finding in report] == ["RACE-01"]


GLSL = """
#version 450
layout(local_size_x = 32) in;
layout(constant_id = 3) const int MORE = 1;
layout(set = 0, binding = 1) readonly buffer In { float x[]; };
layout(set = 0, binding = 2) buffer Out { int total; float y[]; };
layout(push_constant) uniform Push { uint n; vec2 ends; };
void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i < n) y[i] = clamp(x[i], ends.x, ends.y) + MORE;
  if (i == 0) total = int(n);
}
"""


def test_a_kernel_of_another_compiler_can_be_launched(glslang: list[str], tmp_path: Path):
    (tmp_path / "a.comp").write_text(GLSL)
    binary = tmp_path / "a.spv"
    command = [*glslang, "-V", "--target-env", "vulkan1.3", str(tmp_path / "a.comp")]
    subprocess.run([*command, "-o", str(binary)], check=True, capture_output=True)
    given = {"In": FLOATS[:40], "Out": np.zeros(41 * 4, np.uint8)}
    push = {"n": 40, "ends": [-1.0, 2.0]}
    for kernel in (binary, binary.read_bytes(), decode(binary.read_bytes())):
        launched = k.launch(kernel, 2, given, push=push, constants={"MORE": 4})
        out = launched["Out"]
        assert out[:4].view(np.int32) == [40]
        np.testing.assert_array_equal(out[4:].view(np.float32), np.clip(FLOATS[:40], -1, 2) + 4)
    listed = k.launch(binary, 2, list(given.values()), push=[40, [-1.0, 2.0]])
    np.testing.assert_array_equal(listed[1][4:].view(np.float32), np.clip(FLOATS[:40], -1, 2) + 1)


def test_reports_quote_the_lines_of_python():
    @k.kernel(workgroup=64)
    def shifted(x=k.buffer(k.u32)):
        tile = k.shared(k.u32, 64)
        tile[k.local_id()] = k.local_id()
        x[k.global_id()] = tile[63 - k.local_id()]

    report = shifted.check(1, [0] * 64)
    (finding,) = report
    assert finding.rule == "RACE-01"
    assert finding.source is not None
    assert finding.source.file == Path(__file__).name
    assert finding.source.text.strip() == "x[k.global_id()] = tile[63 - k.local_id()]"
    assert finding.related[0].source is not None
    assert finding.related[0].source.text.strip() == "tile[k.local_id()] = k.local_id()"
    assert "`tile[" in str(report)
    assert "<pre>RACE-01" in report._repr_html_()


def test_kernels_that_differ_only_in_lines_have_equal_modules():
    def made() -> k.Kernel:
        return k.kernel(workgroup=8)(_numbered)

    assert made().text == made().text
    assert made().binary == made().binary
    assert "OpLine" not in made().text


def _numbered(y=k.buffer(k.u32)):
    y[k.global_id()] = k.global_id()


def test_a_loop_may_have_a_computed_step():
    @k.kernel(workgroup=4)
    def strided(x=k.buffer(k.i32), n=k.push(k.i32), step=k.push(k.i32)):
        for i in k.range(k.local_id().to(k.i32), n, step * 4):
            x[i] = i

    expected = [i if i % 12 < 4 else -1 for i in range(25)]
    assert strided.launch(1, [-1] * 25, 25, 3)["x"].tolist() == expected


def test_numpy_scalars_are_accepted():
    @k.kernel(workgroup=np.int64(4))  # pyright: ignore
    def scaled(x=k.buffer(k.f32), y=k.buffer(k.u32)):
        i = k.global_id()
        x[i] = np.float32(0.1) * x[i] - np.float64(1.0)
        y[i] = k.select(np.uint32(2) > i, np.int64(7), i)

    result = scaled.launch(np.int32(1), [1.0, 2.0, 3.0, 4.0], [0] * 4)  # pyright: ignore
    expected = np.float32(0.1) * np.arange(1, 5, dtype=np.float32) - np.float32(1)
    np.testing.assert_array_equal(result["x"], expected)
    assert result["y"].tolist() == [7, 7, 2, 3]


def _examples() -> ModuleType:
    spec = importlib.util.spec_from_file_location("example_kernels", EXAMPLES)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["example_kernels"] = module  # dataclasses look up the module.
    spec.loader.exec_module(module)
    return module


def test_the_examples_are_right_and_without_a_finding():
    said: list[str] = []
    _examples().run("interpreter", said.append)
    assert len(said) == 4


@pytest.mark.vulkan
def test_the_examples_are_right_on_a_device(lavapipe: Path):
    command = [lavapipe, sys.executable, EXAMPLES, "vulkan"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1000, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("right on vulkan") == 4


def _bad(body: Callable[..., None], **options: Any) -> Callable[[], object]:
    return lambda: k.kernel(workgroup=8, **options)(body)


def _if(y=k.buffer(k.f32)):
    if y[0] > 0.0:
        y[0] = 0.0


def _chained(y=k.buffer(k.u32)):
    y[0] = k.select(0 < y[1] < 3, 1, 0)


def _mixed(y=k.buffer(k.f32)):
    y[0] = y[1] + k.local_id()


def _python_math(y=k.buffer(k.f32)):
    y[0] = math.sqrt(y[1])


def _numpy_math(y=k.buffer(k.f32)):
    y[0] = np.exp(y[1])


def _power(y=k.buffer(k.f32)):
    y[0] = y[1] ** 2


def _absolute(y=k.buffer(k.i32)):
    y[0] = abs(y[1])


def _rows(y=k.buffer(k.f32, None, 4)):
    y[0, 0][1] = 1.0  # pyright: ignore


def _half(y=k.buffer(k.i32)):
    y[0] = y[1] + 0.5


def _rounding(y=k.buffer(k.i32)):
    y[0] = y[1] // 2


def _remainder(y=k.buffer(k.i32)):
    y[0] = y[1] % 2


def _too_large(y=k.buffer(k.u8)):
    y[0] = 256


def _returned(y=k.buffer(k.f32)):
    with k.when(k.local_id() == 0):
        return
    y[0] = 1.0


def _left(y=k.buffer(k.f32)):
    for i in k.range(8):
        y[i] = 1.0
        break


def _python_range(y=k.buffer(k.f32), n=k.push(k.u32)):
    for i in range(n):  # pyright: ignore
        y[i] = 1.0


def _written(y=k.buffer(k.f32, read_only=True)):
    y[0] = 1.0


def _dimensions(y=k.buffer(k.f32, 4, 4)):
    y[0] = 1.0


def _fraction(y=k.buffer(k.f32)):
    y[y[0]] = 1.0


def _undescribed(y: Any):
    y[0] = 1.0


def _nothing(n=k.push(k.u32)):
    del n


def _result(y=k.buffer(k.f32)):
    return y[0]


def _alone(y=k.buffer(k.f32)):
    y[0] = 1.0
    with k.otherwise():
        y[0] = 2.0


def _shapes(y=k.buffer(k.f16, read_only=True)):
    a = k.load_matrix(y, 0, 8, 8, "A", stride=8)
    k.multiply_add(a, a, k.filled_matrix(0, k.f32, 8, 8))


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "if": (_bad(_if), "has no truth value while the kernel is traced"),
    "chained": (_bad(_chained), "has no truth value while the kernel is traced"),
    "mixed": (_bad(_mixed), "values of f32 and u32 cannot be combined"),
    "python's math": (_bad(_python_math), "cannot be used as a Python number"),
    "numpy's math": (_bad(_numpy_math), "numpy's exp cannot be used"),
    "power": (_bad(_power), "multiply: x * x"),
    "abs": (_bad(_absolute), "use absolute(x)"),
    "changed in place": (_bad(_rows), "cannot be assigned"),
    "no size": (lambda: k.kernel(_half), "write @kernel(workgroup=64)"),  # pyright: ignore
    "called": (lambda: scale([1.0]), "scale.launch(grid, ...)"),
    "half a grid": (
        lambda: scale.launch(1.5, FLOATS, FLOATS, 1, 1.0),  # pyright: ignore
        "1.5 is not a number of",
    ),
    "half": (_bad(_half), "0.5 is not a value of i32"),
    "rounding": (_bad(_rounding), "the operator // does not support i32"),
    "remainder": (_bad(_remainder), "the operator % does not support i32"),
    "too large": (_bad(_too_large), "integer from 0 to 255"),
    "return": (_bad(_returned), "`return` stands inside a `with`"),
    "break": (_bad(_left), "break and return are not possible"),
    "python's range": (_bad(_python_range), "kernels.range"),
    "read only": (_bad(_written), "y is read_only, so stores are not allowed"),
    "dimensions": (_bad(_dimensions), "y has 2 dimensions, but 1 indices"),
    "float index": (_bad(_fraction), "y cannot be indexed by a f32"),
    "undescribed": (_bad(_undescribed), "'y' has no type"),
    "no buffer": (_bad(_nothing), "has no buffer"),
    "result": (_bad(_result), "store the result in a buffer"),  # pyright: ignore
    "otherwise alone": (_bad(_alone), "must follow a when()"),
    "shapes": (_bad(_shapes), "do not match"),
    "workgroup": (lambda: k.kernel(workgroup=0), "is not a size of a workgroup"),
    "outside": (lambda: k.barrier(), "no kernel is being traced"),
    "missing": (lambda: scale.launch(1, FLOATS, FLOATS, 1), "'factor' is missing"),
    "unknown": (lambda: scale.launch(1, FLOATS, FLOATS, 1, 2.0, z=1), "'z' is not a parameter"),
    "type": (lambda: scale.launch(1, A, FLOATS, 1, 2.0), "astype(float32)"),
    "empty": (lambda: scale.launch(1, FLOATS, FLOATS[:0], 1, 2.0), "0 bytes"),
    "short": (lambda: transpose.launch(1, HALVES, HALVES[:1]), "may read 768"),
    "grid": (lambda: scale.launch((1, 0), FLOATS, FLOATS, 1, 2.0), "number of workgroups"),
    "push": (lambda: scale.launch(1, FLOATS, FLOATS, -1, 2.0), "must be from 0 to"),
    "no kernel": (lambda: k.launch(3, 1, []), "a kernel cannot be of type int"),  # pyright: ignore
    "no file": (lambda: k.launch("nowhere.spv", 1, []), "No such file"),
    "buffers": (lambda: k.launch(scale, 1, [FLOATS], push=[1, 2.0]), "1 buffers were given"),
    "no push": (lambda: k.launch(scale, 1, [FLOATS, FLOATS]), "0 push constants were given"),
    "checks": (
        lambda: k.launch(scale, 1, [FLOATS] * 2, push=[1, 2.0], device="vulkan", checks="all"),
        "vulkan does not support checks",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_mistakes_are_refused(case: str):
    act, cause = REFUSED[case]
    with pytest.raises(k.KernelError) as raised:
        act()
    assert cause in str(raised.value)


if __name__ == "__main__":
    _run_on_a_device()
