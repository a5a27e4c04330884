#version 460
#extension GL_KHR_shader_subgroup_rotate : enable
layout(local_size_x = 32) in;
layout(binding=0, std430) readonly buffer In {
  uint a[];
};
layout(binding=1, std430) buffer Out {
  uint o[];
};
void main() {
  uint i = gl_GlobalInvocationID.x;
  o[i] = subgroupRotate(i, 3);
  o[i+64]=subgroupClusteredRotate(i, 1, 4);
  o[i+128]=floatBitsToUint(subgroupRotate(float(i), i*0u+2u));
}
