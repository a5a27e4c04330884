"""
Translation validation finds bugs that other compilers had, and accepts our own passes.

MLIR 22 and IREE 3.13 lower an int8 matmul without its signedness, replace a wrapping addition by a
saturating one, and omit an instruction's last operand. A stride in bytes instead of elements is a
classic. Each bug is a pass here that breaks our lowering.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import DTypeLike
from xdsl.context import Context
from xdsl.dialects import arith, linalg, memref
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i16, i32, i64
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.passes import ModulePass, PassPipeline
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.universe import Universe

from xdsl_spirv.compare.translation import Finding, Input
from xdsl_spirv.compare.translation.inputs import draw, edges
from xdsl_spirv.compare.translation.shrink import Shrinker
from xdsl_spirv.compiler.pipeline import linalg_to_spirv
from xdsl_spirv.dialects.spirv.arithmetic import IMulOp
from xdsl_spirv.dialects.spirv.attributes import MemoryAccessAttr
from xdsl_spirv.dialects.spirv.constants import ConstantOp
from xdsl_spirv.dialects.spirv.cooperative_matrix import (
    CooperativeMatrixLoadOp,
    CooperativeMatrixMulAddOp,
)
from xdsl_spirv.dialects.spirv.enums import MemoryAccess
from xdsl_spirv.dialects.spirv.structure import ModuleOp as SPIRVModuleOp
from xdsl_spirv.runtime.modules import context, parse_text, text_of
from xdsl_spirv.serialization.encode import encoder
from xdsl_spirv.serialization.raw.binary import decode
from xdsl_spirv.tools.main import main
from xdsl_spirv.universe import PASSES

if TYPE_CHECKING:
    from tests.passes.conftest import ReportOf, Validate


def matmul(m: int, n: int, k: int, element: str, result: str, init: bool = False) -> str:
    a, b, c = (
        f"tensor<{m}x{k}x{element}>",
        f"tensor<{k}x{n}x{element}>",
        f"tensor<{m}x{n}x{result}>",
    )
    zero = "0" if result[0] == "i" else "0.0"
    made = f"""
      %z = arith.constant {zero} : {result}
      %e = tensor.empty() : {c}
      %c = linalg.fill ins(%z : {result}) outs(%e : {c}) -> {c}"""
    return f"""
    func.func @main(%a: {a}, %b: {b}{f", %c: {c}" if init else ""}) -> {c} {{{"" if init else made}
      %r = linalg.matmul ins(%a, %b : {a}, {b}) outs(%c : {c}) -> {c}
      return %r : {c}
    }}"""


KERNEL = """
spirv.module Logical GLSL450 {
  spirv.SpecConstant @scale spec_id(3) = 7 : i32
  spirv.GlobalVariable @x bind(0, 0) :
      !spirv.ptr<!spirv.struct<(!spirv.rtarray<i32, stride=4> [0]), Block>, StorageBuffer>
  spirv.GlobalVariable @y bind(0, 1) :
      !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0]), Block>, StorageBuffer>
  spirv.GlobalVariable @id built_in("GlobalInvocationId") : !spirv.ptr<vector<3xi32>, Input>
  spirv.func @main() "None" {
    %zero = spirv.Constant 0 : i32
    %ids = spirv.mlir.addressof @id : !spirv.ptr<vector<3xi32>, Input>
    %all = spirv.Load "Input" %ids : vector<3xi32>
    %i = spirv.CompositeExtract %all[0 : i32] : vector<3xi32>
    %x = spirv.mlir.addressof @x :
      !spirv.ptr<!spirv.struct<(!spirv.rtarray<i32, stride=4> [0]), Block>, StorageBuffer>
    %y = spirv.mlir.addressof @y :
      !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0]), Block>, StorageBuffer>
    %px = spirv.AccessChain %x[%zero, %i] :
      !spirv.ptr<!spirv.struct<(!spirv.rtarray<i32, stride=4> [0]), Block>, StorageBuffer>,
      i32, i32 -> !spirv.ptr<i32, StorageBuffer>
    %py = spirv.AccessChain %y[%zero, %i] :
      !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0]), Block>, StorageBuffer>,
      i32, i32 -> !spirv.ptr<f32, StorageBuffer>
    %v = spirv.Load "StorageBuffer" %px : i32
    %s = spirv.mlir.referenceof @scale : i32
    %w = spirv.IMul %v, %s : i32
    %f = spirv.ConvertSToF %w : i32 to f32
    spirv.Store "StorageBuffer" %px, %w : i32
    spirv.Store "StorageBuffer" %py, %f : f32
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 8, 1, 1
}
"""

MODULES = {
    "f16-f32": matmul(33, 19, 21, "f16", "f32"),
    "f16-f16": matmul(33, 40, 17, "f16", "f16"),
    "s8-s32": matmul(17, 13, 40, "i8", "i32", init=True),
    "kernel": KERNEL,
}

PIPELINES = {
    "linalg-to-spirv": ["linalg-to-spirv{target=lavapipe}", "linalg-to-spirv{target=nvidia-h200}"],
    "spirv-specialize": ["spirv-specialize{defaults=true}"],
    "spirv-update-vce": ["spirv-update-vce"],
    "spirv-to-glsl450-memory-model": [
        "spirv-cooperative-matrix-to-invocations,spirv-update-vce,spirv-to-glsl450-memory-model"
    ],
}
"""Pipelines that are checked in place of a single pass, by the pass's name."""

