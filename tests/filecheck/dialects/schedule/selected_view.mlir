// RUN: xdsl-opt %s | xdsl-opt | filecheck %s

// CHECK: schedule.selected_view %w at %n : tensor<8x64xi8> at tensor<5xi32> to tensor<5x64xi8>
func.func @on_tensors(%w: tensor<8x64xi8>, %n: tensor<5xi32>) -> tensor<5x64xi8> {
  %s = schedule.selected_view %w at %n : tensor<8x64xi8> at tensor<5xi32> to tensor<5x64xi8>
  func.return %s : tensor<5x64xi8>
}

// CHECK: schedule.selected_view %w at %n : memref<8x64xi8> at memref<?xi32> to memref<?x64xi8>
func.func @on_memrefs(%w: memref<8x64xi8>, %n: memref<?xi32>) {
  %s = schedule.selected_view %w at %n : memref<8x64xi8> at memref<?xi32> to memref<?x64xi8>
  func.return
}

// CHECK: schedule.selected_view %w at %n : tensor<8x64xi8> at tensor<2x5xi32> to tensor<2x5x64xi8>
func.func @at_an_array(%w: tensor<8x64xi8>, %n: tensor<2x5xi32>) -> tensor<2x5x64xi8> {
  %s = schedule.selected_view %w at %n : tensor<8x64xi8> at tensor<2x5xi32> to tensor<2x5x64xi8>
  func.return %s : tensor<2x5x64xi8>
}
