"""
Kernels that are not contractions give numpy's results at every lowering stage and on lavapipe.

Each case is a function on tensors that becomes one kernel. It is lowered pass by pass with the
default schedule and with every way to reduce, interpreted with all checks, and run on lavapipe.
Integers and moved elements must be equal, and floats must agree within a few rounding errors.

Covers: graph/loops_fusion, loops/body, loops/code, loops/groups, loops/tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pytest
from xdsl.dialects import arith, gpu
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import SSAValue

from xdsl_spirv.dialects.schedule import SCHEDULE, DispatchOp, LoopsAttr
from xdsl_spirv.dialects.spirv.structure import EntryPointOp
from xdsl_spirv.dialects.spirv.structure import ModuleOp as SPIRVModuleOp
from xdsl_spirv.interpreter import Options, interpret
from xdsl_spirv.interpreter.checks.report import Checks
from xdsl_spirv.passes.graph.form_dispatches import FormDispatchesPass
from xdsl_spirv.passes.kernel.outline_dispatches import OutlineDispatchesPass
from xdsl_spirv.passes.loops.to_invocations import LoopsToInvocationsPass
from xdsl_spirv.passes.schedule.assign_schedule import AssignSchedulePass
from xdsl_spirv.passes.spirv.kernel_to_spirv import KernelToSPIRVPass
from xdsl_spirv.passes.spirv.update_vce import UpdateVCEPass
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.modules import context, parse_text, text_of
from xdsl_spirv.serialization.encode.encoder import encode
from xdsl_spirv.testing.dispatches import Dispatch
from xdsl_spirv.tools import khronos

if TYPE_CHECKING:
    from tests.conftest import RunOnLavapipe


NAMES = {"float32": "f32", "int32": "i32", "bool": "i1"}


def tensor(array: Array) -> str:
    return f"tensor<{''.join(f'{size}x' for size in array.shape)}{NAMES[array.dtype.name]}>"


def maps(loops: int, *results: str) -> str:
    """Returns `indexing_maps` over d0, d1, ..."""
    names = ", ".join(f"d{i}" for i in range(loops))
    return ", ".join(f"affine_map<({names}) -> ({each})>" for each in results)


Operand: TypeAlias = tuple[str, str]
"""Name and type of a value."""


def generic(
    inputs: Sequence[Operand], outputs: Sequence[Operand], indexing: str, kinds: str, body: str
) -> str:
    """Returns a linalg.generic. `kinds` has a letter p or r for each loop."""
    names = {"p": "parallel", "r": "reduction"}
    iterators = ", ".join(f"#linalg.iterator_type<{names[kind]}>" for kind in kinds)
    operands = ", ".join(name for name, _ in (*inputs, *outputs))
    types = ", ".join(type for _, type in (*inputs, *outputs))
    results = ", ".join(type for _, type in outputs)
    return f"""
    "linalg.generic"({operands}) <{{
      indexing_maps = [{indexing}], iterator_types = [{iterators}],
      operandSegmentSizes = array<i32: {len(inputs)}, {len(outputs)}>
    }}> ({{{body}}}) : ({types}) -> ({results})"""


def call(op: str, result: str, *operands: str, type: str = "f32", to: str = "") -> str:
    """
    Returns the text of an operation whose operands have one type, and whose result has the type
    `to`.
    """
    types = ", ".join([type] * len(operands))
    return f'{result} = "{op}"({", ".join(operands)}) : ({types}) -> {to or type}\n'


def yields(*values: Operand) -> str:
    names, types = (", ".join(each) for each in zip(*values, strict=True))
    return f'"linalg.yield"({names}) : ({types}) -> ()'


GREATER = "<{predicate = 2 : i64, fastmath = #arith.fastmath<none>}>"


@dataclass(frozen=True)
class Case:
    """`text` is the body of @main on %0, %1, ... `expected` computes the result with numpy."""

    name: str
    text: str
    inputs: tuple[Array, ...]
    results: tuple[str, ...]
    expected: Callable[..., Any]

    def module(self) -> str:
        arguments = ", ".join(f"%{i}: {tensor(x)}" for i, x in enumerate(self.inputs))
        returned = ", ".join(f"%r{i}" for i in range(len(self.results)))
        types = ", ".join(self.results)
        return f"""
        func.func @main({arguments}) -> ({types}) {{
          {self.text}
          func.return {returned} : {types}
        }}"""

    def wanted(self) -> tuple[Array, ...]:
        expected = self.expected(*self.inputs)
        return tuple(map(np.asarray, expected if isinstance(expected, tuple) else (expected,)))

    def check(self, results: Sequence[Array], stage: str) -> None:
        for result, right in zip(results, self.wanted(), strict=True):
            assert result.shape == right.shape, f"{self.name} after {stage}"
            if right.dtype.kind == "f":
                message = f"{self.name} after {stage}"
                np.testing.assert_allclose(result, right, 2e-6, 2e-6, err_msg=message)
            else:
                assert np.array_equal(result, right), f"{self.name} after {stage}"


def floats(*shape: int) -> Array:
    return np.random.default_rng(len(shape)).uniform(-2, 2, shape).astype(np.float32)


def integers(*shape: int, low: int = -100, high: int = 100) -> Array:
    return np.random.default_rng(0).integers(low, high, shape).astype(np.int32)


def binary_body(op: str, type: str = "f32") -> str:
    body = call(op, "%y", "%x", "%o", type=type)
    return f"^bb0(%x: {type}, %o: {type}): {body} {yields(('%y', type))}"


COPY = f"^bb0(%x: f32, %o: f32): {yields(('%x', 'f32'))}"


def reduction(rows: str, source: str, map: str, kinds: str, start: str, combine: str) -> str:
    """
    Returns code that reduces %0 of type `source` to %r0 of type `rows`, from `start` with the
    operation `combine`.
    """
    identity = ", ".join(f"d{i}" for i in range(len(kinds)))
    element = rows.split("x")[-1].rstrip(">").removeprefix("tensor<")
    made = generic(
        [("%0", source)],
        [("%f", rows)],
        maps(len(kinds), identity, map),
        kinds,
        binary_body(combine, element),
    )
    return f"""
    %start = arith.constant {start} : {element}
    %e = tensor.empty() : {rows}
    %f = linalg.fill ins(%start : {element}) outs(%e : {rows}) -> {rows}
    %r0 = {made}
    """


def window(op: str, start: str) -> str:
    """Returns a pooling of a padded 2x3x9x11 tensor by 3x3 windows with stride 2."""
    body = call(op, "%y", "%o", "%x")
    pooled = generic(
        [("%p", "tensor<2x3x11x13xf32>"), ("%w", "tensor<3x3xf32>")],
        [("%f", "tensor<2x3x5x6xf32>")],
        maps(6, "d0, d1, d2 * 2 + d4, d3 * 2 + d5", "d4, d5", "d0, d1, d2, d3"),
        "pppprr",
        f"^bb0(%x: f32, %u: f32, %o: f32): {body} {yields(('%y', 'f32'))}",
    )
    return f"""
    %start = arith.constant {start} : f32
    %p = tensor.pad %0 low[0, 0, 1, 1] high[0, 0, 1, 1] {{
    ^bb0(%i: index, %j: index, %k: index, %l: index):
      tensor.yield %start : f32
    }} : tensor<2x3x9x11xf32> to tensor<2x3x11x13xf32>
    %w = tensor.empty() : tensor<3x3xf32>
    %e = tensor.empty() : tensor<2x3x5x6xf32>
    %f = linalg.fill ins(%start : f32) outs(%e : tensor<2x3x5x6xf32>) -> tensor<2x3x5x6xf32>
    %r0 = {pooled}
    """


def pooled(x: Array, start: float, combine: Callable[..., Any]) -> Array:
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)], constant_values=start)
    views = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))[:, :, ::2, ::2]
    return combine(views.reshape(*views.shape[:4], 9), axis=4).astype(x.dtype)


def elementwise(shape: str, body: str, out: str = "f32") -> str:
    """Returns code that computes %r0 from the f32 elements %x of %0. `body` computes %y."""
    rank = shape.count("x") + 1
    identity = ", ".join(f"d{i}" for i in range(rank))
    result = f"tensor<{shape}x{out}>"
    made = generic(
        [("%0", f"tensor<{shape}xf32>")],
        [("%e", result)],
        maps(rank, identity, identity),
        "p" * rank,
        f"^bb0(%x: f32, %o: {out}): {body} {yields(('%y', out))}",
    )
    return f"""
    %e = tensor.empty() : {result}
    %r0 = {made}
    """


def argmax() -> str:
    body = f"""^bb0(%x: f32, %o: f32, %p: i32):
      %i = "linalg.index"() <{{dim = 1 : i64}}> : () -> index
      %j = "arith.index_cast"(%i) : (index) -> i32
      %c = "arith.cmpf"(%x, %o) {GREATER} : (f32, f32) -> i1
      %v = "arith.select"(%c, %x, %o) : (i1, f32, f32) -> f32
      %k = "arith.select"(%c, %j, %p) : (i1, i32, i32) -> i32
      {yields(("%v", "f32"), ("%k", "i32"))}"""
    outputs = [("%f", "tensor<5xf32>"), ("%h", "tensor<5xi32>")]
    made = generic([("%0", "tensor<5x70xf32>")], outputs, maps(2, "d0, d1", "d0", "d0"), "pr", body)
    return f"""
    %low = arith.constant -3.0e+38 : f32
    %zero = arith.constant 0 : i32
    %e = tensor.empty() : tensor<5xf32>
    %f = linalg.fill ins(%low : f32) outs(%e : tensor<5xf32>) -> tensor<5xf32>
    %g = tensor.empty() : tensor<5xi32>
    %h = linalg.fill ins(%zero : i32) outs(%g : tensor<5xi32>) -> tensor<5xi32>
    %r0, %r1 = {made}
    """


def gather() -> str:
    body = f"""^bb0(%i: i32, %o: f32):
      %n = "arith.index_cast"(%i) : (i32) -> index
      %d = "linalg.index"() <{{dim = 1 : i64}}> : () -> index
      %v = "tensor.extract"(%0, %n, %d) : (tensor<13x6xf32>, index, index) -> f32
      {yields(("%v", "f32"))}"""
    outputs = [("%e", "tensor<7x6xf32>")]
    made = generic([("%1", "tensor<7xi32>")], outputs, maps(2, "d0", "d0, d1"), "pp", body)
    return f"""
    %e = tensor.empty() : tensor<7x6xf32>
    %r0 = {made}
    """


def moved(source: str, result: str, *indices: str) -> str:
    """Returns code that makes %r0 from the elements of %0 at other indices."""
    rank = result.count("x")
    made = generic([("%0", source)], [("%e", result)], maps(rank, *indices), "p" * rank, COPY)
    return f"""
    %e = tensor.empty() : {result}
    %r0 = {made}
    """


def softmax_of(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def softmax(rows: int, columns: int) -> str:
    t, r = f"tensor<{rows}x{columns}xf32>", f"tensor<{rows}xf32>"
    both, row = maps(2, "d0, d1", "d0"), maps(2, "d0, d1", "d0", "d0, d1")
    difference = call("arith.subf", "%d", "%x", "%n") + call("math.exp", "%y", "%d")
    quotient = call("arith.divf", "%y", "%x", "%n")
    end = yields(("%y", "f32"))
    three = "^bb0(%x: f32, %n: f32, %o: f32):"
    return f"""
    %low = arith.constant -3.0e+38 : f32
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : {r}
    %f = linalg.fill ins(%low : f32) outs(%e : {r}) -> {r}
    %g = linalg.fill ins(%zero : f32) outs(%e : {r}) -> {r}
    %h = tensor.empty() : {t}
    %m = {generic([("%0", t)], [("%f", r)], both, "pr", binary_body("arith.maximumf"))}
    %p = {generic([("%0", t), ("%m", r)], [("%h", t)], row, "pp", f"{three} {difference} {end}")}
    %s = {generic([("%p", t)], [("%g", r)], both, "pr", binary_body("arith.addf"))}
    %r0 = {generic([("%p", t), ("%s", r)], [("%h", t)], row, "pp", f"{three} {quotient} {end}")}
    """


def variance_of(x: Array) -> Array:
    return ((x - x.mean(-1, keepdims=True)) ** 2).mean(-1, dtype=np.float32)


def variance(rows: int, columns: int) -> str:
    """Returns the mean squared difference from a row's mean: two reductions."""
    t, r = f"tensor<{rows}x{columns}xf32>", f"tensor<{rows}xf32>"
    both, row = maps(2, "d0, d1", "d0"), maps(2, "d0, d1", "d0", "d0, d1")
    count = f"%c = arith.constant {float(columns)} : f32\n"
    mean = count + call("arith.divf", "%y", "%x", "%c")
    square = call("arith.subf", "%d", "%x", "%n") + call("arith.mulf", "%y", "%d", "%d")
    end = yields(("%y", "f32"))
    two, three = "^bb0(%x: f32, %o: f32):", "^bb0(%x: f32, %n: f32, %o: f32):"
    single = maps(1, "d0", "d0")
    return f"""
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : {r}
    %f = linalg.fill ins(%zero : f32) outs(%e : {r}) -> {r}
    %h = tensor.empty() : {t}
    %s = {generic([("%0", t)], [("%f", r)], both, "pr", binary_body("arith.addf"))}
    %m = {generic([("%s", r)], [("%e", r)], single, "p", f"{two} {mean} {end}")}
    %q = {generic([("%0", t), ("%m", r)], [("%h", t)], row, "pp", f"{three} {square} {end}")}
    %v = {generic([("%q", t)], [("%f", r)], both, "pr", binary_body("arith.addf"))}
    %r0 = {generic([("%v", r)], [("%e", r)], single, "p", f"{two} {mean} {end}")}
    """