PARTS = {each.name for each in linalg_to_spirv("lavapipe")}


LOWERING = "linalg-to-spirv{target=lavapipe}"


def every_pass() -> list[Any]:
    """
    Returns (pipeline, module) for each registered pass. Passes on `spirv` follow the lowering.

    Each pass gets one of the lowered modules in turn. `make test-long` runs all modules.
    """
    found: list[Any] = []
    for turn, name in enumerate(PASSES):
        if name in PARTS - set(PIPELINES):
            continue
        for pipeline in PIPELINES.get(name, [name]):
            for number, module in enumerate(MODULES):
                lowered = name.startswith("spirv-") and module != "kernel"
                whole = f"{LOWERING},{pipeline}" if lowered else pipeline
                long = [pytest.mark.long] * (lowered and number != turn % len(MODULES))
                found.append(pytest.param(whole, module, marks=long))
    return found


@pytest.mark.parametrize(("pipeline", "module"), every_pass())
def test_every_pass_keeps_results(pipeline: str, module: str, validate: Validate):
    validate(MODULES[module], pipeline, inputs=7)


class DropSignedness(ModulePass):
    """Lowers int8 matrices without MatrixASignedComponents etc., like MLIR 22."""

    name = "drop-signedness"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for each in multiply_adds(op):
            del each.properties["matrix_operands"]


class SaturateInsteadOfWrap(ModulePass):
    """Replaces the wrapping addition of an initial value by a saturating one, like IREE 3.13."""

    name = "saturate-instead-of-wrap"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        additions = [
            inner
            for inner in op.walk()
            if isinstance(inner, arith.AddiOp)
            and isinstance(generic := inner.parent_op(), linalg.ops.GenericOp)
            and IteratorTypeAttr.reduction() not in generic.get_iterator_types()
        ]
        assert additions
        for addition in additions:
            wide = [arith.ExtSIOp(value, i64) for value in addition.operands]
            total = arith.AddiOp(wide[0], wide[1])
            most, least = (
                arith.ConstantOp.from_int_and_width(n, i64) for n in (2**31 - 1, -(2**31))
            )
            below = arith.MinSIOp(total, most)
            within = arith.MaxSIOp(below, least)
            narrow = arith.TruncIOp(within.result, i32)
            ops = [*wide, total, most, least, below, within, narrow]
            Rewriter.replace_op(addition, ops, [narrow.result])


