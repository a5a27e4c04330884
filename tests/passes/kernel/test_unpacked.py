"""
A single kernel multiplies by packed weights, with right results and valid binaries.

Covers: graph/selected_parts, graph/unpacked_operands.
"""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from xdsl.dialects.builtin import DYNAMIC_INDEX, FunctionType, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Block, Region

import xdsl_spirv as xs
from xdsl_spirv.compare import check as compare
from xdsl_spirv.compiler import compile
from xdsl_spirv.compiler.compiler import RefusedError
from xdsl_spirv.dialects.schedule.symbolic_sizes import Extent, symbol
from xdsl_spirv.frontends.blocks import FORMATS, BlockFormat, dequantize, of_bits
from xdsl_spirv.frontends.model import ImportedModel, Value, annotate
from xdsl_spirv.frontends.onnx.building import TensorBuilder
from xdsl_spirv.frontends.onnx.reading import Reader, gather_rows
from xdsl_spirv.frontends.onnx.scalars import Number, Scalars
from xdsl_spirv.frontends.onnx.values import F16, F32, I32, U8, Element, Tensor
from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.passes.schedule.linalg_to_contraction import LinalgToContractionPass
from xdsl_spirv.passes.schedule.split_reductions import SplitReductionsPass
from xdsl_spirv.passes.schedule.tuned import parse_schedule
from xdsl_spirv.runtime import Program, run
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.modules import context
from xdsl_spirv.testing.packed_planes import numbers, planes_of

FEW = {"2 bits": of_bits(2, 64, F32), "8 bits": of_bits(8, 16, F32, U8)}
CASES = [
    # More rows than `rows` supports; odd numbers of rows, columns and K blocks.
    ("Q5_1", 40, 96, 13, "lavapipe"),
    ("Q4_K", 77, 256, 9, "lavapipe"),
    ("2 bits", 41, 192, 12, "lavapipe"),
    ("8 bits", 33, 48, 7, "qualcomm-adreno"),
    ("Q4_1", 33, 96, 40, "nvidia-h200"),
    ("Q8_0", 77, 160, 130, "nvidia-h200"),
    ("Q5_K", 33, 256, 24, "amd-rdna4"),
    ("Q6_K", None, 256, 33, "nvidia-h200"),
    ("Q4_1", 5, 160, 24, "lavapipe"),
    # Few rows
    ("Q4_0", 1, 160, 36, "nvidia-h200"),
    ("Q4_1", 1, 160, 36, "amd-rdna4"),
    ("Q5_0", 2, 160, 36, "qualcomm-adreno"),
    ("Q8_0", 1, 160, 36, "lavapipe"),
    ("Q4_K", 1, 256, 36, "lavapipe"),
    ("Q5_K", 2, 256, 36, "nvidia-h200"),
    ("Q6_K", 3, 256, 36, "lavapipe"),
    ("2 bits", 1, 192, 36, "nvidia-h200"),
    ("MXFP4", 1, 160, 36, "nvidia-h200"),
    ("NVFP4", 2, 192, 36, "lavapipe"),
    ("Q3_K", 2, 256, 36, "lavapipe"),
    *(
        pytest.param(name, m, 256, 24, target, marks=pytest.mark.long)
        for name in ("MXFP4", "NVFP4", "Q2_K", "Q3_K", "IQ4_XS")
        for m, target in ((1, "amd-rdna4"), (33, "nvidia-h200"), (33, "lavapipe"))
    ),
]


