// RUN: xdsl-opt %s --verify-diagnostics --parsing-diagnostics --split-input-file | filecheck %s
// Instructions of extensions are refused with these errors.

%a, %b = "test.op"() : () -> (!spirv.ptr<i32, StorageBuffer>, !spirv.ptr<i32, Workgroup>)
%0 = spirv.PtrEqual %a, %b : !spirv.ptr<i32, StorageBuffer>, !spirv.ptr<i32, Workgroup>
// CHECK: spirv.PtrEqual takes pointers into one storage class, not !spirv.ptr<i32, StorageBuffer> and !spirv.ptr<i32, Workgroup>

// -----

%a, %b = "test.op"() : () -> (!spirv.ptr<i32, StorageBuffer>, !spirv.ptr<f32, StorageBuffer>)
%0 = spirv.PtrEqual %a, %b : !spirv.ptr<i32, StorageBuffer>, !spirv.ptr<f32, StorageBuffer>
// CHECK: spirv.PtrEqual takes pointers of equal types, not !spirv.ptr<i32, StorageBuffer> and !spirv.ptr<f32, StorageBuffer>

// -----

%a, %b = "test.op"() : () -> (!spirv.ptr<i32, PhysicalStorageBuffer>, !spirv.ptr<i32, PhysicalStorageBuffer>)
%0 = spirv.PtrNotEqual %a, %b : !spirv.ptr<i32, PhysicalStorageBuffer>, !spirv.ptr<i32, PhysicalStorageBuffer>
// CHECK: spirv.PtrNotEqual does not take physical pointers: convert both by spirv.ConvertPtrToU, then compare

// -----

%a, %b = "test.op"() : () -> (!spirv.untyped_ptr<StorageBuffer>, !spirv.untyped_ptr<StorageBuffer>)
%0 = spirv.PtrDiff %a, %b : !spirv.untyped_ptr<StorageBuffer>, !spirv.untyped_ptr<StorageBuffer> -> i32
// CHECK: spirv.PtrDiff counts elements, which untyped pointers do not have: convert both by spirv.ConvertPtrToU, then subtract

// -----

%a, %b = "test.op"() : () -> (!spirv.ptr<i32, StorageBuffer>, !spirv.ptr<i32, StorageBuffer>)
%0 = spirv.PtrDiff %a, %b : !spirv.ptr<i32, StorageBuffer>, !spirv.ptr<i32, StorageBuffer> -> f32
// CHECK: spirv.PtrDiff must return an integer scalar, not f32

// -----

%a, %b, %c = "test.op"() : () -> (!spirv.ptr<i32, StorageBuffer>, !spirv.ptr<i32, StorageBuffer>, f32)
spirv.CopyMemorySized %a, %b, %c : !spirv.ptr<i32, StorageBuffer>, !spirv.ptr<i32, StorageBuffer>, f32
// CHECK: spirv.CopyMemorySized: the size must be an integer, not f32

// -----

%a, %b, %c, %d = "test.op"() : () -> (!spirv.ptr<i32, StorageBuffer>, i32, i64, i32)
%0 = spirv.NV.RawAccessChain %a[%b, %c, %d] : !spirv.ptr<i32, StorageBuffer>, i32, i64, i32 -> !spirv.ptr<i32, StorageBuffer>
// CHECK: spirv.NV.RawAccessChain takes 32-bit integers, not i64

// -----

%a, %b, %c, %d = "test.op"() : () -> (!spirv.ptr<i32, StorageBuffer>, i32, i32, i32)
%0 = spirv.NV.RawAccessChain %a[%b, %c, %d] : !spirv.ptr<i32, StorageBuffer>, i32, i32, i32 -> !spirv.ptr<i32, Workgroup>
// CHECK: spirv.NV.RawAccessChain cannot change the storage class: !spirv.ptr<i32, StorageBuffer> to !spirv.ptr<i32, Workgroup>

// -----