class StrideInBytes(ModulePass):
    """Sets strides in bytes, although CM-13 counts elements of the pointee."""

    name = "stride-in-bytes"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for each in loads(op):
            assert each.stride is not None
            size = ConstantOp(IntegerAttr(2, i32), i32)
            product = IMulOp(each.stride, size.result)
            Rewriter.insert_op([size, product], InsertPoint.before(each))
            each.operands[1] = product.result


class DropScope(ModulePass):
    """Sets MakePointerVisible on loads and removes their memory scope."""

    name = "drop-scope"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for each in loads(op):
            access = MemoryAccess.MakePointerVisible | MemoryAccess.NonPrivatePointer
            each.memory_operand = MemoryAccessAttr(access)
            each.memory_scope = None


class WidenTruncation(ModulePass):
    """Widens the result of a truncation, so that fewer bits are cut off."""

    name = "widen-truncation"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for each in op.walk():
            if isinstance(each, arith.TruncIOp):
                Rewriter.replace_value_with_new_type(each.result, i16)


CUT = """
func.func @main(%x: tensor<8xi32>) -> tensor<8xi32> {
  %e = tensor.empty() : tensor<8xi32>
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
                       iterator_types = ["parallel"]}
      ins(%x : tensor<8xi32>) outs(%e : tensor<8xi32>) {
  ^bb0(%a: i32, %o: i32):
    %n = arith.trunci %a : i32 to i8
    %w = arith.extui %n : i8 to i32
    linalg.yield %w : i32
  } -> tensor<8xi32>
  return %r : tensor<8xi32>
}
"""


def test_a_type_that_changes_is_a_change(report_of: ReportOf):
    report = report_of(CUT, [WidenTruncation()])
    assert report.finding is not None
    assert report.finding.stage == "widen-truncation"


class Nothing(ModulePass):
    """Changes nothing. For tests in which something other than a pass is faulty."""

    name = "nothing"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        pass


def multiply_adds(module: ModuleOp) -> list[CooperativeMatrixMulAddOp]:
    return [op for op in module.walk() if isinstance(op, CooperativeMatrixMulAddOp)]


def loads(module: ModuleOp) -> list[CooperativeMatrixLoadOp]:
    return [op for op in module.walk() if isinstance(op, CooperativeMatrixLoadOp)]


def finding_of(report_of: ReportOf, module: str, broken: ModulePass) -> Finding:
    report = report_of(MODULES[module], [*linalg_to_spirv("lavapipe"), broken])
    assert report.finding is not None
    assert report.finding.stage == broken.name
    return report.finding


def nonzero(finding: Finding) -> int:
    return sum(int(np.count_nonzero(array)) for array in finding.inputs)


def test_dropped_signedness_is_found_with_one_product(report_of: ReportOf):
    finding = finding_of(report_of, "s8-s32", DropSignedness())
    assert finding.wrong is not None
    assert nonzero(finding) == 2
    a, b, _ = finding.inputs
    assert min(int(a.min()), int(b.min())) < 0, "an unsigned reading of positive numbers is right"
    assert finding.wrong.expected == a.astype(int).sum() * b.astype(int).sum()


def test_saturation_instead_of_wrapping_is_found(report_of: ReportOf):
    passes = linalg_to_spirv("lavapipe")
    formed = [each.name for each in passes].index("form-dispatches") + 1
    report = report_of(MODULES["s8-s32"], [*passes[:formed], SaturateInsteadOfWrap()])
    finding = report.finding
    assert finding is not None
    assert finding.stage == SaturateInsteadOfWrap.name
    assert finding.wrong is not None
    assert finding.wrong.actual in (2**31 - 1, -(2**31))
    assert nonzero(finding) <= 5
    assert "[" in str(finding)


