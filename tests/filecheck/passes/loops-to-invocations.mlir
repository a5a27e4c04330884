// RUN: xdsl-opt %s -p 'form-dispatches,assign-schedule{target=lavapipe},outline-dispatches,loops-to-invocations' --split-input-file | filecheck %s

// Adjacent elements are contiguous in one buffer only, so only the result is stored as vectors.
// CHECK:         sym_name = "kernels"
// CHECK:         %d_vectors = schedule.flat_view %d : memref<128x64xf32, {{.*}}> to memref<2048xvector<4xf32>
// CHECK:         %[[X:.*]] = memref.load %x_elements[
// CHECK:         %[[V:.*]] = spirv.CompositeConstruct
// CHECK-NEXT:    memref.store %[[V]], %d_vectors
func.func @main(%x: tensor<64x128xf32>) -> tensor<128x64xf32> {
  %e = tensor.empty() : tensor<128x64xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<64x128xf32>) outs(%e : tensor<128x64xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<128x64xf32>
  func.return %r : tensor<128x64xf32>
}

// -----

// An index that is read from data is clamped to the array.
// CHECK:         %[[I:.*]] = arith.index_cast %{{.*}} : i32 to index
// CHECK:         %[[LIMITED:.*]] = arith.minui %[[I]], %{{.*}} : index
// CHECK:         memref.load %{{.*}}[%[[LIMITED]]]
func.func @main(%x: tensor<13xf32>, %n: tensor<7xi32>) -> tensor<7xf32> {
  %e = tensor.empty() : tensor<7xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%n : tensor<7xi32>) outs(%e : tensor<7xf32>) {
  ^bb0(%a: i32, %o: f32):
    %i = arith.index_cast %a : i32 to index
    %v = tensor.extract %x[%i] : tensor<13xf32>
    linalg.yield %v : f32
  } -> tensor<7xf32>
  func.return %r : tensor<7xf32>
}

// -----

// A maximum propagates NaN, so it is reduced by rotations. Unused values are not computed.
// CHECK-NOT:     arith.select %{{.*}} : i64
// CHECK:         spirv.GroupNonUniformRotateKHR <Subgroup>
// CHECK-NEXT:    arith.maximumf
func.func @main(%x: tensor<64x40xf32>) -> tensor<64xf32> {
  %low = arith.constant -3.0e+38 : f32
  %zero = arith.constant 0 : i64
  %e = tensor.empty() : tensor<64xf32>
  %f = linalg.fill ins(%low : f32) outs(%e : tensor<64xf32>) -> tensor<64xf32>
  %g = tensor.empty() : tensor<64xi64>
  %h = linalg.fill ins(%zero : i64) outs(%g : tensor<64xi64>) -> tensor<64xi64>
  %r, %k = "linalg.generic"(%x, %f, %h) <{indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i)>], iterator_types = [#linalg.iterator_type<parallel>, #linalg.iterator_type<reduction>], operandSegmentSizes = array<i32: 1, 2>}> ({
  ^bb0(%a: f32, %o: f32, %p: i64):
    %i = linalg.index 1 : index
    %j = arith.index_cast %i : index to i64
    %c = arith.cmpf ogt, %a, %o : f32
    %m = arith.maximumf %a, %o : f32
    %s = arith.select %c, %j, %p : i64
    linalg.yield %m, %s : f32, i64
  }) : (tensor<64x40xf32>, tensor<64xf32>, tensor<64xi64>) -> (tensor<64xf32>, tensor<64xi64>)
  func.return %r : tensor<64xf32>
}

// -----

// A lane loads 8 adjacent f16 at a time, as 4 words.
// CHECK:         %x_vectors = schedule.flat_view %x : memref<32x4096xf16, {{.*}}> to memref<16384xvector<4xi32>
// CHECK:         %[[V:.*]] = memref.load %x_vectors[
// CHECK-NEXT:    %[[W:.*]] = vector.extract %[[V]][0] : i32 from vector<4xi32>
// CHECK:         %[[P:.*]] = spirv.Bitcast %[[W]] : i32 to vector<2xf16>
// CHECK-NEXT:    vector.extract %[[P]][0] : f16 from vector<2xf16>
func.func @main(%x: tensor<32x4096xf16>) -> tensor<32xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<32xf32>) -> tensor<32xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<32x4096xf16>) outs(%f : tensor<32xf32>) {
  ^bb0(%a: f16, %o: f32):
    %w = arith.extf %a : f16 to f32
    %s = arith.addf %o, %w : f32
    linalg.yield %s : f32
  } -> tensor<32xf32>
  func.return %r : tensor<32xf32>
}

// -----

// Adjacent invocations sum adjacent columns, with 4 x 4 subgroups per workgroup. The
// partial sums of 64 invocations are stored to Workgroup memory, and 8 of them add up.
// CHECK:         %d_vectors = schedule.flat_view
// CHECK-NEXT:    %x_vectors = schedule.flat_view %x : memref<500x48xf32, {{.*}}> to memref<6000xvector<4xf32>
// CHECK:         memref.load %x_vectors[
// CHECK:         %partial = memref.alloc() : memref<256xf32, #spirv.storage_class<Workgroup>>
// CHECK-NEXT:    "gpu.barrier"
// CHECK-NEXT:    memref.store %{{.*}}, %partial[%invocation]
// CHECK-NEXT:    "gpu.barrier"
// CHECK:         %[[EIGHT:.*]] = arith.constant 8 : index
// CHECK-NEXT:    %[[FEW:.*]] = arith.cmpi ult, %{{.*}}, %[[EIGHT]]
// CHECK:         scf.if %[[FEW]] {
// CHECK:           memref.store %{{.*}}, %partial[%invocation]
// CHECK-NEXT:    }
// CHECK-NEXT:    "gpu.barrier"
func.func @main(%x: tensor<500x48xf32>) -> tensor<48xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<48xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<48xf32>) -> tensor<48xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>], iterator_types = ["reduction", "parallel"]} ins(%x : tensor<500x48xf32>) outs(%f : tensor<48xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %o, %a : f32
    linalg.yield %s : f32
  } -> tensor<48xf32>
  func.return %r : tensor<48xf32>
}
