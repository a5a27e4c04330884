// RUN: xdsl-opt %s -p 'linalg-to-contraction,assign-schedule{target=lavapipe barred="rows=*"},outline-dispatches,contraction-to-cooperative-matrix,contraction-to-fma' --split-input-file | filecheck %s
// RUN: xdsl-opt %s -p 'linalg-to-spirv{target=lavapipe barred="rows=*"}' --split-input-file | filecheck %s --check-prefix=SPIRV

// Without a bfloat16 extension, bfloat16 is 16-bit integers in memory, shifted into the upper half of binary32.
// CHECK-LABEL: "gpu.func"
// CHECK:       schedule.flat_view %{{.*}} : memref<16x16xbf16, {{.*}}> to memref<64xvector<4xi16>, {{.*}}>
// CHECK:       "gpu.barrier"() : () -> ()
// CHECK:       scf.for %step
// CHECK:         vector.extract %{{.*}}[0] : i16 from vector<4xi16>
// CHECK:         arith.extui %{{.*}} : i16 to i32
// CHECK-NEXT:    arith.shli %{{.*}} : i32
// CHECK-NEXT:    arith.bitcast %{{.*}} : i32 to f32
// CHECK:         math.fma %{{.*}} : vector<4xf32>
// CHECK:       memref.store %{{.*}} : memref<64xvector<4xf32>, {{.*}}>
// SPIRV-LABEL: spirv.module
// SPIRV-NOT:   BFloat16
// SPIRV-NOT:   CooperativeMatrix
// SPIRV:       spirv.UConvert %{{.*}} : i16 to i32
// SPIRV-NEXT:  spirv.ShiftLeftLogical
// SPIRV-NEXT:  spirv.Bitcast %{{.*}} : i32 to f32
// SPIRV:       spirv.GL.Fma %{{.*}} : vector<4xf32>
func.func @main(%a: tensor<16x16xbf16>, %b: tensor<16x16xbf16>, %c: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %r = linalg.matmul ins(%a, %b : tensor<16x16xbf16>, tensor<16x16xbf16>) outs(%c : tensor<16x16xf32>) -> tensor<16x16xf32>
  func.return %r : tensor<16x16xf32>
}

// -----

// With mixed signs, each input is extended as in the body, and sums wrap.
// CHECK-LABEL: "gpu.func"
// CHECK:       arith.extsi %{{.*}} : {{.*}}i16 to {{.*}}i32
// CHECK:       arith.extui %{{.*}} : {{.*}}i8 to {{.*}}i32
// CHECK:       arith.muli
// CHECK-NEXT:  arith.addi
// SPIRV-LABEL: spirv.module
// SPIRV:       spirv.SConvert
// SPIRV:       spirv.UConvert
// SPIRV:       spirv.IMul
// SPIRV-NEXT:  spirv.IAdd
func.func @main(%a: tensor<5x7xi16>, %b: tensor<7x3xi8>, %c: tensor<5x3xi32>) -> tensor<5x3xi32> {
  %r = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : tensor<5x7xi16>, tensor<7x3xi8>) outs(%c : tensor<5x3xi32>) {
  ^bb0(%x: i16, %y: i8, %acc: i32):
    %s = arith.extsi %x : i16 to i32
    %u = arith.extui %y : i8 to i32
    %p = arith.muli %s, %u : i32
    %t = arith.addi %acc, %p : i32
    linalg.yield %t : i32
  } -> tensor<5x3xi32>
  func.return %r : tensor<5x3xi32>
}
