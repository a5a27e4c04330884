// RUN: xdsl-opt %s -p 'linalg-to-contraction,assign-schedule,outline-dispatches' | filecheck %s
// A contraction becomes a launch and a kernel, and equal contractions share the kernel. An
// initial value other than a zero fill is an argument of the kernel, which adds it to the sums.

builtin.module attributes {schedule.target = "lavapipe"} {
  // CHECK: func.func @main(%a: tensor<40x24xf16>, %b: tensor<24x48xf16>, %c: tensor<40x48xf32>) -> (tensor<40x48xf32>, tensor<40x48xf32>, tensor<40x48xf32>) {
  func.func @main(%a: tensor<40x24xf16>, %b: tensor<24x48xf16>, %c: tensor<40x48xf32>) -> (tensor<40x48xf32>, tensor<40x48xf32>, tensor<40x48xf32>) {
    // CHECK-NOT: linalg
    // CHECK: [[A:%.*]] = bufferization.to_buffer %a : tensor<40x24xf16> to memref<40x24xf16>
    // CHECK-NEXT: [[B:%.*]] = bufferization.to_buffer %b : tensor<24x48xf16> to memref<24x48xf16>
    // CHECK-NEXT: [[D:%.*]] = memref.alloc() : memref<40x48xf32>
    // CHECK-NEXT: [[ONE:%.*]] = arith.constant 1 : index
    // CHECK-NEXT: [[TWO:%.*]] = arith.constant 2 : index
    // CHECK-NEXT: [[THREADS:%.*]] = arith.constant 32 : index
    // CHECK-NEXT: "gpu.launch_func"([[TWO]], [[TWO]], [[ONE]], [[THREADS]], [[ONE]], [[ONE]], [[A]], [[B]], [[D]]) <{kernel = @kernels::@matmul_40x48x24,
    // CHECK-NEXT: bufferization.to_tensor [[D]] restrict : memref<40x48xf32> to tensor<40x48xf32>
    %z = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<40x48xf32>
    %f = linalg.fill ins(%z : f32) outs(%e : tensor<40x48xf32>) -> tensor<40x48xf32>
    %0 = linalg.matmul ins(%a, %b : tensor<40x24xf16>, tensor<24x48xf16>) outs(%f : tensor<40x48xf32>) -> tensor<40x48xf32>
    // CHECK: kernel = @kernels::@matmul_40x48x24,
    %1 = linalg.matmul ins(%a, %b : tensor<40x24xf16>, tensor<24x48xf16>) outs(%f : tensor<40x48xf32>) -> tensor<40x48xf32>
    // CHECK: [[C:%.*]] = bufferization.to_buffer %c : tensor<40x48xf32> to memref<40x48xf32>
    // CHECK: kernel = @kernels::@matmul_40x48x24_1,
    %2 = linalg.matmul ins(%a, %b : tensor<40x24xf16>, tensor<24x48xf16>) outs(%c : tensor<40x48xf32>) -> tensor<40x48xf32>
    func.return %0, %1, %2 : tensor<40x48xf32>, tensor<40x48xf32>, tensor<40x48xf32>
  }
  // CHECK: "gpu.module"() <{sym_name = "kernels"}> ({
  // CHECK: ^bb0(%a: memref<40x24xf16, #spirv.storage_class<StorageBuffer>>, %b: memref<24x48xf16, #spirv.storage_class<StorageBuffer>>, %d: memref<40x48xf32, #spirv.storage_class<StorageBuffer>>):
  // CHECK-NEXT: schedule.collective {
  // CHECK-NEXT:   [[ZERO:%.*]] = arith.constant 0.000000e+00 : f32
  // CHECK-NEXT:   linalg.fill ins([[ZERO]] : f32) outs(%d : memref<40x48xf32, #spirv.storage_class<StorageBuffer>>)
  // CHECK-NEXT:   linalg.generic
  // CHECK-SAME:   attrs =  {schedule = #schedule.contraction<
  // CHECK: {sym_name = "matmul_40x48x24", gpu.known_block_size = array<i32: 32, 1, 1>, gpu.known_grid_size = array<i32: 2, 2, 1>}
  // CHECK:   linalg.generic {{.*}} ins([[AB:%.*]], %c : memref<40x48xf32>, memref<40x48xf32, #spirv.storage_class<StorageBuffer>>) outs(%d : memref<40x48xf32, #spirv.storage_class<StorageBuffer>>)
  // CHECK: {sym_name = "matmul_40x48x24_1",
  // CHECK-NOT: gpu.func
}
