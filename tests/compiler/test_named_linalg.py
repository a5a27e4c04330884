"""MLIR 22's named `linalg` operations, scalar arguments and unusual types compile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.linalg import ops
from xdsl.ir import Operation

from xdsl_spirv.compiler.compiler import compile_module
from xdsl_spirv.interpreter import InterpreterError, interpret
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.execution import run
from xdsl_spirv.runtime.modules import context, parse_text

F = "tensor<8xf32>"
UNARY: dict[str, Callable[[Any], Any]] = {
    "abs": np.abs, "ceil": np.ceil, "floor": np.floor, "negf": np.negative, "square": np.square,
    "reciprocal": np.reciprocal, "rsqrt": lambda x: 1 / np.sqrt(x), "tanh": np.tanh,
    "exp": np.exp, "log": np.log, "sqrt": np.sqrt,
}  # fmt: skip
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "powf": np.power,
    "max": np.maximum, "min": np.minimum,
}  # fmt: skip
SIGNED = {"max": "max_signed", "min": "min_signed"}
"""Names of signed operations in `linalg.elementwise`."""


def all_kinds() -> str:
    """Returns a function with each operation, written as `linalg.NAME` or `linalg.elementwise`."""
    lines: list[str] = []
    for number, name in enumerate([*UNARY, *BINARY]):
        operands, types = ("%x", F) if name in UNARY else ("%x, %y", f"{F}, {F}")
        kind = SIGNED.get(name, name)
        by_kind = f"elementwise kind=#linalg.elementwise_kind<{kind}>"
        lines.append(
            f"%r{number} = linalg.{by_kind if number % 2 else name} "
            f"ins({operands} : {types}) outs(%e : {F}) -> {F}"
        )
    results = ", ".join(f"%r{n}" for n in range(len(lines)))
    kinds = ", ".join([F] * len(lines))
    body = "\n".join(lines)
    return f"""
    func.func @main(%x: {F}, %y: {F}) -> ({kinds}) {{
      %e = tensor.empty() : {F}
      {body}
      return {results} : {kinds}
    }}"""


def test_every_elementwise_operation():
    x, y = np.random.default_rng(0).uniform(0.5, 2, (2, 8)).astype(np.float32)
    wanted = [f(x) for f in UNARY.values()] + [f(x, y) for f in BINARY.values()]
    for got, expected in zip(interpret(parse_text(all_kinds()), [x, y]), wanted, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-6)
    results = run(compile_module(parse_text(all_kinds()), "lavapipe"), {"x": x, "y": y})
    for got, expected in zip(results.values(), wanted, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5)


TRUTHS = """
func.func @main(%x: tensor<4xi1>, %y: tensor<4xi1>) -> (tensor<4xi1>, tensor<4xi1>) {
  %e = tensor.empty() : tensor<4xi1>
  %or = linalg.add ins(%x, %y : tensor<4xi1>, tensor<4xi1>) outs(%e : tensor<4xi1>) -> tensor<4xi1>
  %differ = linalg.map { arith.addi } ins(%x, %y : tensor<4xi1>, tensor<4xi1>)
      outs(%e : tensor<4xi1>)
  return %or, %differ : tensor<4xi1>, tensor<4xi1>
}"""


def test_one_bit_is_added_modulo_2():
    """`arith.addi` of i1 is addition modulo 2. MLIR defines `linalg.add` of i1 as `or`."""
    x, y = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    both = run(compile_module(parse_text(TRUTHS), "lavapipe"), {"x": x, "y": y}).values()
    for results in (both, interpret(parse_text(TRUTHS), [x, y])):
        for got, expected in zip(results, (x | y, x ^ y), strict=True):
            np.testing.assert_array_equal(got, expected)


def test_a_product_of_truth_values_sums_with_or():
    text = """
    func.func @main(%a: tensor<3x5xi1>, %b: tensor<5x4xi1>, %c: tensor<3x4xi1>) -> tensor<3x4xi1> {
      %r = linalg.matmul ins(%a, %b : tensor<3x5xi1>, tensor<5x4xi1>) outs(%c : tensor<3x4xi1>)
        -> tensor<3x4xi1>
      return %r : tensor<3x4xi1>
    }"""
    numbers = np.random.default_rng(1)
    a, b, c = (numbers.random(sizes) < 0.5 for sizes in ((3, 5), (5, 4), (3, 4)))
    wanted = c | (a.astype(int) @ b.astype(int) > 0)
    assert (wanted != c ^ (a.astype(int) @ b.astype(int) % 2 > 0)).any()
    compiled = run(compile_module(parse_text(text), "lavapipe"), {"a": a, "b": b, "c": c})
    for got in (*compiled.values(), *interpret(parse_text(text), [a, b, c])):
        np.testing.assert_array_equal(got, wanted)


TILED = """
func.func @main(%x: tensor<7x9xf32>, %pad: f32) -> (tensor<3x2x4x4xf32>, tensor<7x9xf32>) {
  %e = tensor.empty() : tensor<3x2x4x4xf32>
  %p = linalg.pack %x padding_value(%pad : f32) outer_dims_perm = [1, 0] inner_dims_pos = [1, 0]
      inner_tiles = [4, 4] into %e : tensor<7x9xf32> -> tensor<3x2x4x4xf32>
  %w = tensor.empty() : tensor<7x9xf32>
  %z = linalg.softmax dimension(1) ins(%x : tensor<7x9xf32>) outs(%w : tensor<7x9xf32>)
      -> tensor<7x9xf32>
  return %p, %z : tensor<3x2x4x4xf32>, tensor<7x9xf32>
}"""


def pack_tiles(x: Array, padding: float) -> Array:
    whole = np.pad(x, [(0, 1), (0, 3)], constant_values=padding)
    return whole.reshape(2, 4, 3, 4).transpose(2, 0, 3, 1)


def test_pack_and_softmax():
    x = np.random.default_rng(1).standard_normal((7, 9)).astype(np.float32)
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    wanted = pack_tiles(x, 2.5), powers / powers.sum(axis=1, keepdims=True)
    inputs = {"x": x, "pad": np.float32(2.5)}
    compiled = run(compile_module(parse_text(TILED), "nvidia-h200"), inputs).values()
    for results in (compiled, interpret(parse_text(TILED), [x, np.array(2.5, np.float32)])):
        for got, expected in zip(results, wanted, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-5)


UNPACKED = """
func.func @main(%x: tensor<3x2x4x4xf32>) -> tensor<7x9xf32> {
  %e = tensor.empty() : tensor<7x9xf32>
  %r = linalg.unpack %x outer_dims_perm = [1, 0] inner_dims_pos = [1, 0] inner_tiles = [4, 4]
      into %e : tensor<3x2x4x4xf32> -> tensor<7x9xf32>
  return %r : tensor<7x9xf32>
}"""


def test_unpack_undoes_pack():
    x = np.random.default_rng(1).standard_normal((7, 9)).astype(np.float32)
    (got,) = run(compile_module(parse_text(UNPACKED), "lavapipe"), {"x": pack_tiles(x, 0)}).values()
    np.testing.assert_array_equal(got, x)
    (got,) = interpret(parse_text(UNPACKED), [pack_tiles(x, 0)])
    np.testing.assert_array_equal(got, x)


SCALARS = {"f16": np.float16, "f32": np.float32, "i8": np.int8, "i32": np.int32, "i64": np.int64}


@pytest.mark.parametrize("element", SCALARS)
def test_scalar_arguments_are_inputs(element: str):
    t, kind = f"tensor<8x{element}>", "f" if element[0] == "f" else "i"
    text = f"""
    func.func @main(%c: {element}, %x: {t}, %s: {element}) -> ({t}, {t}, {t}) {{
      %e = tensor.empty() : {t}
      %full = linalg.fill ins(%s : {element}) outs(%e : {t}) -> {t}
      %more = linalg.mul ins(%x, %c : {t}, {element}) outs(%e : {t}) -> {t}
      %inside = linalg.generic {{indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
          iterator_types = ["parallel"]}} ins(%x : {t}) outs(%e : {t}) {{
      ^bb0(%v: {element}, %o: {element}):
        %p = arith.mul{kind} %v, %s : {element}
        %q = arith.add{kind} %p, %c : {element}
        linalg.yield %q : {element}
      }} -> {t}
      return %full, %more, %inside : {t}, {t}, {t}
    }}"""
    dtype = SCALARS[element]
    x, s, c = np.arange(8, dtype=dtype), dtype(3), dtype(-2)
    wanted = np.full(8, 3), x * c, x * s + c
    compiled = run(compile_module(parse_text(text), "lavapipe"), {"c": c, "x": x, "s": s}).values()
    for results in (compiled, interpret(parse_text(text), [np.array(c), x, np.array(s)])):
        for got, expected in zip(results, wanted, strict=True):
            np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("element", SCALARS)
def test_scalar_results_are_outputs(element: str):
    """Results come from a tensor, an argument, a constant, arithmetic, a sum and a loop."""
    t, kind = f"tensor<4x{element}>", "f" if element[0] == "f" else "i"
    five = "5.0" if kind == "f" else "5"
    text = f"""
    func.func @main(%x: {t}, %s: {element}) -> ({", ".join([element] * 6)}) {{
      %two = arith.constant 2 : index
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c4 = arith.constant 4 : index
      %k = arith.constant {five} : {element}
      %taken = tensor.extract %x[%two] : {t}
      %p = arith.mul{kind} %taken, %s : {element}
      %q = arith.add{kind} %p, %k : {element}
      %e = tensor.empty() : tensor<{element}>
      %i = linalg.fill ins(%k : {element}) outs(%e : tensor<{element}>) -> tensor<{element}>
      %d = linalg.dot ins(%x, %x : {t}, {t}) outs(%i : tensor<{element}>) -> tensor<{element}>
      %dot = tensor.extract %d[] : tensor<{element}>
      %loop = scf.for %n = %c0 to %c4 step %c1 iter_args(%a = %k) -> ({element}) {{
        %v = tensor.extract %x[%n] : {t}
        %b = arith.add{kind} %a, %v : {element}
        scf.yield %b : {element}
      }}
      return %taken, %s, %k, %q, %dot, %loop : {", ".join([element] * 6)}
    }}"""
    dtype = SCALARS[element]
    x, s = np.arange(4, dtype=dtype), dtype(3)
    wanted = [2, 3, 5, 11, 19, 11]
    compiled = run(compile_module(parse_text(text), "lavapipe"), {"x": x, "s": s}).values()
    for results in (compiled, interpret(parse_text(text), [x, np.array(s)])):
        for got, expected in zip(results, wanted, strict=True):
            np.testing.assert_array_equal(got, np.array(expected, dtype))


PRODUCTS = {
    "dot": ("8", "8", ""), "matvec": ("3x8", "8", "3"), "vecmat": ("8", "8x5", "5"),
    "matmul": ("3x8", "8x5", "3x5"),
}  # fmt: skip
STARTS = {
    "constant": "%c = linalg.fill ins(%k : {element}) outs(%e : {t}) -> {t}",
    "row": "%c = linalg.broadcast ins(%row : {row}) outs(%e : {t}) dimensions = [{axes}]",
    "argument": "",
}


@pytest.mark.parametrize("element", SCALARS)
@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("target", ["lavapipe", "nvidia-h200"])
def test_sums_begin_at_any_value(name: str, element: str, target: str):
    shapes = [[int(size) for size in part.split("x") if size] for part in PRODUCTS[name]]
    a, b, t = (f"tensor<{''.join(f'{size}x' for size in shape)}{element}>" for shape in shapes)
    row = f"tensor<{''.join(f'{size}x' for size in shapes[2][-1:])}{element}>"
    axes = "0" if len(shapes[2]) == 2 else ""
    rng = np.random.default_rng(len(name))
    x, y, r, c = (
        rng.integers(-2, 3, shape).astype(SCALARS[element])
        for shape in (*shapes[:2], shapes[2][-1:], shapes[2])
    )
    wanted = {"constant": x @ y + 3, "row": x @ y + r, "argument": x @ y + c}
    for start, form in STARTS.items():
        line = form.format(element=element, row=row, t=t, axes=axes)
        given = "%unused" if line else "%c"
        text = f"""
        func.func @main(%x: {a}, %y: {b}, %row: {row}, {given}: {t}) -> {t} {{
          %k = arith.constant {"3.0" if element[0] == "f" else "3"} : {element}
          %e = tensor.empty() : {t}
          {line}
          %r = linalg.{name} ins(%x, %y : {a}, {b}) outs(%c : {t}) -> {t}
          return %r : {t}
        }}"""
        inputs = {"x": x, "y": y, "row": r, given[1:]: c}
        (compiled,) = run(compile_module(parse_text(text), target), inputs).values()
        (interpreted,) = interpret(parse_text(text), [x, y, r, c])
        for got in (compiled, interpreted):
            np.testing.assert_array_equal(got, wanted[start].astype(SCALARS[element]), start)


RANKS = """
func.func @main(%x: tensor<f32>) -> (tensor<1x1xf32>, tensor<f32>) {
  %a = tensor.expand_shape %x [] output_shape [1, 1] : tensor<f32> into tensor<1x1xf32>
  %e = tensor.empty() : tensor<1x1xf32>
  %r = scf.forall (%i) in (1) shared_outs(%o = %e) -> (tensor<1x1xf32>) {
    %d = linalg.add ins(%a, %a : tensor<1x1xf32>, tensor<1x1xf32>)
        outs(%e : tensor<1x1xf32>) -> tensor<1x1xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %d into %o[%i, 0] [1, 1] [1, 1]
          : tensor<1x1xf32> into tensor<1x1xf32>
    }
  } {mapping = [#gpu.thread<linear_dim_0>]}
  %c = tensor.collapse_shape %r [] : tensor<1x1xf32> into tensor<f32>
  return %r, %c : tensor<1x1xf32>, tensor<f32>
}"""


def test_no_dimensions_are_expanded_and_mappings_kept():
    module = parse_text(RANKS)
    assert str(parse_text(str(module))) == str(module)
    compiled = run(compile_module(parse_text(RANKS), "lavapipe"), {"x": np.float32(2)}).values()
    for results in (compiled, interpret(module, [np.array(2, np.float32)])):
        for got, shape in zip(results, [(1, 1), ()], strict=True):
            np.testing.assert_array_equal(got, np.full(shape, 4, np.float32))
    with pytest.raises(ProgramError, match="should have only sizes of 1"):
        parse_text(RANKS.replace("1x1", "2x1").replace("output_shape [1", "output_shape [2"))


WITHOUT_KERNELS = {"i65": "64 bits or fewer", "i128": "64 bits or fewer", "complex<f32>": "real"}
FORMS = {
    "map": "linalg.map {{ {add} }} ins(%x, %x : {t}, {t}) outs(%e : {t})",
    "fill": "linalg.fill ins(%n : {element}) outs(%e : {t}) -> {t}",
    "product": "linalg.matmul ins(%x, %x : {t}, {t}) outs(%e : {t}) -> {t}",
    "transpose": "linalg.transpose ins(%x : {t}) outs(%e : {t}) permutation = [1, 0]",
}


@pytest.mark.parametrize("element", WITHOUT_KERNELS)
@pytest.mark.parametrize("form", FORMS)
def test_types_without_kernels_are_refused(element: str, form: str):
    add, remedy = "complex.add" if "complex" in element else "arith.addi", WITHOUT_KERNELS[element]
    t = f"tensor<4x4x{element}>"
    text = f"""
    func.func @main(%x: {t}, %n: {element}) -> {t} {{
      %e = tensor.empty() : {t}
      %r = {FORMS[form].format(add=add, element=element, t=t)}
      return %r : {t}
    }}"""
    with pytest.raises(ProgramError, match=remedy):
        compile_module(parse_text(text), "lavapipe")


def test_parsed_operations_have_the_classes_of_xdsl():
    """A pattern on xDSL's `linalg.MatmulOp` matches the parsed operation."""
    ctx = context()
    for op in vars(ops).values():
        name = getattr(op, "name", "")
        if isinstance(op, type) and issubclass(op, Operation) and name.startswith("linalg."):
            known = ctx.get_optional_op(name)
            assert known is not None, name
            assert issubclass(known, op) or name == "linalg.generic"


UNPACKED_OPEN = """
func.func @main(%x: tensor<?x4xf32>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %n = tensor.dim %x, %c0 : tensor<?x4xf32>
  %m = arith.addi %n, %c4 : index
  %e = tensor.empty(%m) : tensor<?xf32>
  %p = linalg.unpack %x inner_dims_pos = [0] inner_tiles = [4] into %e
      : tensor<?x4xf32> -> tensor<?xf32>
  return %p : tensor<?xf32>
}"""
SUMS_OPEN = """
func.func @main(%x: tensor<?xf32>, %w: tensor<3xf32>, %like: tensor<?xf32>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %like, %c0 : tensor<?xf32>
  %z = arith.constant 0.0 : f32
  %e = tensor.empty(%n) : tensor<?xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  %p = linalg.conv_1d ins(%x, %w : tensor<?xf32>, tensor<3xf32>) outs(%f : tensor<?xf32>)
      -> tensor<?xf32>
  return %p : tensor<?xf32>
}"""
OPEN_OUTPUTS = {
    "unpack": (UNPACKED_OPEN, [[(2, 4)]], [[(1, 4)]]),
    "convolution": (SUMS_OPEN, [[(8,), (3,), (6,)], [(8,), (3,), (5,)]], [[(8,), (3,), (7,)]]),
}


@pytest.mark.parametrize("name", OPEN_OUTPUTS)
def test_an_output_of_another_size_is_refused(name: str):
    """The program refuses the size before it runs. The interpreter's error names both sizes."""
    text, right, wrong = OPEN_OUTPUTS[name]
    program = compile_module(parse_text(text), "lavapipe")
    for shapes in [*right, *wrong]:
        given = [np.arange(np.prod(shape), dtype=np.float32).reshape(shape) for shape in shapes]
        inputs: dict[str, Array] = dict(zip(("x", "w", "like"), given, strict=False))
        if shapes in wrong:
            with pytest.raises(ProgramError):
                run(program, inputs)
            with pytest.raises(InterpreterError, match=r"gives 4 .* has 5|to 8, .* has 8"):
                interpret(parse_text(text), given)
            continue
        (found,), (expected,) = run(program, inputs).values(), interpret(parse_text(text), given)
        np.testing.assert_array_equal(found, expected)


def test_a_scalar_is_transposed():
    text = """
    func.func @main(%x: tensor<f32>, %e: tensor<f32>) -> tensor<f32> {
      %r = linalg.transpose ins(%x : tensor<f32>) outs(%e : tensor<f32>) permutation = []
      return %r : tensor<f32>
    }"""
    x = np.array(2, np.float32)
    (result,) = interpret(parse_text(text), [x, x])
    assert result.shape == ()
    assert result == 2
