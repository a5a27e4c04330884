"""
Elementwise operations on parts of a product's columns are fused into the product.

Covers: kernel/matrices.
"""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import DYNAMIC_INDEX, FunctionType, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Block, Region
from xdsl.passes import PassPipeline
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.universe import Universe

from xdsl_spirv.compiler import compile
from xdsl_spirv.dialects.schedule import DispatchOp, YieldOp
from xdsl_spirv.dialects.schedule.symbolic_sizes import Extent, Size, symbol
from xdsl_spirv.frontends.blocks import FORMATS, dequantize
from xdsl_spirv.frontends.model import ImportedModel, Value, annotate
from xdsl_spirv.frontends.onnx.building import TensorBuilder
from xdsl_spirv.frontends.onnx.values import F16, F32, Tensor
from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.passes.schedule.tuned import parse_schedule
from xdsl_spirv.runtime import run
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.modules import context
from xdsl_spirv.testing.packed_planes import numbers, planes_of


def gated(
    format: str, m: int | None, planes: dict[str, Array], schedule: str, shorter: int = 0
) -> ImportedModel:
    """
    Returns silu(gate) * up in f16. Both are products of x with halves of one matrix.

    The matrix is given as `planes` of `format`. `shorter` is the number of rows to leave out.
    """
    rows, blocks, *_ = next(iter(planes.values())).shape
    k = blocks * (FORMATS[format].size if format else 1)
    entry = Block()
    b = TensorBuilder(entry)
    given = entry.insert_arg(TensorType(F16.type, [DYNAMIC_INDEX if m is None else m, k]), 0)
    size: Size = symbol(Extent(given, 0, "m")) if m is None else m
    x = Tensor(F16, [size, k], given)
    tensors = {name: Tensor.of(array) for name, array in planes.items()}
    for t in tensors.values():
        t.value = entry.insert_arg(t.type, len(entry.args))
    weights = dequantize(b, FORMATS[format], tensors, F16) if format else tensors["w"]
    product = b.contract(x, [0, 2], weights, [1, 2], [size, rows], 3, F32)
    root = b.value(product).owner
    assert isinstance(root, GenericOp)
    root.attributes["schedule"] = parse_schedule(schedule)
    half = rows // 2
    gate, up = (b.slice(product, [0, at], [size - shorter, half], [1, 1]) for at in (0, half))
    h = b.elementwise(lambda s, up, g: g / (s.exp(-g) + 1) * up, up, gate)
    result = b.value(b.convert(h, F16))
    entry.add_op(ReturnOp(result))
    type = FunctionType.from_lists([a.type for a in entry.args], [result.type])
    function = FuncOp("main", type, Region(entry))
    inputs = [Value("x", "f16", (m or -1, k))]
    outputs = [Value("h", "f16", (m - shorter if m else -1, half))]
    stored = [Value(n, t.element.name, planes[n].shape) for n, t in tensors.items()]
    annotate(function, [*inputs, *stored], outputs, {"x": ["m", ""]} if m is None else {})
    return ImportedModel(ModuleOp([function]), planes, inputs, outputs)


def drawn(format: str, rows: int, k: int) -> tuple[dict[str, Array], Array]:
    """Returns a random matrix, as planes of `format` or in f16, and its values."""
    if format:
        planes = planes_of(FORMATS[format], rows, k)
        return planes, numbers(FORMATS[format], planes)
    w = np.random.default_rng(rows).normal(0, 0.1, (rows, k)).astype(np.float16)
    return {"w": w}, w.astype(np.float64)


def check(result: Array, x: Array, weights: Array) -> None:
    p = x.astype(np.float64) @ weights.T
    bound = 2.0**-9 * (np.abs(x.astype(np.float64)) @ np.abs(weights.T))
    half = len(weights) // 2
    gate, up, of_gate, of_up = p[:, :half], p[:, half:], bound[:, :half], bound[:, half:]
    exact = gate / (1 + np.exp(-gate)) * up
    # The slope of silu is at most 1.1.
    allowed = 1.1 * of_gate * (np.abs(up) + of_up) + np.abs(gate) * of_up + 2.0**-9 * np.abs(exact)
    assert result.shape == exact.shape
    assert (np.abs(result - exact) <= allowed + 1e-6).all()


def rows_for(weights: Array, m: int) -> Array:
    """Returns rows whose products with these weights have a magnitude of about 1."""
    scale = np.sqrt((weights**2).sum(1).mean())
    return (np.random.default_rng(1).normal(0, 1, (m, weights.shape[1])) / scale).astype(np.float16)


def schedule_of(tile: str, size: int = 16, b: str = "direct", result: str = "") -> str:
    return (
        f"#schedule.contraction<workgroup_tile = {tile}, instruction = "
        f"coopmat {size}x{size}x{size}, a = staged<padding = 8, vector = 4>, b = {b}{result}>"
    )


