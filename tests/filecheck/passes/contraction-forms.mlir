// RUN: xdsl-opt %s -p 'linalg-to-contraction,assign-schedule{target=lavapipe},outline-dispatches' --split-input-file | filecheck %s
// RUN: xdsl-opt %s -p 'linalg-to-contraction,assign-schedule{target=lavapipe},outline-dispatches,contraction-to-cooperative-matrix' --split-input-file | filecheck %s --check-prefix=KERNEL
// Loops are sorted into batch, M, N and K, whatever their order. A padding with zeros is fused.

// A convolution with channels last: M is the pixels, N the filters, K the windows and channels.
func.func @main(%a: tensor<1x6x7x8xf16>, %f: tensor<3x3x8x16xf16>) -> tensor<1x6x7x16xf32> {
  %z = arith.constant 0.0 : f16
  %p = tensor.pad %a low[0, 1, 1, 0] high[0, 1, 1, 0] {
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %z : f16
  } : tensor<1x6x7x8xf16> to tensor<1x8x9x8xf16>
  %c = arith.constant dense<0.0> : tensor<1x6x7x16xf32>
  %r = linalg.conv_2d_nhwc_hwcf ins(%p, %f : tensor<1x8x9x8xf16>, tensor<3x3x8x16xf16>) outs(%c : tensor<1x6x7x16xf32>) -> tensor<1x6x7x16xf32>
  return %r : tensor<1x6x7x16xf32>
}
// CHECK-NOT: tensor.pad
// CHECK: gpu.launch_func
// CHECK-SAME: @convolution_42x16x72
// CHECK: [[P:%.*]] = schedule.padded_view %a low = [0, 1, 1, 0] high = [0, 1, 1, 0] : memref<1x6x7x8xf16, #spirv.storage_class<StorageBuffer>> to memref<1x8x9x8xf16, #spirv.storage_class<StorageBuffer>>
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, (d1 + d4), (d2 + d5), d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d4, d5, d6, d3)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins([[P]], %b :

// The input is loaded as 4 words of 8 channels. Each load checks if its pixel is inside.
// KERNEL: %a_elements = schedule.flat_view %a : memref<1x6x7x8xf16, #spirv.storage_class<StorageBuffer>> to memref<42xvector<4xi32>, #spirv.storage_class<StorageBuffer>>
// KERNEL: scf.for %k
// KERNEL: arith.cmpi ult, %{{.*}}, %{{.*}} : index
// KERNEL: arith.cmpi ult, %{{.*}}, %{{.*}} : index
// KERNEL: [[INSIDE:%.*]] = arith.andi %{{.*}}, %{{.*}} : i1
// KERNEL: [[AT:%.*]] = arith.select [[INSIDE]], %{{.*}}, %{{.*}} : index
// KERNEL: memref.load %a_elements[[[AT]]]

// -----

// A convolution with channels first: the result's last dimension is the pixels, so the filter is A.
func.func @main(%a: tensor<1x8x6x8xf16>, %f: tensor<16x8x3x3xf16>, %c: tensor<1x16x4x6xf32>) -> tensor<1x16x4x6xf32> {
  %r = linalg.conv_2d_nchw_fchw ins(%a, %f : tensor<1x8x6x8xf16>, tensor<16x8x3x3xf16>) outs(%c : tensor<1x16x4x6xf32>) -> tensor<1x16x4x6xf32>
  return %r : tensor<1x16x4x6xf32>
}
// CHECK: @convolution_16x24x72
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d4, d5, d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d1, d4, (d2 + d5), (d3 + d6))>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d1, d0, d2, d3)>]

// -----

// A batch is the third dimension of the grid.
func.func @main(%a: tensor<5x16x8xf16>, %b: tensor<5x8x16xf16>, %c: tensor<5x16x16xf32>) -> tensor<5x16x16xf32> {
  %r = linalg.batch_matmul ins(%a, %b : tensor<5x16x8xf16>, tensor<5x8x16xf16>) outs(%c : tensor<5x16x16xf32>) -> tensor<5x16x16xf32>
  return %r : tensor<5x16x16xf32>
}
// CHECK: @batch_matmul_5x16x16x8
// KERNEL: %batch = "gpu.block_id"() <{dimension = #gpu<dim z>}>

// -----

// A depthwise convolution is a batch of channels.
func.func @main(%a: tensor<1x6x8xf16>, %b: tensor<3x8xf16>, %c: tensor<1x4x8xf32>) -> tensor<1x4x8xf32> {
  %r = linalg.depthwise_conv_1d_nwc_wc ins(%a, %b : tensor<1x6x8xf16>, tensor<3x8xf16>) outs(%c : tensor<1x4x8xf32>) -> tensor<1x4x8xf32>
  return %r : tensor<1x4x8xf32>
}
// CHECK: @batch_convolution_8x1x4x3

// -----

// A dot product has only K.
func.func @main(%a: tensor<40xf16>, %b: tensor<40xf16>, %c: tensor<f32>) -> tensor<f32> {
  %r = linalg.dot ins(%a, %b : tensor<40xf16>, tensor<40xf16>) outs(%c : tensor<f32>) -> tensor<f32>
  return %r : tensor<f32>
}
// CHECK: @matmul_1x1x40
