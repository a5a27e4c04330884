#version 460
#pragma use_vulkan_memory_model
#extension GL_KHR_memory_scope_semantics : enable
layout(local_size_x = 32) in;
layout(binding=0, std430) readonly buffer In {
  uint a[];
};
layout(binding=1, std430) buffer Out {
  uint o[];
};
layout(binding=1,std430) workgroupcoherent buffer C {
  uint c[];
};
layout(binding=1,std430) nonprivate buffer NC {
  uint nc[];
};
void main() {
  uint i = gl_GlobalInvocationID.x;
  atomicStore(o[i], i, gl_ScopeDevice, gl_StorageSemanticsBuffer, gl_SemanticsRelease);
  memoryBarrier(gl_ScopeDevice, gl_StorageSemanticsBuffer, gl_SemanticsAcquireRelease);
  controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
  uint r = atomicAdd(o[100], 1u, gl_ScopeDevice, gl_StorageSemanticsBuffer, gl_SemanticsAcquireRelease);
  c[i+200] = a[i];
  nc[i+300]=atomicCompSwap(o[i+400], 0u, 4u, gl_ScopeDevice, gl_StorageSemanticsBuffer, gl_SemanticsAcquireRelease, gl_StorageSemanticsBuffer, gl_SemanticsAcquire);
}
