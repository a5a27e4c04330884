"""Model Explorer opens compiled kernels by its SPIR-V adapter."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from xdsl_spirv.tools.main import main

PACKAGE = "spirv_adapter_model_explorer"
MATMUL = """
func.func @main(%A: tensor<16x32xf16>, %B: tensor<32x16xf16>) -> tensor<16x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<16x16xf32>
  %i = linalg.fill ins(%zero : f32) outs(%e : tensor<16x16xf32>) -> tensor<16x16xf32>
  %r = linalg.matmul ins(%A, %B : tensor<16x32xf16>, tensor<32x16xf16>)
                     outs(%i : tensor<16x16xf32>) -> tensor<16x16xf32>
  return %r : tensor<16x16xf32>
}
"""


@pytest.fixture
def adapter() -> Any:
    if find_spec(PACKAGE) is None:
        pytest.skip("the adapter is not installed (pip install spirv-adapter-model-explorer)")
    return import_module(f"{PACKAGE}.main").SpirvAdapter()


@pytest.mark.long
@pytest.mark.parametrize("target", ["nvidia-h200", "lavapipe", "qualcomm-adreno"])
def test_a_kernel_is_a_graph_of_its_buffers(adapter: Any, target: str, tmp_path: Path):
    source = tmp_path / "x.mlir"
    source.write_text(MATMUL)
    folder = tmp_path / "program"
    assert main(["compile", str(source), "--target", target, "-o", str(folder)]) == 0
    (binary,) = (folder / "kernels").glob("*.spv")
    (graph,) = adapter.convert(str(binary), {})["graphs"]
    assert "matmul_16x16x32" in graph.id
    # The nodes are the dispatch, two operands and the result.
    assert len(graph.nodes) == 4
