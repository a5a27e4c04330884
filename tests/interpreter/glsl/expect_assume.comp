#version 460
#extension GL_EXT_control_flow_attributes : enable
layout(local_size_x = 32) in;
layout(binding=0, std430) readonly buffer In {
  uint a[];
};
layout(binding=1, std430) buffer Out {
  uint o[];
};
void main() {
  uint i = gl_GlobalInvocationID.x;
  uint x = a[i];
  if (x == 3u) {
    o[i] = 1;
  } else [[unroll]] for (int j = 0; j < 3; ++j) o[i + j * 64] = x + j;
  [[flatten]] if (x > 4u) o[i+300] = 5;
  [[dont_unroll]] for (uint q=0;q<(i&3u);q++) o[i+400]+=q;
}
