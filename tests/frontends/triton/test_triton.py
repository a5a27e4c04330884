"""Triton's kernels give numpy's results under all checks, and unsupported ones are refused."""

from __future__ import annotations

import importlib.util
import runpy
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import DTypeLike

from xdsl_spirv import kernels as k
from xdsl_spirv.frontends import FrontendError
from xdsl_spirv.frontends.triton.convert import convert, kernel_of
from xdsl_spirv.frontends.triton.reading import read
from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.kernels.tile_launch import lower_program
from xdsl_spirv.kernels.tiles import Unwritten
from xdsl_spirv.kernels.triton import TritonKernel, from_triton, from_ttir
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.testing.page_blocks import blocks_of

HERE = Path(__file__).parent
RANDOM = np.random.default_rng(3)


def numbers(*shape: int, dtype: DTypeLike = np.float16) -> Array:
    return RANDOM.standard_normal(shape).astype(dtype)


@cache
def kernel(name: str) -> TritonKernel:
    return from_ttir(HERE / f"{name}.ttir")


def add() -> Any:
    x, y = numbers(150, dtype=np.float32), numbers(150, dtype=np.float32)
    return (x, y, Unwritten((150,)), 150), 3, {"out": x + y}


def matmul(M: int = 40, N: int = 23, K: int = 20) -> Any:
    a, b = numbers(M, K), numbers(K, N)
    grid = -(-M // 16) * -(-N // 16)
    expected = a.astype(np.float32) @ b.astype(np.float32)
    return (a, b, Unwritten((M, N)), M, N, K, K, N, N), grid, {"c": expected}


def product() -> Any:
    a, b = numbers(20, 40), numbers(30, 40)
    expected = a.astype(np.float32) @ b.T.astype(np.float32)
    return (a, b, Unwritten((20, 30)), 40), (2, 2), {"c": expected}


def softmax() -> Any:
    x = numbers(5, 27, dtype=np.float32)
    power = np.exp(x - x.max(1, keepdims=True))
    expected = power / power.sum(1, keepdims=True)
    return (Unwritten(x.shape), x, 27, 5, 27), 2, {"out": expected}


def norm() -> Any:
    x, weight = numbers(3, 45), numbers(45)
    wide = x.astype(np.float32)
    mean = wide.mean(1)
    centered = wide - mean[:, None]
    y = centered / np.sqrt((centered**2).mean(1, keepdims=True) + 1e-5) * weight
    given = x, Unwritten(x.shape), weight, Unwritten((3,)), 45, 45, 1e-5
    return given, 3, {"y": y, "mean": mean}


def attention() -> Any:
    q, keys, values = (numbers(2, 20, 16) for _ in range(3))
    scores = np.einsum("hqd,hkd->hqk", q.astype(np.float32), keys.astype(np.float32)) * 0.25
    scores[:, ~np.tril(np.ones((20, 20), np.bool_))] = -np.inf
    p = np.exp(scores - scores.max(-1, keepdims=True))
    expected = p / p.sum(-1, keepdims=True) @ values.astype(np.float32)
    given = q, keys, values, Unwritten(q.shape), 0.25 * 1.442695, 20
    return given, (2, 2), {"o": expected}


def picks() -> Any:
    x, n, block = numbers(40, dtype=np.float32), 40, 16
    chosen = RANDOM.integers(0, n, n).astype(np.int32)
    out, best = x[chosen], np.zeros(4, np.int32)
    for number, first in enumerate(range(0, n, block)):
        part = slice(first, min(n, first + block))
        best[number] = out[part].argmax()
        left = np.concatenate([[0], x])[part] if first == 0 else x[first - 1 : part.stop - 1]
        out[part] = out[part] * 2 if chosen[first] % 2 == 0 else out[part] + left
    return (x, chosen, Unwritten((n,)), np.zeros(4, np.int32), n), 4, {"out": out, "best": best}


def carry() -> Any:
    x = numbers(48, dtype=np.float32)
    x[3] = 2.6
    rows, at = x.reshape(3, 16), np.arange(16)
    places = rows.argmax(0) * 16
    total = np.float32(0)
    for value in x[places + at * at % 3]:
        total = np.minimum(total + np.sign(value) * np.floor(abs(value) + 0.5), 9)
    given = x, np.zeros(16, np.int64), np.zeros(16, np.int32), np.zeros(16, np.int64)
    expected = {"places": places, "flags": (rows > -1).all(0), "total": total}
    return (*given, np.zeros(1, np.float32), 48), 1, expected | {"wide": at * 3 * 10**9 - 5 * 10**9}


def scans() -> Any:
    x = numbers(4, 16, dtype=np.float32)
    tops = np.maximum.accumulate(x, 1)
    places = np.array([[row.tolist().index(top) for top in best] for row, best in zip(x, tops)])
    expected = {
        "sums": x[::-1].cumsum(0)[::-1], "tops": tops, "places": places + 16 * np.arange(4)[:, None]
    }  # fmt: skip
    return (x, Unwritten(x.shape), Unwritten(x.shape), np.zeros(x.shape, np.int32)), 1, expected


def updates() -> Any:
    x, n = numbers(60, dtype=np.float32), 60
    counts, last = np.zeros(2, np.int32), np.zeros(1, np.int32)
    expected = {
        "sums": np.array([x.sum(), x[::2].sum(), x[1::2].sum()]), "counts": [30, 30],
        "tops": [62, 63], "last": [7],
    }  # fmt: skip
    given = x, np.zeros(3, np.float32), counts, np.zeros(64, np.int32), counts - 9, last, n
    return given, 2, expected


def reverse_row() -> Any:
    x = numbers(64, dtype=np.float32)
    return (x, Unwritten(x.shape), Unwritten(x.shape)), 1, {"out": 2 * x[::-1]}


def multiply_high() -> Any:
    x, y = RANDOM.integers(0, 2**32, (2, 16), np.uint64)
    given = *(v.astype(np.uint32).view(np.int32) for v in (x, y)), np.zeros(16, np.int32)
    return given, 1, {"out": (x * y >> np.uint64(32)).astype(np.uint32).view(np.int32)}


_ALL = (
    add, matmul, product, softmax, norm, attention, picks, carry, scans, updates, reverse_row,
    multiply_high,
)  # fmt: skip
CASES = {f.__name__: f for f in _ALL}


def expect(launched: Any, expected: dict[str, Array]) -> None:
    for name, wanted in expected.items():
        found = launched[name]
        if found.dtype.kind in "iu":
            np.testing.assert_array_equal(found, wanted, err_msg=name)
            continue
        found = found.astype(np.float32)
        np.testing.assert_allclose(found, wanted, atol=0.02, rtol=0.01, err_msg=name)


@pytest.mark.parametrize("name", CASES)
def test_a_kernel_gives_numpys_results_on_whole_tiles(name: str):
    given, grid, expected = CASES[name]()
    expect(kernel(name).launch(*given, grid=grid), expected)


LOWERED = [
    "add",
    "softmax",
    "picks",
    "product",
    "carry",
    "scans",
    "updates",
    "reverse_row",
    "multiply_high",
]


@pytest.mark.parametrize("name", LOWERED)
def test_a_kernel_gives_numpys_results_by_invocations(name: str):
    given, grid, expected = CASES[name]()
    launched = kernel(name).launch(*given, grid=grid, target="lavapipe", sizes="open")
    expect(launched, expected)


@pytest.mark.parametrize(
    ("name", "given", "way"),
    [
        ("matmul", (64, 32, 40), "as a function on tensors"),
        ("matmul", (40, 23, 20), "tile by tile: a gather or scatter has no form on whole tensors"),
        ("product", (), "as a function on tensors"),
        ("attention", (), "as a function on tensors"),
        ("add", (), "tile by tile: the program has no product of tiles"),
    ],
)
def test_products_and_attentions_become_functions_on_tensors(name: str, given: Any, way: str):
    """The kernels use grouped programs, descriptors, masks, scalar factors and a causal loop."""
    arguments, grid, expected = globals()[name](*given)
    launched = kernel(name).launch(*arguments, grid=grid, target="lavapipe")
    assert launched.way == way
    expect(launched, expected)


@pytest.mark.long
@pytest.mark.parametrize("target", ["lavapipe", "nvidia-h200", "webgpu"])
@pytest.mark.parametrize("name", CASES)
def test_a_kernel_has_no_findings_on_targets(name: str, target: str):
    given, grid, expected = CASES[name]()
    report = kernel(name).check(*given, grid=grid, target=target)
    assert {finding.rule for finding in report.findings} <= {"CHOICE-01"}, report
    expect(kernel(name).launch(*given, grid=grid, target=target), expected)


def test_pointers_and_masks_become_boxes_of_views():
    text = kernel("attention").text
    assert text.count("tile.load") == 3
    assert "tile.gather" not in text
    # Wrapped row indices stay arithmetic unless tiles divide the sizes.
    assert kernel("matmul").text.count("tile.gather") == 2
    divided = (
        kernel("matmul").trace({"M": 64, "N": 32, "K": 40, "sa": 40, "sb": 32, "sc": 32}).program
    )
    assert "tile.gather" not in str(divided)
    given, grid, expected = matmul(64, 32, 40)
    expect(kernel("matmul").launch(*given, grid=grid), expected)


def refusal(call: Any) -> str:
    with pytest.raises(k.KernelError) as caught:
        call()
    return str(caught.value)


def test_faults_of_whole_tiles_name_the_line_of_python():
    x, out = np.ones(70, np.float32), np.zeros(70, np.float32)
    said = refusal(lambda: kernel("overlapping").launch(x, out, 70, grid=4))
    assert "workgroups 0 and 1 both store out[16] (kernels.py:" in said.replace(
        ": their tiles overlap", ""
    )
    said = refusal(lambda: kernel("load_unmasked").launch(x, out, 70, grid=3))
    assert "element 70 of x is used, but the buffer has only 70 elements (kernels.py:" in said
    given = x[:20], out[:1], 20
    assert np.isnan(kernel("sum_undefined").launch(*given, grid=1)["out"][0])
    assert kernel("sum_undefined").launch(*given, grid=1, target="lavapipe")["out"][0] == 20
    said = refusal(lambda: kernel("add").launch(x, Unwritten((70,)), out, 70, grid=2))
    assert "reads y[0], which was not written" in said


def test_findings_of_invocations_name_the_line_of_python():
    lines = (HERE / "kernels.py").read_text().splitlines()
    first = lines.index("def overlapping(x, out, n, BLOCK: tl.constexpr):")
    number = lines.index("    tl.store(out + at, value, at < n)", first) + 1
    x, out = np.ones(70, np.float32), np.zeros(70, np.float32)
    report = kernel("overlapping").check(x, out, 70, grid=1, target="lavapipe")
    assert not report.findings
    made = lower_program(kernel("overlapping").trace(), "lavapipe")
    checks = Checks.of("all")
    made.run({"x": x, "out": out}, {"n": 70}, "interpreter", checks, (4, 1, 1))
    assert any(f"kernels.py:{number}: tl.store(out + at" in str(f) for f in checks.report.findings)


@pytest.mark.parametrize(
    ("name", "said"), [("counting", "tt.atomic_cas is not"), ("waiting", "scf.while is not")]
)
def test_other_operations_are_refused_with_the_line_of_python(name: str, said: str):
    assert f"{said} supported (kernels.py:" in refusal(lambda: kernel(name))


def test_each_update_of_an_element_returns_another_old_number():
    given, grid, _ = updates()
    for options in ({}, {"target": "lavapipe"}):
        old = kernel("updates").launch(*given, grid=grid, **options)["old"]
        for parity in (0, 1):
            assert sorted(old[parity:60:2].tolist()) == list(range(30))


@pytest.mark.parametrize(
    ("access", "place", "said"),
    [
        ("%r = tt.load %sums : !tt.ptr<f32>", 0, "update and read sums[0]"),
        ("%r = tt.load %sums : !tt.ptr<f32>", -1, "read and update sums[0]"),
        ("tt.store %sums, %c : !tt.ptr<f32>", 0, "update and store sums[0]"),
        ("tt.store %sums, %c : !tt.ptr<f32>", -1, "store and update sums[0]"),
    ],
)
def test_workgroups_may_only_update_an_element_that_others_update(
    access: str, place: int, said: str
):
    given, grid, _ = updates()
    text = (HERE / "updates.ttir").read_text()
    line = [line for line in text.splitlines() if "tt.atomic_rmw" in line][place]
    changed = text.replace(line, f"%c = arith.constant 0.0 : f32\n{access}\n{line}")
    assert said in refusal(lambda: from_ttir(changed).launch(*given, grid=grid))


def test_a_missing_barrier_is_a_race():
    x, *_ = reverse_row()[0]
    zeros = np.zeros_like(x)
    text = (HERE / "reverse_row.ttir").read_text()
    (line,) = (line for line in text.splitlines() if "ttg.barrier" in line)
    for source, rules in ((text, set[str]()), (text.replace(line, ""), {"RACE-01"})):
        report = from_ttir(source).check(x, zeros, zeros.copy(), grid=1, target="lavapipe")
        assert {finding.rule for finding in report.findings} == rules


def test_atomic_operations_on_small_numbers_are_refused():
    assert "atomic operations on f16 are not supported (kernels.py:" in refusal(
        lambda: kernel("halves")
    )


HEAD = "module {\n tt.func public @f(%x: !tt.ptr<f32>, %n: i32) {\n"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("%a = tt.int_to_ptr %n : i32 -> !tt.ptr<f32>", "tt.int_to_ptr is not"),
        ("%p = tt.load %x : !tt.ptr<f32", "'>' expected"),
        ("%q = tt.bitcast %x : !tt.ptr<f32> -> !tt.ptr<i32>", "tt.bitcast of pointers is not"),
        (
            "%c = arith.constant 1 : i32\n %d = arith.constant -1 : i32\n"
            " scf.for %i = %n to %c step %d : i32 {\n }",
            "a loop that counts down",
        ),
        (
            "%b = arith.constant 5000000000 : i64\n %w = arith.extsi %n : i32 to i64\n"
            " %q = arith.divsi %w, %b : i64",
            "an index or size of 5000000000 needs more than 32 bits",
        ),
        (
            "%a = arith.constant dense<[1, 2]> : tensor<2xi32>",
            "a constant tensor of different numbers",
        ),
        (
            "%c = arith.cmpi slt, %n, %n : i32\n cf.cond_br %c, ^a, ^b\n^a:\n cf.br ^b\n^b:\n"
            " %k = arith.constant 1 : i32",
            "branches that join at a later line",
        ),
    ],
)
def test_a_text_that_is_not_read_is_refused(body: str, said: str):
    assert said in refusal(lambda: from_ttir(f"{HEAD} {body}\n tt.return\n }}\n}}\n"))


