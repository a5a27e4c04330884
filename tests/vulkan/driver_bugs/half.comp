#version 460
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
// A kernel that needs a device feature (shaderFloat16) which an empty kernel does not.
layout(local_size_x = 64) in;
layout(binding = 0) buffer X { uint x[]; };
layout(binding = 1) buffer Y { uint y[]; };

void main() {
  uint i = gl_GlobalInvocationID.x;
  f16vec2 pair = unpackFloat2x16(x[i]);
  y[i] = packFloat2x16(pair * pair);
}
