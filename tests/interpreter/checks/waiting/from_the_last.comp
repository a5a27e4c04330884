#version 450
layout(local_size_x = 32) in;
layout(set=0,binding=0) coherent buffer F { uint flag[]; };
layout(set=0,binding=1) coherent buffer D { uint data[]; };
void main() {
  uint l = gl_LocalInvocationID.x, w = gl_WorkGroupID.x;
  if (l == 0u) {
    if (w > 0u) { while (atomicOr(flag[w-1u], 0u) == 0u); memoryBarrierBuffer(); }
    data[w] = (w > 0u ? data[w-1u] : 0u) + 1u;
    memoryBarrierBuffer();
    atomicExchange(flag[w], 1u);
  }
}
