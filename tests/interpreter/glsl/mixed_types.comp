#version 460
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
  int s = int(a[i]);
  uint u = a[i+1];
  int64_t l = s;
  uint64_t ul = u;
  o[i*8] = uint(s + int(u));
  o[i*8+1] = u + s;
  o[i*8+2] = uint(s < u);
  o[i*8+3] = u * s;
  o[i*8+4] = uint(l * 3 + u);
  o[i*8+5] = uint((ul + s) >> 3);
  o[i*8+6] = uint(u > s ? 1 : 2);
  o[i*8+7] = uint(max(u, s));
  o[i+1024] = uint(float(u) + s > 0);
  o[i+1100] = (u << (s & 15) % 7) | (s >> (u & 7));
  int64_t q = l << (u & 31);
  o[i+1200] = uint(q >> 9);
  ivec2 v = ivec2(s, 4);
  uvec2 w = uvec2(u, 3);
  w += v;
  w = w * v & 7 | v;
  o[i+1300]=w.x+w.y;
}
