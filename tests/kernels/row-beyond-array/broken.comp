#version 450
// Column differences of 6 x 10 tables.
layout(local_size_x = 10) in;
layout(std430, binding = 0) readonly buffer Tables { float table[6][10]; };
layout(std430, binding = 1) writeonly buffer Output { float y[6][10]; };

void main() {
    uint row = gl_WorkGroupID.x, column = gl_LocalInvocationID.x;
    uint next = column + 1;
    y[row][column] = table[row][next] - table[row][column];
}
