#version 450
layout(local_size_x = 32) in;
layout(set=0,binding=0) coherent buffer C { uint flag; };
layout(set=0,binding=1) buffer D { uint a[]; };
// gives up after 2000 polls
void main() {
  uint i = 0u;
  for (; i < 2000u; i++) if (atomicAdd(flag, 0u) != 0u) break;
  a[gl_GlobalInvocationID.x] = i;
}
