#version 460
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
layout(binding=1,std430) buffer B8 {
  int8_t b8[];
};
layout(binding=1,std430) buffer B16 {
  uint16_t b16[];
};
layout(binding=1,std430) buffer BH {
  float16_t bh[];
};
layout(binding=1,std430) buffer B64 {
  int64_t b64[];
};
layout(binding=1,std430) buffer V4 {
  i8vec4 v4[];
};
void main() {
  uint i = gl_GlobalInvocationID.x;
  b8[i] = int8_t(a[i]);
  b16[i+100] = uint16_t(a[i]);
  bh[i+200] = float16_t(float(a[i] & 1023u));
  uint z = uint(b8[i]) ;
  o[i+1024] = z + uint(b16[i+100]) + uint(bh[i+200]);
  b64[i+1000] = int64_t(a[i]) * -3L;
  i8vec4 v = i8vec4(a[i], 1, 2, 3);
  v4[i+800] = v;
  o[i + 1300] = uint(v4[i+800].x);
}
