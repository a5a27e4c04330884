#version 460
layout(local_size_x = 32) in;
layout(binding=0, std430) readonly buffer In {
  uint a[];
};
layout(binding=1, std430) buffer Out {
  uint o[];
};
struct SE {
  uvec2 z;
  uint x;
};
layout(binding=0, std140) readonly buffer U {
  vec3 v3;
  mat2x3 m;
  float f[3];
  layout(row_major) mat3x2 r;
  SE e;
} u;
void main() {
  uint i = gl_GlobalInvocationID.x;
  o[i*4] = floatBitsToUint(u.m[1].z);
  o[i*4+1] = floatBitsToUint(u.f[i%3]);
  o[i*4+2] = floatBitsToUint(u.r[2][1]);
  o[i*4+3] = u.e.x + uint(u.v3.length());
}
