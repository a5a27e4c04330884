// RUN: XDSL_ROUNDTRIP

spirv.func @accesses(%p: !spirv.ptr<f32, StorageBuffer>) "None" {
  %c = spirv.Constant 1.0 : f32
  %v = spirv.Variable : !spirv.ptr<f32, Function>
  %w = spirv.Variable init(%c) : !spirv.ptr<f32, Function>
  %a = spirv.Variable {aliased_pointer} : !spirv.ptr<!spirv.ptr<f32, PhysicalStorageBuffer>, Function>
  %0 = spirv.Load "StorageBuffer" %p : f32
  %1 = spirv.Load "StorageBuffer" %p ["Volatile"] : f32
  %2 = spirv.Load "StorageBuffer" %p ["Aligned", 4] : f32
  %3 = spirv.Load "StorageBuffer" %p ["Volatile|Aligned", 4] {note = 1 : i32} : f32
  %4 = spirv.Load "StorageBuffer" %p ["NonPrivatePointer"] : f32
  spirv.Store "StorageBuffer" %p, %0 : f32
  spirv.Store "StorageBuffer" %p, %0 ["Aligned", 4] : f32
  spirv.Store "Function" %v, %1 ["None"] : f32
  spirv.CopyMemory "StorageBuffer" %p, "Function" %v : f32
  spirv.CopyMemory "StorageBuffer" %p, "Function" %v ["Aligned", 4], ["Volatile"] : f32
  spirv.CopyMemory "StorageBuffer" %p, "Function" %v ["Aligned", 4], ["Aligned", 8] : f32
  spirv.Return
}

// CHECK:      builtin.module {
// CHECK-NEXT:   spirv.func @accesses(%p: !spirv.ptr<f32, StorageBuffer>) "None" {
// CHECK-NEXT:     %c = spirv.Constant 1.000000e+00 : f32
// CHECK-NEXT:     %v = spirv.Variable : !spirv.ptr<f32, Function>
// CHECK-NEXT:     %w = spirv.Variable init(%c) : !spirv.ptr<f32, Function>
// CHECK-NEXT:     %a = spirv.Variable {aliased_pointer} : !spirv.ptr<!spirv.ptr<f32, PhysicalStorageBuffer>, Function>
// CHECK-NEXT:     %0 = spirv.Load "StorageBuffer" %p : f32
// CHECK-NEXT:     %1 = spirv.Load "StorageBuffer" %p ["Volatile"] : f32
// CHECK-NEXT:     %2 = spirv.Load "StorageBuffer" %p ["Aligned", 4] : f32
// CHECK-NEXT:     %3 = spirv.Load "StorageBuffer" %p ["Volatile|Aligned", 4] {note = 1 : i32} : f32
// CHECK-NEXT:     %4 = spirv.Load "StorageBuffer" %p ["NonPrivatePointer"] : f32
// CHECK-NEXT:     spirv.Store "StorageBuffer" %p, %0 : f32
// CHECK-NEXT:     spirv.Store "StorageBuffer" %p, %0 ["Aligned", 4] : f32
// CHECK-NEXT:     spirv.Store "Function" %v, %1 ["None"] : f32
// CHECK-NEXT:     spirv.CopyMemory "StorageBuffer" %p, "Function" %v : f32
// CHECK-NEXT:     spirv.CopyMemory "StorageBuffer" %p, "Function" %v ["Aligned", 4], ["Volatile"] : f32
// CHECK-NEXT:     spirv.CopyMemory "StorageBuffer" %p, "Function" %v ["Aligned", 4], ["Aligned", 8] : f32
// CHECK-NEXT:     spirv.Return
// CHECK-NEXT:   }
// CHECK-NEXT: }

// -----

// One memory operand of a copy applies to both sides.
// MLIR-GENERIC-ONLY: in its custom syntax MLIR prints the one operand twice.
spirv.func @copy(%p: !spirv.ptr<f32, StorageBuffer>, %q: !spirv.ptr<f32, Workgroup>) "None" {
  spirv.CopyMemory "StorageBuffer" %p, "Workgroup" %q ["Aligned", 4] : f32
  spirv.Return
}

// CHECK:      builtin.module {
// CHECK-NEXT:   spirv.func @copy(%p: !spirv.ptr<f32, StorageBuffer>, %q: !spirv.ptr<f32, Workgroup>) "None" {
// CHECK-NEXT:     spirv.CopyMemory "StorageBuffer" %p, "Workgroup" %q ["Aligned", 4] : f32
// CHECK-NEXT:     spirv.Return
// CHECK-NEXT:   }
// CHECK-NEXT: }

// -----

