// RUN: XDSL_ROUNDTRIP

spirv.module Physical64 OpenCL {
  spirv.func @mlir(%f: f32, %g: !spirv.ptr<f32, Generic>, %p: !spirv.ptr<i32, CrossWorkgroup>, %v: vector<4xf32>, %h: vector<4xi16>) "None" attributes {linkage_attributes = #spirv.linkage_attributes<linkage_name = "mlir", linkage_type = <Export>>} {
    %0 = spirv.GenericCastToPtrExplicit %g : !spirv.ptr<f32, Generic> to !spirv.ptr<f32, CrossWorkgroup>
    %1 = spirv.INTEL.SubgroupBlockRead %p : !spirv.ptr<i32, CrossWorkgroup> -> i32
    %2 = spirv.INTEL.SubgroupBlockRead %p : !spirv.ptr<i32, CrossWorkgroup> -> vector<2xi32>
    %3 = spirv.INTEL.RoundFToTF32 %f : f32 to f32
    %4 = spirv.INTEL.ConvertFToBF16 %v : vector<4xf32> to vector<4xi16>
    %5 = spirv.INTEL.ConvertBF16ToF %h : vector<4xi16> to vector<4xf32>
    spirv.Return
  }
}

// CHECK:      builtin.module {
// CHECK-NEXT:   spirv.module Physical64 OpenCL {
// CHECK-NEXT:     spirv.func @mlir(%f: f32, %g: !spirv.ptr<f32, Generic>, %p: !spirv.ptr<i32, CrossWorkgroup>, %v: vector<4xf32>, %h: vector<4xi16>) "None" attributes {linkage_attributes = #spirv.linkage_attributes<linkage_name = "mlir", linkage_type = <Export>>} {
// CHECK-NEXT:       %0 = spirv.GenericCastToPtrExplicit %g : !spirv.ptr<f32, Generic> to !spirv.ptr<f32, CrossWorkgroup>
// CHECK-NEXT:       %1 = spirv.INTEL.SubgroupBlockRead %p : !spirv.ptr<i32, CrossWorkgroup> -> i32
// CHECK-NEXT:       %2 = spirv.INTEL.SubgroupBlockRead %p : !spirv.ptr<i32, CrossWorkgroup> -> vector<2xi32>
// CHECK-NEXT:       %3 = spirv.INTEL.RoundFToTF32 %f : f32 to f32
// CHECK-NEXT:       %4 = spirv.INTEL.ConvertFToBF16 %v : vector<4xf32> to vector<4xi16>
// CHECK-NEXT:       %5 = spirv.INTEL.ConvertBF16ToF %h : vector<4xi16> to vector<4xf32>
// CHECK-NEXT:       spirv.Return
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT: }

// -----

// MLIR-GENERIC-ONLY: its printer leaves out the storage class that its parser wants.
spirv.module Physical64 OpenCL {
  spirv.func @write(%p: !spirv.ptr<i32, CrossWorkgroup>, %v: vector<2xi32>) "None" attributes {linkage_attributes = #spirv.linkage_attributes<linkage_name = "write", linkage_type = <Export>>} {
    spirv.INTEL.SubgroupBlockWrite "CrossWorkgroup" %p, %v : vector<2xi32>
    spirv.Return
  }
}

// CHECK:      builtin.module {
// CHECK-NEXT:   spirv.module Physical64 OpenCL {
// CHECK-NEXT:     spirv.func @write(%p: !spirv.ptr<i32, CrossWorkgroup>, %v: vector<2xi32>) "None" attributes {linkage_attributes = #spirv.linkage_attributes<linkage_name = "write", linkage_type = <Export>>} {
// CHECK-NEXT:       spirv.INTEL.SubgroupBlockWrite "CrossWorkgroup" %p, %v : vector<2xi32>
// CHECK-NEXT:       spirv.Return
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT: }

// -----

