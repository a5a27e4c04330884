#version 460
// validation: --scalar-block-layout
#extension GL_EXT_scalar_block_layout : enable
layout(local_size_x = 32) in;
layout(binding=0, std430) readonly buffer In {
  uint a[];
};
layout(binding=1, std430) buffer Out {
  uint o[];
};
struct S2 {
  uint p;
  vec3 q;
};
layout(binding=0, scalar) readonly buffer G {
  layout(row_major) mat4x3 m;
  mat3x2 cm;
  double dd;
  uint h[3];
  S2 s[];
} g;
struct E {
  float x;
  vec2 y;
};
shared struct {
  mat3x2 m;
  vec3 v;
  E arr[2];
} a1;
void main() {
  uint i = gl_GlobalInvocationID.x;
  if (gl_LocalInvocationIndex == 0u) {
    a1.m = mat3x2(a[i], a[i+1], a[i+2], 4, 5, 6);
    a1.v = vec3(1, a[i], 3);
    a1.arr[1].x = float(a[i+3]);
    a1.arr[0].y = vec2(2, 3);
  }
  barrier();
  S2 t = g.s[i % 4];
  o[i*8] = t.p + floatBitsToUint(t.q.y);
  o[i*8+1] = floatBitsToUint(g.m[1][2]);
  o[i*8+5] = floatBitsToUint(a1.m[1].y + a1.v.y + a1.arr[1].x + a1.arr[0].y.x);
  o[i*8+2] = floatBitsToUint(g.cm[2].y);
  mat4x3 rm = g.m;
  o[i*8+3]=floatBitsToUint(rm[3].x);
  o[i*8+4] = uint(g.h[1]);
}
