"""
Random contractions of few rows give numpy's results on the interpreter and on lavapipe.

Either operand may have few rows, and may be contiguous along K or not. Sizes may be odd and
dynamic. An initial value, a bias and a residual may follow. Weights may be packed.

Covers: kernel/rows_code, kernel/unit_sums, schedule/rows_candidates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pytest
from xdsl.utils.exceptions import DiagnosticException

from xdsl_spirv.compiler.compiler import compile_module
from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.runtime.elements import Array, dtype_of
from xdsl_spirv.runtime.execution import run
from xdsl_spirv.runtime.modules import parse_text
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.testing.dispatches import Dispatch

if TYPE_CHECKING:
    from tests.conftest import CheckBinaries, DispatchOf, RunOnLavapipe

QUICK, MANY, ON_LAVAPIPE = 12, 200, 6
T = TypeVar("T")

TYPES = (("f32", "f32"), ("f16", "f32"), ("f16", "f16"), ("bf16", "f32"), ("i8", "i32"))
TARGETS = ("lavapipe", "nvidia-h200", "amd-rdna4", "qualcomm-adreno")


@dataclass(frozen=True)
class Product:
    """result[m, n] = sum over k of x[m, k] * w[n, k], and its epilogue."""

    m: int
    n: int
    k: int
    types: tuple[str, str]
    across: bool
    """True if w is stored as k x n."""
    swapped: bool
    """True if the result is n x m."""
    opened: str
    """Names of dynamic sizes."""
    init: bool
    fused: bool

    @staticmethod
    def random(seed: int) -> Product:
        rng = np.random.default_rng(seed)

        def pick(*choices: T) -> T:
            return choices[int(rng.integers(len(choices)))]

        m = pick(1, 1, 1, 2, 3, 5, 8, 13, 32)
        n = max(4 * m, pick(1, 7, 32, 48, 64, 129, 200))
        types = TYPES[int(rng.integers(len(TYPES)))]
        opened = pick("", "", "", "k", "n", "nk")
        fused = types == ("f32", "f32") and pick(True, False)
        k = pick(1, 5, 16, 64, 72, 100, 256, 513)
        across, swapped, init = (pick(True, False) for _ in range(3))
        return Product(m, n, k, types, across, swapped, opened, init, fused)

    @property
    def shapes(self) -> dict[str, tuple[str, ...]]:
        """Returns the dimensions of all tensors."""
        w = "kn" if self.across else "nk"
        out = "nm" if self.swapped else "mn"
        return {"x": tuple("mk"), "w": tuple(w), "c": tuple(out), "b": ("n",)}

    def type(self, name: str, element: str) -> str:
        sizes = ["?" if d in self.opened else str(getattr(self, d)) for d in self.shapes[name]]
        return f"tensor<{'x'.join([*sizes, element])}>"

    def text(self) -> str:
        element, total = self.types
        x, w = self.type("x", element), self.type("w", element)
        out, row = self.type("c", total), self.type("b", total)
        places = ", ".join(self.shapes["c"])
        maps = [f"affine_map<(m, n, k) -> ({', '.join(self.shapes[t])})>" for t in "xwc"]
        zero = "0.0" if total[0] in "fb" else "0"
        open_n = ", ".join(["%size"] if "n" in self.opened else [])
        arguments = [f"%x: {x}", f"%w: {w}"]
        arguments += [f"%c: {out}"] * self.init + [f"%b: {row}", f"%d: {out}"] * self.fused
        begin = f"""%z = arith.constant {zero} : {total}
          %f = linalg.fill ins(%z : {total}) outs(%e : {out}) -> {out}"""
        return f"""
        func.func @main({", ".join(arguments)}) -> {out} {{
          %at = arith.constant {1 if self.across else 0} : index
          {f"%size = tensor.dim %w, %at : {w}" if open_n else ""}
          %e = tensor.empty({open_n}) : {out}
          {"" if self.init else begin}
          %r = linalg.generic {{
            indexing_maps = [{", ".join(maps)}],
            iterator_types = ["parallel", "parallel", "reduction"]
          }} ins(%x, %w : {x}, {w}) outs({"%c" if self.init else "%f"} : {out}) {{
          ^bb0(%p: {element}, %q: {element}, %a: {total}):
            {self._body()}
            linalg.yield %s : {total}
          }} -> {out}
          {self._fusion_text(places, out, row) if self.fused else ""}
          return {"%o" if self.fused else "%r"} : {out}
        }}"""

    def _body(self) -> str:
        element, total = self.types
        kind = "i" if total[0] == "i" else "f"
        extend = f"arith.ext{'si' if kind == 'i' else 'f'}"
        lines = [f"%{n}w = {extend} %{n} : {element} to {total}" for n in "pq" if element != total]
        p, q = ("%p", "%q") if element == total else ("%pw", "%qw")
        lines += [f"%m = arith.mul{kind} {p}, {q} : {total}"]
        lines += [f"%s = arith.add{kind} %a, %m : {total}"]
        return "\n".join(lines)

    def _fusion_text(self, places: str, out: str, row: str) -> str:
        here = f"affine_map<(m, n) -> ({places})>"
        return f"""%o = linalg.generic {{
            indexing_maps = [{here}, affine_map<(m, n) -> (n)>, {here}, {here}],
            iterator_types = ["parallel", "parallel"]
          }} ins(%r, %b, %d : {out}, {row}, {out}) outs(%e : {out}) {{
          ^bb0(%p: f32, %q: f32, %t: f32, %u: f32):
            %s = arith.addf %p, %q : f32
            %zero = arith.constant 0.0 : f32
            %y = arith.maximumf %s, %zero : f32
            %v = arith.addf %y, %t : f32
            linalg.yield %v : f32
          }} -> {out}"""

    def inputs(self, program: Program, seed: int) -> dict[str, Array]:
        """Returns small integers, whose sums are exact in every type."""
        rng = np.random.default_rng(seed)
        names = "xw" + "c" * self.init + "bd" * self.fused
        shapes = [self.shapes["c" if name == "d" else name] for name in names]
        return {
            buffer.name: rng.integers(-2, 3, [getattr(self, d) for d in shape]).astype(
                dtype_of(buffer.type)
            )
            for buffer, shape in zip(program.manifest.inputs, shapes, strict=True)
        }

    def compute_expected(self, inputs: dict[str, Any]) -> Array:
        x, w, *rest = (array.astype(np.float64) for array in inputs.values())
        result = x @ (w if self.across else w.T)
        if self.swapped:
            result = result.T
        if self.init:
            result = result + rest.pop(0)
        if self.fused:
            bias, residual = rest
            bias = bias[:, None] if self.swapped else bias
            result = np.maximum(result + bias, 0) + residual
        return result


def compile_product(product: Product, target: str) -> Program:
    return compile_module(parse_text(product.text()), target)


@pytest.mark.parametrize(
    "seed", [pytest.param(n, marks=[pytest.mark.long] * (n >= QUICK)) for n in range(MANY)]
)
def test_random_products_are_right_on_the_interpreter(seed: int, check_binaries: CheckBinaries):
    product, target = Product.random(seed), TARGETS[seed % len(TARGETS)]
    program = compile_product(product, target)
    check_binaries(program)
    inputs = product.inputs(program, seed)
    (result,) = run(program, inputs, checks=Checks.all(stop=True)).values()
    assert np.array_equal(result, product.compute_expected(inputs)), (product, target)
    if product.m <= 8:
        assert [layer.path for layer in program.layers] == ["rows"], product


@pytest.mark.parametrize(("element", "grid"), [("f16", (1, 16, 1)), ("i8", (2, 16, 1))])
def test_an_invocation_may_compute_several_sums(element: str, grid: tuple[int, int, int]):
    total = "i32" if element == "i8" else "f32"
    product = Product(8, 512, 8, (element, total), True, False, "", False, False)
    program = compile_product(product, "lavapipe")
    (launch,) = program.manifest.dispatches
    assert launch.grid == grid
    inputs = product.inputs(program, 0)
    (result,) = run(program, inputs).values()
    assert np.array_equal(result, product.compute_expected(inputs))


CONVOLUTION = """
!x = tensor<{n}x{c}x{h}x{w}x{t}>
!p = tensor<{n}x{c}x{ph}x{pw}x{t}>
!f = tensor<{f}x{c}x3x3x{t}>
!o = tensor<{n}x{f}x{y}x{z}x{r}>
func.func @main(%x: !x, %f: !f) -> !o {{
  %fill = arith.constant {fill} : {t}
  %p = tensor.pad %x low[0, 0, {top}, {left}] high[0, 0, {bottom}, {right}] {{
  ^bb0(%a: index, %b: index, %d: index, %e: index):
    tensor.yield %fill : {t}
  }} : !x to !p
  %zero = arith.constant {zero} : {r}
  %empty = tensor.empty() : !o
  %i = linalg.fill ins(%zero : {r}) outs(%empty : !o) -> !o
  %o = linalg.conv_2d_nchw_fchw {{
    dilations = dense<{dilation}> : tensor<2xi64>, strides = dense<{stride}> : tensor<2xi64>
  }} ins(%p, %f : !p, !f) outs(%i : !o) -> !o
  return %o : !o
}}"""


@pytest.mark.parametrize("seed", range(QUICK))
def test_padded_images_are_read_in_place(seed: int):
    rng = np.random.default_rng(seed)
    n, c, h, w, f = (int(rng.integers(1, most)) for most in (3, 6, 9, 40, 40))
    stride, dilation = (int(rng.integers(1, 3)) for _ in range(2))
    top, left, bottom, right = (int(rng.integers(2, 4)) for _ in range(4))
    padded_sizes = h + top + bottom, w + left + right
    y, z = ((size - 2 * dilation - 1) // stride + 1 for size in padded_sizes)
    t, r, fill, zero = (("f32", "f32", "0.0", "0.0"), ("i16", "i32", "7", "0"))[seed % 2]
    fields: dict[str, Any] = {
        "n": n,
        "c": c,
        "h": h,
        "w": w,
        "f": f,
        "y": y,
        "z": z,
        "t": t,
        "r": r,
    }
    fields |= {"top": top, "left": left, "bottom": bottom, "right": right, "fill": fill}
    fields |= {"stride": stride, "dilation": dilation, "zero": zero}
    fields |= dict(zip(("ph", "pw"), padded_sizes, strict=True))
    program = compile_module(parse_text(CONVOLUTION.format(**fields)), "lavapipe")
    assert {layer.path for layer in program.layers} <= {"rows", "loops"}
    names = [buffer.name for buffer in program.manifest.inputs]
    dtype = np.float32 if t == "f32" else np.int16
    x, filters = (rng.integers(-9, 10, size).astype(dtype) for size in ((n, c, h, w), (f, c, 3, 3)))
    checks = Checks.all(stop=True)
    (result,) = run(program, dict(zip(names, (x, filters), strict=True)), checks=checks).values()
    outside = [(0, 0), (0, 0), (top, bottom), (left, right)]
    padded = np.pad(x, outside, constant_values=float(fill)).astype(np.float64)
    span = 2 * dilation + 1
    windows = np.lib.stride_tricks.sliding_window_view(padded, (span, span), (2, 3))
    windows = windows[:, :, ::stride, ::stride, ::dilation, ::dilation]
    assert np.array_equal(result, np.einsum("ncyzij,fcij->nfyz", windows, filters))


def on_lavapipe(products: list[Product], run_on_lavapipe: RunOnLavapipe, dispatch_of: DispatchOf):
    """Compares the products' results on lavapipe with the expected ones."""
    jobs: list[Dispatch] = []
    pairs: list[tuple[Any, Any]] = []
    for seed, product in enumerate(products):
        program = compile_product(product, "lavapipe")
        (output,) = program.manifest.outputs
        inputs = product.inputs(program, seed)
        result = np.zeros(output.sizes, dtype_of(output.type))
        jobs.append(dispatch_of(program, {**inputs, output.name: result}))
        pairs.append((result, product.compute_expected(inputs)))
    run_on_lavapipe(jobs)
    return pairs