def model(
    format: BlockFormat,
    m: int | None,
    planes: dict[str, Array],
    element: Element,
    turned: bool,
    schedule: str = "",
    stored: Element = F32,
) -> ImportedModel:
    """
    Returns a model of x (m rows, dynamic if None) times packed weights, whose factors have type
    `element`.

    `turned` weights are stored transposed. `stored` is the type of x.
    """
    rows, blocks, *_ = next(iter(planes.values())).shape
    k = blocks * format.size
    entry = Block()
    b = TensorBuilder(entry)
    given = entry.insert_arg(TensorType(stored.type, [DYNAMIC_INDEX if m is None else m, k]), 0)
    x = Tensor(stored, [symbol(Extent(given, 0, "m")) if m is None else m, k], given)
    tensors = {name: Tensor.of(array) for name, array in planes.items()}
    for t in tensors.values():
        t.value = entry.insert_arg(t.type, len(entry.args))
    weights = dequantize(b, format, tensors, element, turned)
    maps = [0, 2], [2, 1] if turned else [1, 2]
    product = b.contract(
        b.convert(x, element), maps[0], weights, maps[1], [x.sizes[0], rows], 3, F32
    )
    result = b.value(product)
    if schedule:
        assert isinstance(result.owner, GenericOp)
        result.owner.attributes["schedule"] = parse_schedule(schedule)
    entry.add_op(ReturnOp(result))
    type = FunctionType.from_lists([a.type for a in entry.args], [result.type])
    function = FuncOp("main", type, Region(entry))
    inputs = [Value("x", stored.name, (-1 if m is None else m, k))]
    outputs = [Value("y", "f32", (-1 if m is None else m, rows))]
    weights = [Value(n, t.element.name, planes[n].shape) for n, t in tensors.items()]
    annotate(function, [*inputs, *weights], outputs, {"x": ["m", ""]} if m is None else {})
    return ImportedModel(ModuleOp([function]), planes, inputs, outputs)


def check(program: Program, m: int, weights: Array, epsilon: float, device: str) -> None:
    type = np.dtype(np.float16 if program.manifest.inputs[0].type == "f16" else np.float32)
    x = np.random.default_rng(m).normal(0, 1, (m, weights.shape[1])).astype(type)
    result = program(x, device=device)
    exact = x.astype(np.float64) @ weights.T
    bound = np.abs(x.astype(np.float64)) @ np.abs(weights.T)
    assert (np.abs(result - exact) <= epsilon * bound + 1e-7).all()
    within = compare.check(program, {"x": x}, {program.manifest.results[0]: result})
    assert all(comparison.passed for comparison in within)


@pytest.mark.parametrize(("name", "m", "k", "n", "target"), CASES)
def test_one_kernel_reads_planes(name: str, m: int | None, k: int, n: int, target: str) -> None:
    format = FORMATS.get(name) or FEW[name]
    planes = planes_of(format, n, k)
    halves = target in ("nvidia-h200", "amd-rdna4")
    program = compile(model(format, m, planes, F16 if halves else F32, n % 2 == 0), target)
    assert len(program.manifest.dispatches) == 1
    assert program.layers[0].path == "rows" or m is None or m > 3
    assert sum(b.bytes for b in program.manifest.buffers if b.kind == "weight") == sum(
        array.nbytes for array in planes.values()
    )
    epsilon = 2.0**-9 if halves else 2.0**-20
    check(program, m or 35, numbers(format, planes), epsilon, "interpreter")


