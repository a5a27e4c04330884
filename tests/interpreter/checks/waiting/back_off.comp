#version 450
layout(local_size_x = 32) in;
layout(set=0,binding=0) coherent buffer F { uint flag[]; };
layout(set=0,binding=1) coherent buffer D { uint data[]; };
// waits for the next workgroup, with a random backoff
void main() {
  uint w = gl_WorkGroupID.x, n = gl_NumWorkGroups.x, seed = w * 747796405u + 1u, sink = 0u;
  if (w + 1u < n && gl_LocalInvocationIndex == 0u) {
    while (atomicOr(flag[w+1u], 0u) == 0u) {
      seed = seed * 1664525u + 1013904223u;
      for (uint i = 0u; i < (seed >> 30); i++) sink += i;
    }
  }
  barrier();
  if (gl_LocalInvocationIndex == 0u) { data[w] = 1u + (sink & 0u); atomicExchange(flag[w], 1u); }
}
