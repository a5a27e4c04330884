// RUN: xdsl-opt %s --verify-diagnostics --parsing-diagnostics --split-input-file | filecheck %s

// A variable with another storage class than Function.
spirv.func @f() "None" {
  %0 = spirv.Variable : !spirv.ptr<f32, Private>
  spirv.Return
}
// CHECK: Operation does not verify: spirv.Variable requires the storage class Function: use a spirv.GlobalVariable for Private

// -----

// An initializer of another type.
spirv.func @f() "None" {
  %0 = spirv.Constant 1 : i32
  %1 = "spirv.Variable"(%0) <{storage_class = #spirv.storage_class<Function>}> : (i32) -> !spirv.ptr<f32, Function>
  spirv.Return
}
// CHECK: Operation does not verify: an initializer of type i32 cannot fill f32

// -----

// An initializer that is not constant.
spirv.func @f(%x: f32) "None" {
  %0 = spirv.Variable init(%x) : !spirv.ptr<f32, Function>
  spirv.Return
}
// CHECK: Operation does not verify: an initializer must be a constant or a global variable: store the value instead

// -----

// A load of another type.
spirv.func @f(%p: !spirv.ptr<f32, StorageBuffer>) "None" {
  %0 = "spirv.Load"(%p) : (!spirv.ptr<f32, StorageBuffer>) -> i32
  spirv.Return
}
// CHECK: Operation does not verify: a load through a pointer to f32 cannot return i32

// -----

// A load from a value that is not a pointer.
spirv.func @f(%p: f32) "None" {
  %0 = "spirv.Load"(%p) : (f32) -> f32
  spirv.Return
}
// CHECK: Operation does not verify: operand 'pointer' at position 0 does not verify:

// -----

// A load with another storage class.
spirv.func @f(%p: !spirv.ptr<f32, StorageBuffer>) "None" {
  %0 = spirv.Load "Uniform" %p : f32
  spirv.Return
}
// CHECK: operand is used with type !spirv.ptr<f32, Uniform>, but has been previously used or defined with type !spirv.ptr<f32, StorageBuffer>

// -----

// A load of a type without a size.
spirv.func @f(%p: !spirv.ptr<!spirv.rtarray<f32, stride=4>, StorageBuffer>) "None" {
  %0 = spirv.Load "StorageBuffer" %p : !spirv.rtarray<f32, stride=4>
  spirv.Return
}
// CHECK: Operation does not verify: cannot load !spirv.rtarray<f32, stride=4>, which has no fixed size: access an element with spirv.AccessChain

// -----

// An unknown memory operand.
spirv.func @f(%p: !spirv.ptr<f32, StorageBuffer>) "None" {
  %0 = spirv.Load "StorageBuffer" %p ["Hasty"] : f32
  spirv.Return
}
// CHECK: 'Hasty' is not a MemoryAccess

// -----

// Aligned without an alignment.
spirv.func @f(%p: !spirv.ptr<f32, StorageBuffer>) "None" {
  %0 = spirv.Load "StorageBuffer" %p ["Aligned"] : f32
  spirv.Return
}
// CHECK: Operation does not verify: the memory operand Aligned and an alignment go together: give both or neither

// -----

// An alignment without Aligned.
spirv.func @f(%p: !spirv.ptr<f32, StorageBuffer>) "None" {
  %0 = spirv.Load "StorageBuffer" %p ["Volatile", 4] : f32
  spirv.Return
}
// CHECK: Operation does not verify: the memory operand Aligned and an alignment go together: give both or neither

// -----

// An alignment that is not a power of two.
spirv.func @f(%p: !spirv.ptr<f32, StorageBuffer>) "None" {
  %0 = spirv.Load "StorageBuffer" %p ["Aligned", 6] : f32
  spirv.Return
}
// CHECK: Operation does not verify: an alignment must be a power of two, not 6

// -----

// Available on a load.
spirv.func @f(%p: !spirv.ptr<f32, StorageBuffer>) "None" {
  %0 = spirv.Load "StorageBuffer" %p ["MakePointerAvailable|NonPrivatePointer", scope(<Workgroup>)] : f32
  spirv.Return
}
// CHECK: Operation does not verify: MakePointerAvailable is not allowed for a load: remove MakePointerAvailable

// -----

// Visible on a store.
spirv.func @f(%p: !spirv.ptr<f32, StorageBuffer>, %x: f32) "None" {
  spirv.Store "StorageBuffer" %p, %x ["MakePointerVisible|NonPrivatePointer", scope(<Workgroup>)] : f32
  spirv.Return
}
// CHECK: Operation does not verify: MakePointerVisible is not allowed for a store: remove MakePointerVisible

// -----

// Visible without a scope.
spirv.func @f(%p: !spirv.ptr<f32, StorageBuffer>) "None" {
  %0 = spirv.Load "StorageBuffer" %p ["MakePointerVisible|NonPrivatePointer"] : f32
  spirv.Return
}
// CHECK: Operation does not verify: MakePointerAvailable and MakePointerVisible need a scope, such as scope(<Workgroup>); other accesses must not have a scope

// -----

// Visible through a private pointer.
spirv.func @f(%p: !spirv.ptr<f32, StorageBuffer>) "None" {
  %0 = spirv.Load "StorageBuffer" %p ["MakePointerVisible", scope(<Workgroup>)] : f32
  spirv.Return
}
// CHECK: Operation does not verify: MakePointerAvailable and MakePointerVisible are for non-private pointers: add NonPrivatePointer

// -----

// A store of another type.
spirv.func @f(%p: !spirv.ptr<f32, StorageBuffer>, %x: i32) "None" {
  "spirv.Store"(%p, %x) : (!spirv.ptr<f32, StorageBuffer>, i32) -> ()
  spirv.Return
}
// CHECK: Operation does not verify: a value of type i32 cannot be stored through a pointer to f32

// -----

// A copy between different types.
spirv.func @f(%p: !spirv.ptr<f32, StorageBuffer>, %q: !spirv.ptr<i32, StorageBuffer>) "None" {
  "spirv.CopyMemory"(%p, %q) : (!spirv.ptr<f32, StorageBuffer>, !spirv.ptr<i32, StorageBuffer>) -> ()
  spirv.Return
}
// CHECK: Operation does not verify: cannot copy i32 to f32: the types must be the same

// -----

// An access chain with a result of another type.
spirv.func @f(%p: !spirv.ptr<!spirv.array<4 x f32>, StorageBuffer>, %i: i32) "None" {
  %0 = spirv.AccessChain %p[%i] : !spirv.ptr<!spirv.array<4 x f32>, StorageBuffer>, i32 -> !spirv.ptr<i32, StorageBuffer>
  spirv.Return
}
// CHECK: Operation does not verify: the indexes lead to !spirv.ptr<f32, StorageBuffer>, but the result has type !spirv.ptr<i32, StorageBuffer>

// -----

// An access chain with a result in another storage class.
spirv.func @f(%p: !spirv.ptr<!spirv.array<4 x f32>, StorageBuffer>, %i: i32) "None" {
  %0 = spirv.AccessChain %p[%i] : !spirv.ptr<!spirv.array<4 x f32>, StorageBuffer>, i32 -> !spirv.ptr<f32, Uniform>
  spirv.Return
}
// CHECK: Operation does not verify: the indexes lead to !spirv.ptr<f32, StorageBuffer>, but the result has type !spirv.ptr<f32, Uniform>

// -----

// An access chain into a scalar.
spirv.func @f(%p: !spirv.ptr<!spirv.array<4 x f32>, StorageBuffer>, %i: i32) "None" {
  %0 = spirv.AccessChain %p[%i, %i] : !spirv.ptr<!spirv.array<4 x f32>, StorageBuffer>, i32, i32 -> !spirv.ptr<f32, StorageBuffer>
  spirv.Return
}
// CHECK: Operation does not verify: f32 is not a composite, so no index can follow

// -----

// An access chain with a variable index of a struct.
spirv.func @f(%p: !spirv.ptr<!spirv.struct<(f32, i32)>, StorageBuffer>, %i: i32) "None" {
  %0 = spirv.AccessChain %p[%i] : !spirv.ptr<!spirv.struct<(f32, i32)>, StorageBuffer>, i32 -> !spirv.ptr<f32, StorageBuffer>
  spirv.Return
}
// CHECK: Operation does not verify: an index into !spirv.struct<(f32, i32)> must be a spirv.Constant: a struct's members differ in type

// -----

// An access chain to a member that does not exist.
spirv.func @f(%p: !spirv.ptr<!spirv.struct<(f32, i32)>, StorageBuffer>) "None" {
  %i = spirv.Constant 2 : i32
  %0 = spirv.AccessChain %p[%i] : !spirv.ptr<!spirv.struct<(f32, i32)>, StorageBuffer>, i32 -> !spirv.ptr<f32, StorageBuffer>
  spirv.Return
}
// CHECK: Operation does not verify: !spirv.struct<(f32, i32)> has 2 members, so member 2 does not exist

// -----

// The length of an array that is not a runtime array.
spirv.func @f(%p: !spirv.ptr<!spirv.struct<(i32, f32)>, StorageBuffer>) "None" {
  %0 = spirv.ArrayLength %p[1] : !spirv.ptr<!spirv.struct<(i32, f32)>, StorageBuffer> -> i32
  spirv.Return
}
// CHECK: Operation does not verify: member 1 of !spirv.struct<(i32, f32)> is not a runtime array that ends the struct
