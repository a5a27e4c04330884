// RUN: xdsl-opt %s --verify-diagnostics --split-input-file | filecheck %s

// CHECK: the view of tensor<8x64xi8> at tensor<5xi32> cannot have type tensor<5x32xi8>
func.func @sizes(%w: tensor<8x64xi8>, %n: tensor<5xi32>) {
  %s = schedule.selected_view %w at %n : tensor<8x64xi8> at tensor<5xi32> to tensor<5x32xi8>
  func.return
}

// -----

// CHECK: the selected indices must be an array of integers, not tensor<5xf32>
func.func @numbers(%w: tensor<8x64xi8>, %n: tensor<5xf32>) {
  %s = schedule.selected_view %w at %n : tensor<8x64xi8> at tensor<5xf32> to tensor<5x64xi8>
  func.return
}
