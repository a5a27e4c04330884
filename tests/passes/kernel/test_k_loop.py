"""
Settings of a schedule for the K loop and the workgroups' order do not change results.

Covers: kernel/__init__, kernel/contraction_to_cooperative_matrix, kernel/kernel_body.
"""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.ops import FillOp
from xdsl.passes import PassPipeline
from xdsl.universe import Universe
from xdsl.utils.exceptions import PassFailedException

from xdsl_spirv.compare.check import check
from xdsl_spirv.compiler import compile_module
from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.passes.analysis.contraction import contraction_of
from xdsl_spirv.passes.schedule.contraction_candidates import candidates_of
from xdsl_spirv.runtime import run
from xdsl_spirv.runtime.modules import context, parse_text
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.targets import load
from xdsl_spirv.testing.workloads import Workload

TILE = "workgroup_tile = [16, 16, 16], subgroups = [2, 1], instruction = coopmat 8x8x8"
ONE, TWO = "staged<padding = 8>", "staged<padding = 8, buffers = 2>"
AHEAD = "direct<ahead = 1>"

SCHEDULES = {
    "two buffers": f"a = {TWO}, b = {TWO}, stages = 2",
    "two buffers beside a direct operand": f"a = {TWO}, b = direct, stages = 2",
    "fragments read ahead": f"a = {AHEAD}, b = {AHEAD}",
    "one operand ahead": f"a = direct, b = {AHEAD}, raster = columns<2>",
    "both waiting in registers": f"a = {ONE}, b = {AHEAD}, stages = 2, raster = rows<2>",
    "all of it": f"a = {TWO}, b = {AHEAD}, stages = 2, raster = rows<3>",
}

DEPTHS = {"one tile": 12, "two tiles": 32, "three tiles": 41}
"""Sizes of K. A tile has a depth of 16."""


def _compiled(workload: Workload, schedule: str, target: str) -> Program:
    before, _, after = workload.text().rpartition("{\n  ^bb0")
    tile = "" if "workgroup_tile" in schedule else f"{TILE}, "
    attribute = f"#schedule.contraction<{tile}{schedule}>"
    ctx = context()
    text = f"{before}attrs = {{schedule = {attribute}}} {{\n  ^bb0{after}"
    module = parse_text(text, "workload", ctx)
    passes = Universe.get_multiverse().all_passes
    PassPipeline.parse_spec(passes, "linalg-to-contraction,form-dispatches").apply(ctx, module)
    return compile_module(module, target)


def _check(workload: Workload, schedule: str, target: str) -> None:
    program = _compiled(workload, schedule, target)
    checks = Checks.all()
    inputs = workload.inputs(np.random.default_rng(3))
    results = run(program, inputs, checks=checks)
    assert all(each.passed for each in check(program, inputs, results))
    assert not checks.report, str(checks.report)


@pytest.mark.parametrize(
    "depth",
    [
        pytest.param(depth, id=name, marks=[pytest.mark.long] * (name == "two tiles"))
        for name, depth in DEPTHS.items()
    ],
)
@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
def test_every_form_of_the_loop_computes_the_same(schedule: str, depth: int):
    sizes = {"m": 70, "n": 39, "k": depth}
    _check(Workload("matmul", sizes, ("m", "k"), ("k", "n"), ("m", "n")), schedule, "lavapipe")


SLICES = {
    "one fragment of eight slices": ("[8, 8, 64], subgroups = [1, 1, 8]", f"a = {ONE}, b = direct"),
    "a grid in slices": ("[16, 32, 32], subgroups = [2, 2, 2]", f"a = {ONE}, b = {AHEAD}"),
    "sums exchanged in rounds": ("[64, 64, 32], subgroups = [1, 1, 4]", f"a = {ONE}, b = direct"),
    "rounds in what room is left": (
        "[32, 32, 192], subgroups = [1, 1, 4]",
        f"a = {ONE}, b = direct",
    ),
    "fragments finished by both": (
        "[8, 24, 32], subgroups = [1, 1, 2]",
        f"a = {TWO}, b = direct<ahead = 2>, stages = 2",
    ),
}