@pytest.mark.parametrize(("name", "target"), [("MXFP4", "nvidia-h200"), ("Q4_K", "lavapipe")])
def test_few_rows_of_selected_parts(name: str, target: str) -> None:
    """An index selects each row's matrix, which is read in place."""
    format, rows, parts, n, k = FORMATS[name], 3, 5, 12, 256
    stored = planes_of(format, parts * n, k)
    planes = {p: array.reshape(parts, n, *array.shape[1:]) for p, array in stored.items()}
    entry = Block()
    b = TensorBuilder(entry)
    x, chosen = Tensor(F32, [rows, 1, k]), Tensor(I32, [rows])
    tensors = {p: Tensor.of(array) for p, array in planes.items()}
    for t in (x, chosen, *tensors.values()):
        t.value = entry.insert_arg(t.type, len(entry.args))
    selected: dict[str, Tensor] = {}
    for p, t in tensors.items():
        source, rank = Reader(b, t), t.rank

        def read(s: Scalars, number: Number, source: Reader = source, rank: int = rank) -> Number:
            return source.read(s, [number, *(s.index(loop) for loop in range(1, rank))])

        selected[p] = b.mapped(read, [(chosen, [0])], [rows, *t.sizes[1:]], t.element)
    weights = dequantize(b, format, selected, F32)
    product = b.value(b.contract(x, [0, 1, 3], weights, [0, 2, 3], [rows, 1, n], 4, F32))
    entry.add_op(ReturnOp(product))
    type = FunctionType.from_lists([a.type for a in entry.args], [product.type])
    program = compile(ModuleOp([FuncOp("main", type, Region(entry))]), target)
    assert [layer.path for layer in program.layers] == ["rows"]
    rng = np.random.default_rng(0)
    values = rng.normal(0, 1, (rows, 1, k)).astype(np.float32)
    own = np.array([4, 0, 2], np.int32)
    names = [buffer.name for buffer in program.manifest.inputs]
    given = dict(zip(names, (values, own, *planes.values()), strict=True))
    (result,) = run(program, given, checks=Checks.all(stop=True)).values()
    all_weights = numbers(format, stored).reshape(parts, n, k)[own]
    exact = np.einsum("rk,rnk->rn", values[:, 0].astype(np.float64), all_weights)
    bound = np.einsum("rk,rnk->rn", abs(values[:, 0]), abs(all_weights))
    assert (abs(result[:, 0] - exact) <= 2.0**-20 * bound + 1e-7).all()


def test_parts_selected_along_columns() -> None:
    """
    An array of indices selects several matrices for each row, which a schedule of tiles refuses.

    Each load is in the kernel once, although its address depends on a loaded index.
    """
    format, rows, used, parts, n, k = FORMATS["MXFP4"], 2, 3, 5, 64, 256
    stored = planes_of(format, parts * n, k)
    planes = {p: array.reshape(parts, n, *array.shape[1:]) for p, array in stored.items()}
    entry = Block()
    b = TensorBuilder(entry)
    x, chosen = Tensor(F16, [rows, k]), Tensor(I32, [rows, used])
    tensors = {p: Tensor.of(array) for p, array in planes.items()}
    for t in (x, chosen, *tensors.values()):
        t.value = entry.insert_arg(t.type, len(entry.args))
    selected = {p: gather_rows(b, t, chosen) for p, t in tensors.items()}
    weights = dequantize(b, format, selected, F16)
    product = b.value(b.contract(x, [0, 3], weights, [0, 1, 2, 3], [rows, used, n], 4, F32))
    entry.add_op(ReturnOp(product))
    type = FunctionType.from_lists([a.type for a in entry.args], [product.type])
    module = ModuleOp([FuncOp("main", type, Region(entry))])
    tile = "[16, 64, 64], subgroups = [1, 4], instruction = coopmat 16x16x16"
    path = "staged<padding = 8, vector = 8>"
    text = f"#schedule.contraction<workgroup_tile = {tile}, a = {path}, b = {path}>"
    assert isinstance(product.owner, GenericOp)
    product.owner.attributes["schedule"] = parse_schedule(text)
    with pytest.raises(RefusedError, match="data select weights along M, N or K"):
        compile(module.clone(), "nvidia-h200")
    del product.owner.attributes["schedule"]
    program = compile(module, "nvidia-h200")
    assert [layer.path for layer in program.layers] == ["rows"]
    (code,) = program.code.values()
    assert xs.disassemble(code.binary).count("OpLoad") < 20
    rng = np.random.default_rng(0)
    values = rng.normal(0, 1, (rows, k)).astype(np.float16)
    own = np.array([[4, 0, 2], [1, 4, 3]], np.int32)
    names = [buffer.name for buffer in program.manifest.inputs]
    given = dict(zip(names, (values, own, *planes.values()), strict=True))
    (result,) = run(program, given, checks=Checks.all(stop=True)).values()
    all_weights = numbers(format, stored).reshape(parts, n, k)[own]
    exact = np.einsum("rk,renk->ren", values.astype(np.float64), all_weights)
    bound = np.einsum("rk,renk->ren", abs(values.astype(np.float64)), abs(all_weights))
    assert (abs(result.reshape(exact.shape) - exact) <= 2.0**-9 * bound + 1e-7).all()


