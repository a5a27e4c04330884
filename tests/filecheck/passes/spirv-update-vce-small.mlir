// RUN: xdsl-opt %s -p spirv-update-vce | filecheck %s

// binary16 is not in memory: only its arithmetic requires the type.
// CHECK: spirv.module {{.*}} requires #spirv.vce<{{.*}}, [{{.*}}Float16{{.*}}], {{.*}}>
spirv.module Logical GLSL450 {
  spirv.func @round(%x: f32) -> f32 "None" {
    %half = spirv.FConvert %x : f32 to f16
    %y = spirv.FConvert %half : f16 to f32
    spirv.ReturnValue %y : f32
  }
}
