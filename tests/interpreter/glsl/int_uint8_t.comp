#version 450
#extension GL_EXT_shader_explicit_arithmetic_types : enable
#extension GL_EXT_shader_8bit_storage : enable
#extension GL_EXT_shader_16bit_storage : enable
layout(local_size_x = 32) in;
layout(binding=0, std430) readonly buffer In {
  uint a[];
};
layout(binding=1, std430) buffer Out {
  uint o[];
};
uint at;
void w(uint64_t x) {
  o[at++] = uint(x & 0xffffffffUL);
  o[at++] = uint(x >> 32);
}
void main() {
  uint i = gl_GlobalInvocationID.x;
  at = i * 96;
  uint64_t wide = uint64_t(a[i]) | (uint64_t(a[i + 1]) << 32);
  uint8_t x = uint8_t(wide), y = uint8_t(a[i + 64]), z = uint8_t(a[i+7]);
  int sh = int(a[i + 3] % 8u);
  uint ush = a[i+5] % 8u;
  uint8_t nz = y == uint8_t(0) ? uint8_t(3) : y;
  w(uint64_t(x+y));
  w(uint64_t(x-y));
  w(uint64_t(x*y));
  w(uint64_t(x&y));
  w(uint64_t(x|y));
  w(uint64_t(x^y));
  w(uint64_t(~x));
  w(uint64_t(-x));
  w(uint64_t(x<<sh));
  w(uint64_t(x>>sh));
  w(uint64_t(x<<ush));
  w(uint64_t(x>>ush));
  w(uint64_t(min(x,y)));
  w(uint64_t(max(x,y)));
  w(uint64_t(clamp(x,min(y,z),max(y,z))));
  w(uint64_t(x<y?1:0));
  w(uint64_t(x<=y?1:0));
  w(uint64_t(x>y?1:0));
  w(uint64_t(x>=y?1:0));
  w(uint64_t(x==y?1:0));
  w(uint64_t(x!=y?1:0));
  w(uint64_t(x++));
  w(uint64_t(++x));
  w(uint64_t(x--));
  w(uint64_t(--x));
  w(uint64_t(x/(nz > 0 ? nz : uint8_t(1))));
  w(uint64_t(x%(nz > 0 ? nz : uint8_t(1))));
  w(uint64_t(int8_t(x)));
  w(uint64_t(uint8_t(x)));
  w(uint64_t(int16_t(x)));
  w(uint64_t(uint16_t(x)));
  w(uint64_t(int(x)));
  w(uint64_t(uint(x)));
  w(uint64_t(int64_t(x)));
  w(uint64_t(uint64_t(x)));
  u8vec3 v = u8vec3(x,y,z), u = u8vec3(z,x,y);
  v += u;
  v ^= uint8_t(3);
  v <<= 1;
  v = v * u + u8vec3(lessThan(v,u));
  v = min(v, u);
  v = mix(v, u, equal(v,u));
  w(uint64_t(v.x));
  w(uint64_t(v.y));
  w(uint64_t(v.z));
}
