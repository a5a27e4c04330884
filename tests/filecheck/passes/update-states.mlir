// RUN: xdsl-opt %s -p 'own-results,form-dispatches,update-states' --split-input-file | filecheck %s

// Each insertion writes into the state, and readers of the new value come after it.

// CHECK-LABEL: func.func @chain
// CHECK: schedule.dispatch(%a, %k) attributes {schedule.updates = array<i64: 1>}
// CHECK: schedule.dispatch(%b, %{{.*}}) attributes {schedule.updates = array<i64: 1>}
func.func @chain(%a: tensor<1x4xf32>, %b: tensor<1x4xf32>, %k: tensor<8x4xf32> {program.state = 1 : i64, program.value = dense<0.0> : tensor<8x4xf32>}) -> (tensor<1x4xf32>, tensor<8x4xf32>) {
  %k1 = tensor.insert_slice %a into %k[0, 0] [1, 4] [1, 1] : tensor<1x4xf32> into tensor<8x4xf32>
  %e = tensor.empty() : tensor<1x4xf32>
  %s = tensor.extract_slice %k1[3, 0] [1, 4] [1, 1] : tensor<8x4xf32> to tensor<1x4xf32>
  %x = linalg.exp ins(%s : tensor<1x4xf32>) outs(%e : tensor<1x4xf32>) -> tensor<1x4xf32>
  %k2 = tensor.insert_slice %b into %k1[1, 0] [1, 4] [1, 1] : tensor<1x4xf32> into tensor<8x4xf32>
  func.return %x, %k2 : tensor<1x4xf32>, tensor<8x4xf32>
}

// -----

// Insertions without a reader in between are one kernel, which also computes the inserted elements.

// CHECK-LABEL: func.func @insertions
// CHECK: schedule.dispatch(%a, %k, %i, %j) attributes {schedule.updates = array<i64: 1>}
// CHECK: math.exp
// CHECK-COUNT-2: tensor.insert_slice
// CHECK-NOT: schedule.dispatch
func.func @insertions(%a: tensor<2x4xf32>, %i: index, %j: index, %k: tensor<8x4xf32> {program.state = 0 : i64, program.value = dense<0.0> : tensor<8x4xf32>}) -> tensor<8x4xf32> {
  %e = tensor.empty() : tensor<2x4xf32>
  %x = linalg.exp ins(%a : tensor<2x4xf32>) outs(%e : tensor<2x4xf32>) -> tensor<2x4xf32>
  %s = tensor.extract_slice %x[0, 0] [1, 4] [1, 1] : tensor<2x4xf32> to tensor<1x4xf32>
  %t = tensor.extract_slice %x[1, 0] [1, 4] [1, 1] : tensor<2x4xf32> to tensor<1x4xf32>
  %k1 = tensor.insert_slice %s into %k[%i, 0] [1, 4] [1, 1] : tensor<1x4xf32> into tensor<8x4xf32>
  %k2 = tensor.insert_slice %t into %k1[%j, 0] [1, 4] [1, 1] : tensor<1x4xf32> into tensor<8x4xf32>
  func.return %k2 : tensor<8x4xf32>
}

// -----

// The old value is a result, too, so the new value is computed elsewhere and copied afterwards.

// CHECK-LABEL: func.func @old_value_is_read
// CHECK: %[[NEW:.*]] = schedule.dispatch(%a, %k) :
// CHECK: %[[OLD:.*]] = schedule.dispatch(%k) :
// CHECK: %[[STATE:.*]] = schedule.dispatch(%[[NEW]], %k) attributes {schedule.updates = array<i64: 1>}
// CHECK: func.return %[[OLD]], %[[STATE]]
func.func @old_value_is_read(%a: tensor<1x4xf32>, %k: tensor<8x4xf32> {program.state = 1 : i64, program.value = dense<0.0> : tensor<8x4xf32>}) -> (tensor<8x4xf32>, tensor<8x4xf32>) {
  %k1 = tensor.insert_slice %a into %k[0, 0] [1, 4] [1, 1] : tensor<1x4xf32> into tensor<8x4xf32>
  func.return %k, %k1 : tensor<8x4xf32>, tensor<8x4xf32>
}

// -----

// The inserted value comes from the state itself.

// CHECK-LABEL: func.func @shifted
// CHECK: %[[NEW:.*]] = schedule.dispatch(%k) :
// CHECK: schedule.dispatch(%[[NEW]], %k) attributes {schedule.updates = array<i64: 1>}
func.func @shifted(%k: tensor<8x4xf32> {program.state = 0 : i64, program.value = dense<0.0> : tensor<8x4xf32>}) -> tensor<8x4xf32> {
  %s = tensor.extract_slice %k[1, 0] [7, 4] [1, 1] : tensor<8x4xf32> to tensor<7x4xf32>
  %k1 = tensor.insert_slice %s into %k[0, 0] [7, 4] [1, 1] : tensor<7x4xf32> into tensor<8x4xf32>
  func.return %k1 : tensor<8x4xf32>
}

// -----

// Two states are exchanged.

// CHECK-LABEL: func.func @swapped
// CHECK-COUNT-2: schedule.dispatch({{.*}}) :
// CHECK-COUNT-2: schedule.updates = array<i64: 1>
func.func @swapped(%a: tensor<4xf32> {program.state = 1 : i64, program.value = dense<0.0> : tensor<4xf32>}, %b: tensor<4xf32> {program.state = 0 : i64, program.value = dense<0.0> : tensor<4xf32>}) -> (tensor<4xf32>, tensor<4xf32>) {
  func.return %a, %b : tensor<4xf32>, tensor<4xf32>
}
