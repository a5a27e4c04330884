// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-dispatches,assign-schedule,outline-dispatches,contraction-to-cooperative-matrix,contraction-to-fma' --split-input-file | filecheck %s

// Without matrices, invocations add the bias and the residual in registers. The
// row is loaded as a vector, and the result is stored once, in its own type.
builtin.module attributes {schedule.target = "lavapipe"} {
  // CHECK: gpu.launch_func
  // CHECK-NOT: gpu.launch_func
  func.func @main(%a: tensor<8x4xf32>, %b: tensor<4x8xf32>, %bias: tensor<8xf32>, %skip: tensor<8x8xf32>) -> tensor<8x8xf16> {
    %z = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<8x8xf32>
    %f = linalg.fill ins(%z : f32) outs(%e : tensor<8x8xf32>) -> tensor<8x8xf32>
    %0 = linalg.matmul {schedule = #schedule.contraction<workgroup_tile = [8, 8, 4], subgroups = [1, 1], instruction = fma 2x4x4, a = staged<vector = 4>, b = staged<vector = 4>>} ins(%a, %b : tensor<8x4xf32>, tensor<4x8xf32>) outs(%f : tensor<8x8xf32>) -> tensor<8x8xf32>
    %er = tensor.empty() : tensor<8x8xf16>
    %1 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%0, %bias, %skip : tensor<8x8xf32>, tensor<8xf32>, tensor<8x8xf32>) outs(%er : tensor<8x8xf16>) {
    ^bb0(%x: f32, %y: f32, %s: f32, %o: f16):
      %t = arith.addf %x, %y : f32
      %u = arith.addf %t, %s : f32
      %v = arith.truncf %u : f32 to f16
      linalg.yield %v : f16
    } -> tensor<8x8xf16>
    func.return %1 : tensor<8x8xf16>
  }
}
// CHECK: %bias_elements = schedule.flat_view %bias : memref<8xf32, #spirv.storage_class<StorageBuffer>> to memref<2xvector<4xf32>
// CHECK: %skip_elements = schedule.flat_view %skip : memref<8x8xf32, #spirv.storage_class<StorageBuffer>> to memref<16xvector<4xf32>
// CHECK: math.fma
// CHECK: memref.load %bias_elements
// CHECK: memref.load %skip_elements
// CHECK: arith.addf
// CHECK-NEXT: arith.addf
// CHECK-NEXT: arith.truncf
// CHECK-NOT: memref.load %bias_elements
// CHECK: memref.store %{{.*}}, %d_elements[%{{.*}}] : memref<16xvector<4xf16>
// CHECK: "gpu.return"

// -----

// Fragments pass through Workgroup memory if the result has no matrix with
// the same positions of components. The accumulators are stored nowhere else.
builtin.module attributes {schedule.target = "lavapipe"} {
  func.func @main(%a: tensor<8x8xf16>, %b: tensor<8x8xf16>) -> tensor<8x8xi32> {
    %z = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<8x8xf32>
    %d = tensor.empty() : tensor<8x8xi32>
    %f = linalg.fill ins(%z : f32) outs(%e : tensor<8x8xf32>) -> tensor<8x8xf32>
    %0 = linalg.matmul {schedule = #schedule.contraction<workgroup_tile = [8, 8, 8], subgroups = [1, 1], instruction = coopmat 8x8x8, a = staged<vector = 8>, b = staged<vector = 8>>} ins(%a, %b : tensor<8x8xf16>, tensor<8x8xf16>) outs(%f : tensor<8x8xf32>) -> tensor<8x8xf32>
    %1 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%0 : tensor<8x8xf32>) outs(%d : tensor<8x8xi32>) {
    ^bb0(%x: f32, %o: i32):
      %t = math.tanh %x : f32
      %v = arith.fptosi %t : f32 to i32
      linalg.yield %v : i32
    } -> tensor<8x8xi32>
    func.return %1 : tensor<8x8xi32>
  }
}
// CHECK: %scratch = memref.alloc() : memref<8x8xf32, #spirv.storage_class<Workgroup>>
// CHECK: spirv.KHR.CooperativeMatrixStore %{{.*}}, %{{.*}}, %{{.*}}, <RowMajor>, <NonPrivatePointer> : !spirv.ptr<f32, Workgroup>
// CHECK-NEXT: spirv.ControlBarrier <Subgroup>, <Subgroup>, <AcquireRelease|WorkgroupMemory|MakeAvailable|MakeVisible>
// CHECK: [[V:%.*]] = memref.load %scratch
// CHECK: [[T:%.*]] = math.tanh [[V]] : f32
// CHECK-NEXT: [[I:%.*]] = arith.fptosi [[T]] : f32 to i32
// CHECK: memref.store [[I]], %d_elements
// CHECK-NOT: CooperativeMatrixStore

