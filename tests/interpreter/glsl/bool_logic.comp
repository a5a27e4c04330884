#version 460
layout(local_size_x = 32) in;
layout(binding=0, std430) readonly buffer In {
  uint a[];
};
layout(binding=1, std430) buffer Out {
  uint o[];
};
void main() {
  uint i = gl_GlobalInvocationID.x;
  bvec3 b = lessThan(uvec3(a[i], a[i+1], 5), uvec3(i));
  bool c = any(b) ^^ all(b) || (b.x && !b.y) || (b.x == b.z) && (b != bvec3(true));
  o[i] = uint(c) + uint(dot(vec3(b), vec3(1, 2, 4)));
  vec3 s = mix(vec3(1), vec3(2), b);
  ivec3 q = mix(ivec3(1),ivec3(2),b);
  o[i + 64] = uint(s.x + s.y * 3.0)+uint(q.z);
  uvec3 w = uvec3(b) << uvec3(1, 2, 3);
  o[i+128]=w.x|w.y|w.z;
  uvec4 sw = uvec4(w.zyx, 5);
  sw.wx = sw.xy;
  sw[i & 3u] = 44;
  o[i+192] = sw.x + sw.y*2 + sw.z*3 + sw.w*5;
  const uvec3 cc[2] = uvec3[2](uvec3(1,2,3), uvec3(4,5,6));
  o[i+256] = cc[i & 1u][i % 3u];
  o[i+320]=uint(equal(w, uvec3(2,4,8)).y);
}
