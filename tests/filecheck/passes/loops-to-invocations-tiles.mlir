// RUN: xdsl-opt %s -p 'loops-to-invocations' | filecheck %s

// An operand that is contiguous along %i is read along %i, and stored along
// %j, through a square in Workgroup memory with one column of padding.
// CHECK:         %tile = memref.alloc() : memref<72xf32, #spirv.storage_class<Workgroup>>
// CHECK:         arith.remui %invocation
// CHECK:         "gpu.barrier"
// CHECK:         %[[X:.*]] = memref.load %a_elements[
// CHECK:         memref.store %[[X]], %tile[
// CHECK:         "gpu.barrier"
// CHECK:         %[[Y:.*]] = memref.load %tile[
// CHECK:         scf.if
// CHECK-NEXT:      memref.store %[[Y]], %d_elements[
builtin.module attributes {schedule.target = "lavapipe"} {
  "gpu.module"() <{sym_name = "kernels"}> ({
    "gpu.func"() <{function_type = (memref<9x10xf32, #spirv.storage_class<StorageBuffer>>, memref<10x9xf32, #spirv.storage_class<StorageBuffer>>) -> (), kernel}> ({
    ^bb0(%a: memref<9x10xf32, #spirv.storage_class<StorageBuffer>>, %d: memref<10x9xf32, #spirv.storage_class<StorageBuffer>>):
      schedule.collective attributes {schedule = #schedule.loops<workgroup = 64, workgroups = 4, tile = 8, reduce = invocation>} {
        linalg.generic {indexing_maps = [affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%a : memref<9x10xf32, #spirv.storage_class<StorageBuffer>>) outs(%d : memref<10x9xf32, #spirv.storage_class<StorageBuffer>>) {
        ^bb0(%x: f32, %o: f32):
          linalg.yield %x : f32
        }
      }
      "gpu.return"() : () -> ()
    }) {sym_name = "transposes", gpu.known_block_size = array<i32: 64, 1, 1>, gpu.known_grid_size = array<i32: 4, 1, 1>} : () -> ()
  }) : () -> ()
}
