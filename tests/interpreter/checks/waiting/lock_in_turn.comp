#version 450
layout(local_size_x = 64) in;
layout(set=0,binding=0) coherent buffer L { uint lock; };
layout(set=0,binding=1) coherent buffer D { uint total; };
void main() {
  bool done = false;
  while (!done) {
    if (atomicCompSwap(lock, 0u, 1u) == 0u) {
      memoryBarrierBuffer();
      total = total + 1u;
      memoryBarrierBuffer();
      atomicExchange(lock, 0u);
      done = true;
    }
  }
}