@pytest.mark.parametrize("shape", [(2, 3), (2,)])
def test_parts_that_are_not_selected_in_the_order_of_the_batch_are_gathered(
    shape: tuple[int, ...],
) -> None:
    """The batch is the indices' dimensions in reverse order, or has one more dimension."""
    format, m, parts, n, k, turned = FORMATS["Q4_1"], 24, 5, 32, 128, len(shape) == 2
    inner = () if turned else (3,)
    stored = planes_of(format, parts * prod(inner) * n, k)
    planes = {p: array.reshape(parts, *inner, n, *array.shape[1:]) for p, array in stored.items()}
    entry = Block()
    b = TensorBuilder(entry)
    x, chosen = Tensor(F16, [2, 3, m, k]), Tensor(I32, [*shape])
    tensors = {p: Tensor.of(array) for p, array in planes.items()}
    for t in (x, chosen, *tensors.values()):
        t.value = entry.insert_arg(t.type, len(entry.args))
    selected = {p: gather_rows(b, t, chosen) for p, t in tensors.items()}
    weights = dequantize(b, format, selected, F16)
    batch, sizes = ([1, 0], [3, 2]) if turned else ([0, 1], [2, 3])
    maps = [*batch, 2, 4], [*batch, 3, 4]
    product = b.value(b.contract(x, maps[0], weights, maps[1], [*sizes, m, n], 5, F32))
    entry.add_op(ReturnOp(product))
    type = FunctionType.from_lists([a.type for a in entry.args], [product.type])
    program = compile(ModuleOp([FuncOp("main", type, Region(entry))]), "nvidia-h200")
    assert program.layers[-1].path == "cooperative-matrix"
    rng = np.random.default_rng(0)
    values = rng.normal(0, 1, (2, 3, m, k)).astype(np.float16)
    own = (4 - np.arange(prod(shape), dtype=np.int32) % parts).reshape(shape)
    names = [buffer.name for buffer in program.manifest.inputs]
    given = dict(zip(names, (values, own, *planes.values()), strict=True))
    (result,) = run(program, given, checks=Checks.all(stop=True)).values()
    matrices = numbers(format, stored).reshape(parts, *inner, n, k)[own]
    exact = np.einsum("tumk,tunk->tumn", values.astype(np.float64), matrices)
    bound = np.einsum("tumk,tunk->tumn", abs(values.astype(np.float64)), abs(matrices))
    if turned:
        exact, bound = exact.swapaxes(0, 1), bound.swapaxes(0, 1)
    assert (abs(result - exact) <= 2.0**-9 * bound + 1e-7).all()


def test_f16_weights_for_few_rows_are_computed_in_pairs() -> None:
    planes = planes_of(FORMATS["MXFP4"], 64, 512)
    program = compile(model(FORMATS["MXFP4"], 1, planes, F32, False), "nvidia-h200")
    (layer,) = program.layers
    (code,) = program.code.values()
    text = xs.disassemble(code.binary)
    counts = {op: text.count(f" {op} ") for op in ("OpFConvert", "OpBitwiseAnd", "OpUConvert")}
    assert layer.path == "rows"
    assert counts["OpFConvert"] == 16
    assert counts["OpBitwiseAnd"] < 1.5 * counts["OpFConvert"]
    assert counts["OpUConvert"] < counts["OpFConvert"] / 4