%a, %b, %c, %d = "test.op"() : () -> (!spirv.ptr<i32, StorageBuffer>, i32, i32, i32)
%0 = spirv.NV.RawAccessChain %a[%b, %c, %d], <RobustnessPerComponentNV|RobustnessPerElementNV> : !spirv.ptr<i32, StorageBuffer>, i32, i32, i32 -> !spirv.ptr<i32, StorageBuffer>
// CHECK: spirv.NV.RawAccessChain is robust per component or per element, not both

// -----

%a, %b = "test.op"() : () -> (!spirv.untyped_ptr<StorageBuffer>, !spirv.untyped_ptr<StorageBuffer>)
spirv.CopyMemory %a, %b : !spirv.untyped_ptr<StorageBuffer>, !spirv.untyped_ptr<StorageBuffer>
// CHECK: one side of a copy must have a typed pointer, which says how much is copied: use spirv.CopyMemorySized

// -----

%a, %b = "test.op"() : () -> (!spirv.untyped_ptr<StorageBuffer>, i32)
%0 = spirv.KHR.UntypedAccessChain f32, %a[%b] : !spirv.untyped_ptr<StorageBuffer>, i32 -> !spirv.untyped_ptr<StorageBuffer>
// CHECK: f32 is not a composite, so no index can follow

// -----

%a, %b = "test.op"() : () -> (!spirv.untyped_ptr<StorageBuffer>, i32)
%0 = spirv.KHR.UntypedAccessChain !spirv.rtarray<f32>, %a[%b] : !spirv.untyped_ptr<StorageBuffer>, i32 -> !spirv.untyped_ptr<Workgroup>
// CHECK: spirv.KHR.UntypedAccessChain cannot change the storage class: !spirv.untyped_ptr<StorageBuffer> to !spirv.untyped_ptr<Workgroup>

// -----

%a = "test.op"() : () -> (!spirv.untyped_ptr<StorageBuffer>)
%0 = spirv.KHR.UntypedArrayLength !spirv.struct<(f32)>, %a[0] : !spirv.untyped_ptr<StorageBuffer> -> i32
// CHECK: member 0 of !spirv.struct<(f32)> is not a runtime array that ends the struct

// -----

%a, %b = "test.op"() : () -> (!spirv.untyped_ptr<StorageBuffer>, i32)
spirv.KHR.UntypedPrefetch %a, %b : !spirv.untyped_ptr<StorageBuffer>, i32
// CHECK: spirv.KHR.UntypedPrefetch requires a pointer to CrossWorkgroup memory, not !spirv.untyped_ptr<StorageBuffer>

// -----

%a, %b = "test.op"() : () -> (!spirv.untyped_ptr<CrossWorkgroup>, i32)
spirv.KHR.UntypedPrefetch %a, %b locality(3) : !spirv.untyped_ptr<CrossWorkgroup>, i32
// CHECK: spirv.KHR.UntypedPrefetch: locality requires rw, and cache_type requires rw and locality

// -----

%0 = spirv.KHR.UntypedVariable i32 : !spirv.untyped_ptr<Workgroup>
// CHECK: spirv.KHR.UntypedVariable requires the storage class Function: use a spirv.KHR.UntypedGlobalVariable for Workgroup

// -----

%0 = spirv.EXT.ConstantCompositeReplicate [1.0 : f32] : vector<2xi32>
// CHECK: a value of type f32 cannot be a constant of type i32

// -----

%0 = spirv.EXT.ConstantCompositeReplicate [1 : i32] : !spirv.struct<(i32, f32)>
// CHECK: spirv.EXT.ConstantCompositeReplicate repeats one value, so the constituents of !spirv.struct<(i32, f32)> must have equal types

// -----

%a = "test.op"() : () -> (i32)
%0 = spirv.EXT.CompositeConstructReplicate %a : i32 -> vector<2xf32>
the constituents of // CHECK: vector<2xf32> must be f32, not i32

// -----

%0 = spirv.KHR.ConstantData [1, 2] : !spirv.array<3 x i32>
// CHECK: !spirv.array<3 x i32> needs 3 words, but 2 are given

