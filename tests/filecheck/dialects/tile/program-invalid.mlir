// RUN: xdsl-opt %s --verify-diagnostics --parsing-diagnostics --split-input-file | filecheck %s

// CHECK: argument 0 must be a view or a number, not tensor<4xf32>
tile.program @f {
^bb0(%x: tensor<4xf32>):
}

// -----

// CHECK: a program must have at most one tile.place, which determines the grid
tile.program @f {
^bb0(%x: !tile.view<?xf32>):
  %i = tile.place %x tile [4] axes [0] : !tile.view<?xf32> -> index
  %j = tile.place %x tile [8] axes [0] : !tile.view<?xf32> -> index
}

// -----

// CHECK: axes (2,) must be one to three different axes of the 1-D view, with a tile size for each
tile.program @f {
^bb0(%x: !tile.view<?xf32>):
  %i = tile.place %x tile [4] axes [2] : !tile.view<?xf32> -> index
}

// -----

// CHECK: tile sizes (0,) must be above 0
tile.program @f {
^bb0(%x: !tile.view<?xf32>):
  %i = tile.place %x tile [0] axes [0] : !tile.view<?xf32> -> index
}

// -----

// CHECK: group = 0 must be above 0, and needs two axes, not 2
tile.program @f {
^bb0(%x: !tile.view<?x?xf32>):
  %i, %j = tile.place %x tile [4, 4] axes [0, 1] group 0 : !tile.view<?x?xf32> -> index, index
}

// -----

// CHECK: group = 2 must be above 0, and needs two axes, not 1
tile.program @f {
^bb0(%x: !tile.view<?xf32>):
  %i = tile.place %x tile [4] axes [0] group 2 : !tile.view<?xf32> -> index
}

// -----

// CHECK: the view has no axis 1
tile.program @f {
^bb0(%x: !tile.view<?xf32>):
  %n = tile.size %x 1 : !tile.view<?xf32>
}

// -----

// CHECK: a 2-D view needs 2 sizes and strides, not (1, 2)
tile.program @f {
^bb0(%x: !tile.view<?xf32>, %n: index):
  %v = tile.view_of %x[%n] sizes [%n] strides [%n, %n] : !tile.view<?xf32> -> !tile.view<?x?xf32>
}

// -----

// CHECK: f32 and f16 have different element types
tile.program @f {
^bb0(%x: !tile.view<?xf32>, %n: index):
  %v = tile.view_of %x[%n] sizes [%n] strides [%n] : !tile.view<?xf32> -> !tile.view<?xf16>
}

// -----

// CHECK: a 2-D view needs 2 indices, not 1
tile.program @f {
^bb0(%x: !tile.view<?x?xf32>, %i: index):
  %t = tile.load %x[%i] : !tile.view<?x?xf32> -> !tile.tile<4xf32>
}

// -----

// CHECK: !tile.view<?xf32> has fewer axes than !tile.tile<4x4xf32>
tile.program @f {
^bb0(%x: !tile.view<?xf32>, %i: index):
  %t = tile.load %x[%i] : !tile.view<?xf32> -> !tile.tile<4x4xf32>
}

// -----

// CHECK: !tile.view<?xf32> and !tile.tile<4xf16> have different element types
tile.program @f {
^bb0(%x: !tile.view<?xf32>, %i: index):
  %t = tile.load %x[%i] : !tile.view<?xf32> -> !tile.tile<4xf16>
}

// -----

// CHECK: f16 and f32 have different element types
tile.program @f {
^bb0(%x: !tile.view<?xf32>, %i: index):
  %t = tile.load %x[%i] outside 0.0 : f16 : !tile.view<?xf32> -> !tile.tile<4xf32>
}

// -----

// CHECK: `outside` and `any` cannot be given together
tile.program @f {
^bb0(%x: !tile.view<?xf32>, %i: index):
  %t = tile.load %x[%i] outside 0.0 : f32 any : !tile.view<?xf32> -> !tile.tile<4xf32>
}

// -----

// CHECK: !tile.view<?x?xf32> has more than one dimension: flatten it by tile.view_of
tile.program @f {
^bb0(%x: !tile.view<?x?xf32>):
  %r = tile.range : !tile.tile<4xi32>
  %t = tile.gather %x[%r] : !tile.view<?x?xf32>, !tile.tile<4xi32> -> !tile.tile<4xf32>
}

