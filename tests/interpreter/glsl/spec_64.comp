#version 460
// since: vulkan1.2
// specialization: {1: 7}
#extension GL_EXT_shader_explicit_arithmetic_types : enable
layout(local_size_x = 32) in;
layout(binding=0, std430) readonly buffer In {
  uint a[];
};
layout(binding=1, std430) buffer Out {
  uint o[];
};
layout(constant_id=0) const int64_t A = 5L;
layout(constant_id=1) const uint8_t B8 = uint8_t(200);
layout(constant_id=2) const double D = 3.25;
layout(constant_id=3) const float16_t H=2.5hf;
layout(constant_id=4) const int16_t SS=-5s;
void main() {
  uint i = gl_GlobalInvocationID.x;
  o[i] = uint(A + B8) ;
  o[i+64] = uint(D);
  o[i+128]=uint(H) + uint(SS);
}
