// RUN: xdsl-opt %s -p 'kernel-to-spirv' --verify-diagnostics --split-input-file | filecheck %s

// CHECK: kernel-to-spirv: 'arith.mulsi_extended' (%y, %z) in @f: kernels have no conversion of this operation to spirv: lower it first
"gpu.module"() <{sym_name = "kernels"}> ({
  "gpu.func"() <{function_type = () -> (), kernel}> ({
    %x = arith.constant 1 : i32
    %y, %z = arith.mulsi_extended %x, %x : i32
    "gpu.return"() : () -> ()
  }) {sym_name = "f", gpu.known_block_size = array<i32: 4, 1, 1>} : () -> ()
}) : () -> ()

// -----

// CHECK: 'gpu.func' in @kernels: the workgroup size is not known: add gpu.known_block_size
"gpu.module"() <{sym_name = "kernels"}> ({
  "gpu.func"() <{function_type = () -> (), kernel}> ({
    "gpu.return"() : () -> ()
  }) {sym_name = "f"} : () -> ()
}) : () -> ()

// -----

// CHECK: argument 0 must be a memref in #spirv.storage_class<StorageBuffer>, not memref<4xf32>
"gpu.module"() <{sym_name = "kernels"}> ({
  "gpu.func"() <{function_type = (memref<4xf32>) -> (), kernel}> ({
  ^bb0(%a: memref<4xf32>):
    "gpu.return"() : () -> ()
  }) {sym_name = "f", gpu.known_block_size = array<i32: 4, 1, 1>} : () -> ()
}) : () -> ()

// -----

// CHECK: memref<65536x65536xf16, #spirv.storage_class<StorageBuffer>> has 4294967296 elements: 32-bit indices allow at most 2147483647
"gpu.module"() <{sym_name = "kernels"}> ({
  "gpu.func"() <{function_type = (memref<65536x65536xf16, #spirv.storage_class<StorageBuffer>>) -> (), kernel}> ({
  ^bb0(%a: memref<65536x65536xf16, #spirv.storage_class<StorageBuffer>>):
    "gpu.return"() : () -> ()
  }) {sym_name = "f", gpu.known_block_size = array<i32: 4, 1, 1>} : () -> ()
}) : () -> ()

// -----

// CHECK: memref<?xf16, #spirv.storage_class<Workgroup>> has a dynamic shape: Workgroup memory needs a static one
"gpu.module"() <{sym_name = "kernels"}> ({
  "gpu.func"() <{function_type = (memref<?xf16, #spirv.storage_class<StorageBuffer>>) -> (), kernel}> ({
  ^bb0(%a: memref<?xf16, #spirv.storage_class<StorageBuffer>>):
    %c0 = arith.constant 0 : index
    %n = memref.dim %a, %c0 : memref<?xf16, #spirv.storage_class<StorageBuffer>>
    %w = memref.alloc(%n) : memref<?xf16, #spirv.storage_class<Workgroup>>
    "gpu.return"() : () -> ()
  }) {sym_name = "f", gpu.known_block_size = array<i32: 4, 1, 1>} : () -> ()
}) : () -> ()

// -----

// CHECK: memref<4xf16> is allocated in a kernel: use #spirv.storage_class<Workgroup>
"gpu.module"() <{sym_name = "kernels"}> ({
  "gpu.func"() <{function_type = () -> (), kernel}> ({
    %m = memref.alloc() : memref<4xf16>
    "gpu.return"() : () -> ()
  }) {sym_name = "f", gpu.known_block_size = array<i32: 4, 1, 1>} : () -> ()
}) : () -> ()

// -----

// CHECK: argument 0 is viewed as several element types
"gpu.module"() <{sym_name = "kernels"}> ({
  "gpu.func"() <{function_type = (memref<4x8xf16, #spirv.storage_class<StorageBuffer>>) -> (), kernel}> ({
  ^bb0(%a: memref<4x8xf16, #spirv.storage_class<StorageBuffer>>):
    %v = schedule.flat_view %a : memref<4x8xf16, #spirv.storage_class<StorageBuffer>> to memref<8xvector<4xf16>, #spirv.storage_class<StorageBuffer>>
    %w = schedule.flat_view %a : memref<4x8xf16, #spirv.storage_class<StorageBuffer>> to memref<16xvector<2xf16>, #spirv.storage_class<StorageBuffer>>
    "gpu.return"() : () -> ()
  }) {sym_name = "f", gpu.known_block_size = array<i32: 4, 1, 1>} : () -> ()
}) : () -> ()
