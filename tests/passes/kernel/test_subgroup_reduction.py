"""Reductions use rotations on a device without subgroup arithmetic and shuffles."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from xdsl.passes import PassPipeline
from xdsl.universe import Universe

import xdsl_spirv.targets
from xdsl_spirv.dialects.spirv.module import ModuleOp
from xdsl_spirv.interpreter import Options, dispatch
from xdsl_spirv.runtime.modules import context, parse_text
from xdsl_spirv.serialization.encode.encoder import encode
from xdsl_spirv.serialization.encode.target import find_module
from xdsl_spirv.testing.dispatches import Dispatch

if TYPE_CHECKING:
    from tests.conftest import RunOnLavapipe

ROWS, COLUMNS = 6, 44
PASSES = "loops-to-invocations,kernel-to-spirv,spirv-update-vce"
LACKS = {"subgroup-arithmetic", "subgroup-shuffle"}


def text(target: Path, operation: str, initial: str) -> str:
    a = f"memref<{ROWS}x{COLUMNS}xf32, #spirv.storage_class<StorageBuffer>>"
    d = f"memref<{ROWS}xf32, #spirv.storage_class<StorageBuffer>>"
    return f"""
builtin.module attributes {{schedule.target = "{target}"}} {{
  "gpu.module"() <{{sym_name = "kernels"}}> ({{
    "gpu.func"() <{{function_type = ({a}, {d}) -> (), kernel}}> ({{
    ^bb0(%a: {a}, %d: {d}):
      schedule.collective attributes {{
        schedule = #schedule.loops<workgroup = 64, workgroups = 1, reduce = subgroup>
      }} {{
        %z = arith.constant {initial} : f32
        linalg.fill ins(%z : f32) outs(%d : {d})
        linalg.generic {{
          indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
          iterator_types = ["parallel", "reduction"]
        }} ins(%a : {a}) outs(%d : {d}) {{
        ^bb0(%x: f32, %acc: f32):
          %s = {operation} %acc, %x : f32
          linalg.yield %s : f32
        }}
      }}
      "gpu.return"() : () -> ()
    }}) {{sym_name = "rows", gpu.known_block_size = array<i32: 64, 1, 1>,
         gpu.known_grid_size = array<i32: 1, 1, 1>}} : () -> ()
  }}) : () -> ()
}}"""


@pytest.fixture
def rotates(tmp_path: Path) -> Path:
    """Returns the path of lavapipe's file with rotations as the only subgroup feature."""
    data = json.loads((Path(xdsl_spirv.targets.__file__).parent / "lavapipe.json").read_text())
    data["features"] = [f for f in data["features"] if f not in LACKS]
    path = tmp_path / "rotates.json"
    path.write_text(json.dumps(data))
    return path


def compiled(source: str, passes: str = PASSES) -> ModuleOp:
    ctx = context()
    module = parse_text(source, ctx=ctx)
    PassPipeline.parse_spec(Universe.get_multiverse().all_passes, passes).apply(ctx, module)
    module.verify()
    return find_module(module)


REDUCTIONS: list[tuple[str, str, Any]] = [
    ("arith.addf", "0.0", np.sum),
    ("arith.maximumf", "0xFF800000", np.max),
]


@pytest.mark.parametrize(("operation", "initial", "reduce"), REDUCTIONS)
def test_every_invocation_rotates_to_the_same_result(
    rotates: Path, operation: str, initial: str, reduce: Callable[..., Any]
):
    a = np.random.default_rng(1).integers(-50, 50, (ROWS, COLUMNS)).astype(np.float32)
    source = text(rotates, operation, initial)
    for passes in (PASSES, f"{PASSES},spirv-rotate-to-shuffle"):
        module = compiled(source, passes)
        rotations = "GroupNonUniformRotateKHR <Subgroup>" in str(module)
        assert rotations == (passes == PASSES)
        d = np.zeros(ROWS, np.float32)
        buffers = {(0, 0): a, (0, 1): d}
        dispatch(module, "rows", (1, 1, 1), buffers, options=Options(subgroup_size=8))
        assert np.array_equal(d, reduce(a, axis=1))


@pytest.mark.vulkan
def test_lavapipe_rotates(rotates: Path, run_on_lavapipe: RunOnLavapipe):
    a = np.random.default_rng(2).integers(-50, 50, (ROWS, COLUMNS)).astype(np.float32)
    d = np.zeros(ROWS, np.float32)
    module = compiled(text(rotates, "arith.addf", "0.0"))
    buffers = {(0, 0): a, (0, 1): d}
    run_on_lavapipe([Dispatch(encode(module), "rows", (1, 1, 1), buffers, subgroup_size=8)])
    assert np.array_equal(d, a.sum(axis=1))
