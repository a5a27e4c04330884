#version 460
#extension GL_EXT_nonuniform_qualifier : enable
layout(local_size_x = 32) in;
layout(binding=0, std430) readonly buffer In {
  uint a[];
};
layout(binding=1, std430) buffer Out {
  uint o[];
};
layout(binding=0,std430) readonly buffer BB {
  uint nn[];
};
const uint x[4] = uint[4](4u,3u,2u,1u);
void main() {
  uint i = gl_GlobalInvocationID.x;
  o[i] = nn.length() + x[nonuniformEXT(i & 3u)];
}