@pytest.mark.parametrize("module", ["f16-f32", pytest.param("f16-f16", marks=pytest.mark.long)])
def test_a_stride_in_the_wrong_unit_is_found(module: str, report_of: ReportOf):
    finding = finding_of(report_of, module, StrideInBytes())
    assert finding.wrong is not None or "outside" in finding.failure
    assert nonzero(finding) <= 2


def test_an_instruction_without_an_operand_is_found(report_of: ReportOf):
    finding = finding_of(report_of, "f16-f32", DropScope())
    assert "no longer verifies" in finding.failure
    assert "MakePointerVisible" in finding.failure


def test_a_truncated_instruction_is_found(report_of: ReportOf, monkeypatch: pytest.MonkeyPatch):
    """The defect is in the encoder, not in a pass: as MLIR 22's, it omits a load's scope."""
    write = encoder.encode
    broken: list[SPIRVModuleOp] = []

    def truncated(module: SPIRVModuleOp) -> bytes:
        binary = write(module)
        if not broken:
            broken.append(module)
            return binary
        words = np.frombuffer(binary, np.uint32).copy()
        load = next(i for i in decode(binary) if i.name == "OpCooperativeMatrixLoadKHR")
        words[load.offset + len(load.words) - 1] |= int(MemoryAccess.MakePointerVisible)
        return words.tobytes()

    monkeypatch.setattr(encoder, "encode", truncated)
    report = report_of(MODULES["f16-f32"], [*linalg_to_spirv("lavapipe"), Nothing()])
    assert report.finding is not None
    assert "invalid SPIR-V" in report.finding.failure


SUM = """
func.func @main(%a: tensor<4x{k}xf32>) -> tensor<4xf32> {{
  %one = arith.constant {start} : f32
  %e = tensor.empty() : tensor<4xf32>
  %i = linalg.fill ins(%one : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %r = linalg.generic {{indexing_maps = [affine_map<(m, k) -> (m, k)>,
      affine_map<(m, k) -> (m)>], iterator_types = ["parallel", "reduction"]}}
      ins(%a : tensor<4x{k}xf32>) outs(%i : tensor<4xf32>) {{
  ^bb0(%x: f32, %o: f32):
    %s = arith.{by} %o, %x : f32
    linalg.yield %s : f32
  }} -> tensor<4xf32>
  return %r : tensor<4xf32>
}}"""


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(n, marks=pytest.mark.long) for n in range(4, 60))]
)
def test_a_reduction_may_be_taken_in_any_order(report_of: ReportOf, seed: int):
    drawn = np.random.default_rng(seed)
    by = ("addf", "mulf", "maximumf", "minimumf")[seed % 4]
    k = int(drawn.integers(32, 40 if by == "mulf" else 320))
    text = SUM.format(k=k, by=by, start=drawn.choice(["0.0", "1.0", "-2.5"]))
    target = drawn.choice(["lavapipe", "nvidia-h200", "webgpu"])
    report = report_of(text, f"linalg-to-spirv{{target={target}}}", inputs=8)
    assert report.finding is None, str(report)


NAMED_SUM = """
  %r = linalg.reduce { arith.addf } ins(%a : tensor<5x40xf32>) outs(%c : tensor<5xf32>)
      dimensions = [1]
  return %r : tensor<5xf32>"""
SOFTMAX = """
  %e = tensor.empty() : tensor<5x40xf32>
  %r = linalg.softmax dimension(1) ins(%a : tensor<5x40xf32>) outs(%e : tensor<5x40xf32>)
      -> tensor<5x40xf32>
  return %r : tensor<5x40xf32>"""
NEGATIVE = """
  %m = arith.constant -1.1 : f32
  %e = tensor.empty() : tensor<40xf32>
  %b = linalg.fill ins(%m : f32) outs(%e : tensor<40xf32>) -> tensor<40xf32>
  %r = linalg.matvec ins(%a, %b : tensor<5x40xf32>, tensor<40xf32>) outs(%c : tensor<5xf32>)
      -> tensor<5xf32>
  return %r : tensor<5xf32>"""


