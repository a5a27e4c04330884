// RUN: xdsl-opt %s -p contraction-to-rotate | filecheck %s
// RUN: xdsl-opt %s -p contraction-to-rotate,kernel-to-spirv,spirv-update-vce | filecheck %s --check-prefix=SPIRV
// RUN: sed -e 's/%w\b/%0/g' -e 's/%x\b/%1/g' %s > %t.mlir
// RUN: xdsl-opt %t.mlir -p contraction-to-rotate | filecheck %s --check-prefix=NAMELESS

// A row is loaded twice, the second time at an offset of one subgroup. Windows are rotated out of both loads.

// CHECK:      %[[COLUMN:\w+]] = arith.addi %{{\w+}}, %lane : index
// CHECK:      %[[AT:\w+]] = arith.addi %[[COLUMN]], %{{\w+}} : index
// CHECK-NEXT: %[[NEAR:\w+]] = memref.load %x_elements[%[[AT]]] : memref<36xf32
// CHECK:      %[[INSIDE:\w+]] = arith.cmpi ult
// CHECK:      %[[READ:\w+]] = memref.load %x_elements
// CHECK-NEXT: %[[FAR:\w+]] = arith.select %[[INSIDE]], %[[READ]], %{{\w+}} : f32
// CHECK:      %[[SUM:\w+]] = math.fma %[[NEAR]], %{{\w+}}, %{{\w+}} : f32
// CHECK:      %[[TURNED:\w+]] = arith.select %{{\w+}}, %[[FAR]], %[[NEAR]] : f32
// CHECK-NEXT: %[[ONE:\w+]] = spirv.GroupNonUniformRotateKHR <Subgroup> %[[TURNED]], %{{\w+}} : f32, i32 -> f32
// CHECK:      %[[SUM_1:\w+]] = math.fma %[[ONE]], %{{\w+}}, %[[SUM]] : f32
// CHECK:      spirv.GroupNonUniformRotateKHR
// CHECK-NOT:  spirv.GroupNonUniformRotateKHR
// CHECK:      memref.store %{{\w+}}, %d_elements

// SPIRV: #spirv.vce<v1.6, [Shader, VulkanMemoryModel, GroupNonUniformRotateKHR], [SPV_KHR_subgroup_rotate]>
// SPIRV: spirv.GroupNonUniformRotateKHR <Subgroup>

// Views of buffers without names are called `operand`.

// NAMELESS:      %operand_elements = schedule.flat_view
// NAMELESS-NEXT: %operand_elements_1 = schedule.flat_view

builtin.module attributes {schedule.target = "lavapipe"} {
  "gpu.module"() <{sym_name = "kernels"}> ({
    "gpu.func"() <{function_type = (memref<2x3xf32, #spirv.storage_class<StorageBuffer>>, memref<2x18xf32, #spirv.storage_class<StorageBuffer>>, memref<2x16xf32, #spirv.storage_class<StorageBuffer>>) -> (), kernel}> ({
    ^bb0(%w: memref<2x3xf32, #spirv.storage_class<StorageBuffer>>, %x: memref<2x18xf32, #spirv.storage_class<StorageBuffer>>, %d: memref<2x16xf32, #spirv.storage_class<StorageBuffer>>):
      schedule.collective {
        %z = arith.constant 0.000000e+00 : f32
        linalg.fill ins(%z : f32) outs(%d : memref<2x16xf32, #spirv.storage_class<StorageBuffer>>)
        linalg.generic {indexing_maps = [affine_map<(c, j, k) -> (c, k)>, affine_map<(c, j, k) -> (c, j + k)>, affine_map<(c, j, k) -> (c, j)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%w, %x : memref<2x3xf32, #spirv.storage_class<StorageBuffer>>, memref<2x18xf32, #spirv.storage_class<StorageBuffer>>) outs(%d : memref<2x16xf32, #spirv.storage_class<StorageBuffer>>) attrs = {schedule = #schedule.window<outputs = 1, subgroups = 1>} {
        ^bb0(%p: f32, %q: f32, %acc: f32):
          %m = arith.mulf %p, %q : f32
          %s = arith.addf %acc, %m : f32
          linalg.yield %s : f32
        }
      }
      "gpu.return"() : () -> ()
    }) {sym_name = "convolution_2x1x16x3", gpu.known_block_size = array<i32: 8, 1, 1>, gpu.known_grid_size = array<i32: 4, 1, 1>} : () -> ()
  }) : () -> ()
}
