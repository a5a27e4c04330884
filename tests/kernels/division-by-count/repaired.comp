#version 450
// The integer mean of each row's positive numbers.
layout(local_size_x = 16) in;
layout(push_constant) uniform Sizes { uint columns; };
layout(std430, binding = 0) readonly buffer Rows { int rows[]; };
layout(std430, binding = 1) writeonly buffer Means { int means[]; };

void main() {
    uint row = gl_GlobalInvocationID.x;
    int sum = 0, count = 0;
    for (uint k = 0; k < columns; ++k) {
        int value = rows[row * columns + k];
        if (value > 0) {
            sum += value;
            ++count;
        }
    }
    means[row] = sum / max(count, 1);
}
