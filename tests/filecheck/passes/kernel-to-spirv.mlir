// RUN: xdsl-opt %s -p 'kernel-to-spirv' | filecheck %s
// A target may request that loops are not unrolled.
// RUN: sed '1i builtin.module attributes {schedule.target = "lavapipe"} {' %s > %t.mlir
// RUN: echo '}' >> %t.mlir
// RUN: xdsl-opt %t.mlir -p 'kernel-to-spirv' | filecheck %s --check-prefix=KEPT
// KEPT: spirv.mlir.loop control(DontUnroll) -> f16 {
// RUN: xdsl-opt %s -p 'kernel-to-spirv,spirv-update-vce' | filecheck %s --check-prefix=VCE
// Arguments become storage buffers in set 0, with bindings in order. Arguments that are
// only read are NonWritable. An argument that is viewed as vectors is an array of vectors.

// CHECK: spirv.module @kernels Logical Vulkan {
// VCE: spirv.module @kernels Logical Vulkan requires #spirv.vce<v1.6, [Shader,
// CHECK-NEXT: spirv.GlobalVariable @__builtin__LocalInvocationId__ built_in("LocalInvocationId") : !spirv.ptr<vector<3xi32>, Input>
// CHECK-NEXT: spirv.GlobalVariable @copy_arg_0 bind(0, 0) : !spirv.ptr<!spirv.struct<(!spirv.rtarray<vector<4xf16>, stride=8> [0, NonWritable]), Block>, StorageBuffer>
// CHECK-NEXT: spirv.GlobalVariable @copy_arg_1 bind(0, 1) : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0]), Block>, StorageBuffer>
// CHECK-NEXT: spirv.GlobalVariable @copy_workgroup_0 : !spirv.ptr<!spirv.array<32 x f16>, Workgroup>
// CHECK-NEXT: spirv.func @copy() "None" {
"gpu.module"() <{sym_name = "kernels"}> ({
  "gpu.func"() <{function_type = (memref<4x8xf16, #spirv.storage_class<StorageBuffer>>, memref<4x8xf16, #spirv.storage_class<StorageBuffer>>) -> (), kernel}> ({
  ^bb0(%a: memref<4x8xf16, #spirv.storage_class<StorageBuffer>>, %d: memref<4x8xf16, #spirv.storage_class<StorageBuffer>>):
    %t = "gpu.thread_id"() <{dimension = #gpu<dim x>}> : () -> index
    %v = schedule.flat_view %a : memref<4x8xf16, #spirv.storage_class<StorageBuffer>> to memref<8xvector<4xf16>, #spirv.storage_class<StorageBuffer>>
    %m = memref.alloc() : memref<4x8xf16, #spirv.storage_class<Workgroup>>
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c8 = arith.constant 8 : index
    // CHECK-DAG: [[A:%.*]] = spirv.mlir.addressof @copy_arg_0
    // CHECK-DAG: [[D:%.*]] = spirv.mlir.addressof @copy_arg_1
    // CHECK-DAG: [[IDS:%.*]] = spirv.Load "Input" %{{.*}} : vector<3xi32>
    // CHECK-DAG: %t = spirv.CompositeExtract [[IDS]][0 : i32] : vector<3xi32>
    // CHECK-DAG: [[M:%.*]] = spirv.mlir.addressof @copy_workgroup_0
    // CHECK-DAG: [[C0:%.*]] = spirv.Constant 0 : i32
    // CHECK-DAG: [[C1:%.*]] = spirv.Constant 1 : i32
    // CHECK-DAG: [[C2:%.*]] = spirv.Constant 2 : i32
    // CHECK-DAG: [[C8:%.*]] = spirv.Constant 8 : i32
    %x = memref.load %v[%t] : memref<8xvector<4xf16>, #spirv.storage_class<StorageBuffer>>
    // CHECK:      [[P:%.*]] = spirv.AccessChain [[A]][[[C0]], %t]
    // CHECK-NEXT: %{{.*}} = spirv.Load "StorageBuffer" [[P]] : vector<4xf16>
    %s = arith.constant 1.0 : f16
    memref.store %s, %m[%c0, %t] : memref<4x8xf16, #spirv.storage_class<Workgroup>>
    // CHECK:      spirv.Store "Workgroup" %{{.*}}, %{{.*}} ["NonPrivatePointer"] : f16
    "gpu.barrier"() : () -> ()
    // CHECK-NEXT: spirv.ControlBarrier <Workgroup>, <Workgroup>, <AcquireRelease|WorkgroupMemory|MakeAvailable|MakeVisible>
    %sum = scf.for %i = %c0 to %c8 step %c2 iter_args(%acc = %s) -> (f16) {
      %y = memref.load %m[%c1, %i] : memref<4x8xf16, #spirv.storage_class<Workgroup>>
      %n = arith.addf %acc, %y : f16
      scf.yield %n : f16
    }
    // CHECK:      %sum = spirv.mlir.loop -> f16 {
    // CHECK-NEXT:   spirv.Branch ^[[HEADER:.*]]([[C0]], %s : i32, f16)
    // CHECK-NEXT: ^[[HEADER]](%{{.*}}: i32, [[ACC:%.*]]: f16):
    // CHECK-NEXT:   [[MORE:%.*]] = spirv.SLessThan %{{.*}}, [[C8]] : i32
    // CHECK-NEXT:   spirv.BranchConditional [[MORE]], ^[[BODY:.*]], ^[[MERGE:.*]]
    // CHECK-NEXT: ^[[BODY]]:
    // CHECK:        [[ROW:%.*]] = spirv.IMul %{{.*}}, [[C8]] : i32
    // CHECK-NEXT:   [[AT:%.*]] = spirv.IAdd [[ROW]], %{{.*}} : i32
    // CHECK-NEXT:   [[Q:%.*]] = spirv.AccessChain [[M]][[[AT]]]
    // CHECK-NEXT:   [[Y:%.*]] = spirv.Load "Workgroup" %{{.*}} ["NonPrivatePointer"] : f16
    // CHECK-NEXT:   %n = spirv.FAdd [[ACC]], [[Y]] : f16
    // CHECK-NEXT:   spirv.Branch ^[[BACK:.*]]
    // CHECK-NEXT: ^[[BACK]]:
    // CHECK-NEXT:   [[NEXT:%.*]] = spirv.IAdd %{{.*}}, [[C2]] : i32
    // CHECK-NEXT:   spirv.Branch ^[[HEADER]]([[NEXT]], %n : i32, f16)
    // CHECK-NEXT: ^[[MERGE]]:
    // CHECK-NEXT:   spirv.mlir.merge [[ACC]] : f16
    // CHECK-NEXT: }
    %first = arith.cmpi ult, %t, %c8 : index
    %r = scf.if %first -> (f16) {
      scf.yield %sum : f16
    } else {
      scf.yield %s : f16
    }
    // CHECK-NEXT: %first = spirv.ULessThan %t, [[C8]] : i32
    // CHECK-NEXT: %r = spirv.mlir.selection -> f16 {
    // CHECK-NEXT:   spirv.BranchConditional %first, ^[[THEN:.*]], ^[[ELSE:.*]]
    // CHECK-NEXT: ^[[THEN]]:
    // CHECK-NEXT:   spirv.Branch ^[[JOIN:.*]](%sum : f16)
    // CHECK-NEXT: ^[[ELSE]]:
    // CHECK-NEXT:   spirv.Branch ^[[JOIN]](%s : f16)
    // CHECK-NEXT: ^[[JOIN]]([[R:%.*]]: f16):
    // CHECK-NEXT:   spirv.mlir.merge [[R]] : f16
    // CHECK-NEXT: }
    scf.if %first {
      memref.store %r, %d[%c0, %t] : memref<4x8xf16, #spirv.storage_class<StorageBuffer>>
    }
    // CHECK-NEXT: spirv.mlir.selection {
    // CHECK-NEXT:   spirv.BranchConditional %first, ^[[THEN:.*]], ^[[JOIN:.*]]
    // CHECK:        spirv.Store "StorageBuffer" %{{.*}}, %r : f16
    "gpu.return"() : () -> ()
    // CHECK:      spirv.Return
  }) {sym_name = "copy", gpu.known_block_size = array<i32: 4, 1, 1>} : () -> ()
}) : () -> ()
// CHECK: spirv.EntryPoint "GLCompute" @copy, @copy_arg_0, @copy_arg_1, @__builtin__LocalInvocationId__, @copy_workgroup_0
// CHECK-NEXT: spirv.ExecutionMode @copy "LocalSize", 4, 1, 1
