"""Operations on specialization constants determine sizes and layout of cooperative matrices."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from xdsl_spirv.interpreter import Options, dispatch
from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.serialization.decode.decoder import decode
from xdsl_spirv.serialization.encode.encoder import encode

SHADER = """#version 450
#extension GL_KHR_cooperative_matrix : enable
#extension GL_KHR_memory_scope_semantics : enable
#extension GL_EXT_shader_explicit_arithmetic_types : enable
layout(local_size_x_id = 2) in;
layout(constant_id = 0) const uint HALF = 4;
layout(constant_id = 1) const bool TRANSPOSED = false;
const uint SIZE = HALF * 2;
const int LAYOUT = TRANSPOSED ? gl_CooperativeMatrixLayoutColumnMajor
                              : gl_CooperativeMatrixLayoutRowMajor;
layout(binding = 0) readonly buffer A { float16_t a[]; };
layout(binding = 1) readonly buffer B { float16_t b[]; };
layout(binding = 2) buffer C { float c[]; };
shared float16_t tile[SIZE * SIZE];
void main() {
  for (uint i = gl_LocalInvocationIndex; i < SIZE * SIZE; i += gl_WorkGroupSize.x) tile[i] = a[i];
  barrier();
  coopmat<float16_t, gl_ScopeSubgroup, SIZE, SIZE, gl_MatrixUseA> left;
  coopmat<float16_t, gl_ScopeSubgroup, SIZE, SIZE, gl_MatrixUseB> right;
  coopmat<float, gl_ScopeSubgroup, SIZE, SIZE, gl_MatrixUseAccumulator> sum =
      coopmat<float, gl_ScopeSubgroup, SIZE, SIZE, gl_MatrixUseAccumulator>(1.0);
  coopMatLoad(left, tile, 0, SIZE, LAYOUT);
  coopMatLoad(right, b, 0, SIZE, gl_CooperativeMatrixLayoutRowMajor);
  coopMatStore(coopMatMulAdd(left, right, sum), c, 0, SIZE, gl_CooperativeMatrixLayoutRowMajor);
}
"""


@pytest.fixture(scope="module")
def binary(glslang: list[str], tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder: Path = tmp_path_factory.mktemp("derived")
    source, output = folder / "x.comp", folder / "x.spv"
    source.write_text(SHADER)
    line = [*glslang, "-V", "--target-env", "vulkan1.3", str(source), "-o", str(output)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if "not supported" in done.stdout:
        pytest.skip("this glslang has no cooperative matrices")
    assert done.returncode == 0, done.stdout
    return output.read_bytes()


@pytest.mark.parametrize("size", [8, 16])
@pytest.mark.parametrize("transposed", [False, True])
def test_a_product_with_derived_sizes_is_right(binary: bytes, size: int, transposed: bool):
    rng = np.random.default_rng(size)
    a, b = (rng.integers(-8, 8, (size, size)).astype(np.float16) for _ in range(2))
    c = np.zeros((size, size), np.float32)
    checks = Checks.all()
    dispatch(
        decode(binary),
        "main",
        (1, 1, 1),
        {(0, 0): a, (0, 1): b, (0, 2): c},
        {0: size // 2, 1: transposed, 2: 32},
        options=Options(subgroup_size=32, checks=checks),
    )
    assert not checks.report.findings, str(checks.report)
    left = a.T if transposed else a
    np.testing.assert_array_equal(c, left.astype(np.float32) @ b.astype(np.float32) + 1)


def test_a_decoded_module_is_encoded_to_the_same_bytes(binary: bytes):
    again = encode(decode(binary))
    assert encode(decode(again)) == again
