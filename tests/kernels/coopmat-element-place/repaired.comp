#version 450
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
// Adds a bias by column to a 16 x 16 tile.
layout(local_size_x = 32) in;
layout(std430, binding = 0) buffer Matrix { float m[]; };
layout(std430, binding = 1) readonly buffer Bias { float bias[]; };

shared float rows[16 * 16];

void main() {
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> tile;
    coopMatLoad(tile, m, 0, 16, gl_CooperativeMatrixLayoutRowMajor);
    for (uint i = gl_LocalInvocationID.x; i < 256; i += 32)
        rows[i] = bias[i % 16];
    barrier();
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> biases;
    coopMatLoad(biases, rows, 0, 16, gl_CooperativeMatrixLayoutRowMajor);
    tile = tile + biases;
    coopMatStore(tile, m, 0, 16, gl_CooperativeMatrixLayoutRowMajor);
}
