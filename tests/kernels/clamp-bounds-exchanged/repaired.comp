#version 450
// A sliding window: the index is kept inside the window around each position.
layout(local_size_x = 32) in;
layout(push_constant) uniform Sizes { int n; int window; };
layout(std430, binding = 0) readonly buffer Input { int x[]; };
layout(std430, binding = 1) writeonly buffer Output { int y[]; };

void main() {
    int i = int(gl_GlobalInvocationID.x);
    int low = min(i - window, n - 1);
    int k = clamp(x[i], max(low, 0), n - 1);
    y[i] = k;
}
