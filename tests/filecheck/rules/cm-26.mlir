// RUN: xdsl-opt %s --verify-diagnostics --parsing-diagnostics --split-input-file | filecheck %s
// CM-26: the arithmetic on cooperative matrices is SNegate, FNegate, IAdd, FAdd, ISub, FSub, IMul, FMul,
// SDiv, UDiv, FDiv of fitting components and one type, and MatrixTimesScalar.

%x, %y = "test.op"() : () -> (!spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>, !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>)
%0 = spirv.FAdd %x, %y : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
// CHECK: spirv.FAdd %x, %y : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
// CHECK-NOT: CM-26:
// CHECK: {{^//}} -----

// -----

%x, %y = "test.op"() : () -> (!spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>, !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>)
%0 = spirv.FSub %x, %y : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
// CHECK: spirv.FSub %x, %y : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
// CHECK-NOT: CM-26:
// CHECK: {{^//}} -----

// -----

%x, %y = "test.op"() : () -> (!spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>, !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>)
%0 = spirv.FMul %x, %y : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
// CHECK: spirv.FMul %x, %y : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
// CHECK-NOT: CM-26:
// CHECK: {{^//}} -----

// -----

%x, %y = "test.op"() : () -> (!spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>, !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>)
%0 = spirv.FDiv %x, %y : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
// CHECK: spirv.FDiv %x, %y : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
// CHECK-NOT: CM-26:
// CHECK: {{^//}} -----

// -----

%x, %y = "test.op"() : () -> (!spirv.coopmatrix<16x16xi8, Subgroup, MatrixA>, !spirv.coopmatrix<16x16xi8, Subgroup, MatrixA>)
%0 = spirv.IAdd %x, %y : !spirv.coopmatrix<16x16xi8, Subgroup, MatrixA>
// CHECK: spirv.IAdd %x, %y : !spirv.coopmatrix<16x16xi8, Subgroup, MatrixA>
// CHECK-NOT: CM-26:
// CHECK: {{^//}} -----

// -----

%x, %y = "test.op"() : () -> (!spirv.coopmatrix<16x16xi8, Subgroup, MatrixA>, !spirv.coopmatrix<16x16xi8, Subgroup, MatrixA>)
%0 = spirv.ISub %x, %y : !spirv.coopmatrix<16x16xi8, Subgroup, MatrixA>
// CHECK: spirv.ISub %x, %y : !spirv.coopmatrix<16x16xi8, Subgroup, MatrixA>
// CHECK-NOT: CM-26:
// CHECK: {{^//}} -----

// -----

%x, %y = "test.op"() : () -> (!spirv.coopmatrix<16x16xi8, Subgroup, MatrixA>, !spirv.coopmatrix<16x16xi8, Subgroup, MatrixA>)
%0 = spirv.IMul %x, %y : !spirv.coopmatrix<16x16xi8, Subgroup, MatrixA>
// CHECK: spirv.IMul %x, %y : !spirv.coopmatrix<16x16xi8, Subgroup, MatrixA>
// CHECK-NOT: CM-26:
// CHECK: {{^//}} -----

// -----

%x, %y = "test.op"() : () -> (!spirv.coopmatrix<16x16xi8, Subgroup, MatrixA>, !spirv.coopmatrix<16x16xi8, Subgroup, MatrixA>)
%0 = spirv.SDiv %x, %y : !spirv.coopmatrix<16x16xi8, Subgroup, MatrixA>
// CHECK: spirv.SDiv %x, %y : !spirv.coopmatrix<16x16xi8, Subgroup, MatrixA>
// CHECK-NOT: CM-26:
// CHECK: {{^//}} -----

// -----

%x, %y = "test.op"() : () -> (!spirv.coopmatrix<16x16xi8, Subgroup, MatrixA>, !spirv.coopmatrix<16x16xi8, Subgroup, MatrixA>)
%0 = spirv.UDiv %x, %y : !spirv.coopmatrix<16x16xi8, Subgroup, MatrixA>
// CHECK: spirv.UDiv %x, %y : !spirv.coopmatrix<16x16xi8, Subgroup, MatrixA>
// CHECK-NOT: CM-26:
// CHECK: {{^//}} -----