DIRECT = [
    # Whole units, halves, quarters; slices of K; a unit for each of eight invocations.
    ("Q4_1", 20, 160, 40, "nvidia-h200", "[16, 32, 128], subgroups = [1, 2]", ""),
    ("Q4_K", 37, 256, 33, "nvidia-h200", "[32, 32, 64], subgroups = [1, 2]", "<ahead = 1>"),
    ("Q6_K", None, 256, 24, "nvidia-h200", "[16, 16, 32], subgroups = [1, 1]", "<ahead = 1>"),
    ("Q8_0", 16, 288, 40, "nvidia-h200", "[16, 16, 128], subgroups = [1, 1, 2]", ""),
    ("Q5_0", 17, 160, 24, "amd-rdna4", "[16, 16, 128], subgroups = [1, 1]", ""),
    ("8 bits", 9, 112, 13, "lavapipe", "[8, 8, 128], subgroups = [1, 1]", "<ahead = 1>"),
]


@pytest.mark.parametrize(("name", "m", "k", "n", "target", "tile", "ahead"), DIRECT)
def test_invocations_compute_the_components_that_they_hold(
    name: str, m: int | None, k: int, n: int, target: str, tile: str, ahead: str
) -> None:
    format = FORMATS.get(name) or FEW[name]
    planes = planes_of(format, n, k)
    size = 8 if target == "lavapipe" else 16
    schedule = (
        f"#schedule.contraction<workgroup_tile = {tile}, instruction = "
        f"coopmat {size}x{size}x{size}, a = staged<padding = 8, vector = 4>, b = direct{ahead}>"
    )
    program = compile(model(format, m, planes, F16, n % 2 == 0, schedule), target)
    assert program.manifest.component_map == target
    assert len(program.manifest.dispatches) == 1
    check(program, m or 35, numbers(format, planes), 2.0**-9, "interpreter")


ROWS = "direct<layout = rows>"
IN_PLACE = [
    # Rows beyond the result; several tiles of rows; scales of super-blocks; slices of K; one plane
    # in panels and one by rows; parts of units; a tile of which only a part is in the operand.
    ("Q4_1", 8, 1024, 40, "nvidia-h200", "[16, 16, 512], subgroups = [1, 1, 4]", ROWS, "panels"),
    ("Q4_1", 40, 256, 40, "nvidia-h200", "[16, 32, 128], subgroups = [1, 2]", ROWS, "panels"),
    ("Q4_K", 5, 512, 33, "nvidia-h200", "[16, 32, 256], subgroups = [1, 1, 2]", ROWS, "panels"),
    ("Q6_K", 17, 512, 24, "nvidia-h200", "[32, 32, 128], subgroups = [2, 2]", ROWS, "panels"),
    ("Q5_0", 9, 256, 24, "amd-rdna4", "[16, 16, 128], subgroups = [1, 1]", ROWS, "panels"),
    ("Q8_0", 3, 288, 40, "nvidia-h200", "[16, 16, 64], subgroups = [1, 1, 2]", ROWS, "rows"),
    ("8 bits", 9, 112, 13, "lavapipe", "[8, 8, 64], subgroups = [1, 1]", ROWS, "rows"),
    ("Q4_1", 20, 256, 24, "nvidia-h200", "[32, 16, 128], subgroups = [1, 1]", "", "panels"),
]


@pytest.mark.parametrize(("name", "m", "k", "n", "target", "tile", "a", "layout"), IN_PLACE)
def test_rows_and_panels_are_read_in_place(
    name: str, m: int, k: int, n: int, target: str, tile: str, a: str, layout: str
) -> None:
    format = FORMATS.get(name) or FEW[name]
    planes, size = planes_of(format, n, k), 8 if target == "lavapipe" else 16
    schedule = (
        f"#schedule.contraction<workgroup_tile = {tile}, instruction = "
        f"coopmat {size}x{size}x{size}, a = {a or 'staged<padding = 8, vector = 4>'}, "
        f"b = direct<ahead = 1, layout = {layout}>>"
    )
    program = compile(model(format, m, planes, F16, False, schedule, F16), target)
    packs = sum(layer.entry_point.startswith("pack_") for layer in program.layers)
    assert packs == (len(planes) if layout == "panels" else 0)
    check(program, m, numbers(format, planes), 2.0**-9, "interpreter")
    checks = Checks.all()
    x = np.random.default_rng(1).normal(0, 1, (m, k)).astype(np.float16)
    run(program, {"x": x}, checks=checks)
    assert not checks.report, str(checks.report)


