// RUN: xdsl-opt %s -p 'linalg-to-contraction,assign-schedule{target=nvidia-h200},outline-dispatches,contraction-to-dot' --split-input-file | filecheck %s
// RUN: xdsl-opt %s -p 'linalg-to-spirv{target=nvidia-h200}' --split-input-file | filecheck %s --check-prefix=SPIRV

// Both operands are contiguous along K: words are loaded, SUDot's first operand is signed, and sums wrap.
// CHECK-LABEL: "gpu.func"
// CHECK:       schedule.flat_view %{{.*}} : memref<5x64xi8, {{.*}}> to memref<20xvector<4xi32>, {{.*}}>
// CHECK:       "gpu.barrier"
// CHECK:       %[[a:.*]] = vector.extract %{{.*}}[0] : i32 from vector<4xi32>
// CHECK:       %[[b:.*]] = vector.extract %{{.*}}[0] : i32 from vector<4xi32>
// CHECK:       %[[sum:.*]] = spirv.SUDot %[[b]], %[[a]], <PackedVectorFormat4x8Bit> : i32 -> i32
// CHECK-NEXT:  arith.addi %{{.*}}, %[[sum]] : i32
// SPIRV-LABEL: spirv.module
// SPIRV-SAME:  DotProductInput4x8BitPacked
// SPIRV-NOT:   AccSat
// SPIRV:       spirv.SUDot
// SPIRV-NEXT:  spirv.IAdd
func.func @transposed(%a: tensor<5x64xi8>, %b: tensor<3x64xi8>, %c: tensor<5x3xi32>) -> tensor<5x3xi32> {
  %r = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : tensor<5x64xi8>, tensor<3x64xi8>) outs(%c : tensor<5x3xi32>) {
  ^bb0(%x: i8, %y: i8, %acc: i32):
    %u = arith.extui %x : i8 to i32
    %s = arith.extsi %y : i8 to i32
    %p = arith.muli %u, %s : i32
    %t = arith.addi %acc, %p : i32
    linalg.yield %t : i32
  } -> tensor<5x3xi32>
  func.return %r : tensor<5x3xi32>
}

// -----

// B is contiguous along N: its words are assembled from single bytes of different rows.
// CHECK-LABEL: "gpu.func"
// CHECK:       schedule.flat_view %{{.*}} : memref<9x3xi8, {{.*}}> to memref<27xi8, {{.*}}>
// CHECK:       %[[bytes:.*]] = spirv.CompositeConstruct {{.*}} : (i8, i8, i8, i8) -> vector<4xi8>
// CHECK-NEXT:  spirv.Bitcast %[[bytes]] : vector<4xi8> to i32
// CHECK:       spirv.SUDot
// SPIRV-LABEL: spirv.module
// SPIRV:       spirv.SUDot
func.func @row_major(%a: tensor<5x9xi8>, %b: tensor<9x3xi8>, %c: tensor<5x3xi32>) -> tensor<5x3xi32> {
  %r = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : tensor<5x9xi8>, tensor<9x3xi8>) outs(%c : tensor<5x3xi32>) {
  ^bb0(%x: i8, %y: i8, %acc: i32):
    %s = arith.extsi %x : i8 to i32
    %u = arith.extui %y : i8 to i32
    %p = arith.muli %s, %u : i32
    %t = arith.addi %acc, %p : i32
    linalg.yield %t : i32
  } -> tensor<5x3xi32>
  func.return %r : tensor<5x3xi32>
}
