#version 460
#extension GL_EXT_bfloat16 : require
// A kernel that loads binary16 numbers of 8 bits of exponent, for a device that does not list them.
layout(local_size_x = 64) in;
layout(binding = 0) buffer X { bfloat16_t x[]; };
layout(binding = 1) buffer Y { float y[]; };

void main() {
  uint i = gl_GlobalInvocationID.x;
  y[i] = float(x[i]);
}