// -----

// CHECK: the indices for !tile.tile<4xf32> must be a tile of i32 of its shape, not !tile.tile<8xi32>
tile.program @f {
^bb0(%x: !tile.view<?xf32>):
  %r = tile.range : !tile.tile<8xi32>
  %t = tile.gather %x[%r] : !tile.view<?xf32>, !tile.tile<8xi32> -> !tile.tile<4xf32>
}

// -----

// CHECK: the mask for !tile.tile<4xf32> must be a tile of i1 of its shape, not !tile.tile<4xi32>
tile.program @f {
^bb0(%x: !tile.view<?xf32>):
  %r = tile.range : !tile.tile<4xi32>
  %t = tile.gather %x[%r] mask %r : !tile.tile<4xi32> : !tile.view<?xf32>, !tile.tile<4xi32> -> !tile.tile<4xf32>
}

// -----

// CHECK: the number must have the tile's element type
tile.program @f {
^bb0(%x: f32):
  %t = tile.full %x : f32 -> !tile.tile<4xf16>
}

// -----

// CHECK: a range must have one axis of i32, not !tile.tile<4xi16>
tile.program @f {
  %t = tile.range : !tile.tile<4xi16>
}

// -----

// CHECK: !tile.tile<4xi32> and !tile.tile<8xi32> have different shapes: a map needs tiles of one shape
tile.program @f {
  %a = tile.range : !tile.tile<4xi32>
  %t = tile.map(%a) : (!tile.tile<4xi32>) -> !tile.tile<8xi32> {
  ^bb0(%x: i32):
    tile.yield %x : i32
  }
}

// -----

// CHECK: the function of {{.*}} must take ['i32']
tile.program @f {
  %a = tile.range : !tile.tile<4xi32>
  %t = tile.map(%a) : (!tile.tile<4xi32>) -> !tile.tile<4xi32> {
  ^bb0(%x: i32, %y: i32):
    tile.yield %x : i32
  }
}

// -----

// CHECK: the function must yield ['i16']
tile.program @f {
  %a = tile.range : !tile.tile<4xi32>
  %t = tile.map(%a) : (!tile.tile<4xi32>) -> !tile.tile<4xi16> {
  ^bb0(%x: i32):
    tile.yield %x : i32
  }
}

// -----

// CHECK: the operands must be matrices (2 axes), not !tile.tile<4xi32>, !tile.tile<4xi32> and !tile.tile<4xi32>
tile.program @f {
  %a = tile.range : !tile.tile<4xi32>
  %t = tile.mma %a, %a, %a : !tile.tile<4xi32>, !tile.tile<4xi32>, !tile.tile<4xi32> -> !tile.tile<4xi32>
}

// -----

// CHECK: 4x8 and 4x8 cannot be multiplied: 8 and 4 differ
tile.program @f {
^bb0(%x: f32):
  %a = tile.full %x : f32 -> !tile.tile<4x8xf32>
  %t = tile.mma %a, %a, %a : !tile.tile<4x8xf32>, !tile.tile<4x8xf32>, !tile.tile<4x8xf32> -> !tile.tile<4x8xf32>
}

// -----

// CHECK: the sum of 4x4 by 4x4 must be 4x4, not !tile.tile<4x8xf32>
tile.program @f {
^bb0(%x: f32):
  %a = tile.full %x : f32 -> !tile.tile<4x4xf32>
  %c = tile.full %x : f32 -> !tile.tile<4x8xf32>
  %t = tile.mma %a, %a, %c : !tile.tile<4x4xf32>, !tile.tile<4x4xf32>, !tile.tile<4x8xf32> -> !tile.tile<4x8xf32>
}

// -----

// CHECK: the result must be !tile.tile<4x4xf32>, not !tile.tile<4x8xf32>
tile.program @f {
^bb0(%x: f32):
  %a = tile.full %x : f32 -> !tile.tile<4x4xf32>
  %t = tile.mma %a, %a, %a : !tile.tile<4x4xf32>, !tile.tile<4x4xf32>, !tile.tile<4x4xf32> -> !tile.tile<4x8xf32>
}

