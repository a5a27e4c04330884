// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-dispatches,assign-schedule{target=nvidia-h200},pack-operands,outline-dispatches,contraction-to-cooperative-matrix' | filecheck %s
// RUN: not xdsl-opt %s -p 'linalg-to-contraction,form-dispatches,assign-schedule{target=amd-rdna4}' 2>&1 | filecheck %s --check-prefix=LACKS

// An instruction applies a bias and a function to each element of a fragment, which is then stored
// directly. Of a fragment that reaches beyond the result, only the elements inside are stored.
// CHECK-LABEL: sym_name = "pack_20x32", gpu
// CHECK-NOT:  memref.alloc
// CHECK:      spirv.KHR.CooperativeMatrixMulAdd
// CHECK:      %[[SUM:[0-9]+]] = spirv.KHR.CooperativeMatrixMulAdd
// CHECK:      scf.if
// CHECK:        %[[VALUE:[0-9]+]] = schedule.each_element %[[SUM]](%{{.*}}, %C_elements) : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>(index, index, memref<20xf32
// CHECK-NEXT:   ^bb0(%row: index, %column: index, %[[X:[0-9]+]]: f32, %{{.*}}: index, %{{.*}}: index, %[[BIAS:.*]]: memref<20xf32
// CHECK:        memref.load %[[BIAS]]
// CHECK:        arith.addf %[[X]],
// CHECK:        math.tanh
// CHECK:        arith.truncf
// CHECK:        arith.extf
// CHECK:        schedule.yield
// CHECK:        %[[RESULT:[0-9]+]] = spirv.FConvert %[[VALUE]] : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc> to !spirv.coopmatrix<16x16xf16, Subgroup, MatrixAcc>
// CHECK:        spirv.KHR.CooperativeMatrixStore %{{.*}}, %[[RESULT]]
// CHECK:      } else {
// CHECK:        schedule.each_element
// CHECK:        arith.cmpi ult
// CHECK:        scf.if
// CHECK:          math.tanh
// CHECK:          memref.store {{.*}} memref<480xf16
// LACKS: result = elements, but amd-rdna4 does not list cooperative-matrix-per-element-operations: use result = fragments
func.func @main(%A : tensor<20x32xf16>, %B : tensor<32x24xf16>, %C : tensor<20xf32>) -> tensor<20x24xf16> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<20x24xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<20x24xf32>) -> tensor<20x24xf32>
  %r = linalg.matmul {schedule = #schedule.contraction<workgroup_tile = [16, 16, 32], subgroups = [1, 1], instruction = coopmat 16x16x16, a = direct, b = direct, result = elements>} ins(%A, %B : tensor<20x32xf16>, tensor<32x24xf16>) outs(%f : tensor<20x24xf32>) -> tensor<20x24xf32>
  %g = tensor.empty() : tensor<20x24xf16>
  %s = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%r, %C : tensor<20x24xf32>, tensor<20xf32>) outs(%g : tensor<20x24xf16>) {
  ^bb0(%x: f32, %b: f32, %o: f16):
    %y = arith.addf %x, %b : f32
    %t = math.tanh %y : f32
    %h = arith.truncf %t : f32 to f16
    linalg.yield %h : f16
  } -> tensor<20x24xf16>
  func.return %s : tensor<20x24xf16>
}