// -----

%0 = spirv.KHR.ConstantData [1, 2] : !spirv.array<2 x f32>
// CHECK: spirv.KHR.ConstantData must return an array of integers, not !spirv.array<2 x f32>

// -----

%a = "test.op"() : () -> (f32)
%0 = spirv.KHR.Expect %a, %a : f32
// CHECK: spirv.KHR.Expect takes integer or Boolean scalars or vectors, not f32

// -----

%a = "test.op"() : () -> (i32)
%0 = spirv.EXT.ArithmeticFence %a : i32
// CHECK: spirv.EXT.ArithmeticFence takes floating-point scalars or vectors, not i32

// -----

%a = "test.op"() : () -> (bf16)
%0 = spirv.KHR.Fma %a, %a, %a : bf16
// CHECK: BF-09: elementwise arithmetic does not support bfloat16, as in bf16; convert to f32 with spirv.FConvert, compute, and convert back

// -----

%a, %b = "test.op"() : () -> (vector<4xi8>, i32)
%0 = spirv.EXT.BitcastExtract %a[%b] : vector<4xi8>, i32 -> vector<2xf4E2M1FN>
// CHECK: spirv.EXT.BitcastExtract cannot change the number of components: vector<4xi8> to vector<2xf4E2M1FN>

// -----

%a, %b = "test.op"() : () -> (i8, i32)
%0 = spirv.EXT.BitcastExtract %a[%b] : i8, i32 -> f16
// CHECK: spirv.EXT.BitcastExtract takes 16 bits out of i8, whose components have 8

// -----

%0 = spirv.KHR.ReadClock <Subgroup> : i32
// CHECK: spirv.KHR.ReadClock must return an unsigned i64 or vector<2xi32>, not i32

// -----

%0 = spirv.KHR.ReadClock <Workgroup> : i64
// CHECK: spirv.KHR.ReadClock: the scope must be Device or Subgroup, not Workgroup

// -----

%a = "test.op"() : () -> (f32)
%0 = spirv.GroupIAdd <Workgroup> <Reduce> %a : f32
// CHECK: spirv.GroupIAdd takes integer scalars or vectors, not f32

// -----

%a = "test.op"() : () -> (i32)
%0 = spirv.GroupIAdd <Workgroup> <ClusteredReduce> %a : i32
// CHECK: spirv.GroupIAdd only allows Reduce, InclusiveScan and ExclusiveScan, not ClusteredReduce

// -----

%a = "test.op"() : () -> (i32)
%0 = spirv.GroupIAdd <Device> <Reduce> %a : i32
// CHECK: spirv.GroupIAdd: the execution scope must be Workgroup or Subgroup, not Device

// -----

%a = "test.op"() : () -> (bf16)
%0 = spirv.GroupFAdd <Workgroup> <Reduce> %a : bf16
// CHECK: BF-09: group operations do not support bfloat16, as in bf16; bitcast the value to i16 and back

// -----

%a, %b = "test.op"() : () -> (f32, f32)
%0 = spirv.GroupBroadcast <Workgroup> %a, %b : f32, f32
// CHECK: spirv.GroupBroadcast: a local id must have one to three integers, not f32

// -----

%a = "test.op"() : () -> (f32)
%0 = spirv.NV.GroupNonUniformPartition %a : f32 -> vector<4xf32>
// CHECK: spirv.NV.GroupNonUniformPartition: a ballot must be vector<4xi32>, not vector<4xf32>

// -----

%a = "test.op"() : () -> (!spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc>)
%0 = spirv.NV.CooperativeMatrixConvert %a : !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc> to !spirv.coopmatrix<16x8xf16, Subgroup, MatrixA>
// CHECK: spirv.NV.CooperativeMatrixConvert cannot change the component type: !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc> to !spirv.coopmatrix<16x8xf16, Subgroup, MatrixA>

// -----

