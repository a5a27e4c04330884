#version 450
layout(local_size_x = 64) in;
layout(set=0,binding=0) coherent buffer L { uint lock; };
layout(set=0,binding=1) coherent buffer D { uint total; };
void main() {
  if (gl_LocalInvocationIndex == 0u) {
    while (atomicCompSwap(lock, 0u, 1u) != 0u) {}
    memoryBarrierBuffer();
    total = total + gl_WorkGroupID.x + 1u;
    memoryBarrierBuffer();
    atomicExchange(lock, 0u);
  }
}
