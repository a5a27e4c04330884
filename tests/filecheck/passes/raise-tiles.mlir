// RUN: xdsl-opt %s -p 'raise-tiles' | filecheck %s

// CHECK:      func.func @product(%{{.*}}: tensor<40x24xi8>, %{{.*}}: tensor<24x36xi8>) -> tensor<40x36xi32> {
// CHECK:      linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "reduction"]
// CHECK:      arith.muli
// CHECK-NEXT: arith.addi
// CHECK-NOT:  tile.
tile.program @product {
^bb0(%a: !tile.view<40x24xi8>, %b: !tile.view<24x36xi8>, %c: !tile.view<40x36xi32>):
  %i, %j = tile.place %c tile [16, 16] axes [0, 1] : !tile.view<40x36xi32> -> index, index
  %zero = arith.constant 0 : i32
  %z = tile.full %zero : i32 -> !tile.tile<16x16xi32>
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %k = tile.size %a 1 : !tile.view<40x24xi8>
  %sum = scf.for %at = %c0 to %k step %c16 iter_args(%acc = %z) -> (!tile.tile<16x16xi32>) {
    %x = tile.load %a[%i, %at] outside 0 : i8 : !tile.view<40x24xi8> -> !tile.tile<16x16xi8>
    %y = tile.load %b[%at, %j] outside 0 : i8 : !tile.view<24x36xi8> -> !tile.tile<16x16xi8>
    %s = tile.mma %x, %y, %acc : !tile.tile<16x16xi8>, !tile.tile<16x16xi8>, !tile.tile<16x16xi32> -> !tile.tile<16x16xi32>
    scf.yield %s : !tile.tile<16x16xi32>
  }
  tile.store %sum, %c[%i, %j] clipped : !tile.tile<16x16xi32>, !tile.view<40x36xi32>
}
