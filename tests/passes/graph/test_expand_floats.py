"""8-bit floats give ml_dtypes' values, both as bytes and in matrix instructions of a target."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from xdsl_spirv import targets
from xdsl_spirv.compiler import compile
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.program import Program

TYPES: dict[str, Any] = {
    "f16": np.float16,
    "f32": np.float32,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
}
FLOATS = [name for name in TYPES if name.startswith("f8")]
CODES = np.arange(256, dtype=np.uint8)


def elementwise(source: str, result: str, body: str) -> str:
    map = "affine_map<(i) -> (i)>"
    return f"""
func.func @main(%x: tensor<256x{source}>) -> tensor<256x{result}> {{
  %e = tensor.empty() : tensor<256x{result}>
  %r = linalg.generic {{indexing_maps = [{map}, {map}], iterator_types = ["parallel"]}}
      ins(%x : tensor<256x{source}>) outs(%e : tensor<256x{result}>) {{
  ^bb0(%a: {source}, %o: {result}):
    {body}
    linalg.yield %y : {result}
  }} -> tensor<256x{result}>
  return %r : tensor<256x{result}>
}}"""


def product(a: str, b: str) -> str:
    maps = (f"affine_map<(m, n, k) -> ({loops})>" for loops in ("m, k", "n, k", "m, n"))
    return f"""
func.func @main(%x: tensor<48x64x{a}>, %w: tensor<32x64x{b}>) -> tensor<48x32xf32> {{
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<48x32xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<48x32xf32>) -> tensor<48x32xf32>
  %r = linalg.generic {{indexing_maps = [{", ".join(maps)}],
      iterator_types = ["parallel", "parallel", "reduction"]}}
      ins(%x, %w : tensor<48x64x{a}>, tensor<32x64x{b}>) outs(%f : tensor<48x32xf32>) {{
  ^bb0(%a: {a}, %b: {b}, %c: f32):
    %a1 = arith.extf %a : {a} to f32
    %b1 = arith.extf %b : {b} to f32
    %p = arith.mulf %a1, %b1 : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  }} -> tensor<48x32xf32>
  return %r : tensor<48x32xf32>
}}"""


def compile_text(text: str, folder: Path, target: str) -> Program:
    path = folder / "x.mlir"
    path.write_text(text)
    return compile(path, target)


def bits(array: Array) -> Array:
    """Returns the bytes of floats, with one NaN for all NaNs."""
    return np.where(np.isnan(array.astype(np.float32)), 255, array.view(np.uint8))


@pytest.mark.parametrize("name", FLOATS)
def test_every_code_is_converted_to_its_number(name: str, tmp_path: Path):
    x = CODES.view(TYPES[name])
    for wide in ("f16", "f32"):
        text = elementwise(name, wide, f"%y = arith.extf %a : {name} to {wide}")
        if name == "f8E5M2FNUZ" and wide == "f16":
            continue
        program = compile_text(text, tmp_path, "lavapipe")
        np.testing.assert_array_equal(program(x, device="interpreter"), x.astype(TYPES[wide]))


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_numbers_are_rounded_once_to_even(name: str, tmp_path: Path):
    exact = CODES.view(TYPES[name]).astype(np.float32)
    middles = np.sort(exact[np.isfinite(exact)])
    middles = np.resize((middles[1:] + middles[:-1]) / 2, 256)
    draw = np.random.default_rng(0)
    words = draw.integers(0, 1 << 32, 256, np.uint32).view(np.float32)
    text = elementwise("f32", name, f"%y = arith.truncf %a : f32 to {name}")
    program = compile_text(text, tmp_path, "lavapipe")
    for x in (exact, middles, np.nextafter(middles, np.float32(9)), draw.normal(size=256), words):
        x = x.astype(np.float32)
        result = program(x, device="interpreter")
        np.testing.assert_array_equal(bits(result), bits(x.astype(TYPES[name])))


def test_a_sum_of_codes_is_rounded_to_a_code(tmp_path: Path):
    body = "%b = arith.truncf %a : f32 to f8E5M2\n    %y = arith.addf %b, %b : f8E5M2"
    program = compile_text(elementwise("f32", "f8E5M2", body), tmp_path, "nvidia-h200")
    x = np.random.default_rng(0).normal(size=256).astype(np.float32)
    rounded = x.astype(TYPES["f8E5M2"]).astype(np.float32)
    expected = (2 * rounded).astype(TYPES["f8E5M2"])
    np.testing.assert_array_equal(bits(program(x, device="interpreter")), bits(expected))


def check_product(a: str, b: str, folder: Path, target: str) -> Any:
    program = compile_text(product(a, b), folder, target)
    draw = np.random.default_rng(1)
    x = draw.normal(size=(48, 64)).astype(TYPES[a])
    w = draw.normal(size=(32, 64)).astype(TYPES[b])
    expected = x.astype(np.float64) @ w.astype(np.float64).T
    np.testing.assert_allclose(program(x, w, device="interpreter"), expected, atol=2e-5)
    assert {buffer.bytes for buffer in program.manifest.buffers if buffer.name == "w"} == {32 * 64}
    (layer,) = program.layers
    return layer


@pytest.mark.parametrize("target", ["lavapipe", "nvidia-h200", "qualcomm-adreno"])
@pytest.mark.parametrize(
    ("a", "b"), [("f16", "f8E4M3FN"), ("f8E4M3FN", "f8E5M2"), ("f8E4M3FN", "f8E4M3FN")]
)
def test_one_kernel_multiplies_bytes_as_f16(a: str, b: str, target: str, tmp_path: Path):
    layer = check_product(a, b, tmp_path, target)
    assert layer.path == ("fma" if target == "qualcomm-adreno" else "cooperative-matrix")


def test_matrices_of_a_target_multiply_the_listed_types(tmp_path: Path):
    known = json.loads((Path(targets.__file__).parent / "amd-rdna4.json").read_text())
    shape = {"m": 16, "n": 16, "k": 16, "saturating": False, "scope": "Subgroup"}
    types = {"a": "f8E4M3FN", "b": "f8E5M2", "c": "f32", "result": "f32"}
    known["cooperative_matrix"].append({**shape, **types})
    known["features"] += ["float8-type", "float8-cooperative-matrix"]
    path = tmp_path / "target.json"
    path.write_text(json.dumps({**known, "name": "with-float8"}))
    for a, b in (("f8E4M3FN", "f8E5M2"), ("f8E5M2", "f8E5M2")):
        assert check_product(a, b, tmp_path, str(path)).path == "cooperative-matrix"
        compile_text(product(a, b), tmp_path, str(path)).save(tmp_path / b / a)
        native = any(
            b"SPV_EXT_float8" in file.read_bytes() for file in (tmp_path / b / a).rglob("*.spv")
        )
        assert native == (a == "f8E4M3FN")
