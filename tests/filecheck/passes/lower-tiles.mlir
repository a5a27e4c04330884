// RUN: xdsl-opt %s -p 'lower-tiles{target=nvidia-h200 subgroups=2,1}' | filecheck %s
// RUN: xdsl-opt %s -p 'lower-tiles{target=webgpu subgroups=1,1}' | filecheck %s --check-prefix=FMA

// In a product, the loop carries matrices, elements outside are read as 0, and rows are divided between two subgroups.
// CHECK:      schedule.target = "nvidia-h200"
// CHECK:      memref.dim %a
// CHECK:      scf.for %at
// CHECK-SAME:   iter_args({{.*}}) -> (!spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>)
// CHECK:        spirv.KHR.CooperativeMatrixMulAdd
// CHECK:        scf.yield
// CHECK:      arith.maximumf
// CHECK:      scf.if
// CHECK-NEXT:   memref.store {{.*}} : memref<?xf16
// CHECK:      sym_name = "matmul", gpu.known_block_size = array<i32: 64, 1, 1>

// On a target without matrices, the elements of the product are in registers.
// FMA:        sym_name = "kernels"
// FMA-NOT:    coopmatrix
// FMA:        math.fma
// FMA:        sym_name = "matmul", gpu.known_block_size = array<i32: {{[0-9]+}}, 1, 1>

tile.program @matmul {
^bb0(%a: !tile.view<?x?xf16>, %b: !tile.view<?x?xf16>, %c: !tile.view<?x?xf16>):
  %i, %j = tile.place %c tile [32, 16] axes [0, 1] : !tile.view<?x?xf16> -> index, index
  %zero = arith.constant 0.0 : f32
  %z = tile.full %zero : f32 -> !tile.tile<32x16xf32>
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %k = tile.size %a 1 : !tile.view<?x?xf16>
  %sum = scf.for %at = %c0 to %k step %c16 iter_args(%acc = %z) -> (!tile.tile<32x16xf32>) {
    %x = tile.load %a[%i, %at] outside 0.0 : f16 : !tile.view<?x?xf16> -> !tile.tile<32x16xf16>
    %y = tile.load %b[%at, %j] outside 0.0 : f16 : !tile.view<?x?xf16> -> !tile.tile<16x16xf16>
    %s = tile.mma %x, %y, %acc : !tile.tile<32x16xf16>, !tile.tile<16x16xf16>, !tile.tile<32x16xf32> -> !tile.tile<32x16xf32>
    scf.yield %s : !tile.tile<32x16xf32>
  }
  %o = tile.map(%sum) : (!tile.tile<32x16xf32>) -> !tile.tile<32x16xf16> {
  ^bb1(%p: f32):
    %r = arith.maximumf %p, %zero : f32
    %h = arith.truncf %r : f32 to f16
    tile.yield %h : f16
  }
  tile.store %o, %c[%i, %j] clipped : !tile.tile<32x16xf16>, !tile.view<?x?xf16>
}
