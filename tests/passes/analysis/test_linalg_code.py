"""Built `linalg` and `tensor` operations compute what numpy computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.dialects import arith, linalg, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    FunctionType,
    ModuleOp,
    StringAttr,
    TensorType,
    f32,
    i8,
    i32,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineMap

from xdsl_spirv.interpreter import interpret
from xdsl_spirv.passes.analysis.linalg_code import (
    BodyCode,
    Code,
    dimension_of,
    drop_units,
    expand_dimensions,
    groups_of,
    make_body,
    make_generic,
    maps_of,
    merge_dimensions,
    merged_groups,
    pad_like,
    product_body,
    set_operand,
    split_dimension,
)
from xdsl_spirv.runtime.modules import parse_text

Write = Callable[..., SSAValue]
ELEMENTS: dict[str, Attribute] = {"float32": f32, "int32": i32, "int8": i8}


def build(write: Write, types: Sequence[Attribute]) -> ModuleOp:
    """Returns a module whose main function returns `write(code, *arguments)`."""
    block = Block(arg_types=types)
    last = ReturnOp()
    block.add_op(last)
    value = write(Code(last), *block.args)
    last.operands = [value]
    type = FunctionType.from_lists(types, [value.type])
    module = ModuleOp([FuncOp("main", type, Region(block))])
    module.verify()
    return module


def compute(write: Write, *arrays: Any) -> Any:
    """Interprets `write(code, *arguments)` on tensors of the arrays' types."""
    types = [TensorType(ELEMENTS[x.dtype.name], x.shape) for x in arrays]
    (result,) = interpret(build(write, types), list(arrays))
    return result


def numbers(*shape: int) -> Any:
    return np.arange(np.prod(shape)).reshape(shape).astype(np.float32) - 5


def test_dimensions_are_transposed():
    x = numbers(2, 3, 4)
    for order in ((2, 0, 1), (1, 2, 0), (0, 2, 1)):
        assert np.array_equal(
            compute(lambda code, v, o=order: code.transpose(v, o), x), x.transpose(order)
        )


def test_dimensions_are_split_and_merged():
    x = numbers(3, 12, 2)
    split = compute(lambda code, v: code.insert(split_dimension(v, 1, 2, 3)), x)
    assert np.array_equal(split, x.reshape(3, 2, 3, 2, 2))
    groups = [[0, 1], [2]]
    merged = compute(lambda code, v: code.insert(merge_dimensions(v, groups, [36, 2])), x)
    assert np.array_equal(merged, x.reshape(36, 2))
    wide = compute(
        lambda code, v: code.insert(expand_dimensions(v, [[0], [1, 2], [3]], [3, 4, 3, 2])), x
    )
    assert np.array_equal(wide, x.reshape(3, 4, 3, 2))


@pytest.mark.parametrize(
    ("shape", "single", "expected"),
    [
        ((1, 3, 1, 4), [0, 2], (3, 4)),
        ((3, 1, 1), [1, 2], (3,)),
        ((1, 1, 3), [0, 1], (3,)),
        ((3, 1, 4), [0, 1], None),
        ((3, 4), [], None),
        ((1, 1), [0, 1], None),
    ],
)
def test_units_that_a_map_reads_at_a_constant_are_dropped(
    shape: tuple[int, ...], single: list[int], expected: tuple[int, ...] | None
):
    """Dimensions of another size are kept, and so is the last dimension."""
    results = [
        AffineConstantExpr(0) if n in single else AffineDimExpr(n) for n in range(len(shape))
    ]
    map = AffineMap(len(shape), 0, tuple(results))
    argument = Block(arg_types=[TensorType(f32, shape)]).args[0]
    if expected is None:
        assert drop_units(argument, map) is None
        return

    def drop(code: Code, value: SSAValue) -> SSAValue:
        op = drop_units(value, map)
        assert op is not None
        return code.insert(op)

    x = numbers(*shape)
    assert np.array_equal(compute(drop, x), x.reshape(expected))


