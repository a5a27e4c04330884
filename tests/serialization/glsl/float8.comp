#version 460
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_float_e4m3 : require
#extension GL_EXT_float_e5m2 : require
layout(local_size_x = 32) in;
layout(set = 0, binding = 0) buffer A { floate4m3_t a[]; };
layout(set = 0, binding = 1) buffer B { floate5m2_t b[]; };
layout(set = 0, binding = 2) buffer C { float c[]; };
void main() {
  uint i = gl_GlobalInvocationID.x;
  c[i] = float(a[i]) + float(b[i]);
  a[i] = floate4m3_t(1.5);
  saturatedConvertEXT(a[i], c[i]);
  coopmat<floate4m3_t, gl_ScopeSubgroup, 16, 32, gl_MatrixUseA> ma;
  coopMatLoad(ma, a, 0, 32, gl_CooperativeMatrixLayoutRowMajor);
  coopMatStore(ma, a, 512, 32, gl_CooperativeMatrixLayoutRowMajor);
}
