#version 450
// Row maxima of a matrix, 4 rows a workgroup; the last workgroup has rows to spare.
layout(local_size_x = 16, local_size_y = 4) in;
layout(push_constant) uniform Sizes { uint rows; uint columns; };
layout(std430, binding = 0) readonly buffer Matrix { float m[]; };
layout(std430, binding = 1) writeonly buffer Maxima { float maxima[]; };

shared float best[4][16];

void main() {
    uint row = gl_GlobalInvocationID.y, lane = gl_LocalInvocationID.x, y = gl_LocalInvocationID.y;
    if (row >= rows)
        return;
    float value = -1e30;
    for (uint k = lane; k < columns; k += 16)
        value = max(value, m[row * columns + k]);
    best[y][lane] = value;
    barrier();
    if (lane != 0)
        return;
    for (uint k = 1; k < 16; ++k)
        value = max(value, best[y][k]);
    maxima[row] = value;
}
