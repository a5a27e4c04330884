// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-attention{target=nvidia-h200}' | filecheck %s
// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-attention{target=nvidia-h200},form-dispatches,assign-schedule{target=nvidia-h200},outline-dispatches,attention-to-fma' | filecheck %s --check-prefix=KERNEL

// One query of 4 heads shares keys, whose number is an argument. The keys are divided into parts.
// CHECK:      schedule.dispatch(%q, %keys, %values, %count)
// CHECK:        schedule.attention %{{.*}} numbers %{{.*}} loops = [4, 1, -9223372036854775808, 64, 64]
// CHECK-SAME:     parts = 32
// CHECK-SAME:     into tensor<32x4x1x66xf32>
// CHECK:      schedule.dispatch(%
// CHECK:        arith.maximumf
// CHECK:        math.exp
// CHECK:        arith.divf

// The keys of a part are loaded as vectors. The lanes that share a key exchange partial scores.
// KERNEL-LABEL: @main
// KERNEL:       memref.load {{.*}} : memref<65536xvector<2xi32>
// KERNEL:       scf.for %key
// KERNEL:         math.fma
// KERNEL:         spirv.GroupNonUniformShuffleXor
// KERNEL:         math.exp2
// KERNEL:       gpu.barrier
// KERNEL:       sym_name = "attention_4x1xDx64x64"
// KERNEL:       sym_name = "reduction_4x1x64"
func.func @main(%q: tensor<4x1x64xf16>, %keys: tensor<4096x64xf16>, %values: tensor<4096x64xf16>, %count: index) -> tensor<4x1x64xf32> {
  %zero = arith.constant 0.0 : f32
  %least = arith.constant 0xFF800000 : f32
  %k = tensor.extract_slice %keys[0, 0] [%count, 64] [1, 1] : tensor<4096x64xf16> to tensor<?x64xf16>
  %v = tensor.extract_slice %values[0, 0] [%count, 64] [1, 1] : tensor<4096x64xf16> to tensor<?x64xf16>
  %e = tensor.empty(%count) : tensor<4x1x?xf32>
  %r = tensor.empty() : tensor<4x1xf32>
  %h = tensor.empty(%count) : tensor<4x1x?xf16>
  %o = tensor.empty() : tensor<4x1x64xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<4x1x?xf32>) -> tensor<4x1x?xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(g, m, n, d) -> (g, m, d)>, affine_map<(g, m, n, d) -> (n, d)>, affine_map<(g, m, n, d) -> (g, m, n)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%q, %k : tensor<4x1x64xf16>, tensor<?x64xf16>) outs(%zeros : tensor<4x1x?xf32>) {
  ^bb0(%a: f16, %b: f16, %t: f32):
    %aw = arith.extf %a : f16 to f32
    %bw = arith.extf %b : f16 to f32
    %p = arith.mulf %aw, %bw : f32
    %sum = arith.addf %t, %p : f32
    linalg.yield %sum : f32
  } -> tensor<4x1x?xf32>
  %lows = linalg.fill ins(%least : f32) outs(%r : tensor<4x1xf32>) -> tensor<4x1xf32>
  %top = linalg.generic {indexing_maps = [affine_map<(g, m, n) -> (g, m, n)>, affine_map<(g, m, n) -> (g, m)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%s : tensor<4x1x?xf32>) outs(%lows : tensor<4x1xf32>) {
  ^bb0(%a: f32, %b: f32):
    %m = arith.maximumf %b, %a : f32
    linalg.yield %m : f32
  } -> tensor<4x1xf32>
  %powers = linalg.generic {indexing_maps = [affine_map<(g, m, n) -> (g, m)>, affine_map<(g, m, n) -> (g, m, n)>, affine_map<(g, m, n) -> (g, m, n)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%top, %s : tensor<4x1xf32>, tensor<4x1x?xf32>) outs(%e : tensor<4x1x?xf32>) {
  ^bb0(%m: f32, %a: f32, %b: f32):
    %below = arith.subf %a, %m : f32
    %power = math.exp %below : f32
    linalg.yield %power : f32
  } -> tensor<4x1x?xf32>
  %zs = linalg.fill ins(%zero : f32) outs(%r : tensor<4x1xf32>) -> tensor<4x1xf32>
  %total = linalg.generic {indexing_maps = [affine_map<(g, m, n) -> (g, m, n)>, affine_map<(g, m, n) -> (g, m)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%powers : tensor<4x1x?xf32>) outs(%zs : tensor<4x1xf32>) {
  ^bb0(%a: f32, %b: f32):
    %m = arith.addf %b, %a : f32
    linalg.yield %m : f32
  } -> tensor<4x1xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(g, m, n) -> (g, m)>, affine_map<(g, m, n) -> (g, m, n)>, affine_map<(g, m, n) -> (g, m, n)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%total, %powers : tensor<4x1xf32>, tensor<4x1x?xf32>) outs(%h : tensor<4x1x?xf16>) {
  ^bb0(%m: f32, %a: f32, %b: f16):
    %part = arith.divf %a, %m : f32
    %rounded = arith.truncf %part : f32 to f16
    linalg.yield %rounded : f16
  } -> tensor<4x1x?xf16>
  %zo = linalg.fill ins(%zero : f32) outs(%o : tensor<4x1x64xf32>) -> tensor<4x1x64xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(g, m, d, n) -> (g, m, n)>, affine_map<(g, m, d, n) -> (n, d)>, affine_map<(g, m, d, n) -> (g, m, d)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%p, %v : tensor<4x1x?xf16>, tensor<?x64xf16>) outs(%zo : tensor<4x1x64xf32>) {
  ^bb0(%a: f16, %b: f16, %t: f32):
    %aw = arith.extf %a : f16 to f32
    %bw = arith.extf %b : f16 to f32
    %p1 = arith.mulf %aw, %bw : f32
    %sum = arith.addf %t, %p1 : f32
    linalg.yield %sum : f32
  } -> tensor<4x1x64xf32>
  func.return %y : tensor<4x1x64xf32>
}
