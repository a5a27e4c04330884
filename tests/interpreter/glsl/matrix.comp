#version 460
// tolerance: 1e-4
layout(local_size_x = 32) in;
layout(binding=0, std430) readonly buffer In {
  uint a[];
};
layout(binding=1, std430) buffer Out {
  uint o[];
};
void main() {
  uint i = gl_GlobalInvocationID.x;
  mat3 m = mat3(a[i]&7u, a[i+1]&7u, 3, 4, a[i+2]&7u, 6, 7, 8, a[i+3]&15u);
  mat2x3 n = mat2x3(1, 2, 3, 4, 5, 6);
  vec3 r = m * vec3(1, 2, 3);
  vec3 l = vec3(1, 2, 3) * m;
  mat3 p = m * m;
  mat2x3 q = m * n;
  mat3 tt = transpose(m);
  mat3 op = outerProduct(r, l);
  float d = determinant(m);
  m[i % 3] = vec3(1, 2, 9);
  m[1][i % 3] += 4;
  mat3 cm = matrixCompMult(m, p);
  mat3 s3 = m * 2.0 - p / 4.0 + 1.0;
  mat3 ng = -m;
  float all = dot(r, l) + p[1][2] + q[1].z + tt[2].x + op[0][1] + d + m[0].x + m[1].y + cm[2][2] + s3[0].z+ng[1].x;
  o[i] = floatBitsToUint(all);
  mat4 z = mat4(1.0);
  z[2][i & 3u] = 5;
  o[i+64]=floatBitsToUint(z[2].w + float(z == mat4(1.0)));
  o[i+128]=floatBitsToUint(inverse(mat2(2,1,1,float(a[i]&7u)+3))[0][0]);
}
