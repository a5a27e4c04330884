#version 450
layout(local_size_x = 32) in;
layout(set=0,binding=0) coherent buffer F { uint flag[]; };
layout(set=0,binding=1) coherent buffer D { uint data[]; };
// each workgroup waits for the NEXT one (a later chunk)
void main() {
  uint l = gl_LocalInvocationID.x, w = gl_WorkGroupID.x, n = gl_NumWorkGroups.x;
  if (l == 0u && w + 1u < n) { while (atomicOr(flag[w+1u], 0u) == 0u); memoryBarrierBuffer(); }
  barrier();
  data[w*32u+l] = (w + 1u < n ? data[(w+1u)*32u+l] : 0u) + l;
  memoryBarrierBuffer();
  barrier();
  if (l == 0u) atomicExchange(flag[w], 1u);
}