@pytest.mark.parametrize(
    "accumulate",
    [
        pytest.param(False, id="zeros", marks=pytest.mark.long),
        pytest.param(True, id="initial values"),
    ],
)
@pytest.mark.parametrize(("tile", "paths"), SLICES.values(), ids=SLICES)
def test_slices_of_k_are_added_up(tile: str, paths: str, accumulate: bool):
    sizes = {"m": 21, "n": 39, "k": 77}
    workload = Workload("matmul", sizes, ("m", "k"), ("k", "n"), ("m", "n"), accumulate=accumulate)
    schedule = f"workgroup_tile = {tile}, instruction = coopmat 8x8x8, {paths}"
    _check(workload, schedule, "lavapipe")


EIGHT = "staged<padding = 8, vector = 8>"
EIGHT_TWICE = "staged<padding = 8, vector = 8, buffers = 2>"

SUMS = {
    "in A's": (f"a = {EIGHT}, b = {EIGHT}", "[32, 32, 192], subgroups = [1, 1, 4]", 2),
    "in one of A's buffers": (
        f"a = {EIGHT_TWICE}, b = direct, stages = 2",
        "[96, 32, 64], subgroups = [1, 1, 8]",
        2,
    ),
    "in B's": (f"a = direct, b = {EIGHT}", "[32, 64, 192], subgroups = [1, 1, 4]", 1),
    "beside them": (f"a = {EIGHT}, b = {EIGHT}", "[16, 16, 64], subgroups = [1, 1, 4]", 3),
}
"""
Maps the place of the partial sums to operand schedules, tile of a workgroup, and number of
Workgroup variables.
"""


@pytest.mark.parametrize(
    "accumulate",
    [
        pytest.param(False, id="zeros"),
        pytest.param(True, id="initial values", marks=pytest.mark.long),
    ],
)
@pytest.mark.parametrize(("paths", "tile", "variables"), SUMS.values(), ids=SUMS)
def test_sums_of_slices_take_the_place_of_a_tile(
    paths: str, tile: str, variables: int, accumulate: bool
):
    sizes = {"m": 40, "n": 72, "k": 200}
    workload = Workload("matmul", sizes, ("m", "k"), ("k", "n"), ("m", "n"), accumulate=accumulate)
    schedule = f"workgroup_tile = {tile}, instruction = coopmat 8x8x8, {paths}"
    program = _compiled(workload, schedule, "lavapipe")
    (kernel,) = (code.text for name, code in program.code.items() if "pack" not in name)
    assert sum(", Workgroup>" in line for line in _variables(kernel)) == variables
    _check(workload, schedule, "lavapipe")


def _variables(kernel: str) -> list[str]:
    return [line for line in kernel.splitlines() if "spirv.GlobalVariable" in line]


@pytest.mark.parametrize("b", [ONE, "direct"], ids=["staged", "direct"])
@pytest.mark.parametrize("turned", [False, True], ids=["rows", "turned"])
def test_a_partial_tile_of_k_is_multiplied_after_a_long_loop(b: str, turned: bool):
    operands = (("k", "m"), ("n", "k")) if turned else (("m", "k"), ("k", "n"))
    workload = Workload("matmul", {"m": 35, "n": 24, "k": 70}, *operands, ("m", "n"))
    _check(workload, f"a = {ONE}, b = {b}", "lavapipe")


@pytest.mark.parametrize("turned", [False, True], ids=["rows", "turned"])
def test_elements_beyond_an_operand_are_packed_as_zeros(turned: bool):
    operands = (("k", "m"), ("n", "k")) if turned else (("m", "k"), ("k", "n"))
    workload = Workload("matmul", {"m": 8, "n": 16, "k": 96}, *operands, ("m", "n"))
    tile = "workgroup_tile = [16, 64, 64], subgroups = [1, 2], instruction = coopmat 8x8x8"
    _check(workload, f"{tile}, a = direct, b = direct", "lavapipe")


def test_elements_outside_of_an_operand_do_not_affect_results():
    workload = Workload(
        "matmul", {"m": 19, "n": 21, "k": 70}, ("m", "k"), ("k", "n"), ("m", "n"), "f16 -> f32"
    )
    program = _compiled(workload, f"a = {ONE}, b = {ONE}", "lavapipe")
    inputs = workload.inputs(np.random.default_rng(3))
    inputs["A"][0, 0] = inputs["B"][0, 0] = np.inf
    (result,) = run(program, inputs).values()
    assert np.isfinite(result[1:, 1:]).all()
    assert not np.isfinite(result[0]).any()
    assert not np.isfinite(result[:, 0]).any()


