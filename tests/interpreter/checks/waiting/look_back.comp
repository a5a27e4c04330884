#version 450
#extension GL_KHR_memory_scope_semantics : require
layout(local_size_x = 64) in;
layout(set=0,binding=0) buffer In { uint x[]; };
layout(set=0,binding=1) buffer Out { uint y[]; };
layout(set=0,binding=2) coherent buffer State { uint flag[]; };
shared uint part[64];
shared uint prefix;
void main() {
  uint l = gl_LocalInvocationID.x, w = gl_WorkGroupID.x;
  part[l] = x[w*64+l];
  barrier();
  for (uint d = 1; d < 64; d *= 2) {
    uint v = l >= d ? part[l-d] : 0u;
    barrier();
    part[l] += v;
    barrier();
  }
  if (l == 63) {
    uint total = part[63], before = 0u;
    if (w == 0u) atomicExchange(flag[w], (total << 2) | 2u);
    else {
      atomicExchange(flag[w], (total << 2) | 1u);
      uint p = w - 1u;
      for (;;) {
        uint f = atomicAdd(flag[p], 0u);
        if ((f & 3u) == 2u) { before += f >> 2; break; }
        if ((f & 3u) == 1u) { before += f >> 2; p--; }
      }
      atomicExchange(flag[w], ((total + before) << 2) | 2u);
    }
    prefix = before;
  }
  barrier();
  y[w*64+l] = part[l] + prefix;
}
