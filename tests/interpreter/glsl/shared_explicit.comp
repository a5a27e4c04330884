#version 460
// since: vulkan1.2
#extension GL_EXT_shared_memory_block : enable
#extension GL_EXT_shader_explicit_arithmetic_types : enable
layout(local_size_x = 32) in;
layout(binding=0, std430) readonly buffer In {
  uint a[];
};
layout(binding=1, std430) buffer Out {
  uint o[];
};
shared B0 {
  uint s0[32];
};
shared B1 {
  uint16_t s1[64];
};
void main() {
  uint i = gl_GlobalInvocationID.x;
  s0[gl_LocalInvocationIndex] = i;
  barrier();
  o[i] = uint(s1[gl_LocalInvocationIndex * 2]) + uint(s1[gl_LocalInvocationIndex * 2 + 1]);
}
