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
  f16vec2 v = f16vec2(float16_t(int(a[i] & 255u) - 100), 2.5hf);
  float16_t h = v.x * v.y + 1.0hf;
  o[i] = uint(float16BitsToUint16(h));
  o[i+64]=packFloat2x16(sqrt(abs(v)) * float16_t(0.5));
  o[i+128] = uint(int16_t(h)) ;
  o[i+192] = floatBitsToUint(float(min(h, 3.0hf)) + float(f16mat2(1,2,3,4)[1].x));
  bool b = h > 3.0hf;
  o[i+256] = uint(b)+ uint(float16_t(a[i] & 1023u));
  double d = double(h) * 2.0LF;
  o[i+320] = floatBitsToUint(float(d)) ;
  o[i+384]=uint(d > 1.0LF ? 1 : 2);
  o[i+448]=uint(int64_t(d));
}
