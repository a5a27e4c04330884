#version 460
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_debug_printf : require
layout(constant_id = 1) const float16_t HALF = float16_t(6.1e-5);
layout(constant_id = 2) const double DOUBLE = 1e-310LF;
layout(constant_id = 3) const int64_t LONG = -9223372036854775807L;
layout(constant_id = 4) const uint16_t SHORT = uint16_t(65535);
layout(constant_id = 5) const int8_t BYTE = int8_t(-128);
const uint DERIVED = uint(SHORT) * 3u + (uint(BYTE) >> 2);
layout(local_size_x = 1) in;
layout(set = 0, binding = 0) buffer A { double d[]; };
struct Pair { int x; double y[3]; };
void main() {
  Pair pairs[2] = Pair[2](Pair(1, double[3](1.0LF, -0.0LF, 1.0LF / 0.0LF)), Pair(-2147483647 - 1, double[3](0.1LF, 3e300LF, 0.5LF)));
  mat3x4 m = mat3x4(1.0e-40);
  vec4 column = m * vec3(1.0 / 0.0, 3.4028235e38, 1.17549435e-38);
  d[0] = double(HALF) + DOUBLE + double(LONG) + double(DERIVED) + pairs[gl_WorkGroupID.x & 1].y[2];
  d[1] = determinant(mat2(0.1, 123456.789, -1e30, 1e-30)) + column.x + frexp(column.y, pairs[0].x);
  debugPrintfEXT("d is %f \"quoted\" \\ ok", float(d[0]));
  float isnan_source = float(d[1]);
  if (isnan(isnan_source)) { uint high; uint low; umulExtended(3u, DERIVED, high, low); d[2] = double(high); }
}