@pytest.mark.vulkan
def test_random_products_are_right_on_lavapipe(
    run_on_lavapipe: RunOnLavapipe, dispatch_of: DispatchOf
):
    static = [p for p in map(Product.random, range(60)) if not p.opened][:ON_LAVAPIPE]
    for result, expected in on_lavapipe(static, run_on_lavapipe, dispatch_of):
        assert np.array_equal(result, expected)


SCHEDULES = [
    # The default; groups of columns; K not a multiple of the lanes' share; N not of a tile.
    ("lavapipe", None),
    ("nvidia-h200", None),
    ("lavapipe", "rows = 2, columns = 4, lanes = 8, steps = 1, groups = 3, subgroups = [2, 1]"),
    ("lavapipe", "rows = 3, columns = 3, lanes = 8, steps = 2, groups = 2, subgroups = [1, 2]"),
    ("lavapipe", "rows = 1, columns = 2, lanes = 4, steps = 1, groups = 3, subgroups = [1, 1]"),
    # Lanes share words.
    ("lavapipe", "rows = 1, columns = 4, lanes = 1, steps = 1, within = 8, subgroups = [1, 1]"),
    ("lavapipe", "rows = 2, columns = 3, lanes = 1, steps = 2, within = 8, subgroups = [2, 2]"),
    ("nvidia-h200", "rows = 3, columns = 4, lanes = 32, steps = 1, groups = 4, subgroups = [1, 1]"),
    (
        "nvidia-h200",
        "rows = 1, columns = 4, lanes = 32, steps = 1, bytes = 4, groups = 2, subgroups = [2, 1]",
    ),
    (
        "lavapipe",
        "rows = 2, columns = 4, lanes = 8, steps = 1, groups = 3, digits = 3, subgroups = [2, 1]",
    ),
    ("lavapipe", "rows = 3, columns = 1, lanes = 4, steps = 1, digits = 2, subgroups = [2, 1]"),
    ("nvidia-h200", "rows = 1, columns = 2, lanes = 32, steps = 1, digits = 3, subgroups = [1, 1]"),
    (
        "lavapipe",
        "rows = 2, columns = 3, lanes = 8, steps = 1, bytes = 8, groups = 3, ahead = 2, "
        "digits = 3, subgroups = [3, 2]",
    ),
    (
        "nvidia-h200",
        "rows = 3, columns = 2, lanes = 32, steps = 1, groups = 2, ahead = 4, digits = 3, "
        "subgroups = [1, 3]",
    ),
]