// -----

// CHECK: !tile.tile<4x4xf32> and !tile.tile<4x4xf16> have different element types
tile.program @f {
^bb0(%x: f32, %y: f16):
  %a = tile.full %x : f32 -> !tile.tile<4x4xf32>
  %b = tile.full %y : f16 -> !tile.tile<4x4xf16>
  %t = tile.mma %a, %b, %a : !tile.tile<4x4xf32>, !tile.tile<4x4xf16>, !tile.tile<4x4xf32> -> !tile.tile<4x4xf32>
}

// -----

// CHECK: !tile.tile<4x4xf32>, !tile.tile<4x4xf32>, !tile.tile<4x4xi32> must not mix integers and floats
tile.program @f {
^bb0(%x: f32, %y: i32):
  %a = tile.full %x : f32 -> !tile.tile<4x4xf32>
  %c = tile.full %y : i32 -> !tile.tile<4x4xi32>
  %t = tile.mma %a, %a, %c : !tile.tile<4x4xf32>, !tile.tile<4x4xf32>, !tile.tile<4x4xi32> -> !tile.tile<4x4xi32>
}

// -----

// CHECK: !tile.tile<4xi32> has no axis 1
tile.program @f {
  %a = tile.range : !tile.tile<4xi32>
  %t = tile.reduce(%a) axis 1 : (!tile.tile<4xi32>) -> i32 {
  ^bb0(%x: i32, %y: i32):
    tile.yield %x : i32
  }
}

// -----

// CHECK: the results must be ['i32']
tile.program @f {
  %a = tile.range : !tile.tile<4xi32>
  %t = tile.reduce(%a) axis 0 : (!tile.tile<4xi32>) -> f32 {
  ^bb0(%x: i32, %y: i32):
    tile.yield %x : i32
  }
}

// -----

// CHECK: !tile.tile<4xi32> cannot become !tile.tile<8xi32>
tile.program @f {
  %a = tile.range : !tile.tile<4xi32>
  %t = tile.broadcast %a : !tile.tile<4xi32> -> !tile.tile<8xi32>
}

// -----

// CHECK: !tile.tile<4xi32> cannot become !tile.tile<8x1xi32>
tile.program @f {
  %a = tile.range : !tile.tile<4xi32>
  %t = tile.reshape %a : !tile.tile<4xi32> -> !tile.tile<8x1xi32>
}

// -----

// CHECK: !tile.tile<4x8xf32> cannot become !tile.tile<4x8xf32>
tile.program @f {
^bb0(%x: f32):
  %a = tile.full %x : f32 -> !tile.tile<4x8xf32>
  %t = tile.transpose %a : !tile.tile<4x8xf32> -> !tile.tile<4x8xf32>
}

// -----

// CHECK: a tile's sizes must be known and above 0
tile.program @f {
  %t = tile.range : !tile.tile<?xi32>
}

// -----

// CHECK: the results must be ['!tile.tile<4xi32>']
tile.program @f {
  %a = tile.range : !tile.tile<4xi32>
  %t = tile.scan(%a) axis 0 : (!tile.tile<4xi32>) -> !tile.tile<4xf32> {
  ^bb0(%x: i32, %y: i32):
    tile.yield %x : i32
  }
}

// -----

// CHECK: addf does not combine elements of i32
tile.program @f {
^bb0(%y: !tile.view<?xi32>):
  %a = tile.range : !tile.tile<4xi32>
  %t = tile.atomic addf %a, %y[%a] : !tile.tile<4xi32>, !tile.view<?xi32>, !tile.tile<4xi32> -> !tile.tile<4xi32>
}

// -----

// CHECK: f16 has no atomic operations
tile.program @f {
^bb0(%y: !tile.view<?xf16>):
  %a = tile.range : !tile.tile<4xi32>
  %zero = arith.constant 0.0 : f16
  %z = tile.full %zero : f16 -> !tile.tile<4xf16>
  %t = tile.atomic addf %z, %y[%a] : !tile.tile<4xf16>, !tile.view<?xf16>, !tile.tile<4xi32> -> !tile.tile<4xf16>
}