%a = "test.op"() : () -> (!spirv.coopmatrix<16x8xf32, Subgroup, MatrixA>)
%0 = spirv.NV.CooperativeMatrixConvert %a : !spirv.coopmatrix<16x8xf32, Subgroup, MatrixA> to !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc>
// CHECK: spirv.NV.CooperativeMatrixConvert can only change the use of an accumulator, not !spirv.coopmatrix<16x8xf32, Subgroup, MatrixA> to !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc>

// -----

%a = "test.op"() : () -> (!spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc>)
%0 = spirv.NV.CooperativeMatrixTranspose %a : !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc> to !spirv.coopmatrix<16x8xf32, Subgroup, MatrixB>
// CHECK: !spirv.coopmatrix<16x8xf32, Subgroup, MatrixB> is not the transpose of !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc>

// -----

%a = "test.op"() : () -> (!spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc>)
%0 = spirv.NV.CooperativeMatrixTranspose %a : !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc> to !spirv.coopmatrix<8x16xf32, Subgroup, MatrixA>
// CHECK: spirv.NV.CooperativeMatrixTranspose must convert an accumulator to a MatrixB, not !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc> to !spirv.coopmatrix<8x16xf32, Subgroup, MatrixA>

// -----

%a = "test.op"() : () -> (!spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc>)
%0 = spirv.NV.CooperativeMatrixReduce <Row> %a, @f : !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc> -> !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc>
// CHECK: spirv.NV.CooperativeMatrixReduce cannot change the rows: !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc> to !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc>

// -----

%a = "test.op"() : () -> (!spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc>)
%0 = spirv.NV.CooperativeMatrixReduce <Row|2x2> %a, @f : !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc> -> !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc>
// CHECK: spirv.NV.CooperativeMatrixReduce needs the mask Row, Column, Row|Column or 2x2

// -----

%a, %b = "test.op"() : () -> (!spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc>, i32)
%0 = spirv.EXT.CooperativeMatrixGetCoordinate %a, %b : !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc>, i32 -> vector<3xi32>
// CHECK: spirv.EXT.CooperativeMatrixGetCoordinate must return two integers, not vector<3xi32>

// -----

%a, %b = "test.op"() : () -> (!spirv.NV.tensor_layout<2, Undefined>, i32)
%0 = spirv.NV.TensorLayoutSetDimension %a[%b] : !spirv.NV.tensor_layout<2, Undefined>, i32
// CHECK: spirv.NV.TensorLayoutSetDimension takes 2 numbers, not 1

// -----

%a, %b = "test.op"() : () -> (!spirv.NV.tensor_layout<2, Undefined>, i32)
%0 = spirv.NV.TensorLayoutSlice %a[%b, %b] : !spirv.NV.tensor_layout<2, Undefined>, i32, i32
// CHECK: spirv.NV.TensorLayoutSlice takes 4 numbers, not 2

// -----

%a, %b = "test.op"() : () -> (!spirv.NV.tensor_layout<2, Undefined>, i64)
%0 = spirv.NV.TensorLayoutSetStride %a[%b, %b] : !spirv.NV.tensor_layout<2, Undefined>, i64, i64
// CHECK: spirv.NV.TensorLayoutSetStride takes 32-bit integers, not i64

// -----

%a, %b = "test.op"() : () -> (!spirv.NV.tensor_layout<2, Undefined>, i32)
%0 = spirv.NV.TensorLayoutSetClampValue %a, %b : !spirv.NV.tensor_layout<2, Undefined>, i32
// CHECK: spirv.NV.TensorLayoutSetClampValue requires the clamp mode Constant, not Undefined

// -----

%a, %b = "test.op"() : () -> (!spirv.NV.tensor_view<2, false, 1, 0>, i32)
%0 = spirv.NV.TensorViewSetDimension %a[%b, %b] : !spirv.NV.tensor_view<2, false, 1, 0>, i32, i32
// CHECK: spirv.NV.TensorViewSetDimension requires a view that has dimensions, not !spirv.NV.tensor_view<2, false, 1, 0>

// -----