@pytest.mark.parametrize(("target", "schedule"), SCHEDULES)
def test_packed_weights_are_read_in_place(target: str, schedule: str | None):
    """No kernel writes unpacked weights to memory."""
    n, k, rows = 40, 320, 3
    blocks = k // 32
    program = compile_module(parse_text(write_packed(n, blocks, rows, schedule)), target)
    assert [layer.path for layer in program.layers] == ["rows"]
    rng = np.random.default_rng(0)
    x = rng.integers(-4, 5, (rows, blocks, 2, 16)).astype(np.float32)
    q = rng.integers(0, 256, (n, blocks, 16)).astype(np.uint8)
    d = rng.integers(1, 4, (n, blocks)).astype(np.float16)
    m = rng.integers(-8, 1, (n, blocks)).astype(np.float16)
    names = [buffer.name for buffer in program.manifest.inputs]
    inputs = dict(zip(names, (x, q.view(np.int8), d, m), strict=True))
    (result,) = run(program, inputs, checks=Checks.all(stop=True)).values()
    numbers = np.stack([q & 15, q >> 4], 2)
    w = numbers * d.astype(np.float64)[..., None, None] + m[..., None, None]
    assert np.array_equal(result, x.reshape(rows, -1) @ w.reshape(n, -1).T)


