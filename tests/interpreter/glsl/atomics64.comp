#version 460
#extension GL_EXT_shader_explicit_arithmetic_types : enable
#extension GL_EXT_shader_atomic_int64 : enable
layout(local_size_x = 32) in;
layout(binding=0, std430) readonly buffer In {
  uint a[];
};
layout(binding=1, std430) buffer Out {
  uint o[];
};
layout(binding=1,std430) buffer B {
  uint64_t b[];
};
layout(binding=1,std430) buffer SB {
  int64_t sb[];
};
void main() {
  uint i = gl_GlobalInvocationID.x;
  atomicAdd(b[0], uint64_t(a[i]));
  atomicMin(sb[1], int64_t(int(a[i])));
  atomicMax(b[2], uint64_t(a[i])<<20);
  atomicOr(b[3], uint64_t(a[i])<<8);
  atomicCompSwap(b[4], 0UL, 3UL);
  atomicExchange(b[5],9UL);
}
