#version 450
// One workgroup looks at the flags of all others in turn, and begins anew until all are set.
layout(local_size_x = 32) in;
layout(set=0,binding=0) coherent buffer F { uint flag[]; };
layout(set=0,binding=1) buffer D { uint result; };

uint poll(uint number) { return atomicAdd(flag[number], 0u); }

void main() {
  uint n = gl_NumWorkGroups.x;
  if (gl_LocalInvocationIndex != 0u) return;
  if (gl_WorkGroupID.x == 0u) {
    uint number = 1u, polls = 0u;
    while (number < n) {
      polls++;
      number = poll(number) != 0u ? number + 1u : number;
    }
    result = polls > 0u ? number : 0u;
  } else {
    atomicExchange(flag[gl_WorkGroupID.x], 1u);
  }
}
