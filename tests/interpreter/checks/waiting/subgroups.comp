#version 450
layout(local_size_x = 64) in;
shared uint ready; shared uint box[32];
layout(set=0,binding=0) buffer D { uint y[]; };
void main() {
  uint l = gl_LocalInvocationIndex;
  if (l == 0u) ready = 0u;
  barrier();
  if (l < 32u) {
    while (atomicAdd(ready, 0u) < 32u) {}
    memoryBarrierShared();
    y[gl_WorkGroupID.x*64u+l] = box[31u-l];
  } else {
    box[l-32u] = l * 3u + gl_WorkGroupID.x;
    memoryBarrierShared();
    atomicAdd(ready, 1u);
  }
  barrier();
  y[gl_WorkGroupID.x*64u+l] += 1000u;
}
