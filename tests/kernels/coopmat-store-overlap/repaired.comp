#version 450
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_KHR_shader_subgroup_basic : require
// C (16 x 32) = A (16 x 16) * B (16 x 32), one subgroup for each 16 columns.
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer MatrixA { float16_t a[]; };
layout(std430, binding = 1) readonly buffer MatrixB { float16_t b[]; };
layout(std430, binding = 2) writeonly buffer MatrixC { float c[]; };

void main() {
    uint column = gl_SubgroupID * 16;
    coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> tileA;
    coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> tileB;
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> sum =
        coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);
    coopMatLoad(tileA, a, 0, 16, gl_CooperativeMatrixLayoutRowMajor);
    coopMatLoad(tileB, b, column, 32, gl_CooperativeMatrixLayoutRowMajor);
    sum = coopMatMulAdd(tileA, tileB, sum);
    coopMatStore(sum, c, column, 32, gl_CooperativeMatrixLayoutRowMajor);
}
