// RUN: not xdsl-opt %s -p spirv-int64-to-words 2>&1 | filecheck %s

// CHECK: spirv-int64-to-words: 'spirv.AtomicIAdd' (%r) in @f: atomic operations on 64-bit integers cannot be rewritten: use 32-bit integers

spirv.module Logical GLSL450 {
  spirv.func @f(%p: !spirv.ptr<i64, StorageBuffer>, %x: i64) "None" {
    %r = spirv.AtomicIAdd <Device> <None> %p, %x : !spirv.ptr<i64, StorageBuffer>
    spirv.Return
  }
}
