#version 450
#extension GL_ARB_shader_clock : enable
layout(local_size_x = 32) in;
layout(set=0,binding=0) coherent buffer C { uint flag; };
layout(set=0,binding=1) buffer D { uint a[]; };
// gives up when the clock has gone on by more than 3000
void main() {
  uint start = clock2x32ARB().x;
  while (atomicAdd(flag, 0u) == 0u && clock2x32ARB().x - start <= 3000u) ;
  a[gl_GlobalInvocationID.x] = clock2x32ARB().x - start;
}