def test_products_by_byte_digits_are_within_the_bound():
    schedule = (
        "rows = 1, columns = 2, lanes = 32, steps = 1, groups = 2, digits = 3, subgroups = [14, 2]"
    )
    n, blocks = 8, 448
    program = compile_module(parse_text(write_packed(n, blocks, 1, schedule)), "nvidia-h200")
    rng = np.random.default_rng(0)
    x = rng.integers(-4, 5, (1, blocks, 2, 16)).astype(np.float32)
    q = rng.integers(0, 256, (n, blocks, 16)).astype(np.uint8)
    d, m = (rng.integers(1, 4, (n, blocks)).astype(np.float16) for _ in range(2))
    names = [buffer.name for buffer in program.manifest.inputs]
    inputs = dict(zip(names, (x, q.view(np.int8), d, m), strict=True))
    (result,) = run(program, inputs, checks=Checks.all(stop=True)).values()
    w = np.stack([q & 15, q >> 4], 2) * d[..., None, None] + m[..., None, None]
    assert np.array_equal(result, x.reshape(1, -1) @ w.reshape(n, -1).T.astype(np.float64))


DIGITS = "rows = 1, columns = 4, lanes = 8, steps = 1, groups = 2, digits = 3, subgroups = "


@pytest.mark.parametrize("subgroups", ["[2, 1]", "[2, 2]"])
def test_rows_are_split_into_byte_digits(subgroups: str):
    n, blocks, rows = 8, 10, 5
    program = compile_module(
        parse_text(write_packed(n, blocks, rows, DIGITS + subgroups)), "lavapipe"
    )
    assert any("spirv.SDot" in code.text for code in program.code.values())
    rng = np.random.default_rng(1)
    x = rng.normal(0, 1, (rows, blocks, 2, 16)) * 10 ** rng.uniform(-9, 9, (rows, blocks, 1, 1))
    x = (x * 10 ** rng.uniform(-4, 4, x.shape)).astype(np.float32)
    x[1], x[2, 3, 1, 5], x[3, 0, 0, 0], x[4] = 0, np.inf, np.nan, x[4] * np.float32(1e-38)
    q = rng.integers(0, 256, (n, blocks, 16)).astype(np.uint8)
    d, m = (rng.normal(0, 1, (n, blocks)).astype(np.float16) for _ in range(2))
    names = [buffer.name for buffer in program.manifest.inputs]
    inputs = dict(zip(names, (x, q.view(np.int8), d, m), strict=True))
    (result,) = run(program, inputs, checks=Checks.all(stop=True)).values()
    products = np.stack([q & 15, q >> 4], 2) * d.astype(np.float64)[..., None, None]
    minima = np.broadcast_to(m.astype(np.float64)[..., None, None], products.shape)
    wide = x.astype(np.float64)
    greatest = np.broadcast_to(abs(wide).max((2, 3), keepdims=True), x.shape)
    terms = abs(wide), abs(products) + abs(minima)
    exact, bound, off = (
        np.einsum("rbhj,nbhj->rn", a, b)
        for a, b in ((wide, products + minima), terms, (greatest, abs(products)))
    )
    for row in (0, 1, 4):
        allowed = 2.0**-22 * off[row] + 32 * blocks * 2.0**-23 * bound[row] + 1e-37
        assert (abs(result[row] - exact[row]) <= allowed).all()
    assert (result[1] == 0).all()
    assert np.isnan(result[2:4]).all()


