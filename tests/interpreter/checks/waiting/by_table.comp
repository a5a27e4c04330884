#version 450
layout(local_size_x = 32) in;
layout(set=0,binding=0) coherent buffer F { uint flag[]; };
layout(set=0,binding=1) coherent buffer D { uint data[]; };
layout(set=0,binding=2) readonly buffer T { uint table[]; };
// Each workgroup waits for the one that the table names, unless it is itself.
void main() {
  uint l = gl_LocalInvocationID.x, w = gl_WorkGroupID.x, t = table[w];
  if (l == 0u) {
    if (t != w) { while (atomicOr(flag[t], 0u) == 0u); memoryBarrierBuffer(); }
    data[w] = (t != w ? data[t] : 0u) + 1u;
    memoryBarrierBuffer();
    atomicExchange(flag[w], 1u);
  }
}