TRANSPOSED = [
    # One or several tiles of rows; rows beyond the result; two fragments of columns in a subgroup.
    ("Q4_1", 8, 1024, 48, "[16, 8, 512], subgroups = [1, 1, 4]"),
    ("Q4_1", 5, 256, 40, "[32, 8, 128], subgroups = [2, 1]"),
    ("Q4_K", 21, 512, 33, "[32, 16, 256], subgroups = [1, 1, 2]"),
]


def write_schedule(tile: str) -> str:
    return (
        f"#schedule.contraction<workgroup_tile = {tile}, instruction = coopmat 16x8x16, a = "
        f"direct<ahead = 1, layout = panels>, b = {ROWS}, operands = ba>"
    )


@pytest.mark.parametrize(("name", "m", "k", "n", "tile"), TRANSPOSED)
def test_weights_may_be_the_first_operand(name: str, m: int, k: int, n: int, tile: str) -> None:
    format = FORMATS[name]
    planes = planes_of(format, n, k)
    program = compile(
        model(format, m, planes, F16, False, write_schedule(tile), F16), "nvidia-h200"
    )
    check(program, m, numbers(format, planes), 2.0**-9, "interpreter")
    checks = Checks.all()
    x = np.random.default_rng(1).normal(0, 1, (m, k)).astype(np.float16)
    run(program, {"x": x}, checks=checks)
    assert not checks.report, str(checks.report)


def test_a_transposed_product_that_reads_its_weights_directly_relies_on_components() -> None:
    """The weights are the first operand of the kernel, and the second one of the operation."""
    planes = planes_of(FORMATS["Q4_1"], 48, 1024)
    staged = "staged<padding = 8, vector = 8>"
    schedule = write_schedule("[16, 8, 512], subgroups = [1, 1]").replace(ROWS, staged)
    program = compile(model(FORMATS["Q4_1"], 8, planes, F16, False, schedule, F16), "nvidia-h200")
    assert program.manifest.component_map == "nvidia-h200"
    check(program, 8, numbers(FORMATS["Q4_1"], planes), 2.0**-9, "interpreter")


PANELS = [
    ("Q4_1", 8, 1024, 48, write_schedule("[16, 8, 512], subgroups = [1, 1, 4]")),
    ("Q4_K", 5, 512, 40, write_schedule("[16, 8, 256], subgroups = [1, 1, 2]")),
    (
        "Q4_1",
        19,
        256,
        33,
        "#schedule.contraction<workgroup_tile = [32, 16, 128], subgroups = [1, 1], instruction = "
        f"coopmat 16x16x16, a = {ROWS}, b = direct<layout = panels>>",
    ),
]