%0 = spirv.NV.CreateTensorLayout : !spirv.NV.tensor_layout<6, Undefined>
// CHECK: a tensor layout or view needs 1 to 5 dimensions, not 6

// -----

%0 = spirv.NV.CreateTensorView : !spirv.NV.tensor_view<2, false, 1, 1>
// CHECK: a tensor view of 2 dimensions needs a permutation of 0 to 1, not [1, 1]

// -----

%a, %b, %c = "test.op"() : () -> (!spirv.ptr<i32, StorageBuffer>, !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc>, !spirv.NV.tensor_layout<2, Undefined>)
spirv.NV.CooperativeMatrixStoreTensor %a, %b, %c ["MakePointerVisible|NonPrivatePointer", scope(<Workgroup>)] : !spirv.ptr<i32, StorageBuffer>, !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc>, !spirv.NV.tensor_layout<2, Undefined>
// CHECK: CM-15: MakePointerVisible is not for a store; use MakePointerAvailable here

// -----

%a, %b, %c = "test.op"() : () -> (!spirv.ptr<i32, StorageBuffer>, !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc>, !spirv.NV.tensor_layout<2, Undefined>)
spirv.NV.CooperativeMatrixStoreTensor %a, %b, %c decode(@f) : !spirv.ptr<i32, StorageBuffer>, !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc>, !spirv.NV.tensor_layout<2, Undefined>
// CHECK: spirv.NV.CooperativeMatrixStoreTensor: @f is not a spirv.func of this module

// -----

%a, %b, %c = "test.op"() : () -> (!spirv.coopvec<16 x f16>, !spirv.ptr<i32, StorageBuffer>, i32)
%0 = spirv.NV.CooperativeVectorMatrixMul %a, %b[%c] (input_interpretation = Float16NV, matrix_interpretation = Float16NV, m = 16, k = 16, memory_layout = RowMajorNV, transpose = false) : !spirv.coopvec<16 x f16>, !spirv.ptr<i32, StorageBuffer>, i32 -> !spirv.coopvec<16 x f16>
// CHECK: spirv.NV.CooperativeVectorMatrixMul: the layout RowMajorNV needs a stride, in bytes

// -----

%a, %b, %c = "test.op"() : () -> (!spirv.coopvec<16 x f16>, !spirv.ptr<i32, StorageBuffer>, i32)
%0 = spirv.NV.CooperativeVectorMatrixMul %a, %b[%c] (input_interpretation = Float16NV, matrix_interpretation = Float16NV, m = 16, k = 16, memory_layout = RowMajorNV, transpose = false) stride %c : !spirv.coopvec<16 x f16>, !spirv.ptr<i32, StorageBuffer>, i32, i32 -> !spirv.coopvec<8 x f16>
// CHECK: spirv.NV.CooperativeVectorMatrixMul must return one component for each of 16 rows, not !spirv.coopvec<8 x f16>

// -----

%a, %b = "test.op"() : () -> (!spirv.ptr<i32, StorageBuffer>, i64)
%0 = spirv.NV.CooperativeVectorLoad %a[%b] : !spirv.ptr<i32, StorageBuffer>, i64 -> !spirv.coopvec<16 x f16>
// CHECK: spirv.NV.CooperativeVectorLoad: an offset must be a 32-bit integer, not i64

// -----

%a = "test.op"() : () -> (!spirv.NV.coopmatrix<16x8xf16, Subgroup>)
%0 = spirv.NV.CooperativeMatrixMulAdd %a, %a, %a : !spirv.NV.coopmatrix<16x8xf16, Subgroup>, !spirv.NV.coopmatrix<16x8xf16, Subgroup> -> !spirv.NV.coopmatrix<16x8xf16, Subgroup>
// CHECK: spirv.NV.CooperativeMatrixMulAdd needs matrices MxK, KxN and MxN of one scope, not !spirv.NV.coopmatrix<16x8xf16, Subgroup>, !spirv.NV.coopmatrix<16x8xf16, Subgroup>, !spirv.NV.coopmatrix<16x8xf16, Subgroup>

// -----

