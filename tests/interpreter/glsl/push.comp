#version 460
// push: {"n": 3, "f": 2.5, "v": [1, 7], "arr": [10, 20], "m": [[1, 2], [3, 4]], "d": 9}
layout(local_size_x = 32) in;
layout(binding=0, std430) readonly buffer In {
  uint a[];
};
layout(binding=1, std430) buffer Out {
  uint o[];
};
layout(push_constant, std430) uniform PC {
  uint n;
  float f;
  vec2 v;
  uint arr[2];
  mat2 m;
  double d;
} pc;
void main() {
  uint i = gl_GlobalInvocationID.x;
  o[i] = pc.n + uint(pc.f) + uint(pc.v.y) + pc.arr[i & 1u] + uint(pc.m[1].y) + uint(pc.d);
}