def inserted(x: Array, y: Array) -> Array:
    result = x.copy()
    result[1:7:2, 2:14:3] = y
    return result


def tensor_of(shape: str) -> tuple[str]:
    return (f"tensor<{shape}>",)


ZERO = "%z = arith.constant 0.0 : f32\n"
POSITIVE = f'{ZERO}%y = "arith.cmpf"(%x, %z) {GREATER} : (f32, f32) -> i1'
PAD = """%c = arith.constant 2.5 : f32
    %r0 = tensor.pad %0 low[1, 2] high[0, 3] {
    ^bb0(%i: index, %j: index):
      tensor.yield %c : f32
    } : tensor<3x4xf32> to tensor<4x9xf32>"""
CONCAT = """%r0 = tensor.concat dim(1) %0, %1, %0
    : (tensor<3x4xf32>, tensor<3x2xf32>, tensor<3x4xf32>) -> tensor<3x10xf32>"""
EVERY_OTHER_BACKWARDS = """
  %e = tensor.empty() : tensor<4x2xf32>
  %f = tensor.empty() : tensor<4xf32>
  %t = linalg.transpose ins(%0 : tensor<2x4xf32>) outs(%e : tensor<4x2xf32>) permutation = [1, 0]
  %c = tensor.collapse_shape %t [[0, 1]] : tensor<4x2xf32> into tensor<8xf32>
  %r0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i * -2 + 6)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]} ins(%c : tensor<8xf32>) outs(%f : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<4xf32>
"""

