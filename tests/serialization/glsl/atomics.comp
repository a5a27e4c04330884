#version 460
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_atomic_float : require
#extension GL_EXT_shader_atomic_int64 : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
layout(local_size_x = 128) in;
layout(set = 0, binding = 0) coherent buffer A { uint counter; float sum; int64_t wide; uint bins[256]; };
shared uint local_bins[256];
void main() {
  local_bins[gl_LocalInvocationIndex] = 0u;
  memoryBarrierShared();
  barrier();
  atomicAdd(local_bins[gl_GlobalInvocationID.x & 255u], 1u);
  atomicAdd(sum, 0.5);
  atomicMax(wide, 12345678901234L);
  uint old = atomicCompSwap(counter, 0u, 1u);
  controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
  switch (old) {
    case 0u: bins[0] = local_bins[0]; break;
    case 7u: case 4000000000u: bins[1] = local_bins[1]; break;
    default: bins[2] = old;
  }
}
