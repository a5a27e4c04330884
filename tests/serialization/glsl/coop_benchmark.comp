#version 460
// The shape of a tiled matmul benchmark: everything that a host chooses is a specialization constant.
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference2 : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
layout(local_size_x_id = 0, local_size_y_id = 1) in;
layout(constant_id = 2) const uint lM = 16;
layout(constant_id = 3) const uint lN = 16;
layout(constant_id = 4) const uint lK = 16;
layout(constant_id = 5) const uint TILE_M = 64;
layout(constant_id = 6) const uint TILE_N = 64;
layout(constant_id = 7) const uint TILE_K = 32;
layout(constant_id = 8) const uint K = 256;
layout(constant_id = 9) const float alpha = 2.0;
layout(constant_id = 10) const bool transposed = false;
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer InputA { float16_t x[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer InputB { float16_t x[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer InputC { float x[]; };
layout(set = 0, binding = 0, scalar) uniform Params { InputA inputA; InputB inputB; InputC inputC; InputC outputO; } params;

const uint C_ROWS = TILE_M / lM;
const uint C_COLS = TILE_N / lN;
coopmat<float, gl_ScopeSubgroup, lM, lN, gl_MatrixUseAccumulator> result[C_ROWS][C_COLS];
shared float16_t staged[TILE_M * (TILE_K + 8u)];

float scale(float x) { return alpha * x; }
float16_t scale(float16_t x) { return float16_t(alpha) * x; }

void main() {
  uint row = TILE_M * gl_WorkGroupID.y, column = TILE_N * gl_WorkGroupID.x;
  [[unroll]] for (uint i = 0; i < C_ROWS; ++i) {
    [[unroll]] for (uint j = 0; j < C_COLS; ++j) {
      result[i][j] = coopmat<float, gl_ScopeSubgroup, lM, lN, gl_MatrixUseAccumulator>(0.0);
    }
  }
  for (uint chunk = 0; chunk < K; chunk += TILE_K) {
    staged[gl_LocalInvocationIndex] = scale(params.inputA.x[row * K + chunk + gl_LocalInvocationIndex]);
    barrier();
    [[unroll]] for (uint k = 0; k < TILE_K / lK; ++k) {
      coopmat<float16_t, gl_ScopeSubgroup, lM, lK, gl_MatrixUseA> a[C_ROWS];
      [[unroll]] for (uint i = 0; i < C_ROWS; ++i) {
        coopMatLoad(a[i], staged, (TILE_K + 8u) * lM * i + lK * k, TILE_K + 8u, gl_CooperativeMatrixLayoutRowMajor);
      }
      coopmat<float16_t, gl_ScopeSubgroup, lK, lN, gl_MatrixUseB> b;
      [[unroll]] for (uint j = 0; j < C_COLS; ++j) {
        uint at = transposed ? (column + lN * j) * K + chunk + lK * k : (chunk + lK * k) * TILE_N + column + lN * j;
        if (transposed) coopMatLoad(b, params.inputB.x, at, K, gl_CooperativeMatrixLayoutColumnMajor);
        else coopMatLoad(b, params.inputB.x, at, TILE_N, gl_CooperativeMatrixLayoutRowMajor);
        [[unroll]] for (uint i = 0; i < C_ROWS; ++i) result[i][j] = coopMatMulAdd(a[i], b, result[i][j]);
      }
    }
    barrier();
  }
  [[unroll]] for (uint i = 0; i < C_ROWS; ++i) {
    [[unroll]] for (uint j = 0; j < C_COLS; ++j) {
      for (int e = 0; e < result[i][j].length(); ++e) result[i][j][e] = scale(result[i][j][e]);
      coopMatStore(result[i][j], params.outputO.x, (row + lM * i) * TILE_N + column + lN * j, TILE_N, gl_CooperativeMatrixLayoutRowMajor);
    }
  }
}
