#version 460
#pragma use_vulkan_memory_model
#extension GL_EXT_shader_atomic_float : enable
#extension GL_KHR_memory_scope_semantics : enable
layout(local_size_x = 32) in;
layout(binding=0, std430) readonly buffer In {
  uint a[];
};
layout(binding=1, std430) buffer Out {
  uint o[];
};
layout(binding=1,std430) buffer F {
  float f[];
};
shared float sf;
void main() {
  uint i = gl_GlobalInvocationID.x;
  if (gl_LocalInvocationIndex == 0u) sf = 0;
  barrier();
  atomicAdd(f[0], float(a[i] & 15u));
  atomicExchange(f[1], 2.5);
  float z = atomicLoad(f[0], gl_ScopeDevice, 0, 0);
  if (z < 0) f[9] = 1;
  atomicAdd(sf, 1.0);
  barrier();
  if (gl_LocalInvocationIndex == 0) f[2+gl_WorkGroupID.x] = sf;
}