@pytest.mark.parametrize(
    ("body", "type"), [(NAMED_SUM, "5xf32"), (SOFTMAX, "5x40xf32"), (NEGATIVE, "5xf32")]
)
def test_sums_of_named_operations_and_of_negative_constants_may_be_reordered(
    report_of: ReportOf, body: str, type: str
):
    arguments = "%a: tensor<5x40xf32>, %c: tensor<5xf32>"
    text = f"func.func @main({arguments}) -> tensor<{type}> {{{body}\n}}"
    report = report_of(text, "linalg-to-spirv{target=lavapipe}", inputs=8)
    assert report.finding is None, str(report)


def test_an_operation_without_a_decomposition_is_no_error(report_of: ReportOf):
    text = f"func.func @main(%a: tensor<5x40xi32>) -> tensor<5x40xi32> {{{SOFTMAX}\n}}"
    assert report_of(text.replace("f32", "i32"), "canonicalize", inputs=8).finding is None


def test_a_sum_that_lacks_an_element_is_found(report_of: ReportOf):
    class Shorter(ModulePass):
        """Adds one element twice and omits another one."""

        name = "shorter"

        def apply(self, ctx: Context, op: ModuleOp) -> None:
            for each in op.walk():
                if isinstance(each, memref.LoadOp):
                    each.operands[1] = each.operands[1].owner.operands[0]  # pyright: ignore
                    return

    lowered = [*linalg_to_spirv("lavapipe")]
    cut = next(i for i, each in enumerate(lowered) if each.name == "kernel-to-spirv")
    report = report_of(SUM.format(k=8, by="addf", start="0.0"), [*lowered[:cut], Shorter()])
    assert report.finding is not None


NEED_MORE = {"assign-schedule", "outline-dispatches", "linalg-to-spirv", "spirv-specialize"}
"""Passes that need a target or a kernel, which the test does not give."""


def test_a_pass_is_compared_where_it_changes_something(report_of: ReportOf):
    matched: set[str] = set()
    for name in PASSES.keys() - NEED_MORE:
        ctx = context()
        module = parse_text(MODULES["f16-f32"], ctx=ctx)
        before = text_of(module)
        PassPipeline.parse_spec(Universe.get_multiverse().all_passes, name).apply(ctx, module)
        report = report_of(MODULES["f16-f32"], name, inputs=1)
        changed = text_of(module) != before
        assert (report.shares[name] is not None) == changed == (not report.compares_nothing), name
        matched |= {name} if changed else set()
    assert {"linalg-to-contraction", "form-dispatches"} <= matched
    assert len(matched) < 9


