#version 450
layout(local_size_x = 64) in;
layout(set=0,binding=0) coherent buffer L { uint next; uint serving; };
layout(set=0,binding=1) coherent buffer D { uint count; uint order[]; };
void main() {
  if (gl_LocalInvocationIndex == 0u) {
    uint t = atomicAdd(next, 1u);
    while (atomicAdd(serving, 0u) != t) {}
    memoryBarrierBuffer();
    order[count] = gl_WorkGroupID.x;
    count = count + 1u;
    memoryBarrierBuffer();
    atomicAdd(serving, 1u);
  }
}