PANELS = "staged<padding = 16, vector = 8, buffers = 2, ahead = 1, layout = panels>"

PIPELINES = {
    "one tile ahead": ("stages = 2", 48),
    "two ahead, stored first": ("stages = 3, first = store", 72),
    "three ahead": ("stages = 4", 60),
    "four ahead, more than there are": ("stages = 5, first = store", 30),
    "no loop": ("stages = 3", 12),
}


@pytest.mark.parametrize(("stages", "depth"), PIPELINES.values(), ids=PIPELINES)
def test_fragments_of_a_tile_are_loaded_before_the_tile_before_is_multiplied(
    stages: str, depth: int
):
    sizes = {"m": 21, "n": 39, "k": depth}
    operands = ("m", "k"), ("n", "k")
    workload = Workload("matmul", sizes, *operands, ("m", "n"), "s8 -> s32")
    _check(workload, f"a = {PANELS}, b = {PANELS}, {stages}", "lavapipe")


FRAGMENTS = "staged<vector = 8, layout = fragments>"
TWICE = "staged<vector = 8, buffers = 2, layout = fragments>"

STAGED_FRAGMENTS = {
    "beside direct ones": f"a = {FRAGMENTS}, b = {AHEAD}, stages = 2, first = store",
    "two buffers": f"a = {TWICE}, b = {AHEAD}, stages = 2",
    "both": f"a = {FRAGMENTS}, b = {FRAGMENTS}",
    "slices of K": "workgroup_tile = [16, 16, 32], subgroups = [2, 1, 2], "
    f"instruction = coopmat 8x8x8, a = {FRAGMENTS}, b = direct",
}


@pytest.mark.parametrize("schedule", STAGED_FRAGMENTS.values(), ids=STAGED_FRAGMENTS)
def test_fragments_pass_through_workgroup_memory(schedule: str):
    sizes = {"m": 21, "n": 39, "k": 41}
    workload = Workload("matmul", sizes, ("m", "k"), ("k", "n"), ("m", "n"))
    _check(workload, schedule, "lavapipe")


def test_fragments_of_two_words_pass_through_workgroup_memory():
    workload = Workload("matmul", {"m": 9, "n": 7, "k": 11}, ("m", "k"), ("k", "n"), ("m", "n"))
    schedule = "workgroup_tile = [16, 8, 8], subgroups = [1, 1], instruction = coopmat 16x8x8"
    staged = "staged<vector = 4, layout = fragments>"
    _check(workload, f"{schedule}, a = {staged}, b = direct", "nvidia-h200")


@pytest.mark.parametrize("types", ["f16 -> f32", "f16 -> f16", "s8 -> s32"])
@pytest.mark.parametrize("tile", ["[16, 16, 16]", "[32, 48, 16]"])
def test_results_are_stored_row_by_row(types: str, tile: str):
    workload = Workload(
        "matmul", {"m": 40, "n": 48, "k": 20}, ("m", "k"), ("k", "n"), ("m", "n"), types
    )
    schedule = f"workgroup_tile = {tile}, subgroups = [2, 1], instruction = coopmat 8x8x8"
    _check(workload, f"{schedule}, a = {ONE}, b = {ONE}, result = rows", "lavapipe")


COMPONENTS = {
    "edges": ("[16, 32, 16], subgroups = [1, 2]", 40, False),
    "every fragment, as rows are not aligned": ("[16, 32, 16], subgroups = [1, 2]", 39, False),
    "slices of K, initial values": ("[16, 16, 32], subgroups = [1, 2, 2]", 36, True),
}


@pytest.mark.parametrize(("tile", "n", "accumulate"), COMPONENTS.values(), ids=COMPONENTS)
def test_fragments_beyond_the_result_are_stored_by_components(tile: str, n: int, accumulate: bool):
    sizes = {"m": 21, "n": n, "k": 33}
    operands = ("m", "k"), ("k", "n"), ("m", "n")
    workload = Workload("matmul", sizes, *operands, "f16 -> f32", accumulate=accumulate)
    schedule = f"workgroup_tile = {tile}, instruction = coopmat 8x8x8, a = {ONE}, b = direct"
    _check(workload, f"{schedule}, result = components", "lavapipe")