def test_a_pass_that_changes_nothing_shows_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], report_of: ReportOf
):
    report = report_of(MODULES["f16-f32"], "fold-constants,linalg-to-contraction")
    assert report.shares["fold-constants"] is None
    assert not report.compares_nothing
    assert "fold-constants: changed nothing" in str(report)
    source = tmp_path / "x.mlir"
    source.write_text(MODULES["f16-f32"])
    assert main(["check-passes", str(source), "-p", "fold-constants", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["passes"][0]["changed"] is False
    assert main(["check-passes", str(source), "-p", "fold-constants"]) == 1
    assert "no pass changed the module" in capsys.readouterr().out


def test_a_pass_on_a_kernel_is_checked(report_of: ReportOf):
    class Double(ModulePass):
        """Replaces the second factor of each product by the first factor."""

        name = "double"

        def apply(self, ctx: Context, op: ModuleOp) -> None:
            for each in op.walk():
                if isinstance(each, IMulOp):
                    each.operands[1] = each.operands[0]

    report = report_of(KERNEL, [Double()])
    assert report.finding is not None
    assert report.finding.wrong is not None
    assert [array.tolist().count(0) for array in report.finding.inputs] == [63, 64]


def test_a_pass_that_reads_outside_is_found(report_of: ReportOf):
    class Far(ModulePass):
        """Enlarges the workgroup, so that invocations access elements out of bounds."""

        name = "far"

        def apply(self, ctx: Context, op: ModuleOp) -> None:
            for each in op.walk():
                if each.name == "spirv.ExecutionMode":
                    values = each.properties["values"]
                    each.properties["values"] = type(values)(
                        [IntegerAttr(1024, i32), *list(values)[1:]]  # pyright: ignore
                    )

    report = report_of(KERNEL, [Far()])
    assert report.finding is not None
    assert "no longer runs" in report.finding.failure


def test_modules_that_cannot_be_interpreted_are_left_out_with_the_reason(report_of: ReportOf):
    report = report_of(KERNEL, "spirv-update-vce", length=4)
    assert report.inputs == 0
    assert "outside" in report.skipped[0]
    assert "left out" in str(report)


@pytest.mark.parametrize(
    "dtype",
    [np.int8, np.uint16, np.int32, np.int64, np.float16, np.float32, np.float64, np.bool_,
     ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2],
)  # fmt: skip
def test_inputs_have_the_edges_of_their_type(dtype: DTypeLike):
    each = Input("x", np.dtype(dtype), (3000,))
    drawn = np.concatenate([draw([each], 0, number)[0] for number in range(8)])
    assert drawn.dtype == each.dtype
    found = {value.tobytes() for value in drawn}
    wanted = {v.tobytes() for v in edges(each.dtype) if not np.isnan(v.astype(np.float64))}
    assert wanted <= found
    again = draw([each], 0, 3)[0]
    assert np.array_equal(again, draw([each], 0, 3)[0])


def test_shrinking_keeps_one_simple_element():
    start = [np.random.default_rng(1).integers(-100, 100, (40, 40)), np.ones(5)]
    shrinker = Shrinker(start, lambda values: bool((values[0] > 50).any()), 1000)
    first, second = shrinker.shrink()
    assert np.count_nonzero(first) == 1
    assert first.max() > 50
    assert not second.any()
    assert shrinker.runs < 1000
    limited = Shrinker(start, lambda values: True, 3)
    limited.shrink()
    assert limited.runs == 3


def test_the_command_prints_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    source = tmp_path / "x.mlir"
    source.write_text(MODULES["f16-f32"])
    assert main(["check-passes", str(source), "-p", "linalg-to-spirv{target=lavapipe}"]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"kernel-to-spirv: 10 sets of inputs, results within the bound", printed)


def test_a_comparison_without_results_is_a_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    source = tmp_path / "x.mlir"
    source.write_text(MODULES["f16-f32"])
    command = ["check-passes", str(source), "-p", "linalg-to-spirv{target=lavapipe}"]
    assert main([*command, "--inputs", "0"]) == 1
    assert "--inputs 0 would compare nothing" in capsys.readouterr().err
    source.write_text(KERNEL)
    assert main(["check-passes", str(source), "-p", "spirv-update-vce", "--length", "4"]) == 1
    assert "no result was compared" in capsys.readouterr().err


def test_the_command_names_the_pass_and_the_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    from xdsl_spirv.passes.spirv.update_vce import UpdateVCEPass

    right = UpdateVCEPass.apply

    def wrong(self: UpdateVCEPass, ctx: Context, op: ModuleOp) -> None:
        right(self, ctx, op)
        DropSignedness().apply(ctx, op)

    monkeypatch.setattr(UpdateVCEPass, "apply", wrong)
    source, smallest = tmp_path / "x.mlir", tmp_path / "small.npz"
    source.write_text(MODULES["s8-s32"])
    pipeline = "linalg-to-spirv{target=lavapipe}"
    assert main(["check-passes", str(source), "-p", pipeline, "-o", str(smallest)]) == 1
    printed = capsys.readouterr().out
    assert re.search(r"^spirv-update-vce: result0\[\d+, \d+\] is ", printed, re.MULTILINE)
    with np.load(smallest) as stored:
        assert np.count_nonzero(stored["a"]) == 1