%a, %b = "test.op"() : () -> (vector<2xf32>, f32)
%0 = spirv.VALVE.FDot2MixAcc32 %a, %a, %b : vector<2xf32> -> f32
// CHECK: spirv.VALVE.FDot2MixAcc32 takes 2 f16 or bf16, not vector<2xf32>

// -----

%a, %b = "test.op"() : () -> (vector<2xf16>, bf16)
%0 = spirv.VALVE.FDot2MixAcc16 %a, %a, %b : vector<2xf16> -> bf16
// CHECK: spirv.VALVE.FDot2MixAcc16 must return the components' type, not bf16

// -----

%a = "test.op"() : () -> (f32)
%0 = "spirv.QCOM.BFloat16MulAdd"(%a, %a, %a) : (f32, f32, f32) -> f32
// CHECK: f32 should be of base attribute bf16

// -----

%a, %b = "test.op"() : () -> (!spirv.arm.tensor<?x?xf32>, !spirv.array<3 x i32>)
%0 = spirv.ARM.TensorRead %a[%b] : !spirv.arm.tensor<?x?xf32>, !spirv.array<3 x i32> -> f32
// CHECK: spirv.ARM.TensorRead: !spirv.arm.tensor<?x?xf32> needs 2 coordinates, not !spirv.array<3 x i32>

// -----

%a, %b = "test.op"() : () -> (!spirv.arm.tensor<?x?xf32>, !spirv.array<2 x i32>)
%0 = spirv.ARM.TensorRead %a[%b], <OutOfBoundsValueARM> : !spirv.arm.tensor<?x?xf32>, !spirv.array<2 x i32> -> f32
// CHECK: spirv.ARM.TensorRead: each of `outside`, `available` and `visible` must be given exactly if its bit is set

// -----

%a, %b = "test.op"() : () -> (!spirv.arm.tensor<?x?xf32>, i32)
%0 = spirv.ARM.TensorQuerySize %a[%b] : !spirv.arm.tensor<?x?xf32>, i32 -> i32
// CHECK: spirv.ARM.TensorQuerySize: the dimension must come from a constant instruction

// -----

%0 = spirv.Undef : !spirv.arm.tensor<?x4xf32>
// CHECK: either all extents of a tensor must be known, or none: write ? for each

// -----

%a = "test.op"() : () -> (!spirv.ptr<f32, Generic>)
%0 = spirv.GenericCastToPtrExplicit %a : !spirv.ptr<f32, Generic> to !spirv.ptr<i32, CrossWorkgroup>
// CHECK: spirv.GenericCastToPtrExplicit cannot change the pointee type: !spirv.ptr<f32, Generic> to !spirv.ptr<i32, CrossWorkgroup>

// -----

%a = "test.op"() : () -> (!spirv.ptr<i32, StorageBuffer>)
spirv.LifetimeStart %a, 0 : !spirv.ptr<i32, StorageBuffer>
// CHECK: spirv.LifetimeStart requires a pointer to Function memory, not !spirv.ptr<i32, StorageBuffer>

// -----

%a = "test.op"() : () -> (!spirv.ptr<i32, StorageBuffer>)
spirv.AtomicFlagClear <Device> <Acquire> %a : !spirv.ptr<i32, StorageBuffer>
// CHECK: spirv.AtomicFlagClear cannot have the semantics Acquire or AcquireRelease

// -----

%a = "test.op"() : () -> (f32)
%0 = spirv.INTEL.ConvertFToBF16 %a : f32 to i32
// CHECK: spirv.INTEL.ConvertFToBF16 must return i16, not i32

// -----

%a = "test.op"() : () -> (f64)
%0 = spirv.INTEL.RoundFToTF32 %a : f64 to f64
// CHECK: spirv.INTEL.RoundFToTF32 takes f32 scalars or vectors, not f64

// -----

%a = "test.op"() : () -> (i32)
%0 = spirv.CL.exp %a : i32
// CHECK: spirv.CL.exp takes floating-point scalars or vectors, not i32
