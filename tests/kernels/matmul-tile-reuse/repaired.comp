#version 450
// C = A * B, all N x N, in tiles of 8 x 8 staged in shared memory.
layout(local_size_x = 8, local_size_y = 8) in;
layout(push_constant) uniform Sizes { uint n; };
layout(std430, binding = 0) readonly buffer MatrixA { float a[]; };
layout(std430, binding = 1) readonly buffer MatrixB { float b[]; };
layout(std430, binding = 2) writeonly buffer MatrixC { float c[]; };

shared float tileA[8][8];
shared float tileB[8][8];

void main() {
    uint row = gl_GlobalInvocationID.y, column = gl_GlobalInvocationID.x;
    uint y = gl_LocalInvocationID.y, x = gl_LocalInvocationID.x;
    float sum = 0.0;
    for (uint k = 0; k < n; k += 8) {
        tileA[y][x] = a[row * n + k + x];
        tileB[y][x] = b[(k + y) * n + column];
        barrier();
        for (uint i = 0; i < 8; ++i)
            sum = fma(tileA[y][i], tileB[i][x], sum);
        barrier();
    }
    c[row * n + column] = sum;
}
