// Functions for test_loops_reader.py, which states their results with numpy.

func.func @turned(%x: tensor<2x3x4xf32>) -> tensor<4x5x2x3xf32> {
  %e = tensor.empty() : tensor<4x2x3xf32>
  %t = linalg.transpose ins(%x : tensor<2x3x4xf32>) outs(%e : tensor<4x2x3xf32>) permutation = [2, 0, 1]
  %f = tensor.empty() : tensor<4x5x2x3xf32>
  %b = linalg.broadcast ins(%t : tensor<4x2x3xf32>) outs(%f : tensor<4x5x2x3xf32>) dimensions = [1]
  return %b : tensor<4x5x2x3xf32>
}

func.func @pieces(%x: tensor<6x8xf32>, %y: tensor<3x8xf32>) -> tensor<3x8xf32> {
  %open = tensor.cast %x : tensor<6x8xf32> to tensor<?x8xf32>
  %row = tensor.extract_slice %open[4, 1] [1, 3] [1, 2] : tensor<?x8xf32> to tensor<3xf32>
  %r = tensor.insert_slice %row into %y[0, 5] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x8xf32>
  return %r : tensor<3x8xf32>
}

func.func @side_by_side(%x: tensor<2x3xf32>, %y: tensor<2x1xf32>, %z: tensor<2x2xf32>) -> tensor<2x6xf32> {
  %r = tensor.concat dim(1) %x, %y, %z : (tensor<2x3xf32>, tensor<2x1xf32>, tensor<2x2xf32>) -> tensor<2x6xf32>
  return %r : tensor<2x6xf32>
}

func.func @bordered(%x: tensor<2x3xf32>) -> tensor<14x2xf32> {
  %c = arith.constant 7.0 : f32
  %p = tensor.pad %x low[1, 0] high[1, 4] {
  ^bb0(%i: index, %j: index):
    tensor.yield %c : f32
  } : tensor<2x3xf32> to tensor<4x7xf32>
  %flat = tensor.collapse_shape %p [[0, 1]] : tensor<4x7xf32> into tensor<28xf32>
  %r = tensor.expand_shape %flat [[0, 1]] output_shape [14, 2] : tensor<28xf32> into tensor<14x2xf32>
  return %r : tensor<14x2xf32>
}

func.func @sums(%x: tensor<2x3x4xf32>) -> tensor<3xf32> {
  %c = arith.constant 0.5 : f32
  %e = tensor.empty() : tensor<3xf32>
  %f = linalg.fill ins(%c : f32) outs(%e : tensor<3xf32>) -> tensor<3xf32>
  %r = linalg.reduce ins(%x : tensor<2x3x4xf32>) outs(%f : tensor<3xf32>) dimensions = [0, 2]
    (%a: f32, %t: f32) {
      %s = arith.addf %a, %t : f32
      linalg.yield %s : f32
    }
  return %r : tensor<3xf32>
}

func.func @constants(%v: f32) -> tensor<2x2xf32> {
  %d = arith.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %two = arith.constant 2.0 : f32
  %s = tensor.splat %two : tensor<2x2xf32>
  %e = tensor.empty() : tensor<2x2xf32>
  %r = linalg.add ins(%d, %s : tensor<2x2xf32>, tensor<2x2xf32>) outs(%e : tensor<2x2xf32>) -> tensor<2x2xf32>
  return %r : tensor<2x2xf32>
}

func.func @windows(%x: tensor<7xf32>, %w: tensor<3xf32>, %s: tensor<5xf32>) -> tensor<5xf32> {
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i + j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%x, %w : tensor<7xf32>, tensor<3xf32>) outs(%s : tensor<5xf32>) {
  ^bb0(%a: f32, %b: f32, %t: f32):
    %p = arith.mulf %a, %b : f32
    %q = arith.addf %t, %p : f32
    linalg.yield %q : f32
  } -> tensor<5xf32>
  return %r : tensor<5xf32>
}

