#version 450
// Index of the first number of each row above a threshold, or -1.
layout(local_size_x = 16) in;
layout(push_constant) uniform Parameters { uint columns; float threshold; };
layout(std430, binding = 0) readonly buffer Rows { float rows[]; };
layout(std430, binding = 1) writeonly buffer Output { int found[]; };

void main() {
    uint row = gl_GlobalInvocationID.x;
    int index = -1;
    for (uint k = 0; k < columns; ++k) {
        if (rows[row * columns + k] > threshold) {
            index = int(k);
            break;
        }
    }
    if (index >= 0)
        found[row] = index;
    else
        found[row] = -1;
}
