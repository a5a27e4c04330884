#version 450
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
// Scales a matrix of rows x 16 in tiles of 16 x 16; the buffer is padded to whole tiles.
layout(local_size_x = 32) in;
layout(std430, binding = 0) buffer Matrix { float m[]; };

void main() {
    uint first = gl_WorkGroupID.x * 16 * 16;
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> tile;
    coopMatLoad(tile, m, first, 16, gl_CooperativeMatrixLayoutRowMajor);
    tile = tile * 0.5;
    coopMatStore(tile, m, first, 16, gl_CooperativeMatrixLayoutRowMajor);
}
