#version 460
#extension GL_NV_cooperative_vector : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
layout(local_size_x = 32) in;
layout(set = 0, binding = 0) buffer W { uint8_t weights[]; };
layout(set = 0, binding = 1) buffer X { float16_t x[]; };
void main() {
  coopvecNV<float16_t, 16> v, r;
  coopVecLoadNV(v, x, 0);
  coopVecMatMulNV(r, v, gl_ComponentTypeFloat16NV, weights, 0, gl_ComponentTypeFloat16NV, 16, 16,
                  gl_CooperativeVectorMatrixLayoutInferencingOptimalNV, false, 0);
  r = max(r, coopvecNV<float16_t, 16>(0.0hf));
  coopVecStoreNV(r, x, 64);
}
