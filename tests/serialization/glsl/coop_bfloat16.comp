#version 460
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_bfloat16 : require
layout(local_size_x = 32) in;
layout(set = 0, binding = 0) readonly buffer A { bfloat16_t a[]; };
layout(set = 0, binding = 1) buffer C { float c[]; };
void main() {
  coopmat<bfloat16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> ma;
  coopmat<bfloat16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> mb;
  coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> mc =
      coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(1.5);
  coopMatLoad(ma, a, 0, 16, gl_CooperativeMatrixLayoutRowMajor);
  coopMatLoad(mb, a, 256, 16, gl_CooperativeMatrixLayoutColumnMajor);
  coopMatStore(coopMatMulAdd(ma, mb, mc), c, 0, 16, gl_CooperativeMatrixLayoutRowMajor);
  bf16vec2 v = bf16vec2(a[0], a[1]);
  c[0] = float(v.x) + dot(vec2(v), vec2(1.0, -3.0e-40));
  a[0];
}