// -----

// A function that needs no position is computed on the components, in registers. The
// whole fragment is then converted. Each of eight invocations has eight components.
builtin.module attributes {schedule.target = "lavapipe"} {
  func.func @main(%a: tensor<8x8xf16>, %b: tensor<8x8xf16>) -> tensor<8x8xf16> {
    %z = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<8x8xf32>
    %d = tensor.empty() : tensor<8x8xf16>
    %f = linalg.fill ins(%z : f32) outs(%e : tensor<8x8xf32>) -> tensor<8x8xf32>
    %0 = linalg.matmul {schedule = #schedule.contraction<workgroup_tile = [8, 8, 8], subgroups = [1, 1], instruction = coopmat 8x8x8, a = staged<vector = 8>, b = staged<vector = 8>>} ins(%a, %b : tensor<8x8xf16>, tensor<8x8xf16>) outs(%f : tensor<8x8xf32>) -> tensor<8x8xf32>
    %1 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%0 : tensor<8x8xf32>) outs(%d : tensor<8x8xf16>) {
    ^bb0(%x: f32, %o: f16):
      %zero = arith.constant 0.0 : f32
      %m = arith.maximumf %x, %zero : f32
      %v = arith.truncf %m : f32 to f16
      linalg.yield %v : f16
    } -> tensor<8x8xf16>
    func.return %1 : tensor<8x8xf16>
  }
}
// CHECK-NOT: %scratch
// CHECK: [[ACC:%.*]] = spirv.KHR.CooperativeMatrixMulAdd
// CHECK: spirv.CompositeExtract %{{.*}}[0 : i32] : !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc>
// CHECK: spirv.CompositeExtract %{{.*}}[7 : i32] : !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc>
// CHECK-COUNT-8: arith.maximumf
// CHECK-COUNT-8: spirv.CompositeInsert {{.*}} into !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc>
// CHECK-NEXT: [[H:%.*]] = spirv.FConvert %{{.*}} : !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc> to !spirv.coopmatrix<8x8xf16, Subgroup, MatrixAcc>
// CHECK: spirv.KHR.CooperativeMatrixStore %{{.*}}, [[H]],
// CHECK-NOT: memref.store

// -----