def write_packed(n: int, blocks: int, rows: int, schedule: str | None = None) -> str:
    q, d = f"tensor<{n}x{blocks}x16xi8>", f"tensor<{n}x{blocks}xf16>"
    x, w = f"tensor<{rows}x{blocks}x2x16xf32>", f"tensor<{n}x{blocks}x2x16xf32>"
    out = f"tensor<{rows}x{n}xf32>"
    planes = ["(n, b, j)", "(n, b)", "(n, b)", "(n, b, h, j)"]
    loops = ["(m, b, h, j)", "(n, b, h, j)", "(m, n)"]
    weights = ", ".join(f"affine_map<(n, b, h, j) -> {places}>" for places in planes)
    product = ", ".join(f"affine_map<(m, n, b, h, j) -> {places}>" for places in loops)
    parallel, reduced = '"parallel"', '"reduction"'
    attributes = f"attrs = {{schedule = #schedule.rows<{schedule}>}}" if schedule else ""
    return f"""
    func.func @main(%x: {x}, %q: {q}, %d: {d}, %m: {d}) -> {out} {{
      %r = schedule.dispatch(%x, %q, %d, %m) : ({x}, {q}, {d}, {d}) -> {out} {{
      ^bb0(%a: {x}, %b: {q}, %c: {d}, %e: {d}):
        %room = tensor.empty() : {w}
        %w = linalg.generic {{
          indexing_maps = [{weights}], iterator_types = [{", ".join([parallel] * 4)}]
        }} ins(%b, %c, %e : {q}, {d}, {d}) outs(%room : {w}) {{
        ^bb1(%byte: i8, %scale: f16, %least: f16, %o: f32):
          %h = linalg.index 2 : index
          %i = arith.index_cast %h : index to i8
          %four = arith.constant 4 : i8
          %mask = arith.constant 15 : i8
          %shift = arith.muli %i, %four : i8
          %shifted = arith.shrui %byte, %shift : i8
          %bits = arith.andi %shifted, %mask : i8
          %number = arith.uitofp %bits : i8 to f32
          %s = arith.extf %scale : f16 to f32
          %t = arith.extf %least : f16 to f32
          %u = arith.mulf %number, %s : f32
          %v = arith.addf %u, %t : f32
          linalg.yield %v : f32
        }} -> {w}
        %z = arith.constant 0.0 : f32
        %empty = tensor.empty() : {out}
        %zeros = linalg.fill ins(%z : f32) outs(%empty : {out}) -> {out}
        %y = linalg.generic {{
          indexing_maps = [{product}],
          iterator_types = [{", ".join([parallel] * 2 + [reduced] * 3)}]
        }} ins(%a, %w : {x}, {w}) outs(%zeros : {out}) {attributes} {{
        ^bb2(%p: f32, %f: f32, %sum: f32):
          %pf = arith.mulf %p, %f : f32
          %total = arith.addf %sum, %pf : f32
          linalg.yield %total : f32
        }} -> {out}
        schedule.yield %y : {out}
      }}
      return %r : {out}
    }}"""


