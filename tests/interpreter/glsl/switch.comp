#version 460
#extension GL_EXT_shader_explicit_arithmetic_types : enable
layout(local_size_x = 32) in;
layout(binding=0, std430) readonly buffer In {
  uint a[];
};
layout(binding=1, std430) buffer Out {
  uint o[];
};
void main() {
  uint i = gl_GlobalInvocationID.x;
  uint r = 0;
  switch (int(a[i] % 7u)) {
    case 0: r = 1;
    case 1: r += 2;
    break;
    case 2: case 3: r = 4;
    break;
    case -1: r = 9;
    break;
    case 5: {
      for (uint k = 0; k < i; ++k) {
        if (k == 3u) break;
        r += k;
        switch (k & 1u) {
          case 0: continue;
          default: r += 100;
        }
      } break;
    }
    default: r = 77;
  }
  o[i] = r;
  do {
    r >>= 1;
    if (r == 9u) continue;
    if (r == 2u) return;
  } while (r > 3u);
  o[i+128] = r;
}