// Buffers are written through views; %x is read before and after it is written.
func.func @buffers(%x: memref<4x6xf32>, %y: memref<24xf32>, %z: memref<2x3xf32>, %w: memref<2x2xf32>, %unused: memref<4xf32>) {
  %zero = arith.constant 0.0 : f32
  %c = arith.constant 9.0 : f32
  %local = memref.alloc() : memref<4x6xf32>
  "linalg.copy"(%x, %local) <{operandSegmentSizes = array<i32: 1, 1>}> ({
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  }) : (memref<4x6xf32>, memref<4x6xf32>) -> ()
  %flat = memref.collapse_shape %local [[0, 1]] : memref<4x6xf32> into memref<24xf32>
  "memref.copy"(%flat, %y) : (memref<24xf32>, memref<24xf32>) -> ()
  %part = memref.subview %x[1, 0] [2, 3] [2, 2] : memref<4x6xf32> to memref<2x3xf32, strided<[12, 2], offset: 6>>
  "memref.copy"(%z, %part) : (memref<2x3xf32>, memref<2x3xf32, strided<[12, 2], offset: 6>>) -> ()
  linalg.fill ins(%c : f32) outs(%z : memref<2x3xf32>)
  %open = "memref.cast"(%w) : (memref<2x2xf32>) -> memref<?x2xf32>
  %four = memref.collapse_shape %open [[0, 1]] : memref<?x2xf32> into memref<?xf32>
  linalg.fill ins(%c : f32) outs(%four : memref<?xf32>)
  %row = memref.subview %w[1, 0] [1, 2] [1, 1] : memref<2x2xf32> to memref<2xf32, strided<[1], offset: 2>>
  linalg.fill ins(%zero : f32) outs(%row : memref<2xf32, strided<[1], offset: 2>>)
  return
}

// Refused

func.func @computed_padding(%x: tensor<2x3xf32>) -> tensor<3x3xf32> {
  %p = tensor.pad %x low[1, 0] high[0, 0] {
  ^bb0(%i: index, %j: index):
    %n = arith.index_cast %i : index to i32
    %v = arith.sitofp %n : i32 to f32
    tensor.yield %v : f32
  } : tensor<2x3xf32> to tensor<3x3xf32>
  return %p : tensor<3x3xf32>
}

func.func @cropped(%x: tensor<4x3xf32>) -> tensor<3x3xf32> {
  %c = arith.constant 7.0 : f32
  %p = tensor.pad %x low[-1, 0] high[0, 0] {
  ^bb0(%i: index, %j: index):
    tensor.yield %c : f32
  } : tensor<4x3xf32> to tensor<3x3xf32>
  return %p : tensor<3x3xf32>
}

func.func @slice_by_data(%x: tensor<8xf32>, %places: tensor<1xindex>) -> tensor<2xf32> {
  %zero = arith.constant 0 : index
  %at = tensor.extract %places[%zero] : tensor<1xindex>
  %r = tensor.extract_slice %x[%at] [2] [1] : tensor<8xf32> to tensor<2xf32>
  return %r : tensor<2xf32>
}

func.func @open_stride(%x: tensor<8xf32>, %by: index) -> tensor<2xf32> {
  %r = tensor.extract_slice %x[0] [2] [%by] : tensor<8xf32> to tensor<2xf32>
  return %r : tensor<2xf32>
}

func.func @diagonal(%x: tensor<4x4xf32>, %r: tensor<7xf32>) -> tensor<7xf32> {
  %s = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i + j)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x4xf32>) outs(%r : tensor<7xf32>) {
  ^bb0(%a: f32, %t: f32):
    linalg.yield %a : f32
  } -> tensor<7xf32>
  return %s : tensor<7xf32>
}

func.func @last_one_stays(%x: tensor<4x4xf32>, %r: tensor<4xf32>) -> tensor<4xf32> {
  %s = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x4xf32>) outs(%r : tensor<4xf32>) {
  ^bb0(%a: f32, %t: f32):
    linalg.yield %a : f32
  } -> tensor<4xf32>
  return %s : tensor<4xf32>
}

func.func @reduced_rows(%x: tensor<4x4xf32>, %r: tensor<4xf32>) -> tensor<4xf32> {
  %s = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["reduction", "reduction"]} ins(%x : tensor<4x4xf32>) outs(%r : tensor<4xf32>) {
  ^bb0(%a: f32, %t: f32):
    linalg.yield %a : f32
  } -> tensor<4xf32>
  return %s : tensor<4xf32>
}

func.func @foreign(%x: f32) -> tensor<2xf32> {
  %r = tensor.from_elements %x, %x : tensor<2xf32>
  return %r : tensor<2xf32>
}

func.func @copy_to_floats(%x: memref<4xf16>, %y: memref<4xf32>) {
  "linalg.copy"(%x, %y) <{operandSegmentSizes = array<i32: 1, 1>}> ({
  ^bb0(%a: f16, %b: f32):
    %c = arith.extf %a : f16 to f32
    linalg.yield %c : f32
  }) : (memref<4xf16>, memref<4xf32>) -> ()
  return
}
