// RUN: xdsl-opt %s --verify-diagnostics --parsing-diagnostics --split-input-file | filecheck %s
// BF-09: bfloat16 is moved, converted, and used in OpDot and in cooperative-matrix load, store, MulAdd and
// conversion; other arithmetic refuses it, on cooperative matrices too.

%x = "test.op"() : () -> (vector<4xbf16>)
%0 = spirv.Dot %x, %x : vector<4xbf16> -> bf16
// CHECK: spirv.Dot %x, %x : vector<4xbf16> -> bf16
// CHECK-NOT: BF-09:
// CHECK: {{^//}} -----

// -----

%x = "test.op"() : () -> (bf16)
%0 = spirv.FConvert %x : bf16 to f32
%1 = spirv.Bitcast %x : bf16 to i16
// CHECK: spirv.FConvert %x : bf16 to f32
// CHECK: spirv.Bitcast %x : bf16 to i16
// CHECK-NOT: BF-09:
// CHECK: {{^//}} -----

// -----

%a, %b, %c = "test.op"() : () -> (!spirv.coopmatrix<16x16xbf16, Subgroup, MatrixA>, !spirv.coopmatrix<16x16xbf16, Subgroup, MatrixB>, !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>)
%0 = spirv.KHR.CooperativeMatrixMulAdd %a, %b, %c : !spirv.coopmatrix<16x16xbf16, Subgroup, MatrixA>, !spirv.coopmatrix<16x16xbf16, Subgroup, MatrixB> -> !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
// CHECK: spirv.KHR.CooperativeMatrixMulAdd %a, %b, %c : !spirv.coopmatrix<16x16xbf16, Subgroup, MatrixA>, !spirv.coopmatrix<16x16xbf16, Subgroup, MatrixB> -> !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
// CHECK-NOT: BF-09:
// CHECK: {{^//}} -----

// -----

%x, %y = "test.op"() : () -> (bf16, bf16)
%0 = spirv.FAdd %x, %y : bf16
// CHECK: BF-09: elementwise arithmetic does not support bfloat16, as in bf16; convert to f32 with spirv.FConvert, compute, and convert back

// -----

%x, %y = "test.op"() : () -> (bf16, bf16)
%0 = spirv.FMul %x, %y : bf16
// CHECK: BF-09: elementwise arithmetic does not support bfloat16, as in bf16; convert to f32 with spirv.FConvert, compute, and convert back

// -----

%x, %y = "test.op"() : () -> (bf16, bf16)
%0 = spirv.FDiv %x, %y : bf16
// CHECK: BF-09: elementwise arithmetic does not support bfloat16, as in bf16; convert to f32 with spirv.FConvert, compute, and convert back

// -----

%x, %y = "test.op"() : () -> (bf16, bf16)
%0 = spirv.FOrdLessThan %x, %y : bf16
// CHECK: BF-09: elementwise arithmetic does not support bfloat16, as in bf16; convert to f32 with spirv.FConvert, compute, and convert back

// -----

%x, %y = "test.op"() : () -> (bf16, bf16)
%0 = spirv.FUnordEqual %x, %y : bf16
// CHECK: BF-09: elementwise arithmetic does not support bfloat16, as in bf16; convert to f32 with spirv.FConvert, compute, and convert back

// -----

%x = "test.op"() : () -> (vector<2xbf16>)
%0 = spirv.FNegate %x : vector<2xbf16>
// CHECK: BF-09: elementwise arithmetic does not support bfloat16, as in vector<2xbf16>

// -----

%x, %d = "test.op"() : () -> (bf16, i32)
%0 = spirv.GroupNonUniformRotateKHR <Subgroup> %x, %d : bf16, i32 -> bf16
// CHECK: BF-09: group operations do not support bfloat16, as in bf16; bitcast the value to i16 and back

// -----

%x, %d = "test.op"() : () -> (bf16, i32)
%0 = spirv.GroupNonUniformShuffle <Subgroup> %x, %d : bf16, i32
// CHECK: BF-09: group operations do not support bfloat16

// -----

%x = "test.op"() : () -> (vector<2xbf16>)
%0 = spirv.GroupNonUniformFMax <Subgroup> <Reduce> %x : vector<2xbf16> -> vector<2xbf16>
// CHECK: BF-09: group operations do not support bfloat16

// -----

%x = "test.op"() : () -> (bf16)
%0 = spirv.GL.Exp %x : bf16
// CHECK: BF-09: elementwise arithmetic does not support bfloat16, as in bf16

// -----

%x, %y = "test.op"() : () -> (!spirv.coopmatrix<16x16xbf16, Subgroup, MatrixA>, !spirv.coopmatrix<16x16xbf16, Subgroup, MatrixA>)
%0 = spirv.FAdd %x, %y : !spirv.coopmatrix<16x16xbf16, Subgroup, MatrixA>
// CHECK: BF-09: elementwise arithmetic does not support bfloat16, as in !spirv.coopmatrix<16x16xbf16, Subgroup, MatrixA>

// -----

%x, %s = "test.op"() : () -> (!spirv.coopmatrix<16x16xbf16, Subgroup, MatrixA>, bf16)
%0 = spirv.MatrixTimesScalar %x, %s : !spirv.coopmatrix<16x16xbf16, Subgroup, MatrixA>, bf16
// CHECK: BF-09: elementwise arithmetic does not support bfloat16

// -----

%x, %s = "test.op"() : () -> (vector<2xbf16>, bf16)
%0 = spirv.VectorTimesScalar %x, %s : (vector<2xbf16>, bf16) -> vector<2xbf16>
// CHECK: BF-09: elementwise arithmetic does not support bfloat16
