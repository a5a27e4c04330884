#version 460
#extension GL_EXT_control_flow_attributes : require
// VALUES numbers that are all loaded before the first of them is used: they do not fit registers.
layout(local_size_x = 64) in;
layout(binding = 0) buffer X { float x[]; };
layout(binding = 1) buffer Y { float y[]; };

void main() {
  uint i = gl_GlobalInvocationID.x;
  float held[VALUES];
  [[unroll]] for (uint n = 0; n < VALUES; ++n) held[n] = x[64 * n + i];
  barrier();
  memoryBarrierBuffer();
  [[unroll]] for (uint n = 0; n < VALUES; ++n) y[64 * (VALUES - 1 - n) + i] = held[n] * held[(n * 7) % VALUES];
}
