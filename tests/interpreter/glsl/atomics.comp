#version 460
layout(local_size_x = 32) in;
layout(binding=0, std430) readonly buffer In {
  uint a[];
};
layout(binding=1, std430) buffer Out {
  uint o[];
};
shared uint sh;
layout(binding=1,std430) buffer SO {
  int so[];
};
void main() {
  uint i = gl_GlobalInvocationID.x;
  if (gl_LocalInvocationIndex == 0u) sh = 0;
  barrier();
  uint r = atomicAdd(o[0], a[i]);
  atomicMin(o[1], a[i]);
  atomicMax(o[2], a[i]);
  atomicOr(o[3], a[i]);
  atomicXor(o[4], a[i]);
  atomicAdd(sh, 1u);
  barrier();
  if (gl_LocalInvocationIndex == 0u) o[5 + gl_WorkGroupID.x] = atomicExchange(sh, 5u);
  atomicCompSwap(o[8], 0u, 7u);
  atomicAdd(so[9], -3);
  atomicMin(so[10], int(a[i]));
  atomicMax(so[11], int(a[i]));
  atomicAnd(o[12], a[i]);
}
