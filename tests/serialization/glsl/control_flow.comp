#version 460
#extension GL_EXT_control_flow_attributes : require
layout(local_size_x = 64) in;
layout(std430, binding = 0) buffer A { int a[]; };
layout(constant_id = 3) const int LIMIT = 7;

int search(int wanted, int count) {
  for (int i = 0; i < count; ++i) {
    if (a[i] == wanted) return i;
    if (a[i] < 0) {
      if (a[i] == -1) break;
      continue;
    }
    wanted += 1;
  }
  return -1;
}

int nested(int n) {
  int sum = 0;
  [[unroll]] for (int i = 0; i < n; ++i) {
    int j = i;
    while (true) {
      j -= 3;
      if (j < 0) break;
      switch (j & 7) {
        case 0: sum += 1; break;
        case 1: sum += 2;
        case 2: sum += 4; if (sum > 100) break; sum -= 1; break;
        case 5: continue;
        case 6: if (sum > 50) return sum;
        default: sum -= j;
      }
      sum ^= j;
      do { sum += 1; } while ((sum & 3) != 0);
    }
    if (sum > LIMIT && i > 2 || sum == 5) { sum -= 1; } else if (sum < -LIMIT) { break; }
  }
  return sum;
}

void main() {
  uint id = gl_GlobalInvocationID.x;
  int x = a[id];
  if (x > 1000) return;
  [[flatten]] if ((x & 1) == 0) { x = search(x, 10); } else { x = nested(x); }
  int y = 0, z = 1;
  [[dont_unroll]] for (;;) { y += z; z += y; if (y > x) break; if (z > 99) { z = 0; continue; } y += 2; }
  bool both = x > 3 && (y > 4 || z > 5);
  a[id] = both ? x + y : z;
}
