"""
Elementwise operations after a product are computed on whole fragments if they do not need the
positions of components.
"""

from __future__ import annotations

import pytest
from xdsl.dialects import linalg
from xdsl.dialects.builtin import f16, f32
from xdsl.ir.affine import AffineDimExpr, AffineMap

from xdsl_spirv.passes.analysis.componentwise import (
    Home,
    MatrixAccess,
    are_stored_as_matrices,
    homes,
    is_componentwise,
    matrix_access,
)
from xdsl_spirv.passes.analysis.contraction import Contraction, contraction_of
from xdsl_spirv.passes.analysis.layout import layout_of
from xdsl_spirv.runtime.modules import parse_text
from xdsl_spirv.targets import load

BODY = """
#m = affine_map<(i, j) -> (i, j)>
func.func @main(%a: tensor<8x8xf32>, %b: tensor<8x8xf16>, %e: tensor<8x8x{type}>) {{
  %r = linalg.generic {{indexing_maps = [#m, #m, #m], iterator_types = ["parallel", "parallel"]}}
      ins(%a, %b : tensor<8x8xf32>, tensor<8x8xf16>) outs(%e : tensor<8x8x{type}>) {{
  ^bb0(%x: f32, %y: f16, %o: {type}):
    %c = arith.constant 2.0 : f32
    {code}
    linalg.yield %r : {type}
  }} -> tensor<8x8x{type}>
  return
}}
"""


def homes_of(code: str, type: str = "f32") -> dict[str | None, Home] | None:
    """
    Returns the `Home` of each value in a body, by name: the type of the matrix that holds the
    value, and whether it is held component by component. %x and %y are the body's inputs.
    """
    module = parse_text(BODY.format(code=code, type=type))
    (op,) = (op for op in module.walk() if isinstance(op, linalg.ops.GenericOp))
    found = homes(op)
    return None if found is None else {value.name_hint: home for value, home in found.items()}


def test_arithmetic_stays_on_matrices():
    found = homes_of("%w = arith.extf %y : f16 to f32\n%r = arith.addf %x, %w : f32")
    assert found == {"x": Home(f32), "y": Home(f16), "w": Home(f32), "r": Home(f32)}


def test_other_functions_are_computed_on_components():
    """After `exp`, values are held component by component, in the layout of the same matrix."""
    found = homes_of(
        "%w = math.exp %x : f32\n%v = arith.mulf %w, %c : f32\n%r = arith.addf %v, %x : f32"
    )
    assert found is not None
    assert [found[name] for name in "xwvr"] == [Home(f32), *[Home(f32, True)] * 3]


def test_a_value_of_constants_has_no_matrix():
    found = homes_of(
        "%w = arith.addf %c, %c : f32\n%v = math.exp %w : f32\n%r = arith.mulf %v, %x : f32"
    )
    assert found is not None
    assert (found["w"], found["v"]) == (Home(None), Home(None, True))


@pytest.mark.parametrize(
    ("code", "type"),
    [
        pytest.param(
            "%h = arith.negf %y : f16\n%j = arith.cmpf ogt, %y, %h : f16\n"
            "%k = arith.cmpf ogt, %x, %c : f32\n%both = arith.andi %j, %k : i1\n"
            "%r = arith.select %both, %y, %h : f16",
            "f16",
            id="components of two matrices",
        ),
        pytest.param("%r = arith.fptosi %x : f32 to i32", "i32", id="components of another type"),
        pytest.param(
            "%k = arith.fptosi %x : f32 to i32\n%r = arith.sitofp %k : i32 to f32",
            "f32",
            id="a conversion of components",
        ),
        pytest.param(
            "%i = linalg.index 0 : index\n%k = arith.index_cast %i : index to i32\n"
            "%r = arith.sitofp %k : i32 to f32",
            "f32",
            id="positions",
        ),
    ],
)
def test_values_at_other_positions_have_no_home(code: str, type: str):
    assert homes_of(code, type) is None


def test_components_of_one_matrix_select_and_compare():
    found = homes_of("%k = arith.cmpf ogt, %x, %c : f32\n%r = arith.select %k, %x, %c : f32")
    assert found is not None
    assert found["r"] == Home(f32, True)


@pytest.mark.parametrize(
    ("indices", "shape", "expected"),
    [
        ((0, 1, 2), (2, 16, 32), MatrixAccess(True, 32)),
        ((0, 2, 1), (2, 32, 16), MatrixAccess(False, 16)),
        ((1, 2, 0), (16, 32, 2), None),
        ((2,), (32,), MatrixAccess(True, 0)),
        ((1,), (16,), MatrixAccess(False, 0)),
        ((), (), None),
    ],
)
def test_fragments_need_contiguous_rows_or_columns(
    indices: tuple[int, ...], shape: tuple[int, ...], expected: MatrixAccess | None
):
    """
    The loops are a batch of 2, 16 rows and 32 columns. `indices` are the loops that index the
    tensor.
    """
    map = AffineMap(3, 0, tuple(AffineDimExpr(n) for n in indices))
    groups = [range(0, 1), range(1, 2), range(2, 3)]
    layout = layout_of(map, shape, None, [2, 16, 32], groups)
    assert matrix_access(layout, (8, 8)) == expected


