#version 450
// A ring stencil: the mean of the two neighbours on a ring of n.
layout(local_size_x = 32) in;
layout(push_constant) uniform Sizes { int n; };
layout(std430, binding = 0) readonly buffer Ring { float ring[]; };
layout(std430, binding = 1) writeonly buffer Output { float y[]; };

void main() {
    int i = int(gl_GlobalInvocationID.x);
    int left = (i - 1) % n;
    left += left < 0 ? n : 0;
    int right = (i + 1) % n;
    y[i] = 0.5 * (ring[left] + ring[right]);
}
