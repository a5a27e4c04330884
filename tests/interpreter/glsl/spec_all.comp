#version 460
// specialization: {7: 3, 2: 33, 5: True}
layout(local_size_x = 32) in;
layout(binding=0, std430) readonly buffer In {
  uint a[];
};
layout(binding=1, std430) buffer Out {
  uint o[];
};
layout(constant_id=7) const int N = 3;
layout(constant_id=2) const uint M = 10;
layout(constant_id=5) const bool T = true;
layout(constant_id=9) const float F = 1.5;
const int N2 = N * 2 + 1;
const ivec3 V = ivec3(N, N2, 4);
const bool B = T && (N > 2);
const int X = T ? N2 : N;
const int SH = (N << 3) >> 1;
const ivec3 W = V.zyx + ivec3(1, N, X);
const int NEG = -N;
const uint U = M / 3u + M % 3u ^ 5u;
struct St {
  uint y;
  uint x[3];
};
St S = St(1u, uint[3](M, M+1u, 3u));
uint arr[3][2] = uint[3][2](uint[2](M,1u), uint[2](2u,U), uint[2](4u,5u));
const uint C = uint(W.x) | (M & ~3u);
const int Q = N == 3 ? abs(-4) : V[1];
shared float unused_s[N2];
void main() {
  uint i = gl_GlobalInvocationID.x;
  float f[N2];
  for (int j = 0; j < N2; ++j) f[j] = float(j + int(i));
  float t = 0;
  for (int j = 0; j < f.length(); ++j) t += f[j];
  o[i] = uint(t) + M;
  o[i+64] = uint(V.y) + uint(B) ;
  o[i+128] = uint(X) ;
  o[i+192] = uint(SH);
  o[i+256] = uint(W.z);
  o[i+320]=uint(NEG+100);
  o[i+384]=U;
  o[i+448] = S.x[1];
  o[i+512]=uint(F*2.0);
  o[i+576]= arr[i % 3u][1] + uint(C);
  o[i+640] = uint(Q);
}