// -----

%x = "test.op"() : () -> (!spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>)
%0 = spirv.FNegate %x : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
// CHECK: spirv.FNegate %x : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
// CHECK-NOT: CM-26:
// CHECK: {{^//}} -----

// -----

%x = "test.op"() : () -> (!spirv.coopmatrix<16x16xi8, Subgroup, MatrixA>)
%0 = spirv.SNegate %x : !spirv.coopmatrix<16x16xi8, Subgroup, MatrixA>
// CHECK: spirv.SNegate %x : !spirv.coopmatrix<16x16xi8, Subgroup, MatrixA>
// CHECK-NOT: CM-26:
// CHECK: {{^//}} -----

// -----

%x, %s = "test.op"() : () -> (!spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>, f32)
%0 = spirv.MatrixTimesScalar %x, %s : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>, f32
// CHECK: spirv.MatrixTimesScalar %x, %s : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>, f32
// CHECK-NOT: CM-26:
// CHECK: {{^//}} -----

// -----

// Not in MLIR, accepted by spirv-val.
%x, %s = "test.op"() : () -> (!spirv.coopmatrix<16x16xi8, Subgroup, MatrixA>, i8)
%0 = spirv.MatrixTimesScalar %x, %s : !spirv.coopmatrix<16x16xi8, Subgroup, MatrixA>, i8
// CHECK: spirv.MatrixTimesScalar %x, %s : !spirv.coopmatrix<16x16xi8, Subgroup, MatrixA>, i8
// CHECK-NOT: CM-26:
// CHECK: {{^//}} -----

// -----

%x, %y = "test.op"() : () -> (!spirv.coopmatrix<16x16xi8, Subgroup, MatrixA>, !spirv.coopmatrix<16x16xi8, Subgroup, MatrixA>)
%0 = spirv.FAdd %x, %y : !spirv.coopmatrix<16x16xi8, Subgroup, MatrixA>
// CHECK: CM-26: the instruction takes floating-point components, not i8; use the instruction for the component type

// -----

%x, %y = "test.op"() : () -> (!spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>, !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>)
%0 = spirv.IAdd %x, %y : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
// CHECK: CM-26: the instruction takes integer components, not f32

// -----

%x = "test.op"() : () -> (!spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>)
%0 = spirv.SNegate %x : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
// CHECK: CM-26: the instruction takes integer components, not f32

// -----

%x, %y = "test.op"() : () -> (!spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>, !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>)
%0 = spirv.FRem %x, %y : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
// CHECK: CM-26: spirv.FRem takes scalars and vectors, not !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>

// -----

%x, %y = "test.op"() : () -> (!spirv.coopmatrix<16x16xi8, Subgroup, MatrixA>, !spirv.coopmatrix<16x16xi8, Subgroup, MatrixA>)
%0 = spirv.UMod %x, %y : !spirv.coopmatrix<16x16xi8, Subgroup, MatrixA>
// CHECK: CM-26: spirv.UMod takes scalars and vectors, not !spirv.coopmatrix<16x16xi8, Subgroup, MatrixA>

// -----

%x, %y = "test.op"() : () -> (!spirv.coopmatrix<16x16xi8, Subgroup, MatrixA>, !spirv.coopmatrix<16x16xi8, Subgroup, MatrixA>)
%0 = spirv.ShiftLeftLogical %x, %y : !spirv.coopmatrix<16x16xi8, Subgroup, MatrixA>, !spirv.coopmatrix<16x16xi8, Subgroup, MatrixA>
// CHECK: CM-26: spirv.ShiftLeftLogical takes scalars and vectors

// -----

%x = "test.op"() : () -> (!spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>)
%0 = spirv.GL.Exp %x : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
// CHECK: CM-26: spirv.GL.Exp takes scalars and vectors
