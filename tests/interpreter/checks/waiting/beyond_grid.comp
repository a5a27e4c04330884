#version 450
layout(local_size_x = 64) in;
layout(set=0,binding=0) coherent buffer C { uint flag[]; };
layout(set=0,binding=1) coherent buffer D { uint a[]; };
void main() {
  uint w = gl_WorkGroupID.x;
  if (gl_LocalInvocationIndex == 0u) {
    atomicExchange(flag[w], 1u);
    while (atomicAdd(flag[w + 1u], 0u) == 0u) {}
  }
  barrier();
  a[gl_GlobalInvocationID.x] = w;
}
