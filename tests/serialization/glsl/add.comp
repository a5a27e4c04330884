#version 460
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) readonly buffer A { float a[]; };
layout(set = 0, binding = 1) buffer B { float b[]; };
layout(push_constant) uniform P { uint count; float scale; };
void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i < count) b[i] = fma(a[i], scale, b[i]);
}