def test_offsets_that_leave_32_bits_together_are_computed_in_64():
    text = """module {
 tt.func public @f(%x: !tt.ptr<i64>) {
  %r = tt.make_range {start = 0 : i32, end = 16 : i32} : tensor<16xi32>
  %w = arith.extsi %r : tensor<16xi32> to tensor<16xi64>
  %c = arith.constant dense<2147483640> : tensor<16xi64>
  %s = arith.addi %w, %c : tensor<16xi64>
  %p = tt.splat %x : !tt.ptr<i64> -> tensor<16x!tt.ptr<i64>>
  %q = tt.addptr %p, %r : tensor<16x!tt.ptr<i64>>, tensor<16xi32>
  tt.store %q, %s : tensor<16x!tt.ptr<i64>>
  tt.return
 }
}"""
    results = from_ttir(text).launch(np.zeros(16, np.int64), grid=1)
    assert results["x"].tolist() == list(range(2147483640, 2147483656))


def test_a_kernel_may_have_many_integers_and_a_branch_around_a_product():
    names = [f"%n{number}" for number in range(40)]
    text = f"""module {{
 tt.func public @f(%x: !tt.ptr<f32>, {": i32, ".join(names)}: i32) {{
  %z = arith.constant dense<0.0> : tensor<16x16xf32>
  %h = arith.constant dense<1.0> : tensor<16x16xf16>
  %r = tt.make_range {{start = 0 : i32, end = 16 : i32}} : tensor<16xi32>
  %a = tt.expand_dims %r {{axis = 1 : i32}} : tensor<16xi32> -> tensor<16x1xi32>
  %b = tt.broadcast %a : tensor<16x1xi32> -> tensor<16x16xi32>
  %s = arith.constant dense<16> : tensor<16x16xi32>
  %m = arith.muli %b, %s : tensor<16x16xi32>
  %c = tt.expand_dims %r {{axis = 0 : i32}} : tensor<16xi32> -> tensor<1x16xi32>
  %d = tt.broadcast %c : tensor<1x16xi32> -> tensor<16x16xi32>
  %o = arith.addi %m, %d : tensor<16x16xi32>
  %p = tt.splat %x : !tt.ptr<f32> -> tensor<16x16x!tt.ptr<f32>>
  %q = tt.addptr %p, %o : tensor<16x16x!tt.ptr<f32>>, tensor<16x16xi32>
  %zero = arith.constant 0 : i32
  %t = arith.cmpi sgt, %n39, %zero : i32
  scf.if %t {{
   %e = tt.dot %h, %h, %z : tensor<16x16xf16> * tensor<16x16xf16> -> tensor<16x16xf32>
   tt.store %q, %e : tensor<16x16x!tt.ptr<f32>>
  }}
  tt.return
 }}
}}"""
    made = from_ttir(text)
    for number, expected in ((0, 0), (1, 16)):
        given = np.zeros(256, np.float32), *range(39), number
        assert (made.launch(*given, grid=1, target="lavapipe")["x"] == expected).all()


