#version 450
layout(local_size_x = 64) in;
layout(set=0,binding=0) coherent buffer C { uint count; };
layout(set=0,binding=1) coherent buffer D { uint a[]; };
layout(set=0,binding=2) buffer O { uint b[]; };
void main() {
  uint i = gl_GlobalInvocationID.x, n = gl_NumWorkGroups.x * 64u;
  a[i] = i * 7u;
  memoryBarrierBuffer();
  barrier();
  if (gl_LocalInvocationIndex == 0u) {
    atomicAdd(count, 1u);
    while (atomicAdd(count, 0u) < gl_NumWorkGroups.x) {}
    memoryBarrierBuffer();
  }
  barrier();
  b[i] = a[n - 1u - i];
}
