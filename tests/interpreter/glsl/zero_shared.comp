#version 460
#extension GL_EXT_null_initializer : enable
layout(local_size_x = 32) in;
layout(binding=0, std430) readonly buffer In {
  uint a[];
};
layout(binding=1, std430) buffer Out {
  uint o[];
};
shared uint z[32] = { };
void main() {
  uint i = gl_GlobalInvocationID.x;
  o[i] = z[gl_LocalInvocationIndex] + 1;
  barrier();
  z[gl_LocalInvocationIndex] = i;
  barrier();
  o[i+64] = z[31 - gl_LocalInvocationIndex];
}
