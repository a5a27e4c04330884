// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-dispatches,assign-schedule{target=lavapipe},pack-operands,outline-dispatches,contraction-to-cooperative-matrix' | filecheck %s

// Two tiles are prefetched into registers. The tile in Workgroup memory is multiplied from preloaded fragments.
func.func @main(%A : tensor<16x64xi8>, %B : tensor<8x64xi8>) -> tensor<16x8xi32> {
  %z = arith.constant 0 : i32
  %e = tensor.empty() : tensor<16x8xi32>
  %f = linalg.fill ins(%z : i32) outs(%e : tensor<16x8xi32>) -> tensor<16x8xi32>
  %r = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%A, %B : tensor<16x64xi8>, tensor<8x64xi8>) outs(%f : tensor<16x8xi32>)
      attrs = {schedule = #schedule.contraction<workgroup_tile = [16, 8, 8], subgroups = [2, 1], instruction = coopmat 8x8x8, a = staged<padding = 8, vector = 8, buffers = 2, ahead = 1, layout = panels>, b = staged<padding = 8, vector = 8, buffers = 2, ahead = 1, layout = panels>, stages = 3, first = store>} {
  ^bb0(%a: i8, %b: i8, %c: i32):
    %x = arith.extsi %a : i8 to i32
    %y = arith.extsi %b : i8 to i32
    %p = arith.muli %x, %y : i32
    %s = arith.addi %c, %p : i32
    linalg.yield %s : i32
  } -> tensor<16x8xi32>
  func.return %r : tensor<16x8xi32>
}

// CHECK:      "gpu.func"() <{function_type = (memref<1x8x16x8xi8, #spirv.storage_class<StorageBuffer>>
// Before the loop: the first tile is in Workgroup memory, two more in registers, the first fragments are loaded.
// CHECK:      memref.store %{{.*}}, %a_tile_elements[
// CHECK:      memref.load %a_elements[
// CHECK:      memref.load %a_elements[
// CHECK:      "gpu.barrier"
// CHECK:      %[[A:[0-9]+]] = spirv.KHR.CooperativeMatrixLoad {{.*}} MatrixA>
// CHECK:      %[[B:[0-9]+]] = spirv.KHR.CooperativeMatrixLoad {{.*}} MatrixB>
// CHECK:      scf.for %k = {{.*}} iter_args(%[[TOTAL:[0-9]+]] = %zero, %[[A0:[0-9]+]] = %[[A]], %[[B0:[0-9]+]] = %[[B]], %[[WAITING:[0-9]+]] =
// CHECK:        memref.store %[[WAITING]], %a_tile_elements_1[
// CHECK:        memref.load %a_elements[
// CHECK:        "gpu.barrier"
// CHECK:        %[[A1:[0-9]+]] = spirv.KHR.CooperativeMatrixLoad
// CHECK:        %[[B1:[0-9]+]] = spirv.KHR.CooperativeMatrixLoad
// CHECK:        %[[SUM:[0-9]+]] = spirv.KHR.CooperativeMatrixMulAdd %[[A0]], %[[B0]], %[[TOTAL]]
// CHECK:        memref.store %{{.*}}, %a_tile_elements[
// CHECK:        "gpu.barrier"
// CHECK:        spirv.KHR.CooperativeMatrixMulAdd %[[A1]], %[[B1]], %[[SUM]]
