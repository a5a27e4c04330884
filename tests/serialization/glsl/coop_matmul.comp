#version 460
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_control_flow_attributes : require
// Dimensions, tiles and workgroup size by specialization constants; operands staged in shared memory.
layout(constant_id = 0) const uint LM = 16;
layout(constant_id = 1) const uint LN = 16;
layout(constant_id = 2) const uint LK = 16;
layout(constant_id = 3) const uint K = 128;
layout(constant_id = 4) const uint N = 128;
layout(constant_id = 5) const bool STAGED = true;
layout(local_size_x_id = 6, local_size_y_id = 7) in;
layout(set = 0, binding = 0) readonly buffer A { float16_t a[]; };
layout(set = 0, binding = 1) readonly buffer B { float16_t b[]; };
layout(set = 0, binding = 2) buffer C { float c[]; };
shared float16_t tile[LM * (LK + 8)];
void main() {
  uint row = gl_WorkGroupID.y * LM, column = gl_WorkGroupID.x * LN;
  coopmat<float, gl_ScopeSubgroup, LM, LN, gl_MatrixUseAccumulator> sum =
      coopmat<float, gl_ScopeSubgroup, LM, LN, gl_MatrixUseAccumulator>(0.0);
  [[dont_unroll]] for (uint k = 0; k < K; k += LK) {
    coopmat<float16_t, gl_ScopeSubgroup, LM, LK, gl_MatrixUseA> ma;
    coopmat<float16_t, gl_ScopeSubgroup, LK, LN, gl_MatrixUseB> mb;
    if (STAGED) {
      for (uint i = gl_LocalInvocationIndex; i < LM * LK; i += gl_WorkGroupSize.x)
        tile[i / LK * (LK + 8) + i % LK] = a[(row + i / LK) * K + k + i % LK];
      barrier();
      coopMatLoad(ma, tile, 0, LK + 8, gl_CooperativeMatrixLayoutRowMajor);
      barrier();
    } else {
      coopMatLoad(ma, a, row * K + k, K, gl_CooperativeMatrixLayoutRowMajor);
    }
    coopMatLoad(mb, b, k * N + column, N, gl_CooperativeMatrixLayoutColumnMajor);
    sum = coopMatMulAdd(ma, mb, sum);
  }
  [[unroll]] for (uint i = 0; i < sum.length(); ++i) sum[i] = max(sum[i], 0.0);
  coopMatStore(sum * 2.0, c, row * N + column, N, gl_CooperativeMatrixLayoutRowMajor);
}
