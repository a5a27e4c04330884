"""Programs that depend on a component map run only on devices with that map."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from xdsl_spirv import targets
from xdsl_spirv.compiler import compile_module
from xdsl_spirv.runtime.modules import parse_text

PROGRAM = """
func.func @main(%x: tensor<9x112xf16>, %q: tensor<13x7x16xi8>, %d: tensor<13x7xf16>)
    -> tensor<9x13xf32> {
  %zero = arith.constant 0.0 : f32
  %packed = tensor.empty() : tensor<13x7x16xf16>
  %w = linalg.generic {
      indexing_maps = [affine_map<(n, b, j) -> (n, b, j)>, affine_map<(n, b, j) -> (n, b)>,
                       affine_map<(n, b, j) -> (n, b, j)>],
      iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%q, %d : tensor<13x7x16xi8>, tensor<13x7xf16>) outs(%packed : tensor<13x7x16xf16>) {
    ^bb0(%a: i8, %s: f16, %o: f16):
      %f = arith.sitofp %a : i8 to f32
      %t = arith.extf %s : f16 to f32
      %p = arith.mulf %f, %t : f32
      %h = arith.truncf %p : f32 to f16
      linalg.yield %h : f16
  } -> tensor<13x7x16xf16>
  %rows = tensor.collapse_shape %w [[0], [1, 2]] : tensor<13x7x16xf16> into tensor<13x112xf16>
  %empty = tensor.empty() : tensor<9x13xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<9x13xf32>) -> tensor<9x13xf32>
  %r = linalg.generic {
      indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>,
                       affine_map<(m, n, k) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %rows : tensor<9x112xf16>, tensor<13x112xf16>) outs(%init : tensor<9x13xf32>)
      attrs = {schedule = #schedule.contraction<workgroup_tile = [8, 8, 32], subgroups = [1, 1],
          instruction = coopmat 8x8x8, a = staged<padding = 8, vector = 8>, b = direct>} {
    ^bb0(%a: f16, %b: f16, %c: f32):
      %y = arith.extf %a : f16 to f32
      %z = arith.extf %b : f16 to f32
      %p = arith.mulf %y, %z : f32
      %s = arith.addf %p, %c : f32
      linalg.yield %s : f32
  } -> tensor<9x13xf32>
  return %r : tensor<9x13xf32>
}
"""

SCRIPT = """
import sys
import numpy as np
from xdsl_spirv.runtime import Program
from xdsl_spirv.runtime.errors import ProgramError
try:
    given = dict(np.load(sys.argv[2]))
    np.save(sys.argv[3], Program.load(sys.argv[1])(**given, device="vulkan"))
except ProgramError as error:
    print(error)
"""


@pytest.mark.vulkan
@pytest.mark.parametrize("other", [False, True])
def test_programs_run_only_on_devices_with_their_map(
    other: bool, lavapipe: Path, tmp_path: Path
) -> None:
    program = compile_module(parse_text(PROGRAM), "lavapipe")
    program.save(tmp_path / "p")
    manifest = json.loads((tmp_path / "p" / "program.json").read_text())
    assert manifest["component_map"] == "lavapipe"
    if other:
        target = json.loads((Path(targets.__file__).parent / "lavapipe.json").read_text())
        for fragment in target["component_map"]["fragments"]:
            if fragment["use"] == "B":
                fragment["lane"], fragment["component"] = fragment["component"], fragment["lane"]
        (tmp_path / "other.json").write_text(json.dumps(target))
        manifest["component_map"] = str(tmp_path / "other.json")
        (tmp_path / "p" / "program.json").write_text(json.dumps(manifest))
    random = np.random.default_rng(1)
    x = random.normal(size=(9, 112)).astype(np.float16)
    q = random.integers(-128, 128, (13, 7, 16), np.int8)
    d = random.uniform(0.01, 0.02, (13, 7)).astype(np.float16)
    np.savez(tmp_path / "given.npz", x=x, q=q, d=d)
    done = subprocess.run(
        [
            *(lavapipe, sys.executable, "-c", SCRIPT),
            *(tmp_path / "p", tmp_path / "given.npz", tmp_path / "r.npy"),
        ],
        capture_output=True,
        text=True,
        timeout=1000,
        check=True,
        env=os.environ | {"XDSL_SPIRV_CACHE": str(tmp_path)},
    )
    if other:
        assert "it lacks B matrices 8x8 of f16 with the component map of" in done.stdout
        return
    w = (q * d[..., None].astype(np.float64)).reshape(13, 112)
    exact = x.astype(np.float64) @ w.T
    assert np.abs(np.load(tmp_path / "r.npy") - exact).max() < 1e-2