ELEMENTS = ", result = elements"
STAGED = "staged<padding = 8, vector = 4>"
FEW = (
    "#schedule.contraction<workgroup_tile = [16, 8, 512], subgroups = [1, 1, 4], instruction = "
    "coopmat 16x8x16, a = direct<ahead = 1, layout = panels>, b = direct<layout = rows>, "
    "operands = ba>"
)
CASES = [
    # Slices of K complete both parts; a transposed product, whose subgroups get a second fragment.
    ("Q4_1", 33, 128, 64, "nvidia-h200", schedule_of("[16, 32, 128], subgroups = [1, 1, 2]")),
    ("Q4_1", 8, 1024, 96, "nvidia-h200", FEW),
    ("Q4_1", 5, 512, 64, "nvidia-h200", FEW),
    # Whole tiles; partial tiles, dynamic rows, few columns; other targets' fragments.
    ("Q4_1", 32, 128, 128, "nvidia-h200", schedule_of("[32, 64, 64], subgroups = [1, 2]")),
    ("Q4_1", 35, 192, 96, "nvidia-h200", schedule_of("[32, 128, 64], subgroups = [2, 2]")),
    ("Q8_0", None, 160, 32, "nvidia-h200", schedule_of("[16, 32, 128], subgroups = [1, 1]")),
    ("Q4_K", 19, 256, 64, "nvidia-h200", schedule_of("[16, 64, 32], subgroups = [1, 1]", b=STAGED)),
    ("", 35, 96, 96, "nvidia-h200", schedule_of("[32, 32, 32], subgroups = [2, 1]")),
    ("Q4_0", 16, 128, 64, "amd-rdna4", schedule_of("[16, 64, 64], subgroups = [1, 1]")),
    ("Q5_0", 17, 160, 64, "amd-rdna4", schedule_of("[16, 32, 128], subgroups = [1, 1]")),
    ("", None, 40, 48, "lavapipe", schedule_of("[16, 32, 8], subgroups = [2, 1]", 8, STAGED)),
    # An instruction calls a function with the elements of both parts.
    (
        "Q4_1",
        35,
        192,
        96,
        "nvidia-h200",
        schedule_of("[32, 128, 64], subgroups = [2, 2]", result=ELEMENTS),
    ),
    (
        "",
        None,
        40,
        48,
        "lavapipe",
        schedule_of("[16, 32, 8], subgroups = [2, 1]", 8, STAGED, ELEMENTS),
    ),
]


@pytest.mark.parametrize(("format", "m", "k", "rows", "target", "schedule"), CASES)
def test_operations_on_parts_are_one_kernel_with_the_product(
    format: str, m: int | None, k: int, rows: int, target: str, schedule: str
) -> None:
    planes, weights = drawn(format, rows, k)
    program = compile(gated(format, m, planes, schedule), target)
    kernels = [layer for layer in program.layers if not layer.entry_point.startswith("pack_")]
    assert [layer.path for layer in kernels] == ["cooperative-matrix"]
    assert (ELEMENTS in schedule) == any(ELEMENTS in layer.schedule for layer in kernels)
    x = rows_for(weights, m or 35)
    checks = Checks.all()
    (result,) = run(program, {"x": x}, checks=checks).values()
    assert not checks.report, str(checks.report)
    check(result, x, weights)


@pytest.mark.parametrize(
    ("rows", "shorter", "schedule"),
    [
        # Reasons, in order: 24 columns are not a multiple of 16; a slice lacks a row; each subgroup
        # has one fragment.
        (48, 0, schedule_of("[16, 32, 64], subgroups = [1, 1]")),
        (64, 1, schedule_of("[16, 32, 64], subgroups = [1, 1]")),
        (64, 0, schedule_of("[16, 32, 64], subgroups = [1, 2]")),
    ],
)
def test_other_operations_are_a_second_kernel(rows: int, shorter: int, schedule: str) -> None:
    planes, weights = drawn("Q4_1", rows, 128)
    program = compile(gated("Q4_1", 33, planes, schedule, shorter), "nvidia-h200")
    assert [layer.path for layer in program.layers] == ["cooperative-matrix", "loops"]
    x = rows_for(weights, 33)
    (result,) = run(program, {"x": x}).values()
    check(result, x[: 33 - shorter], weights)


def test_many_dispatches_may_compute_the_rows() -> None:
    planes, _ = drawn("", 64, 32)
    module = gated("", None, planes, schedule_of("[16, 32, 32], subgroups = [1, 1]")).module
    ctx, passes = context(), Universe.get_multiverse().all_passes
    spec = "linalg-to-contraction,form-dispatches,assign-schedule{target=nvidia-h200}"
    PassPipeline.parse_spec(passes, spec).apply(ctx, module)
    product, _ = dispatches_of(module)
    for _ in range(250):
        block, inside = DispatchOp.open_body(product.inputs[:1])
        block.add_op(YieldOp(*inside.values()))
        before = DispatchOp(product.inputs[:1], [product.inputs[0].type], Region(block))
        Rewriter.insert_op(before, InsertPoint.before(product))
        product.operands[0] = before.results[0]
    module.verify()
    PassPipeline.parse_spec(passes, "fold-parts").apply(ctx, module)
    assert len(dispatches_of(module)) == 251


def dispatches_of(module: ModuleOp) -> list[DispatchOp]:
    return [op for op in module.walk() if isinstance(op, DispatchOp)]
