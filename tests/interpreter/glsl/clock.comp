#version 460
#extension GL_ARB_shader_clock : enable
#extension GL_EXT_shader_explicit_arithmetic_types : enable
layout(local_size_x = 32) in;
layout(binding=0, std430) readonly buffer In {
  uint a[];
};
layout(binding=1, std430) buffer Out {
  uint o[];
};
void main() {
  uint i = gl_GlobalInvocationID.x;
  uint64_t before = clockARB();
  uvec2 now = clock2x32ARB();
  o[i] = uint(before * 0UL) + now.x * 0u + i;
}
