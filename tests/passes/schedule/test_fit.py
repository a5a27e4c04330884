"""Schedules that a contraction or a target cannot have are refused, each value with its reason."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.passes import PassPipeline
from xdsl.universe import Universe

from xdsl_spirv.dialects.schedule import SCHEDULE
from xdsl_spirv.passes.schedule.plan import Plan
from xdsl_spirv.runtime.modules import context, parse_text
from xdsl_spirv.targets import PER_ELEMENT, Fit, Registers, Target, load

if TYPE_CHECKING:
    from tests.passes.conftest import PlanProduct

INPUTS = Path(__file__).parents[2] / "filecheck" / "passes"
LAVAPIPE, H200 = load("lavapipe"), load("nvidia-h200")
ROWS = "a = staged<vector = 8>, b = staged<vector = 8>"
TWICE = "a = staged<vector = 8, buffers = 2>, b = staged<vector = 8, buffers = 2>"
AHEAD = TWICE.replace("buffers = 2", "buffers = 2, ahead = 1")


def find_scheduled(file: str, passes: str) -> LinalgStructuredOperation:
    """Returns the contraction with a schedule in a FileCheck test, after passes."""
    return find_scheduled_in((INPUTS / file).read_text(), passes)


def find_scheduled_in(text: str, passes: str) -> LinalgStructuredOperation:
    """Returns the contraction with a schedule in a module, after passes."""
    ctx = context()
    module = parse_text(text, ctx=ctx)
    PassPipeline.parse_spec(Universe.get_multiverse().all_passes, passes).apply(ctx, module)
    ops = (op for op in module.walk() if isinstance(op, LinalgStructuredOperation))
    (found,) = (op for op in ops if SCHEDULE in op.attributes and len(op.inputs) == 2)
    return found


@pytest.fixture(scope="module")
def nibbles() -> LinalgStructuredOperation:
    """16 x 16 x 128, B dequantized from bytes of two elements, 32 elements of a row at once."""
    return find_scheduled("unpacked-fragments.mlir", "linalg-to-contraction,form-dispatches")


@pytest.fixture(scope="module")
def halves() -> LinalgStructuredOperation:
    """32 x 64 x 64, whose epilogue multiplies columns of two halves in parts of 16 columns."""
    passes = "linalg-to-contraction,form-dispatches,assign-schedule{target=nvidia-h200},fold-parts"
    return find_scheduled("fold-parts.mlir", passes)


def expect(planned: Plan, *parts: str) -> None:
    """Asserts that there is one problem for each text, in order, that contains the text."""
    problems = list(planned.problems())
    assert len(problems) == len(parts), problems
    for problem, part in zip(problems, parts, strict=True):
        assert part in problem


def drop_features(target: Target, *features: str) -> Target:
    return replace(target, features=target.features - {*features})


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        (ROWS, ()),
        ("a = staged<vector = 4>, b = staged<vector = 2>", ()),
        ("a = staged<vector = 8, padding = 8>, b = staged<vector = 8>", ()),
        (
            "a = staged<vector = 3>, b = direct",
            ("a: vector = 3 is not a power of two of at most 16 bytes: use 8",),
        ),
        ("a = direct, b = staged<vector = 16>", ("b: vector = 16 is not a power of two",)),
        (
            "a = staged<vector = 4, padding = 4>, b = staged<vector = 8>",
            ("a: rows of 40 bytes in Workgroup memory are not a multiple of 16",),
        ),
        (
            "a = staged<vector = 4>, b = staged<vector = 8, padding = 9>",
            ("b: padding = 9 is not a multiple of vector = 8: use 16", "rows of 50 bytes"),
        ),
        ("a = direct, b = staged<vector = 8>", ()),
        ("a = direct<ahead = 2>, b = direct", ()),
        ("a = direct<ahead = 3>, b = direct", ("a: ahead = 3 exceeds a K tile's 2 instructions",)),
        ("a = direct<layout = panels>, b = direct", ("a: layout = panels is only for",)),
        (
            "a = staged<vector = 8>, b = direct<layout = rows>",
            ("b: layout = rows needs a = direct for a dequantized operand",),
        ),
        ("a = staged<layout = fragments, vector = 8>, b = staged<vector = 8>", ()),
        (
            "a = staged<layout = fragments, vector = 4>, b = staged<vector = 8>",
            ("a: an invocation copies all its 8 elements of a fragment at once: use vector = 8",),
        ),
        (
            "a = staged<layout = fragments, vector = 8, padding = 8>, b = staged<vector = 8>",
            ("use vector = 8 and padding = 0",),
        ),
        ("a = staged<layout = panels, vector = 8>, b = staged<vector = 8>", ()),
    ],
)  # fmt: skip
def test_paths_of_operands(rest: str, expected: tuple[str, ...], plan_product: PlanProduct):
    expect(plan_product("matrices", "16, 16, 16", "1, 1", rest), *expected)


def test_vectors_divide_the_rows_of_an_operand_and_of_a_fragment(plan_product: PlanProduct):
    def expect_f32(paths: str, instruction: str, target: Target, *parts: str) -> None:
        """Rows of B have seven elements."""
        expect(plan_product("batches", "4, 2, 8", "1, 1", paths, instruction, target), *parts)

    expect_f32("a = staged<vector = 2>, b = staged<>", "fma 1x1x2", LAVAPIPE)
    undivided = "b: vector = 2 does not divide the operand's rows of 7 contiguous elements: use 1"
    pair = replace(LAVAPIPE, subgroup_size=2)
    expect_f32("a = staged<vector = 2>, b = staged<vector = 2>", "fma 2x2x2", pair, undivided)
    expect_f32("a = staged<>, b = staged<>", "fma 1x1x1", LAVAPIPE)
    undivided = "a: vector = 2 does not divide a fragment's row of 1 elements"
    expect_f32("a = staged<vector = 2>, b = staged<>", "fma 1x1x1", LAVAPIPE, undivided)
    four = "a = staged<>, b = staged<vector = 4>"
    expect(plan_product("matrices", "8, 8, 8", "1, 1", four, "fma 2x4x1"))
    wide = "a = staged<vector = 8>, b = staged<>"
    planned = plan_product("matrices", "4, 2, 8", "1, 1", wide, "fma 1x1x8")
    expect(planned, "a: vector = 8, but fma supports at most 4")


@pytest.mark.parametrize(
    ("paths", "stages", "expected"),
    [
        (ROWS, 2, ()),
        (TWICE, 2, ()),
        (TWICE, 3, ("stages = 3 exceeds 2",)),
        (TWICE, 1, ("a: buffers = 2 needs stages = 2", "b: buffers = 2 needs stages = 2")),
        (TWICE.replace("2", "3"), 2, ("a: buffers = 3 exceeds 2", "b: buffers = 3 exceeds 2")),
        (
            "a = staged<vector = 8, buffers = 2>, b = staged<vector = 8>", 2,
            ("b: buffers = 1 is less than the other operand has",),
        ),
        ("a = direct, b = staged<vector = 8, buffers = 2>", 2, ()),
        (AHEAD, 2, ()),
        (AHEAD, 5, ()),
        (AHEAD, 6, ("stages = 6 exceeds 5", "copies 4 vectors of a, but only 3 fit", "of b, but")),
        (
            AHEAD.replace(", ahead = 1", "", 1), 2,
            ("a: ahead = 1 needs ahead = 1 and buffers = 2 of both operands",),
        ),
        (
            AHEAD.replace("buffers = 2, ", ""), 2,
            ("a: ahead = 1 needs", "b: ahead = 1 needs"),
        ),
        (
            "a = direct, b = staged<buffers = 2, ahead = 1, vector = 8>", 2,
            ("a = direct, but the other operand has ahead = 1: use staged for both",),
        ),
        # 32 and 16 copies for each of eight invocations
        ("a = staged<>, b = staged<vector = 2>", 1, ()),
        ("a = staged<vector = 2>, b = staged<vector = 2>", 2, ()),
        (
            "a = staged<>, b = staged<vector = 2>", 2,
            ("stages = 2: each invocation copies 32 vectors of a, but only 16 fit in registers",),
        ),
    ],
)  # fmt: skip
def test_stages_and_buffers(
    paths: str, stages: int, expected: tuple[str, ...], plan_product: PlanProduct
):
    planned = plan_product("matrices", "16, 16, 16", "1, 1", f"{paths}, stages = {stages}")
    expect(planned, *expected)


FMA, DOT = "fma 1x1x1", "dot 1x1x4"
STAGED, WORDS = "a = staged<>, b = staged<>", "a = staged<vector = 4>, b = staged<vector = 4>"


@pytest.mark.parametrize(
    ("operation", "tile", "rest", "instruction", "target", "expected"),
    [
        ("matrices", "4, 2, 8", STAGED, FMA, LAVAPIPE, ()),
        ("open_rows", "4, 2, 8", STAGED, FMA, LAVAPIPE, ()),
        (
            "matrices", "4, 4, 8", STAGED, FMA, LAVAPIPE,
            ("workgroup_tile has 4 x 4 blocks for each subgroup: use a tile of 8 elements",),
        ),
        (
            "matrices", "4, 2, 8", STAGED, FMA, drop_features(LAVAPIPE, "float16"),
            ("fma of f16 x f16 -> f32 needs float16, which lavapipe does not list",),
        ),
        ("batches", "4, 2, 8", STAGED, FMA, drop_features(LAVAPIPE, "float16"), ()),
        (
            "matrices", "4, 2, 8",
            "a = staged<ahead = 1>, b = staged<layout = fragments>, result = rows", FMA, LAVAPIPE,
            ("b = fragments needs coopmat", "fma does not support ahead", "support result = rows"),
        ),
        (
            "matrices", "4, 2, 8", "a = direct, b = staged<layout = panels>", FMA, LAVAPIPE,
            ("a = direct needs coopmat: use staged, by rows or panels, for fma",),
        ),
        ("windows", "4, 2, 9", STAGED, FMA, LAVAPIPE, ()),
        (
            "windows", "4, 2, 9", "a = staged<>, b = staged<layout = panels>", FMA, LAVAPIPE,
            ("b = panels, but the operand is read through windows: use staged",),
        ),
        ("bytes", "4, 2, 8", WORDS, DOT, LAVAPIPE, ()),
        (
            "bytes", "4, 2, 8", WORDS, DOT, drop_features(LAVAPIPE, "integer-dot-product"),
            ("dot needs integer-dot-product, which lavapipe does not list",),
        ),
        (
            "bytes", "4, 2, 6", "a = staged<vector = 4>, b = staged<vector = 2>", "dot 1x1x6",
            LAVAPIPE,
            ("dot: K = 6 is not a multiple of 4: use 8", "b: vector = 2 is not a multiple of 4"),
        ),
        (
            "matrices", "4, 2, 8", WORDS, DOT, LAVAPIPE,
            ("dot multiplies s8 and u8 into 32 bits, not f16 x f16 -> f32: use fma",),
        ),
        (
            "bytes", "8, 8, 8", ROWS, "coopmat 8x8x8", LAVAPIPE,
            ("CM-29: lavapipe has no cooperative matrices of u8 x s8 -> s32; it has f16",),
        ),
        (
            "matrices", "16, 16, 16", ROWS, "coopmat 16x16x16", LAVAPIPE,
            ("no cooperative matrices 16x16x16 of f16 x f16 -> f32; it has 8x8x8",),
        ),
        (
            "matrices", "4, 2, 8", STAGED, FMA, replace(LAVAPIPE, max_grid=(9, 9, 9)),
            ("16 workgroups in x, but lavapipe allows 9", "12 workgroups in y"),
        ),
        # A and the result have the same number of bytes, B has fewer.
        (
            "matrices", "4, 2, 8", STAGED, FMA,
            replace(LAVAPIPE, storage_buffer_max_bytes=48 * 64 * 2), (),
        ),
        (
            "matrices", "4, 2, 8", STAGED, FMA,
            replace(LAVAPIPE, storage_buffer_max_bytes=48 * 64 * 2 - 1),
            ("A has 6144 bytes", "the result has 6144 bytes, but a storage buffer of lavapipe"),
        ),
        ("open_rows", "4, 2, 8", STAGED, FMA, replace(LAVAPIPE, storage_buffer_max_bytes=300), ()),
        (
            "matrices", "4, 2, 8", STAGED + ", stages = 2", FMA,
            replace(LAVAPIPE, held_registers=4), (),
        ),
        (
            "matrices", "4, 2, 8", STAGED + ", stages = 2", FMA,
            replace(LAVAPIPE, held_registers=3),
            ("results and staged values need 4 registers of an invocation, but lavapipe has 3",),
        ),
        ("matrices", "4, 2, 8", STAGED, FMA, replace(LAVAPIPE, held_registers=1), ()),
    ],
)  # fmt: skip
def test_instructions_and_limits_of_a_target(
    operation: str,
    tile: str,
    rest: str,
    instruction: str,
    target: Target,
    expected: tuple[str, ...],
    plan_product: PlanProduct,
):
    planned = plan_product(operation, tile, "1, 1", rest, instruction, target)
    expect(planned, *expected)


def test_fma_divides_a_tile_only_by_rows_and_columns(plan_product: PlanProduct):
    planned = plan_product("matrices", "4, 2, 8", "1, 1, 2", STAGED, FMA)
    expect(planned, "fma does not support slices of K")


def test_fragments_leave_the_registers_that_a_driver_needs(plan_product: PlanProduct):
    def plan(free: int) -> Plan:
        target = replace(LAVAPIPE, registers=Registers(2000 + free, 2000, Fit("", "")))
        return plan_product("matrices", "8, 8, 8", "1, 1", ROWS, "coopmat 8x8x8", target)

    needed = 64 * 4 + 2 * 64 * 2
    expect(plan(needed))
    expect(plan(needed - 1), f"fragments need {needed} bytes of a subgroup's registers")


@pytest.mark.parametrize(
    ("subgroups", "result", "target", "expected"),
    [
        *(("1, 1", name, LAVAPIPE, ()) for name in ("rows", "components", "elements")),
        ("1, 1, 2", "rows", LAVAPIPE, ("result = rows does not support slices of K",)),
        ("1, 1, 2", "components", LAVAPIPE, ()),
        (
            "1, 1", "components", replace(LAVAPIPE, component_map=()),
            ("lavapipe lists no component positions for 8 x 8 results of 32 bits",),
        ),
        (
            "1, 1", "elements", drop_features(LAVAPIPE, PER_ELEMENT),
            (f"result = elements, but lavapipe does not list {PER_ELEMENT}: use",),
        ),
        ("1, 1", "fragments", drop_features(LAVAPIPE, PER_ELEMENT), ()),
    ],
)  # fmt: skip
def test_results(
    subgroups: str,
    result: str,
    target: Target,
    expected: tuple[str, ...],
    plan_product: PlanProduct,
):
    rest = f"{ROWS}, result = {result}"
    planned = plan_product("matrices", "16, 16, 32", subgroups, rest, "coopmat 8x8x8", target)
    expect(planned, *expected)


def test_results_by_rows_consist_of_whole_fragments(plan_product: PlanProduct):
    planned = plan_product("uneven", "8, 8, 8", "1, 1", "a = direct, b = direct, result = rows")
    expect(planned, "result = rows: 12 x 20 is not a multiple of 8 x 8")


@pytest.mark.parametrize(
    ("tile", "paths", "target", "expected"),
    [
        ("16, 16, 128", "a = staged<vector = 8>, b = direct", H200, ()),
        ("16, 16, 32", "a = staged<vector = 8>, b = direct", H200, ()),
        ("16, 16, 128", "a = staged<vector = 8>, b = direct<layout = panels>", H200, ()),
        ("16, 16, 128", "a = direct<layout = rows>, b = direct", H200, ()),
        (
            "16, 16, 16", "a = staged<vector = 8>, b = direct", H200,
            ("K = 16 of a subgroup's tile is not a multiple of the 32 elements",),
        ),
        (
            "16, 16, 128", "a = direct, b = direct", H200,
            ("a = direct, but the operand is read through windows", "needs a = staged, by rows"),
        ),
        (
            "16, 16, 128", "a = staged<vector = 8>, b = direct", load("nvidia-ada"),
            ("needs component positions, which nvidia-ada does not list",),
        ),
        ("16, 16, 64", "a = staged<vector = 8>, b = staged<vector = 8>", H200, ()),
        (
            "16, 16, 48", "a = staged<vector = 8>, b = staged<vector = 8>", H200,
            ("K = 48 of a tile is not a multiple of the 32 elements that are dequantized together: "
            "use 64",),
        ),
        # B's size is that of its larger tensor, the bytes.
        (
            "16, 16, 128", "a = staged<vector = 8>, b = direct",
            replace(H200, storage_buffer_max_bytes=16 * 128 * 2), (),
        ),
        (
            "16, 16, 128", "a = staged<vector = 8>, b = direct",
            replace(H200, storage_buffer_max_bytes=16 * 64 - 1),
            ("A has 4096 bytes", "B has 1024 bytes", "the result has 1024 bytes"),
        ),
    ],
)  # fmt: skip
def test_dequantized_operands(
    tile: str,
    paths: str,
    target: Target,
    expected: tuple[str, ...],
    nibbles: LinalgStructuredOperation,
    plan_product: PlanProduct,
):
    planned = plan_product(nibbles, tile, "1, 1", paths, "coopmat 16x16x16", target)
    expect(planned, *expected)


def test_rows_in_parts_that_are_apart_in_memory_are_not_read_in_units(plan_product: PlanProduct):
    """A is a tensor of 4 blocks along K, and each block has 32 elements of all rows."""
    text = (INPUTS / "unpacked-fragments.mlir").read_text()
    for old, new in (
        ("%x: tensor<16x128xf16>", "%x: tensor<4x16x2x16xf16>"),
        ("ins(%x, %rows : tensor<16x128xf16>, tensor<16x128xf16>)",
         "ins(%x, %w : tensor<4x16x2x16xf16>, tensor<16x4x2x16xf16>)"),
        ("(m, n, k) -> (m, k)", "(m, n, b, h, j) -> (b, m, h, j)"),
        ("(m, n, k) -> (n, k)", "(m, n, b, h, j) -> (n, b, h, j)"),
        ("(m, n, k) -> (m, n)", "(m, n, b, h, j) -> (m, n)"),
        ('"parallel", "reduction"]', '"parallel", "reduction", "reduction", "reduction"]'),
    ):  # fmt: skip
        assert old in text
        text = text.replace(old, new)
    product = find_scheduled_in(text, "linalg-to-contraction,form-dispatches")
    paths = "a = direct<layout = rows>, b = direct"
    planned = plan_product(product, "16, 16, 128", "1, 1", paths, "coopmat 16x16x16", H200)
    expect(planned, "rows of a that are contiguous along K and not converted: use staged")


@pytest.mark.parametrize(
    ("tile", "subgroups", "rest", "instruction", "expected"),
    [
        ("32, 64, 32", "1, 2", "", "coopmat 16x16x16", ()),
        ("32, 64, 32", "1, 1", ", result = components", "coopmat 16x16x16", ()),
        ("32, 16, 32", "1, 1", ", operands = ba", "coopmat 16x16x16", ()),
        (
            "64, 64, 32", "1, 1", ", operands = ba", "coopmat 16x16x16",
            ("results of several parts need a single fragment along N if operands = ba",),
        ),
        (
            "32, 64, 32", "1, 4", "", "coopmat 16x16x16",
            ("2 parts do not divide a subgroup's 1 fragments along N",),
        ),
        (
            "32, 64, 32", "1, 2", "", "coopmat 16x8x16",
            ("a part of the result has 16 columns, but a fragment 8",),
        ),
        (
            "32, 64, 32", "1, 2", ", result = rows", "coopmat 16x16x16",
            ("results of several parts do not support result = rows", "rows are not a multiple"),
        ),
    ],
)  # fmt: skip
def test_results_of_several_parts(
    tile: str,
    subgroups: str,
    rest: str,
    instruction: str,
    expected: tuple[str, ...],
    halves: LinalgStructuredOperation,
    plan_product: PlanProduct,
):
    paths = ROWS + rest
    planned = plan_product(halves, tile, subgroups, paths, instruction, H200)
    expect(planned, *expected)


def test_fma_has_no_results_of_several_parts(
    halves: LinalgStructuredOperation, plan_product: PlanProduct
):
    planned = plan_product(halves, "4, 8, 32", "1, 1", STAGED, FMA, H200)
    expect(planned, "fma does not support results of several parts: use coopmat")


def test_every_value_that_does_not_fit_has_its_problem(plan_product: PlanProduct):
    rest = "a = staged<vector = 16>, b = staged<vector = 3>, stages = 3"
    planned = plan_product("matrices", "8, 8, 16", "1, 1", rest)
    expect(planned, "a: vector = 16", "b: vector = 3", "stages = 3 exceeds 2")
