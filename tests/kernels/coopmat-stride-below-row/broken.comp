#version 450
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
// Copies a tile into a matrix of `columns` columns.
layout(local_size_x = 32) in;
layout(push_constant) uniform Sizes { uint columns; };
layout(std430, binding = 0) readonly buffer Input { float x[]; };
layout(std430, binding = 1) writeonly buffer Output { float y[]; };

void main() {
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> matrix;
    coopMatLoad(matrix, x, 0, 16, gl_CooperativeMatrixLayoutRowMajor);
    coopMatStore(matrix, y, 0, columns, gl_CooperativeMatrixLayoutRowMajor);
}