// A prologue is computed on the way to Workgroup memory: bytes are loaded, and f16 is
// stored. Elements outside of the operand are 0 after the prologue, not before it.
builtin.module attributes {schedule.target = "lavapipe"} {
  func.func @main(%a: tensor<7x8xi8>, %b: tensor<8x8xf16>) -> tensor<7x8xf32> {
    %z = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<7x8xf32>
    %ea = tensor.empty() : tensor<7x8xf16>
    %f = linalg.fill ins(%z : f32) outs(%e : tensor<7x8xf32>) -> tensor<7x8xf32>
    %c = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%a : tensor<7x8xi8>) outs(%ea : tensor<7x8xf16>) {
    ^bb0(%x: i8, %o: f16):
      %one = arith.constant 1 : i8
      %y = arith.addi %x, %one : i8
      %v = arith.sitofp %y : i8 to f16
      linalg.yield %v : f16
    } -> tensor<7x8xf16>
    %0 = linalg.matmul {schedule = #schedule.contraction<workgroup_tile = [8, 8, 8], subgroups = [1, 1], instruction = coopmat 8x8x8, a = staged<vector = 4>, b = staged<vector = 8>>} ins(%c, %b : tensor<7x8xf16>, tensor<8x8xf16>) outs(%f : tensor<7x8xf32>) -> tensor<7x8xf32>
    func.return %0 : tensor<7x8xf32>
  }
}
// CHECK: %a_elements = schedule.flat_view %a : memref<7x8xi8, #spirv.storage_class<StorageBuffer>> to memref<14xvector<4xi8>
// CHECK: %a_tile = memref.alloc() : memref<8x2xvector<4xf16>, #spirv.storage_class<Workgroup>>
// CHECK: memref.load %a_elements
// CHECK: arith.sitofp
// CHECK: [[P:%.*]] = spirv.CompositeConstruct
// CHECK: memref.store [[P]], %a_tile_elements

// -----

// Arithmetic and conversions need no position, so they are computed on whole fragments.
// A row is loaded with stride 0, and nothing passes through Workgroup memory.
builtin.module attributes {schedule.target = "lavapipe"} {
  func.func @main(%a: tensor<8x8xf16>, %b: tensor<8x8xf16>, %bias: tensor<8xf32>, %skip: tensor<8x8xf16>) -> tensor<8x8xf16> {
    %z = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<8x8xf32>
    %f = linalg.fill ins(%z : f32) outs(%e : tensor<8x8xf32>) -> tensor<8x8xf32>
    %0 = linalg.matmul {schedule = #schedule.contraction<workgroup_tile = [8, 8, 8], subgroups = [1, 1], instruction = coopmat 8x8x8, a = staged<vector = 8>, b = staged<vector = 8>>} ins(%a, %b : tensor<8x8xf16>, tensor<8x8xf16>) outs(%f : tensor<8x8xf32>) -> tensor<8x8xf32>
    %er = tensor.empty() : tensor<8x8xf16>
    %1 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%0, %bias, %skip : tensor<8x8xf32>, tensor<8xf32>, tensor<8x8xf16>) outs(%er : tensor<8x8xf16>) {
    ^bb0(%x: f32, %y: f32, %s: f16, %o: f16):
      %t = arith.addf %x, %y : f32
      %u = arith.truncf %t : f32 to f16
      %v = arith.addf %u, %s : f16
      linalg.yield %v : f16
    } -> tensor<8x8xf16>
    func.return %1 : tensor<8x8xf16>
  }
}
// CHECK: %skip_elements = schedule.flat_view
// CHECK-NOT: %scratch
// CHECK: [[ZERO:%.*]] = arith.constant 0 : i32
// CHECK-NOT: %scratch
// CHECK: [[ACC:%.*]] = spirv.KHR.CooperativeMatrixMulAdd
// CHECK: [[ROW:%.*]] = spirv.KHR.CooperativeMatrixLoad %{{.*}}, [[ZERO]], <RowMajor> : !spirv.ptr<f32, StorageBuffer>, i32 -> !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc>
// CHECK: [[SKIP:%.*]] = spirv.KHR.CooperativeMatrixLoad {{.*}} -> !spirv.coopmatrix<8x8xf16, Subgroup, MatrixAcc>
// CHECK-NEXT: [[SUM:%.*]] = spirv.FAdd [[ACC]], [[ROW]]
// CHECK-NEXT: [[HALF:%.*]] = spirv.FConvert [[SUM]]
// CHECK-NEXT: [[R:%.*]] = spirv.FAdd [[HALF]], [[SKIP]]
// CHECK: spirv.KHR.CooperativeMatrixStore %{{.*}}, [[R]],
// CHECK-NEXT: "gpu.return"
