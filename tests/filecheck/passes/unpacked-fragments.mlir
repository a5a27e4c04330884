// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-dispatches,assign-schedule,outline-dispatches,contraction-to-cooperative-matrix' | filecheck %s
// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-dispatches,assign-schedule,pack-operands' | filecheck %s --check-prefix=PACK

// B's fragments are unpacked from planes: each invocation loads whole units of its two columns, 16 bytes and a
// scale each. A is in Workgroup memory in the order of these units, two elements together. Two columns of four
// nibbles give eight components. Two bytes of a word are unpacked at a time, without shifting high nibbles. The low and
// the high nibbles of a word share the operation that sets the exponents.

builtin.module attributes {schedule.target = "nvidia-h200"} {
  func.func @main(%x: tensor<16x128xf16>, %q: tensor<16x4x16xi8>, %d: tensor<16x4xf16>) -> tensor<16x16xf32> {
    %zero = arith.constant 0.0 : f32
    %packed = tensor.empty() : tensor<16x4x2x16xf16>
    %w = linalg.generic {indexing_maps = [affine_map<(n, b, h, j) -> (n, b, j)>, affine_map<(n, b, h, j) -> (n, b)>, affine_map<(n, b, h, j) -> (n, b, h, j)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%q, %d : tensor<16x4x16xi8>, tensor<16x4xf16>) outs(%packed : tensor<16x4x2x16xf16>) {
    ^bb0(%a: i8, %s: f16, %o: f16):
      %h = linalg.index 2 : index
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
    } -> tensor<16x4x2x16xf16>
    %rows = tensor.collapse_shape %w [[0], [1, 2, 3]] : tensor<16x4x2x16xf16> into tensor<16x128xf16>
    %empty = tensor.empty() : tensor<16x16xf32>
    %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<16x16xf32>) -> tensor<16x16xf32>
    %y = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %rows : tensor<16x128xf16>, tensor<16x128xf16>) outs(%init : tensor<16x16xf32>) attrs = {schedule = #schedule.contraction<workgroup_tile = [16, 16, 128], subgroups = [1, 1], instruction = coopmat 16x16x16, a = staged<padding = 8, vector = 8>, b = direct>} {
    ^bb0(%a: f16, %b: f16, %c: f32):
      %e = arith.extf %a : f16 to f32
      %f = arith.extf %b : f16 to f32
      %p = arith.mulf %e, %f : f32
      %s = arith.addf %p, %c : f32
      linalg.yield %s : f32
    } -> tensor<16x16xf32>
    func.return %y : tensor<16x16xf32>
  }
}
// PACK-NOT: schedule.pack

// CHECK: %a_tile = memref.alloc() : memref<16x68xvector<2xf16>, #spirv.storage_class<Workgroup>>
// CHECK: %b_elements = schedule.flat_view %b : memref<16x4x16xi8, #spirv.storage_class<StorageBuffer>> to memref<64xvector<4xi32>, #spirv.storage_class<StorageBuffer>>
// CHECK-NOT: %b_tile
// CHECK-COUNT-32: memref.store %{{.*}}, %a_tile_elements
// CHECK: "gpu.barrier"() : () -> ()
// CHECK: memref.load %b_elements
// CHECK: memref.load %b_elements_1
// CHECK: memref.load %b_elements
// CHECK: memref.load %b_elements_1
// CHECK-NOT: memref.load
// CHECK: spirv.KHR.CooperativeMatrixLoad %{{.*}}, %{{.*}}, <RowMajor>, <NonPrivatePointer> : !spirv.ptr<vector<2xf16>, Workgroup>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// CHECK: [[WORD:%.*]] = arith.ori %{{.*}}, %{{.*}} : i32
// CHECK-NEXT: [[BIASED:%.*]] = arith.andi [[WORD]], %{{.*}} : i32
// CHECK-NEXT: [[PAIR:%.*]] = spirv.Bitcast [[BIASED]] : i32 to vector<2xf16>
// CHECK-NEXT: arith.addf [[PAIR]], %{{.*}} : vector<2xf16>
// CHECK: [[FIRST:%.*]] = spirv.CompositeInsert %{{.*}}, %none[0 : i32] : f16 into !spirv.coopmatrix<16x16xf16, Subgroup, MatrixB>
// CHECK-NEXT: spirv.CompositeInsert %{{.*}}, [[FIRST]][1 : i32]
// CHECK: [[B:%.*]] = spirv.CompositeInsert %{{.*}}, %{{.*}}[7 : i32] : f16 into !spirv.coopmatrix<16x16xf16, Subgroup, MatrixB>
// CHECK-NEXT: spirv.KHR.CooperativeMatrixMulAdd %{{.*}}, [[B]], %zero
// CHECK: [[HIGH:%.*]] = arith.andi [[WORD]], %{{.*}} : i32
// CHECK-NEXT: [[PAIR:%.*]] = spirv.Bitcast [[HIGH]] : i32 to vector<2xf16>
// CHECK-NEXT: arith.addf [[PAIR]], %{{.*}} : vector<2xf16>
