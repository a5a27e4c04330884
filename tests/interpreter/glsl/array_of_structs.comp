#version 460
layout(local_size_x = 32) in;
layout(binding=0, std430) readonly buffer In {
  uint a[];
};
layout(binding=1, std430) buffer Out {
  uint o[];
};
struct S {
  uint x;
  vec2 y;
};
shared S sh[32];
S p[4] = S[4](S(1u,vec2(1)), S(2u,vec2(2)), S(3u,vec2(3)), S(4u,vec2(4)));
void main() {
  uint i = gl_GlobalInvocationID.x;
  S s[4];
  for (uint k = 0; k < 4u; ++k) {
    s[k].x = a[i + k];
    s[k].y = vec2(k, i);
  }
  s[i & 3u].x = 5;
  s[(i >> 1) & 3u].y.x = 8;
  S t = s[(i >> 2) & 3u];
  o[i] = t.x + uint(t.y.x) + s[(i*3)&3u].x;
  sh[gl_LocalInvocationIndex].x = s[1].x;
  barrier();
  if (i == 64) o[1] = sh[1].x;
  p[i&3u].y[1]=3;
  o[i+64] = p[i&1u].x + uint(p[i&3u].y.y);
  uint j = i & 3u;
  s[j] = t;
  S u[2][2];
  u[i&1u][j>>1] = s[1];
  u[1u-(i&1u)][j>>1] = s[2];
  u[i&1u][1u-(j>>1)] = s[3];
  u[1u-(i&1u)][1u-(j>>1)] = s[0];
  o[i+128]=u[1][i&1u].x;
}
