// RUN: xdsl-opt %s -p 'linalg-to-contraction,assign-schedule,outline-dispatches,contraction-to-cooperative-matrix' --split-input-file | filecheck %s
// All sizes are divisible by tiles, so there are no guards, and fragments are stored directly.

builtin.module attributes {schedule.target = "nvidia-h200"} {
  func.func @main(%a: tensor<64x64xf16>, %b: tensor<64x64xf16>) -> tensor<64x64xf32> {
    %z = arith.constant dense<0.0> : tensor<64x64xf32>
    %0 = linalg.matmul {schedule = #schedule.contraction<workgroup_tile = [32, 32, 16], subgroups = [2, 2], instruction = coopmat 16x16x16, a = staged<padding = 8, vector = 8>, b = staged<padding = 8, vector = 4>>} ins(%a, %b : tensor<64x64xf16>, tensor<64x64xf16>) outs(%z : tensor<64x64xf32>) -> tensor<64x64xf32>
    func.return %0 : tensor<64x64xf32>
  }
}
// CHECK: %a_elements = schedule.flat_view %a : memref<64x64xf16, #spirv.storage_class<StorageBuffer>> to memref<512xvector<4xi32>, #spirv.storage_class<StorageBuffer>>
// CHECK: %a_tile = memref.alloc() : memref<32x3xvector<4xi32>, #spirv.storage_class<Workgroup>>
// CHECK: %b_elements = schedule.flat_view %b : memref<64x64xf16, #spirv.storage_class<StorageBuffer>> to memref<1024xvector<4xf16>, #spirv.storage_class<StorageBuffer>>
// CHECK: %b_tile = memref.alloc() : memref<16x10xvector<4xf16>, #spirv.storage_class<Workgroup>>
// CHECK: %zero = spirv.Constant dense<0.000000e+00> : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
// CHECK: [[SUM:%.*]] = scf.for %k = %{{.*}} to %{{.*}} step %{{.*}} iter_args([[ACC:%.*]] = %zero) -> (!spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>) {
// CHECK-NOT: arith.select
// CHECK:   memref.load %a_elements
// CHECK:   memref.load %b_elements
// CHECK:   "gpu.barrier"() : () -> ()
// CHECK:   memref.store %{{.*}}, %a_tile
// CHECK:   memref.store %{{.*}}, %b_tile
// CHECK:   "gpu.barrier"() : () -> ()
// CHECK:   [[A:%.*]] = spirv.KHR.CooperativeMatrixLoad %{{.*}}, %{{.*}}, <RowMajor>, <NonPrivatePointer> : !spirv.ptr<vector<4xi32>, Workgroup>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// CHECK:   [[B:%.*]] = spirv.KHR.CooperativeMatrixLoad %{{.*}}, %{{.*}}, <RowMajor>, <NonPrivatePointer> : !spirv.ptr<vector<4xf16>, Workgroup>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixB>
// CHECK:   [[NEXT:%.*]] = spirv.KHR.CooperativeMatrixMulAdd [[A]], [[B]], [[ACC]] : !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>, !spirv.coopmatrix<16x16xf16, Subgroup, MatrixB> -> !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
// CHECK:   scf.yield [[NEXT]]
// CHECK: [[P:%.*]] = schedule.element_ptr %d_elements
// CHECK-NEXT: spirv.KHR.CooperativeMatrixStore [[P]], [[SUM]], %{{.*}}, <RowMajor> : !spirv.ptr<f32, StorageBuffer>
// CHECK-NEXT: "gpu.return"

// -----

// Transposed operands are read by columns. Elements beyond M are replaced by the
// first element. Rows of 5 results are not aligned, so every fragment passes through
// Workgroup memory, and only elements inside are stored. One K tile needs no loop.
builtin.module attributes {schedule.target = "lavapipe"} {
  func.func @main(%a: tensor<8x7xf16>, %b: tensor<5x8xf16>) -> tensor<7x5xf16> {
    %z = arith.constant dense<0.0> : tensor<7x5xf16>
    %0 = linalg.matmul indexing_maps = [affine_map<(m, n, k) -> (k, m)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>] ins(%a, %b : tensor<8x7xf16>, tensor<5x8xf16>) outs(%z : tensor<7x5xf16>) -> tensor<7x5xf16>
    func.return %0 : tensor<7x5xf16>
  }
}
// CHECK: %scratch = memref.alloc() : memref<8x8xf16, #spirv.storage_class<Workgroup>>
// CHECK: [[INSIDE:%.*]] = arith.cmpi ult, [[M:%.*]], %{{.*}} : index
// CHECK: [[SAFE:%.*]] = arith.select [[INSIDE]], [[M]], %{{.*}} : index
// CHECK-NOT: iter_args
// CHECK: [[AT:%.*]] = arith.addi [[SAFE]], %{{.*}} : index
// CHECK-NEXT: [[LOADED:%.*]] = memref.load %a_elements[[[AT]]]
// CHECK: memref.store [[LOADED]], %a_tile_elements
// CHECK: spirv.KHR.CooperativeMatrixLoad %{{.*}}, %{{.*}}, <ColumnMajor>, <NonPrivatePointer> : !spirv.ptr<f16, Workgroup>, i32 -> !spirv.coopmatrix<8x8xf16, Subgroup, MatrixA>
// CHECK: spirv.KHR.CooperativeMatrixLoad %{{.*}}, %{{.*}}, <ColumnMajor>, <NonPrivatePointer> : !spirv.ptr<vector<4xi32>, Workgroup>, i32 -> !spirv.coopmatrix<8x8xf16, Subgroup, MatrixB>
// CHECK: spirv.KHR.CooperativeMatrixMulAdd
// CHECK-NEXT: [[S:%.*]] = schedule.element_ptr %scratch
// CHECK-NEXT: spirv.KHR.CooperativeMatrixStore [[S]],
// CHECK-SAME: <RowMajor>, <NonPrivatePointer> : !spirv.ptr<f16, Workgroup>
// CHECK-NEXT: spirv.ControlBarrier <Subgroup>, <Subgroup>, <AcquireRelease|WorkgroupMemory|MakeAvailable|MakeVisible>
// CHECK:      [[V:%.*]] = memref.load %scratch
// CHECK:      scf.if
// CHECK:        memref.store [[V]], %d_elements
// CHECK-NOT: CooperativeMatrixStore

// -----

// An initial value is added to the sums. Tiles inside of the result are stored directly.
builtin.module attributes {schedule.target = "lavapipe"} {
  func.func @main(%a: tensor<8x8xf16>, %b: tensor<8x12xf16>, %c: tensor<8x12xf32>) -> tensor<8x12xf32> {
    %0 = linalg.matmul {schedule = #schedule.contraction<workgroup_tile = [8, 8, 8], subgroups = [1, 1], instruction = coopmat 8x8x8, a = staged<vector = 8>, b = staged<vector = 4>>} ins(%a, %b : tensor<8x8xf16>, tensor<8x12xf16>) outs(%c : tensor<8x12xf32>) -> tensor<8x12xf32>
    func.return %0 : tensor<8x12xf32>
  }
}
// CHECK: [[AB:%.*]] = spirv.KHR.CooperativeMatrixMulAdd %{{.*}}, %{{.*}}, %zero
// CHECK: [[WHOLE:%.*]] = arith.cmpi ult, %tile_column,
// CHECK-NEXT: scf.if [[WHOLE]] {
// CHECK:        [[P:%.*]] = schedule.element_ptr %c_elements
// CHECK-NEXT:   [[C:%.*]] = spirv.KHR.CooperativeMatrixLoad [[P]],
// CHECK-NEXT:   [[SUM:%.*]] = spirv.FAdd [[AB]], [[C]]
// CHECK-NEXT:   [[P:%.*]] = schedule.element_ptr %d_elements
// CHECK-NEXT:   spirv.KHR.CooperativeMatrixStore [[P]], [[SUM]],
// CHECK-NEXT: } else {
// CHECK:        [[C:%.*]] = memref.load %c_elements
// CHECK-NEXT:   [[SUM:%.*]] = arith.addf %{{.*}}, [[C]]
// CHECK-NEXT:   memref.store [[SUM]], %d_elements