@pytest.mark.parametrize(("size", "expected"), [(16, MatrixAccess(True, 7)), (12, None)])
def test_rows_of_images_are_whole_fragments(size: int, expected: MatrixAccess | None):
    """
    An image has gaps between its rows, so a fragment of 8 rows must not contain the end of an
    image.
    """
    map = AffineMap.from_callable(lambda image, row, column: (image, row, column))
    layout = layout_of(map, (2, size + 1, 7), None, [2, size, 7], [range(0), range(2), range(2, 3)])
    assert matrix_access(layout, (8, 7)) == expected


PRODUCT = """
#ij = affine_map<(i, j) -> (i, j)>
#ji = affine_map<(i, j) -> (j, i)>
#j = affine_map<(i, j) -> (j)>
!a = tensor<16x8xf16>
!b = tensor<8x{n}xf16>
!c = tensor<16x{n}xf32>
!v = tensor<{n}xf32>
!r = tensor<{shape}x{type}>

func.func @main(%A: !a, %B: !b, %V: !v) -> !r {{
  %r = schedule.dispatch(%A, %B, %V) : (!a, !b, !v) -> !r {{
  ^bb0(%a: !a, %b: !b, %bias: !v):
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : !c
    %f = linalg.fill ins(%zero : f32) outs(%e : !c) -> !c
    %p = linalg.matmul ins(%a, %b : !a, !b) outs(%f : !c) -> !c
    %er = tensor.empty() : !r
    %h = linalg.generic {{indexing_maps = [#ij, #j, {map}],
        iterator_types = ["parallel", "parallel"]}} ins(%p, %bias : !c, !v) outs(%er : !r) {{
    ^bb0(%x: f32, %y: f32, %o: {type}):
      {code}
      linalg.yield %r : {type}
    }} -> !r
    schedule.yield %h : !r
  }}
  return %r : !r
}}
"""
ADD = "%r = arith.addf %x, %y : f32"
LAVAPIPE = load("lavapipe")
SIZES = (8, 8, 8)


def build_product(
    code: str = ADD, n: int = 16, type: str = "f32", turned: bool = False
) -> Contraction:
    """Returns a product of 16 rows and `n` columns, with an epilogue."""
    shape = f"{n}x16" if turned else f"16x{n}"
    text = PRODUCT.format(code=code, n=n, type=type, shape=shape, map="#ji" if turned else "#ij")
    (op,) = (op for op in parse_text(text).walk() if isinstance(op, linalg.ops.MatmulOp))
    return contraction_of(op)


NARROW = "%s = arith.addf %x, %y : f32\n%r = arith.truncf %s : f32 to f16"
WIDE = "%s = arith.addf %x, %y : f32\n%r = arith.extf %s : f32 to f64"
INTEGER = "%r = arith.fptosi %x : f32 to i32"


def test_arithmetic_is_computed_on_fragments():
    assert is_componentwise(build_product(), SIZES, LAVAPIPE)
    assert is_componentwise(build_product(turned=True), SIZES, LAVAPIPE)
    assert is_componentwise(build_product(NARROW, type="f16"), SIZES, LAVAPIPE)
    assert not is_componentwise(build_product(WIDE, type="f64"), SIZES, LAVAPIPE), "no f64 matrices"
    assert not is_componentwise(build_product(INTEGER, type="i32"), SIZES, LAVAPIPE)


def test_every_fragment_is_aligned():
    """Rows of 10 elements of 4 bytes begin at multiples of 8, not 16 bytes."""
    assert not is_componentwise(build_product(n=10), SIZES, LAVAPIPE)
    assert is_componentwise(build_product(n=12), SIZES, LAVAPIPE)
    assert not is_componentwise(build_product(NARROW, n=12, type="f16"), SIZES, LAVAPIPE)
    assert not are_stored_as_matrices(build_product(n=10), SIZES, LAVAPIPE)


def test_long_functions_need_a_loop_over_components():
    """Without a loop, the code for an invocation's 8 components has at most 256 instructions."""

    def functions(count: int) -> str:
        steps = [f"%v{n + 1} = math.exp %v{n} : f32" for n in range(count)]
        return (
            "\n".join(["%v0 = arith.addf %x, %y : f32", *steps])
            + f"\n%r = arith.addf %v{count}, %x : f32"
        )

    assert is_componentwise(build_product(functions(1)), SIZES, LAVAPIPE)
    assert not is_componentwise(build_product(functions(2)), SIZES, LAVAPIPE), "2 x 16 + 1 is 33"


@pytest.mark.parametrize(
    ("code", "type", "expected"),
    [(ADD, "f32", True), (NARROW, "f16", True), (INTEGER, "i32", False), (WIDE, "f64", False)],
)
def test_results_are_stored_from_accumulators_of_their_type(code: str, type: str, expected: bool):
    """
    Results of the accumulator's type, or of a narrower float type, need matrices of this type.
    """
    assert are_stored_as_matrices(build_product(code, type=type), SIZES, LAVAPIPE) == expected
    assert not are_stored_as_matrices(build_product(code, type=type), (16, 16, 16), LAVAPIPE)
