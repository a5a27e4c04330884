// RUN: xdsl-opt %s -p 'loops-to-invocations' --verify-diagnostics --parsing-diagnostics --split-input-file | filecheck %s

// CHECK: loops-to-invocations: 'schedule.collective' in @f: workgroup = 12 is not a multiple of the subgroup size 8: use 16
builtin.module attributes {schedule.target = "lavapipe"} {
  "gpu.module"() <{sym_name = "kernels"}> ({
    "gpu.func"() <{function_type = (memref<4xf32, #spirv.storage_class<StorageBuffer>>) -> (), kernel}> ({
    ^bb0(%d: memref<4xf32, #spirv.storage_class<StorageBuffer>>):
      schedule.collective attributes {schedule = #schedule.loops<workgroup = 12, workgroups = 1, reduce = workgroup>} {
        %c = arith.constant 1.0 : f32
        linalg.fill ins(%c : f32) outs(%d : memref<4xf32, #spirv.storage_class<StorageBuffer>>)
      }
      "gpu.return"() : () -> ()
    }) {sym_name = "f", gpu.known_block_size = array<i32: 12, 1, 1>} : () -> ()
  }) : () -> ()
}

// -----

// CHECK: loops-to-invocations: 'linalg.generic' in @f: the operation reads %d, which its kernel also writes
builtin.module attributes {schedule.target = "lavapipe"} {
  "gpu.module"() <{sym_name = "kernels"}> ({
    "gpu.func"() <{function_type = (memref<4xf32, #spirv.storage_class<StorageBuffer>>) -> (), kernel}> ({
    ^bb0(%d: memref<4xf32, #spirv.storage_class<StorageBuffer>>):
      schedule.collective attributes {schedule = #schedule.loops<workgroup = 8, workgroups = 1>} {
        linalg.generic {indexing_maps = [affine_map<(i) -> (-i + 3)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%d : memref<4xf32, #spirv.storage_class<StorageBuffer>>) outs(%d : memref<4xf32, #spirv.storage_class<StorageBuffer>>) {
        ^bb0(%x: f32, %o: f32):
          linalg.yield %x : f32
        }
      }
      "gpu.return"() : () -> ()
    }) {sym_name = "f", gpu.known_block_size = array<i32: 8, 1, 1>} : () -> ()
  }) : () -> ()
}

// -----

// CHECK: loops-to-invocations: 'memref.alloc' (%t) in @f: the kernel reads a tensor that no operation has written: fill it first
builtin.module attributes {schedule.target = "lavapipe"} {
  "gpu.module"() <{sym_name = "kernels"}> ({
    "gpu.func"() <{function_type = (memref<4xf32, #spirv.storage_class<StorageBuffer>>) -> (), kernel}> ({
    ^bb0(%d: memref<4xf32, #spirv.storage_class<StorageBuffer>>):
      schedule.collective attributes {schedule = #schedule.loops<workgroup = 8, workgroups = 1>} {
        %t = memref.alloc() : memref<4xf32>
        linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%t : memref<4xf32>) outs(%d : memref<4xf32, #spirv.storage_class<StorageBuffer>>) {
        ^bb0(%x: f32, %o: f32):
          linalg.yield %x : f32
        }
      }
      "gpu.return"() : () -> ()
    }) {sym_name = "f", gpu.known_block_size = array<i32: 8, 1, 1>} : () -> ()
  }) : () -> ()
}

// -----

// CHECK: loops-to-invocations: 'schedule.collective' in @f: tile = 8 needs operands that are all contiguous along one loop, and results along another: remove tile from the schedule
builtin.module attributes {schedule.target = "lavapipe"} {
  "gpu.module"() <{sym_name = "kernels"}> ({
    "gpu.func"() <{function_type = (memref<4x5xf32, #spirv.storage_class<StorageBuffer>>, memref<4x5xf32, #spirv.storage_class<StorageBuffer>>) -> (), kernel}> ({
    ^bb0(%a: memref<4x5xf32, #spirv.storage_class<StorageBuffer>>, %d: memref<4x5xf32, #spirv.storage_class<StorageBuffer>>):
      schedule.collective attributes {schedule = #schedule.loops<workgroup = 64, workgroups = 1, tile = 8>} {
        linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%a : memref<4x5xf32, #spirv.storage_class<StorageBuffer>>) outs(%d : memref<4x5xf32, #spirv.storage_class<StorageBuffer>>) {
        ^bb0(%x: f32, %o: f32):
          linalg.yield %x : f32
        }
      }
      "gpu.return"() : () -> ()
    }) {sym_name = "f", gpu.known_block_size = array<i32: 64, 1, 1>} : () -> ()
  }) : () -> ()
}

// -----

// CHECK: workgroup = 24 is not rows = 4 times a power of two
builtin.module attributes {a = #schedule.loops<workgroup = 24, workgroups = 1, rows = 4, reduce = workgroup>} {}

// -----

// CHECK: workgroup = 24 does not divide a 8 by 8 tile into whole rows
builtin.module attributes {a = #schedule.loops<workgroup = 24, workgroups = 1, tile = 8>} {}
