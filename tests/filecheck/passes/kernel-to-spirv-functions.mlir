// RUN: xdsl-opt %s -p 'kernel-to-spirv,spirv-update-vce' | filecheck %s
// A function on the elements of a matrix becomes a SPIR-V function. Buffers are variables of the
// module, other values are arguments, and matrices are passed by element. Equal functions are one.

"gpu.module"() <{sym_name = "f"}> ({
  "gpu.func"() <{function_type = (memref<64xf32, #spirv.storage_class<StorageBuffer>>, memref<64xf32, #spirv.storage_class<StorageBuffer>>) -> (), kernel}> ({
  ^bb0(%a: memref<64xf32, #spirv.storage_class<StorageBuffer>>, %o: memref<64xf32, #spirv.storage_class<StorageBuffer>>):
    %c = arith.constant 0 : index
    %p = schedule.element_ptr %a[%c] : memref<64xf32, #spirv.storage_class<StorageBuffer>> -> !spirv.ptr<f32, StorageBuffer>
    %s = arith.constant 8 : i32
    %m = spirv.KHR.CooperativeMatrixLoad %p, %s, <RowMajor> : !spirv.ptr<f32, StorageBuffer>, i32 -> !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc>
    %r = schedule.reduce_rows %m : !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc> -> !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc> {
    ^bb0(%x: f32, %y: f32):
      %z = arith.maxnumf %x, %y : f32
      schedule.yield %z : f32
    }
    %r2 = schedule.reduce_rows %m : !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc> -> !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc> {
    ^bb0(%x: f32, %y: f32):
      %z = arith.maxnumf %x, %y : f32
      schedule.yield %z : f32
    }
    %e = schedule.each_element %r2(%r, %o, %c) : !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc>(!spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc>, memref<64xf32, #spirv.storage_class<StorageBuffer>>, index) -> !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc> {
    ^bb0(%i: index, %j: index, %x: f32, %y: f32, %b: memref<64xf32, #spirv.storage_class<StorageBuffer>>, %k: index):
      %n = arith.constant 8 : index
      %q = arith.muli %i, %n : index
      %q1 = arith.addi %q, %j : index
      %z = arith.subf %x, %y : f32
      %lim = arith.constant 50 : index
      %in = arith.cmpi ult, %q1, %lim : index
      scf.if %in {
        memref.store %z, %b[%q1] : memref<64xf32, #spirv.storage_class<StorageBuffer>>
        scf.yield
      }
      schedule.yield %z : f32
    }
    "gpu.return"() : () -> ()
  }) {sym_name = "f", gpu.known_block_size = array<i32: 32, 1, 1>} : () -> ()
}) : () -> ()


// CHECK: spirv.module @f Logical Vulkan requires #spirv.vce<v1.6, [Shader, VulkanMemoryModel, CooperativeMatrixReductionsNV, CooperativeMatrixPerElementOperationsNV, CooperativeMatrixKHR], [SPV_KHR_cooperative_matrix, SPV_NV_cooperative_matrix2]> {
// CHECK: %r = spirv.NV.CooperativeMatrixReduce <Row> %m, @f_combine_0 : !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc> -> !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc>
// CHECK-NEXT: %r2 = spirv.NV.CooperativeMatrixReduce <Row> %m, @f_combine_0 : !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc> -> !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc>
// CHECK-NEXT: %e = spirv.NV.CooperativeMatrixPerElementOp %r2, @f_each_1(%r, %c) : !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc>, !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc>, i32 -> !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc>
// CHECK-NEXT: spirv.Return
// CHECK-NEXT: }
// CHECK-NEXT: spirv.func @f_combine_0(%x: f32, %y: f32) -> f32 "None" {
// CHECK-NEXT: %z = spirv.GL.NMax %x, %y : f32
// CHECK-NEXT: spirv.ReturnValue %z : f32
// CHECK-NEXT: }
// CHECK-NEXT: spirv.func @f_each_1(%i: i32, %j: i32, %x: f32, %y: f32, %k: i32) -> f32 "None" {
// CHECK-NEXT: %0 = spirv.mlir.addressof @f_arg_1 : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0]), Block>, StorageBuffer>
// CHECK-NEXT: %n = spirv.Constant 8 : i32
// CHECK-NEXT: %lim = spirv.Constant 50 : i32
// CHECK-NEXT: %1 = spirv.Constant 0 : i32
// CHECK-NEXT: %q = spirv.IMul %i, %n : i32
// CHECK-NEXT: %q1 = spirv.IAdd %q, %j : i32
// CHECK-NEXT: %z = spirv.FSub %x, %y : f32
// CHECK-NEXT: %in = spirv.ULessThan %q1, %lim : i32
// CHECK-NEXT: spirv.mlir.selection {
// CHECK-NEXT: spirv.BranchConditional %in, ^bb1, ^bb2
// CHECK-NEXT: ^bb1:
// CHECK-NEXT: %2 = spirv.AccessChain %0[%1, %q1] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0]), Block>, StorageBuffer>, i32, i32 -> !spirv.ptr<f32, StorageBuffer>
// CHECK-NEXT: spirv.Store "StorageBuffer" %2, %z : f32
// CHECK-NEXT: spirv.Branch ^bb2
// CHECK-NEXT: ^bb2:
// CHECK-NEXT: spirv.mlir.merge
// CHECK-NEXT: }
// CHECK-NEXT: spirv.ReturnValue %z : f32
// CHECK-NEXT: }
// CHECK-NEXT: spirv.EntryPoint "GLCompute" @f, @f_arg_0, @f_arg_1
