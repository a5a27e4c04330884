// RUN: xdsl-opt %s -t 'spirv-run{values=iota grid=2x1x1 length=8 subgroup-size=4 checks=all}' | filecheck %s
// RUN: xdsl-opt %s -p 'spirv-update-vce' -t 'spirv-run{values=iota grid=2x1x1 length=8 subgroup-size=4}' | filecheck %s

// A module without a host function runs its entry points on the buffers that its variables declare.

!block = !spirv.struct<(!spirv.rtarray<i32, stride=4> [0]), Block>

spirv.module Logical Vulkan {
  spirv.GlobalVariable @in bind(0, 0) : !spirv.ptr<!block, StorageBuffer>
  spirv.GlobalVariable @out bind(0, 1) : !spirv.ptr<!block, StorageBuffer>
  spirv.GlobalVariable @id built_in("GlobalInvocationId") : !spirv.ptr<vector<3xi32>, Input>
  spirv.func @main() "None" {
    %zero = spirv.Constant 0 : i32
    %ids = spirv.mlir.addressof @id : !spirv.ptr<vector<3xi32>, Input>
    %all = spirv.Load "Input" %ids : vector<3xi32>
    %i = spirv.CompositeExtract %all[0 : i32] : vector<3xi32>
    %in = spirv.mlir.addressof @in : !spirv.ptr<!block, StorageBuffer>
    %from = spirv.AccessChain %in[%zero, %i] : !spirv.ptr<!block, StorageBuffer>, i32, i32 -> !spirv.ptr<i32, StorageBuffer>
    %x = spirv.Load "StorageBuffer" %from : i32
    %y = spirv.IMul %x, %x : i32
    %out = spirv.mlir.addressof @out : !spirv.ptr<!block, StorageBuffer>
    %to = spirv.AccessChain %out[%zero, %i] : !spirv.ptr<!block, StorageBuffer>, i32, i32 -> !spirv.ptr<i32, StorageBuffer>
    spirv.Store "StorageBuffer" %to, %y : i32
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main, @id
  spirv.ExecutionMode @main "LocalSize", 4, 1, 1
}

// CHECK: @in: 8xint32
// CHECK-NEXT: [0, 1, 2, 3, 4, 5, 6, 7]
// CHECK-NEXT: @out: 8xint32
// CHECK-NEXT: [ 0,  1,  4,  9, 16, 25, 36, 49]
