#version 460
layout(local_size_x_id = 3, local_size_x = 8, local_size_y_id=4, local_size_y=4) in;
layout(binding=0, std430) readonly buffer In {
  uint a[];
};
layout(binding=1, std430) buffer Out {
  uint o[];
};
void main() {
  uint i = gl_GlobalInvocationID.x;
  i = gl_WorkGroupID.x * 100u + gl_LocalInvocationIndex;
  o[i] = gl_WorkGroupSize.x * 1000 + gl_LocalInvocationIndex;
}