@pytest.mark.parametrize("options", [{}, {"target": "lavapipe"}])
def test_a_branch_may_store_before_it_returns(options: Any):
    body = """
 %zero = arith.constant 0 : i32
 %one = arith.constant 1.0 : f32
 %two = arith.constant 2.0 : f32
 %c = arith.cmpi slt, %n, %zero : i32
 cf.cond_br %c, ^a, ^b
^a:
 tt.store %x, %one : !tt.ptr<f32>
 tt.return
^b:
 tt.store %x, %two : !tt.ptr<f32>"""
    made = from_ttir(f"{HEAD} {body}\n tt.return\n }}\n}}\n")
    for n, expected in ((-1, 1), (1, 2)):
        launched = made.launch(np.zeros(1, np.float32), n, grid=1, **options)
        assert launched["x"] == [expected]


def test_an_assumption_holds_only_in_its_branch():
    """`extui` of -1 gives 2**32 - 1, except where the number is assumed not to be negative."""
    text = """module {
 tt.func public @f(%x: !tt.ptr<i64>, %n: i32) {
  %zero = arith.constant 0 : i32
  %c = arith.cmpi sge, %n, %zero : i32
  scf.if %c {
   llvm.intr.assume %c : i1
  }
  cf.cond_br %c, ^a, ^b
^a:
  llvm.intr.assume %c : i1
  tt.return
^b:
  %v = arith.extui %n : i32 to i64
  tt.store %x, %v : !tt.ptr<i64>
  tt.return
 }
}"""
    launched = from_ttir(text).launch(np.zeros(1, np.int64), -1, grid=1)
    assert launched["x"] == [2**32 - 1]