// EXTENSION: the other instructions of kernels.
spirv.module Physical64 OpenCL {
  spirv.func @kernel(%f: f32, %g: !spirv.ptr<f32, Generic>, %p: !spirv.ptr<i32, CrossWorkgroup>, %i: vector<4xi32>) "None" attributes {linkage_attributes = #spirv.linkage_attributes<linkage_name = "kernel", linkage_type = <Export>>} {
    %x = spirv.Variable : !spirv.ptr<f32, Function>
    spirv.LifetimeStart %x, 0 : !spirv.ptr<f32, Function>
    %0 = spirv.GenericPtrMemSemantics %g : !spirv.ptr<f32, Generic> -> i32
    %1 = spirv.SatConvertSToU %i : vector<4xi32> to vector<4xi8>
    %2 = spirv.SatConvertUToS %i : vector<4xi32> to vector<4xi16>
    %3 = spirv.AtomicFlagTestAndSet <Device> <Acquire> %p : !spirv.ptr<i32, CrossWorkgroup>
    spirv.AtomicFlagClear <Device> <Release> %p : !spirv.ptr<i32, CrossWorkgroup>
    spirv.LifetimeStop %x, 0 : !spirv.ptr<f32, Function>
    spirv.Return
  }
}

// CHECK:      builtin.module {
// CHECK-NEXT:   spirv.module Physical64 OpenCL {
// CHECK-NEXT:     spirv.func @kernel(%f: f32, %g: !spirv.ptr<f32, Generic>, %p: !spirv.ptr<i32, CrossWorkgroup>, %i: vector<4xi32>) "None" attributes {linkage_attributes = #spirv.linkage_attributes<linkage_name = "kernel", linkage_type = <Export>>} {
// CHECK-NEXT:       %x = spirv.Variable : !spirv.ptr<f32, Function>
// CHECK-NEXT:       spirv.LifetimeStart %x, 0 : !spirv.ptr<f32, Function>
// CHECK-NEXT:       %0 = spirv.GenericPtrMemSemantics %g : !spirv.ptr<f32, Generic> -> i32
// CHECK-NEXT:       %1 = spirv.SatConvertSToU %i : vector<4xi32> to vector<4xi8>
// CHECK-NEXT:       %2 = spirv.SatConvertUToS %i : vector<4xi32> to vector<4xi16>
// CHECK-NEXT:       %3 = spirv.AtomicFlagTestAndSet <Device> <Acquire> %p : !spirv.ptr<i32, CrossWorkgroup>
// CHECK-NEXT:       spirv.AtomicFlagClear <Device> <Release> %p : !spirv.ptr<i32, CrossWorkgroup>
// CHECK-NEXT:       spirv.LifetimeStop %x, 0 : !spirv.ptr<f32, Function>
// CHECK-NEXT:       spirv.Return
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT: }

// -----

// EXTENSION: an instruction that SPIR-V 1.6 has no more.
// VERSION: 1.5
spirv.module Physical64 OpenCL {
  spirv.func @older(%f: f32) "None" attributes {linkage_attributes = #spirv.linkage_attributes<linkage_name = "older", linkage_type = <Export>>} {
    %0 = spirv.LessOrGreater %f, %f : f32
    spirv.Return
  }
}

// CHECK:      builtin.module {
// CHECK-NEXT:   spirv.module Physical64 OpenCL {
// CHECK-NEXT:     spirv.func @older(%f: f32) "None" attributes {linkage_attributes = #spirv.linkage_attributes<linkage_name = "older", linkage_type = <Export>>} {
// CHECK-NEXT:       %0 = spirv.LessOrGreater %f, %f : f32
// CHECK-NEXT:       spirv.Return
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT: }

// -----

// SINCE: SPIRV-Tools 2026.2
spirv.module Physical64 OpenCL {
  spirv.func @barrier() "None" attributes {linkage_attributes = #spirv.linkage_attributes<linkage_name = "barrier", linkage_type = <Export>>} {
    spirv.INTEL.ControlBarrierArrive <Workgroup> <Workgroup> <Acquire|WorkgroupMemory>
    spirv.INTEL.ControlBarrierWait <Workgroup> <Workgroup> <Release|WorkgroupMemory>
    spirv.Return
  }
}

// CHECK:      builtin.module {
// CHECK-NEXT:   spirv.module Physical64 OpenCL {
// CHECK-NEXT:     spirv.func @barrier() "None" attributes {linkage_attributes = #spirv.linkage_attributes<linkage_name = "barrier", linkage_type = <Export>>} {
// CHECK-NEXT:       spirv.INTEL.ControlBarrierArrive <Workgroup> <Workgroup> <Acquire|WorkgroupMemory>
// CHECK-NEXT:       spirv.INTEL.ControlBarrierWait <Workgroup> <Workgroup> <Release|WorkgroupMemory>
// CHECK-NEXT:       spirv.Return
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT: }
