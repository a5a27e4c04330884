"""Drivers' statistics give estimates of schedules, and candidates must fit the registers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from xdsl_spirv.compiler.api import compile
from xdsl_spirv.passes.schedule.contraction_candidates import candidates_of
from xdsl_spirv.passes.schedule.plan import Plan
from xdsl_spirv.passes.schedule.space import candidates
from xdsl_spirv.passes.schedule.tuned import parse_schedule
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.modules import parse_text
from xdsl_spirv.runtime.vulkan.compilers import list_drivers
from xdsl_spirv.runtime.vulkan.statistics import Code
from xdsl_spirv.targets import load
from xdsl_spirv.testing.driver_cases import MATMUL
from xdsl_spirv.tools.main import main
from xdsl_spirv.tools.tune import matmul
from xdsl_spirv.tools.tuning.candidates import Source
from xdsl_spirv.tools.tuning.kinds import pricing_of
from xdsl_spirv.tools.tuning.results import Outcome, write_table
from xdsl_spirv.tools.tuning.static import cycles_of, loop_share
from xdsl_spirv.tools.tuning.together import sources_of

LOOPS = {
    "RADV": "BB0:\n\ts_a\nBB1:\n\tv_b\n\tv_c\n\ts_cbranch_scc0 BB1 ; bfa1\nBB5:\n\ts_endpgm",
    "ANV": "mov\nadd\nLABEL3:\nmul\nbreak(16) JIP: LABEL1\nLABEL1:\nwhile(16) JIP: LABEL3\nsend",
    "NVK": "block.u 0 L2 [] -> {\nmov\nblock.u 1 L1 [0, 1] -> {\nffma\nffma\nbra pT L1\nexit // L1",
    "PanVK": "MOV r0\n\n FMA r1\n BRANCHZ.eq.reconverge 0x0, offset:-2\n\n STORE r1, offset:-2",
    "Turnip": "mov\nadd\nl9:\nmad\nbr p0.x, #l12\njump #l9\nl12:\nend",
}


@pytest.mark.parametrize("driver", LOOPS)
def test_loops_are_found_in_every_driver_s_machine_code(driver: str):
    lines = LOOPS[driver].splitlines()
    looped = {"RADV": 4, "ANV": 5, "NVK": 4, "PanVK": 2, "Turnip": 4}[driver]
    assert loop_share(LOOPS[driver]) == looped / len(lines)


def test_estimates_use_the_real_number_of_iterations():
    """RADV assumes 8 iterations of a loop; the estimate is corrected to the real number."""
    code = Code("k", 0.1, ({"Latency": 900},), {"Assembly": LOOPS["RADV"]})
    assert cycles_of(code, 8) == 900
    assert cycles_of(code, 1) == 200
    assert cycles_of(code, 32) == 3300


def source(target: str) -> Source:
    return sources_of(matmul("1024x1024x1024:f16->f32"), target, (), print)[0]


def test_candidates_that_would_spill_are_refused_with_the_number():
    """ANV on Battlemage spills 170 values of the refused candidate."""
    pricing = pricing_of(source("intel-xe2"))
    text = (
        "#schedule.contraction<workgroup_tile = [128, 128, 16], subgroups = [{}, 4], instruction = "
        "coopmat 8x16x16, a = staged<padding = 8, vector = 8>, b = staged<padding = 8, vector = 8>,"
        " raster = rows>"
    )
    spilling, fitting = (
        list(Plan(pricing.contraction, parse_schedule(text.format(n)), pricing.target).problems())
        for n in (2, 4)
    )
    assert fitting == []
    assert len(spilling) == 1
    assert "fragments need 11264 bytes" in spilling[0]
    assert "(8192, of which the driver needs 1536)" in spilling[0]
    listed = candidates(pricing.contraction, pricing.target, 24)
    assert len(listed) == 24
    needed = [Plan(pricing.contraction, s, pricing.target).fragment_bytes for s in listed]
    assert max(needed) <= 6656


@pytest.mark.parametrize("types", ["f32->f32", "f16->f32", "i8->i32"])
def test_tiles_along_k_are_no_deeper_than_a_target_says(types: str):
    """Deeper tiles would spill on PanVK, which keeps an address per vector in registers."""
    [one] = sources_of(matmul(f"1024x1024x1024:{types}"), "arm-mali", (), print)
    pricing = pricing_of(one)
    tiles = {
        (candidate.path, candidate.schedule.tile[2])
        for found in candidates_of(pricing.contraction, pricing.target)
        for candidate in found
    }
    depth = load("arm-mali").scalar_depth
    assert depth == 4
    assert tiles <= {("fma", depth), ("dot", 4 * depth)}


def test_a_tile_that_waits_to_be_staged_fits_the_held_registers():
    """
    A schedule prefetches a tile only if the registers suffice. On Xe2, a prefetched tile spilled 6
    values.
    """
    sizes = {"m": 24, "n": 120, "k": 120, "a": "f32", "c": "f32", "zero": "0.0"}
    module = parse_text(MATMUL.format(**sizes))
    for target, ahead in (("intel-xe2", False), ("amd-rdna3", True)):
        [layer] = compile(module, target).layers
        assert ("stages = 2" in layer.schedule) == ahead


def test_sums_of_few_rows_fit_the_held_registers():
    """An invocation sums 2 x 8 results, because PanVK spilled 69 values for 8 x 8."""
    sizes = {"m": 8, "n": 4096, "k": 4096, "a": "f16", "c": "f32", "zero": "0.0"}
    [layer] = compile(parse_text(MATMUL.format(**sizes)), "arm-mali").layers
    assert layer.schedule.startswith("#schedule.rows<rows = 2, columns = 8,")
    assert load("arm-mali").held_registers == 16


def test_an_estimate_leaves_measured_entries(tmp_path: Path):
    def make_outcomes(estimated: bool, best: float) -> list[Outcome]:
        return [
            Outcome("k", name, "d", "1", "ok", took, 2.0, 9, again=took / 2.0, estimated=estimated)
            for name, took in (("default", 2.0), ("other", best))
        ]

    path = tmp_path / "table.json"
    assert "estimated" not in write_table(path, "t", {"k": make_outcomes(False, 1.0)})["k"]
    measured = path.read_text()
    write_table(path, "t", {"k": make_outcomes(True, 0.5)})
    assert path.read_text() == measured
    path.unlink()
    assert write_table(path, "t", {"k": make_outcomes(True, 1.9)}) == {}
    assert write_table(path, "t", {"k": make_outcomes(True, 1.0)})["k"]["estimated"] is True
    assert write_table(path, "t", {"k": make_outcomes(False, 1.0)})["k"]["microseconds"] == 1.0


def _radv() -> bool:
    try:
        return any(driver.device == "amd:navi31" for driver in list_drivers()[0])
    except ProgramError:
        return False


@pytest.mark.skipif(not _radv(), reason="no drivers: scripts/fetch_drivers.py")
def test_tune_estimates_by_a_driver(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    table = tmp_path / "table.json"
    command = ["tune", "--driver", "amd:navi31", "--contraction", "256x256x256:f16->f32"]
    assert main([*command, "--candidates", "3", "-o", str(table), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    [row] = data["contractions"]
    assert row["statuses"]["ok"] == row["candidates"] == 3
    [tried] = data["outcomes"].values()
    assert all(one["estimated"] and one["device"] == "amd:navi31" for one in tried)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "no target is given"),
        (
            ["--driver", "amd:navi31", "--device", "vulkan"],
            "--driver only estimates times, so it cannot be combined with --device",
        ),
        (
            ["--static", "amd:navi31", "--replay", "x.db"],
            "--driver only estimates times, so it cannot be combined with --replay",
        ),
    ],
)
def test_tune_refuses_options_that_exclude_each_other(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str]
):
    assert main(["tune", "--contraction", "64x64x64:f16->f32", *options]) == 1
    assert said in capsys.readouterr().err
