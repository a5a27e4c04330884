#version 450
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_shader_16bit_storage : require
// C = A * A of 16 x 16, with A staged in padded shared memory.
layout(local_size_x = 32) in;
layout(std430, binding = 0) readonly buffer MatrixA { float16_t a[]; };
layout(std430, binding = 1) writeonly buffer MatrixC { float c[]; };

const uint STRIDE = 16 + 2;
shared float16_t tile[16 * STRIDE];

void main() {
    for (uint i = gl_LocalInvocationID.x; i < 256; i += 32)
        tile[i / 16 * STRIDE + i % 16] = a[i];
    barrier();
    coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> left;
    coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> right;
    coopMatLoad(left, tile, 0, STRIDE, gl_CooperativeMatrixLayoutRowMajor);
    coopMatLoad(right, tile, 0, STRIDE, gl_CooperativeMatrixLayoutRowMajor);
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> sum =
        coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);
    sum = coopMatMulAdd(left, right, sum);
    coopMatStore(sum, c, 0, 16, gl_CooperativeMatrixLayoutRowMajor);
}