SLICE = "%r0 = tensor.extract_slice %0[1, 2] [3, 4] [2, 3] : tensor<8x14xf32> to tensor<3x4xf32>"
ROW = "%r0 = tensor.extract_slice %0[1, 2] [1, 4] [1, 1] : tensor<8x14xf32> to tensor<4xf32>"
INSERT = """%r0 = tensor.insert_slice %1 into %0[1, 2] [3, 4] [2, 3]
    : tensor<3x4xf32> into tensor<8x14xf32>"""
SUM = ("0.0", "arith.addf")
MAXIMUM = ("-3.0e+38", "arith.maximumf")

MOVES = (
    Case(
        "relu",
        elementwise("5x7", ZERO + call("arith.maximumf", "%y", "%x", "%z")),
        (floats(5, 7),),
        tensor_of("5x7xf32"),
        lambda x: np.maximum(x, 0),
    ),
    Case(
        "neighbours",
        elementwise("64x96", call("arith.addf", "%y", "%x", "%x")),
        (floats(64, 96),),
        tensor_of("64x96xf32"),
        lambda x: x + x,
    ),
    Case(
        "neighbours of rows",
        moved("tensor<96xf32>", "tensor<64x96xf32>", "d1", "d0, d1"),
        (floats(96),),
        tensor_of("64x96xf32"),
        lambda x: np.tile(x, (64, 1)),
    ),
    Case(
        "positive",
        elementwise("4x6", POSITIVE, "i1"),
        (floats(4, 6),),
        tensor_of("4x6xi1"),
        lambda x: x > 0,
    ),
    Case(
        "gather",
        gather(),
        (floats(13, 6), integers(7, low=0, high=13)),
        tensor_of("7x6xf32"),
        lambda x, i: x[i],
    ),
    Case(
        "transpose",
        moved("tensor<2x3x4xf32>", "tensor<4x2x3xf32>", "d1, d2, d0", "d0, d1, d2"),
        (floats(2, 3, 4),),
        tensor_of("4x2x3xf32"),
        lambda x: x.transpose(2, 0, 1),
    ),
    Case(
        "reversed",
        moved("tensor<3x8xf32>", "tensor<3x8xf32>", "d0, -d1 + 7", "d0, d1"),
        (floats(3, 8),),
        tensor_of("3x8xf32"),
        lambda x: x[:, ::-1],
    ),
    Case(
        "every other backwards",
        EVERY_OTHER_BACKWARDS,
        (floats(2, 4),),
        tensor_of("4xf32"),
        lambda x: x.T.reshape(-1)[6::-2],
    ),
    Case(
        "concat",
        CONCAT,
        (floats(3, 4), floats(3, 2)),
        tensor_of("3x10xf32"),
        lambda x, y: np.concatenate([x, y, x], 1),
    ),
    Case("slice", SLICE, (floats(8, 14),), tensor_of("3x4xf32"), lambda x: x[1:7:2, 2:14:3]),
    Case("row", ROW, (floats(8, 14),), tensor_of("4xf32"), lambda x: x[1, 2:6]),
    Case("insert", INSERT, (floats(8, 14), floats(3, 4)), tensor_of("8x14xf32"), inserted),
    Case(
        "pad",
        PAD,
        (floats(3, 4),),
        tensor_of("4x9xf32"),
        lambda x: np.pad(x, [(1, 0), (2, 3)], constant_values=2.5),
    ),
)