def test_concurrent_steps_fit_the_registers():
    """Mesa's Turnip would spill registers with four steps instead of two."""
    program = compile_module(parse_text(write_packed(4096, 128, 1)), "qualcomm-adreno")
    assert "columns = 4, lanes = 64, steps = 2, " in program.layers[0].schedule


HUGE = """
func.func @main(%a: tensor<4x64xf32>, %b: tensor<64x64xf32>) -> tensor<4x64xf32> {{
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x64xf32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<4x64xf32>) -> tensor<4x64xf32>
  %r = linalg.matmul {{schedule = #schedule.rows<rows = {rows}, columns = 2, lanes = 8,
      steps = {steps}, subgroups = [1, 1]>}} ins(%a, %b : tensor<4x64xf32>, tensor<64x64xf32>)
      outs(%i : tensor<4x64xf32>) -> tensor<4x64xf32>
  return %r : tensor<4x64xf32>
}}"""


@pytest.mark.parametrize(
    ("rows", "steps", "message"),
    [("0x7FC00000", 1, "sums of an invocation"), (4, "0x7FC00000", "products of an invocation")],
)
def test_endless_unrolling_is_refused(rows: str, steps: str, message: str):
    with pytest.raises(DiagnosticException, match=message):
        compile_module(parse_text(HUGE.format(rows=rows, steps=steps)), "lavapipe")