@pytest.mark.parametrize(("n", "together"), [(40, 2), (39, 1)], ids=["even", "odd"])
@pytest.mark.parametrize("types", ["f16 -> f32", "f16 -> f16"])
def test_adjacent_components_are_stored_together(types: str, n: int, together: int):
    sizes = {"m": 21, "n": n, "k": 24}
    workload = Workload("matmul", sizes, ("m", "k"), ("k", "n"), ("m", "n"), types)
    tile = "workgroup_tile = [32, 32, 16], subgroups = [1, 1], instruction = coopmat 16x16x16"
    schedule = f"{tile}, a = {ONE}, b = {ONE}, result = components"
    program = _compiled(workload, schedule, "nvidia-h200")
    (code,) = program.code.values()
    element = types.rpartition(" ")[2]
    assert (f"vector<{together}x{element}>, StorageBuffer" in code.text) == (together > 1)
    _check(workload, schedule, "nvidia-h200")


def test_fragments_of_a_result_smaller_than_a_tile_are_guarded():
    sizes = {"m": 8, "n": 64, "k": 16}
    workload = Workload("matmul", sizes, ("m", "k"), ("k", "n"), ("m", "n"))
    program = _compiled(workload, f"a = {ONE}, b = {ONE}", "lavapipe")
    (code,) = program.code.values()
    # A tile has 16 rows: one of a subgroup's two fragments is in bounds and stored once.
    assert code.text.count("CooperativeMatrixStore") == 2


@pytest.mark.parametrize(
    ("sizes", "result"),
    [
        ((1000, 1024, 512), "components"),
        ((1024, 1004, 512), "components"),
        ((1008, 1008, 512), "fragments"),
        ((1024, 1001, 512), "fragments"),
        ((40, 1000, 512), "fragments"),
    ],
    ids=["rows", "columns", "whole fragments", "rows are not aligned", "all are edges"],
)
def test_edges_are_stored_as_the_target_prefers(sizes: tuple[int, int, int], result: str):
    text = Workload(
        "matmul", dict(zip("mnk", sizes, strict=True)), ("m", "k"), ("k", "n"), ("m", "n")
    ).text()
    ctx = context()
    module = parse_text(text, "workload", ctx)
    passes = Universe.get_multiverse().all_passes
    PassPipeline.parse_spec(passes, "linalg-to-contraction,form-dispatches").apply(ctx, module)
    contraction = next(
        contraction_of(op)
        for op in module.walk()
        if isinstance(op, LinalgStructuredOperation) and not isinstance(op, FillOp)
    )
    candidates = next(candidates_of(contraction, load("nvidia-h200")))
    schedules = (candidate.schedule for candidate in candidates)
    ways = {s.result.data for s in schedules if s.tile == (64, 128, 256) and s.slices == 2}
    assert result in ways
    assert ("components" in ways) == (result == "components")


WRONG = {
    "result = rows: 21 x 39": f"a = {ONE}, b = {ONE}, result = rows",
    "use staged for both": f"a = {PANELS}, b = direct, stages = 2",
    "buffers = 2 of both operands": f"a = {PANELS}, b = {TWO}, stages = 2",
    "stages = 3 exceeds 2": f"a = {ONE}, b = {ONE}, stages = 3",
    "vector = 8 and padding = 0": "a = staged<vector = 4, layout = fragments>, b = direct",
}


@pytest.mark.parametrize(("message", "schedule"), WRONG.items(), ids=WRONG)
def test_schedules_that_do_not_fit_are_refused(message: str, schedule: str):
    sizes = {"m": 21, "n": 39, "k": 48}
    workload = Workload("matmul", sizes, ("m", "k"), ("k", "n"), ("m", "n"))
    with pytest.raises(PassFailedException, match=message):
        _compiled(workload, schedule, "lavapipe")


def test_groups_of_workgroups_cover_a_batch():
    workload = Workload(
        "batch_matmul",
        {"b": 2, "m": 50, "n": 20, "k": 16},
        ("b", "m", "k"),
        ("b", "k", "n"),
        ("b", "m", "n"),
    )
    _check(workload, f"a = {ONE}, b = {ONE}, raster = rows<3>", "lavapipe")