REDUCTIONS = (
    Case(
        "sum",
        reduction("tensor<13xf32>", "tensor<13x40xf32>", "d0", "pr", *SUM),
        (floats(13, 40),),
        tensor_of("13xf32"),
        lambda x: x.sum(1),
    ),
    Case(
        "long sum",
        reduction("tensor<3xf32>", "tensor<3x1000xf32>", "d0", "pr", *SUM),
        (floats(3, 1000),),
        tensor_of("3xf32"),
        lambda x: x.astype(np.float64).sum(1).astype(np.float32),
    ),
    Case(
        "maximum of all",
        reduction("tensor<f32>", "tensor<9x41xf32>", "", "rr", *MAXIMUM),
        (floats(9, 41),),
        tensor_of("f32"),
        lambda x: x.max(),
    ),
    Case(
        "sum of columns",
        reduction("tensor<20xi32>", "tensor<50x20xi32>", "d1", "rp", "0", "arith.addi"),
        (integers(50, 20),),
        tensor_of("20xi32"),
        lambda x: x.sum(0, dtype=np.int32),
    ),
    Case(
        "minimum in the middle",
        reduction("tensor<3x4xi32>", "tensor<3x50x4xi32>", "d0, d2", "prp", "999", "arith.minsi"),
        (integers(3, 50, 4),),
        tensor_of("3x4xi32"),
        lambda x: x.min(1),
    ),
    Case(
        "maxima of windows",
        window("arith.maximumf", "-3.0e+38"),
        (floats(2, 3, 9, 11),),
        tensor_of("2x3x5x6xf32"),
        lambda x: pooled(x, -3e38, np.max),
    ),
    Case(
        "sums of windows",
        window("arith.addf", "0.0"),
        (floats(2, 3, 9, 11),),
        tensor_of("2x3x5x6xf32"),
        lambda x: pooled(x, 0, np.sum),
    ),
    Case(
        "argmax",
        argmax(),
        (floats(5, 70),),
        ("tensor<5xf32>", "tensor<5xi32>"),
        lambda x: (x.max(1), x.argmax(1).astype(np.int32)),
    ),
    Case("softmax", softmax(13, 37), (floats(13, 37),), tensor_of("13x37xf32"), softmax_of),
    Case("long softmax", softmax(3, 300), (floats(3, 300),), tensor_of("3x300xf32"), softmax_of),
    Case("variance", variance(6, 50), (floats(6, 50),), tensor_of("6xf32"), variance_of),
)

