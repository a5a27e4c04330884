"""
Kernels need only features that their target lists.

Capabilities by feature agree with Vulkan's registry. A program for a device without a feature is
refused with the operation, the capability and the feature.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from xdsl.utils.exceptions import PassFailedException

from xdsl_spirv.compiler import compile_module
from xdsl_spirv.passes.spirv.update_vce import FEATURES
from xdsl_spirv.runtime.modules import context, parse_text
from xdsl_spirv.runtime.needs import tables
from xdsl_spirv.runtime.vulkan.describe import NAMES, OPERATIONS
from xdsl_spirv.targets import load

ROOT = Path(__file__).parents[3]

ROUNDED = """
func.func @main(%a: tensor<8x4xf32>, %b: tensor<4x8xf32>) -> tensor<8x8xf16> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x8xf32>
  %i = linalg.fill ins(%zero : f32) outs(%e : tensor<8x8xf32>) -> tensor<8x8xf32>
  %c = linalg.matmul ins(%a, %b : tensor<8x4xf32>, tensor<4x8xf32>)
      outs(%i : tensor<8x8xf32>) -> tensor<8x8xf32>
  %o = tensor.empty() : tensor<8x8xf16>
  %r = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>,
      affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%c : tensor<8x8xf32>) outs(%o : tensor<8x8xf16>) {
  ^bb0(%x: f32, %old: f16):
    %h = arith.truncf %x : f32 to f16
    %y = arith.addf %h, %h : f16
    linalg.yield %y : f16
  } -> tensor<8x8xf16>
  func.return %r : tensor<8x8xf16>
}
"""
"""An f32 contraction whose result is rounded to f16."""


def lacking(feature: str, folder: Path) -> str:
    """Writes lavapipe's target file without a feature, and with a GPU's barriers."""
    target = json.loads((ROOT / "targets" / "lavapipe.json").read_text())
    target |= {"name": "poor", "features": sorted(load("lavapipe").features - {feature})}
    target |= {"processor": False}
    path = folder / "poor.json"
    path.write_text(json.dumps(target))
    return str(path)


def test_capabilities_and_features_agree_with_the_registry():
    by_feature = {
        (name, grant): label
        for label, grants in NAMES.items()
        for name, grant in [(g.structure, g.member) for g in grants]
    }
    by_operation = {f"VK_SUBGROUP_FEATURE_{op.upper()}_BIT": n for n, op in OPERATIONS.items()}
    expected: dict[str, str] = {}
    for capability, rows in tables()["capabilities"].items():
        for row in rows:
            feature = by_feature.get(tuple(row.get("feature", ())))
            feature = feature or by_operation.get(row.get("property", [""])[-1])
            if feature is not None:
                expected[capability] = feature
    assert {capability.name: feature for capability, feature in FEATURES.items()} == expected


@pytest.mark.parametrize(
    ("feature", "operation", "capability"),
    [
        ("float16", r"spirv\.F\w+", "Float16"),
        ("vulkan-memory-model", r"spirv\.\w+", "VulkanMemoryModel"),
    ],
)
def test_features_that_the_target_lacks_are_refused(
    feature: str, operation: str, capability: str, tmp_path: Path
):
    message = (
        rf"'{operation}'.* in @matmul_8x8x4.*: the operation needs the capability {capability}, "
        rf"and poor has no {feature}: compile for a device with {feature}"
    )
    with pytest.raises(PassFailedException, match=message):
        compile_module(parse_text(ROUNDED, ctx=context()), lacking(feature, tmp_path))


@pytest.mark.parametrize("feature", ["storage-16-bit", "int8"])
def test_features_with_a_fallback_or_without_use_compile(feature: str, tmp_path: Path):
    program = compile_module(parse_text(ROUNDED, ctx=context()), lacking(feature, tmp_path))
    assert len(program.manifest.kernels) == 1
