#version 450
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
// Adds a bias by column to a 16 x 16 tile.
layout(local_size_x = 32) in;
layout(std430, binding = 0) buffer Matrix { float m[]; };
layout(std430, binding = 1) readonly buffer Bias { float bias[]; };


void main() {
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> tile;
    coopMatLoad(tile, m, 0, 16, gl_CooperativeMatrixLayoutRowMajor);
    for (int i = 0; i < tile.length(); ++i)
        tile[i] += bias[(i * 32 + gl_LocalInvocationID.x) % 16];
    coopMatStore(tile, m, 0, 16, gl_CooperativeMatrixLayoutRowMajor);
}
