// RUN: xdsl-opt %s -p 'linalg-to-contraction,split-reductions{target=nvidia-h200},form-dispatches,assign-schedule{target=nvidia-h200}' | filecheck %s
// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-dispatches,assign-schedule{target=amd-rdna4}' | filecheck %s --check-prefix=OTHER

// A product of few rows uses matrices if the target file has rates and the estimate is
// faster. With adjacent columns, a schedule of rows has too few subgroups to hide the latency
// of memory. K is split within the workgroup, not into parts that another kernel adds up.

// CHECK-LABEL: @one_along_k
// CHECK:         #schedule.rows<rows = 1
// OTHER-LABEL: @one_along_k
// OTHER:         #schedule.rows<rows = 1
func.func @one_along_k(%a: tensor<1x4096xf16>, %b: tensor<4096x4096xf16> {program.value = "b"}) -> tensor<1x4096xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x4096xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x4096xf32>) -> tensor<1x4096xf32>
  %r = linalg.matmul indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>] ins(%a, %b : tensor<1x4096xf16>, tensor<4096x4096xf16>) outs(%z : tensor<1x4096xf32>) -> tensor<1x4096xf32>
  func.return %r : tensor<1x4096xf32>
}

// CHECK-LABEL: @one_across_k
// CHECK:         #schedule.rows<rows = 1, columns = 4, lanes = 4, steps = 2, bytes = 8, subgroups = [32, 1]>
// OTHER-LABEL: @one_across_k
// OTHER:         #schedule.rows<rows = 1, columns = 8
func.func @one_across_k(%a: tensor<1x4096xf16>, %b: tensor<4096x4096xf16> {program.value = "b"}) -> tensor<1x4096xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x4096xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x4096xf32>) -> tensor<1x4096xf32>
  %r = linalg.matmul ins(%a, %b : tensor<1x4096xf16>, tensor<4096x4096xf16>) outs(%z : tensor<1x4096xf32>) -> tensor<1x4096xf32>
  func.return %r : tensor<1x4096xf32>
}

// CHECK-LABEL: @eight_across_k
// CHECK:         #schedule.contraction<workgroup_tile = [16, 16, 512], subgroups = [1, 1, 8]
// CHECK-NOT:     #schedule.loops
// OTHER-LABEL: @eight_across_k
// OTHER:         #schedule.rows<rows = 8
func.func @eight_across_k(%a: tensor<8x4096xf16>, %b: tensor<4096x4096xf16> {program.value = "b"}) -> tensor<8x4096xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x4096xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<8x4096xf32>) -> tensor<8x4096xf32>
  %r = linalg.matmul ins(%a, %b : tensor<8x4096xf16>, tensor<4096x4096xf16>) outs(%z : tensor<8x4096xf32>) -> tensor<8x4096xf32>
  func.return %r : tensor<8x4096xf32>
}
