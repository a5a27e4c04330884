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
  vec4 v = vec4(a[i]&1023u, a[i+1]&511u, 3, 4) / 1024.0;
  o[i*8] = packUnorm4x8(v);
  o[i*8+1] = packSnorm4x8(v - 0.5);
  o[i*8+2] = packHalf2x16(v.xy);
  o[i*8+3] = packUnorm2x16(v.yx);
  o[i*8+4] = packSnorm2x16(v.yx-0.5);
  vec4 u = unpackUnorm4x8(a[i]);
  o[i*8+5] = floatBitsToUint(u.z);
  o[i*8+6]=floatBitsToUint(unpackHalf2x16(a[i]&0x7bff7bffu).y);
  o[i*8+7] = floatBitsToUint(unpackSnorm2x16(a[i]).x);
  double d = packDouble2x32(uvec2(a[i], 0x3ff00000u));
  uvec2 w = unpackDouble2x32(d + 1.0LF);
  o[i+1024]=w.y;
  o[i+1100]=pack32(u8vec4(1,2,3,a[i]))+uint(unpack8(a[i]).y) + pack32(u16vec2(a[i],4)) + uint(pack64(u32vec2(a[i],5))>>32) ;
  o[i+1200]=uint(unpack16(a[i]).y)+unpack32(uint64_t(a[i])<<8).y;
  o[i+1300]=packFloat2x16(f16vec2(1.5hf,2.5hf))+ float16BitsToUint16(float16_t(3.5)) + uint(unpackFloat2x16(0x3c003c00u).x);
}
