// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-dispatches' | filecheck %s
// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-dispatches,assign-schedule,outline-dispatches,contraction-to-cooperative-matrix' | filecheck %s --check-prefix=KERNEL

// Each batch multiplies by the matrix that an index selects. The kernel reads the planes of the matrix in place.

// CHECK: schedule.dispatch
// CHECK: schedule.selected_view %{{.*}} at %{{.*}} : tensor<4x16x4x16xi8> at tensor<3xi32> to tensor<3x16x4x16xi8>
// CHECK-NOT: tensor.extract

// KERNEL: schedule.flat_view %b : memref<4x16x4x16xi8, #spirv.storage_class<StorageBuffer>>
// KERNEL: [[NUMBER:%.*]] = memref.load %n[%batch] : memref<3xi32, #spirv.storage_class<StorageBuffer>>
// KERNEL-NEXT: arith.index_cast [[NUMBER]] : i32 to index

builtin.module attributes {schedule.target = "nvidia-h200"} {
  func.func @main(%x: tensor<3x16x128xf16>, %q: tensor<4x16x4x16xi8>, %d: tensor<16x4xf16>, %n: tensor<3xi32>) -> tensor<3x16x16xf32> {
    %zero = arith.constant 0.0 : f32
    %copied = tensor.empty() : tensor<3x16x4x16xi8>
    %own = linalg.generic {indexing_maps = [affine_map<(e, n, b, j) -> (e)>, affine_map<(e, n, b, j) -> (e, n, b, j)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%n : tensor<3xi32>) outs(%copied : tensor<3x16x4x16xi8>) {
    ^bb0(%number: i32, %o: i8):
      %e = arith.index_cast %number : i32 to index
      %r = linalg.index 1 : index
      %b = linalg.index 2 : index
      %j = linalg.index 3 : index
      %a = tensor.extract %q[%e, %r, %b, %j] : tensor<4x16x4x16xi8>
      linalg.yield %a : i8
    } -> tensor<3x16x4x16xi8>
    %packed = tensor.empty() : tensor<3x16x4x2x16xf16>
    %w = linalg.generic {indexing_maps = [affine_map<(e, n, b, h, j) -> (e, n, b, j)>, affine_map<(e, n, b, h, j) -> (n, b)>, affine_map<(e, n, b, h, j) -> (e, n, b, h, j)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%own, %d : tensor<3x16x4x16xi8>, tensor<16x4xf16>) outs(%packed : tensor<3x16x4x2x16xf16>) {
    ^bb0(%a: i8, %s: f16, %o: f16):
      %h = linalg.index 3 : index
      %h8 = arith.index_cast %h : index to i8
      %four = arith.constant 4 : i8
      %places = arith.muli %h8, %four : i8
      %moved = arith.shrui %a, %places : i8
      %mask = arith.constant 15 : i8
      %nibble = arith.andi %moved, %mask : i8
      %f = arith.uitofp %nibble : i8 to f32
      %t = arith.extf %s : f16 to f32
      %p = arith.mulf %f, %t : f32
      %r = arith.truncf %p : f32 to f16
      linalg.yield %r : f16
    } -> tensor<3x16x4x2x16xf16>
    %rows = tensor.collapse_shape %w [[0], [1], [2, 3, 4]] : tensor<3x16x4x2x16xf16> into tensor<3x16x128xf16>
    %empty = tensor.empty() : tensor<3x16x16xf32>
    %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<3x16x16xf32>) -> tensor<3x16x16xf32>
    %y = linalg.generic {indexing_maps = [affine_map<(e, m, n, k) -> (e, m, k)>, affine_map<(e, m, n, k) -> (e, n, k)>, affine_map<(e, m, n, k) -> (e, m, n)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%x, %rows : tensor<3x16x128xf16>, tensor<3x16x128xf16>) outs(%init : tensor<3x16x16xf32>) {
    ^bb0(%a: f16, %b: f16, %c: f32):
      %e = arith.extf %a : f16 to f32
      %f = arith.extf %b : f16 to f32
      %p = arith.mulf %e, %f : f32
      %s = arith.addf %p, %c : f32
      linalg.yield %s : f32
    } -> tensor<3x16x16xf32>
    func.return %y : tensor<3x16x16xf32>
  }
}
