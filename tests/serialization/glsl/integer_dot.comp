#version 460
#extension GL_EXT_integer_dot_product : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
layout(local_size_x = 32) in;
layout(set = 0, binding = 0) readonly buffer A { i8vec4 a[]; };
layout(set = 0, binding = 1) readonly buffer B { u8vec4 b[]; };
layout(set = 0, binding = 2) buffer C { int32_t c[]; };
layout(set = 0, binding = 3) buffer D { uint32_t d[]; };
void main() {
  uint i = gl_GlobalInvocationID.x;
  c[i] = dotEXT(a[i], a[i + 1]) + dotEXT(a[i], b[i]);
  c[i] = dotAccSatEXT(a[i], a[i + 1], c[i]);
  d[i] = dotPacked4x8EXT(d[i], d[i + 1]) + dotPacked4x8AccSatEXT(d[i], d[i + 2], 7u);
}
