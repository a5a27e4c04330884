#version 460
layout(local_size_x = 32) in;
layout(binding=0, std430) readonly buffer In {
  uint a[];
};
layout(binding=1, std430) buffer Out {
  uint o[];
};
struct S {
  uvec2 v;
  uint w[2];
};
uint x[4] = uint[4](1, 2, 3, 4);
S g = S(uvec2(4,5), uint[2](1,2));
void swap(inout uint p, inout uint q) {
  uint t = p;
  p = q;
  q = t;
}
void inc(inout uint p) {
  p += 5;
}
void out1(out uint q, in uint z[4]) {
  z[0] = 7;
  q = z[0] + z[3];
}
void setv(inout S s) {
  s.w[1] = s.v.y;
  s.v = s.v.yx;
  if (s.v.x > 10u) return;
  s.v.y = 77;
  g.v.x = s.v.x;
}
uint rec(uint n) {
  uint t = 1;
  for (uint k = 1; k <= n; ++k) {
    if (k == 5u) continue;
    t *= k;
    if (t > 100u) break;
  }
  return t;
}
void main() {
  uint i = gl_GlobalInvocationID.x;
  uint arr[4] = uint[4](i, i+1, i+2, i+3);
  swap(arr[1], arr[i & 3u]);
  inc(x[i%4]);
  uint q = 3;
  out1(q, arr);
  S s;
  s.v = uvec2(1, i);
  setv(s);
  o[i] = arr[0] + arr[1] * 3 + q + s.v.y + x[2];
  s.v[i & 1u] = 9;
  o[i + 64] = s.v.x + rec(i & 7u) ;
  o[i+128]=g.v.x;
}
