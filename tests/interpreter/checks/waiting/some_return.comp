#version 450
// Half of the subgroups return; a barrier of the workgroup is the others' only after a wait.
layout(local_size_x = 64) in;
layout(set=0,binding=0) coherent buffer F { uint flag[]; };
layout(set=0,binding=1) buffer D { uint y[]; };
shared uint box;
void main() {
  uint l = gl_LocalInvocationIndex, w = gl_WorkGroupID.x;
  if (l == 40u) { box = 7u; memoryBarrierShared(); atomicExchange(flag[w], 1u); }
  if (l == 0u) { while (atomicAdd(flag[w], 0u) == 0u) {} }
  if (l < 32u) barrier();
  y[w * 64u + l] = box;
}
