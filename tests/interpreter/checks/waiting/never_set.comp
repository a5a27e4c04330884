#version 450
layout(local_size_x = 64) in;
layout(set=0,binding=0) coherent buffer C { uint flag; };
layout(set=0,binding=1) coherent buffer D { uint a[]; };
void main() {
  uint spins = 0u;
  if (gl_LocalInvocationIndex == 0u) {
    while (atomicAdd(flag, 0u) == 0u) { spins++; }
  }
  barrier();
  a[gl_GlobalInvocationID.x] = spins;
}