WAYS = {
    "invocation": LoopsAttr(16, 3, 2, reduce="invocation"),
    "subgroup": LoopsAttr(16, 3, 2, reduce="subgroup"),
    "workgroup": LoopsAttr(16, 3, 2, reduce="workgroup"),
    "beside": LoopsAttr(16, 3, 2, 4, reduce="workgroup"),
}
"""For each way to share a reduction, the schedule that chooses it."""

PASSES = (
    FormDispatchesPass(),
    AssignSchedulePass("lavapipe"),
    OutlineDispatchesPass(),
    LoopsToInvocationsPass(),
    KernelToSPIRVPass(),
    UpdateVCEPass(),
)


def stages(case: Case, way: str | None) -> Iterator[tuple[str, ModuleOp]]:
    """Yields the name of each pass and the module after it."""
    ctx = context()
    module = parse_text(case.module(), ctx=ctx)
    for stage in PASSES:
        stage.apply(ctx, module)
        if isinstance(stage, AssignSchedulePass):
            reschedule(case, module, way)
        yield stage.name, module


def reschedule(case: Case, module: ModuleOp, way: str | None) -> None:
    """Gives the module's only dispatch the schedule of `way`, if that is not None."""
    (dispatch,) = (op for op in module.walk() if isinstance(op, DispatchOp))
    if way is not None:
        dispatch.attributes[SCHEDULE] = WAYS[way]


