#version 450
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
// Copies the tiles that a mask chooses.
layout(local_size_x = 32) in;
layout(std430, binding = 0) readonly buffer Mask { uint mask[]; };
layout(std430, binding = 1) readonly buffer Input { float x[]; };
layout(std430, binding = 2) writeonly buffer Output { float y[]; };

void main() {
    uint tile = gl_WorkGroupID.x;
    if (mask[tile] != 0) {
        coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> matrix;
        coopMatLoad(matrix, x, tile * 256, 16, gl_CooperativeMatrixLayoutRowMajor);
        coopMatStore(matrix, y, tile * 256, 16, gl_CooperativeMatrixLayoutRowMajor);
    }
}