@pytest.mark.parametrize(("name", "m", "k", "n", "schedule"), PANELS)
@pytest.mark.parametrize("reads", [1, 2])
def test_loops_store_rows_in_panels_for_a_single_reader(
    name: str, m: int, k: int, n: int, schedule: str, reads: int
) -> None:
    format = FORMATS[name]
    planes = planes_of(format, n, k)
    entry = Block()
    b = TensorBuilder(entry)
    x = Tensor(F32, [m, k], entry.insert_arg(TensorType(F32.type, [m, k]), 0))
    tensors = {name: Tensor.of(array) for name, array in planes.items()}
    for t in tensors.values():
        t.value = entry.insert_arg(t.type, len(entry.args))
    # Rows are divided by their sums, as in a norm.
    powers = b.elementwise(lambda s, x: s.exp(x), x)
    sums = b.reduce(lambda s, x, total: total + x, 0.0, powers, [1])
    h = b.convert(b.elementwise(lambda s, x, y: x / y, powers, sums), F16)
    product = b.contract(h, [0, 2], dequantize(b, format, tensors, F16), [1, 2], [m, n], 3, F32)
    result = b.value(product)
    assert isinstance(result.owner, GenericOp)
    result.owner.attributes["schedule"] = parse_schedule(schedule)
    results = [result, b.value(h)][:reads]
    entry.add_op(ReturnOp(*results))
    type = FunctionType.from_lists([a.type for a in entry.args], [v.type for v in results])
    function = FuncOp("main", type, Region(entry))
    inputs = [Value("x", "f32", (m, k))]
    outputs = [Value("y", "f32", (m, n)), Value("h", "f16", (m, k))][:reads]
    weights = [Value(n, t.element.name, planes[n].shape) for n, t in tensors.items()]
    annotate(function, [*inputs, *weights], outputs, {})
    imported = ImportedModel(ModuleOp([function]), planes, inputs, outputs)
    program = compile(imported, "nvidia-h200")
    kinds = [layer.path for layer in program.layers if not layer.entry_point.startswith("pack_")]
    assert kinds == ["loops", "cooperative-matrix"]
    in_panels = (1, k // 8, m, 8) in [buffer.shape for buffer in program.manifest.buffers]
    assert in_panels == (reads == 1)
    given = np.random.default_rng(1).normal(0, 1, (m, k)).astype(np.float32)
    checks = Checks.all()
    first, *_ = run(program, {"x": given}, checks=checks).values()
    assert not checks.report, str(checks.report)
    exact = np.exp(given.astype(np.float64))
    exact /= exact.sum(1, keepdims=True)
    matrix = numbers(format, planes)
    assert (np.abs(first - exact @ matrix.T) <= 2.0**-8 * (exact @ np.abs(matrix.T))).all()


@pytest.mark.parametrize(
    ("name", "paths", "message"),
    [
        (
            "Q4_1",
            f"a = {ROWS}, b = staged<padding = 8, vector = 4>",
            "a: layout = rows needs b = direct for a dequantized operand",
        ),
        (
            "Q4_1",
            "a = direct<layout = panels>, b = direct",
            "a: layout = panels is only for dequantized operands",
        ),
        (
            "Q8_0",
            f"a = {ROWS}, b = direct<layout = panels>",
            "no tensor of packed weights divides into panels",
        ),
    ],
)
def test_an_unsuitable_layout_is_refused(name: str, paths: str, message: str) -> None:
    planes = planes_of(FORMATS[name], 16, 96)
    tile = "workgroup_tile = [16, 16, 32], subgroups = [1, 1], instruction = coopmat 16x16x16"
    schedule = f"#schedule.contraction<{tile}, {paths}>"
    with pytest.raises(RefusedError, match=message):
        compile(model(FORMATS[name], 16, planes, F16, False, schedule, F16), "nvidia-h200")


def test_planes_are_packed_into_panels_only_if_they_are_weights() -> None:
    """A pack of inputs would be repeated in every run, and cost more than it saves."""
    planes = planes_of(FORMATS["Q4_1"], 2048, 4096)
    imported = model(FORMATS["Q4_1"], 8, planes, F16, False, "", F16)
    of_weights = compile(imported, "nvidia-h200")
    again = model(FORMATS["Q4_1"], 8, planes, F16, False, "", F16)
    of_inputs = compile(again.module, "nvidia-h200")
    assert "layout = panels" in of_weights.layers[-1].schedule
    assert not any("panels" in layer.schedule for layer in of_inputs.layers)


@pytest.mark.parametrize(("name", "k", "stages"), [("Q4_1", 224, 2), ("8 bits", 80, 3)])
def test_units_are_unpacked_before_their_multiplication(name: str, k: int, stages: int) -> None:
    format = FORMATS.get(name) or FEW[name]
    planes = planes_of(format, 40, k)
    staged = "staged<padding = 8, vector = 4, buffers = 2, ahead = 1>"
    schedule = (
        f"#schedule.contraction<workgroup_tile = [16, 32, 32], subgroups = [2, 2], instruction = "
        f"coopmat 8x8x8, a = {staged}, b = {staged}, stages = {stages}>"
    )
    program = compile(model(format, 20, planes, F16, False, schedule), "lavapipe")
    check(program, 20, numbers(format, planes), 2.0**-9, "interpreter")


@pytest.mark.parametrize(
    ("name", "m", "k", "parts"), [("Q4_1", None, 192, 3), ("Q4_K", 17, 1024, 2)]
)
def test_a_product_may_be_split_along_k(name: str, m: int | None, k: int, parts: int) -> None:
    format = FORMATS[name]
    planes = planes_of(format, 24, k)
    imported = model(format, m, planes, F16, False)
    for each in (LinalgToContractionPass(), SplitReductionsPass("nvidia-h200", parts)):
        each.apply(context(), imported.module)
    program = compile(imported, "nvidia-h200")
    assert [layer.path for layer in program.layers] == ["cooperative-matrix", "loops"]
    checks = Checks.all()
    x = np.random.default_rng(1).normal(0, 1, (m or 17, k)).astype(np.float32)
    (result,) = run(program, {"x": x}, checks=checks).values()
    assert not checks.report, str(checks.report)
    weights, rows = numbers(format, planes), x.astype(np.float64)
    bound = np.abs(rows) @ np.abs(weights.T)
    assert (np.abs(result - rows @ weights.T) <= 2.0**-9 * bound + 1e-7).all()


@pytest.mark.parametrize(
    ("m", "n", "k", "parts"),
    [
        # As measured on the H200 (benchmarks/results/h200-packed-prompts.json).
        (None, 4096, 14336, 2),
        (None, 4096, 4096, 2),
        (None, 6144, 4096, 1),
        (2048, 6144, 4096, 1),
        (1024, 6144, 4096, 1),
        (1024, 4096, 14336, 1),
        (256, 4096, 14336, 4),
        (128, 4096, 14336, 8),
        (128, 4096, 4096, 4),
        (128, 14336, 4096, 1),
        (64, 4096, 14336, 16),
        (64, 4096, 4096, 4),
        (64, 14336, 4096, 1),
        (32, 4096, 14336, 8),
        (16, 4096, 14336, 8),
        (16, 14336, 4096, 1),
        # The rows path took 2.7 and 1.4 times as long for these.
        (8, 4096, 14336, 8),
        (8, 4096, 4096, 8),
        # Few enough rows for the streaming path.
        (1, 4096, 14336, 1),
        (2, 4096, 14336, 1),
    ],
)
def test_the_number_of_splits_is_chosen_by_estimate(
    m: int | None, n: int, k: int, parts: int
) -> None:
    format = FORMATS["Q4_1"]
    planes = {
        name: np.broadcast_to(plane.element.dtype.type(0), (n, k // 32, *format.sizes(name)))
        for name, plane in format.planes.items()
    }
    imported = model(format, m, planes, F16, False)
    for each in (LinalgToContractionPass(), SplitReductionsPass("nvidia-h200")):
        each.apply(context(), imported.module)
    products = [op for op in imported.module.walk() if isinstance(op, GenericOp)]
    # The sum of two parts has two inputs, too.
    # The sum of two parts has two inputs, too.
    ranks = [len(op.iterator_types) for op in products if len(op.inputs) == 2]
    assert ranks == {1: [5], 2: [6, 2]}.get(parts, [6])
    types = [op.results[0].type for op in products if len(op.inputs) == 2]
    assert isinstance(types[0], TensorType)
    assert parts == 1 or types[0].get_shape()[0] == parts


def test_computed_fragments_pass_all_checks() -> None:
    format = FORMATS["Q4_1"]
    planes = planes_of(format, 24, 96)
    schedule = (
        "#schedule.contraction<workgroup_tile = [16, 32, 64], subgroups = [1, 2], instruction = "
        "coopmat 16x16x16, a = staged<padding = 8, vector = 4>, b = direct>"
    )
    program = compile(model(format, 17, planes, F16, False, schedule), "nvidia-h200")
    checks = Checks.all()
    x = np.random.default_rng(1).normal(0, 1, (17, 96)).astype(np.float32)
    run(program, {"x": x}, checks=checks)
    assert not checks.report, str(checks.report)
