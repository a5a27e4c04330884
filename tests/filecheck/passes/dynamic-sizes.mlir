// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-dispatches' | filecheck %s --check-prefix=FORM
// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-dispatches,assign-schedule{target=lavapipe barred="rows=*"}' | filecheck %s --check-prefix=ASSIGN
// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-dispatches,assign-schedule{target=lavapipe typical-size=4 barred="rows=*"}' | filecheck %s --check-prefix=SMALL
// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-dispatches,assign-schedule{target=lavapipe barred="rows=*"},outline-dispatches' | filecheck %s --check-prefix=OUTLINE
// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-dispatches,assign-schedule{target=lavapipe barred="rows=*"},outline-dispatches,contraction-to-cooperative-matrix' | filecheck %s --check-prefix=KERNEL
// RUN: xdsl-opt %s -p 'linalg-to-spirv{target=lavapipe barred="rows=*"}' | filecheck %s --check-prefix=SPIRV
// Dynamic sizes: a dispatch takes them from its operands, the host
// computes grids from them, and kernels read them as push constants.

// FORM: schedule.dispatch(%A, %B, %X)
// FORM-NEXT: ^bb0([[A:%.*]]: tensor<?x8xf16>, [[B:%.*]]: tensor<8x8xf16>, [[X:%.*]]: tensor<?x8xf32>):
// FORM: [[M:%.*]] = tensor.dim [[A]], {{%.*}} : tensor<?x8xf16>
// FORM: tensor.empty([[M]]) : tensor<?x8xf32>

// ASSIGN: #schedule.contraction<workgroup_tile = [16, 8, 8]
// SMALL: #schedule.contraction<workgroup_tile = [8, 8, 8]

// OUTLINE: [[M:%.*]] = tensor.dim %A, {{%.*}} : tensor<?x8xf16>
// OUTLINE: [[SUM:%.*]] = arith.addi [[M]], {{%.*}} : index
// OUTLINE: [[TILES:%.*]] = arith.divui [[SUM]], {{%.*}} : index
// OUTLINE: memref.alloc([[M]]) : memref<?x8xf32>
// OUTLINE: "gpu.launch_func"({{%.*}}, [[TILES]], {{%.*}}) <{kernel = @kernels::@matmul_Dx8x8,
// OUTLINE-NOT: gpu.known_grid_size

// KERNEL: schedule.flat_view %d : memref<?x8xf32, #spirv.storage_class<StorageBuffer>> to memref<?xf32, #spirv.storage_class<StorageBuffer>>
// KERNEL: [[M:%.*]] = memref.dim %a, {{%.*}} : memref<?x8xf16, #spirv.storage_class<StorageBuffer>>
// KERNEL: arith.cmpi ult, {{%.*}}, [[M]] : index

// SPIRV: spirv.GlobalVariable @matmul_Dx8x8_sizes {schedule.sizes = [array<i64: 0, 0>]} : !spirv.ptr<!spirv.struct<(i32 [0]), Block>, PushConstant>
// SPIRV: [[SIZES:%.*]] = spirv.mlir.addressof @matmul_Dx8x8_sizes
// SPIRV: [[PLACE:%.*]] = spirv.AccessChain [[SIZES]]
// SPIRV: [[M:%.*]] = spirv.Load "PushConstant" [[PLACE]] : i32
// SPIRV: spirv.ULessThan {{%.*}}, [[M]] : i32
func.func @main(%A: tensor<?x8xf16>, %B: tensor<8x8xf16>, %X: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %c0 = arith.constant 0 : index
  %m = tensor.dim %X, %c0 : tensor<?x8xf32>
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty(%m) : tensor<?x8xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<?x8xf32>) -> tensor<?x8xf32>
  %p = linalg.matmul ins(%A, %B : tensor<?x8xf16>, tensor<8x8xf16>) outs(%init : tensor<?x8xf32>) -> tensor<?x8xf32>
  %r = linalg.add ins(%p, %X : tensor<?x8xf32>, tensor<?x8xf32>) outs(%empty : tensor<?x8xf32>) -> tensor<?x8xf32>
  return %r : tensor<?x8xf32>
}
