#version 450
// First differences, 0 at each row's begin.
layout(local_size_x = 32) in;
layout(push_constant) uniform Sizes { int n; };
layout(std430, binding = 0) readonly buffer Input { float x[]; };
layout(std430, binding = 1) writeonly buffer Output { float y[]; };

void main() {
    int i = int(gl_GlobalInvocationID.x), left = i - 1;
    float before = left >= 0 && i < n ? x[left] : 0.0;
    if (i < n)
        y[i] = left >= 0 ? x[i] - before : 0.0;
}