def test_groups_of_a_reshape_may_be_joined():
    argument = Block(arg_types=[TensorType(f32, [4, 6, 5])]).args[0]
    op = expand_dimensions(argument, [[0, 1], [2], [3, 4]], [2, 2, 6, 1, 5])
    groups = groups_of(op)
    assert groups == [[0, 1], [2], [3, 4]]
    assert merged_groups([0, 1, 2], groups) == [0, 1]
    assert merged_groups([3, 4], groups) == [2]
    assert merged_groups([2, 0, 1], groups) == [1, 0]
    assert merged_groups([1, 0], groups) is None
    assert merged_groups([2, 3], groups) is None
    assert merged_groups([], groups) == []


def test_a_dimension_has_one_plain_loop():
    map = AffineMap.from_callable(lambda i, j, k: (j, i + k, 2 * i))
    assert [dimension_of(map, loop) for loop in range(3)] == [None, 0, None]
    assert dimension_of(AffineMap.from_callable(lambda i: (i, i)), 0) is None


def test_tensors_are_filled():
    assert np.array_equal(compute(lambda code: code.fill([2, 3], f32, 1.5)), np.full((2, 3), 1.5))
    assert np.array_equal(compute(lambda code: code.fill([2], i32, 7)), [7, 7])
    matrix = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    assert np.array_equal(compute(lambda code: code.matrix(matrix, f32)), matrix)
    x = numbers(2, 3)
    like = compute(lambda code, v: code.fill_with(code.constant(4, f32), code.empty_like(v)), x)
    assert np.array_equal(like, np.full_like(x, 4))


def test_open_sizes_are_those_of_the_tensor():
    """
    `empty_like` has an operand for each dynamic size of the tensor, and none for static sizes.
    """
    type = TensorType(f32, [DYNAMIC_INDEX, 3])

    def write(code: Code, v: SSAValue) -> SSAValue:
        return code.fill_with(code.constant(2, f32), code.empty_like(v))

    module = build(write, [type])
    (empty,) = (op for op in module.walk() if isinstance(op, tensor.EmptyOp))
    assert len(empty.operands) == 1
    (result,) = interpret(module, [numbers(5, 3)])
    assert np.array_equal(result, np.full((5, 3), 2))
    cast = build(lambda code, v: code.cast(v, TensorType(f32, [5, 3])), [type])
    assert sum(isinstance(op, tensor.CastOp) for op in cast.walk()) == 1
    same = build(lambda code, v: code.cast(v, type), [type])
    assert not any(isinstance(op, tensor.CastOp) for op in same.walk())


def test_elementwise_operations_read_by_maps():
    x, y = numbers(2, 3), numbers(3)
    maps = [AffineMap.identity(2), AffineMap.from_callable(lambda i, j: (j,))]

    def body(b: Any, v: Sequence[SSAValue]) -> Any:
        return b.insert(arith.SubfOp(v[0], v[1]))

    result = compute(lambda code, a, b: code.elementwise([a, b], f32, body, maps), x, y)
    assert np.array_equal(result, x - y)
    plain = compute(lambda code, a, b: code.elementwise([a, b], f32, body), x, x * 3)
    assert np.array_equal(plain, x * -2)


def test_loops_that_index_no_output_are_reductions():
    """The new operation has the old one's attributes, except for the maps that MLIR caches."""
    maps = [AffineMap.identity(2), AffineMap.from_callable(lambda i, j: (i,))]
    old = arith.ConstantOp.from_int_and_width(1, 32)
    old.attributes |= {"note": StringAttr("kept"), "linalg.memoized_indexing_maps": StringAttr("")}

    def write(code: Code, x: SSAValue, s: SSAValue) -> SSAValue:
        body = make_body([f32, f32], lambda b, v: b.insert(arith.AddfOp(v[0], v[1])))
        generic = make_generic([x], s, maps, body, like=old)
        assert set(generic.attributes) == {"note"}
        return code.insert(generic)

    x, s = numbers(3, 4), numbers(3)
    assert np.array_equal(compute(write, x, s), x.sum(1) + s)


