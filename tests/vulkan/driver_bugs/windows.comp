#version 460
#extension GL_EXT_control_flow_attributes : require
// Windows of 5 x 5 of a depthwise convolution: NEIGHBOURS results along a row of vec4 channels.
layout(local_size_x = 64) in;
layout(binding = 0) buffer X { vec4 x[]; };
layout(binding = 1) buffer W { vec4 w[]; };
layout(binding = 2) buffer Y { vec4 y[]; };

void main() {
  uint i = gl_GlobalInvocationID.x, channel = i % 16, column = NEIGHBOURS * (i / 16 % 14), row = i / 224;
  vec4 sums[NEIGHBOURS];
  [[unroll]] for (uint n = 0; n < NEIGHBOURS; ++n) sums[n] = vec4(0);
  [[unroll]] for (uint r = 0; r < 5; ++r)
    [[unroll]] for (uint s = 0; s < 5; ++s)
      [[unroll]] for (uint n = 0; n < NEIGHBOURS; ++n)
        sums[n] += x[((row + r) * 60 + column + n + s) * 16 + channel] * w[(5 * r + s) * 16 + channel];
  [[unroll]] for (uint n = 0; n < NEIGHBOURS; ++n) y[(row * 56 + column + n) * 16 + channel] = sums[n];
}