def compiled(case: Case, way: str | None) -> ModuleOp:
    module = None
    for _, module in stages(case, way):
        pass
    assert module is not None
    return module


EVERY = [*((case, None) for case in (*MOVES, *REDUCTIONS)), *product(REDUCTIONS, WAYS)]
NAMED = [f"{case.name}-{way or 'chosen'}" for case, way in EVERY]


@pytest.mark.parametrize("case", [*MOVES, *REDUCTIONS], ids=lambda case: case.name)
def test_every_stage_gives_numpys_results(case: Case):
    for name, module in stages(case, None):
        module = parse_text(text_of(module), ctx=context())
        case.check(interpret(module, case.inputs, subgroup_size=8), name)


@pytest.mark.parametrize(("case", "way"), EVERY, ids=NAMED)
def test_kernels_have_no_undefined_behaviour(case: Case, way: str | None, spirv_val: str):
    module = compiled(case, way)
    options = Options(subgroup_size=8, checks=Checks.all(stop=True))
    case.check(interpret(module, case.inputs, options=options), "all passes")
    for op in module.walk():
        if isinstance(op, SPIRVModuleOp):
            assert khronos.spirv_val(encode(op)) == "", case.name


@pytest.mark.vulkan
def test_kernels_are_right_on_lavapipe(run_on_lavapipe: RunOnLavapipe):
    jobs: list[Dispatch] = []
    for case, way in EVERY:
        module = compiled(case, way)
        (code,) = (op for op in module.walk() if isinstance(op, SPIRVModuleOp))
        (entry,) = (op for op in code.walk() if isinstance(op, EntryPointOp))
        (launch,) = (op for op in module.walk() if isinstance(op, gpu.LaunchFuncOp))
        sizes = (launch.gridSizeX, launch.gridSizeY, launch.gridSizeZ)
        outputs = [np.zeros_like(each) for each in case.wanted()]
        buffers = [*(x.copy() for x in case.inputs), *outputs]
        x, y, z = map(number_of, sizes)
        numbered = {(0, n): np.atleast_1d(buffer) for n, buffer in enumerate(buffers)}
        jobs.append(
            Dispatch(encode(code), entry.fn.string_value(), (x, y, z), numbered, subgroup_size=8)
        )
    run_on_lavapipe(jobs, 300)
    for (case, way), done in zip(EVERY, jobs, strict=True):
        count = len(case.results)
        results = list(done.buffers.values())[-count:]
        shapes = [each.shape for each in case.wanted()]
        shaped = [r.reshape(shape) for r, shape in zip(results, shapes, strict=True)]
        case.check(shaped, f"lavapipe, {way}")


def number_of(value: SSAValue) -> int:
    assert isinstance(value.owner, arith.ConstantOp)
    attribute = value.owner.value
    assert isinstance(attribute, IntegerAttr)
    return attribute.value.data
