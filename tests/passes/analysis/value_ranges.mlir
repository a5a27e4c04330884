// For test_value_ranges.py: the attribute `expected` is the interval of an operation's result.

#at = affine_map<(i) -> (i)>
#none = affine_map<(i) -> ()>

func.func @forwards(%x: tensor<80xi8>, %start: tensor<i64>) {
  %wide = tensor.empty() : tensor<80xi64>
  // A byte without sign, less 128: what an index adds.
  %moved = linalg.generic {indexing_maps = [#at, #at], iterator_types = ["parallel"]} ins(%x : tensor<80xi8>) outs(%wide : tensor<80xi64>) attrs = {expected = [-128, 206]} {
  ^bb0(%a: i8, %o: i64):
    %byte = arith.extui %a : i8 to i64
    %c = arith.constant 128 : i64
    %signed = arith.subi %byte, %c : i64
    %n = linalg.index 0 : index
    %i = arith.index_cast %n : index to i64
    %r = arith.addi %signed, %i : i64
    linalg.yield %r : i64
  } -> tensor<80xi64>
  %part = tensor.extract_slice %moved[8] [16] [1] {expected = [-128, 206]} : tensor<80xi64> to tensor<16xi64>
  %zero = arith.constant 0 : i64
  %e = tensor.empty() : tensor<i64>
  %z = linalg.fill {expected = [0, 0]} ins(%zero : i64) outs(%e : tensor<i64>) -> tensor<i64>
  // A sum grows by as much as its sixteen iterations add, a maximum not beyond its elements.
  %sum = linalg.generic {indexing_maps = [#at, #none], iterator_types = ["reduction"]} ins(%part : tensor<16xi64>) outs(%z : tensor<i64>) attrs = {expected = [-2048, 3296]} {
  ^bb0(%a: i64, %o: i64):
    %r = arith.addi %a, %o : i64
    linalg.yield %r : i64
  } -> tensor<i64>
  %max = linalg.generic {indexing_maps = [#at, #none], iterator_types = ["reduction"]} ins(%part : tensor<16xi64>) outs(%z : tensor<i64>) attrs = {expected = [0, 206]} {
  ^bb0(%a: i64, %o: i64):
    %r = arith.maxsi %a, %o : i64
    linalg.yield %r : i64
  } -> tensor<i64>
  return
}

func.func @declared(%x: tensor<4xi64> {program.range = [2, 9]}) {
  %seven = arith.constant 7 : i64
  %p = tensor.pad %x low[1] high[1] {
  ^bb0(%i: index):
    tensor.yield %seven : i64
  } {expected = [2, 9]} : tensor<4xi64> to tensor<6xi64>
  return
}

// An index of five rows that may count from the end.
func.func @addresses(%at: tensor<3xi64>, %rows: tensor<5xf32>) {
  %e = tensor.empty() : tensor<3xf32>
  %read = linalg.generic {indexing_maps = [#at, #at], iterator_types = ["parallel"]} ins(%at : tensor<3xi64>) outs(%e : tensor<3xf32>) {
  ^bb0(%a: i64, %o: f32):
    %zero = arith.constant 0 : i64
    %five = arith.constant 5 : i64
    %negative = arith.cmpi slt, %a, %zero : i64
    %from_end = arith.addi %a, %five : i64
    %row = arith.select %negative, %from_end, %a : i64
    %n = arith.index_cast %row : i64 to index
    %r = tensor.extract %rows[%n] : tensor<5xf32>
    linalg.yield %r : f32
  } -> tensor<3xf32>
  return
}
