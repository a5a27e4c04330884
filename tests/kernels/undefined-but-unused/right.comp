#version 450
// The second largest of each row of 4.
layout(local_size_x = 16) in;
layout(std430, binding = 0) readonly buffer Rows { uint rows[]; };
layout(std430, binding = 1) writeonly buffer Second { uint second[]; };

void main() {
    uint row = gl_GlobalInvocationID.x;
    uint best[2], count = 0;
    for (uint k = 0; k < 4; ++k) {
        uint value = rows[row * 4 + k];
        if (count == 0 || value > best[0]) {
            best[1] = best[0];
            best[0] = value;
        } else if (count == 1 || value > best[1]) {
            best[1] = value;
        }
        ++count;
    }
    second[row] = best[1];
}
