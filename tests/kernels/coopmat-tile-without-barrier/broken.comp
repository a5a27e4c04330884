#version 450
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
// Row sums of a 16 x 16 product's tile.
layout(local_size_x = 32) in;
layout(std430, binding = 0) readonly buffer Matrix { float m[]; };
layout(std430, binding = 1) writeonly buffer Sums { float sums[]; };

shared float tile[16 * 16];

void main() {
    uint lane = gl_LocalInvocationID.x;
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> matrix;
    coopMatLoad(matrix, m, 0, 16, gl_CooperativeMatrixLayoutRowMajor);
    coopMatStore(matrix * 2.0, tile, 0, 16, gl_CooperativeMatrixLayoutRowMajor);
    if (lane < 16) {
        float sum = 0.0;
        for (uint k = 0; k < 16; ++k)
            sum += tile[lane * 16 + k];
        sums[lane] = sum;
    }
}
