#version 460
// specialization: {0: 64}
layout(local_size_x_id = 0, local_size_x=16) in;
layout(binding=0, std430) readonly buffer In {
  uint a[];
};
layout(binding=1, std430) buffer Out {
  uint o[];
};
shared uint s[gl_WorkGroupSize.x * 2];
void main() {
  uint i = gl_GlobalInvocationID.x;
  s[gl_LocalInvocationIndex] = i;
  barrier();
  o[i] = s[gl_WorkGroupSize.x - 1 - gl_LocalInvocationIndex] + uint(s.length());
}
