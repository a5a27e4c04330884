#version 460
#extension GL_KHR_cooperative_matrix : require
#extension GL_NV_cooperative_matrix2 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_buffer_reference : require
layout(constant_id = 0) const uint M = 64;
layout(constant_id = 1) const uint N = 64;
layout(local_size_x = 256) in;
layout(set = 0, binding = 0) buffer A { float16_t a[]; };
layout(set = 0, binding = 1) buffer C { float c[]; };
layout(buffer_reference, std430, buffer_reference_align = 2) buffer Packed { uint8_t bits; };
float16_t decode(const in Packed p, const in uint block[2], const in uint inside[2]) {
  return float16_t(p.bits) * float16_t(0.5);
}
float relu(const in uint row, const in uint column, const in float x) { return max(x, 0.0); }
float larger(const in float x, const in float y) { return max(x, y); }
void main() {
  tensorLayoutNV<2, gl_CooperativeMatrixClampModeConstantNV> layoutA =
      createTensorLayoutNV(2, gl_CooperativeMatrixClampModeConstantNV);
  layoutA = setTensorLayoutDimensionNV(layoutA, 1000, 1000);
  layoutA = sliceTensorLayoutNV(layoutA, gl_WorkGroupID.y * M, M, 0, 32);
  tensorViewNV<2, false, 1, 0> transposed = createTensorViewNV(2, false, 1, 0);
  coopmat<float16_t, gl_ScopeWorkgroup, M, 32, gl_MatrixUseA> ma;
  coopmat<float16_t, gl_ScopeWorkgroup, 32, N, gl_MatrixUseB> mb;
  coopmat<float, gl_ScopeWorkgroup, M, N, gl_MatrixUseAccumulator> mc =
      coopmat<float, gl_ScopeWorkgroup, M, N, gl_MatrixUseAccumulator>(0.0);
  coopMatLoadTensorNV(ma, a, 0, layoutA);
  coopMatLoadTensorNV(mb, a, 0, layoutA, transposed, decode);
  mc = coopMatMulAdd(ma, mb, mc);
  coopMatPerElementNV(mc, mc, relu);
  coopMatReduceNV(mc, mc, gl_CooperativeMatrixReduceRowNV, larger);
  tensorLayoutNV<2> layoutC = createTensorLayoutNV(2);
  layoutC = setTensorLayoutDimensionNV(layoutC, 1000, 1000);
  coopMatStoreTensorNV(mc, c, 0, layoutC);
}