spirv.func @chains(%s: !spirv.ptr<!spirv.struct<(f32, !spirv.array<4 x vector<2xf32>>)>, StorageBuffer>, %b: !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0])>, StorageBuffer>, %i: i32, %l: i64) "None" {
  %zero = spirv.Constant 0 : i32
  %one = spirv.Constant 1 : i32
  %0 = spirv.AccessChain %s[%one] : !spirv.ptr<!spirv.struct<(f32, !spirv.array<4 x vector<2xf32>>)>, StorageBuffer>, i32 -> !spirv.ptr<!spirv.array<4 x vector<2xf32>>, StorageBuffer>
  %1 = spirv.AccessChain %s[%one, %i, %l] : !spirv.ptr<!spirv.struct<(f32, !spirv.array<4 x vector<2xf32>>)>, StorageBuffer>, i32, i32, i64 -> !spirv.ptr<f32, StorageBuffer>
  %2 = spirv.AccessChain %b[%zero, %i] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0])>, StorageBuffer>, i32, i32 -> !spirv.ptr<f32, StorageBuffer>
  %3 = spirv.PtrAccessChain %2[%l] : !spirv.ptr<f32, StorageBuffer>, i64 -> !spirv.ptr<f32, StorageBuffer>
  %4 = spirv.PtrAccessChain %0[%i %one, %zero] : !spirv.ptr<!spirv.array<4 x vector<2xf32>>, StorageBuffer>, i32, i32, i32 -> !spirv.ptr<f32, StorageBuffer>
  %5 = spirv.InBoundsPtrAccessChain %2[%i] : !spirv.ptr<f32, StorageBuffer>, i32 -> !spirv.ptr<f32, StorageBuffer>
  %m = spirv.Variable : !spirv.ptr<!spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>, Function>
  %6 = spirv.AccessChain %m[%i] : !spirv.ptr<!spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>, Function>, i32 -> !spirv.ptr<f16, Function>
  spirv.Return
}

// CHECK:      builtin.module {
// CHECK-NEXT:   spirv.func @chains(%s: !spirv.ptr<!spirv.struct<(f32, !spirv.array<4 x vector<2xf32>>)>, StorageBuffer>, %b: !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0])>, StorageBuffer>, %i: i32, %l: i64) "None" {
// CHECK-NEXT:     %zero = spirv.Constant 0 : i32
// CHECK-NEXT:     %one = spirv.Constant 1 : i32
// CHECK-NEXT:     %0 = spirv.AccessChain %s[%one] : !spirv.ptr<!spirv.struct<(f32, !spirv.array<4 x vector<2xf32>>)>, StorageBuffer>, i32 -> !spirv.ptr<!spirv.array<4 x vector<2xf32>>, StorageBuffer>
// CHECK-NEXT:     %1 = spirv.AccessChain %s[%one, %i, %l] : !spirv.ptr<!spirv.struct<(f32, !spirv.array<4 x vector<2xf32>>)>, StorageBuffer>, i32, i32, i64 -> !spirv.ptr<f32, StorageBuffer>
// CHECK-NEXT:     %2 = spirv.AccessChain %b[%zero, %i] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0])>, StorageBuffer>, i32, i32 -> !spirv.ptr<f32, StorageBuffer>
// CHECK-NEXT:     %3 = spirv.PtrAccessChain %2[%l] : !spirv.ptr<f32, StorageBuffer>, i64 -> !spirv.ptr<f32, StorageBuffer>
// CHECK-NEXT:     %4 = spirv.PtrAccessChain %0[%i %one, %zero] : !spirv.ptr<!spirv.array<4 x vector<2xf32>>, StorageBuffer>, i32, i32, i32 -> !spirv.ptr<f32, StorageBuffer>
// CHECK-NEXT:     %5 = spirv.InBoundsPtrAccessChain %2[%i] : !spirv.ptr<f32, StorageBuffer>, i32 -> !spirv.ptr<f32, StorageBuffer>
// CHECK-NEXT:     %m = spirv.Variable : !spirv.ptr<!spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>, Function>
// CHECK-NEXT:     %6 = spirv.AccessChain %m[%i] : !spirv.ptr<!spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>, Function>, i32 -> !spirv.ptr<f16, Function>
// CHECK-NEXT:     spirv.Return
// CHECK-NEXT:   }
// CHECK-NEXT: }

// -----

// A reference to an identified struct denotes the enclosing struct.
spirv.func @list(%node: !spirv.ptr<!spirv.struct<node, (f32 [0], !spirv.ptr<!spirv.struct<node>, PhysicalStorageBuffer> [8])>, PhysicalStorageBuffer> {spirv.decoration = #spirv.decoration<Aliased>}) "None" {
  %one = spirv.Constant 1 : i32
  %0 = spirv.AccessChain %node[%one] : !spirv.ptr<!spirv.struct<node, (f32 [0], !spirv.ptr<!spirv.struct<node>, PhysicalStorageBuffer> [8])>, PhysicalStorageBuffer>, i32 -> !spirv.ptr<!spirv.ptr<!spirv.struct<node, (f32 [0], !spirv.ptr<!spirv.struct<node>, PhysicalStorageBuffer> [8])>, PhysicalStorageBuffer>, PhysicalStorageBuffer>
  spirv.Return
}

// CHECK:      builtin.module {
// CHECK-NEXT:   spirv.func @list(%node: !spirv.ptr<!spirv.struct<node, (f32 [0], !spirv.ptr<!spirv.struct<node>, PhysicalStorageBuffer> [8])>, PhysicalStorageBuffer> {spirv.decoration = #spirv.decoration<Aliased>}) "None" {
// CHECK-NEXT:     %one = spirv.Constant 1 : i32
// CHECK-NEXT:     %0 = spirv.AccessChain %node[%one] : !spirv.ptr<!spirv.struct<node, (f32 [0], !spirv.ptr<!spirv.struct<node>, PhysicalStorageBuffer> [8])>, PhysicalStorageBuffer>, i32 -> !spirv.ptr<!spirv.ptr<!spirv.struct<node, (f32 [0], !spirv.ptr<!spirv.struct<node>, PhysicalStorageBuffer> [8])>, PhysicalStorageBuffer>, PhysicalStorageBuffer>
// CHECK-NEXT:     spirv.Return
// CHECK-NEXT:   }
// CHECK-NEXT: }
