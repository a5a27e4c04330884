#version 460
layout(local_size_x = 32) in;
layout(binding=0, std430) readonly buffer In {
  uint a[];
};
layout(binding=1, std430) buffer Out {
  uint o[];
};
struct I {
  float x, z;
};
struct SB {
  uint x;
  I y[2];
};
struct S3 {
  uint m[2];
};
struct S2 {
  uint p;
  S3 q[2];
};
layout(binding=0,std140) readonly buffer BB {
  uint arr[4];
  S2 z;
  SB s[3];
} b;
shared uint arr_u[2];
SB l;
uint arrs[4];
void main() {
  uint i = gl_GlobalInvocationID.x;
  SB t = b.s[1];
  l = t;
  arrs = b.arr;
  o[i] = l.x + uint(l.y[1].z) + arrs[i & 3u] + uint(t.y[0].x);
  S2 z = b.z;
  o[i+64] = z.q[1].m[1];
}