@pytest.mark.parametrize("signed", [(True, True), (False, True), (True, False), (False, False)])
def test_a_product_extends_each_factor_by_its_sign(signed: tuple[bool, bool]):
    maps = [AffineMap.from_callable(f) for f in (
        lambda m, n, k: (m, k), lambda m, n, k: (k, n), lambda m, n, k: (m, n))]  # fmt: skip

    def write(code: Code, a: SSAValue, b: SSAValue, c: SSAValue) -> SSAValue:
        return code.insert(make_generic([a, b], c, maps, product_body([i8, i8, i32], signed)))

    draw = np.random.default_rng(1)
    a, b = (draw.integers(-128, 128, s).astype(np.int8) for s in ((2, 5), (5, 3)))
    c = draw.integers(-9, 9, (2, 3)).astype(np.int32)
    wide = [
        (x if has_sign else x.view(np.uint8)).astype(np.int32)
        for x, has_sign in zip((a, b), signed, strict=True)
    ]
    assert np.array_equal(compute(write, a, b, c), wide[0] @ wide[1] + c)


def test_a_body_is_written_while_it_reads():
    """
    Each read of a body adds an input to the operation. Extending an integer to its own type adds no
    code.
    """
    identity = AffineMap.identity(1)

    def write(code: Code, small: SSAValue, large: SSAValue, out: SSAValue) -> SSAValue:
        body = BodyCode()
        a, b = body.read(small, identity), body.read(large, identity)
        assert body.extend(b, i32, True) is b
        signed, unsigned = (body.extend(a, i32, sign) for sign in (True, False))
        total = body.add(arith.MuliOp(body.add(arith.AddiOp(signed, unsigned)), b))
        last = body.add(arith.AddiOp(total, body.constant(1, i32)))
        generic = body.write(
            code, out, identity, lambda before: body.add(arith.SubiOp(last, before))
        )
        assert list(generic.inputs) == [small, large]
        return generic.results[0]

    small, large = np.array([-3, 4], np.int8), np.array([10, 100], np.int32)
    out = np.array([5, 6], np.int32)
    expected = (small.astype(int) + small.view(np.uint8)) * large + 1 - out
    assert np.array_equal(compute(write, small, large, out), expected)


PADDED = """
func.func @main(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> tensor<3x5xf32> {
  %c = arith.constant 1.0 : f32
  %p = tensor.pad %x low[1, 0] high[0, 2] {
  ^bb0(%i: index, %j: index):
    tensor.yield %c : f32
  } : tensor<2x3xf32> to tensor<3x5xf32>
  return %p : tensor<3x5xf32>
}
"""


def test_another_tensor_is_padded_alike():
    module = parse_text(PADDED)
    (function,) = (op for op in module.ops if isinstance(op, FuncOp))
    (pad,) = (op for op in module.walk() if isinstance(op, tensor.PadOp))
    last = function.body.block.last_op
    assert last is not None
    code = Code(last)
    other = pad_like(pad, function.args[1], code.constant(9, f32))
    last.operands = [code.insert(other)]
    module.verify()
    x = numbers(2, 3)
    (result,) = interpret(module, [x, x + 1])
    assert np.array_equal(result, np.pad(x + 1, ((1, 0), (0, 2)), constant_values=9))


def test_an_operand_is_replaced_with_its_indices():
    x, y = numbers(2, 3), numbers(3, 2)

    def write(code: Code, a: SSAValue, b: SSAValue) -> SSAValue:
        total = code.elementwise([a, a], f32, lambda b, v: b.insert(arith.AddfOp(v[0], v[1])))
        generic = total.owner
        assert isinstance(generic, linalg.ops.GenericOp)
        set_operand(generic, 1, b, [AffineDimExpr(1), AffineDimExpr(0)])
        assert maps_of(generic)[0] == AffineMap.identity(2)
        return total

    assert np.array_equal(compute(write, x, y), x + y.T)


def test_code_is_inserted_behind_a_value_and_erased():
    module = parse_text(PADDED)
    (function,) = (op for op in module.ops if isinstance(op, FuncOp))
    (pad,) = (op for op in module.walk() if isinstance(op, tensor.PadOp))
    before = str(module)
    for value in (pad.result, function.args[0], pad.region.block.first_op.operands[0]):  # pyright: ignore
        code = Code.open_behind(value, pad)
        number = code.insert(*[arith.ConstantOp.from_int_and_width(n, 32) for n in (1, 2)])
        first = number.owner.prev_op  # pyright: ignore
        behind = value.owner.next_op if not isinstance(value.owner, Block) else value.owner.first_op
        assert first is behind
        code.erase()
        assert str(module) == before
