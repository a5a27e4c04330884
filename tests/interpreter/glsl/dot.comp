#version 460
#extension GL_EXT_shader_explicit_arithmetic_types : enable
#extension GL_EXT_integer_dot_product : enable
layout(local_size_x = 32) in;
layout(binding=0, std430) readonly buffer In {
  uint a[];
};
layout(binding=1, std430) buffer Out {
  uint o[];
};
void main() {
  uint i = gl_GlobalInvocationID.x;
  int r = dotEXT(i8vec4(unpack8(int(a[i]))), i8vec4(1, -2, 3, 4));
  uint u = dotEXT(u8vec4(unpack8(a[i])), u8vec4(1,2,3,255));
  int m = dotPacked4x8EXT(int(a[i]), int(a[i+1]));
  uint mu = dotPacked4x8EXT(a[i], a[i+1]);
  int sat = dotPacked4x8AccSatEXT(int(a[i]), int(a[i+1]), 2147480000);
  o[i*8]=uint(r);
  o[i*8+1]=u;
  o[i*8+2]=uint(m);
  o[i*8+3]=mu;
  o[i*8+4]=uint(sat);
  o[i*8+5]=uint(dotEXT(i16vec2(a[i],3), i16vec2(5,a[i])));
  o[i*8+6]=uint(dotPacked4x8EXT(int(a[i]), a[i+1]));
}
