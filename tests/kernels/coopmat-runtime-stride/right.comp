#version 450
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
// Doubles a 16 x 16 tile by way of shared memory with a stride of the caller's choice.
layout(local_size_x = 32) in;
layout(push_constant) uniform Sizes { uint stride; };
layout(std430, binding = 0) readonly buffer Matrix { float m[]; };
layout(std430, binding = 1) writeonly buffer Output { float y[]; };

shared float tile[16 * 32];

void main() {
    for (uint i = gl_LocalInvocationID.x; i < 256; i += 32)
        tile[i / 16 * stride + i % 16] = m[i];
    barrier();
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> matrix;
    coopMatLoad(matrix, tile, 0, stride, gl_CooperativeMatrixLayoutRowMajor);
    coopMatStore(matrix + matrix, y, 0, 16, gl_CooperativeMatrixLayoutRowMajor);
}
