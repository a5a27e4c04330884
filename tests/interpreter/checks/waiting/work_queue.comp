#version 450
layout(local_size_x = 32) in;
layout(set=0,binding=0) coherent buffer Q { uint head; uint tail; uint done; uint total; uint items[]; };
layout(set=0,binding=1) buffer D { uint y[]; };
shared uint item; shared uint state;
// persistent: a tree of items; each item n < limit pushes 2n+1, 2n+2
void main() {
  for (;;) {
    if (gl_LocalInvocationIndex == 0u) {
      state = 0u;
      for (;;) {
        if (atomicAdd(done, 0u) >= total) { state = 1u; break; }
        uint h = atomicAdd(head, 0u);
        if (h < atomicAdd(tail, 0u)) {
          uint v = atomicAdd(items[h], 0u);
          if (v != 0u && atomicCompSwap(head, h, h + 1u) == h) { item = v - 1u; break; }
        }
      }
    }
    barrier();
    if (state == 1u) return;
    uint n = item;
    atomicAdd(y[n], gl_LocalInvocationIndex);
    barrier();
    if (gl_LocalInvocationIndex == 0u) {
      for (uint c = 2u*n+1u; c <= 2u*n+2u; c++)
        if (c < total) { uint t = atomicAdd(tail, 1u); atomicExchange(items[t], c + 1u); }
      atomicAdd(done, 1u);
    }
  }
}