def test_arguments_that_do_not_fit_are_refused():
    x = np.ones(70, np.float32)
    launch = kernel("overlapping").launch
    assert "x and out share memory" in refusal(lambda: launch(x, x, 70, grid=4))
    assert "the grid None is not allowed" in refusal(lambda: launch(x, x + 0, 70))
    assert "float16 [70] was given" in refusal(lambda: launch(x.astype(np.float16), x, 70, grid=1))
    assert "missing: n" in refusal(lambda: launch(x, x + 0, grid=1))
    assert "n is i32, but 1.5 was given" in refusal(lambda: launch(x, x + 0, 1.5, grid=1))
    assert "cannot read the kernel" in refusal(lambda: from_ttir("nowhere.ttir"))


def test_kernels_that_the_installed_triton_compiles_are_right():
    """The other tests use the TTIR in this folder."""
    pytest.importorskip("triton", reason="Triton is not installed")
    spec = importlib.util.spec_from_file_location("kernels_in_triton", HERE / "kernels.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name, case in CASES.items():
        given, grid, expected = case()
        made = from_triton(getattr(module, name), **module.TYPES[name])
        expect(made.launch(*given, grid=grid), expected)
    assert "missing: BLOCK" in refusal(
        lambda: from_triton(module.add, x="*fp32", y="*fp32", out="*fp32", n="i32")
    )
    with pytest.raises(k.KernelError, match=r"tt.atomic_cas is not supported \(kernels.py:\d+\)"):
        from_triton(module.counting, **module.TYPES["counting"])


def test_the_code_of_the_page_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("triton", reason="Triton is not installed")
    (block,) = (b for b in blocks_of("docs/triton.md") if b.language == "python")
    (tmp_path / "page.py").write_text(block.text)
    runpy.run_path(str(tmp_path / "page.py"))
    expected = [line.split("# ")[1] for line in block.text.splitlines() if ")  " in line]
    assert capsys.readouterr().out.splitlines() == [text.strip() for text in expected]


def test_a_loop_over_pointers_and_a_library_function_are_read():
    body = """
 %zero = arith.constant 0 : i32
 %one = arith.constant 1 : i32
 %r = tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32>
 %s = tt.splat %x : !tt.ptr<f32> -> tensor<4x!tt.ptr<f32>>
 %p = tt.addptr %s, %r : tensor<4x!tt.ptr<f32>>, tensor<4xi32>
 %e = scf.for %i = %zero to %n step %one iter_args(%q = %p) -> (tensor<4x!tt.ptr<f32>>) : i32 {
   %v = tt.load %q : tensor<4x!tt.ptr<f32>>
   %t = tt.extern_elementwise %v {libname = "", symbol = "__nv_tanhf"} :
     (tensor<4xf32>) -> tensor<4xf32>
   tt.store %q, %t : tensor<4x!tt.ptr<f32>>
   %w = arith.muli %i, %i : i32
   %u = arith.addi %w, %one : i32
   %d = tt.splat %u : i32 -> tensor<4xi32>
   %m = tt.addptr %q, %d : tensor<4x!tt.ptr<f32>>, tensor<4xi32>
   scf.yield %m : tensor<4x!tt.ptr<f32>>
 }
 %z = tt.load %e : tensor<4x!tt.ptr<f32>>
 tt.store %p, %z : tensor<4x!tt.ptr<f32>>
"""
    made = from_ttir(f"{HEAD}{body}\n tt.return\n }}\n}}\n")
    x = expected = numbers(16, dtype=np.float32)
    expected = x.copy()
    for at in (0, 1, 3):
        expected[at : at + 4] = np.tanh(expected[at : at + 4])
    expected[:4] = expected[8:12]
    found = made.launch(x, 3, grid=1)["x"]
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("options", [{}, {"target": "lavapipe"}])
def test_a_tile_is_split_along_its_last_axis(options: Any):
    body = """
 %rows = tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32>
 %columns = tt.make_range {end = 2 : i32, start = 0 : i32} : tensor<2xi32>
 %two = arith.constant dense<2> : tensor<4x1xi32>
 %a = tt.expand_dims %rows {axis = 1 : i32} : tensor<4xi32> -> tensor<4x1xi32>
 %b = tt.expand_dims %columns {axis = 0 : i32} : tensor<2xi32> -> tensor<1x2xi32>
 %c = arith.muli %a, %two : tensor<4x1xi32>
 %d = tt.broadcast %c : tensor<4x1xi32> -> tensor<4x2xi32>
 %e = tt.broadcast %b : tensor<1x2xi32> -> tensor<4x2xi32>
 %f = arith.addi %d, %e : tensor<4x2xi32>
 %g = tt.splat %x : !tt.ptr<f32> -> tensor<4x2x!tt.ptr<f32>>
 %h = tt.addptr %g, %f : tensor<4x2x!tt.ptr<f32>>, tensor<4x2xi32>
 %v = tt.load %h : tensor<4x2x!tt.ptr<f32>>
 %even, %odd = tt.split %v : tensor<4x2xf32> -> tensor<4xf32>
 %s = tt.splat %x : !tt.ptr<f32> -> tensor<4x!tt.ptr<f32>>
 %p = tt.addptr %s, %rows : tensor<4x!tt.ptr<f32>>, tensor<4xi32>
 %m = arith.subf %even, %odd : tensor<4xf32>
 tt.store %p, %m : tensor<4x!tt.ptr<f32>>"""
    made = from_ttir(f"{HEAD}{body}\n tt.return\n }}\n}}\n")
    x = np.array([1, 4, np.nan, 2, -np.inf, 0, 5, 5], np.float32)
    found = made.launch(x, 0, grid=1, **options)["x"][:4]
    np.testing.assert_array_equal(found, x[::2] - x[1::2])


def test_the_kernel_test_command_takes_ttir(tmp_path: Path):
    from xdsl_spirv.tools.main import main

    for name in ("add", "overlapping"):
        shutil.copy(HERE / f"{name}.ttir", tmp_path)
    shutil.copy(HERE / "kernels.py", tmp_path)
    (tmp_path / "add.kernel.toml").write_text("""
kernel = "add.ttir"
grid = 2
target = "lavapipe"
[push-constants]
n = 100
[buffers.x]
type = "f32"
size = 100
content = "random"
[buffers.y]
type = "f32"
size = 100
content = "ones"
[buffers.out]
type = "f32"
size = 100
content = "zeros"
expect = "x + y"
""")
    assert main(["test", str(tmp_path / "add.ttir")]) == 0


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("%r = tt.splat %x", "IndexError|list index"),
        ("%r = arith.constant dense<[]> : tensor<0xf32>", "f.ttir:3|tuple index"),
        (
            "%r = tt.make_range {end = 4 : i32} : tensor<4xi32>",
            "tt.make_range is not in the form that Triton",
        ),
    ],
)
def test_text_that_triton_does_not_write_is_refused(line: str, message: str):
    text = f"tt.func @f(%x: f32) {{\n{line}\ntt.return\n}}"
    with pytest.raises(FrontendError, match=message):
        convert(kernel_of(read(text, "f.ttir")))
